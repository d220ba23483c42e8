"""Instructions of a unit of work, counted by Valgrind's Callgrind in a process of its own.

The same program under the same interpreter executes the same instructions every time, however noisy
the machine (`process` fixes what could differ). A unit is repeated in rounds between marks, so what
happens before, such as imports, is in no figure; nor is collecting garbage. The rounds show how far
the figure repeats.
Valgrind runs one thread at a time: the figures are the cost of work, and say nothing about
contention.
"""

from __future__ import annotations

import re
import shutil
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from duetbench.app.inside.process import Program, start
from duetbench.app.inside.request import DUMP, ROUNDS
from duetbench.core.errors import CountError

# Rounds of one process differ by up to 3 %, always by the same: a table grows, memory is fetched.
# A larger difference means that the unit does something else every time.
SPREAD_LIMIT: Final = 0.05

# Head and totals of a dump (Callgrind's manual, "Callgrind Format Specification").
_DUMP: Final = re.compile(r"^events: *Ir$.*^totals: *(\d+)\n", re.M | re.S)

# The programs that counting needs, and their Debian packages.
NEEDED: Final = {"valgrind": "valgrind", "cc": "gcc libc6-dev"}

Rounds = tuple[float, ...]
"""Instructions of a unit of work, in each round of a process."""


def missing() -> str | None:
    """Say what counting needs and this machine lacks; None if nothing."""
    absent = [tool for tool in NEEDED if shutil.which(tool) is None]
    if not absent:
        return None
    return (
        f"counting instructions needs {' and '.join(absent)} on PATH: on Debian, "
        f"`apt-get install {' '.join(NEEDED[tool] for tool in absent)}`"
    )


@contextmanager
def count(program: Program, ends: float) -> Iterator[Callable[[], Rounds]]:
    """Count a unit of work beside other work, until `ends` by the monotonic clock.

    The callable waits for its rounds. Leaving ends it. CountError: there is no figure.
    """
    with start(program, {"functions": False}, counter) as process:
        yield lambda: read_rounds(process.folder, process.report(ends - time.monotonic()))


def read_rounds(folder: Path, report: Mapping[str, Any]) -> Rounds:
    """Read the instructions of a unit in each round of a process, from its dumps `<process>.<n>`.

    Raises CountError if they are not those of such a process, or the rounds differ too much.
    """
    n, dumps = report["n"], sorted(folder.glob(f"{report['process']}.*"))
    if len(dumps) != ROUNDS:
        raise CountError(
            f"expected Callgrind to write its counters {ROUNDS} times, found {len(dumps)} "
            "times; are libc's headers and Valgrind's callgrind.h installed, or does the "
            f"application itself call {DUMP}, which marks what is counted?"
        )
    costs = tuple(read_dump(file) / n for file in dumps)
    middle, range_ = statistics.median(costs), max(costs) - min(costs)
    if middle <= 0 or range_ > SPREAD_LIMIT * middle:
        raise CountError(
            f"rounds of {n} requests differ by more than {SPREAD_LIMIT:.0%}: "
            f"{', '.join(f'{cost:.0f}' for cost in costs)} instructions per request"
        )
    return costs


def read_dump(file: Path) -> int:
    """Read the instructions of all threads; CountError if the dump is incomplete, or is none."""
    # The totals are its last line: a file without them, or without their line end, was cut short.
    text = file.read_text("utf-8", "replace")
    match = _DUMP.search(text)
    if match is None:
        raise CountError(
            f"{file.name}: expected a dump of Callgrind that counts instructions, with events and "
            f"totals, found {len(text)} characters without; is the disk full?"
        )
    return int(match[1])


def counter(folder: Path, options: Sequence[str] = ()) -> list[str]:
    """Valgrind's command for a program in a folder; CountError: it is missing."""
    if lacking := missing():
        raise CountError(lacking)
    # Nothing is counted before the first mark.
    fixed = ("--instr-atstart=no", f"--callgrind-out-file={folder}/%p")
    return ["valgrind", "--quiet", "--vgdb=no", "--tool=callgrind", *fixed, *options]
