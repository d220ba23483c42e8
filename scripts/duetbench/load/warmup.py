"""Warm up a server: its first requests cost more than all later ones, and are never measured."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from duetbench.core.errors import FlagName, LaunchError
from duetbench.core.model import Case, Load
from duetbench.core.protocol import RATE_WINDOWS
from duetbench.load.oha import START_SECONDS, Client, Generator, milliseconds

STEADY_WINDOWS: Final = 5
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

    def __init__(self, client: Client, *, seconds: float = 0.0, requests: int = 0) -> None:
        """Send for `seconds` s, or send `requests` all at once, one per connection."""
        load = client.load
        self._limit, self._requests = seconds + load.timeout, requests
        if requests:
            shape = ["-c", str(requests), "-n", str(requests)]
        else:
            most = load.connections if load.rate is None else RATE_CONNECTIONS
            connections = min(load.connections, most)
            shape = ["-c", str(connections), "-z", milliseconds(seconds), "-w"]
        super().__init__(client, shape)

    def collect(self) -> WarmUp:
        """Wait until all requests have ended; the result has one window, or none for `requests`.

        LaunchError load_failed; wrong_answer or no_answer unless all answers are good.
        """
        summary = self.end(self._limit + 2 * START_SECONDS)
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
        if not good or good != (self._requests or good):
            raise self.failed(f"{self._requests or 'some'} requests to end", f"{good}")
        # All requests, over the time until the last answer: no wave is cut.
        windows = () if self._requests else (good / summary.seconds,)
        return WarmUp(summary.seconds, windows, steady=True)


def warm_up(client: Client, *, window: float = 1.0, limit: float = 20.0) -> WarmUp:
    """Load the server in windows until its throughput is steady, or the limit is reached.

    Each window is a burst, with about 20 ms between two of them. No window begins after `limit` s.
    LaunchError as of `Burst.collect`, at the first wrong answer.
    """
    began = time.monotonic()
    windows: tuple[float, ...] = ()
    steady = False
    while not steady and time.monotonic() - began < limit:
        with Burst(client, seconds=window) as burst:
            windows += burst.collect().windows
        paced = client.load.rate is not None
        steady = len(windows) >= RATE_WINDOWS if paced else is_steady(windows)
    return WarmUp(time.monotonic() - began, windows, steady)


def wave_size(case: Case, load: Load) -> int:
    """The number of requests that occupies every slot of a case, or else every connection."""
    return min(load.connections, case.slots or load.connections)
