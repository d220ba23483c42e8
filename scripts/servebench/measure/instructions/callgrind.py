"""Reading Callgrind's dumps: how many instructions between two moments, and what ended them.

Only head and totals are read. Source: Callgrind's manual, "Callgrind Format Specification".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from servebench.core.errors import CountError

_EVENTS: Final = re.compile(r"^events: *(.*)$", re.MULTILINE)
_TRIGGER: Final = re.compile(r"^desc: Trigger: *(.*)$", re.MULTILINE)
_NUMBER: Final = re.compile(r"^part: *(\d+)$", re.MULTILINE)
_TOTALS: Final = re.compile(r"^totals: *(\d+(?: \d+)*)\n", re.MULTILINE)
_INSTRUCTIONS: Final = "Ir"


@dataclass(frozen=True, slots=True)
class Dump:
    """One dump: its number from 1, and what caused it, such as `--dump-before=getppid`.

    The instructions are those of all threads since the dump before it, or since the last zero.
    """

    number: int
    trigger: str
    instructions: int


def parse(text: str, name: str) -> Dump:
    """Read one dump, called `name` in errors; CountError if it does not count instructions."""
    number, trigger = _NUMBER.search(text), _TRIGGER.search(text)
    events = _EVENTS.search(text)
    # They end the dump: a file without them, or without their line end, was cut short.
    totals = _TOTALS.search(text, max(0, text.rfind("\ntotals:")))
    if number is None or trigger is None or events is None or totals is None:
        missing = {"part": number, "desc: Trigger": trigger, "events": events, "totals": totals}
        raise CountError(
            f"{name}: expected a dump of Callgrind, found no "
            f"{', '.join(key for key, found in missing.items() if found is None)} "
            f"in {len(text)} characters; is the disk full?"
        )
    names, counts = events[1].split(), totals[1].split()
    if _INSTRUCTIONS not in names or len(counts) <= names.index(_INSTRUCTIONS):
        raise CountError(
            f"{name}: expected a count of instructions ({_INSTRUCTIONS}), found events {names} "
            f"with {len(counts)} totals; was Valgrind started with other options?"
        )
    return Dump(int(number[1]), trigger[1], int(counts[names.index(_INSTRUCTIONS)]))


def read(folder: Path, process: int) -> tuple[Dump, ...]:
    """Read the dumps `<process>.<number>` of a folder, in order; CountError if one is missing."""
    parts = []
    for file in folder.glob(f"{process}.*"):
        try:
            parts.append(parse(file.read_text("utf-8", "replace"), file.name))
        except OSError as error:
            raise CountError(f"{file}: expected a dump of Callgrind: {error.strerror}") from error
    parts.sort(key=lambda part: part.number)
    found = [part.number for part in parts]
    if found != list(range(1, len(parts) + 1)):
        raise CountError(
            f"expected the dumps of process {process} to be numbered from 1 on, found {found}; "
            "is the disk full?"
        )
    return tuple(parts)
