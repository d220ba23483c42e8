"""Records the requests that a project's own tests make, inside the tests' run.

pytest loads this as a plug-in; any other runner of `unittest`, such as Django's, is started by it
as a program. It stands where a test client hands a request to the application, so that what the
client itself does is not recorded. One line of JSON for each request, and one at the end.

Standard library only, for any CPython from 3.11 on.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import importlib
import json
import math
import os
import re
import runpy
import sys
import threading
import traceback
import unittest
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from inspect import getattr_static, iscoroutinefunction, isfunction
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote

from duetbench.app.inside import phases
from duetbench.app.inside.program import unit_of
from duetbench.core.text import hider
from duetbench.effects import libraries
from duetbench.effects.activity import BAD, CALL, COUNT, OUT, SECRETS, Operation
from duetbench.effects.recorder import Recorder, Round, activity, describe

_LONGEST = 100_000  # bytes of a request that are kept
_RAISED = 500  # what a server answers if the application raises
_VARYING = re.compile(r"(?<=/)(\d+|[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{16,})(?=/|$)")
_PHASES = {"_callSetUp": "setup", "_callTestMethod": "call", "_callTearDown": "teardown"}

Response = tuple[int, Iterable[tuple[str, str]], bytes]

_inside: ContextVar[bool] = ContextVar("_inside", default=False)


@dataclass
class Request:
    """A request under way; `body` is None if it is not known."""

    route: str = ""
    query: str = ""
    content_type: str = ""
    body: bytes | None = b""
    response: Response = _RAISED, (), b""

    def read(self, environ: Any) -> None:
        """Take what a WSGI client sends, which stays to be read."""
        self.query = environ.get("QUERY_STRING", "")
        self.content_type = environ.get("CONTENT_TYPE") or ""
        stream = environ.get("wsgi.input")
        content = getattr(stream, "_FakePayload__content", stream)  # Django's
        self.body = content.getvalue() if hasattr(content, "getvalue") else None


class Log:
    """Writes what each request of the tests did; `test` and `phase` say who makes it."""

    def __init__(self, out: Path, folder: Path) -> None:
        self.test, self.phase, self.outcomes = "", "setup", dict[str, str]()
        self.thread = threading.get_ident()  # in which the tests run
        self._recorder, self._folder = Recorder(str(folder)), folder
        self._out: IO[str] = out.open("a", encoding="utf-8")
        self._numbers: Counter[tuple[str, str]] = Counter()
        self._busy = self._mixed = False
        self._wrapped, self._unseen = set[str](), set[str]()
        gc.disable()

    def begin(self, test: str) -> None:
        """Note which test begins, without the garbage of others.

        An identity map has what is not collected: when that happens must depend on nothing else.
        """
        gc.collect()
        if not self.test:
            gc.freeze()  # what is imported by now, so that the next ones are fast
        self.test, self.phase = test, "setup"

    @contextmanager
    def request(self, method: str, path: str) -> Iterator[Request]:
        """Record a request, whose route and response its client fills in.

        One that is made while another one is under way is noted, and both are mixed.
        """
        request = Request()
        if self._busy:
            self._mixed = True
            self._add(request, method, path, Round((), 0, Counter()))
            yield request
            return
        self._busy, self._mixed = True, False
        recorder = self._recorder
        # Another thread serves the client of most frameworks.
        recorder.ignored.clear()
        recorder.ignored |= {self.thread} - {threading.get_ident()}
        recorder.plans, recorder.waiting = {}, list
        with suppress(RuntimeError):  # none runs, or that of another framework
            loop = asyncio.get_running_loop()
            # In debug mode it warns of a slow one, so the machine's load would decide.
            loop.slow_callback_duration = math.inf
            here = asyncio.current_task(loop)
            recorder.waiting = lambda: [*filter(None, (here, *asyncio.all_tasks(loop)))]
        recorder.on()
        try:
            yield request
        finally:
            round_ = recorder.off()
            self._busy = False
            self._add(request, method, path, round_)

    def finish(self) -> None:
        self._write({"outcomes": self.outcomes, "unseen": sorted(self._unseen)})
        self._out.close()

    def note(self, test: str, outcome: str) -> None:
        """Note how a part of a test ended; of several the worst counts."""
        known = self.outcomes.get(test, "")
        if known not in BAD and (outcome != "passed" or not known):
            self.outcomes[test] = outcome

    def wrap(self) -> None:
        """Wrap the clients of all libraries that are loaded by now."""
        for module, owner, name, wrap in CLIENTS:
            key = f"{module}.{owner}.{name}"
            kind = getattr(sys.modules.get(module), owner, None)
            if key not in self._wrapped and kind is not None and name in vars(kind):
                self._wrapped.add(key)
                setattr(kind, name, functools.wraps(vars(kind)[name])(wrap(self, vars(kind)[name])))

    def _add(self, request: Request, method: str, path: str, round_: Round) -> None:
        reply = describe(*request.response, self._folder, libraries.hide)
        body = request.body
        sent = None if body is None or len(body) > _LONGEST else body.decode("latin-1")
        # Exceptions inside libraries tell which of their caches other tests have filled.
        events = [event for event in round_.events if event[0] != "library exception"]
        self._unseen.update(self._recorder.unseen)  # a runner's settings end before it
        self._numbers[self.test, self.phase] += 1
        operation = Operation(
            test=self.test,
            phase=self.phase,
            number=self._numbers[self.test, self.phase],
            method=method,
            path=path,
            route=request.route or _VARYING.sub("{}", path),
            routed=bool(request.route),
            mixed=self._mixed,
            query=libraries.hide(request.query),
            content_type=request.content_type,
            body=sent and libraries.hide(sent),
            did=activity(
                [round_._replace(events=events)],
                paths=[path],
                answers=[[reply]],
                plans=self._recorder.plans,
            ),
        )
        self._write({**vars(operation), "did": operation.did.fields})

    def _write(self, fields: dict[str, Any]) -> None:
        self._out.write(json.dumps(fields) + "\n")
        self._out.flush()


# Clients: each wrapper takes the log and the method, and returns what replaces the method.

Method = Callable[..., Any]


class _Asgi:
    """An application as the client calls it, with the requests recorded."""

    def __init__(self, app: Any, log: Log) -> None:
        self.app, self._log = app, log

    def __getattr__(self, name: str) -> Any:
        return getattr(self.app, name)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await _serve(self._log, self.app, scope, receive, send)


async def _serve(log: Log, app: Any, scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] != "http" or _inside.get():
        await app(scope, receive, send)
        return
    path = unquote(scope["path"])
    head, body, sent = dict[str, Any](), list[bytes](), list[bytes]()

    async def take() -> Any:
        message = await receive()
        sent.append(message.get("body", b""))
        return message

    async def note(message: Any) -> None:
        if message["type"] == "http.response.start":
            head.update(message)
        elif message["type"] == "http.response.body":
            body.append(message.get("body", b""))
        await send(message)

    with log.request(scope["method"], path) as request:
        token = _inside.set(True)
        try:
            await app(scope, take, note)
        finally:
            _inside.reset(token)
            request.query = scope.get("query_string", b"").decode("latin-1")
            request.body = b"".join(sent)
            given = dict(scope.get("headers", ()))
            request.content_type = given.get(b"content-type", b"").decode("latin-1")
            request.route = _route_of_scope(scope, path)
            if head:
                headers = (
                    (str(n, "latin-1"), str(v, "latin-1")) for n, v in head.get("headers", ())
                )
                request.response = head["status"], headers, b"".join(body)


def _route_of_scope(scope: Any, path: str) -> str:
    """Return the template of the route that an ASGI application chose; empty: none is known."""
    # Routes of FastAPI lack the prefixes of their routers.
    template = scope.get("path_template") or getattr(
        scope.get("fastapi", {}).get("effective_route_context") or scope.get("route"), "path", None
    )
    root = scope.get("root_path", "")
    if template is not None and root == scope.get("app_root_path", root):  # not below a mount
        return str(template)
    parts = scope.get("path_params") or {}
    if not (parts or scope.get("endpoint") or scope.get("route_handler")):
        return ""
    for name, value in parts.items():
        path = re.sub(rf"(?<=/){re.escape(str(value))}(?=/|$)", f"{{{name}}}", path, count=1)
    return path


def _transport(log: Log, method: Method) -> Method:
    """Wrap the method of a transport that has an ASGI application in `app`."""

    def handle(self: Any, *arguments: Any, **named: Any) -> Any:
        if not isinstance(self.app, _Asgi):
            self.app = _Asgi(self.app, log)
        return method(self, *arguments, **named)

    return handle


def _application(log: Log, method: Method) -> Method:
    """Wrap the call of an ASGI framework's application, for clients that are unknown here."""

    async def call(self: Any, scope: Any, receive: Any, send: Any) -> None:
        await _serve(log, functools.partial(method, self), scope, receive, send)

    return call


def _werkzeug(log: Log, method: Method) -> Method:
    def run(self: Any, environ: Any, *arguments: Any, **named: Any) -> Any:
        app = self.application

        def note(served: Any, start: Callable[..., Any]) -> Any:
            def begin(*given: Any) -> Any:  # later the framework forgets its request
                rule = getattr(served.get("werkzeug.request"), "url_rule", None)
                request.route = getattr(rule, "rule", "")
                return start(*given)

            return app(served, begin)

        made, path = environ.get("REQUEST_METHOD", ""), environ.get("PATH_INFO", "")
        with log.request(made, path) as request:
            request.read(environ)
            self.application = note
            try:
                body, status, headers = method(self, environ, *arguments, **named)
                sized = "content-length" in headers  # a stream may have no end
                content = b"".join(body) if sized else b""
                request.response = int(status.split()[0]), headers.items(), content
                if sized:
                    closing = sys.modules["werkzeug.wsgi"].ClosingIterator
                    body = closing([content], getattr(body, "close", None))
                return body, status, headers
            finally:
                self.application = app

    return run


def _django(log: Log, method: Method) -> Method:
    def call(self: Any, environ: Any) -> Any:
        with log.request(environ["REQUEST_METHOD"], environ["PATH_INFO"]) as request:
            request.read(environ)
            response = method(self, environ)
            _read_django(request, response)
            return response

    return call


def _django_async(log: Log, method: Method) -> Method:
    async def call(self: Any, scope: Any) -> Any:
        with log.request(scope["method"], scope["path"]) as request:
            request.body = None  # a stream, which is read once
            response = await method(self, scope)
            _read_django(request, response)
            return response

    return call


def _read_django(request: Request, response: Any) -> None:
    served = getattr(response, "wsgi_request", None) or getattr(response, "asgi_request", None)
    if (match := getattr(served, "resolver_match", None)) is not None:
        request.route = f"/{match.route.lstrip('^/')}"
    content = b"" if response.streaming else response.content
    # Those only become headers for a server.
    cookies = (("set-cookie", cookie.OutputString()) for cookie in response.cookies.values())
    request.response = response.status_code, (*response.items(), *cookies), content


CLIENTS = (
    ("starlette.testclient", "_TestClientTransport", "handle_request", _transport),
    ("starlette.testclient", "_ASGIAdapter", "send", _transport),
    ("httpx", "ASGITransport", "handle_async_request", _transport),
    ("httpx2", "ASGITransport", "handle_async_request", _transport),
    ("starlette.applications", "Starlette", "__call__", _application),
    ("litestar.app", "Litestar", "__call__", _application),
    ("quart.app", "Quart", "__call__", _application),
    ("werkzeug.test", "Client", "run_wsgi_app", _werkzeug),
    ("django.test.client", "ClientHandler", "__call__", _django),
    ("django.test.client", "AsyncClientHandler", "__call__", _django_async),
)
"""Module, class and method through which a client hands a request to an application."""


# Runners.


class _Plugin:
    """The hooks of pytest."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._log.begin(nodeid)

    def pytest_runtest_setup(self) -> None:
        self._enter("setup")

    def pytest_runtest_call(self) -> None:
        self._enter("call")

    def pytest_runtest_teardown(self) -> None:
        self._enter("teardown")

    def _enter(self, phase: str) -> None:
        self._log.wrap()
        self._log.phase = phase

    def pytest_runtest_logreport(self, report: Any) -> None:
        self._log.note(report.nodeid, report.outcome)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self._log.note(report.nodeid, "error")

    def pytest_sessionfinish(self) -> None:
        self._log.finish()


def pytest_cmdline_main(config: Any) -> None:
    """Turn off what would change which tests run, or when, and register the hooks."""
    option = config.option
    option.maxfail = 0
    option.continue_on_collection_errors = True  # new tests may import what base has not
    for name, value in (
        *(("numprocesses", None), ("tx", []), ("dist", "no")),  # of xdist
        ("timeout", 0),  # of pytest-timeout: what is recorded takes longer
    ):
        if hasattr(option, name):
            setattr(option, name, value)
    if hasattr(option, "create_db"):  # of pytest-django: base's tables are not head's
        option.create_db = True
    config.pluginmanager.register(_Plugin(_log()), "duetbench")


def _log() -> Log:
    out = Path(os.environ[OUT])
    libraries.hide = hider(json.loads(out.with_name(SECRETS).read_text("utf-8")))
    return Log(out, Path.cwd())


def _watch_unittest(log: Log) -> None:
    """Let each test of `unittest` say what it is, in which phase, and how it ended."""
    original = unittest.TestCase.run

    def run(self: unittest.TestCase, result: Any = None) -> Any:
        known = _ends(result)
        log.begin(self.id())
        log.wrap()
        try:
            return original(self, result)
        finally:
            ended = next((name for name, count in _ends(result) if (name, count) not in known), "")
            log.note(self.id(), ended or "passed")

    unittest.TestCase.run = run  # type: ignore[method-assign]
    for name, phase in _PHASES.items():
        setattr(unittest.TestCase, name, _in_phase(log, phase, getattr(unittest.TestCase, name)))


def _ends(result: Any) -> list[tuple[str, int]]:
    names = {"failed": "failures", "error": "errors", "skipped": "skipped"}
    return [(outcome, len(getattr(result, name, ()))) for outcome, name in names.items()]


def _in_phase(log: Log, phase: str, method: Method) -> Method:
    @functools.wraps(method)
    def call(*arguments: Any) -> Any:
        log.phase = phase
        log.wrap()
        return method(*arguments)

    return call


def _find(name: str) -> Callable[[], object]:
    """Import a function without arguments, or a benchmark of asv, with its first parameters.

    That is a method of a class, whose `setup` runs before. A coroutine function runs on a loop of
    its own.
    """
    module, _, attribute = name.partition(":")
    *owners, last = attribute.split(".")
    holder: Any = functools.reduce(getattr, owners, importlib.import_module(module))
    if isinstance(holder, type) and isfunction(getattr_static(holder, last)):
        params = [*getattr(holder, "params", ())]
        several = params if params and isinstance(params[0], list | tuple) else [params]
        given = [values[0] for values in several if values]
        holder = holder()
        getattr(holder, "setup", lambda *_: None)(*given)
        function: Any = functools.partial(getattr(holder, last), *given)
    else:
        function = getattr(holder, last)
    if not iscoroutinefunction(function):
        return function  # type: ignore[no-any-return]
    runner = asyncio.Runner()
    return lambda: runner.run(function())


def _call(log: Log, name: str) -> None:
    """Record a call of a function, after one that fills caches."""
    log.begin(name)
    try:
        make = _find(name)
        make()
        with log.request("call", name) as request:
            request.route = name
            body = json.dumps(make(), default=repr).encode()
            request.response = 200, (("content-type", "application/json"),), body
        log.note(name, "passed")
    except Exception as error:
        log.note(name, "failed")
        below = error.__traceback__ and error.__traceback__.tb_next  # without this function
        traceback.print_exception(error.with_traceback(below))


def _main() -> None:
    """Call or count functions, or run the program that the arguments name, its tests recorded."""
    if sys.argv[1] == COUNT:
        phases.run(functools.partial(phases.measure, lambda: unit_of(_find(sys.argv[2]))))
    log = _log()
    if sys.argv[1] == CALL:
        for name in sys.argv[2:]:
            _call(log, name)
        log.finish()
        return
    _watch_unittest(log)
    del sys.argv[0]
    sys.path[0] = str(Path(sys.argv[0]).resolve().parent)
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    finally:
        log.finish()


if __name__ == "__main__":
    _main()
