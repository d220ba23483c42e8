"""One side of a duet under way: its server, its load, and what was wrong with either."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from servebench.core.errors import LaunchError
from servebench.core.model import Case, Load
from servebench.core.protocol import DUET_SECONDS, DUET_WARM_UP, DUET_WAVES, UNIT_REQUESTS
from servebench.measure import oha, warmup
from servebench.measure.identity import Identity
from servebench.measure.oha import Burst
from servebench.measure.server import Serving
from servebench.measure.testbed import Rig
from servebench.record.comparison import SideName


@dataclass(frozen=True, slots=True)
class SideCase:
    """A case as one side defines it, with the rig that it is launched on."""

    case: Case
    rig: Rig


def duet_load(case: Case, seconds: float = DUET_SECONDS) -> Load:
    """The load of a case in a duet: as declared, but for a closed loop's duration.

    Rates keep their duration too: the connections of an open load follow from it.
    """
    if case.load.rate is not None:
        return case.load
    slowest = max(case.endpoint.takes, case.endpoint.floor)
    return case.load.model_copy(update={"duration": max(seconds, DUET_WAVES * slowest)})


class SideRun:
    """One side under way. What goes wrong inside of `blamed` is noted as this side's failure."""

    def __init__(self, name: SideName, launched: SideCase, log: Path, shared: Load) -> None:
        """Prepare a side; nothing is started yet."""
        self.name, self.rig = name, launched.rig
        self.case = launched.case.model_copy(update={"load": shared})
        self.serving = Serving(self.case, self.rig, log)
        self.workers: tuple[Identity, ...] = ()
        self.unit = self.ready_time = self.load_seconds = 0.0
        self.warm_up = warmup.WarmUp(0.0, (), steady=False)
        self.metrics: dict[str, float] = {}

    @property
    def failed(self) -> bool:
        return self.serving.failed

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """Note a failure as this side's, and go on behind the block."""
        try:
            yield
        except LaunchError as error:
            self.serving.explain(error)
            self.serving.fail(error.flag, error.detail)
        except Exception as error:
            # One duet must not end the comparison, not even by a mistake of ours.
            self.serving.fail_by_mistake(error)

    def start(self) -> None:
        self.serving.start()

    def await_ready(self) -> None:
        """Wait until every worker has answered who it is."""
        self.serving.await_ready()
        self.workers = self.serving.identify()
        self.ready_time = time.monotonic() - self.serving.session.started

    def verify(self) -> None:
        """Check the answers while neither side is loaded."""
        self.unit = self.serving.verify(UNIT_REQUESTS)

    def burst(self, *, wave: bool) -> Burst:
        """Start a generator that warms up: by one full wave, or for some time."""
        if wave:
            requests = str(warmup.wave_size(self.case))
            arguments = ["-c", requests, "-n", requests]
        else:
            connections = self.case.load.connections
            if self.case.load.rate is not None:
                connections = min(connections, warmup.RATE_CONNECTIONS)
            length = f"{round(DUET_WARM_UP * 1000)}ms"
            arguments = ["-c", str(connections), "-z", length, "-w"]
        timeout = self.case.load.timeout
        return Burst.start(
            self.rig.oha, [*arguments, self.serving.url],
            timeout=timeout, limit=DUET_WARM_UP + timeout, cores=self.serving.client_cores,
        )  # fmt: skip

    def generate(self) -> oha.Generation:
        """Start the generator that is measured."""
        return oha.Generation.start(
            self.rig.oha, self.case.load, self.serving.url, cores=self.serving.client_cores
        )

    def end(self, *, in_order: bool) -> None:
        """Stop the server; a bad stop is a failure, unless the duet is void anyway."""
        if not in_order:
            self.serving.abandon()
            return
        try:
            self.serving.stop()
        except LaunchError as error:
            self.serving.fail(error.flag, error.detail)
