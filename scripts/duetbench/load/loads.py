"""The load of a duet: how long it is, and over how many connections."""

import math
from typing import Final

from duetbench.core.model import Case, Load

DUET_SECONDS: Final = 2.0
"""Least load of a duet, s. A minute of duets of 1.5 to 3 s gives almost the same precision, and
shorter ones reach more cases."""

DUET_WAVES: Final = 3.3
"""Least length of a duet's load as a multiple of a slow endpoint's service time: some waves."""

DUET_REQUESTS: Final = 30
"""Fewest requests of a paced load in a duet: enough for a median. Launches have more."""

DUET_WARM_UP: Final = 0.5
"""Length of the warm-up of a duet, s: some thousand requests to any fast handler."""

QUEUE_SECONDS: Final = 1.0
"""Most seconds that a target's connections take in turn: half of the load, as all may be answered
last. Loads that are fixed stay as they are."""

UNSATURATED: Final = 0.5
"""Largest share of the server cores that both servers of a duet use if their handlers wait. With
more, a queue would hide what a user feels: ten per cent more of a wait."""


def duet_load(case: Case, seconds: float = DUET_SECONDS) -> Load:
    """The load of a case in a duet: as declared, except for its duration."""
    load, slowest = case.load, max(case.endpoint.takes, case.endpoint.floor)
    duration = max(seconds, DUET_WAVES * slowest)
    if load.rate is not None:
        duration = min(load.duration, max(duration, DUET_REQUESTS / load.rate))
    return load.model_copy(update={"duration": duration})


def in_time(seconds: float, least: int) -> int:
    """The most connections that get their answers within `QUEUE_SECONDS`.

    A request needs the cores for `seconds` s, and the server works on `least` at once.
    """
    return max(least, math.floor(QUEUE_SECONDS / max(seconds, 1e-6)))


def below_saturation(busy: float, cores: int, slots: int) -> int:
    """The most connections of waiting handlers that leave the server cores half idle; 0: none do.

    `busy` is the share of its time in which one request at a time to each server computes; `slots`
    are the requests that a server handles at once (0: any number).
    """
    most = math.floor(UNSATURATED * cores / max(busy, 1e-6))
    return min(most, slots or most)
