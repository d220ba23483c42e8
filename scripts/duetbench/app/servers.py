"""Servers: how they are started for a case.

To add a server, add one entry to `SERVERS`. It also says how the server's workers exist (as
processes or threads), so that nothing else needs to know its name.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
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
        interfaces: Application interfaces that it serves.
        loops: Event loops that it can be pinned to (WSGI servers take `none`).
        usual_loops: Those that it takes by itself if they are installed, the first before others.
        arguments: Arguments after `python -m name` for a case and a port.
        settings: Arguments that name files of `app/entry`, for what no option says.
        worker_kind: How its workers exist, on an interpreter that is free-threaded or not.
        backpressure: Connections that it accepts at once with so many workers, or None.
        exit_codes: Exit codes of a clean stop by SIGTERM (negative: ended by that signal).
    """

    name: str
    interfaces: frozenset[Interface]
    loops: frozenset[str]
    arguments: Callable[[Case, int], str]
    backpressure: Callable[[int], int | None] = lambda _workers: None
    worker_kind: Callable[[bool], Literal["process", "thread"]] = lambda _free_threaded: "process"
    exit_codes: frozenset[int] = frozenset({0})
    settings: tuple[str, ...] = ()
    usual_loops: tuple[str, ...] = ("uvloop",)

    def needs(self, loop: str) -> set[str]:
        """List the distributions that serve on a loop, which is one unless it is Python's own."""
        loops = {loop} - {AUTO, "asyncio", "none"}
        # Gunicorn's worker for gevent imports packaging, but does not require it.
        return {self.name, *loops, *({"packaging"} if loop == GEVENT else ())}


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
    if case.endpoint.interface == "asgi":
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
    return next(((key, actual, allowed) for key, actual, fits, allowed in checks if not fits), None)
