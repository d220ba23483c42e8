"""What runs inside the observed process: counts of the interpreter's own events, by function.

`sys.monitoring` tells of every entry, bytecode and call, so these counts are exact, need no
Valgrind and take a second. They say nothing about what compiled code costs.
"""

import hashlib
import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    CodeType,
    FunctionType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    WrapperDescriptorType,
)
from typing import Any, Final

_NAME: Final = "duetbench"
_OF_PLACES: Final = 0x10 | 0x8000000
"""Flags that say where a function is written: in another one, or in a class."""

_NAMED: Final = (
    BuiltinFunctionType, ClassMethodDescriptorType, MethodDescriptorType, MethodWrapperType,
    WrapperDescriptorType, type,
)  # fmt: skip


def observe(call: Callable[[], object], times: int) -> list[list[Any]]:
    """Count over so many calls: name, file, line, entries, bytecodes, calls of each C function.

    The last of each function is equal where its code is, under whatever name and in any place.

    An entry is a start or a resumption. Needs CPython 3.12 or later.
    """
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined] # the harness may run on 3.11
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
            named = function if isinstance(function, _NAMED) else type(function)
            calls[id(code)][named.__qualname__] += 1

    callbacks: dict[int, Callable[..., None]] = {
        events.PY_START: enter, events.PY_RESUME: enter, events.PY_THROW: enter,
        events.INSTRUCTION: execute, events.CALL: leave_python,
    }  # fmt: skip
    monitoring.use_tool_id(tool, _NAME)
    try:
        for event, callback in callbacks.items():
            monitoring.register_callback(tool, event, callback)
        monitoring.set_events(tool, sum(callbacks))
        for _ in range(times):
            call()
    finally:
        monitoring.set_events(tool, events.NO_EVENTS)
        monitoring.free_tool_id(tool)
    return [
        [*_place(code), entries[key], bytecodes[key], calls[key], _digest(code)]
        for key, code in codes.items()
        if code.co_filename != __file__
    ]


def _digest(code: CodeType) -> str:
    constants = [_digest(one) if isinstance(one, CodeType) else one for one in code.co_consts]
    flags = code.co_flags & ~_OF_PLACES
    body = code.co_code, code.co_names, code.co_varnames, code.co_freevars, flags, constants
    return hashlib.sha256(repr(body).encode()).hexdigest()[:16]


def _place(code: CodeType) -> tuple[str, str, int]:
    return code.co_qualname, code.co_filename, code.co_firstlineno
