"""Warming up: the server's first requests cost more than all later ones, and are never measured."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from servebench.core.errors import LaunchError
from servebench.core.flags import FlagName
from servebench.core.model import Case, Load
from servebench.core.protocol import RATE_WINDOWS
from servebench.measure.oha import Burst
from servebench.measure.oha_results import OhaSummary

STEADY_WINDOWS: Final = 5
STEADY_SPREAD: Final = 0.05
"""Of the windows' throughput: the largest distance from the mean, and the largest fitted change.

Windows of one second differ by 1 to 2 % on a quiet two-core machine.
"""

RATE_CONNECTIONS: Final = 16
"""Most connections that warm up a paced or open load: enough to reach every worker.

Rates are often too low to tell a steady window from one more request in it, so their endpoints are
warmed up in a closed loop; hundreds of connections there would be an overload, not a warm-up.
"""


@dataclass(frozen=True, slots=True)
class WarmUp:
    """How a warm-up went: good answers/s by window; `steady`: its limit did not end it."""

    seconds: float
    windows: tuple[float, ...]
    steady: bool


def is_steady(windows: Sequence[float]) -> bool:
    """Tell whether the last five windows lie within 5 % of their mean and go nowhere.

    A slow climb can stay within the 5 %, so the change that a fitted line makes over the five
    windows may not exceed 5 % either.
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
    # Rounding may not decide where a window lies exactly on the limit.
    return max(spread, change) <= STEADY_SPREAD * mean * (1 + 1e-9)


def burst(
    oha: Path,
    load: Load,
    url: str,
    *,
    cores: Sequence[int] | None,
    seconds: float = 0.0,
    requests: int = 0,
) -> Burst:
    """Start a warm-up of so many seconds, or of so many requests all at once, one a connection."""
    arguments = ["-c", str(requests), "-n", str(requests)]
    if not requests:
        most = load.connections if load.rate is None else RATE_CONNECTIONS
        duration = f"{max(1, round(seconds * 1000))}ms"
        arguments = ["-c", str(min(load.connections, most)), "-z", duration, "-w"]
    limit = seconds + load.timeout
    return Burst.start(oha, [*arguments, url], timeout=load.timeout, limit=limit, cores=cores)


def warm_up(
    oha: Path,
    load: Load,
    url: str,
    *,
    cores: Sequence[int] | None,
    window: float = 1.0,
    limit: float = 20.0,
    status: int = 200,
) -> WarmUp:
    """Load the server in windows until its throughput is steady, or the limit is reached.

    Each window is one run of oha without rows: between two of them lie about 20 ms. No window
    begins later than `limit` s. LaunchError client_failed; wrong_status or transport_errors at the
    first.
    """
    began = time.monotonic()
    windows: list[float] = []
    steady = False
    while not steady and time.monotonic() - began < limit:
        with burst(oha, load, url, cores=cores, seconds=window) as running:
            summary = running.collect()
        # All that were sent, over the time until the last was answered: no cut waves.
        windows.append(only_good(summary, status) / summary.seconds)
        steady = is_steady(windows) if load.rate is None else len(windows) >= RATE_WINDOWS
    return WarmUp(time.monotonic() - began, tuple(windows), steady)


def wave_size(case: Case) -> int:
    """Requests that occupy every place of a case at once: its slots, or all its connections."""
    return min(case.load.connections, case.slots or case.load.connections)


def wave(
    oha: Path,
    load: Load,
    url: str,
    *,
    cores: Sequence[int] | None,
    requests: int,
    status: int = 200,
) -> WarmUp:
    """Send requests all at once, one per connection, and wait until all have ended.

    This is the warm-up of endpoints that wait too long for windows: it fills every pool once.
    LaunchError client_failed; wrong_status or transport_errors unless all are good.
    """
    with burst(oha, load, url, cores=cores, requests=requests) as running:
        summary = running.collect()
    good = only_good(summary, status)
    if good != requests:
        raise LaunchError(
            FlagName.CLIENT_FAILED, f"oha: expected {requests} requests to end, found {good}"
        )
    return WarmUp(summary.seconds, (), steady=True)


def only_good(summary: OhaSummary, status: int) -> int:
    """Count the good answers of a warm-up; LaunchError if there is anything else, or nothing."""
    if summary.failures:
        kinds = ", ".join(f"{number} times {text}" for text, number in summary.failures.items())
        raise LaunchError(
            FlagName.TRANSPORT_ERRORS,
            f"expected every request of the warm-up to be answered, found {kinds}; "
            "see the server's log",
        )
    good = summary.statuses.get(status, 0)
    if good != summary.answered:
        raise LaunchError(
            FlagName.WRONG_STATUS,
            f"expected status {status} for the {summary.answered} requests of the warm-up, "
            f"found {summary.statuses}; see the server's log",
        )
    if not good:
        raise LaunchError(FlagName.CLIENT_FAILED, "oha: expected requests, found none was sent")
    return good
