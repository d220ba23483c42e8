"""How long a launch will take, and what remains of a run, corrected by what its launches took.

Waits, durations and drains follow from the case by arithmetic. What only a machine can tell stands
in `Costs`, and in the costs of a server's entry in `servers`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from duetbench.core.formula import evaluate
from duetbench.core.model import Case, LoadModel, Profile
from duetbench.core.protocol import RATE_WINDOWS, SLOW_SECONDS, UNIT_REQUESTS, WINDOW_SECONDS
from duetbench.project.servers import costs


class Costs:
    """What was measured on a 2-core virtual machine, in seconds where nothing else is said."""

    # Identifying all workers twice, and the fast requests of both verifications.
    probes: Final = 0.25
    # Windows of a warm-up until the throughput is steady: 5 to 10; short ones differ more.
    windows: Final[dict[Profile, float]] = {"quick": 7.5, "nightly": 6.0, "published": 6.0}
    window_gap: Final = 0.05
    generator: Final = 0.1  # its start
    row: Final = 4e-6  # writing and reading one request's
    rate: Final = 8_000  # requests/s of a closed loop without a ceiling; also the most of any load
    stop: Final = 0.2  # stopping the server and proving that it is gone
    cores: Final = 2  # of a server that a plan may count on
    # Share of its service that a paced load in flight at the deadline still has before it.
    left: Final = 0.8


PRIOR_LAUNCHES: Final = 4.0
"""Weight of the declared expectation, in launches: the correction grows in over the first few."""


@dataclass(frozen=True, slots=True)
class Expected:
    """Seconds of one launch, by its steps."""

    start: float
    verify: float
    warm_up: float
    load: float
    finish: float

    @property
    def total(self) -> float:
        return self.start + self.verify + self.warm_up + self.load + self.finish


def expected(case: Case, profile: Profile) -> Expected:
    """Work out what one launch of a case will take."""
    single = max(case.endpoint.takes, case.endpoint.floor)
    duration = case.load.duration
    # A wave shows floor and concurrency at once; what does not overlap is asked three times.
    # Afterwards once is enough: the fastest single request is known.
    asked = 1 if case.endpoint.overlap > 1 and single >= SLOW_SECONDS else UNIT_REQUESTS
    rate = min(Costs.rate, case.load.rate or math.inf, _capacity(case))
    return Expected(
        start=costs(case.server).start(case.workers),
        verify=Costs.probes + (asked + 1) * single,
        warm_up=_warm_up(case, single, profile),
        load=Costs.generator + duration + drain(case),
        finish=Costs.stop + Costs.row * duration * rate,
    )


def drain(case: Case) -> float:
    """Seconds from the end of the sending until the last answer."""
    single = max(case.endpoint.takes, case.endpoint.floor)
    connections, duration, rate = case.load.connections, case.load.duration, case.load.rate
    capacity = _capacity(case)
    if case.load.model is LoadModel.OPEN and rate is not None:
        return max(single, rate * duration / capacity - duration)
    if case.load.model is LoadModel.PACED and rate is not None:
        return Costs.left * (connections / capacity if capacity < rate else single)
    if case.slots is None or case.slots >= connections:
        # All connections move in waves: the last one ends a multiple of the service time.
        waves = math.ceil(duration / single - 0.01) if single else 0
        return max(0.0, waves * single - duration)
    uneven = costs(case.server).uneven if case.workers > 1 else 1.0
    return uneven * connections / capacity


def _warm_up(case: Case, single: float, profile: Profile) -> float:
    if single < SLOW_SECONDS:
        windows = Costs.windows[profile] if case.load.rate is None else RATE_WINDOWS
        return windows * (WINDOW_SECONDS[profile] + Costs.window_gap)
    requests = min(case.load.connections, case.slots or math.inf)
    return Costs.generator + max(single, requests / _capacity(case))


def ceiling(case: Case, *, unit: float, cores: int, rate: float | None = None) -> float | None:
    """Requests/s that arithmetic allows with single requests of `unit` s; None: undeclared."""
    if case.ceiling is None:
        return None
    return evaluate(
        case.ceiling,
        {
            "c": case.load.connections,
            "slots": case.slots or math.inf,
            "floor": case.endpoint.floor,
            "unit": unit,
            "cores": cores,
            "workers": case.workers,
            "threads": case.threads or math.inf,
            "rate": rate or math.inf,
        },
    )


def _capacity(case: Case) -> float:
    """Requests/s that the endpoint could answer, whatever is offered."""
    single = max(case.endpoint.takes, case.endpoint.floor)
    found = ceiling(case, unit=single, cores=Costs.cores)
    return math.inf if found is None else found


@dataclass(slots=True)
class RemainingTime:
    """Expected and observed seconds of a run's launches.

    What an expectation cannot know is how quick this machine starts interpreters. That is an
    overhead per launch, so the correction is additive: the mean of (observed - expected), shrunk
    towards zero while launches are few.
    """

    expected: Sequence[float]
    _errors: list[float] = field(default_factory=list)

    def observe(self, seconds: float) -> None:
        self._errors.append(seconds - self.expected[len(self._errors)])

    @property
    def correction(self) -> float:
        return sum(self._errors) / (len(self._errors) + PRIOR_LAUNCHES)

    @property
    def remaining(self) -> float:
        left = self.expected[len(self._errors) :]
        return sum(max(0.0, seconds + self.correction) for seconds in left)
