"""Offering load with oha, and never taking a figure from a generator that failed.

oha writes its summary when the load is over and its rows after that (measured: 3 to 4 µs a row,
nothing while it sends), so a launch can go on with the server between the two: see `Generation`.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from servebench.core.errors import LaunchError
from servebench.core.flags import FlagName
from servebench.core.model import Load
from servebench.host import proc, scratch
from servebench.host.command import log_tail, read_log
from servebench.host.session import Session

if TYPE_CHECKING:
    from servebench.measure.oha_results import OhaSummary, Rows

START_SECONDS: Final = 10.0  # for oha to begin: 5 ms measured, more on a busy machine
STORE_SECONDS: Final = 120.0  # for oha to store its rows: 4 s per million measured
_POLL_SECONDS: Final = 0.05  # reading one clock and one file size: 0.1 % of a core
_LOG_TAIL: Final = 300  # characters of oha's own words in an error
_PREFIX: Final = "servebench-load"
_SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - a folder with a secret name is made in it


@dataclass(frozen=True, slots=True, eq=False)
class LoadResult:
    """A load that was offered in full: one row per answered request, and kinds of failures.

    Attributes:
        seconds: From the start of the load until its last request had ended.
        client_cores: Cores that the generator used while it sent; None if the load was too short to
            tell (0.2 s).
        began: When the clock of the rows began, on the monotonic clock (s; up to 50 ms late); None
            if the load was over before anybody looked.
    """

    rows: Rows
    summary: OhaSummary
    seconds: float
    client_cores: float | None
    began: float | None = None


def command(
    oha: Path, load: Load, url: str, rows: Path, *, threads: int, output: Path | None = None
) -> list[str]:
    """Write oha's command line for a load; the SQLite file `rows` must not exist.

    `threads` that send: as many as there are client cores. oha would take one per core of the
    machine, whatever it is pinned to. `output` gets the summary instead of stdout.
    """
    paced = [] if load.rate is None else ["-q", f"{load.rate:.15g}", "--latency-correction"]
    return [
        *common_arguments(oha, timeout=load.timeout, threads=threads, output=output),
        "-c", str(load.connections),
        "-z", _milliseconds(load.duration),
        "-w",  # requests in flight at the deadline are waited for, not counted as errors
        *paced,
        "--db-url", str(rows),
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
        try:
            self.session.stop(0)
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


@dataclass
class Burst(Generator):
    """A load without rows, which is not measured: `start`, `collect`."""

    limit: float

    @classmethod
    def start(
        cls,
        oha: Path,
        arguments: Sequence[str],
        *,
        timeout: float,
        limit: float,
        cores: Sequence[int] | None,
    ) -> Burst:
        """Start oha on the client cores (None does not pin); LaunchError client_failed.

        `limit` is the longest time that this can take if all is well, s.
        """
        place = scratch.make(_PREFIX, scratch_base())
        common = common_arguments(
            oha, timeout=timeout, threads=threads_for(cores), output=place / "summary.json"
        )
        return cls(place, _session(place, [*common, *arguments], cores), limit)

    def collect(self) -> OhaSummary:
        """Wait for the end and read the summary; LaunchError client_failed."""
        from servebench.measure.oha_results import read_summary  # noqa: PLC0415 - see `Generation.collect`

        code = self.session.wait(self.limit + 2 * START_SECONDS)
        if code is None or code:
            found = f"it still runs after {self.limit:.0f} s" if code is None else f"{code}"
            raise failed(self.session, "exit code 0", found)
        return read_summary(read_log(self.folder / "summary.json"))


@dataclass
class Generation(Generator):
    """A load with rows: `start`, `wait_load`, `collect`. Two may work side by side (duets)."""

    load: Load
    _began: float | None = None
    _clock: list[tuple[float, float]] = field(default_factory=list)

    @classmethod
    def start(cls, oha: Path, load: Load, url: str, *, cores: Sequence[int] | None) -> Generation:
        """Start oha on the client cores (None does not pin); LaunchError client_failed."""
        place = scratch.make(_PREFIX, scratch_base())
        argv = command(
            oha, load, url, place / "rows.sqlite",
            output=place / "summary.json", threads=threads_for(cores),
        )  # fmt: skip
        return cls(place, _session(place, argv, cores), load)

    def wait_load(self) -> None:
        """Wait until the last request has ended, before the rows are stored; errors as `over`."""
        while not self.over():
            self.session.wait(_POLL_SECONDS)

    def over(self) -> bool:
        """Look whether the last request has ended; ask at least every 50 ms while it sends.

        LaunchError client_failed: the generator has ended badly or not in time.
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
        """Wait for the end, read everything and remove the folder.

        LaunchError client_failed: the generator failed in any way; no result is partial.
        """
        # Whoever only asks for a command line or sweeps waits for no numpy; who measures has it.
        from servebench.measure.oha_results import read_rows, read_summary  # noqa: PLC0415

        self.wait_load()
        code = self.session.wait(STORE_SECONDS)
        if code is None and self.session.poll() is None:
            raise failed(
                self.session, f"its rows to be stored in {STORE_SECONDS:.0f} s", "it still runs"
            )
        if code != 0:
            raise failed(self.session, "exit code 0", f"{code}")
        summary = read_summary(read_log(self.folder / "summary.json"))
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
        used = proc.cpu_clock(self.session.pid)
        if used is not None and now <= self._began - _POLL_SECONDS + self.load.duration:
            self._clock.append((now, used))

    def _cores(self) -> float | None:
        if len(self._clock) < 4:  # with less the poll itself matters
            return None
        (begin, before), (finish, after) = self._clock[0], self._clock[-1]
        return (after - before) / (finish - begin)


def failed(session: Session, expected: str, found: str) -> LaunchError:
    """The error of a generator that did something else than expected, with its own words."""
    words = log_tail(session.log, _LOG_TAIL)
    return LaunchError(
        FlagName.CLIENT_FAILED, f"oha: expected {expected}, found {found}; it said: {words}"
    )


def sweep() -> None:
    """Remove the folders of dead servebench processes; in memory, they would stay for ever."""
    scratch.sweep(_PREFIX, scratch_base())


def scratch_base() -> Path:
    """Where generators write: in memory, where that disturbs no disk, if there is room for it."""
    if os.access(_SHARED_MEMORY, os.W_OK | os.X_OK):
        return _SHARED_MEMORY
    return Path(tempfile.gettempdir())


def threads_for(cores: Sequence[int] | None) -> int:
    """Threads that a generator on these cores gets."""
    return 1 if cores is None else len(cores)


def _session(place: Path, argv: list[str], cores: Sequence[int] | None) -> Session:
    # Nothing of the caller's environment may change what oha does (TOKIO_WORKER_THREADS, …).
    env = {"PATH": os.environ.get("PATH", os.defpath)}
    try:
        return Session.start(
            argv, role="client", cores=cores, env=env, cwd=place, log=place / "oha.log"
        )
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
