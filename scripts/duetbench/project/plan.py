"""What to run, and how long it takes: cases, selected, counted and put in order.

Waits, durations and drains of a launch are calculated from the case. `Costs` has values that only a
measurement gives.
"""

import difflib
import math
import random
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Final

from duetbench.core.errors import UsageError
from duetbench.core.model import Case, LoadModel, Plan, Profile
from duetbench.core.protocol import (
    RATE_WINDOWS,
    SLOW_SECONDS,
    UNIT_REQUESTS,
    WINDOW_SECONDS,
    evaluate,
)
from duetbench.core.text import some
from duetbench.project.servers import SERVERS

_SUGGESTIONS: Final = 3


def make_plan(
    cases: Sequence[Case],
    launches: int | None,
    seed: int = 1,
    seconds: float | None = None,
    profile: Profile = "quick",
) -> Plan:
    """Plan launches of some cases.

    `launches` is the number per case, by default one. Launches give absolute figures; duets show
    what moved. `seconds` replaces the declared duration of the loads.
    """
    if seconds is not None:
        own = {"duration": seconds}
        cases = [c.model_copy(update={"load": c.load.model_copy(update=own)}) for c in cases]
    return Plan(profile=profile, launches=launches or 1, seed=seed, cases=tuple(cases))


def select(cases: Sequence[Case], globs: Sequence[str]) -> tuple[Case, ...]:
    """Choose the cases whose id matches a glob, or all without globs; UsageError if one does not.

    The error suggests what may have been meant.
    """
    for glob in globs:
        if not any(fnmatchcase(case.id, glob) for case in cases):
            ids = [case.id for case in cases]
            near = difflib.get_close_matches(glob, ids, n=_SUGGESTIONS, cutoff=0.3)
            some_ids = ", ".join(near or ids[:_SUGGESTIONS]) or "none"
            raise UsageError(f"--select {glob!r} selects nothing; near: {some_ids}")
    return tuple(c for c in cases if not globs or any(fnmatchcase(c.id, glob) for glob in globs))


def launch_order(plan: Plan) -> tuple[tuple[Case, int], ...]:
    """List all launches of a plan; each round, numbered from 0, has every case in a random order.

    So drift of the machine affects all cases alike, and no case always follows the same other one.
    """
    order = random.Random(plan.seed)  # noqa: S311 - a repeatable order, not a secret
    steps: list[tuple[Case, int]] = []
    for number in range(plan.launches):
        cases = list(plan.cases)
        order.shuffle(cases)
        steps += [(case, number) for case in cases]
    return tuple(steps)


def without_duets(cases: Sequence[str]) -> str:
    """Name the cases of a plan that are judged by launches in turn; empty if there are none."""
    if not cases:
        return ""
    names = some(cases, _SUGGESTIONS)
    return f"by turns, since their threads or workers need all cores: {names}"


def plan_seconds(plan: Plan) -> float:
    """Predict the seconds that a plan takes."""
    return plan.launches * sum(launch_seconds(case, plan.profile) for case in plan.cases)


class Costs:
    """Times measured on a 2-core virtual machine, in seconds unless stated otherwise."""

    first_worker: Final = 0.5  # until its first answer
    further_worker: Final = 0.2
    # Identifying all workers twice, and the fast requests of both verifications.
    probes: Final = 0.25
    # Windows of a warm-up until the throughput is steady: 5 to 10, more for short ones.
    windows: Final[dict[Profile, float]] = {"quick": 7.5, "nightly": 6.0, "published": 6.0}
    window_gap: Final = 0.05
    generator: Final = 0.1  # start of the generator
    row: Final = 4e-6  # writing and reading the row of one request
    rate: Final = 8_000  # requests/s of a closed loop without a ceiling; the most of any load
    stop: Final = 0.2  # stopping the server and checking that it is gone
    cores: Final = 2  # cores that a plan assumes for a server
    # Share of its service time that a paced request in flight at the deadline still needs.
    left: Final = 0.8


PRIOR_LAUNCHES: Final = 4.0
"""Weight of the declared expectation, in launches: the correction grows over the first few."""


def launch_seconds(case: Case, profile: Profile) -> float:
    """Predict the seconds of one launch of a case."""
    single = max(case.endpoint.takes, case.endpoint.floor)
    duration = case.load.duration
    # Overlapping requests show floor and concurrency at once; others are repeated three times.
    # Afterwards once is enough, as the fastest single request is known.
    repeats = 1 if case.endpoint.overlap > 1 and single >= SLOW_SECONDS else UNIT_REQUESTS
    rate = min(Costs.rate, case.load.rate or math.inf, _capacity(case))
    verify = Costs.probes + (repeats + 1) * single
    load = Costs.generator + duration + drain(case)
    finish = Costs.stop + Costs.row * duration * rate
    return start(case.workers) + verify + _warm_up(case, single, profile) + load + finish


def drain(case: Case) -> float:
    """Predict the seconds from the last request until the last answer."""
    single = max(case.endpoint.takes, case.endpoint.floor)
    connections, duration, rate = case.load.connections, case.load.duration, case.load.rate
    capacity = _capacity(case)
    if case.load.model is LoadModel.OPEN and rate is not None:
        return max(single, rate * duration / capacity - duration)
    if case.load.model is LoadModel.PACED and rate is not None:
        return Costs.left * (connections / capacity if capacity < rate else single)
    if case.slots is None or case.slots >= connections:
        # All connections move in waves, so the last one ends at a multiple of the service time.
        waves = math.ceil(duration / single - 0.01) if single else 0
        return max(0.0, waves * single - duration)
    uneven = SERVERS[case.server].uneven if case.workers > 1 else 1.0
    return uneven * connections / capacity


def start(workers: int) -> float:
    """Predict the seconds until this many workers of a server have answered."""
    return Costs.first_worker + Costs.further_worker * (workers - 1)


def _warm_up(case: Case, single: float, profile: Profile) -> float:
    if single < SLOW_SECONDS:
        windows = Costs.windows[profile] if case.load.rate is None else RATE_WINDOWS
        return windows * (WINDOW_SECONDS[profile] + Costs.window_gap)
    requests = min(case.load.connections, case.slots or math.inf)
    return Costs.generator + max(single, requests / _capacity(case))


def ceiling(case: Case, *, unit: float, cores: int, rate: float | None = None) -> float | None:
    """Calculate the most requests/s if single ones take `unit` s; None: no ceiling is declared."""
    if case.ceiling is None:
        return None
    return evaluate(
        case.ceiling,
        {
            "c": case.load.connections,
            "slots": case.slots or math.inf,
            "floor": case.endpoint.floor,
            "unit": unit,
            "cores": cores,
            "workers": case.workers,
            "threads": case.threads or math.inf,
            "rate": rate or math.inf,
        },
    )


def _capacity(case: Case) -> float:
    """Calculate the requests/s that the endpoint could answer under any load."""
    single = max(case.endpoint.takes, case.endpoint.floor)
    limit = ceiling(case, unit=single, cores=Costs.cores)
    return math.inf if limit is None else limit
