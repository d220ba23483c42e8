"""Every flag that a single launch can raise, each with figures worked out by hand."""

import math
from typing import Any

import pytest

from duetbench.core.errors import FlagName
from duetbench.core.model import Case, Expectation, Load
from duetbench.load.validity import Facts, judge
from synthetic import make_case

CLOSED = Load(connections=128, duration=30, timeout=30)
ONE = Load(connections=1, duration=10, timeout=30)
PACED = Load(connections=5, rate=10, duration=10, timeout=60)
OPEN = Load(connections=100, rate=10, duration=10, timeout=60)

GOOD = {
    "requests": 300_000, "good": 300_000, "timeouts": 0, "errors": 0, "window": 30.0,
    "throughput": 10_000, "in_flight": 127.9,
    "response_min": 0.0101, "response_mean": 0.0128, "response_p50": 0.0127,
    "response_p90": 0.014, "response_p95": 0.015, "response_p99": 0.016,
    "response_p999": 0.02, "response_max": 0.04,
    "client_cores": 0.6, "server_cores": 0.98, "host_steal": 0.002, "host_other": 0.03,
    "warm_up": 6.1,
}  # fmt: skip
"""128 connections, a floor of 10 ms: at most 12,800/s."""

PACED_GOOD = {
    "offered": 10, "throughput": 9.9, "requests": 100, "good": 100,
    "window": 10.0, "in_flight": 2.0,
    "response_min": 0.199, "response_mean": 0.205, "response_p50": 0.203, "response_max": 0.237,
    "service_min": 0.199, "service_mean": 0.205, "service_p50": 0.203, "service_max": 0.237,
}  # fmt: skip


def case(load: Load = CLOSED, floor: float = 0.010, **changes: Any) -> Case:
    expect = Expectation(
        content_type="text/plain", text=changes.pop("text", "x"), size=changes.pop("size", None)
    )
    own = {"server": "granian", "slots": None, "endpoint_floor": floor, "endpoint_expect": expect}
    return make_case("e/x", load=load, **own, **changes)


def facts(figures: dict[str, float] | None = None, **changes: Any) -> Facts:
    known: dict[str, Any] = {
        "case": case(), "server_cores": 1, "client_cores": 1,
        "pids_before": frozenset({10, 11}), "pids_after": frozenset({10, 11}),
        "steady": True,
    }  # fmt: skip
    return Facts(figures=GOOD | (figures or {}), **known | changes)


def bare(figures: dict[str, float], case_: Case, **changes: Any) -> Facts:
    return Facts(case=case_, figures=figures, server_cores=1, client_cores=1, **changes)


def paced(
    figures: dict[str, float], load: Load = PACED, floor: float = 0.0, **changes: Any
) -> Facts:
    return bare(PACED_GOOD | figures, case(load, floor), **changes)


def taking(seconds: float, figures: dict[str, float] = GOOD) -> dict[str, float]:
    """All times of some figures, each so many seconds."""
    return {name: seconds for name in figures if name.startswith(("response", "service"))}


def grown(requests: int, each: float, least: float) -> Facts:
    counts = {"requests": requests, "good": requests}
    return facts({**counts, "memory_per_request": each, "least_kept": least})


def sized(right: set[int], sizes: dict[int, int], **more: Any) -> Facts:
    return facts(right_sizes=frozenset(right), sizes=sizes, **more)


ANY, VARYING = case(text=None), case(size=(20, 30))
SLOW = {**taking(3.001, PACED_GOOD), "window": 7.0, "in_flight": 30.0}
FULL = {**taking(3.0, PACED_GOOD), "throughput": 1.6, "requests": 21, "good": 21}

RAISED: list[tuple[FlagName, Facts, str]] = [
    (FlagName.NO_ANSWER, facts({"timeouts": 2}), "2 timeouts and 0 other errors"),
    (FlagName.NO_ANSWER, bare({"requests": 12, "good": 12, "timeouts": 0, "errors": 0}, case()),
     "all 12 of them later"),
    (FlagName.WRONG_ANSWER, facts({"good": 299_999}), "another in 1 of 300000 answers"),
    (FlagName.WRONG_ANSWER, sized({27}, {27: 299_400, 0: 598, 26: 2}),
     "of 27 bytes, found others in 600 of 300000 answers: 598 of 0 bytes, 2 of 26 bytes; fix"),
    (FlagName.WRONG_ANSWER, sized({2}, {2: 7, 4: 9}, case=ANY),
     "others in 9 of 16 answers: 9 of 4 bytes; they vary only under load"),
    (FlagName.WRONG_ANSWER, sized({27}, {20: 9, 30: 9, 31: 1}, case=VARYING),
     "of 20 to 30 bytes, found others in 1 of 19 answers: 1 of 31 bytes"),
    (FlagName.SERVER_DIED, facts(pids_after=frozenset({10, 12})), "[10, 11] to stay"),
    # 128 * 0.95 = 121.6 and 128 * 1.05 = 134.4
    (FlagName.IMPOSSIBLE, facts({"in_flight": 121.5}), "expected 128 requests in flight"),
    (FlagName.IMPOSSIBLE, facts({"in_flight": 134.5}), "found 134.50"),
    # 0.1 ms an answer, and a pause of 50 µs at most.
    (FlagName.IMPOSSIBLE, facts({**taking(1e-4), "in_flight": 0.49}, case=case(ONE, 0.0)),
     "expected 1 requests in flight"),
    # 12,800 * 1.01 = 12,928
    (FlagName.IMPOSSIBLE, facts({"throughput": 12_929}), "at most 12,800/s, the ceiling"),
    (FlagName.IMPOSSIBLE, facts({"response_min": 0.0089}), "the floor"),
    (FlagName.IMPOSSIBLE, paced({"service_min": 0.18}, PACED, 0.19), "the floor"),
    (FlagName.IMPOSSIBLE, facts({"throughput": math.nan}), "found nan"),
    (FlagName.IMPOSSIBLE, facts({"server_cores": 1.06}), "not above the server's cores"),
    (FlagName.LOAD_FAILED, facts({"client_cores": 0.95}), "found 0.95"),
    # Of two generators none is held back as long as some time is left.
    (FlagName.LOAD_FAILED, facts({"client_cores": 0.5}, client_beside=0.48), "found 0.98"),
    # The first answer takes 0.199 s of 10 s: 10 * 0.9801 * 0.95 = 9.31 are due.
    (FlagName.OVERLOADED, paced({"throughput": 9.30}), "10.0/s were offered, 9.30/s answered"),
    # After a floor of 3 s less is due.
    (FlagName.OVERLOADED, paced({**SLOW, "throughput": 9.4}, OPEN, 3.0), "9.40/s answered"),
    # As published: 10/s through five places of 3 s are 1.67/s.
    (FlagName.OVERLOADED, paced({**FULL, "in_flight": 4.9}, PACED, 3.0),
     "10.0/s were offered, 1.60/s answered"),
    (FlagName.HOST_NOISE, facts(pinned=False), "scheduler"),
    (FlagName.HOST_NOISE, facts({"host_steal": 0.011}), "1.10 % of the core time"),
    (FlagName.HOST_NOISE, facts({"host_other": 0.11}), "0.11 cores"),
    (FlagName.NOT_STEADY, facts(steady=False), "after 6.10 s of warm-up"),
    (FlagName.NOT_STEADY, paced({}, times=(0.031, 0.03, 0.01)),
     "became quicker in the load, by thirds: 31.0 ms, 30.0 ms, 10.0 ms"),
    # 300,000 requests of 1,001 bytes are 300 MB; 15,000 of 1,067 are 16.005 MB.
    (FlagName.MEMORY_GROWS, grown(300_000, 20_480, 1001),
     "kept 20,480 bytes per request, and 1,001 at least: 300 MB in this load"),
    (FlagName.MEMORY_GROWS, grown(15_000, 1200.0, 1067.0), "16.0 MB"),
    (FlagName.FEW_CORES, facts(case=case(workers=2)), "2 workers on 1 server core"),
    (FlagName.FEW_CORES, facts(case=case(cores="shared")), "as declared"),
    (FlagName.FEW_SAMPLES, paced({"requests": 9, "good": 9}), "9 good answers"),
]  # fmt: skip
FINE = [
    facts(),
    paced({}),
    bare(GOOD, case()),
    facts({"in_flight": 121.7}),
    facts({"throughput": 12_927}),
    facts({"response_min": 0.0091}),
    facts({"client_cores": 0.94}),
    facts({"client_cores": 0.5}, client_beside=0.4),
    sized({27, 28}, {27: 9, 28: 9}),
    facts(sizes={0: 9}),  # nothing was verified
    facts(case=VARYING, sizes={20: 9, 30: 9}),
    paced({}, times=(0.030, 0.02, 0.01)),
    paced({}, times=(0.01, 0.5, 0.9)),  # a queue that grows
    grown(300_000, 2000, 999),
    grown(15_000, 1200, 1066),
    grown(300_000, -30, -99),
    paced({"throughput": 9.32}),
    paced({**SLOW, "throughput": 9.6}, OPEN, 3.0),
    # Ten ticks in 1 s span nine intervals: 10/s may be counted as 11.
    paced({"window": 1.0, "throughput": 11}, OPEN),
    # 0.1 ms an answer and 20 µs of pause: 0.83 in flight is the generator's pace, not a fault.
    facts({**taking(1e-4), "in_flight": 0.83}, case=case(ONE, 0.0)),
]


@pytest.mark.parametrize(("flag", "seen", "words"), RAISED)
def test_a_fault_raises_its_flag_alone(flag: FlagName, seen: Facts, words: str) -> None:
    (raised,) = judge(seen)
    assert raised.name is flag
    assert words in raised.detail


@pytest.mark.parametrize("seen", FINE)
def test_what_lies_within_its_limit_raises_nothing(seen: Facts) -> None:
    assert judge(seen) == ()


def test_all_that_is_wrong_is_said_fails_first() -> None:
    """Of a launch without an answer only the counts are judged."""
    noisy = facts({"errors": 3, "client_cores": 1.9, "host_steal": 0.5}, pinned=False,
                  case=case(cores="shared"))  # fmt: skip
    names = [flag.name for flag in judge(noisy)]
    assert names[0] is FlagName.NO_ANSWER
    assert {*names[1:]} == {FlagName.HOST_NOISE, FlagName.FEW_CORES}
    counts = {"requests": 0.0, "good": 0, "timeouts": 0, "errors": 500}
    names = [flag.name for flag in judge(bare(counts, case()))]
    assert names == [FlagName.NO_ANSWER, FlagName.FEW_SAMPLES]


def test_every_flag_is_judged_here_or_raised_where_it_is_seen() -> None:
    raised_elsewhere = {
        FlagName.NOT_READY, FlagName.STRAY_PROCESS, FlagName.HARNESS_ERROR,
        FlagName.FEW_LAUNCHES, FlagName.STOP_TIMEOUT, FlagName.ERROR_INSIDE,
    }  # fmt: skip
    assert {flag for flag, _, _ in RAISED} == set(FlagName) - raised_elsewhere
