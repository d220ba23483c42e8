"""What was wrong with a load: its flags, from the facts that were recorded of it.

One condition and its sentence for each reason, sorted by what the flag does to the figures. Flags
that end a launch at once (a wrong body, a server that died) are raised on the spot.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from duetbench.core import units
from duetbench.core.errors import FlagName
from duetbench.core.metrics import METRICS
from duetbench.core.model import Case, Flag
from duetbench.core.text import some
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

SIZES_SHOWN: Final = 3  # wrong body sizes that a flag names

QUICKER: Final = 3.0
"""Factor by which the median service times of a load's first third may exceed those of its last."""

GROWTH_PER_REQUEST: Final = 1000.0
GROWTH_TOTAL: Final = 16e6
"""Bytes that a server may keep per request, and in one load; more of both is growth. Pools that
fill are none: without the GIL, Granian's 64 blocking threads keep some 550 bytes of each of the
first 10,000 requests and 200 of each of the first 120,000 (5 and 24 MB). With a paced load they
keep 2.6 kB of each of the first 600. All other handlers here keep less than 3 MB."""

FEW: Final = 10  # good answers that even a p90 needs; see `metrics.PERCENTILES`


@dataclass(kw_only=True)
class Facts:
    """What was recorded of a load. A default means that nobody looked; no flag is raised then.

    `facts[name]` is a figure, NaN if it does not exist: NaN exceeds no limit.
    """

    case: Case
    figures: dict[str, float] = field(default_factory=dict)  # metrics, and what only checks use
    server_cores: int
    client_cores: int
    client_beside: float = 0.0  # client cores used by another generator of ours
    pinned: bool = True
    pids_before: frozenset[int] = frozenset()
    pids_after: frozenset[int] = frozenset()
    steady: bool = True
    right_sizes: frozenset[int] = frozenset()  # bytes of the bodies that passed verification
    sizes: Mapping[int, int] = field(default_factory=dict)  # bytes of a body → answers under load
    times: Sequence[float] = ()  # median service time of the requests sent in each third, s

    def __getitem__(self, name: str) -> float:
        return self.figures.get(name, math.nan)


def judge(facts: Facts) -> tuple[Flag, ...]:
    """Return all flags that the facts call for: failures first, one per reason."""
    return (*_void(facts), *_disturbed(facts), *_notes(facts))


def _flag(name: FlagName, detail: str) -> Flag:
    return Flag(name=name, detail=detail)


def _void(facts: Facts) -> Iterator[Flag]:
    load, requests, good = facts.case.load, facts["requests"], facts["good"]
    if facts["timeouts"] > 0 or facts["errors"] > 0:
        yield _flag(
            FlagName.NO_ANSWER,
            f"expected none, found {facts['timeouts']:.0f} timeouts and {facts['errors']:.0f} "
            f"other errors beside {requests:.0f} answers; see the server's log",
        )
    if good > 0 and "throughput" not in facts.figures:
        yield _flag(
            FlagName.NO_ANSWER,
            f"expected good answers within {load.duration:g} s, found all {good:.0f} of them "
            "later; use fewer connections, as --with connections=8",
        )
    if requests > good:
        yield _flag(
            FlagName.WRONG_ANSWER,
            f"expected status {facts.case.endpoint.expect.status} always, found another in "
            f"{requests - good:.0f} of {requests:.0f} answers; see the server's log",
        )
    if sizes := _wrong_sizes(facts):
        yield _flag(FlagName.WRONG_ANSWER, sizes)
    if facts.pids_before != facts.pids_after:
        yield _flag(
            FlagName.SERVER_DIED,
            f"expected the processes {sorted(facts.pids_before)} to stay, found "
            f"{sorted(facts.pids_after)}; see the server's log",
        )
    in_flight, pause = facts["in_flight"], TURNAROUND / (facts["response_mean"] or math.nan)
    # A rate may leave connections idle.
    least, most = 1 - max(LITTLES_LAW, pause) if load.rate is None else 0.0, 1 + LITTLES_LAW
    within = least * load.connections <= in_flight <= most * load.connections
    if not within and not math.isnan(in_flight):
        yield _flag(
            FlagName.IMPOSSIBLE,
            f"expected {load.connections} requests in flight on average (within "
            f"{LITTLES_LAW:.0%}), found {in_flight:.2f}; the generator left connections idle",
        )
    for problem in _contradictions(facts):
        wrong = "the measurement is wrong, not the server good"
        yield _flag(FlagName.IMPOSSIBLE, f"{problem}; {wrong}")
    # Two generators on the same cores do not slow each other down while any time is left.
    used = facts["client_cores"] + facts.client_beside
    if facts.case.cores == "split" and used >= SATURATED * facts.client_cores:
        yield _flag(
            FlagName.LOAD_FAILED,
            f"expected less than {SATURATED:.0%} of the {facts.client_cores} client cores to be "
            f"used, found {units.cores(used)}; give the generator more",
        )


def _wrong_sizes(facts: Facts) -> str:
    """Say which bodies had a size that no right one has; empty if none had."""
    expect, right = facts.case.endpoint.expect, facts.right_sizes or facts.sizes
    allowed: Collection[int] = right
    words = " or ".join(map(str, sorted(right)))
    if expect.size:
        allowed = range(expect.size[0], expect.size[1] + 1)
        words = f"{expect.size[0]} to {expect.size[1]}"
    wrong = {size: count for size, count in facts.sizes.items() if size not in allowed}
    if not wrong:
        return ""
    often = sorted(wrong, key=lambda size: -wrong[size])
    examples = some([f"{wrong[size]} of {size} bytes" for size in often], SIZES_SHOWN)
    advice = (
        "fix the handler, or declare the sizes that its answers may have"
        if expect.size or expect.tells_body
        else "they vary only under load: is that an error, or a number of requests or users?"
    )
    return (
        f"expected bodies of {words} bytes, found others in {sum(wrong.values())} of "
        f"{sum(facts.sizes.values())} answers: {examples}; {advice}"
    )


def _contradictions(facts: Facts) -> Iterator[str]:
    load, floor, throughput = facts.case.load, facts.case.endpoint.floor, facts["throughput"]
    for name, value in facts.figures.items():
        if name in METRICS and (wrong := METRICS[name].wrong(value)):
            yield wrong
    for fastest in (facts["response_min"], facts["service_min"]):
        if fastest < floor - FLOOR_SLACK:
            least = units.seconds(floor)
            yield f"expected {least}, the floor, or more, found {units.seconds(fastest)}"
    most = facts.case.ceiling or math.inf
    # A schedule may seem too fast: n ticks span n - 1 intervals.
    ticks = 0.0 if load.rate is None else 1 / facts["window"]
    if throughput > most * CEILING + ticks:
        yield f"expected at most {units.rate(most)}, the ceiling, found {units.rate(throughput)}"
    used, limit = facts["server_cores"], facts.server_cores * CORES
    if used > limit:
        yield f"expected server_cores not above the server's cores ({limit:g}), found {used:g}"


def _disturbed(facts: Facts) -> Iterator[Flag]:
    requests, least = facts["requests"], facts["least_kept"]
    if not facts.steady:
        length = units.seconds(facts.figures.get("warm_up", 0.0))
        yield _flag(FlagName.NOT_STEADY, f"the throughput still changed after {length} of warm-up")
    # Only faster answers: times also grow with a queue.
    if (times := facts.times) and times[0] > QUICKER * times[-1]:
        words = ", ".join(map(units.seconds, times))
        yield _flag(FlagName.NOT_STEADY, f"answers became quicker in the load, by thirds: {words}")
    if least > GROWTH_PER_REQUEST and least * requests > GROWTH_TOTAL:
        yield _flag(
            FlagName.MEMORY_GROWS,
            f"the server kept {units.count(facts['memory_per_request'])} bytes per request, and "
            f"{units.count(least)} at least: {units.size(least * requests)} in this load",
        )
    if not facts.pinned:
        yield _flag(FlagName.HOST_NOISE, "the scheduler moved server and generator freely")
    steal, other = facts["host_steal"], facts["host_other"]
    if steal > STEAL:
        yield _flag(
            FlagName.HOST_NOISE, f"the hypervisor took {units.share(steal)} of the core time"
        )
    if other > OTHER_CORES:
        yield _flag(FlagName.HOST_NOISE, f"other processes used {units.cores(other)} cores")


def _notes(facts: Facts) -> Iterator[Flag]:
    case, cores = facts.case, facts.server_cores
    if words := _overload(facts):
        yield _flag(FlagName.OVERLOADED, words)
    if case.workers > cores:
        yield _flag(FlagName.FEW_CORES, f"{case.workers} workers on {cores} server core(s)")
    if case.cores == "shared":
        yield _flag(FlagName.FEW_CORES, "server and generator run on the same cores, as declared")
    if facts["good"] < FEW:
        few = f"{facts['good']:.0f} good answers; at least {FEW} are needed"
        yield _flag(FlagName.FEW_SAMPLES, few)


def _overload(facts: Facts) -> str:
    """Say how much of an offered rate was not answered in time; empty if enough was."""
    load, answered = facts.case.load, facts["throughput"]
    if load.rate is None:
        return ""
    # Even an idle server answers nothing in the first moments; an open load's window has no floor.
    idle = facts.figures.get("service_min", 0.0) - facts.case.endpoint.floor * load.open
    if answered >= KEPT_UP * load.rate * max(0.0, 1 - max(0.0, idle) / facts["window"]):
        return ""
    return f"{units.rate(load.rate)} were offered, {units.rate(answered)} answered"
