"""Verify who serves and what: each worker's interpreter, packages and loop, and every answer.

An answer has the declared status, content type and body, and comes not before its floor.
"""

import hashlib
import json
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Final, NamedTuple

import httpx
from packaging.utils import canonicalize_name
from pydantic import ValidationError

from duetbench.app.entry.duetbench_names import COLLECT, PATH, ROUTES
from duetbench.app.expectation import PAGE, check_answer, excerpt
from duetbench.app.interpreters import JIT
from duetbench.app.servers import AUTO, SERVERS
from duetbench.app.stacks import GIT
from duetbench.core.errors import FlagName, LaunchError
from duetbench.core.model import Case, Endpoint, Frozen, InterpreterRecord
from duetbench.core.text import LARGEST_ANSWER, endless, short, to_bytes
from duetbench.host.command import page_text
from duetbench.host.files import first_problem
from duetbench.load.validity import FLOOR_SLACK

_ERROR: Final = re.compile(r"(?i)\b(error|exception|not found|forbidden|unavailable|denied)\b")

MIXED: Final = 16  # most paths of a mix that are requested before and after a load


BATCH: Final = 4  # connections opened at once, per expected worker

MAX_OPEN: Final = 128
"""Connections held open until all workers have answered. If workers share a socket, most go to one
of them, and single connections could meet the same worker for ever."""

_PAUSE: Final = 0.02  # s after requests that met no new worker, which may need the cores to start


class Answer(NamedTuple):
    """A right answer."""

    seconds: float
    size: int  # bytes of its body as sent
    path: str
    body: bytes  # digest
    excerpt: str
    tells_error: bool = False  # the body reports an error
    waited: float = 0.0  # of its seconds, those in which the client did not compute


def choose_paths(endpoint: Endpoint) -> tuple[str, ...]:
    """Different paths of an endpoint, spread over all of them, the first included."""
    paths = tuple(dict.fromkeys((endpoint.path, *endpoint.paths)))
    few = min(len(paths), MIXED)
    return tuple(paths[number * len(paths) // few] for number in range(few))


def verify(
    endpoint: Endpoint, port: int, *, repeats: int = 3, timeout: float = 60.0
) -> list[Answer]:
    """Send requests to an idle server and check every answer; close the connection afterwards.

    `repeats` requests go out one after another, and one to each further path of `choose_paths`.
    LaunchError wrong_answer, no_answer, or impossible (too fast to be true).
    """
    first, *others = choose_paths(endpoint)
    with connect(port, timeout) as connection:
        paths = [first] * max(1, repeats) + others
        return [ask(connection, endpoint, path) for path in paths]


def ask(connection: HTTPConnection, endpoint: Endpoint, path: str, when: str = "") -> Answer:
    """Send one request, and check its answer; LaunchError as `verify`, which says `when` it was."""
    where = f"{endpoint.method} {path}{when}"
    began, core = time.perf_counter(), time.thread_time()
    answer, size = exchange(connection, endpoint, path, where)
    seconds = time.perf_counter() - began
    waited = seconds - (time.thread_time() - core)
    check_answer(endpoint, where, answer.status_code, answer.headers, answer.content)
    if seconds < endpoint.floor - FLOOR_SLACK:
        raise LaunchError(
            FlagName.IMPOSSIBLE,
            f"{where}: too fast to be true: expected at least {endpoint.floor:g} s, "
            f"found {seconds:.6f} s; does the handler wait as declared?",
        )
    body = answer.content
    wrong = not endpoint.expect.tells_body and tells_error(body)
    digest = hashlib.sha256(body).digest()
    return Answer(seconds, size, path, digest, excerpt(body), wrong, waited)


def right_sizes(endpoint: Endpoint, answers: Sequence[Answer]) -> frozenset[int]:
    """Sizes in bytes of right bodies, as the answers without a load show them; empty if unknown.

    One, or two that came more than once each: more are a sample of others that may follow. Without
    an expectation they are known only if the body was always the same.
    """
    sizes, bodies = Counter(answer.size for answer in answers), {a.body for a in answers}
    known = len(bodies) == 1 or (
        endpoint.expect.tells_body and len(sizes) in {1, 2} and min(sizes.values()) >= len(sizes)
    )
    return frozenset(sizes if known and not endpoint.paths else ())


def exchange(
    connection: HTTPConnection, endpoint: Endpoint, path: str, where: str
) -> tuple[httpx.Response, int]:
    """Send a request; return its answer, and the bytes of the body as sent; LaunchError if none."""
    # The headers that the generator sends, and no others: an answer may depend on any.
    headers, body = {"accept": "*/*", **endpoint.headers}, to_bytes(endpoint.body)
    try:
        connection.putrequest(
            endpoint.method, path, skip_host="host" in headers, skip_accept_encoding=True
        )
        for name, text in headers.items():
            connection.putheader(name, text)
        if body:
            connection.putheader("content-length", str(len(body)))
        connection.endheaders(body)
        reply, sent = receive(connection, where, connection.timeout or 0.0)
        # httpx decompresses the body.
        answer = httpx.Response(reply.status, headers=reply.getheaders(), content=sent)
    except (OSError, HTTPException, httpx.DecodingError) as error:
        raise LaunchError(
            FlagName.NO_ANSWER,
            f"{where}: expected an answer, found {type(error).__name__} ({error}); "
            "see the server's log",
        ) from error
    return answer, len(sent)


def connect(port: int, timeout: float) -> closing[HTTPConnection]:
    """Provide a connection to a server, opened by the first request; answers have `timeout` s."""
    return closing(HTTPConnection("127.0.0.1", port, timeout=timeout))


def receive(connection: HTTPConnection, where: str, seconds: float) -> tuple[HTTPResponse, bytes]:
    """Return the answer to a request that was sent, and its body as sent.

    Raises LaunchError if it does not end, or OSError or HTTPException.
    """
    began, server = time.monotonic(), connection.sock

    def hang_up() -> None:
        with suppress(OSError):  # it has just been closed
            server.shutdown(socket.SHUT_RDWR)

    end = threading.Timer(seconds, hang_up)
    end.daemon = True
    end.start()
    try:
        reply = connection.getresponse()
        body = reply.read(LARGEST_ANSWER + 1)
    except (OSError, HTTPException) as error:
        if time.monotonic() - began < seconds:
            raise
        body = getattr(error, "partial", b"")
    finally:
        end.cancel()
    spent = time.monotonic() - began
    if spent >= seconds or len(body) > LARGEST_ANSWER:
        problem = endless(where, min(seconds, spent), len(body))
        raise LaunchError(FlagName.NO_ANSWER, f"{problem}; see the server's log")
    return reply, body


def tells_error(body: bytes) -> bool:
    """Whether a body reports an error: JSON by its keys, a page by its title."""
    text = body[:PAGE].decode(errors="replace")
    if text.lstrip()[:1] == "<":
        return _ERROR.search(page_text(text).partition(":")[0]) is not None
    try:
        value = json.loads(body)
    except ValueError:
        return False
    return isinstance(value, dict) and (
        any(value.get(name) for name in ("error", "errors", "exception", "traceback"))
        or any(value.get(name) is False for name in ("success", "ok"))
        or value.get("status") in {"error", "fail", "failed"}
    )


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
    batch = BATCH * workers_expected
    while len(workers) < workers_expected and time.monotonic() < ends:
        with ExitStack() as stack:
            for _ in range(max(1, MAX_OPEN // batch)):
                left = ends - time.monotonic()
                if len(workers) >= workers_expected or left <= 0:
                    break
                check()
                opened = [stack.enter_context(connect(port, left)) for _ in range(batch)]
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
    if (number := len(workers)) != workers_expected:
        few = number < workers_expected
        within = f" to answer GET {PATH} within {timeout:g} s (--with ready-timeout=)"
        raise LaunchError(
            FlagName.NOT_READY if few else FlagName.SERVER_DIED,
            f"expected {workers_expected} workers{within * few}, found {number} "
            f"({', '.join(sorted(workers)) or 'none'}){problem * few}; see the server's log",
        )
    return tuple(workers[key] for key in sorted(workers))


def routes(port: int) -> tuple[str, ...]:
    """List the paths of the application; none if its server does not answer in a second.

    That loads code of ours: it is for servers of which nothing is measured.
    """
    with suppress(OSError, HTTPException, LaunchError), connect(port, 1.0) as connection:
        connection.request("GET", f"{PATH}?{ROUTES}")
        return _read(connection, PATH, 1.0).routes
    return ()


def _read(connection: HTTPConnection, path: str, seconds: float) -> Identity:
    """Read the identity of the worker that answers; OSError, HTTPException if none does in time."""
    where = f"GET {path}"
    try:
        answer, body = receive(connection, where, max(0.0, seconds))
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
