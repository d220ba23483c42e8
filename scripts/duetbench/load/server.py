"""One server of one case: started, verified, watched, stopped, and proven to be gone."""

import math
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import fmean
from typing import Final, Self

from duetbench.app import hints
from duetbench.app.programs import identify
from duetbench.app.servers import SERVERS
from duetbench.app.testbed import SideCase
from duetbench.app.workspace import Workspace
from duetbench.core.errors import FlagName, LaunchError
from duetbench.core.model import Case, Flag, Launch, Status
from duetbench.core.units import utc_now
from duetbench.host import ports
from duetbench.host.command import AT, last_words, read_log, scrub
from duetbench.host.process_session import Session
from duetbench.host.tree_usage import Edge, edge
from duetbench.load import verify
from duetbench.load.oha import Client

GRACE_SECONDS: Final = 10.0  # for a clean stop after the last answer
FREE_SECONDS: Final = 5.0  # for the kernel to close a stopped server's listening socket

SLOW_SECONDS: Final = 0.1
"""Endpoints that take longer are warmed up by one wave, as windows of a second are too short."""

UNIT_REQUESTS: Final = 3
"""Single requests to the idle server, the fastest of which is the unit of its ceiling."""

_SEE_LOG: Final = "see the server's log"  # end of messages that the server's output may explain
_POLL_SECONDS: Final = 0.02
_TRACEBACK_SECONDS: Final = 0.5


class Serving:
    """The server of one case, with the flags raised so far."""

    def __init__(self, side: SideCase, log: Path) -> None:
        self.testbed, self.log = side.testbed, log
        self.began, self.started = time.monotonic(), utc_now()
        self.server = SERVERS[side.case.server]
        self.workers: tuple[verify.Identity, ...] = ()
        self.ready_time = 0.0  # s from the start until every worker had answered
        self.import_time = 0.0  # core time of a worker, s
        self.port = ports.free_port()
        self.workspace = Workspace(side, self.port, log)
        self._session: Session | None = None
        self._ending = False
        self.take(side.case)

    def take(self, case: Case) -> None:
        """Switch to a case with the same server command, and reset what the previous one left."""
        self.case = case
        self.flags: list[Flag] = []
        self.answers: list[verify.Answer] = []  # right answers from verification
        self.unit = math.inf  # s of the fastest single request to the idle server
        self._earlier = len(read_log(self.log))  # characters of the log from previous cases
        self._fill_in()

    @property
    def side(self) -> SideCase:
        """Its present case, and what that is launched on."""
        return SideCase(self.case, self.testbed)

    def _fill_in(self) -> None:
        """Complete the request as it is sent, with all values, so it is recorded nowhere."""
        testbed = self.testbed
        self.request = request = self.workspace.fill_in(self.case.endpoint)
        cores = self.side.client_cores if testbed.machine.pinned else None
        base = f"http://127.0.0.1:{self.port}"
        self.client = Client(testbed.oha, self.case.load, base, request, cores)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the server at once, if it lives; a first failure explains a second one."""
        with suppress(LaunchError) if self.failed else self.blamed():
            self.kill()

    @property
    def session(self) -> Session:
        if self._session is None:
            raise RuntimeError(f"{self.case.id}: no server was started")
        return self._session

    @property
    def failed(self) -> bool:
        return any(flag.kind == "void" for flag in self.flags)

    def fail(self, flag: FlagName, detail: str) -> None:
        """Raise a flag, with private values hidden in its detail; a warning fails nothing.

        A detail that refers to the server's log gets its traceback, if there is one, and its path.
        """
        if detail.endswith(_SEE_LOG):
            detail = f"{detail.removesuffix(f'; {_SEE_LOG}')}{self._traceback()}"
            routes = verify.routes(self.port) if flag is FlagName.WRONG_ANSWER else ()
            advice = hints.advise(self.side, detail, routes)
            detail += f"{advice and f'. {advice}'}{AT}{self.log}"
        self.flags.append(Flag(name=flag, detail=scrub(self.workspace.hide(detail))))

    def _traceback(self) -> str:
        """Quote the server's traceback, which follows its answer in a moment."""
        time.sleep(_TRACEBACK_SECONDS)
        log = read_log(self.log)[self._earlier :]
        # Other output of a server is not worth quoting.
        words = last_words(self.workspace.hide_values(log))
        return f"; the server said: {words}" if "Traceback" in log else ""

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """Record exceptions of the block as this server's failure, and continue after it."""
        try:
            yield
        except LaunchError as error:
            code = None if self._session is None or self._ending else self._session.poll()
            # A dead server is the cause of whatever fails, so its flag comes first.
            if code is not None and error.flag not in {FlagName.NOT_READY, FlagName.SERVER_DIED}:
                self.fail(FlagName.SERVER_DIED, f"exit code {code}; {self._log_words()}")
            self.fail(error.flag, error.detail)
        except Exception as error:
            # A defect of ours must not end all launches.
            with self.log.open("a") as file:
                traceback.print_exc(file=file)
            self.fail(
                FlagName.HARNESS_ERROR,
                f"{type(error).__name__}: {error}; the traceback is in the launch's log"
                f"{AT}{self.log}",
            )

    def _log_words(self) -> str:
        """Quote the log, with what to do about it."""
        text = self.workspace.hide_values(read_log(self.log))
        advice = hints.advise(self.side, text)
        return f"it said: {last_words(text)}{advice and f'. {advice}'}{AT}{self.log}"

    def start(self) -> None:
        """Run the case's commands `before`, check that the port is free, and start the server."""
        self.workspace.open()
        ports.require_free(self.port)
        self._session = Session.start(
            self.side.server_argv(self.port),
            role="server",
            cores=self.side.server_cores if self.testbed.machine.pinned else None,
            env=self.workspace.environment(),
            cwd=self.workspace.folder,
            log=self.log,
        )

    def await_port(self, poll: float = _POLL_SECONDS) -> None:
        """Wait until a worker listens, without disturbing it by requests; LaunchError not_ready.

        What the server logs tells nothing: the application may configure its logging.
        """
        server, deadline = self.server, time.monotonic() + self.case.ready_timeout
        while not ports.listening(self.port, [ports.IPV4]):
            self.require_running(f"{server.name} to start")
            if time.monotonic() > deadline:
                raise LaunchError(
                    FlagName.NOT_READY,
                    f"{server.name} accepted no connection within {self.case.ready_timeout:g} "
                    f"s; if it needs longer, set --with ready-timeout=; {self._log_words()}",
                )
            self.session.wait(poll)

    def meet(self) -> None:
        """Wait until every worker serves, identify them, and log in; LaunchError not_ready."""
        self.await_port()
        self.workers = self.identify()
        self.ready_time = time.monotonic() - self.session.started
        self.import_time = fmean(worker.imported for worker in self.workers)
        self.log_in()

    def log_in(self) -> None:
        """Become a client that is logged in, if that is declared; LaunchError not_ready."""
        login = self.workspace.login
        if login is None or self.workspace.identity:
            return
        where = f"--login {login.method} {login.path}"
        with verify.connect(self.port, self.case.load.timeout) as connection:
            answer, _ = verify.exchange(connection, login, login.path, where)
        headers = answer.headers.multi_items()
        try:
            given = identify(
                (answer.status_code, headers, answer.content), self.testbed.subject.target.token
            )
        except ValueError as error:
            raise LaunchError(FlagName.NOT_READY, f"{where}: {error}; {_SEE_LOG}") from None
        self.workspace.identify(given)
        self._fill_in()

    def identify(self, *, collect: bool = False) -> tuple[verify.Identity, ...]:
        """Ask every worker for its identity, and compare it with the case; see `verify.probe`."""
        case, python = self.case, self.side.interpreter
        asgi = case.endpoint.interface == "asgi"
        # Event loops distinguish the threads of one process; WSGI has none.
        visible = asgi or self.server.worker_kind(python.free_threaded) == "process"
        identities = verify.probe(
            self.port,
            workers_expected=case.workers if visible else 1,
            timeout=self.case.ready_timeout,
            check=self.require_running,
            collect=collect,
        )
        verify.check_identity(identities, case, python, self.side.stack.packages)
        return identities

    def edge(self) -> Edge:
        """Read the CPU of its processes now."""
        return edge(self.session.members)

    def require_running(self, what: str = "an answer", flag: FlagName = FlagName.NOT_READY) -> None:
        """Check that the server runs while `what` is expected of it; LaunchError `flag`."""
        if (code := self.session.poll()) is not None:
            how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
            raise LaunchError(
                flag, f"expected {what}, but {self.server.name} {how}; {self._log_words()}"
            )

    def require_same(self, *, collect: bool = False) -> None:
        """Identify the workers once more; LaunchError server_died if they have changed.

        With `collect` each collects its garbage. CPython walks all that an application has imported
        once more, some hundred requests after its start, and then rarely. In the load of one side
        that would look like a cost of requests.
        """
        earlier, self.workers = self.workers, self.identify(collect=collect)
        before, now = {w.worker for w in earlier}, {w.worker for w in self.workers}
        if before != now:
            raise LaunchError(
                FlagName.SERVER_DIED,
                f"expected the workers {sorted(before)} to stay, found {sorted(now)}",
            )

    def verify(self, repeats: int) -> None:
        """Check the answers of the idle server."""
        timeout = min(self.case.load.timeout, self.testbed.patience)
        answers = verify.verify(self.request, self.port, repeats=repeats, timeout=timeout)
        self.unit = min(self.unit, *(answer.seconds for answer in answers))
        self.answers += answers
        wrong = next((answer for answer in answers if answer.tells_error), None)
        if wrong and not any(flag.name is FlagName.ERROR_INSIDE for flag in self.flags):
            self.fail(
                FlagName.ERROR_INSIDE,
                f"{wrong.path}: found {wrong.excerpt} with status {self.request.expect.status}; if "
                f"that is an error, fix the request, or declare the body; {_SEE_LOG}",
            )

    @property
    def slow(self) -> bool:
        """Whether it is too slow for windows; then one full wave warms it up."""
        return max(self.unit, self.case.endpoint.floor) >= SLOW_SECONDS

    def require_ours(self) -> None:
        """Check that only our server listens on its port; LaunchError stray_process."""
        if foreign := ports.listeners(self.port, self.session.members()):
            raise LaunchError(
                FlagName.STRAY_PROCESS,
                f"expected only our server on port {self.port}, but {'; '.join(foreign)}",
            )

    def result(self, metrics: dict[str, float]) -> Launch:
        """The launch that has ended, with its figures if it did not fail."""
        return Launch(
            case=self.case.id,
            round=0,
            order=0,
            started=self.started,
            seconds=time.monotonic() - self.began,
            status=Status.FAILED if self.failed else Status.OK,
            flags=tuple(self.flags),
            metrics={} if self.failed else metrics,
        )

    @property
    def ended(self) -> bool:
        """Whether its master does not run."""
        return self._session is None or self._session.poll() is not None

    def stop(self) -> None:
        """Stop the server, if it was started, and check that nothing of it is left.

        A server that hangs on SIGTERM gets a warning, stop_timeout. LaunchError stray_process,
        server_died (a bad exit code) or not_ready.
        """
        server, killed = self.server, self.kill(GRACE_SECONDS)
        if self._session is None:
            return
        if killed:
            detail = (
                f"expected {server.name} to end by itself within {GRACE_SECONDS:g} s of SIGTERM, "
                f"but {len(killed)} of its processes had to be killed"
            )
            if self.session.pid not in killed:  # its orphans may have served requests
                raise LaunchError(FlagName.STRAY_PROCESS, detail)
            self.fail(FlagName.STOP_TIMEOUT, detail)
        elif (code := self.session.poll()) not in server.exit_codes:
            raise LaunchError(
                FlagName.SERVER_DIED,
                f"expected {server.name} to end with one of {sorted(server.exit_codes)}, found "
                f"{code}; {self._log_words()}",
            )

    def kill(self, grace: float = 0) -> list[int]:
        """End the server, if it was started, and close its workspace even if that fails.

        Returns the pids that did not end within `grace` s. LaunchError stray_process or not_ready.
        """
        self._ending = True
        with self.workspace:
            killed = self._session.stop(grace) if self._session else []
            if self._session:
                ports.require_free(self.port, FREE_SECONDS)
            return killed
