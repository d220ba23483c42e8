"""Numbers of the protocol that planning and measuring share."""

import math
from typing import Final

from duetbench.core.model import Case, Load, Profile

WINDOW_SECONDS: Final[dict[Profile, float]] = {"quick": 0.4, "nightly": 1.0, "published": 1.0}
"""Length of a warm-up window, s."""

RATE_WINDOWS: Final = 2
"""Windows that warm up a load with a rate: thousands of requests, more than it will send."""

SLOW_SECONDS: Final = 0.1
"""Endpoints that take longer are warmed up by one wave, as windows of a second are too short."""

UNIT_REQUESTS: Final = 3
"""Single requests to the idle server, the fastest of which is the unit of its ceiling."""

SIZE_REQUESTS: Final = 20
SIZE_SECONDS: Final = 2.0
"""Requests to the idle server after a load that had bodies of other sizes than before it."""

SPOT_SECONDS: Final = 0.2
SPOT_SHARE: Final = 4000
"""Least time between two spot checks under load, s, and fewest requests between them: a check costs
as much as three requests, so CPU per request is at most 0.06 % too high."""

DUET_SECONDS: Final = 2.0
"""Least load of a duet, s. A minute of duets of 1.5 to 3 s gives almost the same precision, and
shorter ones reach more cases."""

DUET_WAVES: Final = 3.3
"""Least length of a duet's load as a multiple of a slow endpoint's service time: some waves."""

DUET_REQUESTS: Final = 30
"""Fewest requests of a paced load in a duet: enough for a median. Launches have more."""

DUET_WARM_UP: Final = 0.5
"""Length of the warm-up of a duet, s: some thousand requests to any fast handler."""

DUET_QUEUE: Final = 1.0
"""Most seconds that a target's connections take in turn: half of the load, as all may be answered
last. Loads that are fixed stay as they are."""

LEAST_WAIT: Final = 0.001
"""Seconds of an answer in which neither server nor client computes, from which its handler waits.
Less is the kernel's hand-over between them."""

UNSATURATED: Final = 0.5
"""Largest share of the server cores that both servers of a duet use if their handlers wait. With
more, a queue would hide what a user feels: ten per cent more of a wait."""

LIGHTEST: Final = 0.7
"""The same share if a single connection to each server is enough for it."""

UNLIKE: Final = 1.4
"""Ratio of the sides' throughputs under the declared load from which such a load would hide that
one side serves fewer at once, as behind a lock."""


def duet_load(case: Case, seconds: float = DUET_SECONDS) -> Load:
    """The load of a case in a duet: as declared, except for its duration."""
    load, slowest = case.load, max(case.endpoint.takes, case.endpoint.floor)
    duration = max(seconds, DUET_WAVES * slowest)
    if load.rate is not None:
        duration = min(load.duration, max(duration, DUET_REQUESTS / load.rate))
    return load.model_copy(update={"duration": duration})


def below_saturation(load: Load, busy: float, cores: int, slots: int | None) -> int | None:
    """Connections of waiting handlers that leave the server cores half idle; None if none do.

    `busy` is the share of its time in which one request at a time to each server computes; `slots`
    are the requests that a server handles at once (None: any number). The number of connections is
    a power of two, as in `bound_queue`.
    """
    most = math.floor(UNSATURATED * cores / busy) if busy else load.connections
    most = max(most, int(busy <= LIGHTEST * cores))
    if most < 1 or load.rate is not None:
        return None
    return min(1 << (most.bit_length() - 1), slots or most, load.connections)


def bound_queue(load: Load, seconds: float, wait: float, least: int) -> Load:
    """A closed load with only as many connections as get their answers within `wait` s.

    A request needs the cores for `seconds` s, and the server works on `least` at once. The number
    is a power of two, so that it does not differ from duet to duet.
    """
    most = max(least, math.floor(wait / seconds)) if seconds else load.connections
    if load.rate is not None or load.connections <= most:
        return load
    few = max(least, 2 ** (most.bit_length() - 1))
    return load.model_copy(update={"connections": few})
