"""Every declared endpoint, in-process: what one request costs without a socket.

The endpoints are those of `apps/*/experiment.toml`: a new one is measured without a line here.
Waits are cut to nothing where the application lets them be; a handler that waits all the same has
CPU time only. `driver/asgi` and `driver/wsgi` are what the driver and asv's own loop cost, which is
part of every other figure.
"""

from __future__ import annotations

import functools
import time

from . import _project, _requests

# Listed from the tree that the suites are in, asked in the commit under test (see _project.tree).
params = _requests.names()
param_names = ["endpoint"]

# By hand: the bodies below stay the same when what they measure changes. Raise it when the driver
# or the choice of what is cut changes.
version = "1"

# s. Long enough for asv to see that only the first call of a process is slow: it opens the request.
warmup_time = 0.3

WALL = _project.Clock(time.perf_counter)
CPU = _project.Clock(time.process_time)


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
def _wall(name: str) -> _requests.Request:
    _require(name)
    if _requests.waits(name):
        _project.skip(f"{name} waits: only its CPU time says something")
    return _requests.open_request(name)


@functools.cache
@CPU.leaves_out
def _cpu(name: str) -> _requests.Request:
    _require(name)
    return _requests.open_request(name)


def _require(name: str) -> None:
    reason = _requests.missing(name)
    if reason is not None:
        _project.skip(reason)


if _project.under_asv():
    _requests.preload()
