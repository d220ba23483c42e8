"""Servers: how they are started for a case, and how a repository starts them in production.

To add a server, add one entry to `SERVERS`. It also says how the server's workers exist (as
processes or threads), so that nothing else needs to know its name.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from duetbench.core.model import Case, Interface

GRANIAN_BACKLOG: Final = 1024
"""Granian's default; its backpressure per worker is backlog // workers unless told otherwise."""

GUNICORN_CONNECTIONS: Final = 1000
"""Gunicorn's default, per worker."""

GEVENT: Final = "gevent"
"""A loop of Gunicorn's for WSGI: a worker serves with greenlets, and has no blocking threads."""

AUTO: Final = "auto"
"""A loop: whichever the server takes by itself, uvloop if that is installed."""

SERVED: Final = "duetbench_entry:app"
"""The application of all servers: it wraps the one that is measured."""

KEEP_ALIVE: Final = "60"
"""Seconds: connections that idle for 2 or 5, the defaults, would be closed under the generator's
hands."""


_FIXED: Final = re.compile(
    r"--(?:host|port|fd|uds|bind|insecure-bind|workers|loop|interface|factory|app-dir|chdir|reload"
    r"|daemon|threads|blocking-threads|worker-class)?(?:=.*)?|-[bwkD].*"
)
"""Arguments of servers that nobody may give: duetbench needs this address, application and number
of workers."""


@dataclass(frozen=True, slots=True)
class Server:
    """How one server is driven.

    Attributes:
        name: As declarations spell it; also the distribution whose version is checked against the
            lock.
        module: The module that `python -m` runs, if it has another name.
        interfaces: Application interfaces that it serves.
        loops: Event loops that it can be pinned to (WSGI servers take `none`).
        usual_loops: Those that it takes by itself if they are installed, the first before others.
        arguments: Arguments after `python -m name` for a case and a port.
        settings: Arguments that name files of `app/entry`, for what no option says.
        worker_kind: How its workers exist, on an interpreter that is free-threaded or not.
        backpressure: Connections that it accepts at once with so many workers, or None.
        exit_codes: Exit codes of a clean stop by SIGTERM (negative: ended by that signal).
        requires: Distributions that it needs beside its own requirements.
    """

    name: str
    interfaces: frozenset[Interface]
    loops: frozenset[str]
    arguments: Callable[[Case, int], str]
    backpressure: Callable[[int], int | None] = lambda _workers: None
    worker_kind: Callable[[bool], Literal["process", "thread"]] = lambda _free_threaded: "process"
    exit_codes: frozenset[int] = frozenset({0})
    settings: tuple[str, ...] = ()
    requires: frozenset[str] = frozenset()
    usual_loops: tuple[str, ...] = ("uvloop",)
    module: str = ""

    def needs(self, loop: str) -> set[str]:
        """List the distributions that serve on a loop, which is one unless it is Python's own."""
        loops = {loop} - {AUTO, "asyncio", "none"}
        # Gunicorn's worker for gevent imports packaging, but does not require it.
        return {self.name, *self.requires, *loops, *({"packaging"} if loop == GEVENT else ())}


def _granian(case: Case, port: int) -> str:
    blocking = "" if case.threads is None else f"--blocking-threads {case.threads} "
    return (
        f"--interface {case.endpoint.interface} --host 127.0.0.1 --port {port} --http 1 --no-ws "
        f"--workers {case.workers} --loop {case.loop} --backlog {GRANIAN_BACKLOG} "
        f"{blocking}{SERVED}"
    )


def _uvicorn(case: Case, port: int) -> str:
    # A supervisor that kills a busy worker would measure the supervisor (default: 5 s).
    patience = "--timeout-worker-healthcheck 60 " if case.workers > 1 else ""
    # It takes a plain function that gives a coroutine for ASGI 2.
    return (
        f"--host 127.0.0.1 --port {port} --workers {case.workers} --loop {case.loop} --http auto "
        f"--ws none --no-access-log --timeout-keep-alive {KEEP_ALIVE} {patience}"
        f"--interface asgi3 {SERVED}"
    )


def _hypercorn(case: Case, port: int) -> str:
    loop = "asyncio" if case.loop == AUTO else case.loop  # which it takes by itself
    return (
        f"--bind 127.0.0.1:{port} --workers {case.workers} "
        f"--worker-class {loop} --keep-alive {KEEP_ALIVE} asgi:{SERVED}"
    )


def _gunicorn(case: Case, port: int) -> str:
    kind = f"gthread --threads {case.threads}"
    if case.server == "uvicorn-worker":
        kind = "uvicorn_worker.UvicornWorker"
    elif case.endpoint.interface == "asgi":
        kind = f"asgi --asgi-loop {case.loop}"
    elif case.loop == GEVENT:
        kind = GEVENT
    # No master that kills a busy worker, and none that waits for longer than we do.
    return (
        f"--bind 127.0.0.1:{port} --workers {case.workers} --worker-class {kind} "
        f"--worker-connections {GUNICORN_CONNECTIONS} --keep-alive {KEEP_ALIVE} "
        f"--timeout 0 --graceful-timeout 5 {SERVED}"
    )


SERVERS: Final[dict[str, Server]] = {
    server.name: server
    for server in (
        Server(
            name="granian",
            interfaces=frozenset({"asgi", "wsgi"}),
            loops=frozenset({"asyncio", "uvloop", "rloop"}),
            arguments=_granian,
            usual_loops=("rloop", "uvloop"),
            backpressure=lambda workers: GRANIAN_BACKLOG // workers * workers,
            worker_kind=lambda free_threaded: "thread" if free_threaded else "process",
        ),
        Server(
            name="uvicorn",
            interfaces=frozenset({"asgi"}),
            loops=frozenset({"asyncio", "uvloop", "zuvloop"}),
            arguments=_uvicorn,
            exit_codes=frozenset({0, -15, 143}),
        ),
        Server(
            name="hypercorn",
            interfaces=frozenset({"asgi"}),
            loops=frozenset({"asyncio", "uvloop"}),
            arguments=_hypercorn,
            usual_loops=(),
            settings=("--config", "python:duetbench_hypercorn"),
        ),
        Server(
            name="gunicorn",
            interfaces=frozenset({"asgi", "wsgi"}),
            loops=frozenset({"asyncio", "uvloop", GEVENT}),
            arguments=_gunicorn,
            settings=("--config", "python:duetbench_gunicorn"),
            backpressure=lambda workers: GUNICORN_CONNECTIONS * workers,
        ),
        Server(
            name="uvicorn-worker",
            module="gunicorn",
            interfaces=frozenset({"asgi"}),
            loops=frozenset({"asyncio", "uvloop"}),
            arguments=_gunicorn,
            settings=("--config", "python:duetbench_gunicorn"),
            requires=frozenset({"gunicorn", "uvicorn"}),
        ),
    )
}

LOOPS: Final = (AUTO, *sorted({loop for server in SERVERS.values() for loop in server.loops}))
"""The event loops of any of them."""


def loop_taken(server: str, loop: str, packages: Collection[str]) -> str:
    """The event loop that a server runs where these packages are installed."""
    usual = (name for name in SERVERS[server].usual_loops if name in packages)
    return next(usual, "asyncio") if loop == AUTO else loop


def blocks(interface: Interface, loop: str) -> bool:
    """Whether a server uses blocking threads for an interface, on a loop."""
    return interface == "wsgi" and loop != GEVENT


def misfit(case: Case) -> tuple[str, object, str] | None:
    """What of a case its server does not do: key, found and allowed; None: it does all."""
    server, app, speaks = SERVERS[case.server], case.endpoint.app, case.endpoint.interface
    fitting = ", ".join(name for name, other in SERVERS.items() if speaks in other.interfaces)
    fit = f"one that speaks {speaks}, as {app} does: {fitting}"
    blocking = f"blocking threads for wsgi, and only there; {app} is {speaks}"
    limit, gevent = server.backpressure(case.workers), case.loop == GEVENT
    # Greenlets are for WSGI, with the GIL.
    loops = server.loops - ({GEVENT} if speaks == "asgi" or case.free_threaded else set())
    of_server = f"one of {case.server}'s for {speaks}: {', '.join(sorted(loops))}"
    most = f"at most {limit}, the backpressure of {case.server} with {case.workers} workers"
    if gevent:
        blocking = "no threads with gevent, whose workers use greenlets"
    threads, connections = case.threads or "nothing", case.load.connections
    argument = next(filter(_FIXED.fullmatch, case.server_args), "")
    others = "other arguments: duetbench sets this one, or depends on it"
    checks = (
        ("server", case.server, speaks in server.interfaces, fit),
        ("loop", case.loop, case.loop in {AUTO, *loops}, of_server),
        ("threads", threads, (case.threads is not None) == blocks(speaks, case.loop), blocking),
        ("connections", connections, limit is None or connections <= limit, most),
        ("arg", argument, not argument, others),
    )
    return next(((key, found, allowed) for key, found, fits, allowed in checks if not fits), None)


_STARTING: Final = (
    *("Procfile", "Dockerfile*", "*compose*.y*ml", "*.sh", "*/*.sh", "*/Dockerfile*"),
    *("gunicorn*.py", "*/gunicorn*.py"),
)
"""Files that start servers, the likeliest first."""

_MARKS: Final = re.compile(r"(?:\\\n|[\[\]\"', ])+")  # around the words of a command

_COMMAND: Final = re.compile(
    r"^(?!\s*#|.*(?:\b(?:install|add|echo) |image:)).*?"
    rf"(?<![\w.-])({'|'.join(SERVERS)}|fastapi run)(?=\s)([^\n;&|]*(?::| -|\.py)[^\n;&|]*)",
    re.MULTILINE,
)
"""On a line that installs nothing: a server, and its arguments, of which one is an option or an
application."""

_APP: Final = re.compile(r"(?<!\S)([A-Za-z_][\w.]*:[A-Za-z_][\w.]*)(?=\(\)|\s|$)")

_SETTING: Final = re.compile(
    r"^(worker_class|threads)\s*=.*?[\"' ]([\w.]+)[\"')\s]*$", re.MULTILINE
)
"""A line of Gunicorn's file of settings."""

_WORKERS: Final[dict[str, tuple[str, Interface, str]]] = {
    r"(?:.*\.)?Uvicorn\w*Worker": ("uvicorn-worker", "asgi", AUTO),
    r"(?:.*\.)?(?:gevent|Gevent\w*Worker)": ("gunicorn", "wsgi", GEVENT),
    r"asgi": ("gunicorn", "asgi", AUTO),
    r"sync|gthread": ("gunicorn", "wsgi", AUTO),
}
"""Pattern of Gunicorn's worker classes → server, interface and event loop."""


@dataclass(frozen=True, slots=True)
class StartCommand:
    """What a command line starts.

    Attributes:
        interfaces: Those that it serves.
        threads: Blocking threads per worker; None: the server's default.
        app: The application, as module:attribute; empty if it is not named like that.
        source: The file that it is from.
    """

    server: str
    interfaces: Collection[Interface]
    loop: str
    threads: int | None
    app: str
    source: str

    def serves(self, interface: Interface, *, free_threaded: bool) -> bool:
        """Whether it can serve an interface, with or without the GIL."""
        able = self.loop in {AUTO, *SERVERS[self.server].loops}
        return able and interface in self.interfaces and not (free_threaded and self.loop == GEVENT)

    def __str__(self) -> str:
        return f"{self.server}, as {self.source} says"


def start_commands(place: Path, app: str) -> list[StartCommand]:
    """List what a folder's files start, the likeliest first: this application, not for developing.

    `app` is module:attribute.
    """
    found: list[tuple[bool, StartCommand]] = []
    configs = (file for pattern in _STARTING[-2:] for file in place.glob(pattern))
    settings = _SETTING.findall("\n".join(file.read_text("utf-8", "replace") for file in configs))
    options = "".join(f" --{name.replace('_', '-')} {value}" for name, value in settings)
    for file in (file for pattern in _STARTING for file in sorted(place.glob(pattern))):
        text = file.read_text("utf-8", "replace") if file.is_file() else ""
        text = f"gunicorn -c {file.name} {app}" if file.suffix == ".py" else text
        # Of a Dockerfile the last stage counts.
        for name, rest in reversed(_COMMAND.findall(_MARKS.sub(" ", text))):
            arguments = rest + options * (name == "gunicorn")
            if command := _read(name, arguments, file.relative_to(place).as_posix()):
                own = app.rpartition(".")[2] in rest
                found.append((not own or "--reload" in rest, command))
    return [command for _, command in sorted(found, key=lambda pair: pair[0])]


def _read(name: str, rest: str, source: str) -> StartCommand | None:
    """Read a server's arguments; None if its workers are of a kind that is not known."""

    def option(names: str) -> str:
        return next(iter(re.findall(rf"(?<!\S)(?:{names})[ =]*([\w.]+)", rest)), "")

    kind, loop = option("-k|--worker-class"), option("--(?:asgi-)?loop") or AUTO
    number = option("--(?:blocking-)?threads")
    threads = int(number) if number.isdigit() else None
    app = next(iter(_APP.findall(rest)), "")
    if name == "fastapi run":
        return StartCommand("uvicorn", SERVERS["uvicorn"].interfaces, AUTO, None, "", source)
    if name != "gunicorn":
        # A class of workers is Hypercorn's loop.
        return StartCommand(name, SERVERS[name].interfaces, kind or loop, threads, app, source)
    for pattern, (server, interface, usual) in _WORKERS.items():
        if re.fullmatch(pattern, kind or "sync"):
            loop = loop if usual == AUTO else usual
            threads = (threads or 1) if blocks(interface, loop) else None
            return StartCommand(server, {interface}, loop, threads, app, source)
    return None
