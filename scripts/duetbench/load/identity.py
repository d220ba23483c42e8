"""Ask every worker of a server for its interpreter, packages and event loop."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from typing import Final

from packaging.utils import canonicalize_name
from pydantic import ValidationError

from duetbench.app.entry.duetbench_entry import COLLECT, PATH, ROUTES
from duetbench.app.interpreters import JIT
from duetbench.app.servers import AUTO, SERVERS
from duetbench.app.stacks import GIT
from duetbench.core.errors import FlagName, LaunchError
from duetbench.core.model import Case, Frozen, InterpreterRecord
from duetbench.core.text import short
from duetbench.host.files import first_problem
from duetbench.load import verify

BATCH: Final = 4  # connections opened at once, per expected worker

MAX_OPEN: Final = 128
"""Connections held open until all workers have answered. If workers share a socket, most go to one
of them, and single connections could meet the same worker for ever."""

_PAUSE: Final = 0.02  # s after requests that met no new worker, which may need the cores to start


class Identity(Frozen):
    """A worker's description of itself; see `entry.duetbench_entry`."""

    pid: int
    python: str
    free_threaded: bool  # how it was built
    gil_enabled: bool
    jit_enabled: bool = False
    packages: dict[str, str]
    loop: str | None
    worker: str
    imported: float = 0.0  # core time of importing the application, or making it, s
    tasks: int = 0  # number of tasks of its event loop
    routes: tuple[str, ...] = ()  # paths of the application, if they were asked for


def probe(
    port: int,
    *,
    workers_expected: int,
    timeout: float = 10.0,
    check: Callable[[], None] = lambda: None,
    collect: bool = False,
) -> tuple[Identity, ...]:
    """Ask until every worker has answered; return one identity per worker, sorted by worker.

    Threads of one process without event loops cannot be distinguished: expect one worker there.
    `check` raises an error when the server is gone. With `collect` each worker collects its garbage
    before it answers. LaunchError: not_ready if fewer answer in `timeout` s, server_died if
    more do, wrong_answer if something else answers.
    """
    path, ends = f"{PATH}?{COLLECT}" if collect else PATH, time.monotonic() + timeout
    workers, problem = dict[str, Identity](), ""
    expected, batch = f"expected {workers_expected} workers", BATCH * workers_expected
    while len(workers) < workers_expected and time.monotonic() < ends:
        with ExitStack() as stack:
            for _ in range(max(1, MAX_OPEN // batch)):
                left = ends - time.monotonic()
                if len(workers) >= workers_expected or left <= 0:
                    break
                check()
                opened = [stack.enter_context(verify.connect(port, left)) for _ in range(batch)]
                before = len(workers)
                try:
                    for connection in opened:
                        connection.request("GET", path)
                    for connection in opened:
                        identity = _read(connection, path, ends - time.monotonic())
                        workers[identity.worker] = identity
                except (OSError, HTTPException) as error:
                    problem = f"; last: {type(error).__name__} {error}".rstrip()
                if len(workers) == before:
                    time.sleep(_PAUSE)
    found = f"found {len(workers)} ({', '.join(sorted(workers)) or 'none'})"
    if len(workers) < workers_expected:
        raise LaunchError(
            FlagName.NOT_READY,
            f"{expected} to answer GET {PATH} within {timeout:g} s (--with ready-timeout=), {found}"
            f"{problem}; see the server's log",
        )
    if len(workers) > workers_expected:
        raise LaunchError(FlagName.SERVER_DIED, f"{expected}, {found}; see the server's log")
    return tuple(workers[key] for key in sorted(workers))


def routes(port: int) -> tuple[str, ...]:
    """List the paths of the application; none if its server does not answer in a second.

    That loads code of ours: it is for servers of which nothing is measured.
    """
    with suppress(OSError, HTTPException, LaunchError), verify.connect(port, 1.0) as connection:
        connection.request("GET", f"{PATH}?{ROUTES}")
        return _read(connection, PATH, 1.0).routes
    return ()


def _read(connection: HTTPConnection, path: str, seconds: float) -> Identity:
    """Read the identity of the worker that answers; OSError, HTTPException if none does in time."""
    where = f"GET {path}"
    try:
        answer, body = verify.receive(connection, where, max(0.0, seconds))
    except LaunchError as error:
        raise TimeoutError(error.detail) from error
    if answer.status != HTTPStatus.OK:
        raise LaunchError(
            FlagName.WRONG_ANSWER,
            f"{where}: expected status 200, found {answer.status} with "
            f"{short(body.decode(errors='replace'), 80)!r}; see the server's log",
        )
    try:
        return Identity.model_validate_json(body)
    except ValidationError as error:
        raise LaunchError(
            FlagName.WRONG_ANSWER,
            f"{where}: expected an identity, found {short(body.decode(errors='replace'), 80)!r} "
            f"({first_problem(error)})",
        ) from error


def check_identity(
    identities: Sequence[Identity],
    case: Case,
    python: InterpreterRecord,
    packages: Mapping[str, str],
) -> None:
    """Compare every worker with the case and its interpreter; LaunchError not_ready.

    A universal lock (`packages`) also has packages of other systems, so only installed ones are
    compared, by their versions, which a commit does not tell; the server must be installed.
    """
    lock: dict[str, str] = {
        canonicalize_name(name): version
        for name, version in packages.items()
        if not version.startswith(GIT)
    }
    on, build = {True: "on", False: "off"}, {True: "without the GIL", False: "with the GIL"}
    # None: anything. A case may say itself whether the JIT is on.
    jit = None if JIT in {*case.env, *case.env_names} else on[python.jit]
    known = case.endpoint.interface == "asgi" and case.loop not in {AUTO, "none"}
    loop = case.loop if known else None
    for identity in identities:
        installed: dict[str, str] = {
            canonicalize_name(name): version for name, version in identity.packages.items()
        }
        names = sorted({SERVERS[case.server].name, *(lock.keys() & installed.keys())})
        facts = [
            ("the GIL", on[not python.free_threaded], on[identity.gil_enabled]),
            # PYTHON_GIL=1 on a free-threaded build is not a build with the GIL.
            ("a build", build[python.free_threaded], build[identity.free_threaded]),
            ("Python", python.version, identity.python),
            ("the JIT", jit, on[identity.jit_enabled]),
            ("the event loop", loop, (identity.loop or "none").partition(".")[0]),
            *((name, lock.get(name, "in the lock"), installed.get(name, "none")) for name in names),
        ]
        problems = [
            f"expected {what} {expected}, found {actual}"
            for what, expected, actual in facts
            if expected not in {None, actual}
        ]
        if problems:
            advice = "is PYTHON_GIL set, or does an extension module switch the GIL on?"
            gil = "the GIL" in problems[0]
            raise LaunchError(
                FlagName.NOT_READY,
                f"worker {identity.worker}: {'; '.join(problems)}; "
                f"{advice if gil else 'run `duetbench setup`'}",
            )
