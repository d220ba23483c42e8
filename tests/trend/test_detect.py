"""Detection: levels and steps in series that were made up, judged by duets that measure nothing."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from bench import make_checkout
from comparing import BETTER, OPEN, SAME, comparison_of, judged_case, measured
from duetbench.core.change import Cause
from duetbench.core.comparison import INSTRUCTIONS, Comparison, PackageChange
from duetbench.core.errors import HistoryError
from duetbench.core.metrics import CPU
from duetbench.core.model import StackRecord, Verdict
from duetbench.host import files, result_files
from duetbench.judge.duet_loop import Reporter
from fake_github import Step
from fake_sessions import SilentReporter
from goldens import assert_said
from observatory.matrix.checkout import Checkout
from observatory.store import kinds
from observatory.store.change import Candidates, Change, SeriesName
from observatory.trend.candidates import close, detect, of_table, steps
from observatory.trend.confirm import IMPROVED, conclude, confirm
from observatory.trend.levels import LONE, PRICE, Piece, fit
from observatory.trend.table import Table
from synthetic import a_file, change_record, of, ratio

FIRST: Final = datetime(2026, 11, 1, 3, tzinfo=UTC)
MACHINE: Final = "alpha-2c-000001"
COMMIT: Final = "3f2a9c17" * 5
BUMPED: Final = ["1"] * 20 + ["2"] * 6


def run_of(number: int) -> str:
    """Name of a night's run."""
    return files.result_id((FIRST + timedelta(days=number)).isoformat(), "nightly", COMMIT)


def ratios(*pairs: tuple[int, float], scatter: float = 0.003) -> list[float]:
    """So many points on each level, in turn a little above and below it."""
    levels = [level for count, level in pairs for _ in range(count)]
    return [level * math.exp(scatter * (-1) ** n) for n, level in enumerate(levels)]


def table(
    figures: Mapping[str, Sequence[float]], versions: Sequence[str], metric: str = CPU
) -> Table:
    """The nights of one machine: figures of each case, and versions of the stack's `granian`."""
    nights = []
    for n, version in enumerate(versions):
        cases = [
            of(case, ratio(values[n], 0.004, 1, metric))
            for case, values in figures.items()
            if values[n]
        ]
        digest = hashlib.sha256(version.encode()).hexdigest()
        packages, when = {"granian": version, "fastapi": "1"}, FIRST + timedelta(days=n)
        lock = StackRecord(name="current", digest=digest, packages=packages)
        night = a_file(
            1, *cases, id=run_of(n), origin="night", machine=MACHINE, when=when, started=when,
            commit=COMMIT, stacks=(lock,),
        )  # fmt: skip
        nights.append(night)
    return Table("", "A", tuple(nights))


def recorded(status: str, ratio: float, night: int, case: str = "x/a") -> Change:
    """The record of a change of CPU per request."""
    return change_record(
        id=f"change-{night}-{case[2:]}",
        status=status,
        series=SeriesName(machine=MACHINE, case=case, metric=CPU),
        when=FIRST + timedelta(days=night),
        before_run=run_of(night - 1),
        after_run=run_of(night),
        ratio=ratio,
        low=ratio * 0.99,
        high=ratio * 1.01,
    )


def test_two_points_after_a_release_are_a_candidate() -> None:
    """2 % more from the first night with the new lock."""
    figures = {"x/a": ratios((20, 1.1), (2, 1.122), scatter=0.001)}
    (item,) = detect([table(figures, BUMPED[:22])]).candidates
    (step,) = item.steps
    assert (item.when, step.nights) == (FIRST + timedelta(days=20), (20, 2))
    assert step.ratio == pytest.approx(1.02, abs=1e-3)
    # Two points and twenty: √(1/2 + 1/20) · 1.96 · 0.4 % = 0.58 % on either side.
    assert step.within == pytest.approx((1.0141, 1.0259), abs=1e-3)


LATE: Final = {30: ((0,), 1.08), 50: ((1, 2), 0.9), 75: ((3,), 1.05)}
"""At which nights a release changes the CPU of which cases, and by what factor."""


def test_planted_changes_are_found_and_nothing_else() -> None:
    """Among lost nights, each with its release and its cases.

    From the 15th on everything costs 8 % more, by no release.
    """
    source, factors = np.random.default_rng(219), np.ones((5, 100))
    factors[:, 15:] = 1.08
    for night, (cases, factor) in LATE.items():
        factors[list(cases), night:] *= factor
    figures = factors * source.lognormal(0, 0.004, factors.shape)
    figures[source.random(figures.shape) < 0.03] = 0  # not measured
    versions = [f"1.{sum(late <= night for late in LATE)}.0" for night in range(100)]
    made = table({f"x/{case}": [*values] for case, values in enumerate(figures)}, versions)
    actual = sorted(of_table(made), key=lambda item: str(item.after_run))
    assert [item.after_run for item in actual] == [run_of(night) for night in LATE]
    for number, (item, (cases, _)) in enumerate(zip(actual, LATE.values(), strict=True)):
        assert {step.series.case for step in item.steps} == {f"x/{case}" for case in cases}
        assert [str(move) for move in item.packages] == [f"granian 1.{number}.0 → 1.{number + 1}.0"]


def candidate_of(*moved: tuple[str, float], tries: int = 0) -> Change:
    """A candidate: the core time of these cases is so many times as long since a release."""
    figures = {case: ratios((20, 1.0), (6, ratio)) for case, ratio in moved}
    (item,) = detect([table(figures, BUMPED)]).candidates
    return item.model_copy(update={"tries": tries})


LARGER: Final = measured(Verdict.WORSE, 1.05, 1.045, 1.055)
SMALLER: Final = measured(Verdict.WORSE, 1.03, 1.025, 1.035)


def test_what_the_duets_see_too_becomes_a_record() -> None:
    """With their figures; what was not measured is not claimed.

    Of several releases none is blamed: which it was, the duets of both stacks cannot tell.
    """
    candidate = candidate_of(("x/still", 1.04), ("x/a", 1.06), ("x/b", 1.05), ("x/left", 1.05))
    findings = {"x/a": LARGER, "x/b": SMALLER, "x/still": SAME}
    comparison = comparison_of(*(judged_case(case, finding) for case, finding in findings.items()))
    record = conclude(candidate, comparison)
    assert record.confirmed
    assert (record.id, record.status, record.verdict) == (candidate.id, "open", Verdict.WORSE)
    assert record.series.case == "x/a"
    assert {item.case for item in record.others} == {"x/b"}
    assert (record.ratio, record.low, record.high) == (1.05, 1.045, 1.055)
    assert record.evidence == comparison.id
    assert [str(release) for release in record.releases] == ["granian 1 → 2"]
    assert "confirmed by 16 duets" in record.method
    move = PackageChange(stack="current", package="granian", base="1", head="2")
    both = {"packages": (move, move.model_copy(update={"package": "uvicorn"}))}
    faster = comparison_of(judged_case("x/a", BETTER))
    record = conclude(candidate_of(("x/a", 0.95)).model_copy(update=both), faster)
    assert (record.confirmed, record.releases, record.verdict) == (True, (), Verdict.BETTER)
    assert (record.status, record.note) == ("closed", IMPROVED)


def test_what_the_duets_do_not_see_is_dismissed() -> None:
    """No change is final; the opposite change, or no verdict, is asked for two times more."""
    for finding, tries, verdict, final in (
        (SAME, 0, Verdict.SAME, True),
        (BETTER, 0, Verdict.UNKNOWN, False),
        (OPEN, 0, Verdict.UNKNOWN, False),
        (OPEN, 1, Verdict.UNKNOWN, False),
        (OPEN, 2, Verdict.UNKNOWN, True),
    ):
        comparison = comparison_of(judged_case("x/a", finding))
        actual = conclude(candidate_of(("x/a", 1.05), tries=tries), comparison)
        assert actual.status == "dismissed"
        assert (actual.verdict, actual.tries, actual.final) == (verdict, tries + 1, final)


def test_nothing_is_judged_twice() -> None:
    """Neither what is recorded nor what was dismissed, though the step is seen elsewhere later."""
    made = [table({"x/a": ratios((20, 1.0), (6, 1.05))}, BUMPED)]
    (item,) = detect(made).candidates
    record = recorded("open", 1.05, 20).model_copy(update={"id": "another-name"})
    earlier = record.model_copy(update={"before_run": run_of(18), "after_run": run_of(19)})
    later = record.model_copy(update={"before_run": run_of(20), "after_run": run_of(21)})
    elsewhere = record.model_copy(
        update={"series": record.series.model_copy(update={"machine": "beta"})}
    )
    for records, known in (((record,), 1), ((earlier, later, elsewhere), 0), ((), 0)):
        assert len(detect(made, records).candidates) == 1 - known
    for verdict, tries, known in (
        (Verdict.UNKNOWN, 2, 0), (Verdict.UNKNOWN, 3, 1), (Verdict.SAME, 1, 1),
    ):  # fmt: skip
        update = {"status": "dismissed", "verdict": verdict, "tries": tries}
        actual = detect(made, [item.model_copy(update=update)])
        assert [again.tries for again in actual.candidates] == [tries] * (not known)


def test_a_change_that_was_undone_is_closed() -> None:
    """10 % more and later 9 % less are 0.1 % more, which is nothing; 5 % less are not enough."""
    slower, undone = recorded("open", 1.10, 20), recorded("closed", 0.91, 30)
    actual, later = close((slower.model_copy(update={"note": "It was none."}), undone))
    assert later == undone
    assert (actual.id, actual.status) == (slower.id, "closed")
    assert actual.note == f"It was none. Undone by the change {undone.id}."
    for open_, later in (
        (slower, recorded("closed", 0.95, 30)),
        (slower, recorded("closed", 0.91, 10)),  # before it
        (slower, recorded("closed", 0.91, 30, "x/b")),  # of another series
        (slower.model_copy(update={"status": "closed"}), undone),
    ):
        assert close((open_, later)) == [open_, later]


def test_candidates_are_judged_while_there_is_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has its share; what cannot be made is left with its reason; all else is kept at once."""
    now = [0.0]
    shares: list[float] = []
    searched: list[tuple[object, ...]] = []
    comparison = comparison_of(judged_case("x/a", LARGER))

    def judge(_: Checkout, candidate: Change, seconds: float, __: Reporter) -> Comparison:
        shares.append(seconds)
        if candidate.id.endswith("gone"):
            raise HistoryError("no lock")
        now[0] += 150.0
        return comparison

    def search(*wanted: object) -> Cause:
        searched.append(wanted[1:5])
        return Cause(suspects=("a",), reason="no time")

    ids = ("one-gone", "two", "three", "four")
    candidates = [
        candidate_of((case, 1.05)).model_copy(update={"id": name, "packages": ()})
        for name, case in zip(ids, ("x/a", "x/a", "x/b", "x/a"), strict=True)
    ]
    monkeypatch.setattr("observatory.trend.confirm.compare_stacks", judge)
    monkeypatch.setattr("observatory.trend.confirm.find_locks", lambda *_: ("a", "b"))
    monkeypatch.setattr("duetbench.judge.causes.search_locks", search)
    judge_all = partial(
        confirm, Checkout.here(), seconds=330.0, results=tmp_path,
        reporter=SilentReporter(), clock=lambda: now[0],
    )  # fmt: skip
    judged, left = judge_all(candidates)
    # Half of: 330 s for four; for three; 180 s for two; and 30 s are too few.
    assert shares == [41.25, 55.0, 45.0]
    assert left == {"one-gone": "no lock", "four": "the time was up"}
    # The comparison took longer than its 110 s.
    assert searched == [("current", ("a", "b"), "x/a", 0.0)]
    assert judged[0].cause == Cause(suspects=("a",), reason="no time")
    assert [(item.id, item.confirmed) for item in judged] == [("two", True), ("three", False)]
    assert kinds.read_all(Change, tmp_path) == sorted(judged, key=lambda item: item.id)
    kept = tmp_path / "comparisons" / f"{comparison.id}.json"
    assert Comparison.model_validate_json(kept.read_bytes()) == comparison
    alone = candidate_of(("x/a", 1.05))  # of which only one package moved
    ((known,), _) = judge_all([alone])
    assert known.releases
    assert len(searched) == 1, "its release is known"


@pytest.mark.long
def test_the_command_finds_and_hands_on(step: Step) -> None:
    """Candidates as a file and a matrix."""
    folder, root = step.folder, make_checkout(step.folder / "checkout")
    made = table({"x/c": ratios((20, 1.0), (6, 1.05))}, [*"3" * 20, *"4" * 6])
    for item in made.files:
        files.save(root / "results", item)
    for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME", "GITHUB_OUTPUT"):
        step.set(**{name: str(folder / name)})
    step.set(DUETBENCH_ROOT=str(root))
    file = folder / "candidates.json"
    step.done("detect", "--output", file)
    actual = result_files.read(Candidates, file)
    assert actual.candidates
    assert f'["{MACHINE}"]' in (folder / "GITHUB_OUTPUT").read_text().splitlines()
    assert actual.candidates[0].id in step.summary
    result = step("confirm", file, "--results", folder / "out")
    assert result.code == 0, result
    assert "no candidate on this machine" in result.out


def test_another_level_begins_where_it_is_worth_its_price() -> None:
    """Points on one level and on another, a and b of them, are worth ab/(a + b) · (height/error)².

    All have one error, or each its own; some may be `lone`. A price of 14 is that of 4 and 2 points
    3.24 errors apart.
    """
    assert PRICE == 14

    def begin(series: str) -> str:
        given = json.loads(series)
        errors = np.full(len(given["logs"]), given["errors"]).tolist()
        lone = [place < given.get("lone", 0) for place in range(len(errors))]
        pieces = fit(given["logs"], errors, lone=lone)
        return " ".join(str(piece.start) for piece in pieces[1:]) or "one level"

    assert_said("levels", begin)


E: Final = 0.01


def test_levels_are_weighted_means_without_outliers() -> None:
    """Of (0, 0.03) with weights 4:1 it is 0.006; two points of 0.01 make an error of 0.0071."""
    assert PRICE / 2 < LONE < PRICE
    item, other = fit([0.0, 0.03, 1.0, 0.5, 0.5], [E, 2 * E, E, E, E])
    assert (item.start, item.end, other.start, other.end) == (0, 3, 3, 5)
    assert [item.log, other.log] == pytest.approx([0.006, 0.5])
    assert [item.se, other.se] == pytest.approx([E / math.sqrt(1 + 1 / 4), E / math.sqrt(2)])
    assert fit([], []) == []
    assert fit([0.7], [2**-6]) == [Piece(0, 1, 0.7, 2**-6)]


def test_counts_step_at_their_first_point() -> None:
    """0.5 % more instructions, whose rounds differ by as much every time; CPU needs more points."""
    figures = {"x/a": ratios((20, 1.0), (1, 1.005), scatter=1e-6)}
    made = [table(figures, BUMPED[:21], metric) for metric in (INSTRUCTIONS, CPU)]
    assert [len(list(steps(item))) for item in made] == [1, 0]
