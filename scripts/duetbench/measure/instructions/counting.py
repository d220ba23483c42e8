"""Instructions per unit of work, counted by Valgrind's Callgrind in one process per target.

The same program under the same interpreter executes the same instructions every time, however noisy
the machine. What would make a difference is held still (`valgrind`), and garbage collection happens
between the counted phases. A unit's figure is the difference between doing it 2n and n times,
divided by n, so that what is done once per phase is in no figure either. Valgrind runs one thread
at a time: the figures tell what work costs, and nothing about contention.
"""

import dataclasses
import json
import re
import shutil
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from duetbench.core.errors import CountError
from duetbench.measure.instructions import phases, valgrind

ROUNDS: Final = 3
TIMEOUT_S: Final = 1800.0
# Rounds of one process differ by up to 3 %, always by the same: a table grows, memory is fetched.
# What differs by more does something else every time.
SPREAD_LIMIT: Final = 0.05
# A phase without work costs some hundred instructions, an unmarked one millions.
_NOTHING_LIMIT: Final = 50_000
_MARKS: Final = ("--dump-before=", "Client Request")

# Only head and totals of a dump are read (Callgrind's manual, "Callgrind Format Specification").
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


@dataclass(frozen=True, slots=True)
class InstructionCount:
    """How many instructions a unit of work takes: the median over the rounds.

    Attributes:
        spread: Largest minus smallest round, as a share of `per_unit`; a repetition has the same.
        n: Units in a single phase.
        seeded: Random numbers were the same as in every other counting (`valgrind.fixed_random`).
            If not, what draws some may differ by 0.1 % when it is counted again.
    """

    per_unit: float
    spread: float
    n: int
    seeded: bool = False


@dataclass(frozen=True, slots=True)
class Uncounted:
    """Why a target has no figure; `unfit`: there cannot be one, as a matter of principle."""

    reason: str
    unfit: bool = False


Collect = Callable[[float], dict[str, InstructionCount | Uncounted]]
"""Waits for the figures; raises `CountError` if there are none."""


def missing() -> str | None:
    """Say what counting needs and this machine has not; None if nothing."""
    absent = [tool for tool in valgrind.NEEDED if shutil.which(tool) is None]
    if not absent:
        return None
    packages = dict.fromkeys(valgrind.NEEDED[tool] for tool in absent)
    return (
        f"counting instructions needs {' and '.join(absent)} on PATH: on Debian, "
        f"`apt-get install {' '.join(packages)}`"
    )


def count(
    python: Path,
    payload: Sequence[str],
    targets: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    rounds: int = ROUNDS,
    timeout: float = TIMEOUT_S,
) -> dict[str, InstructionCount | Uncounted]:
    """Count the instructions of some units of work, called `targets`; CountError: of none.

    `payload` are the interpreter's arguments: a program that calls `phases.run`, from which this
    package can be imported. It gets PATH and `env`. Importing a web framework takes some 20 s.
    """
    with started(python, payload, targets, env=env, rounds=rounds) as collect:
        return collect(timeout)


@contextmanager
def started(
    python: Path,
    payload: Sequence[str],
    targets: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    rounds: int = ROUNDS,
    switched: bool = False,
) -> Iterator[Collect]:
    """Count as `count` does, beside other work; leaving ends it. CountError: impossible.

    `switched`: it may need a C compiler and Valgrind's header, and is twice as fast for that.
    """
    lacking = missing()
    if lacking is not None:
        raise CountError(lacking)
    options = valgrind.SWITCHED if switched else valgrind.COUNTED
    with (
        valgrind.workspace({"targets": list(targets), "rounds": rounds}) as folder,
        valgrind.Process(python, payload, folder, env or {}, options) as process,
    ):

        def collect(timeout: float) -> dict[str, InstructionCount | Uncounted]:
            process.wait(timeout)
            return {
                target: _outcome(report_of(folder / f"{index}.json"), folder, rounds)
                for index, target in enumerate(targets)
            }

        yield collect


def figure(parts: Sequence[Dump], n: int, rounds: int) -> InstructionCount | Uncounted:
    """Compute a target's figure from the parts of its process: warm-up, nothing, n and 2n in turn.

    CountError: the parts are not those of such a process.
    """
    marked = [part for part in parts if part.trigger.startswith(_MARKS)]
    if len(marked) != 2 + 2 * rounds or len(marked) != len(parts):
        raise CountError(
            f"expected Callgrind to write its counters down {2 + 2 * rounds} times, found "
            f"{len(marked)} times because of {phases.DUMP} and {len(parts) - len(marked)} times "
            f"because of something else; does Valgrind know the symbols of this libc?"
        )
    _warmup, nothing, *counted = (part.instructions for part in marked)
    if nothing > _NOTHING_LIMIT:
        raise CountError(
            f"expected at most {_NOTHING_LIMIT} instructions in a phase without work, found "
            f"{nothing}: {phases.ZERO} sets no counters to zero; does Valgrind know the symbols of "
            "this libc?"
        )
    costs = [
        (double - single) / n for single, double in zip(counted[::2], counted[1::2], strict=True)
    ]
    per_unit = statistics.median(costs)
    if per_unit <= 0:
        return Uncounted(f"{2 * n} units took no more instructions than {n}: {counted}")
    spread = (max(costs) - min(costs)) / per_unit
    if spread > SPREAD_LIMIT:
        return Uncounted(
            f"rounds of {n} units differ by {spread:.2%}: "
            f"{', '.join(f'{cost:.0f}' for cost in costs)} instructions per unit"
        )
    return InstructionCount(per_unit, spread, n)


def parse_dump(text: str, name: str) -> Dump:
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


def read_dumps(folder: Path, process: int) -> tuple[Dump, ...]:
    """Read the dumps `<process>.<number>` of a folder, in order; CountError if one is missing."""
    parts = []
    for file in folder.glob(f"{process}.*"):
        try:
            parts.append(parse_dump(file.read_text("utf-8", "replace"), file.name))
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


def report_of(file: Path) -> dict[str, Any]:
    """Read what `phases.run` has written of a target; CountError if it is no report."""
    try:
        report = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise CountError(
            f"{file.name}: expected the report of a target: {error}; does the payload call "
            "phases.run?"
        ) from error
    return dict(report)


def _outcome(report: dict[str, Any], folder: Path, rounds: int) -> InstructionCount | Uncounted:
    if "reason" in report:
        return Uncounted(report["reason"], report["unfit"])
    found = figure(read_dumps(folder, report["process"]), report["n"], rounds)
    if isinstance(found, Uncounted):
        return found
    return dataclasses.replace(found, seeded=report["seeded"])
