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


def _routes(application: Any) -> tuple[str, ...]:
    # GET asks for no change, and a parameter `1` exists as often as any.
    routes = importlib.import_module("duetbench_routes").routes(application, "1")
    return tuple(routes[:_MOST])


def _report() -> dict[str, Any]:
    recorder = Recorder(str(checkout.checkout()))
    known: list[str] = []

    def find(application: Any) -> tuple[str, ...]:
        known.extend(_routes(application))
        return tuple(known)

    request, _ = program.open_served(check=False, find=find)
    signal.signal(signal.SIGALRM, _end)
    entered: dict[str, list[list[str]]] = {}
    ends = time.monotonic() + _SECONDS
    for path in known:
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
            recorder.off()
        _, calls, _ = recorder.take()
        names = {(getattr(code, "co_qualname", code.co_name), code.co_filename) for code in calls}
        entered[path] = [[name, file] for name, file in names if recorder.file(file)]
    return {"entered": entered}


if __name__ == "__main__":
    run(prepare, program.preload)
