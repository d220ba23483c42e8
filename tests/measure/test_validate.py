"""Every flag that a single launch can raise, each with figures worked out by hand."""

import math
from typing import Any

import pytest

from duetbench.core.errors import FlagName
from duetbench.core.model import Case, Endpoint, Expectation, Flag, Load
from duetbench.load.validity import Facts, judge

CLOSED = Load(connections=128, duration=30, timeout=30)
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
    "offered": 10, "throughput": 9.9, "requests": 100, "good": 100, "unsent": 0,
    "window": 10.0, "in_flight": 2.0, "lag": 0.002,
    "response_min": 0.199, "response_mean": 0.205, "response_p50": 0.203, "response_max": 0.237,
    "service_min": 0.199, "service_mean": 0.205, "service_p50": 0.203, "service_max": 0.237,
}  # fmt: skip


def case(
    load: Load = CLOSED,
    floor: float = 0.010,
    expect: Expectation = Expectation(content_type="text/plain", text="x"),  # noqa: B008
    **changes: Any,
) -> Case:
    known: dict[str, Any] = {
        "id": "e/x", "experiment": "e", "python": "3.14", "stack": "current", "server": "granian",
        "loop": "asyncio", "workers": 1, "cores": "split", "load": load,
        "endpoint": Endpoint(
            name="x", app="a:app", interface="asgi", path="/x", floor=floor,
            expect=expect,
        ),
    }  # fmt: skip
    return Case.model_validate(known | changes)


def facts(figures: dict[str, float] | None = None, **changes: Any) -> Facts:
    known: dict[str, Any] = {
        "case": case(), "server_cores": 1, "client_cores": 1,
        "pids_before": frozenset({10, 11}), "pids_after": frozenset({10, 11}),
        "steady": True,
    }  # fmt: skip
    return Facts(figures=GOOD | (figures or {}), **known | changes)


def paced(
    figures: dict[str, float], load: Load = PACED, floor: float = 0.0, **changes: Any
) -> Facts:
    return Facts(
        case=case(load, floor),
        figures=PACED_GOOD | figures,
        server_cores=1,
        client_cores=1,
        **changes,
    )


def varying(least: int, most: int) -> Case:
    found = case()
    expect = found.endpoint.expect.model_copy(update={"size": (least, most)})
    return found.model_copy(
        update={"endpoint": found.endpoint.model_copy(update={"expect": expect})}
    )


def names(flags: tuple[Flag, ...]) -> list[FlagName]:
    return [flag.name for flag in flags]


def test_a_good_launch_raises_nothing() -> None:
    assert judge(facts()) == ()
    assert judge(paced({})) == ()
    assert judge(Facts(case=case(), figures=GOOD, server_cores=1, client_cores=1)) == ()


LATE = Facts(
    case=case(),
    figures={"requests": 12, "good": 12, "timeouts": 0, "errors": 0},
    server_cores=1,
    client_cores=1,
)


RAISED: list[tuple[FlagName, Facts, str]] = [
    (FlagName.NO_ANSWER, facts({"timeouts": 2}), "2 timeouts and 0 other errors"),
    (FlagName.WRONG_ANSWER, facts({"good": 299_999}), "another in 1 of 300000 answers"),
    (FlagName.WRONG_ANSWER, facts(right_sizes=frozenset({27}), sizes={27: 299_400, 0: 598, 26: 2}),
     "of 27 bytes, found others in 600 of 300000 answers: 598 of 0 bytes, 2 of 26 bytes; fix"),
    (
        FlagName.WRONG_ANSWER,
        facts(case=case(expect=Expectation()), right_sizes=frozenset({2}), sizes={2: 7, 4: 9},
              excerpts={4: "'busy'"}),
        "others in 9 of 16 answers: 9 of 4 bytes ('busy'); they vary only under load",
    ),
    (
        FlagName.WRONG_ANSWER,
        facts(case=varying(20, 30), right_sizes=frozenset({27}), sizes={20: 9, 30: 9, 31: 1}),
        "of 20 to 30 bytes, found others in 1 of 19 answers: 1 of 31 bytes",
    ),
    (FlagName.SERVER_DIED, facts(pids_after=frozenset({10, 12})), "[10, 11] to stay"),
    # 128 * 0.95 = 121.6 and 128 * 1.05 = 134.4
    (FlagName.IMPOSSIBLE, facts({"in_flight": 121.5}), "expected 128 requests in flight"),
    (FlagName.IMPOSSIBLE, facts({"in_flight": 134.5}), "found 134.50"),
    # 12,800 * 1.01 = 12,928
    (FlagName.IMPOSSIBLE, facts({"throughput": 12_929}), "at most 12,800/s, the ceiling"),
    (FlagName.IMPOSSIBLE, facts({"response_min": 0.0089}), "the floor"),
    (FlagName.IMPOSSIBLE, facts({"throughput": math.nan}), "found nan"),
    (FlagName.IMPOSSIBLE, facts({"server_cores": 1.06}), "not above the server's cores"),
    (FlagName.LOAD_FAILED, facts({"client_cores": 0.95}), "found 0.95"),
    # Of two generators none is held back as long as some time is left.
    (FlagName.LOAD_FAILED, facts({"client_cores": 0.5}, client_beside=0.48), "found 0.98"),
    # Of 100 requests, at most 5 may be unsent.
    (FlagName.OVERLOADED, paced({"unsent": 6}), "6 of 100 requests were never sent"),
    # The first answer takes 0.199 s of 10 s: 10 * 0.9801 * 0.95 = 9.31 are due.
    (FlagName.OVERLOADED, paced({"throughput": 9.30}), "10.0/s were offered, 9.30/s answered"),
    (FlagName.HOST_NOISE, paced({"lag": 0.021}), "21.0 ms late"),  # 10 % of 203 ms
    (FlagName.NOT_STEADY, facts(steady=False), "after 6.10 s of warm-up"),
    (FlagName.NOT_STEADY, paced({}, times=(0.031, 0.03, 0.01)),
     "became quicker in the load, by thirds: 31.0 ms, 30.0 ms, 10.0 ms"),
    # 300,000 requests of 1,001 bytes are 300 MB; 15,000 of 1,067 are 16.005 MB.
    (FlagName.MEMORY_GROWS, facts({"memory_per_request": 20_480, "least_kept": 1001}),
     "kept 20,480 bytes per request, and 1,001 at least: 300 MB in this load"),
    (
        FlagName.MEMORY_GROWS,
        facts(
            {"requests": 15_000, "good": 15_000, "memory_per_request": 1200.0}
            | {"least_kept": 1067.0}
        ),
        "16.0 MB",
    ),
    (FlagName.CONNECTIONS_CLOSED, facts({"reopened": 301}),
     "128 connections kept alive, found 301 more opened for 300000 requests"),
    (FlagName.FEW_CORES, facts(case=case(workers=2)), "2 workers on 1 server core"),
    (FlagName.FEW_CORES, facts(case=case(cores="shared")), "as declared"),
    (FlagName.HOST_NOISE, facts(pinned=False), "scheduler"),
    (FlagName.HOST_NOISE, facts({"host_steal": 0.011}), "1.10 % of the core time"),
    (FlagName.HOST_NOISE, facts({"host_other": 0.11}), "0.11 cores"),
    (FlagName.FEW_SAMPLES, paced({"requests": 9, "good": 9}), "9 good answers"),
    (FlagName.NO_ANSWER, LATE, "all 12 of them later"),
]  # fmt: skip


@pytest.mark.parametrize(("flag", "seen", "words"), RAISED)
def test_a_fault_raises_its_flag_alone(flag: FlagName, seen: Facts, words: str) -> None:
    found = judge(seen)
    assert names(found) == [flag]
    assert words in found[0].detail


@pytest.mark.parametrize(
    "seen",
    [
        facts({"in_flight": 121.7}),
        facts({"throughput": 12_927}),
        facts({"response_min": 0.0091}),
        facts({"client_cores": 0.94}),
        facts({"client_cores": 0.5}, client_beside=0.4),
        facts({"client_cores": 1.9}, case=case(cores="shared")),
        facts(right_sizes=frozenset({27, 28}), sizes={27: 9, 28: 9}),
        facts(sizes={0: 9}),  # nothing was verified
        facts(case=varying(20, 30), sizes={20: 9, 30: 9}),
        paced({}, times=(0.030, 0.02, 0.01)),
        paced({}, times=(0.01, 0.5, 0.9)),  # a queue that grows
        facts({"memory_per_request": 2000, "least_kept": 999}),
        facts({"requests": 15_000, "good": 15_000, "least_kept": 1066}),
        facts({"memory_per_request": -30, "least_kept": -99}),
        facts({"reopened": 300}),
        paced({"unsent": 5}),
        paced({"throughput": 9.32}),
        paced({"lag": 0.020}),
        # Ten ticks in 1 s span nine intervals: 10/s may be counted as 11.
        Facts(
            case=case(OPEN, 0.0),
            figures=PACED_GOOD | {"window": 1.0, "throughput": 11},
            server_cores=1,
            client_cores=1,
        ),
    ],
)
def test_what_lies_within_its_limit_fails_nothing(seen: Facts) -> None:
    assert set(names(judge(seen))) <= {FlagName.FEW_CORES}


def test_one_connection_may_pause_between_quick_answers() -> None:
    """0.1 ms an answer and 20 µs of pause: 0.83 in flight is the generator's pace, not a fault."""
    one = Load(connections=1, duration=10, timeout=30)
    quick = {name: 1e-4 for name in GOOD if name.startswith("response")}
    seen = facts({**quick, "in_flight": 0.83}, case=case(one, 0.0))
    assert judge(seen) == ()


def test_an_open_load_is_due_after_the_floor() -> None:
    slow = {
        f"{kind}_{point}": 3.001
        for kind in ("response", "service")
        for point in ("min", "mean", "p50", "max")
    }
    figures = {**slow, "window": 7.0, "in_flight": 30.0}
    assert judge(paced({**figures, "throughput": 9.6}, OPEN, 3.0)) == ()
    assert names(judge(paced({**figures, "throughput": 9.4}, OPEN, 3.0))) == [FlagName.OVERLOADED]


def test_waiting_endpoints_with_few_places_are_overloaded_as_published() -> None:
    """10/s through five places of 3 s are 1.67/s; 79 of 100 requests are never sent."""
    figures = {name: 3.0 for name in PACED_GOOD if name.startswith(("response", "service"))} | {
        "throughput": 1.6,
        "unsent": 79,
        "requests": 21,
        "good": 21,
    }
    (flag,) = judge(paced({**figures, "in_flight": 4.9}, PACED, 3.0))
    assert flag.name is FlagName.OVERLOADED
    assert "79 of 100 requests were never sent; 10.0/s were offered, 1.60/s answered" in flag.detail


def test_all_that_is_wrong_is_said_fails_first() -> None:
    found = judge(facts({"errors": 3, "host_steal": 0.5}, pinned=False))
    assert names(found) == [FlagName.NO_ANSWER, FlagName.HOST_NOISE, FlagName.HOST_NOISE]


def test_without_figures_only_the_counts_are_judged() -> None:
    counts = {"requests": 0.0, "good": 0, "timeouts": 0, "errors": 500}
    found = judge(Facts(case=case(), figures=counts, server_cores=1, client_cores=1))
    assert names(found) == [FlagName.NO_ANSWER, FlagName.FEW_SAMPLES]


def test_every_flag_is_judged_here_or_raised_where_it_is_seen() -> None:
    raised_elsewhere = {
        FlagName.NOT_READY, FlagName.STRAY_PROCESS, FlagName.HARNESS_ERROR,
        FlagName.FEW_LAUNCHES, FlagName.STOP_TIMEOUT, FlagName.ERROR_INSIDE,
    }  # fmt: skip
    assert {flag for flag, _, _ in RAISED} == set(FlagName) - raised_elsewhere
