"""What is known of a case's scatter beforehand, and what it is worth."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from comparing import CPU, busy, comparison_of, duet, duets
from duetbench.core.model import Verdict
from duetbench.judge.priors import FEWEST, MOST, SHIPPED, TOGETHER, Priors, Variance, fit
from duetbench.judge.samples import CaseDuets
from duetbench.judge.sequential_test import SequentialTest, judge
from duetbench.judge.statistics import Prior
from duetbench.store import files
from duetbench.store.comparison import CaseComparison, Comparison
from synthetic import MACHINE

CASE, OTHER = "x/a/py3.14", "x/b/py3.14"
NONE = Priors()


def scattered(spread: float, count: int = 6, middle: float = 0.0) -> list[float]:
    return [middle + spread * (-1) ** n for n in range(count)]


def stored(
    spread: float, *names: str, machine: str = MACHINE.id, version: int = 5, count: int = 6
) -> Comparison:
    """A comparison of cases whose CPU ratios have a standard deviation of `spread`."""
    logs = scattered(spread * math.sqrt(5 / 6), count)
    cases = [
        CaseComparison(case=busy(name), because="", duets=tuple(duets(name, CPU, logs)))
        for name in names or [CASE]
    ]
    made = MACHINE.model_copy(update={"id": machine})
    return comparison_of(*cases, machine=made, method={"version": version})


def decided(logs: Sequence[float], priors: Priors) -> Verdict:
    test = SequentialTest({CASE: CaseDuets(busy(CASE))}, prior=priors.of)
    for one in duets(CASE, CPU, logs):
        test.add(CASE, one)
    test.close()
    return next(one.verdict for one in judge(test)[CASE] if one.metric == CPU)


def test_equal_variances_are_worth_all_their_duets_up_to_a_limit() -> None:
    """Of two degrees of freedom the mean log variance is the true one less Euler's 0.5772."""
    few = fit([Variance(1e-4, 2)] * 3)
    assert few is not None
    assert few.freedom == pytest.approx(6)
    assert few.sd == pytest.approx(0.01 * math.exp(0.577216 / 2), rel=1e-5)
    many = fit([Variance(1e-4, 2)] * 30)
    assert many is not None
    assert many.freedom == MOST
    assert fit([Variance(1e-4, 2)] * (FEWEST - 1)) is None


def test_variances_that_differ_are_worth_less() -> None:
    """True variances from a scaled inverse chi-square of 5: Smyth's moments give it back."""
    source = np.random.default_rng(20261126)
    true = 1e-4 * 5 / source.chisquare(5, 4000)
    prior = fit([Variance(v * source.chisquare(9) / 9, 9) for v in true])
    assert prior is not None
    assert prior.freedom == pytest.approx(5, rel=0.1)
    assert prior.sd == pytest.approx(0.01, rel=0.03)


def test_cases_tell_each_other_how_much_comparisons_differ() -> None:
    """Two comparisons of one case are too few for that, and enough beside those of another."""
    assert (CASE, CPU, False) not in Priors.learned(MACHINE.id, [stored(0.01)] * 2).by_kind
    both = Priors.learned(MACHINE.id, [stored(0.01, CASE, OTHER)] * 2)
    prior = both.by_kind[CASE, CPU, False]
    assert (prior.sd, prior.freedom) == pytest.approx((0.011125, 10), rel=1e-3)


def test_comparisons_of_three_duets_say_nothing_of_their_scatter() -> None:
    """The simulations of priors knew variances of four duets or more."""
    known = {n: Priors.learned(MACHINE.id, [stored(0.01, count=n)] * 4).by_kind for n in (3, 4)}
    assert [bool(by_kind) for by_kind in known.values()] == [False, True]


def test_the_narrowest_kind_that_is_known_is_taken() -> None:
    known = Priors.learned(MACHINE.id, [stored(0.01)] * 3)
    mine, its_kin = CaseDuets(busy(CASE)), CaseDuets(busy(OTHER))
    for duets_ in (mine, its_kin):
        prior = known.of(duets_, CPU, [])
        assert prior is not None
        assert prior.sd == pytest.approx(0.01, rel=0.15)
    elsewhere = CaseDuets(busy("x/c/py3.14t", python="3.14t"))
    assert known.of(elsewhere, CPU, []) == SHIPPED[CPU]
    assert str(known) == "3 comparisons of this machine"
    assert str(NONE) == "shipped"


@pytest.mark.parametrize(("machine", "version"), [("another", 5), (MACHINE.id, 2)])
def test_other_machines_and_older_methods_say_nothing(machine: str, version: int) -> None:
    every = [stored(0.01, machine=machine, version=version)] * 5
    assert Priors.learned(MACHINE.id, every) == NONE


def test_many_cases_of_a_comparison_know_each_other() -> None:
    others = []
    for number in range(TOGETHER):
        other = CaseDuets(busy(f"x/e{number}/py3.14"))
        for one in duets(other.case.id, CPU, scattered(0.05)):
            other.add(one)
        others.append(other)
    mine = CaseDuets(busy(CASE))
    mine.add(duet(CASE))
    prior = NONE.of(mine, CPU, others)
    assert prior is not None
    # The root of 6/5 of 5 %, and of five degrees of freedom exp(0.2131 / 2) more.
    assert prior.sd == pytest.approx(0.05477 * 1.1125, rel=1e-3)
    assert NONE.of(mine, CPU, others[1:]) == SHIPPED[CPU]


def known_of(spread: float, others: Sequence[CaseDuets], **case: Any) -> Prior | None:
    mine = CaseDuets(busy(CASE, **case))
    for one in duets(CASE, CPU, scattered(spread)):
        mine.add(one)
    return NONE.of(mine, CPU, others)


def test_cases_on_other_cores_scatter_at_a_level_of_their_own() -> None:
    """Of five cases at 1 % and five at 10 % each knows its own, and all ten that they are alike."""
    others = []
    for number in range(10):
        loud = number % 2
        other = CaseDuets(busy(f"x/e{number}/py3.14", cores="shared" if loud else "split"))
        for one in duets(other.case.id, CPU, scattered(0.10 if loud else 0.01)):
            other.add(one)
        others.append(other)
    for cores, spread in (("split", 0.01), ("shared", 0.10)):
        prior = known_of(spread, others, cores=cores)
        assert prior is not None
        assert prior.sd == pytest.approx(spread * math.sqrt(6 / 5) * 1.1125, rel=1e-3)
        assert prior.freedom == MOST / 2
    mixed = fit([Variance(s**2, 5) for s in (0.01, 0.1)] * 5)
    assert mixed is not None
    assert mixed.freedom < 1


def test_one_case_that_is_disturbed_leaves_the_others_their_prior() -> None:
    others = []
    for number in range(TOGETHER):
        other = CaseDuets(busy(f"x/e{number}/py3.14"))
        for one in duets(other.case.id, CPU, scattered(0.5 if number == 0 else 0.01)):
            other.add(one)
        others.append(other)
    prior = known_of(0.01, others)
    assert prior is not None
    assert prior.sd == pytest.approx(0.01 * math.sqrt(6 / 5) * 1.1125, rel=1e-3)
    assert prior.freedom == MOST / 2


@pytest.mark.parametrize("sign", [1, -1])
def test_what_is_obvious_is_said_after_two_duets(sign: int) -> None:
    """A third more or less, of duets that scatter by 1 %: ten scatters are plain at once."""
    logs = [sign * 0.38, sign * 0.40]
    said = Verdict.SLOWER if sign > 0 else Verdict.FASTER
    assert decided(logs, NONE) is said
    assert decided(logs, Priors.learned(MACHINE.id, [stored(0.02)] * 4)) is said


def test_a_case_louder_than_is_known_passes_for_no_quiet_one() -> None:
    """Its duets differ by 30 %, where 1 % is known: their mean of +30 % is no verdict."""
    assert decided([0.15, 0.45], Priors.learned(MACHINE.id, [stored(0.01)] * 4)) is (
        Verdict.INCONCLUSIVE
    )


@pytest.mark.usefixtures("state_home")
def test_of_the_files_only_those_of_the_machine_are_parsed(tmp_path: Path) -> None:
    """A file that cannot be parsed, or read, is none of them."""
    for number, machine in enumerate((*[MACHINE.id] * 3, "another")):
        one = stored(0.01, machine=machine).model_copy(update={"id": f"2026112{number}"})
        files.save(tmp_path, one)
    place = files.paths(Comparison, tmp_path)[0].parent
    (place / "damaged.json").write_text(MACHINE.id)
    (place / "gone.json").symlink_to(tmp_path / "nowhere")
    found = Priors.of_machine(MACHINE.id, tmp_path)
    assert found == Priors.learned(MACHINE.id, [stored(0.01)] * 3)
    assert found.comparisons == 3
