"""The program that runs inside the counted process: a unit of work between marks.

A mark is a call into libc that does nothing, and that nothing else makes: from `getpgrp` on
Callgrind counts from zero, and `getppid` writes its counters to a dump (see `preloaded.c`).
"""

import gc
import itertools
import json
import os
import signal
import sys
import sysconfig
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any, Final, NoReturn

from duetbench.app.programs import PLAN, REPORT, ROUNDS

# As they are before an application is imported, which may replace them.
_ENCODE, _OPEN, _WRITE, _CLOSE, _EXIT = json.dumps, os.open, os.write, os.close, os._exit

_PR_SET_PDEATHSIG: Final = 1  # prctl(2)

private: dict[str, str] = {}
"""Texts that no report may tell, with their names: what a login in this process gave."""

Report = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Unit:
    """A piece of work to count, n times in each round.

    Attributes:
        warmup: Calls that specialise bytecode and fill caches first.
        turns: Calls in a row that differ from each other.
    """

    call: Callable[[], object]
    n: int = 30
    warmup: int = 20
    turns: int = 1


class UnfitError(Exception):
    """A unit cannot be counted: the reason, and its kind as of `CountError`."""

    def __init__(self, reason: str, kind: str = "") -> None:
        self.kind = kind
        super().__init__(reason)


def run(work: Callable[[Mapping[str, Any]], Report], report: str = REPORT) -> NoReturn:
    """Do the planned work, write its report, and end. This is a payload's main program.

    `work` gets the plan, a JSON file that `$DUETBENCH_PLAN` names, and returns the report, which is
    written to the same folder. An exception is the reason why there is none.
    """
    plan = Path(os.environ[PLAN]).absolute()
    try:
        content = work(json.loads(plan.read_text("utf-8")))
    except BaseException as error:  # the application's code may raise anything
        text = str(error) if isinstance(error, UnfitError) else f"{type(error).__name__}: {error}"
        for value, name in private.items():
            text = text.replace(value, name)
        content = {"reason": text, "kind": getattr(error, "kind", "")}
        with suppress(Exception):  # stderr may be closed
            traceback.print_exc()
    code = 1
    try:
        write(plan.with_name(report), content)
        code = 0
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        _EXIT(code)


def die_with_parent() -> None:
    """Make the kernel end this process with its parent. A fork of it has to ask for that again.

    The kernel means the thread that started it, which in a session lives for an instant: only
    what Valgrind slows down surely asks later.
    """
    with suppress(ImportError, OSError, AttributeError):  # an interpreter may lack ctypes
        import ctypes  # noqa: PLC0415 - as above

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))


def measure(prepare: Callable[[], Unit], plan: Mapping[str, Any]) -> Report:
    """Count the instructions of a unit of work in rounds, or once function by function.

    Marks leave out all that comes before a round, and collecting garbage.
    """
    die_with_parent()
    unit, functions = prepare(), list[list[Any]]()
    _repeat(unit.call, unit.warmup)
    if plan["functions"]:
        functions = entries(unit)
        # CPython lists its stubs, which it has from 3.12 on, in /tmp/perf-<process>.map.
        sys.activate_stack_trampoline("perf")  # type: ignore[attr-defined]
        _repeat(unit.call, unit.warmup)
    gc.collect()
    gc.freeze()
    gc.disable()
    _repeat(unit.call, unit.turns)  # it fills pools that a collection empties
    for _ in range(1 if plan["functions"] else ROUNDS):
        os.getpgrp()
        _repeat(unit.call, unit.n)
        os.getppid()
    return {
        "process": os.getpid(),
        "n": unit.n,
        "functions": functions,
        "packages": sysconfig.get_path("platlib"),
        "standard": sysconfig.get_path("stdlib"),
    }


def _repeat(call: Callable[[], object], times: int) -> None:
    for _ in itertools.repeat(None, times):
        call()


def entries(unit: Unit) -> list[list[Any]]:
    """Count entries function by function, by the interpreter's own events; exact.

    Each row is name, file, line and entries (starts and resumptions). It needs CPython 3.12.
    """
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined]
    events, tool = monitoring.events, take_tool()
    codes: dict[int, CodeType] = {}  # by id: hashing a code object goes through all its constants
    times: Counter[int] = Counter()

    def enter(code: CodeType, *_: object) -> None:
        codes[id(code)] = code
        times[id(code)] += 1

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
    return [
        [code.co_qualname, code.co_filename, code.co_firstlineno, times[key]]
        for key, code in codes.items()
        if code.co_filename != __file__
    ]


def take_tool() -> int:
    """Take the tool of `sys.monitoring` that applications take least; UnfitError: there is none."""
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined]
    for tool in (5, 4, 3, 2):
        if monitoring.get_tool(tool) is None:
            monitoring.use_tool_id(tool, "duetbench")
            return tool
    raise UnfitError("the application takes all tools of sys.monitoring, which duetbench needs")


def write(report: Path, content: dict[str, Any]) -> None:
    """Write a report, whatever the application has done to functions and descriptors."""
    descriptor = _OPEN(str(report), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    data = memoryview(_ENCODE(content).encode())
    while data:
        data = data[_WRITE(descriptor, data) :]
    _CLOSE(descriptor)
