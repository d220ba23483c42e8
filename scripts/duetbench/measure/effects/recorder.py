"""Records what the application's process does, as events and as function calls.

The interpreter reports most of it: audit events, `sys.monitoring` (before CPython 3.12 the profile
function), sqlite3's trace. None of that changes what the application does, except its speed.

Standard library only, for any CPython from 3.10 on.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import inspect
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import BuiltinMethodType, CodeType, FrameType, MethodDescriptorType, TracebackType
from typing import Any

from duetbench.measure.effects import libraries
from duetbench.measure.effects.libraries import plain, statement

_OURS = str(Path(__file__).resolve().parents[2]) + os.sep
_IMPORT = "<frozen importlib"
_STANDARD = str(Path(os.__file__).parent) + os.sep
_CLOCKED = tuple(
    _STANDARD + name.replace("/", os.sep)
    for name in ("asyncio/", "concurrent/", "queue.py", "selectors.py", "threading.py")
)
"""Files whose functions are called as often as the clock decides."""
_NESTED = re.compile(r"(\.<locals>)?\.?<\w+>")
_ANONYMOUS = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>", "<lambda>"}
_QUIET = (StopIteration, StopAsyncIteration, GeneratorExit)
_EPHEMERAL = 32_768  # ports from here on are another one in each launch
_COMPILED = BuiltinMethodType, MethodDescriptorType
_WRITES = os.O_WRONLY | os.O_RDWR

Event = tuple[str, str, str]
"""Kind, text, and the application's line: `authors, shop/main.py:41`, or nothing."""


class Recorder:
    """Hooks into this process for good, but records only while it is `on`.

    `folder` contains the application. `waiting` returns the tasks that may wait for what another
    thread does.
    """

    def __init__(self, folder: str) -> None:
        self.events: list[Event] = []
        self.calls: list[CodeType] = []
        self.resumed: list[CodeType] = []
        self.waiting: Callable[[], list[asyncio.Task[Any]]] = list
        self.monitored = hasattr(sys, "monitoring")
        self._folder = folder + os.sep
        self._recording = False
        self._files: dict[str, str] = {}
        self._watched: dict[int, tuple[CodeType, str, libraries.Words]] = {}
        self._compiled: dict[int, object] = {}
        # By thread, what sqlite3 reported of the statement that a call sends.
        self._sending: dict[int, list[str]] = {}
        self._sqlite: tuple[type, ...] = ()
        self._audited: dict[str, Callable[[Any], Event | None]] = {
            "open": self._open,
            "socket.connect": self._connect,
            "sqlite3.connect": lambda a: self._event("connect", f"sqlite {plain(a[0])}"),
            "subprocess.Popen": lambda a: self._event("process", self._program(a[0], a[1])),
            "os.fork": lambda _: self._event("process", "fork"),
            "os.forkpty": lambda _: self._event("process", "fork"),
            "os.system": lambda a: self._event("process", plain(a[0])),
            "os.posix_spawn": self._spawn,
            "_thread.start_new_thread": self._thread,
            "_thread.start_joinable_thread": self._thread,
            "import": lambda a: self._event("import", a[0]),
        }
        self._trace_sqlite()
        if not self.monitored:
            threading.setprofile(self._profile)  # of threads that start from now on
        gc.callbacks.append(self._collect)
        sys.addaudithook(self._audit)

    @property
    def unseen(self) -> list[str]:
        """What nothing here sees of this process."""
        loaded = [f"calls of {name}" for name in libraries.UNSEEN if name in sys.modules]
        loaded += ["transactions of psycopg2"] * ("psycopg2" in sys.modules)
        if self.monitored:
            return loaded
        rows = "that executemany of aiosqlite is one statement (from Python 3.12 on)"
        return [*loaded, "exceptions (from Python 3.12 on)", *[rows] * ("aiosqlite" in sys.modules)]

    def on(self) -> None:
        """Begin to record, also what libraries do that were imported since."""
        self._resolve()
        self._recording = True
        if not self.monitored:
            sys.setprofile(self._profile)
            return
        monitoring = _monitoring()
        events = monitoring.events
        self._tool = next(tool for tool in (4, 3, 2) if monitoring.get_tool(tool) is None)
        monitoring.use_tool_id(self._tool, "duetbench")
        callbacks = {
            events.PY_START: self._start,
            events.PY_RESUME: self._resume,
            events.RAISE: self._raise,
        }
        if self._compiled or "sqlite3" in sys.modules:
            callbacks |= {
                events.CALL: self._call,
                events.C_RETURN: self._return,
                events.C_RAISE: self._sent,
            }
        for event, callback in callbacks.items():
            monitoring.register_callback(self._tool, event, callback)
        # Those of C_RETURN and C_RAISE come with those of CALL.
        monitoring.set_events(self._tool, sum(callbacks) & ~(events.C_RETURN | events.C_RAISE))

    def off(self) -> None:
        self._recording = False
        if self.monitored:
            _monitoring().set_events(self._tool, 0)
            _monitoring().free_tool_id(self._tool)
        else:
            sys.setprofile(None)

    def take(self) -> tuple[list[Event], list[CodeType], list[CodeType]]:
        """Return what was recorded since the last time: events, calls, and functions resumed."""
        taken = self.events, self.calls, self.resumed
        self.events, self.calls, self.resumed = [], [], []
        return taken

    def _resolve(self) -> None:
        """Find the functions of libraries that are loaded by now."""
        self._watched, self._compiled = {}, {}
        for module, name, kind, words in libraries.PYTHON:
            # The code of a decorator would be that of whatever else it decorates.
            code = getattr(inspect.unwrap(_attribute(module, name)), "__code__", None)
            if isinstance(code, CodeType):
                self._watched[id(code)] = code, kind, words
        for module, name, methods in libraries.COMPILED:
            kind_of = _attribute(module, name)
            for method in methods if kind_of is not None else ():
                function = getattr(kind_of, method)
                self._compiled[id(function)] = function

    # Audit events, and those of sqlite3 and the collector.

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._recording and (handler := self._audited.get(event)):
            found = handler(arguments)
            if found is not None:
                self.events.append(found)

    def _trace_sqlite(self) -> None:
        """Let each connection of sqlite3 report its statements, from its opening on."""
        try:
            import sqlite3  # noqa: PLC0415 - an interpreter may have been built without it
        except ImportError:
            return
        self._sqlite = sqlite3.Connection, sqlite3.Cursor
        original = sqlite3.connect

        @functools.wraps(original)
        def connect(*arguments: Any, **named: Any) -> Any:
            connection = original(*arguments, **named)
            connection.set_trace_callback(self._statement)
            return connection

        sqlite3.connect = sqlite3.dbapi2.connect = connect

    def _event(self, kind: str, text: str) -> Event:
        return kind, text, self.place(sys._getframe(1))

    def _statement(self, text: str) -> None:
        if not self._recording or not (words := statement(text)):
            return
        if words[0] == "sql" and (sent := self._sending.get(threading.get_ident())) is not None:
            sent.append(text)
            if sent[1:]:
                return  # another row of many, what a trigger does, a table that is an index
        self.events.append(self._event(*words))

    def _collect(self, phase: str, info: dict[str, int]) -> None:
        if self._recording and phase == "start":
            self.events.append(self._event("collect", f"generation {info['generation']}"))

    def _open(self, arguments: tuple[Any, ...]) -> Event | None:
        path, mode, flags = arguments
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and not isinstance(path, int):
            if frame.f_code.co_filename.startswith(_IMPORT):
                return None
            frame = frame.f_back
        if isinstance(path, int):
            return None
        writes = bool(flags & _WRITES) or any(letter in (mode or "") for letter in "wax+")
        name = os.fsdecode(path).replace(self._folder, "").rpartition("site-packages/")[2]
        return self._event("write" if writes else "read", plain(name))

    def _connect(self, arguments: tuple[Any, ...]) -> Event:
        address = arguments[1]
        if not isinstance(address, tuple):
            return self._event("connect", plain(os.fsdecode(address)))
        port = "" if address[1] >= _EPHEMERAL else f":{address[1]}"
        return self._event("connect", f"{address[0]}{port}")

    @staticmethod
    def _program(executable: object, arguments: object) -> str:
        first = executable or (arguments[0] if isinstance(arguments, list | tuple) else arguments)
        return plain(os.fsdecode(first).rpartition(os.sep)[2])  # type: ignore[arg-type]

    def _spawn(self, arguments: tuple[Any, ...]) -> Event | None:
        # `subprocess.Popen` was reported already.
        if sys._getframe(2).f_code.co_filename == _STANDARD + "subprocess.py":
            return None
        return self._event("process", self._program(arguments[0], None))

    def _thread(self, arguments: tuple[Any, ...]) -> Event:
        function = arguments[0]
        name = getattr(getattr(function, "__self__", None), "name", None)
        return self._event("thread", plain(name or getattr(function, "__qualname__", "")))

    # Functions.

    def _start(self, code: CodeType, _offset: int) -> None:
        self.calls.append(code)
        if (watched := self._watched.get(id(code))) is not None:
            self._enter(sys._getframe(1), watched[1], watched[2])

    def _resume(self, code: CodeType, _offset: int) -> None:
        self.resumed.append(code)

    def _raise(self, code: CodeType, _offset: int, error: BaseException) -> None:
        if isinstance(error, _QUIET) or code.co_filename.startswith((*_CLOCKED, _OURS)):
            return
        trace = error.__traceback__
        passed = _passed(trace and trace.tb_next)
        own = bool(self.file(code.co_filename))
        if any(self.file(name) for name in passed) or (passed and not own):
            return
        words = type(error).__name__, self.place(sys._getframe(1))
        library: Event = "library exception", *words
        if passed and library in self.events:  # it was a library's until it came here
            self.events.remove(library)
        self.events.append(("exception", *words) if own else library)

    def _call(self, _code: CodeType, _offset: int, function: object, first: object) -> None:
        if self._sends(function, first):
            self._sending[threading.get_ident()] = []

    def _sent(self, _code: CodeType, _offset: int, function: object, first: object) -> None:
        if self._sends(function, first):
            self._sending.pop(threading.get_ident(), None)

    def _sends(self, function: object, first: object) -> bool:
        """Whether a function is a method of sqlite3 that sends one statement."""
        if isinstance(function, functools.partial):
            function = function.func
        if getattr(function, "__name__", "") not in libraries.SEND_ONE:
            return False
        owner = getattr(function, "__self__", first)
        return isinstance(function, _COMPILED) and isinstance(owner, self._sqlite)

    def _return(self, code: CodeType, offset: int, function: object, first: object) -> None:
        self._sent(code, offset, function, first)
        if id(function) in self._compiled and (text := getattr(first, "query", None)):
            words = statement(text)
            if words is not None:
                self.events.append((*words, self.place(sys._getframe(1))))

    def _profile(self, frame: FrameType, event: str, function: object) -> None:
        if event == "call" and self._recording:
            self._start_of(frame)
        elif event == "c_call" and self._recording:
            self._call(frame.f_code, 0, function, None)
        elif event == "c_exception" and self._recording:
            self._sent(frame.f_code, 0, function, None)
        elif event == "c_return" and self._recording:
            owner = getattr(function, "__self__", None)
            bound = getattr(type(owner), getattr(function, "__name__", ""), function)
            self._return(frame.f_code, 0, bound, owner)

    def _start_of(self, frame: FrameType) -> None:
        code = frame.f_code
        if code.co_filename.startswith(_OURS):
            return
        # A generator that goes on is called as well, from 3.11 on at a RESUME of another kind.
        last = frame.f_lasti
        starts = last < 0 or code.co_code[last + 1] & 3 == 0
        (self.calls if starts else self.resumed).append(code)
        if starts and (watched := self._watched.get(id(code))) is not None:
            self._enter(frame, watched[1], watched[2])

    def _enter(self, frame: FrameType, kind: str, words: libraries.Words) -> None:
        text: object = words(frame.f_locals)
        if text is None:
            return
        pair: tuple[str, str] | None = kind, str(text)
        if kind == "sql":
            whole = text.as_string(None) if hasattr(text, "as_string") else text
            pair = statement(whole)
        if pair is not None:
            self.events.append((*pair, self.place(frame)))

    # Places.

    def place(self, frame: FrameType | None) -> str:
        """Find the application's line that leads to a frame, or waits for its thread."""
        if found := self._own(frame):
            return found
        if "greenlet" in sys.modules:
            current = sys.modules["greenlet"].getcurrent().parent
            while current is not None:
                if found := self._own(current.gr_frame):
                    return found
                current = current.parent
        for task in self.waiting():
            own = [found for frame in _awaited(task.get_coro()) if (found := self._line(frame))]
            if own:
                return own[-1]
        return ""

    def _own(self, frame: FrameType | None) -> str:
        while frame is not None:
            if found := self._line(frame):
                return found
            frame = frame.f_back
        return ""

    def _line(self, frame: FrameType) -> str:
        file = self.file(frame.f_code.co_filename)
        if file and not file.endswith(".py"):
            return file  # a template, compiled to other lines
        return f"{_name(frame)}, {file}:{frame.f_lineno}" if file else ""

    def file(self, name: str) -> str:
        """Return a file of the application by its path from the folder; empty for any other."""
        if (known := self._files.get(name)) is None:
            own = name.startswith(self._folder) and not name.startswith(_OURS)
            inside = own and "site-packages" not in name and not name.startswith(sys.prefix)
            known = self._files[name] = name[len(self._folder) :] if inside else ""
        return known


def _monitoring() -> Any:
    return vars(sys)["monitoring"]  # from 3.12 on


def _passed(trace: TracebackType | None) -> list[str]:
    """List the files of the functions that an exception left already."""
    files = []
    while trace is not None:
        files.append(trace.tb_frame.f_code.co_filename)
        trace = trace.tb_next
    return files


def _name(frame: FrameType) -> str:
    """Name the function that people know: of a comprehension, the one around it."""
    code = frame.f_code
    name = getattr(code, "co_qualname", code.co_name)  # from 3.11 on
    around = frame.f_back
    if name in _ANONYMOUS and around and around.f_code.co_filename == code.co_filename:
        return _name(around)  # before 3.11
    return _NESTED.sub("", name).rpartition("<locals>.")[2] or code.co_name


def clocked(code: CodeType) -> bool:
    """Whether the clock decides how often a function is called."""
    return code.co_filename.startswith(_CLOCKED)


def _attribute(module: str, name: str) -> Any:
    """Look up an attribute of a loaded module; None: it is not loaded, or has none."""
    owner, _, last = name.rpartition(".")
    if last.startswith("__"):
        last = f"_{owner}{last}"
    parts = [*filter(None, owner.split(".")), last]
    return functools.reduce(lambda o, part: getattr(o, part, None), parts, sys.modules.get(module))


def _awaited(coroutine: Any) -> Iterator[FrameType]:
    """Yield the frames of a coroutine that waits, and of what it waits for."""
    while coroutine is not None:
        for prefix, next_ in (("cr", "await"), ("gi", "yieldfrom"), ("ag", "await")):
            if isinstance(getattr(coroutine, f"{prefix}_code", None), CodeType):
                if (frame := getattr(coroutine, f"{prefix}_frame")) is not None:
                    yield frame
                coroutine = getattr(coroutine, f"{prefix}_{next_}")
                break
        else:
            return
