"""Starts the program that makes requests and records what they do, and reads its reports."""

from dataclasses import replace
from typing import Final

from pydantic import TypeAdapter, ValidationError

from duetbench.core.errors import CountError
from duetbench.core.model import KeptMemory  # noqa: F401 - a type of `Activity`
from duetbench.measure.effects import program as inside
from duetbench.measure.effects.program import Activity
from duetbench.measure.instructions import counting
from duetbench.measure.instructions.counting import Program

PROGRAM: Final = inside.__name__

_ACTIVITY: Final = TypeAdapter(Activity)
_ACTIVITY.rebuild()  # with the types of this module: an observed process has none of pydantic


def observe(
    client: Program, *, seconds: float = 1.0, timeout: float = 60.0, patience: float = 0.0
) -> Activity:
    """Observe requests; CountError, with the reason: that cannot be.

    Memory is measured for at most some `seconds`. `patience` are the seconds in which the first
    answer to a path must have ended; 0: any.
    """
    plan = {inside.PATIENCE: patience, inside.SECONDS: seconds}
    with counting.start(client, plan) as process:
        try:
            report = process.report(timeout)
        except CountError:
            if not (early := process.folder / inside.EARLY).exists():
                raise
            report = counting.report_of(early)  # all but the memory
    try:
        seen = _ACTIVITY.validate_python(report)
    except ValidationError as error:
        raise CountError(f"expected the report of a target, found {error}") from error
    events = [
        [(kind, client.hide(text), place) for kind, text, place in round_] for round_ in seen.events
    ]
    return replace(seen, events=events, hide=client.hide)
