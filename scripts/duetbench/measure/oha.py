"""Offering load with oha, and no figure from a generator that failed.

oha writes its summary when the load is over and its rows after that (measured: 3 to 4 µs a row,
nothing while it sends), so a launch can go on with the server between the two: see `Generation`.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self

from duetbench.core.errors import FlagName, LaunchError
from duetbench.core.model import Endpoint, Load
from duetbench.core.text import to_bytes
from duetbench.host import proc
from duetbench.host.command import free_gb, last_words, read_log
from duetbench.host.process_session import Session
from duetbench.measure.oha_results import OhaSummary, Rows, read_rows, read_summary

START_SECONDS: Final = 10.0  # for oha to begin: 5 ms measured, more on a busy machine
STORE_SECONDS: Final = 120.0  # for oha to store its rows: 4 s per million measured
_POLL_SECONDS: Final = 0.05  # reading one clock and one file size: 0.1 % of a core
SUMMARY: Final = "summary.json"
URLS: Final = "urls.txt"
_BODY: Final = "body"
PREFIX: Final = "duetbench-load"
_SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - a folder with a secret name is made in it
_ROOM_GB: Final = 0.5  # of rows of the longest load; a container has 64 MB of such memory


@dataclass(frozen=True, slots=True)
class Client:
    """What a generator asks of the server at `base`, and on which cores (None: any).

    `public` is the request with what may be recorded of it; None: all may.
    """

    oha: Path
    load: Load
    base: str
    request: Endpoint
    cores: Sequence[int] | None = None
    public: Endpoint | None = None

    def write(self, folder: Path) -> None:
        """Write the files that its command line names."""
        if self.request.body:
            (folder / _BODY).write_bytes(to_bytes(self.request.body))
        if self.request.paths:
            paths = (self.request.path, *self.request.paths)
            (folder / URLS).write_text("".join(f"{self.base}{path}\n" for path in paths), "utf-8")


def command(client: Client, shape: Sequence[str] = (), *, inline: bool = False) -> list[str]:
    """Write oha's command line for a load; `rows.sqlite` must not exist in its working folder.

    That folder has the files of `Client.write`; `inline`: the body is in the command line instead.
    `shape` are the options that say how much is sent, in place of the client's load.
    """
    load, request = client.load, client.request
    paced = [] if load.rate is None else ["-q", f"{load.rate:.15g}", "--latency-correction"]
    # -w: requests in flight at the deadline are waited for, not counted as errors.
    whole = [*("-c", str(load.connections), "-z", milliseconds(load.duration), "-w"), *paced]
    headers = [f"{name}: {text}" for name, text in request.headers.items()]
    body = ["-d", request.body] if inline else ["-D", _BODY]
    return [
        *(str(client.oha), "--no-tui", "--output-format", "json"),
        # As many as there are cores: oha would take one per core of the machine, pinned or not.
        *("--worker-threads", str(1 if client.cores is None else len(client.cores))),
        *("-t", milliseconds(load.timeout)),
        # Answers count as they come.
        *("--redirect", "0", "--disable-compression"),
        *(["-m", request.method] if request.method != "GET" else []),
        *(word for header in headers for word in ("-H", header)),
        *(body if request.body else []),
        *(shape or (*whole, "--db-url", "rows.sqlite")),
        *(["--urls-from-file", URLS] if request.paths else [client.base + request.path]),
    ]


def milliseconds(seconds: float) -> str:
    """A duration as oha reads it, 1 ms at least."""
    return f"{max(1, round(seconds * 1000))}ms"


class Generator:
    """A generator at work, with the folder of its files; use it as a context manager."""

    def __init__(self, client: Client, shape: Sequence[str] = ()) -> None:
        """Start oha, with a load of another `shape` than the client's; LaunchError client_failed.

        What is private in its command line is in no record of the session.
        """
        self.client, self.folder = client, proc.make_scratch(PREFIX, scratch_base())
        public = replace(client, request=client.public or client.request)
        try:
            client.write(self.folder)
            self.session = Session.start(
                [*command(client, shape), "-o", SUMMARY],
                recorded=[*command(public, shape), "-o", SUMMARY],
                role="client",
                cores=client.cores,
                # Nothing of ours may change what oha does (TOKIO_WORKER_THREADS, …).
                env={"PATH": os.environ.get("PATH", os.defpath)},
                cwd=self.folder,
                log=self.folder / "oha.log",
            )
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise

    def stop(self) -> None:
        try:
            self.session.stop(0)
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def failed(self, expected: str, actual: str) -> LaunchError:
        """The error of a generator that did something else, with its own words."""
        words = last_words(read_log(self.session.log))
        return LaunchError(
            FlagName.CLIENT_FAILED, f"oha: expected {expected}, found {actual}; it said: {words}"
        )


class Generation(Generator):
    """A load with rows: `wait_load`, `collect`. Two may work side by side (duets)."""

    rows: Rows  # one per answered request; only of a load that was offered in full
    summary: OhaSummary

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self.load = client.load
        # Called from the middle of the load on, until it gives something.
        self.midway: Callable[[], object] = lambda: False
        # When the clock of the rows began, on the monotonic clock (s; up to 50 ms late); None: the
        # load was over before anybody looked.
        self.began: float | None = None
        self._clock: list[tuple[float, float]] = []

    def wait_load(self) -> None:
        """Wait until the last request has ended, before the rows are stored; errors as `over`."""
        while not self.over():
            self.session.wait(_POLL_SECONDS)

    def over(self) -> bool:
        """Look whether the last request has ended; ask at least every 50 ms while it sends.

        LaunchError client_failed: the generator has ended badly or not in time.
        """
        summary = self.folder / SUMMARY
        if summary.exists() and summary.stat().st_size:
            return True
        code = self.session.poll()
        if code is not None:
            if code:
                raise self.failed("exit code 0", f"{code}")
            return True
        self._sample(summary)
        limit = START_SECONDS + self.load.duration + self.load.timeout + START_SECONDS
        if time.monotonic() > self.session.started + limit:
            raise self.failed(f"the load to be over after {limit:.0f} s", "it still runs")
        return False

    def collect(self) -> Self:
        """Wait for the end, read everything and remove the folder.

        LaunchError client_failed: the generator failed in any way; no result is partial.
        """
        self.wait_load()
        code = self.session.wait(STORE_SECONDS)
        if code is None and self.session.poll() is None:
            raise self.failed(f"its rows to be stored in {STORE_SECONDS:.0f} s", "it still runs")
        if code != 0:
            raise self.failed("exit code 0", f"{code}")
        summary = self.summary = read_summary(read_log(self.folder / SUMMARY))
        # Interrupted, oha stores what it has and reports success.
        if summary.seconds < 0.99 * self.load.duration:
            raise self.failed(f"{self.load.duration:g} s of load", f"{summary.seconds:g} s")
        rows = self.rows = read_rows(self.folder / "rows.sqlite")
        if len(rows) != summary.answered:
            raise self.failed(f"{summary.answered} rows", f"{len(rows)}")
        if not len(rows) and not summary.failures:
            raise self.failed("requests", "none was sent")
        self.stop()
        return self

    def _sample(self, summary: Path) -> None:
        """Read the generator's CPU clock, but only while it sends.

        oha makes the summary's file right before it starts, and computes and stores afterwards.
        """
        now = time.monotonic()
        if self.began is None:
            if not summary.exists():
                return
            self.began = now
        if now >= self.began + self.load.duration / 2 and self.midway():
            self.midway = lambda: False
        used = proc.cpu_clock(self.session.pid)
        if used is not None and now <= self.began - _POLL_SECONDS + self.load.duration:
            self._clock.append((now, used))

    @property
    def client_cores(self) -> float | None:
        """Cores that it used while it sent; None if the load was too short to tell (0.2 s)."""
        if len(self._clock) < 4:  # with less the poll itself matters
            return None
        (begin, before), (finish, after) = self._clock[0], self._clock[-1]
        return (after - before) / (finish - begin)


def scratch_base() -> Path:
    """Where generators write: in memory, where that disturbs no disk, if there is room for it."""
    usable = os.access(_SHARED_MEMORY, os.W_OK | os.X_OK)
    if usable and free_gb(_SHARED_MEMORY) >= _ROOM_GB:
        return _SHARED_MEMORY
    return Path(tempfile.gettempdir())
