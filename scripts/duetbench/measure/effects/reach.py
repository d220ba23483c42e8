"""The program that requests each path of an application once, and lists the functions it enters.

It needs what `duetbench.measure.inside.program` needs. Standard library only, for any CPython from
3.10 on.
"""

from __future__ import annotations

import importlib
import signal
import time
from typing import Any

from duetbench.measure.effects.recorder import Recorder
from duetbench.measure.inside import checkout, program
from duetbench.measure.instructions.phases import Unit, run

_MOST = 60  # paths
_SECONDS = 8.0  # for all of them
_EACH = 3.0  # for one, s


class _LateError(Exception):
    """A request takes longer than it may."""


def _end(*_: object) -> None:
    raise _LateError


def prepare(_target: str) -> Unit:
    """Prepare what requests the paths; it returns the functions of each."""
    return Unit(_report, once=True, threads=True)


def _report() -> dict[str, Any]:
    recorder = Recorder(str(checkout.checkout()))
    routes = importlib.import_module("duetbench_routes")
    # GET asks for no change, and a parameter `1` exists as often as any.
    request, paths = program.open_served(
        check=False,
        find=lambda app: tuple(routes.routes(app, "1")[:_MOST]),
    )
    signal.signal(signal.SIGALRM, _end)
    entered: dict[str, list[tuple[str, str]]] = {}
    ends = time.monotonic() + _SECONDS
    for path in paths:
        if time.monotonic() > ends:
            break
        recorder.on()
        signal.setitimer(signal.ITIMER_REAL, _EACH)
        try:
            request()
        except _LateError:
            break  # the driver may still wait for this answer
        except Exception:  # noqa: S110 - a path that fails enters functions as well
            pass
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            _, calls, _ = recorder.off()
        entered[path] = [*{*recorder.names(calls)}]
    return {"entered": entered}


if __name__ == "__main__":
    run(prepare, program.preload)
