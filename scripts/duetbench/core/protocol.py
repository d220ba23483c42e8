"""What planning and measuring must both know: numbers of the protocol, and arithmetic in formulas.

`min(c, slots) / floor` and the like, and nothing else: declarations are expanded with it (floors,
slots, loads), and launches judged (their ceiling).
"""

import math
from collections.abc import Mapping
from typing import Final

from simpleeval import InvalidExpression, SimpleEval

from duetbench.core.errors import DuetbenchError
from duetbench.core.model import Case, Load, LoadModel, Profile

WINDOW_SECONDS: Final[dict[Profile, float]] = {"quick": 0.4, "nightly": 1.0, "published": 1.0}
"""Length of a warm-up window, s."""

RATE_WINDOWS: Final = 2
"""Windows that warm up a paced or open load: thousands of requests, more than it will send.

Whether they are steady says nothing about a load that is far below them.
"""

SLOW_SECONDS: Final = 0.1
"""Endpoints that take longer are warmed up by one wave: windows of a second would tell nothing."""

UNIT_REQUESTS: Final = 3
"""Single requests to the idle server, the fastest of which is the unit of its ceiling."""

SPOT_SECONDS: Final = 0.2
SPOT_SHARE: Final = 4000
"""Least time between two spot checks under load, s, and least number of requests between them.

With its connection a check costs a server the core time of about three requests, and is counted as
one: CPU per request is at most 0.06 % too high.
"""

DUET_PROTOCOL: Final = 2
"""Version of how duets are measured. An anchor goes with one: under another, ratios to it may
differ although nothing else does. 1: servers stopped in their own time. 2: both are killed
(2026-11)."""

DUET_SECONDS: Final = 2.0
"""Least load of a duet, s.

Ratios of FastAPI's json scatter by 1.6 and 1.05 % in duets of 1.5 and 3 s, and the rest of a duet
takes 1.5 s: a minute of either, or of 2 s, tells almost the same. Shorter ones reach more cases.
Address randomisation stays on, for one layout of both sides would be in every figure.
"""

DUET_WAVES: Final = 3.3
"""Times the service of a slow endpoint that a duet's load lasts at least: some whole waves."""

DUET_REQUESTS: Final = 30
"""Requests of a paced load in a duet, at least: enough for a median. Launches have more."""

DUET_WARM_UP: Final = 0.5
"""Length of the warm-up of a duet, s: some thousand requests to any handler that is quick.

Windows of it would tell nothing. Whether it was long enough is seen in the load: `duet.drift`.
"""

DUET_QUEUE: Final = 2.0
"""Most seconds that a duet of a target waits after its load, for requests that compute for long: as
long as it loads. Experiments declare their loads, and get these."""

NO_UNIT: Final = 1e-9
"""A unit in s by which no ceiling is limited: what is left of a formula is what was declared."""

CEILING_NAMES: Final = ("c", "slots", "floor", "unit", "cores", "rate", "workers", "threads")
"""What a ceiling may be a formula over; `slots`, `rate` and `threads` are inf where there is none.

c: connections. slots: requests in service at once. floor: service floor, s. unit: fastest single
request, s. cores: cores of the server. rate: offered requests/s.
"""


class FormulaError(DuetbenchError):
    """A formula cannot be worked out; `reason` says why, in half a sentence."""

    def __init__(self, formula: str, names: Mapping[str, float], reason: str) -> None:
        self.reason = reason
        self.allowed = f"arithmetic over {', '.join([*names, 'inf'])}, min() and max()"
        super().__init__(f"formula {formula!r}: {reason}; allowed: {self.allowed}")


def evaluate(formula: str, values: Mapping[str, float]) -> float:
    """Work out a formula over `values`, with `min`, `max` and `inf`; FormulaError says why not."""
    evaluator = SimpleEval(functions={"min": min, "max": max}, names={**values, "inf": math.inf})
    try:
        result = evaluator.eval(formula)
    except ZeroDivisionError as error:
        raise FormulaError(formula, values, "divides by zero") from error
    except (InvalidExpression, SyntaxError, TypeError, ValueError, OverflowError) as error:
        raise FormulaError(formula, values, str(error).partition("\n")[0]) from error
    if isinstance(result, bool) or not isinstance(result, int | float) or math.isnan(result):
        raise FormulaError(formula, values, f"gives {result!r}, which is no number")
    return float(result)


def duet_load(case: Case, seconds: float = DUET_SECONDS) -> Load:
    """The load of a case in a duet: as declared, but for its duration.

    An open load keeps that too: its connections follow from it.
    """
    load, slowest = case.load, max(case.endpoint.takes, case.endpoint.floor)
    if load.model is LoadModel.OPEN:
        return load
    duration = max(seconds, DUET_WAVES * slowest)
    if load.rate is not None:
        duration = min(load.duration, max(duration, DUET_REQUESTS / load.rate))
    return load.model_copy(update={"duration": duration})


def bound_queue(load: Load, seconds: float, wait: float, least: int) -> Load:
    """A closed load with no more connections than have their answers within `wait` s.

    Each request takes the cores `seconds` s, and the server works on `least` at once. They are a
    power of two, or their number would differ from duet to duet.
    """
    most = max(least, math.floor(wait / seconds)) if seconds else load.connections
    if load.rate is not None or load.connections <= most:
        return load
    few = max(least, 2 ** (most.bit_length() - 1))
    return load.model_copy(update={"connections": few})


LIMITED: Final = {
    429: "to a rate limiter all connections of a generator are one client, and the warm-up goes as "
    "fast as it can, whatever --rate is: switch the limiter off for the measurement; "
}
"""What to do about a status that says more about the load than about the application."""
