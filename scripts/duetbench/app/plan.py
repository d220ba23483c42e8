"""What to run, and about how long it takes: cases, selected, counted and put in order."""

import difflib
import math
import random
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Final

from duetbench.core.errors import UsageError
from duetbench.core.model import Case, Plan

_SUGGESTIONS: Final = 3


def make_plan(cases: Sequence[Case], launches: int | None, seconds: float | None = None) -> Plan:
    """Plan launches of some cases, by default one of each.

    Launches give absolute figures; duets show what moved. `seconds` replaces the declared duration
    of the loads.
    """
    if seconds is not None:
        own = {"duration": seconds}
        cases = [c.model_copy(update={"load": c.load.model_copy(update=own)}) for c in cases]
    return Plan(profile="quick", launches=launches or 1, seed=1, cases=tuple(cases))


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


FIRST_WORKER: Final = 0.5
"""Seconds until the first answer of a server, as the following on a 2-core virtual machine."""
_FURTHER_WORKER: Final = 0.2
PROBES: Final = 0.25
"""Seconds to identify all workers twice, and for the fast requests of both verifications."""
GENERATOR: Final = 0.1
"""Seconds to start the generator."""


def drain(case: Case) -> float:
    """Predict the seconds from the last request until the last answer: what waits has its turns."""
    single, load = max(case.endpoint.takes, case.endpoint.floor), case.load
    slots = case.slots or load.connections
    waiting = float(load.connections)
    if load.rate and single:
        waiting = min(waiting, load.duration * (load.rate - slots / single))
    return single * max(1, math.ceil(waiting / slots))


def start(workers: int) -> float:
    """Predict the seconds until this many workers of a server have answered."""
    return FIRST_WORKER + _FURTHER_WORKER * (workers - 1)
