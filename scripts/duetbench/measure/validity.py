"""What was wrong with a launch: the checks that raise its flags, from the facts that it recorded.

Flags that end a launch at once (a wrong body, a server that died) are raised on the spot.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from duetbench.core import units
from duetbench.core.errors import FlagName
from duetbench.core.metrics import METRICS
from duetbench.core.model import Case, Flag, LoadModel
from duetbench.host.machine import OTHER_CORES, STEAL

LITTLES_LAW: Final = 0.05
"""Share of the time that the connections of a closed loop may be idle between two requests."""

TURNAROUND: Final = 50e-6
"""Seconds that the generator may take between an answer and the next request, in addition: if an
answer takes 0.1 ms, that pause alone would look like a violation."""

CEILING: Final = 1.01
"""Factor above its ceiling from which a throughput is impossible: clocks are that good."""

FLOOR_SLACK: Final = 0.001
"""Seconds by which an answer may seem faster than its floor: some timers have millisecond steps."""

CORES: Final = 1.05  # factor; above it a clock is wrong, or processes are not pinned

SATURATED: Final = 0.95
"""Share of its cores from which the generator, not the server, may be the bottleneck. The kernel's
own work and our readings need the rest."""

KEPT_UP: Final = 0.95  # share of the offered requests that must be answered; the rest is in flight

SCHEDULE_LAG: Final = (0.010, 0.10)
"""Seconds, and share of the median response, that 99 % of the ticks may be late by: a late tick
hides waiting from the response times. The generator's timers have a resolution of 1 ms. A virtual
machine sometimes pauses for some 20 ms, which moves only percentiles above the 99th."""

IMBALANCE: Final = 1.25
"""Multiple of the fair share of the connections that the busiest worker may hold. Two workers with
160 and 40 connections act like little more than one; 53 to 47 is chance."""

SIZES_SHOWN: Final = 3  # wrong body sizes that a flag names

MOVED: Final = 1.25
"""Factor by which the throughput of a load's thirds may differ. If windows of a sixth of a second
scatter by 5 %, thirds differ by 1.05 on average and never by 1.25 (simulated). A server that gets
twice as fast before the last sixth of the load gives 1.4 or more."""

QUICKER: Final = 3.0
"""The same for median service times, for loads whose throughput is fixed by a rate."""

GROWTH_PER_REQUEST: Final = 1000.0
GROWTH_TOTAL: Final = 16e6
"""Bytes that a server may keep per request, and in one load; more of both is growth. Pools that
fill are none: without the GIL, Granian's 64 blocking threads keep some 550 bytes of each of the
first 10,000 requests and 200 of each of the first 120,000 (5 and 24 MB). With a paced load they
keep 2.6 kB of each of the first 600. All other handlers here keep less than 3 MB."""

REOPENED: Final = 0.001
"""Connections per request that may be reopened. One costs a server about two requests (see
`protocol.SPOT_SHARE`), so these cost 0.2 % of its core time: the smallest change that matters."""

IDLE: Final = 0.25  # cores that server, its commands and the generator use at most when all wait
WAITS: Final = 0.005  # median answer time in s from which a wait is reported
POOL: Final = (1.5, 0.75)  # requests at once, and share of the connections: between them, a pool
FEW: Final = 10  # good answers that even a p90 needs; see `metrics.PERCENTILES`


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a launch recorded. A default means that nobody looked; checks then raise no flag."""

    case: Case
    figures: Mapping[str, float]  # metrics, and what only checks use, as far as they exist
    server_cores: int
    client_cores: int
    commands: float = 0.0  # cores used by processes that the case's commands left running
    client_beside: float = 0.0  # client cores used by another generator of ours
    pinned: bool = True
    pids_before: frozenset[int] = frozenset()
    pids_after: frozenset[int] = frozenset()
    connections: tuple[int, ...] = ()  # per worker process, under load
    idle_lost: int = 0  # idle connections that the server closed
    steady: bool = True
    right_sizes: frozenset[int] = frozenset()  # bytes of the bodies that passed verification
    sizes: Mapping[int, int] = field(default_factory=dict)  # bytes of a body → answers under load
    excerpts: Mapping[int, str] = field(default_factory=dict)  # of some of these bodies
    throughputs: tuple[float, ...] = ()  # in each third of the load, 1/s
    times: tuple[float, ...] = ()  # median service time of the requests sent in each third, s


def judge(facts: Facts) -> tuple[Flag, ...]:
    """Return all flags that the facts call for: failures first, one per reason."""
    raised = (flag for check in CHECKS for flag in check(facts))
    return tuple(sorted(raised, key=lambda flag: flag.kind != "void"))


def _flag(name: FlagName, detail: str) -> Flag:
    return Flag(name=name, detail=detail)


def _answers(facts: Facts) -> Iterator[Flag]:
    timeouts, errors, requests, good = (
        facts.figures.get(name, 0) for name in ("timeouts", "errors", "requests", "good")
    )
    if timeouts or errors:
        yield _flag(
            FlagName.NO_ANSWER,
            f"expected none, found {timeouts:.0f} timeouts and {errors:.0f} other errors "
            f"beside {requests:.0f} answers; see the server's log",
        )
    if good and "throughput" not in facts.figures:
        yield _flag(
            FlagName.NO_ANSWER,
            f"expected good answers within {facts.case.load.duration:g} s, found all "
            f"{good:.0f} of them later; use fewer connections, such as --connections 8",
        )
    if requests > good:
        yield _flag(
            FlagName.WRONG_ANSWER,
            f"expected status {facts.case.endpoint.expect.status} always, found another in "
            f"{requests - good:.0f} of {requests:.0f} answers; see the server's log",
        )


def _sizes(facts: Facts) -> Iterator[Flag]:
    declared, right = facts.case.endpoint.expect.size, facts.right_sizes or facts.sizes
    allowed = range(declared[0], declared[1] + 1) if declared else right
    wrong = {size: count for size, count in facts.sizes.items() if size not in allowed}
    if wrong:
        words = (
            f"{declared[0]} to {declared[1]}" if declared else " or ".join(map(str, sorted(right)))
        )
        often = sorted(wrong, key=lambda size: -wrong[size])
        examples = ", ".join(
            f"{wrong[size]} of {size} bytes"
            + (f" ({facts.excerpts[size]})" if size in facts.excerpts else "")
            for size in often[:SIZES_SHOWN]
        )
        advice = (
            "fix the handler, or declare the sizes that its answers may have"
            if declared or facts.case.endpoint.expect.tells_body
            else "they vary only under load: is that an error, or a number of requests or users?"
        )
        yield _flag(
            FlagName.WRONG_ANSWER,
            f"expected bodies of {words} bytes, found others in {sum(wrong.values())} of "
            f"{sum(facts.sizes.values())} answers: {examples}"
            f"{', …' if len(often) > SIZES_SHOWN else ''}; {advice}",
        )


def _server(facts: Facts) -> Iterator[Flag]:
    if facts.pids_before != facts.pids_after:
        yield _flag(
            FlagName.SERVER_DIED,
            f"expected the processes {sorted(facts.pids_before)} to stay, found "
            f"{sorted(facts.pids_after)}; see the server's log",
        )


def _littles_law(facts: Facts) -> Iterator[Flag]:
    load, in_flight = facts.case.load, facts.figures.get("in_flight")
    if load.model is not LoadModel.CLOSED or in_flight is None:
        return
    mean = facts.figures.get("response_mean", 0.0)
    pause = TURNAROUND / mean if mean > 0 else 0.0
    if not 1 - max(LITTLES_LAW, pause) <= in_flight / load.connections <= 1 + LITTLES_LAW:
        yield _flag(
            FlagName.IMPOSSIBLE,
            f"expected {load.connections} requests in flight on average (within "
            f"{LITTLES_LAW:.0%}), found {in_flight:.2f}; the generator left connections idle",
        )


def _impossible(facts: Facts) -> Iterator[Flag]:
    for problem in _contradictions(facts):
        yield _flag(
            FlagName.IMPOSSIBLE, f"{problem}; the measurement is wrong, not the server good"
        )


def _contradictions(facts: Facts) -> Iterator[str]:
    figures, case = facts.figures, facts.case
    floor = case.endpoint.floor
    for kind in ("response", "service"):
        fastest = figures.get(f"{kind}_min")
        if fastest is not None and fastest < floor - FLOOR_SLACK:
            yield (
                f"expected {units.seconds(floor)}, the floor, or more, "
                f"found {units.seconds(fastest)}"
            )
    ceiling, throughput = case.ceiling, figures.get("throughput", 0.0)
    if ceiling is not None and throughput > ceiling * CEILING + _ticks(facts):
        yield f"expected at most {units.rate(ceiling)}, the ceiling, found {units.rate(throughput)}"
    closed = case.load.model is LoadModel.CLOSED  # judged by Little's law
    places = math.inf if closed else case.load.connections * (1 + LITTLES_LAW)
    for name, limit, words in (
        ("in_flight", places, "connections"),
        ("server_cores", facts.server_cores * CORES, "the server's cores"),
    ):
        if figures.get(name, 0.0) > limit:
            yield f"expected {name} not above {words} ({limit:g}), found {figures[name]:g}"
    for name, value in figures.items():
        if name in METRICS and (wrong := METRICS[name].wrong(value)):
            yield wrong


def _ticks(facts: Facts) -> float:
    """Requests/s by which a schedule may seem too fast: n ticks span n - 1 intervals."""
    closed, window = facts.case.load.model is LoadModel.CLOSED, facts.figures.get("window")
    return 0.0 if closed or not window else 1 / window


def _client(facts: Facts) -> Iterator[Flag]:
    used = facts.figures.get("client_cores")
    if facts.case.cores != "split" or used is None:
        return
    # Two generators on the same cores do not slow each other down while any time is left.
    used += facts.client_beside
    if used >= SATURATED * facts.client_cores:
        yield _flag(
            FlagName.LOAD_FAILED,
            f"expected less than {SATURATED:.0%} of the {facts.client_cores} client cores to be "
            f"used, found {units.cores(used)}; give the generator more",
        )


def _overload(facts: Facts) -> Iterator[Flag]:
    figures, load = facts.figures, facts.case.load
    if load.rate is None:
        return
    due, unsent = load.rate * load.duration, figures.get("unsent", 0)
    reasons = []
    if unsent > (1 - KEPT_UP) * due:
        reasons.append(f"{unsent:.0f} of {due:.0f} requests were never sent")
    if "throughput" in figures:
        # Even an idle server answers nothing in the first moments; the windows of open loads
        # already leave the floor out.
        idle = figures.get("service_min", 0.0)
        if load.model is LoadModel.OPEN:
            idle -= facts.case.endpoint.floor
        due = load.rate * max(0.0, 1 - max(0.0, idle) / figures["window"])
        if figures["throughput"] < KEPT_UP * due:
            answered = units.rate(figures["throughput"])
            reasons.append(f"{units.rate(load.rate)} were offered, {answered} answered")
    if reasons:
        yield _flag(FlagName.OVERLOADED, "; ".join(reasons))


def _schedule(facts: Facts) -> Iterator[Flag]:
    lag = facts.figures.get("lag")
    fixed, share = SCHEDULE_LAG
    if lag is not None and lag > max(fixed, share * facts.figures.get("response_p50", 0.0)):
        yield _flag(
            FlagName.HOST_NOISE,
            f"1 % of the requests were scheduled {units.seconds(lag)} late or more: their "
            "response times lack that wait",
        )


def _steady(facts: Facts) -> Iterator[Flag]:
    if not facts.steady:
        length = units.seconds(facts.figures.get("warm_up", 0.0))
        yield _flag(FlagName.NOT_STEADY, f"the throughput still changed after {length} of warm-up")
    levels, times = facts.throughputs, facts.times
    if levels and max(levels) > MOVED * min(levels):
        words = ", ".join(units.rate(level) for level in levels)
        yield _flag(FlagName.NOT_STEADY, f"the throughput changed in the load, by thirds: {words}")
    # Only faster answers: times also grow with a queue.
    elif times and times[0] > QUICKER * times[-1]:
        words = ", ".join(units.seconds(time) for time in times)
        yield _flag(FlagName.NOT_STEADY, f"answers became quicker in the load, by thirds: {words}")


def _waits(facts: Facts) -> Iterator[Flag]:
    figures, load = facts.figures, facts.case.load
    busy = [figures.get(name, math.inf) for name in ("server_cores", "client_cores")]
    used, median = sum(busy) + facts.commands, figures.get("response_p50", 0.0)
    starved = figures.get("host_other", 0.0) > facts.server_cores / 2
    declared = load.model is not LoadModel.CLOSED or facts.case.endpoint.floor > 0
    if declared or starved or used > IDLE or median < WAITS:
        return
    waits = (
        f"server and generator used {units.cores(used)} cores, and the median answer took "
        f"{units.seconds(median)}"
    )
    single = figures.get("unit_service", 0.0)
    together, (least, most) = single * figures.get("throughput", 0.0), POOL
    if least <= together <= most * load.connections:
        yield _flag(
            FlagName.NOT_BUSY,
            f"{waits}: about {together:.0f} of {load.connections} requests were in progress at a "
            f"time (one alone takes {units.seconds(single)}); is there a pool, of database "
            "connections or of threads, that is smaller than the connections?",
        )
        return
    yield _flag(
        FlagName.NOT_BUSY,
        f"{waits}: it waits for something else, such as a timer, a lock, another machine or a "
        "delayed acknowledgement (40 ms); throughput and latency measure that wait",
    )


def _growth(facts: Facts) -> Iterator[Flag]:
    figures = facts.figures
    least = figures.get("least_kept", 0.0)
    total = least * figures.get("requests", 0)
    if least > GROWTH_PER_REQUEST and total > GROWTH_TOTAL:
        yield _flag(
            FlagName.MEMORY_GROWS,
            f"the server kept {units.count(figures['memory_per_request'])} bytes per "
            f"request, and {units.count(least)} at least: {units.size(total)} in this load",
        )


def _connections(facts: Facts) -> Iterator[Flag]:
    reopened, requests = (facts.figures.get(name, 0) for name in ("reopened", "requests"))
    if reopened > REOPENED * requests:
        yield _flag(
            FlagName.CONNECTIONS_CLOSED,
            f"expected {facts.case.load.connections} connections kept alive, found "
            f"{reopened:.0f} more opened for {requests:.0f} requests; what closes them?",
        )
    if facts.idle_lost:
        yield _flag(
            FlagName.CONNECTIONS_CLOSED,
            f"expected {facts.case.load.idle} idle connections, but the server closed "
            f"{facts.idle_lost} of them; a longer keep-alive time-out (--server-arg) keeps them",
        )
    counts = facts.connections
    share = max(counts) / sum(counts) if any(counts) else 0.0
    if share * len(counts) > IMBALANCE:
        yield _flag(
            FlagName.WORKER_IMBALANCE,
            f"the busiest of {len(counts)} workers held {units.share(share)} of the "
            f"connections ({', '.join(map(str, counts))})",
        )


def _surroundings(facts: Facts) -> Iterator[Flag]:
    if facts.case.workers > facts.server_cores:
        yield _flag(
            FlagName.FEW_CORES,
            f"{facts.case.workers} workers on {facts.server_cores} server core(s)",
        )
    if facts.case.cores == "shared":
        yield _flag(FlagName.FEW_CORES, "server and generator run on the same cores, as declared")
    if not facts.pinned:
        yield _flag(FlagName.HOST_NOISE, "the scheduler moved server and generator freely")
    steal, other = (facts.figures.get(name, 0.0) for name in ("host_steal", "host_other"))
    if steal > STEAL:
        yield _flag(
            FlagName.HOST_NOISE, f"the hypervisor took {units.share(steal)} of the core time"
        )
    if other > OTHER_CORES:
        yield _flag(FlagName.HOST_NOISE, f"other processes used {units.cores(other)} cores")
    good = facts.figures.get("good", 0)
    if good < FEW:
        yield _flag(FlagName.FEW_SAMPLES, f"{good:.0f} good answers; at least {FEW} are needed")


CHECKS: Final[tuple[Callable[[Facts], Iterator[Flag]], ...]] = (
    *(_answers, _sizes, _server, _littles_law, _impossible, _client, _overload, _schedule),
    *(_steady, _waits, _growth, _connections, _surroundings),
)
"""All checks. To add a flag of a single launch, add one: it yields the flag and the reason."""
