"""Every declared endpoint, in-process: the cost of one request without a socket.

The endpoints are those of `apps/*/experiment.toml`, so new ones need no change here. Waits are cut
to zero if the application allows it; a handler that still waits has only CPU time. `driver/asgi`
and `driver/wsgi` are the cost of the driver and asv's own loop, which every other figure includes.
"""

from __future__ import annotations

import functools
import time

from observatory.measure.inside import requests

from . import _suite

# Listed from the suites' own tree, requested in the commit under test (see _suite.tree).
params = requests.names(_suite.tree())
param_names = ["endpoint"]

# Raise it by hand when the driver or the choice of cut waits changes: the code below stays the
# same then.
version = "1"

# Seconds, long enough for asv to see that only the first call, which opens the request, is slow.
warmup_time = 0.3

WALL = _suite.Clock(time.perf_counter)
CPU = _suite.Clock(time.process_time)


class Wall:
    """Seconds from the request to the end of its answer."""

    timer = WALL
    sample_time = 0.05

    def time_request(self, endpoint: str) -> None:
        """Send one request."""
        _wall(endpoint)()


class Cpu:
    """Seconds of CPU that the whole process spends on one request, all threads together."""

    timer = CPU
    # Ten requests of an endpoint that waits 10 ms.
    sample_time = 0.1

    def time_request(self, endpoint: str) -> None:
        """Send one request."""
        _cpu(endpoint)()


@functools.cache
@WALL.leaves_out
def _wall(name: str) -> requests.Request:
    _require(name)
    if requests.waits(name):
        _suite.skip(f"{name} waits: only its CPU time says something")
    return requests.open_request(name)


@functools.cache
@CPU.leaves_out
def _cpu(name: str) -> requests.Request:
    _require(name)
    return requests.open_request(name)


def _require(name: str) -> None:
    reason = requests.missing(name)
    if reason is not None:
        _suite.skip(reason)


if _suite.under_asv():
    requests.preload()
