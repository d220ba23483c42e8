"""What a duet prevents is judged from launches alone: an application of known scaling.

`Machine` has an application that computes in so many threads at once, or waits: what each side
serves follows by arithmetic.
"""

from dataclasses import dataclass, field, replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any, ClassVar, Final

import pytest

from bench import declared
from comparing import CPU, busy, lines
from duetbench.app.servers import SERVERS
from duetbench.app.testbed import SideCase, assemble
from duetbench.core.comparison import Comparison, Duet, Finding
from duetbench.core.errors import FlagName
from duetbench.core.metrics import INSTRUCTIONS
from duetbench.core.model import Case, Flag, Launch, Verdict
from duetbench.core.protocol import duet_load
from duetbench.host import command
from duetbench.judge import comparison as comparisons
from duetbench.judge import duet_loop, instruments
from duetbench.judge.comparison import Extent, Question
from duetbench.judge.findings import exit_code
from duetbench.judge.instruments import by_turns
from duetbench.judge.pairs import Pair, Sides
from duetbench.load import duet, warmup
from duetbench.report.report import make_report
from fake_sessions import FakeInstruments, SilentReporter, side
from observatory.matrix.checkout import Checkout
from synthetic import MACHINE, make_case, ok

SPREAD: Final = 0.01
NEEDS: Final = 0.002
"""Core time of a request, s: of both sides alike."""
COMPUTES: Final = make_case("x/y").endpoint.model_copy(update={"floor": 0.0})
SHARED: Final = make_case("one/shared", cores="shared", endpoint=COMPUTES, workers=2, slots=None)


@dataclass
class Machine(FakeInstruments):
    """Instruments: `at_once` are the threads of each side that can compute at the same time.

    A side that waits uses so much of a core at most, whatever else there is.
    """

    uncounted: str = "not counted"
    at_once: dict[str, float] = field(default_factory=dict)

    def launch(self, part: SideCase) -> Launch:
        self.now += 5
        name = part.testbed.subject.root.name
        self.launches.append(name)
        cores = min(self.at_once[name], len(part.server_cores))
        throughput = cores / NEEDS * self.source.lognormvariate(0, SPREAD)
        figures = {
            "throughput": throughput,
            "response_p50": 32 / throughput,
            CPU: NEEDS * self.source.lognormvariate(0, SPREAD),
            "pss_steady": 5e7 * self.source.lognormvariate(0, SPREAD / 10),
        }
        return ok(part.case.id, 0, figures).model_copy(update={"seconds": 5.0})


def compared(
    at_once: tuple[float, float],
    base: Case,
    head: Case,
    cores: int,
    folder: Path,
    seconds: float = 600,
) -> Comparison:
    """Compare two settings of one application, or two states, on so many cores."""
    own = tuple(range(cores))
    machine = MACHINE.model_copy(update={"server_cores": own, "client_cores": own})
    before, after = (
        replace(one, testbed=replace(one.testbed, machine=machine))
        for one in (side("base", (base,)), side("head", (head,)))
    )
    pair = Pair(SideCase(base, before.testbed), SideCase(head, after.testbed), "a choice")
    sides = Sides(before, after, folder, (pair,), (), cross=base != head)
    fake = Machine(at_once=dict(zip(("base", "head"), at_once, strict=True)))
    found = comparisons.measure(
        Question(sides, Extent(seconds=seconds)), SilentReporter(), fake, folder, lambda: fake.now
    )
    assert not fake.duet_log
    if fake.launches:
        # In pairs next to each other, and the order swapped from pair to pair.
        pairs = [*zip(fake.launches[::2], fake.launches[1::2], strict=True)]
        assert set(pairs) == {("base", "head"), ("head", "base")}
        assert all(first != second for first, second in pairwise(pairs))
    return found


def judged(found: Comparison, metric: str) -> Finding:
    return next(finding for finding in found.findings if finding.subject == metric)


KINDS: Final = [
    (server, workers, threads, cores)
    for server, workers, threads, cores in product(SERVERS, (1, 2, 4), (None, 1, 2, 64), (2, 4))
    if workers * (threads or 1) > 1 and (threads is None or "wsgi" in SERVERS[server].interfaces)
][::3]  # each server, and each number of workers, threads and cores, several times


@pytest.mark.long
@pytest.mark.parametrize(("server", "workers", "threads", "cores"), KINDS)
def test_what_scales_is_as_much_faster_as_it_is_alone(
    server: str, workers: int, threads: int | None, cores: int, tmp_path: Path
) -> None:
    """One side computes in one thread at a time, the other in all: swapped, the answer is too.

    What a request costs is the same.
    """
    endpoint = COMPUTES.model_copy(update={"interface": "wsgi" if threads else "asgi"})
    case = make_case(
        "one/compute", server=server, workers=workers, threads=threads, endpoint=endpoint,
        cores="split", python="3.14t",
    )  # fmt: skip
    wide = float(min(32, workers * (threads or 1)))
    truth = min(wide, cores)
    for at_once, ratio in (((1.0, wide), truth), ((wide, 1.0), 1 / truth)):
        found = compared(at_once, case, case, cores, tmp_path)
        throughput = judged(found, "throughput")
        assert (throughput.low or 9) <= ratio * 1.005
        assert (throughput.high or 0) >= ratio * 0.995
        assert throughput.verdict is (Verdict.BETTER if ratio > 1 else Verdict.WORSE)
        assert throughput.alone
        assert judged(found, CPU).ratio == pytest.approx(1, abs=0.03)
        turns = dict(lines(make_report(found), ""))["by turns"]
        assert "each side alone, one right after the other" in turns


def test_a_launch_alone_that_fails_leaves_no_figures() -> None:
    figures = {"throughput": 300.0, CPU: 0.003, "pss_steady": 6e7}
    base, head = ok("one/a", 0, {**figures, "throughput": 200.0}), ok("one/a", 0, figures)
    part = SideCase(busy("one/a"), side("head", ()).testbed)

    def turn(*launches: Launch) -> Duet:
        given = iter(launches[::-1])
        return by_turns(part, part, lambda _: next(given), head_first=True, order=3)

    found = turn(base, head)
    assert (found.base, found.head) == (base.metrics, head.metrics)
    assert (found.order, found.alone, found.usable) == (3, True, True)
    flag = Flag(name=FlagName.WRONG_ANSWER, detail="500")
    broken = turn(base, head.model_copy(update={"flags": (flag,), "metrics": {}}))
    assert (broken.base, broken.head, broken.failed) == ({}, {}, ("head",))
    assert Duet.model_validate(broken.model_dump()) == broken


@pytest.mark.parametrize(
    ("changes", "cores", "alone"),
    [
        ({}, 2, False),
        ({"workers": 2}, 2, True),
        ({"workers": 2}, 1, False),  # of one core both have the half
        ({"threads": 8}, 2, False),  # one computes at a time
        ({"threads": 8, "python": "3.14t"}, 2, True),
        ({"threads": 8, "python": "3.14t"}, 1, False),
        ({"workers": 2, "endpoint": COMPUTES.model_copy(update={"floor": 0.01})}, 2, False),
    ],
)
def test_what_computes_at_once_on_several_cores_is_launched_alone(
    changes: dict[str, Any], cores: int, *, alone: bool
) -> None:
    machine = MACHINE.model_copy(update={"server_cores": tuple(range(cores))})
    testbed = replace(side("head", ()).testbed, machine=machine)
    case = make_case("one/a", endpoint=COMPUTES).model_copy(update=changes)
    part = SideCase(case, testbed)
    assert Pair(part, part).alone is alone


def test_two_servers_are_launched_alone() -> None:
    """Each has threads of its own beside those of the application."""
    both = [SideCase(busy("one/a", server=name), side("head", ()).testbed) for name in SERVERS]
    assert Pair(both[1], both[0]).alone
    assert not Pair(both[0], both[0]).alone


class Watched(instruments.Real):
    """Real instruments that remember what was launched alone."""

    alone: ClassVar[list[float]] = []

    def launch(self, side: SideCase) -> Launch:
        found = super().launch(side)
        self.alone.append(found.metrics.get("throughput", 0.0))
        return found


@pytest.mark.real
@pytest.mark.usefixtures("state_home")
@pytest.mark.parametrize("swapped", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_two_threads_serve_more_without_the_gil(
    swapped: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real servers that compute in two threads: with the GIL on one core, without it on both."""
    monkeypatch.setattr(warmup, "MOST_WINDOWS", 3)
    monkeypatch.setattr(command, "free_gb", lambda _: 0.0)  # for no copies
    for module in (duet, instruments):
        monkeypatch.setattr(module, "duet_load", lambda case, *_: duet_load(case, 0.6))
    gil, free = (declared(f"asgi-wsgi/wsgi-cpu/py{name}/w1/t2/c32") for name in ("3.14", "3.14t"))
    testbed = assemble(Checkout.here(), [gil, free], tmp_path / "logs")
    loop = duet_loop.Loop(Watched(), SilentReporter(), 1)
    base, head = (free, gil) if swapped else (gil, free)
    pair = Pair(SideCase(base, testbed), SideCase(head, testbed))
    gains, others = [0.0], [0.0]
    while len(gains) < 4 and gains[-1] <= 1.2:
        loop.launch([pair], 60)
        found = pair.all[-1]
        assert not found.failed, found
        assert found.alone
        figures = [side["throughput"] for side in (found.base, found.head)]
        assert {*figures} == {*Watched.alone[-2:]}
        gain = figures[1] / figures[0]
        gains.append(gain if head is free else 1 / gain)
        others.append(max(side.get("host_other", 0.0) for side in (found.base, found.head)))
    if gains[-1] <= 1.2 and min(others[1:]) > 0.5:
        pytest.skip("something else has had the second core all the time")
    assert gains[-1] > 1.2


def test_a_turn_takes_as_long_for_unequal_sides_as_for_a_case_that_scales() -> None:
    """Both are a launch and a load of each side, one after the other; a duet shares its launch."""
    plain, testbed = SHARED.model_copy(update={"cores": "split"}), side("head", ()).testbed
    few = plain.model_copy(update={"workers": 1})
    turn, unequal_, duet_ = (
        duet_loop.Loop(Machine(), SilentReporter(), 1).seconds(
            Pair(SideCase(base, testbed), SideCase(head, testbed))
        )
        for base, head in ((SHARED, SHARED), (few, plain), (plain, plain))
    )
    assert turn == unequal_ == sum(duet_loop.duet_seconds(SHARED)) > duet_


@pytest.mark.parametrize("field", ["workers", "threads", "connections"])
def test_unequal_sides_are_launched_alone(field: str, tmp_path: Path) -> None:
    """Head serves 1.5 times as much, or two thirds: of every figure both launches tell."""
    endpoint = COMPUTES.model_copy(update={"interface": "wsgi"})
    plain = make_case("one/a", cores="split", threads=1, endpoint=endpoint)
    changes = {"connections": {"load": plain.load.model_copy(update={"connections": 16})}}
    other = plain.model_copy(update=changes.get(field, {field: 2}))
    for sides, ratio in (((plain, other), 1.5), ((other, plain), 1 / 1.5)):
        found = compared((0.4, 0.4 * ratio), *sides, 1, tmp_path)
        throughput = judged(found, "throughput")
        assert throughput.ratio == pytest.approx(ratio, rel=0.02)
        assert throughput.verdict is (Verdict.BETTER if ratio > 1 else Verdict.WORSE)
        assert {finding.alone for finding in found.findings if finding.ratio} == {True}
        # Between loads of other connections the latency is no mirror of the throughput.
        times = [finding for finding in found.findings if finding.subject == "response_p50"]
        assert bool(times) is (field == "connections")
        assert found.cross
        assert exit_code(found) == 0


@pytest.mark.parametrize("slots", [2, None])
def test_what_several_threads_compute_on_all_cores_is_judged_by_turns(
    slots: int | None, tmp_path: Path
) -> None:
    """Head's threads share something, and serve 0.7 of base: beside a second server they do not."""
    case = SHARED.model_copy(update={"slots": slots})
    for speed, ratio in (((2.0, 1.4), 0.7), ((1.4, 2.0), 1 / 0.7)):
        found = compared(speed, case, case, 2, tmp_path)
        assert judged(found, "throughput").ratio == pytest.approx(ratio, rel=0.02)
        assert {finding.alone for finding in found.findings if finding.ratio} == {True}
    waits = case.model_copy(update={"endpoint": COMPUTES.model_copy(update={"floor": 0.01})})
    split = case.model_copy(update={"cores": "split"})
    gil = case.model_copy(update={"slots": 1})
    assert [one.scales for one in (case, waits, split, gil)] == [True, False, False, False]


@pytest.mark.parametrize("workers", [2, 1])
def test_turns_that_are_too_few_are_not_called_duets(workers: int, tmp_path: Path) -> None:
    """A turn takes 10 s: there is time for two, or for none. Base may have fewer workers."""
    other = SHARED.model_copy(update={"workers": workers})
    for sides in ((other, SHARED), (SHARED, other)):
        for seconds in (26, 1):
            why = "only 2 turns usable: at least 3 decide" if seconds > 1 else "no time for a turn"
            found = compared((2.0, 1.4), *sides, 2, tmp_path, seconds)
            measured = [f for f in found.findings if f.subject != INSTRUCTIONS]
            assert {finding.why for finding in measured} == {why}
            assert "duet" not in str(make_report(found))
            assert (len(found.cases[0].duets), exit_code(found)) == (2 * int(seconds > 1), 3)
