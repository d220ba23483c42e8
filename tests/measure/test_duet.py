"""Duets, real: two servers of one case give a ratio near 1, and a failure of either gives none."""

import os
import signal
import time
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

import pytest

from bench import Bench, declared, eventually, failures
from duetbench.app.testbed import SideCase, assemble
from duetbench.core.comparison import SIDES, Duet, SideName
from duetbench.core.errors import FlagName, InterruptedRun
from duetbench.core.metrics import METRICS
from duetbench.core.model import Case
from duetbench.host import ports, tree_usage
from duetbench.host.process_session import Session
from duetbench.judge.duet_loop import duet_seconds
from duetbench.judge.pairs import CaseDuets, choose_metrics
from duetbench.load import duet, launch, oha, server
from duetbench.load.loads import below_saturation, duet_load, in_time
from observatory.matrix.checkout import Checkout
from synthetic import make_case

Play = Callable[..., tuple[Duet, ...]]
TAILS = {"response_p99", "response_p999"}


@pytest.fixture
def play(state_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Play:
    used: list[int] = []
    real = ports.free_port

    def free_port() -> int:
        used.append(real())
        return used[-1]

    monkeypatch.setattr(ports, "free_port", free_port)
    monkeypatch.setattr(server, "_TRACEBACK_SECONDS", 0.05)

    def do(
        *pairs: tuple[Case, Case], head_first: bool = False, seconds: float = 1.5
    ) -> tuple[Duet, ...]:
        used.clear()
        testbed = assemble(
            Checkout.here(), [case for pair in pairs for case in pair], tmp_path / "logs"
        )
        try:
            return duet.perform(
                [(SideCase(base, testbed), SideCase(head, testbed)) for base, head in pairs],
                lambda side: tmp_path / "logs" / f"{side}.log",
                head_first=head_first,
                seconds=seconds,
            )
        finally:
            assert not list((state_home / "duetbench" / "sessions").glob("*.json"))
            assert len(used) == 2
            for port in used:
                ports.require_free(port)

    return do


def unfailed(result: Duet, case: Case) -> tuple[dict[str, float], dict[str, float]]:
    """The figures of both sides, among them those that the case is judged by."""
    assert not failures((*result.flags_base, *result.flags_head)), result
    base, head = result.base, result.head
    # Which tails there are depends on how many answers a side has got.
    assert base.keys() - TAILS == head.keys() - TAILS >= set(choose_metrics(case)[0])
    return base, head


@pytest.mark.real
def test_a_case_against_itself(play: Play) -> None:
    """All figures of both sides; the ratio of the core time is 1, within what noise explains.

    What belongs to one side and is booked to the other would show in each of three duets; what
    else the machine does, only in some.
    """
    case = declared("asgi-wsgi/asgi-json/py3.14/w1/c128")
    ratios = []
    for _ in range(3):
        (result,) = play((case, case), head_first=True)
        base, head = unfailed(result, case)
        assert base.keys() | head.keys() <= METRICS.keys()
        assert base["requests"] > 0
        raised = {flag.name for flag in (*result.flags_base, *result.flags_head)}
        assert FlagName.MEMORY_GROWS not in raised, result
        assert result.seconds > 1.5
        ratios.append(head["server_cpu_per_request"] / base["server_cpu_per_request"])
        if abs(ratios[-1] - 1) <= 0.1:
            break
    assert ratios[-1] == pytest.approx(1, abs=0.1), ratios


def test_both_sides_gain_what_they_shared() -> None:
    """4.25 MB more than 85.5 MB are 4.97 %, and not the 5.56 % of what PSS says beside another."""

    def sample(pss: int) -> tree_usage.MemorySample:
        return tree_usage.MemorySample(0.0, (1,), pss, 5)

    beside, alone = sample(72_000_000), sample(81_000_000)
    sides = [{"pss_steady": 76.5e6, "requests": 1.0}, {"pss_steady": 80.75e6, "requests": 1.0}]
    base, head = (duet.own_memory(side, beside, alone) for side in sides)
    assert base == {"pss_steady": 85.5e6}
    assert head["pss_steady"] / base["pss_steady"] == pytest.approx(1.0497, abs=1e-4)
    gone = tree_usage.MemorySample(1.0, (), 0, 0)
    assert duet.own_memory(sides[0], beside, gone) == {}


@pytest.mark.real
def test_a_server_that_is_killed_in_the_second_duet(
    bench: Bench, play: Play, servers: list[Session]
) -> None:
    """The first stands, with its memory as the one that is left has it alone; there is no third."""
    alone: list[tree_usage.MemorySample] = []
    loads: list[oha.Generation] = []
    places: set[frozenset[int]] = set()
    real_over, real_own_memory = oha.Generation.over, duet.own_memory

    def over(self: oha.Generation) -> bool:
        if self not in loads:
            loads.append(self)
        places.update(frozenset(os.sched_getaffinity(server.pid)) for server in servers)
        if len(loads) > 2 and servers[1].poll() is None:
            os.kill(servers[1].pid, signal.SIGKILL)
        return real_over(self)

    def own_memory(*samples: Any) -> dict[str, float]:
        alone.append(samples[2])
        return real_own_memory(*samples)

    bench.patch.setattr(oha.Generation, "over", over)
    bench.patch.setattr(duet, "own_memory", own_memory)
    case = declared("badapps/right", root=bench.root)
    first, second = play(*[(case, case)] * 3, seconds=0.5)
    unfailed(first, case)
    assert (second.base, second.head) == ({}, {})
    assert "server_died" in failures(second.flags_head)
    assert not failures(second.flags_base), second
    assert len(places) == 1, "one was started on other cores"
    assert alone
    assert all(sample.pids == (servers[0].pid,) for sample in alone)
    assert not bench.alive()


LIARS: Final = {
    "ragged": None,  # whose answers rightly have many lengths
    "uneven": FlagName.WRONG_ANSWER,
    "mask": FlagName.WRONG_ANSWER,
    "inside": FlagName.WRONG_ANSWER,
    "strained": FlagName.WRONG_ANSWER,
    "keep": FlagName.MEMORY_GROWS,
    "hasty": FlagName.IMPOSSIBLE,  # nothing follows: it ends the launch
}
"""Right whenever one request is sent alone, but for `inside`; and what tells of each."""


@pytest.mark.long
@pytest.mark.real
def test_a_liar_is_caught_on_its_side(bench: Bench, play: Play) -> None:
    """All on one launch: of the truthful side beside them nothing is said.

    They are base and head in turn. There is no ratio of a wrong answer, nor of memory that grows.
    On a busy machine a load has few answers, or none are in flight: then a longer one decides.
    """
    # Answers are checked every few milliseconds: some overlap requests, even on a busy machine.
    bench.patch.setattr(launch, "SPOT_SECONDS", 0.02)
    bench.patch.setattr(launch, "SPOT_SHARE", 20)
    honest = declared("badapps/truthful", root=bench.root)
    lies: list[tuple[SideName, Case, FlagName | None]] = [
        (SIDES[number % 2], declared(f"badapps/{name}", root=bench.root), flag)
        for number, (name, flag) in enumerate(LIARS.items())
    ]
    for seconds in (1.6, 3.2, 6.4):
        pairs = [(case, honest) if liar == "base" else (honest, case) for liar, case, _ in lies]
        results = play(*pairs, head_first=True, seconds=seconds)
        lies = [
            lie
            for lie, result in zip_longest(lies, results)
            if result is None or not is_told(result, *lie)
        ]
        if not lies:
            break
    assert not lies, results
    assert not bench.alive()


def is_told(result: Duet, liar: SideName, case: Case, flag: FlagName | None) -> bool:
    (other,) = {*SIDES} - {liar}
    caught, beside = ({flag.name for flag in result.flags(side)} for side in (liar, other))
    duets = CaseDuets(case)
    duets.add(result)
    ratios = {METRICS[name].unit == "B" for name in duets.metrics if duets.count(name)}
    expected = {FlagName.MEMORY_GROWS: {False}, None: {False, True}}.get(flag, set())
    output = {*LIARS.values()}
    return caught & output == {flag} - {None} and not beside & output and ratios == expected


@pytest.mark.real
def test_endpoints_of_one_server_in_turn(bench: Bench, play: Play) -> None:
    """Flags and figures are each one's own; of a side that gets quicker no ratio lasts."""
    truthful, quicken = (
        declared(f"badapps/{name}", root=bench.root) for name in ("truthful", "quicken")
    )
    began = time.monotonic()
    results = play((truthful, quicken), (quicken, truthful), seconds=1.6)
    assert sum(result.seconds for result in results) <= time.monotonic() - began
    # 54 times 30 ms are more than 1.6 s; after 0.7 s, nearly the first half, it waits no more.
    most = 54 * truthful.load.connections
    for result, sign in zip(results, (1, -1), strict=True):
        slow, quick = unfailed(result, quicken)[::sign]
        assert slow["requests"] <= most < quick["requests"]
        flagged = [FlagName.NOT_STEADY in {f.name for f in result.flags(side)} for side in SIDES]
        assert flagged[::sign] == [False, True]
        assert not result.usable
        assert result.seconds >= 1.6
    assert not bench.alive()


@pytest.mark.real
def test_an_interruption_leaves_nothing(bench: Bench, play: Play) -> None:

    def over(_self: oha.Generation) -> bool:
        eventually("two servers and two generators", lambda: len(bench.alive()) == 4)
        raise InterruptedRun(signal.SIGINT)

    bench.patch.setattr(oha.Generation, "over", over)
    case = declared("badapps/right", root=bench.root)
    with pytest.raises(InterruptedRun):
        play((case, case), seconds=30)
    assert not bench.alive()


def test_loads_of_a_duet() -> None:
    """As long as asked for at least, as 3.3 services, and as 30 requests where they are paced."""
    quick = make_case("e/quick")
    assert duet_load(quick, 3).duration == 3
    slow = make_case("e/quick", endpoint_floor=0.9, endpoint_takes=1.0)
    assert duet_load(slow, 3).duration == pytest.approx(3.3)
    # Each side verifies twice, and the last requests are answered in four waves.
    slots = slow.load.connections // 4
    slow = slow.model_copy(update={"slots": slots})
    assert duet_seconds(slow) == pytest.approx((1, 0.5 + 3.3 + 4 * 1 + 4 * 1))
    for rate, output, expected in ((200.0, 5, 2), (10.0, 5, 3), (10.0, 2.5, 2.5)):
        load = {"rate": rate, "duration": output}
        paced = quick.model_copy(update={"load": quick.load.model_copy(update=load)})
        assert duet_load(paced, 2).duration == expected


def test_no_more_connections_than_are_answered_in_half_of_a_load() -> None:
    for seconds, least, few in (
        (0.0155, 8, 64),  # all have their answers in 0.99 s
        (0.03, 8, 33),
        (0.1, 1, 10),
        (0.25, 8, 8),  # 4, and the server works on eight at once
        (0.25, 1, 4),
        (5, 1, 1),
    ):
        assert in_time(seconds, least) == few
        assert in_time(0.0, least) > 10_000
    # A load of waits leaves half of the cores.
    for busy, cores, slots, few in (
        (0.03, 1, 0, 16),  # two requests of 20 ms that compute 0.3 ms: 16.7 fill half a core
        (0.03, 2, 0, 33),
        (0.03, 1, 8, 8),  # more would wait for a thread
        (0.5, 1, 0, 1),
        (0.6, 1, 0, 0),  # one at a time uses more
    ):
        assert below_saturation(busy, cores, slots) == few
