"""Core time that each Python function takes itself, by chain of calls; runs inside the process.

Compiled code counts for the function that calls it, and the collector of garbage stands beside all
functions, whoever allocates when its turn comes. The clock stands still while an event is handled,
and what it still adds is taken off: it is what entering a function takes that does nothing.
Standard library only, CPython 3.10 on.
"""

import gc
import sys
import threading
import time
from collections.abc import Callable
from types import CodeType
from typing import Any, Final

COLLECTOR: Final = "garbage collection"

_LONG: Final = 100_000
"""Nanoseconds from which on the core's clock is asked too, which takes long: the other one goes on
while the process waits."""

_BATCHES: Final = 5
_EMPTY: Final = 200
"""Calls of a function that does nothing, in each batch of them."""


class _Node:
    """A function in one chain of calls; `own` in ns."""

    __slots__ = ("above", "below", "code", "entries", "own")

    def __init__(self, code: CodeType | None, above: "_Node | None") -> None:
        self.code, self.above = code, above
        self.below: dict[int, _Node] = {}  # hashing a code object goes through all its constants
        self.entries = self.own = 0


Row = tuple[int, CodeType | None, int, int]
"""A chain: the place of its caller's row, the function, entries, and own ns."""


def measure(call: Callable[[], object], tool: Callable[[], int]) -> list[Row]:  # noqa: PLR0915 - methods are slower
    """Call it once in this thread, and give every chain that it is in.

    `tool` takes one of `sys.monitoring`, from 3.12 on. Callers come first, beginning with the root,
    whose caller is -1. The other row without a function is the collector's.
    """
    clock, core, thread = time.perf_counter_ns, time.thread_time_ns, threading.get_ident
    root, here = _Node(None, None), thread()
    current, collector = root, _Node(None, root)
    root.below[0] = collector
    last = wall = clock()
    cpu = core()  # both clocks as they were last asked together

    def charge() -> None:
        """Give the function that runs the time since the last event, without waiting."""
        nonlocal wall, cpu
        now = clock()
        own = now - last
        if own > _LONG:
            core_now = core()
            own -= min(own, max(0, now - wall - core_now + cpu))
            wall, cpu = now, core_now
        current.own += own

    def go_on() -> None:
        nonlocal last, wall, cpu
        now = clock()
        if now - last > _LONG:  # the handling may have waited as well
            wall, cpu = now, core()
        last = now

    def collected(_phase: str, _facts: object) -> None:
        """Mark where a collection begins, and where it ends."""

    mark = collected.__code__

    def enter(code: CodeType, *_: object) -> None:
        nonlocal current, collector
        if thread() != here:
            return
        charge()
        if code is mark:
            current, collector = collector, current  # and back, at its end
        else:
            inner = current.below.get(id(code))
            if inner is None:
                inner = current.below[id(code)] = _Node(code, current)
            inner.entries += 1
            current = inner
        go_on()

    def leave(code: CodeType, *_: object) -> None:
        nonlocal current
        if thread() != here:
            return
        charge()
        left: _Node | None = current
        while left is not None and left.code is not code:
            left = left.above  # stacks were switched
        if left is not None and left.above is not None:
            current = left.above
        go_on()

    def handle(frame: Any, event: str, _argument: object) -> None:
        if event == "call":
            enter(frame.f_code)
        elif event == "return":
            leave(frame.f_code)
        else:
            charge()
            go_on()

    def nothing() -> None:
        pass

    def calls() -> tuple[float, float, float]:
        """What a call that does nothing takes: in all, for itself, and for its caller; ns."""
        nothing()
        caller = current
        inner = caller.below.get(id(nothing.__code__), caller)
        began, own, callers = clock(), inner.own, caller.own
        for _ in range(_EMPTY):
            nothing()
        took = clock() - began, inner.own - own, caller.own - callers
        return took[0] / _EMPTY, took[1] / _EMPTY, took[2] / _EMPTY

    plain = min(calls() for _ in range(_BATCHES))[0]
    stop = _listen(tool, enter, leave, handle)
    gc.callbacks.append(collected)
    try:
        batches = [calls() for _ in range(_BATCHES)]
        root.below, root.own = {0: collector}, 0
        current, last, wall, cpu = root, clock(), clock(), core()
        call()
        charge()
        batches += [calls() for _ in range(_BATCHES)]  # the machine may have become slower
    finally:
        stop()
        gc.callbacks.remove(collected)
    # Low ones: what is taken off too much is lost.
    _, inner, outer = (sorted(column)[_BATCHES // 2] for column in zip(*batches, strict=True))
    return _rows(root, inner, max(0.0, outer - plain))


def _rows(root: _Node, inner: float, outer: float) -> list[Row]:
    """List the nodes, without what handling events cost each of them for an entry, and its caller.

    This module's own functions are left out.
    """
    rows: list[Row] = []
    waiting = [(-1, root)]
    while waiting:
        caller, node = waiting.pop()
        calls = sum(below.entries for below in node.below.values())
        own = max(0, round(node.own - inner * node.entries - outer * calls))
        waiting += [
            (len(rows), below)
            for below in node.below.values()
            if below.code is None or below.code.co_filename != __file__
        ]
        rows.append((caller, node.code, node.entries, own))
    return rows


def _listen(
    take_tool: Callable[[], int],
    enter: Callable[..., None],
    leave: Callable[..., None],
    handle: Callable[..., None],
) -> Callable[[], object]:
    """Have the interpreter report every entry and exit, or before 3.12 also calls of C functions.

    Gives what ends it.
    """
    if sys.version_info < (3, 12):
        sys.setprofile(handle)
        return lambda: sys.setprofile(None)
    monitoring: Any = sys.monitoring
    events, tool = monitoring.events, take_tool()
    entries = events.PY_START, events.PY_RESUME, events.PY_THROW
    exits = events.PY_RETURN, events.PY_YIELD, events.PY_UNWIND
    for callback, several in ((enter, entries), (leave, exits)):
        for event in several:
            monitoring.register_callback(tool, event, callback)
    monitoring.set_events(tool, sum((*entries, *exits)))

    def stop() -> None:
        monitoring.set_events(tool, events.NO_EVENTS)
        monitoring.free_tool_id(tool)

    return stop
