"""Offering load with oha, and never taking a figure from a generator that failed.

oha writes its summary when the load is over and its rows after that (measured: 3 to 4 µs a row,
nothing while it sends), so a launch can go on with the server between the two: see `Generation`.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from servebench import owned, reasons
from servebench.errors import LaunchError
from servebench.flags import FlagName
from servebench.model import Load
from servebench.process import Session

if TYPE_CHECKING:
    from servebench.rows import Rows, Summary

START_SECONDS: Final = 10.0  # for oha to begin: 5 ms measured, more on a busy machine
STORE_SECONDS: Final = 120.0  # for oha to store its rows: 4 s per million measured
_POLL_SECONDS: Final = 0.05  # reading one clock and one file size: 0.1 % of a core
_LOG_TAIL: Final = 300  # characters of oha's own words in an error
_PREFIX: Final = "servebench-load"
_SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - a folder with a secret name is made in it


@dataclass(frozen=True, slots=True, eq=False)
class LoadResult:
    """A load that was offered in full.

    Attributes:
        rows: One entry per answered request.
        summary: What the rows do not hold: kinds of failures.
        seconds: From the start of the load until its last request had ended.
        client_cores: Cores that the generator used while it sent; None if the load was too short
            to tell (0.2 s).
        began: When the clock of the rows began, on the monotonic clock (s; up to 50 ms late); None
            if the load was over before anybody looked.
    """

    rows: Rows
    summary: Summary
    seconds: float
    client_cores: float | None
    began: float | None = None


def command(
    oha: Path,
    load: Load,
    url: str,
    database: Path,
    *,
    output: Path | None = None,
    threads: int = 1,
    duration: float | None = None,
) -> list[str]:
    """Write oha's command line for a load.

    Args:
        oha: The program.
        load: What to offer.
        url: Whole address of the endpoint.
        database: SQLite file for the rows; must not exist.
        output: File for the summary instead of stdout.
        threads: Threads that send: as many as there are client cores. oha would take one per
            core of the machine, whatever it is pinned to.
        duration: Seconds to send for, instead of the load's own.
    """
    paced = [] if load.rate is None else ["-q", f"{load.rate:.15g}", "--latency-correction"]
    return [
        *common_arguments(oha, timeout=load.timeout, threads=threads, output=output),
        "-c", str(load.connections),
        "-z", _milliseconds(load.duration if duration is None else duration),
        "-w",  # requests in flight at the deadline are waited for, not counted as errors
        *paced,
        "--db-url", str(database),
        url,
    ]  # fmt: skip


def common_arguments(oha: Path, *, timeout: float, threads: int, output: Path | None) -> list[str]:
    """The part of oha's command line that all loads share; see `command`."""
    return [
        str(oha), "--no-tui", "--output-format", "json",
        *([] if output is None else ["-o", str(output)]),
        "--worker-threads", str(threads), "-t", _milliseconds(timeout),
        # Answers count as they come.
        "--redirect", "0", "--disable-compression",
    ]  # fmt: skip


def _milliseconds(seconds: float) -> str:
    return f"{max(1, round(seconds * 1000))}ms"


@dataclass
class Generator:
    """A generator at work, with the folder of its files; use it as a context manager."""

    folder: Path
    session: Session

    def stop(self) -> None:
        """End the generator, whatever it does, and remove its files."""
        try:
            self.session.stop(0)
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop it, whatever happened."""
        self.stop()


@dataclass
class Generation(Generator):
    """A load with rows: `start`, `wait_load`, `collect`.

    Two of them may work side by side (duets).
    """

    load: Load
    _began: float | None = None
    _clock: list[tuple[float, float]] = field(default_factory=list)

    @classmethod
    def start(
        cls,
        oha: Path,
        load: Load,
        url: str,
        *,
        cores: Sequence[int] | None,
        folder: Path | None = None,
    ) -> Generation:
        """Start oha on the client cores.

        Args:
            oha: The program.
            load: What to offer.
            url: Whole address of the endpoint.
            cores: Client cores; None does not pin.
            folder: Where a folder for summary, rows and log is made; by default in memory, where
                writing them disturbs no disk.

        Raises:
            LaunchError: client_failed if it cannot be started.
        """
        place = scratch(folder)
        try:
            argv = command(
                oha, load, url, place / "rows.sqlite",
                output=place / "summary.json", threads=threads_for(cores),
            )  # fmt: skip
            return cls(place, client_session(argv, cores, place), load)
        except BaseException:
            shutil.rmtree(place, ignore_errors=True)
            raise

    def wait_load(self) -> None:
        """Wait until the last request has ended. The rows are not stored yet.

        Raises:
            LaunchError: client_failed if the generator ends badly or does not end in time.
        """
        while not self.over():
            self.session.wait(_POLL_SECONDS)

    def over(self) -> bool:
        """Look whether the last request has ended; ask at least every 50 ms while it sends.

        Raises:
            LaunchError: client_failed if the generator has ended badly or not in time.
        """
        summary = self.folder / "summary.json"
        if summary.exists() and summary.stat().st_size:
            return True
        code = self.session.poll()
        if code is not None:
            if code:
                raise failed(self.session, "exit code 0", f"{code}")
            return True
        self._sample(summary)
        limit = START_SECONDS + self.load.duration + self.load.timeout + START_SECONDS
        if time.monotonic() > self.session.started + limit:
            raise failed(self.session, f"the load to be over after {limit:.0f} s", "it still runs")
        return False

    def collect(self) -> LoadResult:
        """Wait for the end and read everything; the folder is removed.

        Raises:
            LaunchError: client_failed if the generator fails in any way: there is no partial
                result.
        """
        # Whoever only asks for a command line or sweeps waits for no numpy; who measures has it.
        from servebench.rows import read_rows, read_summary  # noqa: PLC0415

        self.wait_load()
        code = self.session.wait(STORE_SECONDS)
        if code is None and self.session.poll() is None:
            raise failed(
                self.session, f"its rows to be stored in {STORE_SECONDS:.0f} s", "it still runs"
            )
        if code != 0:
            raise failed(self.session, "exit code 0", f"{code}")
        summary = read_summary(reasons.read(self.folder / "summary.json"))
        # Interrupted, oha stores what it has and reports success.
        if summary.seconds < 0.99 * self.load.duration:
            raise failed(
                self.session, f"{self.load.duration:g} s of load", f"{summary.seconds:g} s"
            )
        rows = read_rows(self.folder / "rows.sqlite")
        if len(rows) != summary.answered:
            raise failed(self.session, f"{summary.answered} rows", f"{len(rows)}")
        if not len(rows) and not summary.failures:
            raise failed(self.session, "requests", "none was sent")
        result = LoadResult(rows, summary, summary.seconds, self._cores(), self._began)
        self.stop()
        return result

    def _sample(self, summary: Path) -> None:
        """Read the generator's CPU clock, but only while it sends.

        oha makes the summary's file right before it starts, and computes and stores afterwards.
        """
        now = time.monotonic()
        if self._began is None:
            if not summary.exists():
                return
            self._began = now
        if now <= self._began - _POLL_SECONDS + self.load.duration:
            with suppress(OSError):
                self._clock.append((now, _cpu_seconds(self.session.pid)))

    def _cores(self) -> float | None:
        if len(self._clock) < 4:  # with less the poll itself matters
            return None
        (begin, before), (finish, after) = self._clock[0], self._clock[-1]
        return (after - before) / (finish - begin)


def generate(
    oha: Path,
    load: Load,
    url: str,
    *,
    cores: Sequence[int] | None,
    folder: Path | None = None,
    on_load_end: Callable[[], None] | None = None,
) -> LoadResult:
    """Offer a load and read what came of it.

    Args:
        oha: The program.
        load: What to offer.
        url: Whole address of the endpoint.
        cores: Client cores; None does not pin.
        folder: Where files are made; by default in memory.
        on_load_end: Called when the last request has ended, before the rows are stored: the
            moment to read the server's clocks.

    Raises:
        LaunchError: client_failed.
    """
    with Generation.start(oha, load, url, cores=cores, folder=folder) as generation:
        generation.wait_load()
        if on_load_end is not None:
            on_load_end()
        return generation.collect()


def client_session(argv: list[str], cores: Sequence[int] | None, place: Path) -> Session:
    """Start a generator in its folder; errors as `Session.start`."""
    # Nothing of the caller's environment may change what oha does (TOKIO_WORKER_THREADS, …).
    env = {"PATH": os.environ.get("PATH", os.defpath)}
    return Session.start(
        argv, role="client", cores=cores, env=env, cwd=place, log=place / "oha.log"
    )


def failed(session: Session, expected: str, found: str) -> LaunchError:
    """The error of a generator that did something else than expected, with its own words."""
    words = " ".join(reasons.read(session.log).split())[-_LOG_TAIL:] or "nothing"
    return LaunchError(
        FlagName.CLIENT_FAILED, f"oha: expected {expected}, found {found}; it said: {words}"
    )


def sweep(folder: Path | None = None) -> None:
    """Remove the folders of dead servebench processes: in memory, their rows would stay for ever.

    Args:
        folder: Where they are; by default where `Generation.start` makes them by default.
    """
    owned.sweep(_PREFIX, _base(folder))


def scratch(folder: Path | None) -> Path:
    """Make a folder for a generator that `sweep` knows, below `folder` or in memory."""
    return owned.make(_PREFIX, _base(folder))


def _base(folder: Path | None) -> Path:
    if folder is None and os.access(_SHARED_MEMORY, os.W_OK | os.X_OK):
        return _SHARED_MEMORY
    return folder or Path(tempfile.gettempdir())


def threads_for(cores: Sequence[int] | None) -> int:
    """Threads that a generator on these cores gets."""
    return 1 if cores is None else len(cores)


def _cpu_seconds(pid: int) -> float:
    """Read the CPU clock of a whole process, in ns resolution.

    The number of that clock is what clock_getcpuclockid(3) computes on Linux.
    """
    return time.clock_gettime((~pid << 3) | 2)
