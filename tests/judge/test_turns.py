"""What a duet prevents is judged from launches alone: an application of known scaling.

`Machine` is a machine whose cores are shared out fairly, and an application that computes in so
many threads at once, or waits: what each side serves follows by arithmetic.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any, ClassVar, Final

import pytest

from bench import declared
from comparing import busy, lines
from duetbench.core.errors import FlagName
from duetbench.core.model import Case, Flag, Launch
from duetbench.core.protocol import duet_load
from duetbench.host import command
from duetbench.judge import duet_loop, instruments, session
from duetbench.judge.duet_loop import by_turns
from duetbench.judge.pairs import Pair, Sides
from duetbench.judge.session import Question
from duetbench.measure import duet, warmup
from duetbench.measure.assembly import assemble
from duetbench.measure.testbed import SideCase
from duetbench.project.project import Project
from duetbench.project.servers import SERVERS
from duetbench.show.comparison_view import make_view
from duetbench.show.conclusion import exit_code
from duetbench.store.comparison import Comparison, Curve, Duet, Instructions, Judgement, SideName
from fake_sessions import SilentReporter, make_duet, side
from synthetic import MACHINE, make_case, ok

SPREAD: Final = 0.01
CPU: Final = 0.002
"""Core time of a request, s: of both sides alike."""
COMPUTES: Final = make_case("x/y").endpoint.model_copy(update={"floor": 0.0})


@dataclass
class Machine:
    """Instruments: `at_once` are the threads of each side that can compute at the same time.

    A side that waits uses so much of a core at most, whatever else there is.
    """

    at_once: dict[str, float]
    each: float = 5.0  # seconds of a duet
    few: int | None = None  # connections of its load
    now: float = 0.0
    order: list[str] = field(default_factory=list)
    source: random.Random = field(default_factory=lambda: random.Random(5))

    def duets(
        self, pairs: Sequence[tuple[SideCase, SideCase]], *, head_first: bool, order: int
    ) -> tuple[Duet, ...]:
        self.now += self.each
        self.order.append("duet")
        played_ = []
        for number, pair in enumerate(pairs):
            names = [part.testbed.apps.name for part in pair]
            cores = len(pair[0].testbed.server_cores(pair[0].case))
            wanted = [self.at_once[name] for name in names]
            given = shared_out(wanted, cores)
            figures = [self.figures(*one) for one in zip(given, wanted, strict=True)]
            case = pair[1].case.id
            duet_ = make_duet(case, order + number, *figures, head_first=head_first)
            seen = {"seconds": self.each, "connections": self.few}
            played_.append(duet_.model_copy(update=seen))
        return tuple(played_)

    def launch(self, part: SideCase) -> Launch:
        assert self.few in {None, part.case.load.connections}
        self.now += 5
        name = part.testbed.apps.name
        self.order.append(name)
        wanted = self.at_once[name]
        (used,) = shared_out([wanted], len(part.testbed.server_cores(part.case)))
        return ok(part.case.id, 0, self.figures(used, wanted)).model_copy(update={"seconds": 5.0})

    def figures(self, cores: float, threads: float) -> dict[str, float]:
        throughput = cores / CPU * self.source.lognormvariate(0, SPREAD)
        return {
            "throughput": throughput,
            "response_p50": 32 / throughput,
            "server_cores": cores,
            "client_cores": 0.0,
            "threads_computing": max(1.0, threads),
            "server_cpu_per_request": CPU * self.source.lognormvariate(0, SPREAD),
            "pss_steady": 5e7 * self.source.lognormvariate(0, SPREAD / 10),
        }

    def soak(self, side: SideCase, name: SideName, seconds: float) -> Curve:
        raise AssertionError(f"a soak of {side.case.id}, {name}, {seconds} s")

    def instructions(
        self, pairs: Sequence[tuple[SideCase, SideCase]], limit: float, ends: float
    ) -> tuple[Instructions | str, ...]:
        assert 0 < limit <= ends
        return tuple("not counted" for _ in pairs)


def shared_out(wanted: Sequence[float], cores: int) -> list[float]:
    """Cores of each: a thread has no more than one, and all threads have the same if that is less.

    By hand: 1 and 2 threads on two cores have 2/3 of one each, so 0.67 and 1.33.
    """
    each = min(1.0, cores / sum(wanted))
    return [each * one for one in wanted]


def compared(
    at_once: tuple[float, float],
    case: Case,
    cores: int,
    folder: Path,
    seconds: float = 600,
    **machine_: Any,
) -> Comparison:
    machine = MACHINE.model_copy(
        update={"server_cores": tuple(range(cores)), "client_cores": tuple(range(cores))}
    )
    base, head = (
        replace(one, testbed=replace(one.testbed, machine=machine))
        for one in (side(name, (case,)) for name in ("base", "head"))
    )
    pair = Pair(SideCase(case, base.testbed), SideCase(case, head.testbed), "a choice")
    sides = Sides(base, head, folder, (pair,), ())
    fake = Machine(dict(zip(("base", "head"), at_once, strict=True)), **machine_)
    found = session.compare(
        Question(sides, seconds=seconds), SilentReporter(), fake, folder, lambda: fake.now
    )
    alone = [name for name in fake.order if name != "duet"]
    (one,) = found.cases
    if any(duet.alone for duet in one.duets):
        # In pairs next to each other, and the order swapped from pair to pair.
        pairs = [tuple(alone[at : at + 2]) for at in range(0, 2 * len(one.duets), 2)]
        assert set(pairs) == {("base", "head"), ("head", "base")}
        assert all(first != second for first, second in pairwise(pairs))
    return found


def judged(found: Comparison, metric: str) -> Judgement:
    (one,) = found.cases
    return next(judgement for judgement in one.judgements if judgement.metric == metric)


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
        cores="split", ceiling=None, python="3.14t",
    )  # fmt: skip
    wide = float(min(32, workers * (threads or 1)))
    truth = min(wide, cores)
    for at_once, ratio in (((1.0, wide), truth), ((wide, 1.0), 1 / truth)):
        found = compared(at_once, case, cores, tmp_path)
        throughput = judged(found, "throughput")
        assert throughput.low is not None
        assert throughput.high is not None
        assert throughput.low <= ratio * 1.005
        assert throughput.high >= ratio * 0.995
        assert throughput.verdict == ("faster" if ratio > 1 else "slower")
        assert throughput.alone
        assert judged(found, "server_cpu_per_request").ratio == pytest.approx(1, abs=0.03)
        told = "".join(text for _, text in lines(make_view(found), ""))
        assert "launches of each side alone" in told


def test_a_launch_alone_that_fails_leaves_no_figures() -> None:
    duet = make_duet("one/a", 0, {}, {})
    figures = {"throughput": 300.0, "server_cpu_per_request": 0.003, "pss_steady": 6e7}
    base, head = ok("one/a", 0, {**figures, "throughput": 200.0}), ok("one/a", 0, figures)
    found = by_turns(duet, base, head)
    assert (found.base, found.head) == (base.metrics, head.metrics)
    assert (found.alone, found.usable) == (tuple(sorted(head.metrics)), True)
    flag = Flag(name=FlagName.WRONG_STATUS, detail="500")
    broken = by_turns(duet, base, head.model_copy(update={"flags": (flag,), "metrics": {}}))
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
    case = make_case("one/a", endpoint=COMPUTES, ceiling=None).model_copy(update=changes)
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
    real = warmup.warm_up
    monkeypatch.setattr(warmup, "warm_up", lambda client, **_: real(client, window=0.1, limit=0.3))
    monkeypatch.setattr(command, "free_gb", lambda _: 0.0)  # for no copies
    for module in (duet, duet_loop):
        monkeypatch.setattr(module, "duet_load", lambda case, *_: duet_load(case, 0.6))
    gil, free = (declared(f"asgi-wsgi/wsgi-cpu/py{name}/w1/t2/c32") for name in ("3.14", "3.14t"))
    testbed = assemble(Project.here(), [gil, free], tmp_path / "logs")
    loop = duet_loop.Loop(Watched(tmp_path / "logs"), SilentReporter(), 1)
    base, head = (free, gil) if swapped else (gil, free)
    pair = Pair(SideCase(base, testbed), SideCase(head, testbed))
    gains, others = [0.0], [0.0]
    while len(gains) < 4 and gains[-1] <= 1.2:
        loop.launch([pair], lambda one, found: one.duets.add(found), 60)
        found = pair.duets.all[-1]
        assert not found.failed, found
        assert {"throughput", "server_cpu_per_request"} <= {*found.alone}
        figures = [side["throughput"] for side in (found.base, found.head)]
        assert {*figures} == {*Watched.alone[-2:]}
        gain = figures[1] / figures[0]
        gains.append(gain if head is free else 1 / gain)
        others.append(max(side["host_other"] for side in (found.base, found.head)))
    if gains[-1] <= 1.2 and min(others[1:]) > 0.5:
        pytest.skip("something else has had the second core all the time")
    assert gains[-1] > 1.2


def test_a_turn_takes_as_long_for_unequal_sides_as_for_a_case_that_scales() -> None:
    """Both are a launch and a load of each side, one after the other; a duet shares its launch."""
    scales = make_case("one/a", cores="shared", endpoint=COMPUTES, workers=2, ceiling=None)
    plain, testbed = scales.model_copy(update={"cores": "split"}), side("head", ()).testbed
    few = plain.model_copy(update={"workers": 1})
    turn, unequal_, duet_ = (
        duet_loop.DuetSeconds().of(Pair(SideCase(base, testbed), SideCase(head, testbed)))
        for base, head in ((scales, scales), (few, plain), (plain, plain))
    )
    assert turn == unequal_ == sum(duet_loop.duet_seconds(scales)) > duet_


def unequal(
    base: Case, head: Case, speed: dict[str, float], folder: Path, seconds: float = 600
) -> Comparison:
    """Two settings of one application, or two states, on a server core of their own."""
    before, after = side("base", (base,)), side("head", (head,))
    pair = Pair(SideCase(base, before.testbed), SideCase(head, after.testbed), "a choice")
    if pair.unequal:
        own = {"kind": "setting", "settings": {"workers": "2"}}
        after = replace(after, record=after.record.model_copy(update=own))
    sides = Sides(before, after, folder, (pair,), (), cross=pair.unequal)
    fake = Machine(speed)
    found = session.compare(
        Question(sides, seconds=seconds), SilentReporter(), fake, folder, lambda: fake.now
    )
    assert "duet" not in fake.order
    return found


@pytest.mark.parametrize("field", ["workers", "threads", "connections"])
def test_unequal_sides_are_launched_alone(field: str, tmp_path: Path) -> None:
    """Head serves 1.5 times as much, or two thirds: of every figure both launches tell."""
    endpoint = COMPUTES.model_copy(update={"interface": "wsgi"})
    plain = make_case("one/a", cores="split", ceiling=None, threads=1, endpoint=endpoint)
    changes = {"connections": {"load": plain.load.model_copy(update={"connections": 16})}}
    other = plain.model_copy(update=changes.get(field, {field: 2}))
    for sides, ratio in (((plain, other), 1.5), ((other, plain), 1 / 1.5)):
        speed = {"base": 0.4, "head": 0.4 * ratio}
        found = unequal(*sides, speed, tmp_path)
        assert judged(found, "throughput").ratio == pytest.approx(ratio, rel=0.02)
        assert judged(found, "throughput").verdict == ("faster" if ratio > 1 else "slower")
        (one,) = found.cases
        assert {judgement.alone for judgement in one.judgements if judgement.ratio} == {True}
        # Between loads of other connections the latency is no mirror of the throughput.
        times = [one for one in one.judgements if one.metric == "response_p50"]
        assert bool(times) is (field == "connections")
        told = dict(lines(make_view(found), ""))
        assert "the server had one core, on which several workers" in told["by turns"]
        assert told["kind"] == "two settings against each other: a choice, not a change"
        assert exit_code(found) == 0


@pytest.mark.parametrize("slots", [2, None])
def test_what_several_threads_compute_on_all_cores_is_judged_by_turns(
    slots: int | None, tmp_path: Path
) -> None:
    """Head's threads share something, and serve 0.7 of base: beside a second server they do not."""
    case = make_case(
        "one/shared", cores="shared", endpoint=COMPUTES, slots=slots, workers=2, ceiling=None
    )
    for speed, ratio in (({"base": 2.0, "head": 1.4}, 0.7), ({"base": 1.4, "head": 2.0}, 1 / 0.7)):
        found = unequal(case, case, speed, tmp_path)
        assert judged(found, "throughput").ratio == pytest.approx(ratio, rel=0.02)
        assert {one.alone for one in found.cases[0].judgements if one.ratio} == {True}
        assert "by turns, since their threads or workers need all cores: one/shared" in found.notes
    waits = case.model_copy(update={"endpoint": COMPUTES.model_copy(update={"floor": 0.01})})
    split = case.model_copy(update={"cores": "split"})
    gil = case.model_copy(update={"slots": 1})
    assert [one.scales for one in (case, waits, split, gil)] == [True, False, False, False]


@pytest.mark.parametrize("workers", [2, 1])
def test_turns_that_are_too_few_are_not_called_duets(workers: int, tmp_path: Path) -> None:
    """A turn takes 10 s: there is time for two, or for none. Base may have fewer workers."""
    case = make_case("one/shared", cores="shared", endpoint=COMPUTES, workers=2, ceiling=None)
    other = case.model_copy(update={"workers": workers})
    for sides in ((other, case), (case, other)):
        for seconds in (26, 1):
            why = "only 2 turns usable: too few for a look" if seconds > 1 else "no time for a turn"
            found = unequal(*sides, {"base": 2.0, "head": 1.4}, tmp_path, seconds)
            view = make_view(found)
            assert {row.why for row in view.rows if row.awaited} == {why}
            advice = " ".join(text for _, text in lines(view, "Next"))
            assert "A turn launches each side alone: it" in advice
            assert ("it took up to 10 s, and is needed twice or more" in advice) is (seconds > 1)
            assert "duet" not in advice + "".join(subject for subject, _ in lines(view, ""))
            assert (len(found.cases[0].duets), exit_code(found)) == (2 * int(seconds > 1), 3)
