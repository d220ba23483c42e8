"""The load from oha. A generator that failed gives no figures.

oha writes its summary when the load is over and its rows after that (measured: 3 to 4 µs per row,
nothing while it sends). So a launch can use the server between the two: see `Generation`.
"""

import math
import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self

from duetbench.core.errors import FlagName, LaunchError
from duetbench.core.model import Endpoint, Load
from duetbench.core.text import to_bytes
from duetbench.host import paths
from duetbench.host.command import last_words, read_log
from duetbench.host.process_session import Session
from duetbench.host.tree_usage import cpu_clock
from duetbench.load.oha_results import OhaSummary, Rows, read_rows, read_summary

START_SECONDS: Final = 10.0  # for oha to start: 5 ms measured, more on a busy machine
STORE_SECONDS: Final = 120.0  # for oha to store its rows: 4 s per million measured
_SHORTEST_SECONDS: Final = 0.2  # of a load whose cores are known
_POLL_SECONDS: Final = 0.05  # between readings of a clock and a file size: 0.1 % of a core
WAVE_SECONDS: Final = 0.001  # each connection sends one request

RATE_CONNECTIONS: Final = 16
"""Most connections that warm up a paced or open load: enough to reach every worker. At low rates
one more request makes a window look unsteady, so these endpoints are warmed up in a closed loop.
There hundreds of connections would be an overload."""

SUMMARY: Final = "summary.json"
URLS: Final = "urls.txt"
_BODY: Final = "body"


@dataclass(frozen=True, slots=True)
class Client:
    """The requests of a generator to the server at `base`, and its cores (None: any)."""

    oha: Path
    load: Load
    base: str
    request: Endpoint
    cores: Sequence[int] | None = None

    def write(self, folder: Path) -> None:
        """Write the files that oha's command line names."""
        if self.request.body:
            (folder / _BODY).write_bytes(to_bytes(self.request.body))
        if self.request.paths:
            paths = (self.request.path, *self.request.paths)
            (folder / URLS).write_text("".join(f"{self.base}{path}\n" for path in paths), "utf-8")


def command(client: Client, *, rows: bool = True) -> list[str]:
    """Return oha's command line for a load, whose rows it may store in `rows.sqlite`.

    That file must not exist in its working folder, which has those of `Client.write`.
    """
    load, request = client.load, client.request
    paced = [] if load.rate is None else ["-q", f"{load.rate:.15g}", "--latency-correction"]
    headers = [f"{name}: {text}" for name, text in request.headers.items()]
    return [
        *(str(client.oha), "--no-tui", "--output-format", "json"),
        # One per core: oha would start one per core of the machine, pinned or not.
        *("--worker-threads", str(1 if client.cores is None else len(client.cores))),
        *("-t", milliseconds(load.timeout)),
        # Answers count as they are.
        *("--redirect", "0", "--disable-compression"),
        *(["-m", request.method] if request.method != "GET" else []),
        *(word for header in headers for word in ("-H", header)),
        *(["-D", _BODY] if request.body else []),
        # -w: oha waits for requests in flight at the deadline, instead of counting them as errors.
        *("-c", str(load.connections), "-z", milliseconds(load.duration), "-w"),
        *paced,
        *(["--db-url", "rows.sqlite"] if rows else []),
        *(["--urls-from-file", URLS] if request.paths else [client.base + request.path]),
    ]


def milliseconds(seconds: float) -> str:
    """Format a duration for oha, at least 1 ms."""
    return f"{max(1, round(seconds * 1000))}ms"


class Generator:
    """A running generator, with the folder of its files; use it as a context manager."""

    def __init__(self, client: Client, *, rows: bool = False) -> None:
        """Start oha, which may store rows. LaunchError load_failed."""
        self.client, self.folder = client, paths.make_scratch()
        try:
            client.write(self.folder)
            self.session = Session.start(
                [*command(client, rows=rows), "-o", SUMMARY],
                recorded=[str(client.oha)],  # requests may have private values
                role="client",
                cores=client.cores,
                # Our variables must not change what oha does (TOKIO_WORKER_THREADS, …).
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

    def end(self, seconds: float) -> OhaSummary:
        """Wait for its end, and read its summary; LaunchError load_failed."""
        code = self.session.wait(seconds)
        if code is None and self.session.poll() is None:
            raise self.failed(f"an end within {seconds:.0f} s", "it still runs")
        if code != 0:
            raise self.failed("exit code 0", f"{code}")
        return read_summary(read_log(self.folder / SUMMARY))

    def failed(self, expected: str, actual: str) -> LaunchError:
        """The error of a generator that did something else, with its output."""
        words = last_words(read_log(self.session.log))
        return LaunchError(
            FlagName.LOAD_FAILED, f"oha: expected {expected}, found {actual}; it said: {words}"
        )


class Burst(Generator):
    """A load without rows, which is not measured."""

    def __init__(self, client: Client, seconds: float, connections: int | None = None) -> None:
        """Send for `seconds` s over the load's connections, at most so many; few if it is paced."""
        load = client.load
        usual = load.connections if load.rate is None else RATE_CONNECTIONS
        number = min(load.connections, connections or usual)
        self._limit = seconds + load.timeout + 2 * START_SECONDS
        shape = {"connections": number, "duration": seconds, "rate": None}
        super().__init__(replace(client, load=load.model_copy(update=shape)))

    def collect(self) -> OhaSummary:
        """Wait until all requests have ended.

        LaunchError load_failed; wrong_answer or no_answer unless all answers are good.
        """
        summary = self.end(self._limit)
        if summary.failures:
            kinds = ", ".join(f"{number} times {text}" for text, number in summary.failures.items())
            raise LaunchError(
                FlagName.NO_ANSWER,
                f"expected an answer to every request of the warm-up, found {kinds}; "
                "see the server's log",
            )
        good, status = summary.answered, self.client.request.expect.status
        if summary.statuses.get(status, 0) != good:
            raise LaunchError(
                FlagName.WRONG_ANSWER,
                f"expected status {status} for the {good} requests of the warm-up, "
                f"found {summary.statuses}; see the server's log",
            )
        if not good:
            raise self.failed("requests", "none was sent")
        return summary


class Generation(Generator):
    """A load with rows: `wait_load`, `collect`. Duets run two side by side."""

    rows: Rows  # one per answered request; set only after a complete load
    summary: OhaSummary

    def __init__(self, client: Client) -> None:
        super().__init__(client, rows=True)
        # Start of the rows' clock, on the monotonic clock (s), less than a poll late.
        self.began = math.inf
        # Cores that it used while it sent; None if the load was too short.
        self.client_cores: float | None = None

    def wait_load(self) -> None:
        """Wait until the last request has ended, before the rows are stored; errors as `over`."""
        while not self.over():
            self.session.wait(_POLL_SECONDS)

    def over(self) -> bool:
        """Whether the last request has ended; call it at least every 50 ms while oha sends.

        Raises LaunchError load_failed if the generator failed or is late.
        """
        summary = self.folder / SUMMARY
        if summary.exists() and summary.stat().st_size:
            return True
        code = self.session.poll()
        if code is not None:
            if code:
                raise self.failed("exit code 0", f"{code}")
            return True
        if summary.exists():  # oha creates it right before it starts to send
            self.began = min(self.began, time.monotonic())
        elapsed, used = time.monotonic() - self.session.started, cpu_clock(self.session.pid)
        # After the load it computes and stores.
        if used is not None and _SHORTEST_SECONDS <= elapsed <= self.client.load.duration:
            self.client_cores = used / elapsed
        limit = START_SECONDS + self.client.load.duration + self.client.load.timeout + START_SECONDS
        if elapsed > limit:
            raise self.failed(f"the load to be over after {limit:.0f} s", "it still runs")
        return False

    def collect(self) -> Self:
        """Wait for the end, read all results and remove the folder.

        Raises LaunchError load_failed if the generator failed; no result is partial.
        """
        self.wait_load()
        summary = self.summary = self.end(STORE_SECONDS)
        # An interrupted oha stores what it has and reports success.
        if summary.seconds < 0.99 * self.client.load.duration:
            raise self.failed(f"{self.client.load.duration:g} s of load", f"{summary.seconds:g} s")
        rows = self.rows = read_rows(self.folder / "rows.sqlite")
        if len(rows) != summary.answered:
            raise self.failed(f"{summary.answered} rows", f"{len(rows)}")
        if not len(rows) and not summary.failures:
            raise self.failed("requests", "none was sent")
        self.stop()
        return self
