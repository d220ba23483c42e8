"""What runs inside the counted process: pieces of work between two marks.

A mark is a call into libc that does nothing, and that nothing else makes: before `getpgrp`
Callgrind sets its counters to zero, before `getppid` it writes them down.

Everything is imported once, in a parent that is forked for each target: importing under Valgrind
takes 20 s, and no target sees what another has left behind (specialised bytecode, filled caches,
most of the heap), so that adding a target changes no other's count by more than 0.2 %.
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
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import CodeType, FunctionType, MethodType
from typing import Any, Final, NoReturn

ZERO: Final = "getpgrp"
DUMP: Final = "getppid"
PLAN: Final = "DUETBENCH_ICOUNT_PLAN"
LIBRARY: Final = "fixed_random.so"

_PR_SET_PDEATHSIG: Final = 1  # prctl(2)
_TOOL: Final = "duetbench"
_OF_PLACES: Final = 0x10 | 0x8000000
"""Flags that say where a function is written: in another one, or in a class."""

SLOW: Final = 0.05
"""Seconds of a call before the first mark from which on it is warmed up there, by `WARM` calls at
most: counted ones take five to ten times as long."""

WARM: Final = 3

LONGER: Final = 5
"""So many times the core time of a call before the first mark one takes at least after it."""

SEVERAL: Final = 6
"""Fewest calls of a single phase beside which what a phase itself costs does not scatter much."""

BRIEF: Final = 4.0
"""Seconds of counted calls that are enough where there is no time for all phases."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A piece of work to count: n times in a single phase, 2·n times in a double one.

    Attributes:
        warmup: So many calls before specialise bytecode and fill caches.
        threads: It may have threads, for which nobody can say beforehand how well counts repeat.
        once: It can be called once in a process, such as an import: a single phase has none, and
            there is one round.
        least: A phase has a multiple of so many calls, which differ from each other.
        seconds: Wall time of a call that was made before, if somebody looked.
        work: Its core time.
    """

    call: Callable[[], object]
    n: int = 30
    warmup: int = 20
    threads: bool = False
    once: bool = False
    least: int = 1
    seconds: float = 0.0
    work: float = 0.0


class SlowError(Exception):
    """Counting a target would take longer than there is time; the message says so."""


class UnfitError(Exception):
    """What a target does has no exact count, as a matter of principle; the message says why."""


def run(prepare: Callable[[str], Unit], preload: Callable[[], object] | None = None) -> None:
    """Do the work of all planned targets, one process each; the main program of a payload.

    The plan is a JSON file named by `$DUETBENCH_ICOUNT_PLAN`: targets, rounds, and the folder for
    the reports, one JSON file for each target. With `observe` n units are observed instead, without
    Valgrind; with `profile` instructions are counted function by function. `preload` imports what
    several targets need; `prepare` makes the unit of a target in its own process, and what it
    raises is the reason why it has no figure.
    """
    plan = json.loads(Path(os.environ[PLAN]).read_text("utf-8"))
    if preload is not None:
        preload()
    parent, tie = os.getpid(), _tie()
    for index, target in enumerate(plan["targets"]):
        report = Path(plan["reports"]) / f"{index}.json"
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child == 0:
            tie()
            # As `os.getppid`, which is a mark.
            fields = Path("/proc/self/stat").read_text("utf-8", "replace").rpartition(")")[2]
            if int(fields.split()[1]) != parent:  # it ended before the tie
                os._exit(1)
            _work(prepare, target, plan, parent, report)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if not report.exists():
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            _write(report, {"reason": f"its process ended with {how}", "unfit": False})


def _tie() -> Callable[[], object]:
    """Give what has the kernel end this process when its parent ends; no fork inherits that."""
    try:
        import ctypes  # noqa: PLC0415 - an interpreter may have been built without it

        prctl = ctypes.CDLL(None).prctl
    except (ImportError, OSError, AttributeError):
        return lambda: None
    return lambda: prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))


def _work(
    prepare: Callable[[str], Unit], target: str, plan: dict[str, Any], parent: int, report: Path
) -> NoReturn:
    code, here = 1, os.open(".", os.O_RDONLY)  # the target's code may go elsewhere
    try:
        unit = prepare(target)
        if "observe" in plan:
            found = _observed(unit)
        elif "profile" in plan:
            found = _profiled(unit)
        else:
            found = _phases(unit, plan["rounds"], parent, plan.get("ends"))
        os.fchdir(here)
        _write(report, found)
        code = 0
    except BaseException as error:  # the target's own code may raise anything
        traceback.print_exc()
        unfit = isinstance(error, UnfitError)
        reason = (
            str(error)
            if isinstance(error, UnfitError | SlowError)
            else f"{type(error).__name__}: {error}"
        )
        os.fchdir(here)
        _write(report, {"reason": reason, "unfit": unfit})
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _observed(unit: Unit) -> dict[str, Any]:
    """Count function by function, by the interpreter's own events; exact.

    Each row is name, file, line, entries (starts and resumptions), bytecodes, calls of each C
    function, and a digest that is equal where the code is, under whatever name and in any place.
    """
    if sys.version_info < (3, 12):
        raise UnfitError("entries are counted from CPython 3.12 on")
    _warm(unit, _repeat)
    monitoring: Any = sys.monitoring
    events, tool = monitoring.events, monitoring.PROFILER_ID
    codes: dict[int, CodeType] = {}  # hashing a code object itself goes through all its constants
    entries: Counter[int] = Counter()
    bytecodes: defaultdict[int, int] = defaultdict(int)
    calls: defaultdict[int, Counter[str]] = defaultdict(Counter)

    def enter(code: CodeType, *_: object) -> None:
        codes[id(code)] = code
        entries[id(code)] += 1

    def execute(code: CodeType, _offset: int) -> None:
        bytecodes[id(code)] += 1

    def leave_python(code: CodeType, _offset: int, called: object, _argument: object) -> None:
        function = called.__func__ if isinstance(called, MethodType) else called
        if not isinstance(function, FunctionType):
            # Of an instance the class tells: asked itself, it may do anything.
            itself = isinstance(function, type) or "__qualname__" in vars(type(function))
            named = function if itself else type(function)
            calls[id(code)][named.__qualname__] += 1

    callbacks: dict[int, Callable[..., None]] = {
        events.PY_START: enter,
        events.PY_RESUME: enter,
        events.PY_THROW: enter,
        events.INSTRUCTION: execute,
        events.CALL: leave_python,
    }
    monitoring.use_tool_id(tool, _TOOL)
    try:
        for event, callback in callbacks.items():
            monitoring.register_callback(tool, event, callback)
        monitoring.set_events(tool, sum(callbacks))
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
            bytecodes[key],
            calls[key],
            _digest(code),
        ]
        for key, code in codes.items()
        if code.co_filename != __file__
    ]
    return {"n": unit.n, "functions": functions}


def _digest(code: CodeType) -> str:
    import hashlib  # noqa: PLC0415 - under Valgrind each import takes long, and nobody asks

    constants = [_digest(one) if isinstance(one, CodeType) else one for one in code.co_consts]
    flags = code.co_flags & ~_OF_PLACES
    body = code.co_code, code.co_names, code.co_varnames, code.co_freevars, flags, constants
    return hashlib.sha256(repr(body).encode()).hexdigest()[:16]


def _profiled(unit: Unit) -> dict[str, Any]:
    """Do the work once more, with a stub of its own below each Python function.

    CPython names the stubs in /tmp/perf-<process>.map.
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
    """Specialise bytecode, fill caches, and collect no garbage from now on; may raise UnfitError.

    A collection in a double phase and none in a single one would be counted as work of the unit.
    """
    phase(unit.call, unit.warmup)
    if threading.active_count() > 1 and not unit.threads:
        raise UnfitError("it starts threads, and how these wait for each other is never the same")
    gc.collect()
    gc.freeze()
    gc.disable()


def _phases(unit: Unit, rounds: int, parent: int, ends: float | None) -> dict[str, Any]:
    if ends is None or unit.once:
        _warm(unit, _phase)
        # A phase without a call and one with one are a round.
        single, double, rounds = (0, 1, 1) if unit.once else (unit.n, 2 * unit.n, rounds)
    else:
        single, double = _warm_in_time(unit, rounds, ends)
    # Nothing first: after so much uncounted work it proves the marks. Then n, 2n, n, 2n, …
    for times in (0, *(single, double) * rounds):
        if _phase(unit.call, times) != parent:
            raise SystemExit("the counting process has ended")
        if single or unit.once:  # it empties pools that single calls would have to fill again
            gc.collect()
    # Only now: what is read must not move what the phases allocate.
    seeded = LIBRARY in Path("/proc/self/maps").read_text("utf-8", "replace")
    return {"process": os.getpid(), "n": double - single, "seeded": seeded, "rounds": rounds}


def _warm_in_time(unit: Unit, rounds: int, ends: float) -> tuple[int, int]:
    """Warm up, and give the calls of a single and a double phase that end before `ends`.

    The second counted call tells, as the first may have filled caches; of slow ones the first. What
    will take more than half of the time is not begun: duets tell more in it.
    """
    warmup, sizes = unit.warmup, (0, 0)
    if unit.seconds >= SLOW:
        least = unit.seconds + (LONGER - 1) * unit.work
        planned(unit, rounds, least, (ends - time.monotonic()) / 2, more=1)
        for _ in range(min(warmup, WARM)):
            unit.call()
        warmup = 1

    def phase(call: Callable[[], object], times: int) -> None:
        nonlocal sizes
        os.getpgrp()
        for more in reversed(range(times)):
            began = time.monotonic()
            call()
            now = time.monotonic()
            if more == max(0, times - 2):
                sizes = planned(unit, rounds, now - began, ends - now, more)
                if not sizes[0]:
                    break
        os.getppid()

    _warm(replace(unit, warmup=warmup), phase)
    return sizes


def planned(unit: Unit, rounds: int, each: float, left: float, more: int) -> tuple[int, int]:
    """Calls of a single and a double phase, of `each` s, after `more` calls and within `left` s.

    If n and 2n take too long, fewer; of slow ones none and some, as beside these a phase itself
    costs nothing. SlowError: these take too long, too.
    """
    slow = unit.seconds >= SLOW
    if each * (more + 3 * unit.n * rounds) <= (left / 2 if slow else left):
        return unit.n, 2 * unit.n
    fewer = int((left / 2 / each - more) / 3 / rounds) // unit.least * unit.least
    if fewer >= SEVERAL and not slow:
        return fewer, 2 * fewer
    fitting = int(min(left, BRIEF) / (each * rounds)) // unit.least * unit.least
    times = max(unit.least, min(unit.n, fitting))
    if each * rounds * times > left:
        raise SlowError(
            f"one takes {each:.2g} s under Valgrind, {rounds * times} of them longer than the "
            f"{max(left, 0):.0f} s that counting may take: a larger budget counts them"
        )
    return 0, times


def _phase(call: Callable[[], object], times: int) -> int:
    os.getpgrp()
    for _ in itertools.repeat(None, times):
        call()
    return os.getppid()


def _repeat(call: Callable[[], object], times: int) -> None:
    for _ in itertools.repeat(None, times):
        call()


def _write(report: Path, content: dict[str, Any]) -> None:
    report.write_text(json.dumps(content), "utf-8")
