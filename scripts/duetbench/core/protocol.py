"""Numbers of the protocol that planning and measuring share."""

import math
from typing import Final

from duetbench.core.model import Case, Load

WINDOW_SECONDS = 0.4
"""Length of a launch's warm-up window, s; tests shorten it."""

RATE_WINDOWS: Final = 2
"""Windows that warm up a load with a rate: thousands of requests, more than it will send."""

SLOW_SECONDS: Final = 0.1
"""Endpoints that take longer are warmed up by one wave, as windows of a second are too short."""

UNIT_REQUESTS: Final = 3
"""Single requests to the idle server, the fastest of which is the unit of its ceiling."""

DUET_SECONDS: Final = 2.0
"""Least load of a duet, s. A minute of duets of 1.5 to 3 s gives almost the same precision, and
shorter ones reach more cases."""

DUET_WAVES: Final = 3.3
"""Least length of a duet's load as a multiple of a slow endpoint's service time: some waves."""

DUET_REQUESTS: Final = 30
"""Fewest requests of a paced load in a duet: enough for a median. Launches have more."""

DUET_WARM_UP: Final = 0.5
"""Length of the warm-up of a duet, s: some thousand requests to any fast handler."""

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


def duet_load(case: Case, seconds: float = DUET_SECONDS) -> Load:
    """The load of a case in a duet: as declared, except for its duration."""
    load, slowest = case.load, max(case.endpoint.takes, case.endpoint.floor)
    duration = max(seconds, DUET_WAVES * slowest)
    if load.rate is not None:
        duration = min(load.duration, max(duration, DUET_REQUESTS / load.rate))
    return load.model_copy(update={"duration": duration})
