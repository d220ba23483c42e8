"""Starts the program that makes requests and records what they do, and reads its reports."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from pydantic import TypeAdapter, ValidationError

from duetbench.app.inside import process as inside
from duetbench.app.inside.process import Process, Program
from duetbench.core.errors import CountError
from duetbench.core.model import KeptMemory  # noqa: F401 - a type of `Activity`
from duetbench.effects.activity import PATIENCE, SECONDS, Activity

_ACTIVITY: Final = TypeAdapter(Activity)
_ACTIVITY.rebuild()  # with the types of this module: an observed process has none of pydantic


@contextmanager
def start(
    client: Program, *, seconds: float, ends: float, patience: float
) -> Iterator[Callable[[], Activity]]:
    """Start to observe requests until `ends` by the monotonic clock at most; leaving ends it.

    Memory is measured for at most some `seconds`. `patience` are the seconds in which the first
    answer to a path must have ended; 0: any. The callable waits for what was seen, without the
    memory if the process does not survive that. CountError, with the reason: nothing was seen.
    """
    plan = {PATIENCE: patience, SECONDS: seconds}
    with inside.start(client, plan) as process:
        yield lambda: _read(process, client.hide, ends)


def _read(process: Process, hide: Callable[[str], str], ends: float) -> Activity:
    try:
        seen = _ACTIVITY.validate_python(process.report(ends - time.monotonic()))
    except CountError as error:
        raise CountError(hide(str(error)), error.kind) from error
    except ValidationError as error:
        raise CountError(f"expected the report of a target, found {error}") from error
    return seen.hidden(hide)
