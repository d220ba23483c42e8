"""Counts the instructions that both sides execute for a request, without a server.

The application sees the surroundings of a launch. The same program under the same interpreter
executes the same instructions every time, however noisy the machine (`process` fixes what could
differ): counts repeat to 0.03 %, so one of each side is enough. Code that executes more need not be
slower.

Valgrind's Callgrind counts a unit of work in rounds between marks, so what happens before, such as
imports, is in no figure; nor is collecting garbage. The rounds show how far the figure repeats.
Valgrind runs one thread at a time: the figures are the cost of work, and say nothing about
contention.
"""

import math
import re
import shutil
import statistics
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from duetbench.app.in_process import Program, code_of, program, start
from duetbench.app.programs import DUMP, ROUNDS
from duetbench.app.testbed import BothSides
from duetbench.core.comparison import RESOLUTION, Instructions
from duetbench.core.errors import CountError
from duetbench.core.metrics import CPU, METRICS
from duetbench.core.text import short
from duetbench.core.units import student

CASE_SECONDS: Final = 8.0
"""Time in which both sides of a case are counted in parallel, mostly for imports, s."""

LONGEST: Final = 80.0
"""Time that the counts of a case may take, on a machine that does other work as well, s."""

PROCESSES_DIFFER: Final = 5.0
"""Times by which counts of two processes differ more than those of their rounds, if these differ by
more than `RESOLUTION`: equal code differed by 0.3 to 4.5 times the scatter of its rounds."""

LAYOUTS: Final = (100, 1000)
"""Bytes that further processes have more in their environment, which moves what they allocate."""

LAYOUT: Final = 0.04
"""Half width of the interval of a program whose rounds differ, if it was counted in one layout.

Where objects lie decides which keys of tables collide (docs/decides.md has figures). The layout is
the same for equal code, so that it shows only where the sides differ."""

UNSTEADY: Final = 0.01
"""A side whose rounds differ by more does something else each time: random work, time, growth."""

FLOOR: Final = METRICS[CPU].floor
"""Relevance threshold of instructions: that of the CPU time they take."""

_LONGEST_REASON: Final = 300  # characters of the reason why something was not counted
NO_TIME: Final = "there was no time to count it"

# Rounds of one process differ by up to 3 %, always by the same: a table grows, memory is fetched.
# A larger difference means that the unit does something else every time.
SPREAD_LIMIT: Final = 0.05

# Head and totals of a dump (Callgrind's manual, "Callgrind Format Specification").
_DUMP: Final = re.compile(r"^events: *Ir$.*^totals: *(\d+)\n", re.M | re.S)

# The programs that counting needs, and their Debian packages.
NEEDED: Final = {"valgrind": "valgrind", "cc": "gcc libc6-dev"}

Rounds = tuple[float, ...]
"""Instructions of a unit of work, in each round of a process."""


Open = Callable[[], AbstractContextManager[Program]]
"""Prepares the program of a side, until it is left."""


def instructions(sides: BothSides, limit: float, ends: float = math.inf) -> Instructions | str:
    """Count a request of both sides, as `both` does."""
    return both([partial(program, side) for side in sides], limit, ends)


def both(sides: Sequence[Open], limit: float, ends: float = math.inf) -> Instructions | str:
    """Count both sides at once, each within `limit` s, or give the reason why not.

    The limit begins when a side is prepared. Nothing starts that cannot end before `ends`, by the
    monotonic clock. A small change is counted in further layouts of memory, which could be its
    reason.
    """
    if lacking := missing():  # before what prepares a side, which may take minutes
        return lacking
    began = time.monotonic()
    outcome = _count(sides, limit, ends)
    if isinstance(outcome, str):
        return outcome
    took, counts = time.monotonic() - began, [outcome]
    # Of a large change only the width of the interval is at stake.
    for padding in LAYOUTS if FLOOR < abs(_move(outcome)) < 2 * LAYOUT else ():
        more = _count(sides, limit, ends, padding) if time.monotonic() + took < ends else ""
        if isinstance(more, str):
            break
        counts.append(more)
    return in_layouts(counts)


def in_layouts(counts: Sequence[Instructions]) -> Instructions:
    """Join the counts of both sides in several layouts of memory, or widen the interval of one."""
    first, moves = counts[0], [*map(_move, counts)]
    if len(counts) == 1:
        sure = first.spread <= RESOLUTION or abs(moves[0]) <= FLOOR
        return first if sure else first.model_copy(update={"scatter": max(first.error, LAYOUT)})
    base = statistics.fmean(of.base for of in counts)
    error = student(len(moves) - 1) * statistics.stdev(moves) / math.sqrt(len(moves))
    return Instructions(
        base=base,
        head=base * math.exp(statistics.fmean(moves)),
        spread=first.spread,
        scatter=max(first.scatter or 0.0, error),
    )


def _move(counts: Instructions) -> float:
    return math.log(counts.head / counts.base)


def _count(
    sides: Sequence[Open], limit: float, ends: float, padding: int = 0
) -> Instructions | str:
    """Count both sides at once, in process and without a server."""
    under_way = []
    try:
        with ExitStack() as stack:
            for side in sides:
                client = stack.enter_context(side())
                if padding:
                    client = client.padded(padding)
                if time.monotonic() + CASE_SECONDS > ends:
                    return NO_TIME
                rounds = count_rounds(client, min(ends, time.monotonic() + limit))
                under_way.append(stack.enter_context(rounds))
            return _together(*(collect() for collect in under_way))
    except CountError as error:
        return short(str(error), _LONGEST_REASON)


def _together(base: Rounds, head: Rounds) -> Instructions:
    """Join the rounds of both sides; the scatter is half the ratio's 95 % interval, relative.

    It comes from the difference of the sides in each round: a cost that grows in both processes,
    such as that of a table, cancels.
    """
    moves = [above - below for below, above in zip(base, head, strict=True)]
    error = student(len(moves) - 1) * statistics.stdev(moves) / math.sqrt(len(moves))
    scatter = error / min(*base, *head)
    if scatter > RESOLUTION:
        scatter *= PROCESSES_DIFFER
    middles = statistics.median(base), statistics.median(head)
    spread = max(
        (max(rounds) - min(rounds)) / middle
        for rounds, middle in zip((base, head), middles, strict=True)
    )
    return Instructions(
        base=middles[0],
        head=middles[1],
        spread=spread,
        scatter=max(scatter, spread if spread > UNSTEADY else 0.0),
    )


def count_each(
    count: Callable[[BothSides, float, float], Instructions | str],
    sides: Mapping[str, BothSides],
    outcomes: dict[str, Instructions | str],
    left: Callable[[], float],
    note: Callable[[str], None],
    ends: float = math.inf,
) -> None:
    """Count cases one by one while there is time: each piece of code once, whatever serves it.

    Args:
        count: Counts both sides of a case; see `instructions`.
        sides: Base and head, by the case's id.
        outcomes: Gets the counts of each case, or why there are none. A case that has one is not
            counted, and an interrupt keeps what is there.
        left: Returns the seconds in which another case may begin.
        note: Gets a sentence for each that could not be counted.
        ends: Time of the monotonic clock; none is prepared too late to end before.
    """
    known: dict[Hashable, Instructions | str] = {}
    for case, both in sides.items():
        code = code_of(both[1])
        if excuse := outcomes.get(case) or _warms_up(both):
            known[code] = excuse
        elif code not in known and left() >= CASE_SECONDS:
            known[code] = outcome = count(both, LONGEST, ends)
            if isinstance(outcome, str):
                note(f"{case}: instructions not counted: {outcome}")
        outcomes[case] = known.get(code, NO_TIME)


def _warms_up(sides: BothSides) -> str:
    """Say why counts of a case on a JIT mean nothing; empty: it has none."""
    for side in sides:
        python = side.testbed.interpreters.get(side.case.python)
        if python is not None and python.jit:
            return "a JIT compiles only what has run for long, and counted requests have not"
    return ""


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
def count_rounds(client: Program, ends: float) -> Iterator[Callable[[], Rounds]]:
    """Count a unit of work beside other work, until `ends` by the monotonic clock.

    The callable waits for its rounds. Leaving ends it. CountError: there is no figure.
    """
    with start(client, {"functions": False}, counter) as process:
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
