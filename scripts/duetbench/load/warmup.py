"""Warm up a server: its first requests cost more than all later ones, and are never measured."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from duetbench.core import protocol
from duetbench.core.errors import FlagName, LaunchError
from duetbench.core.protocol import RATE_WINDOWS
from duetbench.load.oha import START_SECONDS, Client, Generator

STEADY_WINDOWS: Final = 5
MOST_WINDOWS: Final = 10
WAVE_SECONDS: Final = 0.001  # each connection sends one request
STEADY_SPREAD: Final = 0.05
"""Largest distance of a window's throughput from the mean, and largest fitted change, as shares.
Windows of one second differ by 1 to 2 % on a quiet two-core machine."""

RATE_CONNECTIONS: Final = 16
"""Most connections that warm up a paced or open load: enough to reach every worker. At low rates
one more request makes a window look unsteady, so these endpoints are warmed up in a closed loop.
There hundreds of connections would be an overload."""


@dataclass(frozen=True, slots=True)
class WarmUp:
    """Result of a warm-up: good answers/s by window; `steady`: the limit did not end it."""

    seconds: float
    windows: tuple[float, ...]
    steady: bool


def is_steady(windows: Sequence[float]) -> bool:
    """Whether the last five windows lie within 5 % of their mean, without a trend.

    A slow climb would pass the first test, so the change of a fitted line has the same limit.
    """
    if len(windows) < STEADY_WINDOWS:
        return False
    last = np.asarray(windows[-STEADY_WINDOWS:], dtype=np.float64)
    mean = float(last.mean())
    if mean <= 0:
        return False
    slope = float(np.polyfit(np.arange(STEADY_WINDOWS), last, 1)[0])
    change = abs(slope) * (STEADY_WINDOWS - 1)
    spread = float(np.abs(last - mean).max())
    # Rounding must not decide about a window exactly on the limit.
    return max(spread, change) <= STEADY_SPREAD * mean * (1 + 1e-9)


class Burst(Generator):
    """A load without rows, which is not measured."""

    def __init__(self, client: Client, seconds: float, connections: int | None = None) -> None:
        """Send for `seconds` s over so many connections; None: as the load, few if it is paced."""
        load = client.load
        usual = load.connections if load.rate is None else RATE_CONNECTIONS
        number = connections or min(load.connections, usual)
        self._limit = seconds + load.timeout + 2 * START_SECONDS
        shape = {"connections": number, "duration": seconds, "rate": None}
        super().__init__(replace(client, load=load.model_copy(update=shape)))

    def collect(self) -> WarmUp:
        """Wait until all requests have ended; the result has one window.

        LaunchError load_failed; wrong_answer or no_answer unless all answers are good.
        """
        summary = self.end(self._limit)
        if summary.failures:
            kinds = ", ".join(f"{number} times {text}" for text, number in summary.failures.items())
            raise LaunchError(
                FlagName.NO_ANSWER,
                f"expected an answer to every request of the warm-up, found {kinds}; "
                "see the server's log",
            )
        good, status = summary.answered, self.client.request.expect.status
        if summary.statuses.get(status, 0) != good:
            raise LaunchError(
                FlagName.WRONG_ANSWER,
                f"expected status {status} for the {good} requests of the warm-up, "
                f"found {summary.statuses}; see the server's log",
            )
        if not good:
            raise self.failed("requests", "none was sent")
        # All requests, over the time until the last answer: no wave is cut.
        return WarmUp(summary.seconds, (good / summary.seconds,), steady=True)


def warm_up(client: Client, *, slots: int | None = None, once: bool = False) -> WarmUp:
    """Load the server in windows until its throughput is steady, or ten windows are over.

    Each window is a burst, with about 20 ms between two of them, over no more connections than
    `slots`. `once`: a wave is enough, as of a handler for which windows are too short. LaunchError
    as of `Burst.collect`, at the first wrong answer.
    """
    began, window = time.monotonic(), WAVE_SECONDS if once else protocol.WINDOW_SECONDS
    windows: tuple[float, ...] = ()
    steady = False
    few = min(slots, client.load.connections) if slots else None
    while not steady and time.monotonic() - began < MOST_WINDOWS * window:
        with Burst(client, window, few) as burst:
            windows += burst.collect().windows
        paced = client.load.rate is not None
        steady = once or (len(windows) >= RATE_WINDOWS if paced else is_steady(windows))
    return WarmUp(time.monotonic() - began, windows, steady)
