"""Records what the application's process does, as events, as function calls, and as answers.

The interpreter reports most of it: audit events, `sys.monitoring` (before CPython 3.12 the profile
function), sqlite3's trace. None of that changes what the application does, except its speed.

Standard library only, for any CPython from 3.11 on.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import inspect
import os
import re
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import BuiltinMethodType, CodeType, FrameType, MethodDescriptorType, MethodType
from typing import Any, NamedTuple

from duetbench.app.inside.phases import take_tool
from duetbench.effects import libraries, plans
from duetbench.effects.activity import Activity, Event, Name, Reply
from duetbench.effects.libraries import plain, statement

_OURS = str(Path(__file__).parents[1]) + os.sep
_MAKER = str(Path(__file__).with_name("suite_program.py"))  # of requests
_IMPORT = "<frozen importlib"
_STANDARD = str(Path(os.__file__).parent) + os.sep
_CLOCKED = tuple(
    _STANDARD + name.replace("/", os.sep)
    for name in ("asyncio/", "concurrent/", "queue.py", "selectors.py", "threading.py")
)
"""Files whose functions are called as often as the clock decides."""
_NESTED = re.compile(r"(\.<locals>)?\.?<\w+>")
_QUIET = (StopIteration, StopAsyncIteration, GeneratorExit)
_EPHEMERAL = 32_768  # ports from here on are another one in each launch
_COMPILED = BuiltinMethodType, MethodDescriptorType
_LONGEST = 300_000  # bytes of an answer that are compared place by place
_WRITES = os.O_WRONLY | os.O_RDWR
_CACHE = f"{os.sep}__pycache__{os.sep}"
_STARTS = {"os.fork", "os.forkpty", "os.posix_spawn", "os.system", "subprocess.Popen"}
_POOLS = "multiprocessing.popen_"  # start processes without an audit event, by some methods


class Round(NamedTuple):
    """What happened while a recorder was on.

    `calls` are those of functions, but for what the clock decides. `functions` are the
    application's own that were entered, with their calls: none if they were only resumed.
    """

    events: Sequence[Event]
    calls: int
    functions: Counter[Name]


def activity(rounds: Sequence[Round], **more: Any) -> Activity:
    """Describe rounds of requests; `more` are the other fields."""
    first, names = rounds[0].functions, {name for round_ in rounds for name in round_.functions}
    return Activity(
        events=[round_.events for round_ in rounds],
        calls=[round_.calls for round_ in rounds],
        functions=[(*name, first[name]) for name in names],
        **more,
    )


class Recorder:
    """Hooks into this process for good, but records only while it is `on`.

    `folder` contains the application. `waiting` returns the tasks that may wait for what another
    thread does. What the threads in `ignored` do, such as a client that waits, is left out.
    `plans` has the plan of each statement, if its database tells it, and the line that sends it.
    """

    def __init__(self, folder: str) -> None:
        self._events: list[Event] = []
        self._calls: list[CodeType] = []
        self._resumed: list[CodeType] = []
        self.waiting: Callable[[], list[asyncio.Task[Any]]] = list
        self._monitoring: Any = getattr(sys, "monitoring", None)  # from 3.12 on
        self.ignored = plans.ignored
        self.plans: dict[str, tuple[str, str]] = {}
        self._folder = folder + os.sep
        self._recording, self._server = False, 0  # the thread that serves the request
        self._opened: set[str] = set()  # Python files, compiled or not
        self._alone = True  # whether this process has started no other
        self._files: dict[str, str] = {}
        self._watched: dict[int, tuple[CodeType, str, libraries.Words]] = {}
        self._compiled: set[int] = set()
        self._connected = False  # whether there may be a connection of sqlite3
        self._late: set[str] = set()  # modules with such functions that are imported meanwhile
        # By thread, the method of sqlite3 that sends, and what was reported of it, with its words.
        self._sending: dict[int, tuple[str, list[tuple[str, str]]]] = {}
        self._sqlite: tuple[type, ...] = ()
        self._silent: set[int] = set()  # threads that send statements of which none is reported
        self._untraced = False  # whether sqlite3 has sent some that were not
        self._audited: dict[str, Callable[..., object]] = {
            "open": self._open,
            "socket.connect": self._connect,
            "sqlite3.connect": self._connect_sqlite,
            "subprocess.Popen": self._start_program,
            "os.fork": lambda: self._add("process", "fork"),
            "os.forkpty": lambda: self._add("process", "fork"),
            "os.system": lambda command: self._add("process", plain(command)),
            "_thread.start_new_thread": self._thread,
            "_thread.start_joinable_thread": self._thread,
            "import": self._import,
        }
        self._trace_sqlite()
        if not self._monitoring:
            threading.setprofile(self._profile)  # of threads that start from now on
        sys.addaudithook(self._audit)

    @property
    def loaded(self) -> list[str] | None:
        """The Python files that this process has used so far, by their paths from the folder.

        None: it has started other processes, which may use more.
        """
        if not self._alone or any(name.startswith(_POOLS) for name in sys.modules):
            return None
        # A link is used as well as the file that it leads to.
        return sorted(
            {
                os.path.relpath(path, self._folder)
                for name in tuple(self._opened)
                for path in (name, os.path.realpath(name))
            }
        )

    @property
    def unseen(self) -> list[str]:
        """What nothing here sees of this process."""
        loaded = [f"{what} of {name}" for what, names in libraries.UNSEEN.items() for name in names
                  if name in sys.modules]  # fmt: skip
        loaded += ["transactions of psycopg2"] * ("psycopg2" in sys.modules)
        loaded += [
            "statements of sqlite3, of connections by Connection() or with a trace of their own"
        ] * self._untraced
        if all(_attribute("django.conf", f"settings.{name}") for name in ("configured", "DEBUG")):
            loaded.append("Django without DEBUG, which logs each query and so raises all figures")
        return loaded + ["exceptions (from Python 3.12 on)"] * (not self._monitoring)

    def on(self) -> None:
        """Begin to record, also what libraries do that were imported since."""
        self._late, self._server = set(), threading.get_ident()
        self._resolve()
        self._recording = True
        monitoring = self._monitoring
        if not monitoring:
            sys.setprofile(self._profile)
            return
        events = monitoring.events
        self._tool = take_tool()
        for event, callback in (
            (events.PY_START, self._start),
            (events.PY_RESUME, self._resume),
            (events.RAISE, self._raise),
            (events.CALL, self._call),
            (events.C_RETURN, self._return),
            (events.C_RAISE, self._sent),
        ):
            monitoring.register_callback(self._tool, event, callback)
        monitoring.restart_events()
        self._choose_events()

    def _choose_events(self) -> None:
        """Let calls of compiled functions be reported only if they may send statements: it is slow.

        Their ends are then reported as well.
        """
        events = self._monitoring.events
        chosen = events.PY_START | events.PY_RESUME | events.RAISE
        calls = events.CALL * (self._connected or bool(self._compiled))
        self._monitoring.set_events(self._tool, chosen | calls)

    def off(self) -> Round:
        """End to record; return what happened since `on`."""
        self._recording = False
        if self._monitoring:
            self._monitoring.set_events(self._tool, 0)
            self._monitoring.free_tool_id(self._tool)
        else:
            sys.setprofile(None)
        events, calls, resumed = self._events, self._calls, self._resumed
        self._events, self._calls, self._resumed = [], [], []
        # By id: hashing a code object goes through all its constants.
        codes, times = {id(code): code for code in (*calls, *resumed)}, Counter(map(id, calls))
        functions: Counter[Name] = Counter()
        for key, code in codes.items():
            if file := self.file(code.co_filename):
                functions[file, code.co_qualname] += times[key]
            if code.co_filename.startswith((*_CLOCKED, _OURS)):
                del times[key]
        return Round(events, times.total(), functions)

    def _resolve(self) -> None:
        """Find the functions of libraries that are loaded by now."""
        self._watched = {}
        self._late = {module for module in self._late if not _is_loaded(module)}
        for module, name, kind, words in libraries.PYTHON:
            # The code of a decorator would be that of whatever else it decorates.
            code = getattr(inspect.unwrap(_attribute(module, name)), "__code__", None)
            if isinstance(code, CodeType):
                self._watched[id(code)] = code, kind, words
        compiled = (_attribute(module, name) for module, name in libraries.COMPILED)
        self._compiled = {id(method) for method in compiled if method is not None}
        if self._recording and self._monitoring:
            self._choose_events()

    # Audit events, and those of sqlite3 and the collector.

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            self._use(arguments[0])
        elif event == "sqlite3.connect":
            self._connected = True
        elif event in _STARTS:
            self._alone = False
        if self._recording and event in self._audited and threading.get_ident() not in self.ignored:
            self._audited[event](*arguments)

    def _use(self, path: object) -> None:
        """Note a Python file that is opened, to import it or to execute it in another way."""
        name = os.fsdecode(path) if isinstance(path, bytes | os.PathLike) else path
        if isinstance(name, str) and name.endswith((".py", ".pyc")):
            folder, cached, compiled = name.rpartition(_CACHE)
            if cached:
                name = f"{folder}{os.sep}{compiled.partition('.')[0]}.py"
            self._opened.add(os.path.abspath(name))  # noqa: PTH100 - called for each file

    def _import(self, name: str, *_: object) -> None:
        self._add("import", name)
        if any(name == module for module, *_ in libraries.PYTHON):
            self._late.add(name)

    def _add(self, kind: str, text: str, frame: FrameType | None = None) -> None:
        self._events.append((kind, text, self._place(frame or sys._getframe(1))))

    def _trace_sqlite(self) -> None:
        """Let each connection of sqlite3 report its statements, from its opening on."""
        try:
            import sqlite3  # noqa: PLC0415 - an interpreter may have been built without it
        except ImportError:
            return
        self._sqlite = sqlite3.Connection, sqlite3.Cursor

        def connect(original: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
            connection = original(*arguments, **named)
            connection.set_trace_callback(self._executed)
            return connection

        original = sqlite3.connect
        # A method: as an attribute of a class, a function would get its objects.
        traced = MethodType(functools.wraps(original)(connect), original)
        sqlite3.connect = sqlite3.dbapi2.connect = traced

    def _statement(self, text: object, frame: FrameType, ask: Callable[[], str]) -> None:
        if words := statement(text):
            self._add(*words, frame)
            if plans.PLANNED.match(words[1]):  # else a driver would connect for nothing
                self._plan(words[1], frame, ask)

    def _plan(self, text: str, frame: FrameType, ask: Callable[[], str]) -> None:
        """Note the plan of a statement, once; what asks for it is nothing that a request does."""
        if text not in self.plans:
            self._recording = False
            self.plans[text] = ask(), self._place(frame)
            self._recording = True

    def _executed(self, text: str) -> None:
        """Take what sqlite3 reports; a call of one statement reports more than that."""
        thread, caller = threading.get_ident(), sys._getframe(1).f_code
        self._silent.discard(thread)
        if caller.co_name == libraries.LOGGED or caller.co_filename.startswith(_OURS):
            return
        if self._recording and thread not in self.ignored:
            self.ignored.add(thread)  # what follows is none of the application's calls
            try:
                self._report(thread, text)
            finally:
                self.ignored.discard(thread)

    def _report(self, thread: int, text: str) -> None:
        # To SQLite a backslash is a character like any other, also at the end of a value.
        if (words := statement(text.replace("\\", "/"))) is None:
            return
        if words[0] == "sql":
            method, sent = self._sending.get(thread, ("", []))
            # Another row of many, what a trigger does, a table that is an index.
            if sent and (method != libraries.SCRIPT or sent[-1][0] == text):
                return
            sent.append((text, words[1]))
        self._add(*words)

    def _open(self, path: object, mode: str | None, flags: int) -> None:
        if isinstance(path, int):
            return
        if any(f.f_code.co_filename.startswith(_IMPORT) for f in _callers(sys._getframe(2))):
            return
        writes = bool(flags & _WRITES) or any(letter in (mode or "") for letter in "wax+")
        name = os.fsdecode(path).replace(self._folder, "").rpartition("site-packages/")[2]  # type: ignore[arg-type]
        self._add("write" if writes else "read", plain(name))

    def _connect(self, _socket: object, address: Any) -> None:
        if isinstance(address, tuple):
            port = "" if address[1] >= _EPHEMERAL else f":{address[1]}"
            self._add("connect", f"{address[0]}{port}")
        else:
            self._add("connect", plain(os.fsdecode(address)))

    def _connect_sqlite(self, name: object) -> None:
        self._add("connect", f"sqlite {plain(name)}")
        if self._monitoring:
            self._choose_events()

    def _start_program(self, program: Any, arguments: Any, *_: object) -> None:
        first = program or (arguments[0] if isinstance(arguments, list | tuple) else arguments)
        self._add("process", plain(os.fsdecode(first).rpartition(os.sep)[2]))

    def _thread(self, function: object, *_: object) -> None:
        name = getattr(getattr(function, "__self__", None), "name", None)
        self._add("thread", plain(name or getattr(function, "__qualname__", "")))

    # Functions.

    def _start(self, code: CodeType, _offset: int, frame: FrameType | None = None) -> None:
        if self.ignored and threading.get_ident() in self.ignored:
            return
        self._calls.append(code)
        if self._late and any(map(_is_loaded, self._late)):
            self._resolve()
        if (watched := self._watched.get(id(code))) is None:
            return
        frame, (_, kind, words) = frame or sys._getframe(1), watched
        if (text := words(frame.f_locals)) is None:
            return
        if kind == "sql":
            text = text.as_string(None) if hasattr(text, "as_string") else text
            module = frame.f_globals["__name__"]
            self._statement(text, frame, lambda: plans.before(module, frame.f_locals))
        else:
            self._add(kind, text, frame)

    def _resume(self, code: CodeType, _offset: int) -> Any:
        """Note a function once for each place in it: whoever resumes it called it before."""
        if self.ignored and threading.get_ident() in self.ignored:
            return None
        self._resumed.append(code)
        return self._monitoring and self._monitoring.DISABLE

    def _raise(self, code: CodeType, _offset: int, error: BaseException) -> None:
        if isinstance(error, _QUIET) or code.co_filename.startswith((*_CLOCKED, _OURS)):
            return
        if threading.get_ident() in self.ignored:
            return
        # The files of the functions that the exception left already; this one comes first.
        passed = [f.f_code.co_filename for f, _ in traceback.walk_tb(error.__traceback__)][1:]
        own = bool(self.file(code.co_filename))
        if any(self.file(name) for name in passed) or (passed and not own):
            return
        words = type(error).__name__, self._place(sys._getframe(1))
        library: Event = "library exception", *words
        if passed and library in self._events:  # it was a library's until it came here
            self._events.remove(library)
        self._events.append(("exception", *words) if own else library)

    def _call(self, _code: CodeType, _offset: int, function: object, first: object) -> None:
        if method := self._sends(function, first):
            thread = threading.get_ident()
            self._sending[thread] = method, []
            if method != "executemany":  # which sends nothing if there are no rows
                self._silent.add(thread)

    def _sent(self, _code: CodeType, _offset: int, function: object, first: object) -> None:
        if self._sends(function, first):
            _, sent = self._sending.pop(threading.get_ident(), ("", []))
            sender = getattr(function, "__self__", first)
            connection = getattr(sender, "connection", sender)
            for text, words in sent[:1]:
                ask = functools.partial(plans.of_sqlite, connection, self._sqlite[1], text)
                self._plan(words, sys._getframe(1), ask)

    def _sends(self, function: object, first: object) -> str:
        """Name the method of sqlite3 that sends statements; empty if a function is none."""
        if isinstance(function, functools.partial):
            function = function.func
        name: str = getattr(function, "__name__", "")
        if name not in libraries.SEND or not isinstance(function, _COMPILED):
            return ""
        return name if isinstance(getattr(function, "__self__", first), self._sqlite) else ""

    def _return(self, code: CodeType, offset: int, function: object, first: object) -> None:
        if self._sends(function, first) and threading.get_ident() in self._silent:
            self._untraced = True
            self._add("sql", "a statement that sqlite3 does not report", sys._getframe(1))
        self._sent(code, offset, function, first)
        if id(function) in self._compiled and (text := getattr(first, "query", None)):
            self._statement(text, sys._getframe(1), functools.partial(plans.after_psycopg2, first))

    def _profile(self, frame: FrameType, event: str, function: object) -> None:
        code = frame.f_code
        if not self._recording:
            return
        if event == "call":
            last = frame.f_lasti
            # A generator that goes on is called as well, at a RESUME of another kind.
            if last < 0 or code.co_code[last + 1] & 3 == 0:
                self._start(code, last, frame)
            else:
                self._resume(code, last)
        elif event == "c_call":
            self._call(code, 0, function, None)
        elif event == "c_exception":
            self._sent(code, 0, function, None)
        elif event == "c_return":
            owner = getattr(function, "__self__", None)
            bound = getattr(type(owner), getattr(function, "__name__", ""), function)
            self._return(code, 0, bound, owner)

    # Places.

    def _place(self, frame: FrameType | None) -> str:
        """Find the application's line that leads to a frame, or waits for its thread."""
        return next(filter(None, map(self._line, self._leading(frame))), "")

    def _leading(self, frame: FrameType | None) -> Iterator[FrameType]:
        yield from _callers(frame)
        if "greenlet" in sys.modules:
            current = sys.modules["greenlet"].getcurrent().parent
            while current is not None:
                yield from _callers(current.gr_frame)
                current = current.parent
        serving = [*_callers(sys._current_frames().get(self._server))]
        if serving and serving[-1].f_back:  # it is about to wait for this thread
            yield from serving
        for task in self.waiting():
            yield from reversed([*_awaited(task.get_coro())])

    def _line(self, frame: FrameType) -> str:
        file = self.file(frame.f_code.co_filename)
        if file and not file.endswith(".py"):
            return file  # a template, compiled to other lines
        return f"{_known_name(frame.f_code)}, {file}:{frame.f_lineno}" if file else ""

    def file(self, name: str) -> str:
        """Return a file of the application by its path from the folder; empty for any other."""
        if (known := self._files.get(name)) is None:
            own = name.startswith(self._folder) and not name.startswith(_OURS)
            inside = own and "site-packages" not in name and not name.startswith(sys.prefix)
            known = self._files[name] = os.path.relpath(name, self._folder) if inside else ""
        return known


def _callers(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield a frame and those that lead to it from the request on, the innermost first."""
    while frame is not None and frame.f_code.co_filename != _MAKER:
        yield frame
        frame = frame.f_back


def _known_name(code: CodeType) -> str:
    """Name the function that people know: of a comprehension, the one around it."""
    return _NESTED.sub("", code.co_qualname).rpartition("<locals>.")[2] or code.co_name


def describe(
    status: int,
    headers: Iterable[tuple[str, str]],
    body: bytes,
    folder: Path,
    hide: Callable[[str], str],
) -> Reply:
    """Describe an answer of an application in a folder as a `Reply`, without private values."""
    # When gzip packed it is no content.
    content = body[8 * (body[:2] == b"\x1f\x8b") :].replace(os.fsencode(folder), b".")
    return {
        "status": status,
        "headers": [[name.lower(), hide(value)] for name, value in headers],
        "length": len(body),
        "digest": hashlib.sha256(content).hexdigest()[:16],
        "body": hide(body.decode("latin-1"))[:_LONGEST],
        "checkout": str(folder),
        "cut": len(body) > _LONGEST,
    }


def _is_loaded(module: str) -> bool:
    """Whether an import of a module has ended, and it is there."""
    spec = getattr(sys.modules.get(module), "__spec__", None)
    return spec is not None and not getattr(spec, "_initializing", False)


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
