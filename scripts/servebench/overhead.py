"""Does the harness change what it measures? The same case by hand, in turns with servebench.

By hand means the bare server and the bare generator, as anybody would type them, on the same
cores: no verification, no sampling, no rows. If servebench adds nothing, the median ratio of the
two throughputs is 1.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx
import numpy as np

from servebench import ports
from servebench.errors import LaunchError
from servebench.flags import FlagName
from servebench.model import Case
from servebench.process import Session
from servebench.rig import Rig

LEAST_PAIRS: Final = 8
"""A bootstrap interval of the median of fewer pairs is narrower than it should be."""

_START_SECONDS: Final = 30.0
_STOP_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.02


@dataclass(frozen=True, slots=True)
class Interval:
    """A median ratio with its 95 % interval."""

    median: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """The larger distance from the median, as a share of it."""
        return max(self.high - self.median, self.median - self.low) / self.median


def median_ratio(ratios: Sequence[float]) -> Interval:
    """Median of the ratios, with a 95 % interval by percentile bootstrap over the pairs.

    Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), by scipy.
    """
    from scipy import stats  # noqa: PLC0415 - takes a second, which no other verb should wait for

    values = np.asarray(ratios, dtype=np.float64)
    found = stats.bootstrap(
        (values,), np.median, confidence_level=0.95, method="percentile", rng=1, vectorized=True
    ).confidence_interval
    return Interval(float(np.median(values)), float(found.low), float(found.high))


def by_hand(case: Case, rig: Rig, *, warm_up: float, log: Path) -> float:
    """Good responses per second of one closed-loop case with bare server and bare oha.

    Raises:
        LaunchError: not_ready, client_failed or wrong_status.
    """
    port = ports.free_port()
    base = f"http://127.0.0.1:{port}"
    url = base + case.endpoint.path
    with _bare_server(case, rig, port, log):
        _await(base + "/_identity")
        _bare_oha(case, rig, url, warm_up)
        summary = _bare_oha(case, rig, url, case.load.duration)
    good = summary["statusCodeDistribution"].get(str(case.endpoint.expect.status), 0)
    if list(summary["statusCodeDistribution"]) != [str(case.endpoint.expect.status)]:
        raise LaunchError(
            FlagName.WRONG_STATUS, f"by hand: found {summary['statusCodeDistribution']}"
        )
    return float(good) / float(summary["summary"]["total"])


def compare(
    *,
    by_hand: Callable[[], float],
    by_servebench: Callable[[], float],
    width: float,
    limit: float,
    told: Callable[[int, float, float, Interval | None], None],
) -> Interval:
    """Measure pairs in turns (ABBA) until the interval is narrow enough.

    Args:
        by_hand: Measures a case by hand and gives its throughput, 1/s.
        by_servebench: The same of the same case with servebench, 1/s.
        width: Largest half-width of the interval, as a share.
        limit: Seconds after which it ends anyway.
        told: Called after each pair with its number, both figures, and the interval so far.

    Returns:
        The ratio servebench / by hand. Its interval is wider than `width` if the limit came first.
    """
    began = time.monotonic()
    ratios: list[float] = []
    while True:
        first_by_hand = len(ratios) % 2 == 0
        if first_by_hand:
            bare, ours = by_hand(), by_servebench()
        else:
            ours, bare = by_servebench(), by_hand()
        ratios.append(ours / bare)
        interval = median_ratio(ratios) if len(ratios) >= LEAST_PAIRS else None
        told(len(ratios), bare, ours, interval)
        if interval is not None and (
            interval.half_width < width or time.monotonic() - began > limit
        ):
            return interval


@contextmanager
def _bare_server(case: Case, rig: Rig, port: int, log: Path) -> Iterator[None]:
    ports.require_free(port)
    session = Session.start(
        rig.server_argv(case, port),
        role="server",
        cores=rig.server_cores(case),
        env=rig.environment(case),
        cwd=rig.folder(case),
        log=log,
    )
    try:
        yield
    finally:
        session.stop(_STOP_SECONDS)
    ports.wait_free(port, _STOP_SECONDS)


def _await(url: str) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            httpx.get(url, trust_env=False).raise_for_status()
        except httpx.HTTPError as error:
            if time.monotonic() > deadline:
                raise LaunchError(FlagName.NOT_READY, f"by hand: {error}") from error
            time.sleep(_POLL_SECONDS)
        else:
            return


def _bare_oha(case: Case, rig: Rig, url: str, seconds: float) -> dict[str, dict[str, float]]:
    done = subprocess.run(
        ["taskset", "-c", ",".join(map(str, rig.client_cores(case))), str(rig.oha),
         "--no-tui", "--output-format", "json", "-w", "-z", f"{round(seconds * 1000)}ms",
         "-c", str(case.load.connections), "--worker-threads", str(len(rig.client_cores(case))),
         url],
        capture_output=True, check=False, text=True, timeout=seconds + 2 * _START_SECONDS,
    )  # fmt: skip
    if done.returncode != 0:
        raise LaunchError(FlagName.CLIENT_FAILED, f"by hand: {done.stderr[-300:]}")
    found: dict[str, dict[str, float]] = json.loads(done.stdout)
    return found
