"""The program that runs inside the counted process: units of work between marks.

A mark is a call into libc that does nothing, and that nothing else makes: before `getpgrp`
Callgrind sets its counters to zero, before `getppid` it writes them to a dump.

Everything is imported once, in a parent that forks for each target: importing under Valgrind takes
20 s. No target is affected by what another leaves behind (specialised bytecode, filled caches, most
of the heap), so adding a target changes no other's count by more than 0.2 %.
"""

import gc
import itertools
import json
import os
import signal
import sys
import sysconfig
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import CodeType
from typing import Any, Final, NoReturn

ZERO: Final = "getpgrp"
DUMP: Final = "getppid"
PLAN: Final = "DUETBENCH_ICOUNT_PLAN"
LIBRARY: Final = "fixed_random.so"

# As they are before an application is imported, which may replace them.
_ENCODE, _OPEN, _WRITE, _CLOSE, _EXIT = json.dumps, os.open, os.write, os.close, os._exit

_PR_SET_PDEATHSIG: Final = 1  # prctl(2)
_OF_PLACES: Final = 0x10 | 0x8000000
"""Flags of the place of a function: nested in another one, or in a class."""

SLOW: Final = 0.05
"""Seconds of an uncounted call from which it is slow: at most `WARM` calls warm it up before the
first mark, as counted calls take five to ten times as long."""

WARM: Final = 3

ROUNDS: Final = 3
"""Times that a single and a double phase are counted."""

private: dict[str, str] = {}
"""Texts that no report may tell, with their names: what a login in this process gave."""

LONGER: Final = 5
"""A call after the first mark takes at least this many times the core time of one before."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A piece of work to count: n times in a single phase, 2·n times in a double one.

    Attributes:
        warmup: Calls that specialise bytecode and fill caches first.
        threads: It may have threads; how well its counts repeat is then unknown beforehand.
        least: The calls of a phase are a multiple of this, as they differ from each other.
        seconds: Wall time of an earlier call, if it was measured.
        work: Core time of that call.
    """

    call: Callable[[], object]
    n: int = 30
    warmup: int = 20
    threads: bool = False
    least: int = 1
    seconds: float = 0.0
    work: float = 0.0


class SlowError(Exception):
    """Counting a target would take longer than there is time; the message gives the times."""


class UnfitError(Exception):
    """A target that has no exact count in principle; the message gives the reason."""


def run(prepare: Callable[[str], Unit], preload: Callable[[], object] | None = None) -> None:
    """Do the work of all planned targets, one process each. This is a payload's main program.

    The plan is a JSON file named by `$DUETBENCH_ICOUNT_PLAN`: targets, and the folder for
    the reports, one JSON file per target. With `observe` the interpreter observes n units, without
    Valgrind; with `profile` Callgrind counts function by function; with `report` the unit's call
    returns the report. `preload` imports what several targets need. `prepare` makes the unit of a
    target in its own process; an exception from it is the reason why the target has no figure.
    """
    plan = json.loads(Path(os.environ[PLAN]).read_text("utf-8"))
    if preload is not None:
        preload()
    parent, tie, folder = os.getpid(), _tie(), Path(plan["reports"]).absolute()
    for index, target in enumerate(plan["targets"]):
        report = folder / f"{index}.json"
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child == 0:
            tie()
            # Not `os.getppid`, which is a mark.
            fields = Path("/proc/self/stat").read_text("utf-8", "replace").rpartition(")")[2]
            if int(fields.split()[1]) != parent:  # it ended before the tie
                os._exit(1)
            _work(prepare, target, plan, parent, report)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if not report.exists():
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            write(report, {"reason": f"its process ended with {how}", "unfit": False})


def _tie() -> Callable[[], object]:
    """Return a call that makes the kernel end this process with its parent. Forks lose that."""
    try:
        import ctypes  # noqa: PLC0415 - an interpreter may have been built without it

        prctl = ctypes.CDLL(None).prctl
    except (ImportError, OSError, AttributeError):
        return lambda: None
    return lambda: prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))


def _work(
    prepare: Callable[[str], Unit], target: str, plan: dict[str, Any], parent: int, report: Path
) -> NoReturn:
    content: Any
    code = 1
    try:
        unit = prepare(target)
        if "observe" in plan:
            content = _observed(unit)
        elif "profile" in plan:
            content = _profiled(unit)
        elif "report" in plan:
            content = unit.call()
        else:
            content = _phases(unit, plan, parent)
        write(report, content)
        code = 0
    except BaseException as error:  # the target's own code may raise anything
        unfit = isinstance(error, UnfitError)
        reason = (
            str(error)
            if isinstance(error, UnfitError | SlowError)
            else f"{type(error).__name__}: {error}"
        )
        for text, name in private.items():
            reason = reason.replace(text, name)
        write(report, {"reason": reason, "unfit": unfit})
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:  # they may be closed
            _EXIT(code)


def _observed(unit: Unit) -> dict[str, Any]:
    """Count function by function, by the interpreter's own events; exact.

    Each row is name, file, line, entries (starts and resumptions), and a digest of the code,
    independent of its name and place.
    """
    if sys.version_info < (3, 12):
        raise UnfitError("entries are counted from CPython 3.12 on")
    _warm(unit, _repeat)
    monitoring: Any = sys.monitoring
    events, tool = monitoring.events, take_tool()
    codes: dict[int, CodeType] = {}  # by id: hashing a code object goes through all its constants
    entries: Counter[int] = Counter()

    def enter(code: CodeType, *_: object) -> None:
        codes[id(code)] = code
        entries[id(code)] += 1

    entered = events.PY_START, events.PY_RESUME, events.PY_THROW
    try:
        for event in entered:
            monitoring.register_callback(tool, event, enter)
        monitoring.set_events(tool, sum(entered))
        for _ in range(unit.n):
            unit.call()
    finally:
        monitoring.set_events(tool, events.NO_EVENTS)
        monitoring.free_tool_id(tool)
    functions = [
        [
            code.co_qualname,
            code.co_filename,
            code.co_firstlineno,
            entries[key],
            _digest(code),
        ]
        for key, code in codes.items()
        if code.co_filename != __file__
    ]
    return {"n": unit.n, "functions": functions}


def take_tool() -> int:
    """Take the tool of `sys.monitoring` that applications take least; UnfitError: there is none."""
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined]
    for tool in (5, 4, 3, 2):
        if monitoring.get_tool(tool) is None:
            monitoring.use_tool_id(tool, "duetbench")
            return tool
    raise UnfitError("the application takes all tools of sys.monitoring, which duetbench needs")


def _digest(code: CodeType) -> str:
    import hashlib  # noqa: PLC0415 - under Valgrind each import is slow, and counts need none

    constants = [_digest(item) if isinstance(item, CodeType) else item for item in code.co_consts]
    flags = code.co_flags & ~_OF_PLACES
    body = code.co_code, code.co_names, code.co_varnames, code.co_freevars, flags, constants
    return hashlib.sha256(repr(body).encode()).hexdigest()[:16]


def _profiled(unit: Unit) -> dict[str, Any]:
    """Run the work once more, with a stub of its own below each Python function.

    CPython lists the stubs in /tmp/perf-<process>.map.
    """
    try:
        activate: Any = sys.activate_stack_trampoline  # type: ignore[attr-defined] # from 3.12 on
        activate("perf")
    except (AttributeError, ValueError) as error:
        raise UnfitError(f"this interpreter has no trampolines for profilers: {error}") from error
    _warm(unit, _repeat)
    _phase(unit.call, unit.n)
    return {
        "process": os.getpid(),
        "n": unit.n,
        "packages": sysconfig.get_path("platlib"),
        "standard": sysconfig.get_path("stdlib"),
    }


def _warm(unit: Unit, phase: Callable[[Callable[[], object], int], object]) -> None:
    """Specialise bytecode, fill caches, and stop the garbage collector; UnfitError for threads.

    A collection in a double phase but not in a single one would count as work of the unit.
    """
    phase(unit.call, unit.warmup)
    if threading.active_count() > 1 and not unit.threads:
        raise UnfitError("it starts threads, and they never wait for each other in the same way")
    gc.collect()
    gc.freeze()
    gc.disable()


def _phases(unit: Unit, plan: dict[str, Any], parent: int) -> dict[str, Any]:
    """Do the marked phases; garbage is collected between them, and never counted."""
    ends = plan["ends"]
    if ends is None:
        _warm(unit, _phase)
        n = unit.n
    else:
        n = _warm_in_time(unit, ends)
    # An empty phase comes first: it proves that the marks work. Then n, 2n, n, 2n, …
    for times in (0, *(n, 2 * n) * ROUNDS):
        if _phase(unit.call, times) != parent:
            raise SystemExit("the counting process has ended")
        gc.collect()  # it empties pools, which the first call of every phase fills again
    # Read last, because reading would change what the phases allocate.
    seeded = LIBRARY in Path("/proc/self/maps").read_text("utf-8", "replace")
    return {"process": os.getpid(), "n": n, "seeded": seeded}


def _warm_in_time(unit: Unit, ends: float) -> int:
    """Warm up; return the calls of a single phase so that all rounds end before `ends`.

    The second counted call sets the time, as the first may have filled caches; for slow units, the
    first. One for which there is surely no time is not begun.
    """
    (uncounted, counted), n = plan_warmup(unit), unit.n
    if unit.seconds >= SLOW:
        least = unit.seconds + (LONGER - 1) * unit.work
        plan_calls(unit, least, ends - time.monotonic(), more=1)
    for _ in range(uncounted):
        unit.call()

    def phase(call: Callable[[], object], times: int) -> None:
        nonlocal n
        os.getpgrp()
        for more in reversed(range(times)):
            began = time.monotonic()
            call()
            now = time.monotonic()
            if more == max(0, times - 2):
                n = plan_calls(unit, now - began, ends - now, more)
        os.getppid()

    _warm(replace(unit, warmup=counted), phase)
    return n


def plan_warmup(unit: Unit) -> tuple[int, int]:
    """Plan calls that warm up: before the first mark, and after it, where each takes far longer."""
    if unit.seconds >= SLOW:
        return min(unit.warmup, WARM), 1
    counted = min(unit.warmup, 2) if unit.seconds else unit.warmup
    return unit.warmup - counted, counted


def plan_calls(unit: Unit, each: float, left: float, more: int) -> int:
    """Calls of a single phase, of `each` s, after `more` calls and within `left` s.

    As many as the unit asks for; else what takes half of the time; at least the fewest. Raises
    SlowError if there is no time for these.
    """

    def takes(n: int) -> float:
        return each * (more + 3 * n * ROUNDS)

    if takes(unit.n) <= left:
        return unit.n
    half = int((left / 2 / each - more) / 3 / ROUNDS)
    fewer = max(unit.least, half // unit.least * unit.least)
    if takes(fewer) > left:
        raise SlowError(
            f"one takes {each:.2g} s under Valgrind, so {3 * fewer * ROUNDS} of them exceed the "
            f"{max(left, 0):.0f} s that are left for counting; a larger budget counts them"
        )
    return fewer


def _phase(call: Callable[[], object], times: int) -> int:
    """Return the parent process."""
    os.getpgrp()
    for _ in itertools.repeat(None, times):
        call()
    return os.getppid()


def _repeat(call: Callable[[], object], times: int) -> None:
    for _ in itertools.repeat(None, times):
        call()


def write(report: Path, content: dict[str, Any]) -> None:
    """Write a report, whatever the application has done to functions and descriptors."""
    descriptor = _OPEN(str(report), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    data = memoryview(_ENCODE(content).encode())
    while data:
        data = data[_WRITE(descriptor, data) :]
    _CLOSE(descriptor)
