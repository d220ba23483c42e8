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
import math
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

from duetbench.measure.instructions import own_time

ZERO: Final = "getpgrp"
DUMP: Final = "getppid"
BEGIN: Final = "duetbench: the unit begins"
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

LONGER: Final = 5
"""A call after the first mark takes at least this many times the core time of one before."""

SEVERAL: Final = 6
"""Fewest calls in a single phase for which the cost of the phase itself scatters little."""

BRIEF: Final = 4.0
"""Seconds of counted calls that suffice if there is no time for all phases."""

_NEVER: Final = 2**31 - 1  # as a threshold of the garbage collector
_LIVE_CALLS: Final = 5  # calls in which living objects are counted


@dataclass(frozen=True, slots=True)
class Unit:
    """A piece of work to count: n times in a single phase, 2·n times in a double one.

    Attributes:
        warmup: Calls that specialise bytecode and fill caches first.
        threads: It may have threads; how well its counts repeat is then unknown beforehand.
        once: It can be called only once per process, such as an import: a single phase has no call,
            and there is one round.
        least: The calls of a phase are a multiple of this, as they differ from each other.
        seconds: Wall time of an earlier call, if it was measured.
        work: Core time of that call.
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
    """Counting a target would take longer than there is time; the message gives the times."""


class UnfitError(Exception):
    """A target that has no exact count in principle; the message gives the reason."""


def run(prepare: Callable[[str], Unit], preload: Callable[[], object] | None = None) -> None:
    """Do the work of all planned targets, one process each. This is a payload's main program.

    The plan is a JSON file named by `$DUETBENCH_ICOUNT_PLAN`: targets, rounds, and the folder for
    the reports, one JSON file per target. With `observe` the interpreter observes n units, without
    Valgrind; with `profile` Callgrind counts function by function; with `time` the unit is timed
    function by function; with `report` it returns the report; with `plainly` it only runs.
    `preload` imports what several targets need. `prepare` makes the unit of a target in its own
    process; an exception from it is the reason why the target has no figure.
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
        elif "time" in plan:
            content = _timed(unit)
        elif "report" in plan:
            content = unit.call()
        elif "plainly" in plan:
            sys.stderr.write(f"\n{BEGIN}\n")  # imports from here on are the unit's
            unit.call()
            content = {}
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
    return {"process": os.getpid(), "n": unit.n, **_places()}


def _places() -> dict[str, str]:
    return {
        "packages": sysconfig.get_path("platlib"),
        "standard": sysconfig.get_path("stdlib"),
    }


def _timed(unit: Unit) -> dict[str, Any]:
    """Time function by function: rows of name, file, line, entries and digest, and chains of them.

    A chain is the place of its caller's, the place of its function's row, and own ns. Garbage is
    collected as ever.
    """
    places: dict[int, int] = {}
    functions: list[list[Any]] = []
    chains = []
    for caller, code, entries, own in own_time.measure(unit.call, take_tool):
        place = places.setdefault(id(code), len(functions))
        if place == len(functions):
            functions.append(_described(code))
        functions[place][3] += entries
        chains.append((caller, place, own))
    return {"functions": functions, "chains": chains, **_places()}


def _described(code: CodeType | None) -> list[Any]:
    if code is None:
        return [own_time.COLLECTOR, "<gc>", 1, 0, ""]
    name = getattr(code, "co_qualname", code.co_name)  # from 3.11 on
    return [name, code.co_filename, code.co_firstlineno, 0, _digest(code)]


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
    """Do the marked phases; with `collector`, the application's own collector works in the last.

    Slow units are without: a phase of few would be dear by what its end gives back, and the next
    one takes.
    """
    rounds, ends, asked = plan["rounds"], plan["ends"], plan["collector"] and not unit.once
    if plan["calls"]:
        unit = replace(unit, n=min(unit.n, math.ceil(plan["calls"] / unit.least) * unit.least))
    enabled, thresholds, frozen = gc.isenabled(), gc.get_threshold(), gc.get_freeze_count()
    if ends is None or unit.once:
        _warm(unit, _phase)
        # One round: a phase without a call, and one with a call.
        single, double, rounds = (0, 1, 1) if unit.once else (unit.n, 2 * unit.n, rounds)
    else:
        single, double, rounds = _warm_in_time(unit, rounds, ends)
    objects = gc.get_freeze_count() - frozen
    began = time.monotonic()
    # An empty phase comes first: it proves that the marks work. Then n, 2n, n, 2n, …
    for times in (0, *(single, double) * rounds):
        if _phase(unit.call, times)[0] != parent:
            raise SystemExit("the counting process has ended")
        if single or unit.once:  # a collection empties pools, which single calls would fill again
            gc.collect()
    # Read last, because reading would change what the phases allocate.
    seeded = LIBRARY in Path("/proc/self/maps").read_text("utf-8", "replace")
    n, asked = double - single, asked and bool(single)
    full = 0.0 if asked and not enabled else None
    if collects := asked and enabled and _has_generations():
        each = (time.monotonic() - began) / (rounds * (single + double))
        collects, full = _collected(unit, single, thresholds, objects, each, ends or math.inf)
    return {
        "process": os.getpid(),
        "n": n,
        "seeded": seeded,
        "rounds": rounds,
        "collected": collects,
        "full": full,
        "objects": objects,
        "brief": not single and not unit.once,
    }


def _collected(
    unit: Unit,
    single: int,
    thresholds: tuple[int, int, int],
    objects: int,
    each: float,
    ends: float,
) -> tuple[bool, float | None]:
    """Do a round in which young garbage is collected, and a phase that collects all objects.

    Returns whether it did, which takes the time of some units of `each` s, and the full collections
    of a unit. No collection in the round is a full one: a phase would contain one or none. A phase
    ends with a collection of what it left behind.
    """
    gc.set_threshold(*thresholds[:2], _NEVER)
    left = (ends - time.monotonic()) / each
    if left < 2 * 3 * single:
        return False, None
    young: list[float] = []
    for times in (single, 2 * single):
        before = gc.get_stats()[0]["collections"]
        gc.enable()
        _, allocated = _phase(unit.call, times, collects=True)
        gc.disable()
        collections = gc.get_stats()[0]["collections"] - before
        young.append(collections + allocated / (thresholds[0] + 1))
        gc.collect()
    left = (ends - time.monotonic()) / each
    full = _full_collections(unit, (young[1] - young[0]) / single, thresholds, objects, left)
    gc.unfreeze()
    _phase(gc.collect, 1)
    return True, full


def _has_generations() -> bool:
    """Whether this interpreter collects by generations, and now and then all of them.

    Without the GIL it looks at the memory of the process instead. CPython 3.14.0 to 3.14.4 collect
    the old objects by and by.
    """
    incremental = (3, 14, 0) <= sys.version_info[:3] < (3, 14, 5)
    return not incremental and not sysconfig.get_config_var("Py_GIL_DISABLED")


def _full_collections(
    unit: Unit, young: float, thresholds: tuple[int, int, int], objects: int, left: float
) -> float | None:
    """Compute the full collections of a unit under a steady load; None: no time to find out.

    One is due after some young ones, `young` of which come to a unit. CPython puts it off until
    objects that survived two collections are a quarter of all. Those are the ones that live while a
    unit is under way, for each collection of the middle generation. Time is `left` for some units.
    """
    calls = max(unit.least, 1 if unit.seconds >= SLOW else min(_LIVE_CALLS, unit.n))
    if young <= 0 or not thresholds[0]:
        return 0.0
    if 2 * calls > left:
        return None
    sizes = []

    def note(phase: str, event: dict[str, int]) -> None:
        if phase == "stop" and event["generation"] == 0:
            sizes.append(len(gc.get_objects(1)))

    gc.callbacks.append(note)
    gc.set_threshold(max(10, int(young * thresholds[0] / _LIVE_CALLS)), _NEVER, _NEVER)
    for _ in range(calls):
        gc.collect(1)  # what earlier ones left
        gc.enable()
        unit.call()
        gc.disable()
    gc.callbacks.remove(note)
    due = young / (thresholds[1] + 1) / (thresholds[2] + 1)
    survivors = (thresholds[2] + 1) * sum(sizes) / max(1, len(sizes))
    return due * min(1.0, 4 * survivors / max(1, objects))


def _warm_in_time(unit: Unit, rounds: int, ends: float) -> tuple[int, int, int]:
    """Warm up; return the calls of a single and a double phase, and rounds, that end before `ends`.

    The second counted call sets the time, as the first may have filled caches; for slow units, the
    first. A unit that would take more than half of the time is not begun: duets use it better.
    """
    (uncounted, counted), sizes, each = plan_warmup(unit), (0, 0), 0.0
    if unit.seconds >= SLOW:
        least = unit.seconds + (LONGER - 1) * unit.work
        plan_calls(unit, rounds, least, (ends - time.monotonic()) / 2, more=1)
    for _ in range(uncounted):
        unit.call()

    def phase(call: Callable[[], object], times: int) -> None:
        nonlocal sizes, each
        os.getpgrp()
        for more in reversed(range(times)):
            began = time.monotonic()
            call()
            now = time.monotonic()
            if more == max(0, times - 2):
                each = now - began
                sizes = plan_calls(unit, rounds, each, ends - now, more)
                if not sizes[0]:
                    break
        os.getppid()

    _warm(replace(unit, warmup=counted), phase)
    if not sizes[0]:
        rounds = max(1, min(rounds, int((ends - time.monotonic()) / (each * sizes[1]))))
    return *sizes, rounds


def plan_warmup(unit: Unit) -> tuple[int, int]:
    """Plan calls that warm up: before the first mark, and after it, where each takes far longer."""
    if unit.seconds >= SLOW:
        return min(unit.warmup, WARM), 1
    counted = min(unit.warmup, 2) if unit.seconds else unit.warmup
    return unit.warmup - counted, counted


def plan_calls(unit: Unit, rounds: int, each: float, left: float, more: int) -> tuple[int, int]:
    """Calls of a single and a double phase, of `each` s, after `more` calls and within `left` s.

    If n and 2n take too long, fewer. For slow units, none and some: beside them a phase itself
    costs nothing, and the rounds are as many as there is time for. Raises SlowError if there is
    none for one.
    """
    slow = unit.seconds >= SLOW
    if each * (more + 3 * unit.n * rounds) <= (left / 2 if slow else left):
        return unit.n, 2 * unit.n
    fewer = int((left / 2 / each - more) / 3 / rounds) // unit.least * unit.least
    if fewer >= SEVERAL and not slow:
        return fewer, 2 * fewer
    fitting = int(min(left, BRIEF) / (each * rounds)) // unit.least * unit.least
    times = max(unit.least, min(unit.n, fitting))
    if each * times > left:
        many = f", so {times} of them exceed" if times > 1 else ", which exceeds"
        raise SlowError(
            f"one takes {each:.2g} s under Valgrind{many} the {max(left, 0):.0f} s that are left "
            "for counting; a larger budget counts them"
        )
    return 0, times


def _phase(call: Callable[[], object], times: int, *, collects: bool = False) -> tuple[int, int]:
    """Return the parent process, and how many objects the last young collection has not seen."""
    os.getpgrp()
    for _ in itertools.repeat(None, times):
        call()
    allocated = gc.get_count()[0]
    if collects:
        gc.collect(1)  # a full one would empty pools, which the next call would fill again
    return os.getppid(), allocated


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
