"""One run as columns: what was measured and with what, and blocks of cases × metrics.

A figure, its interval and its number of launches (`summary`) stand in four blocks.
"""

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from duetbench.core.errors import DISTURBING
from duetbench.core.metrics import HEADLINES, METRICS
from duetbench.core.model import CaseResult, InterpreterRecord, Machine, Run
from duetbench.core.model import Status as LaunchStatus
from duetbench.trend.summary import CaseSummary, summarise_case

TRENDS: Final = (
    *HEADLINES,
    *(name for name, row in METRICS.items() if row.better != "neither" and name not in HEADLINES),
)
"""Metrics that have a trend: those of which one direction is better."""

MOST_LAUNCHES: Final = 255
_LARGEST: Final = float(np.finfo(np.float32).max)
"""Two launches that have nothing in common give an interval without end."""

Kind = Literal["anchored", "load"]
Status = Literal["measured", "disturbed", "failed", "not measured"]
Figures = npt.NDArray[np.float32]
Counts = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Track:
    """What the figures of a kind of benchmark are.

    Attributes:
        interval: What `low` and `high` are, in a sentence of the data files.
        suffix: Of a candidate's id: two kinds may have the same day and locks.
        ratio: Whether they are ratios to an anchor, at the time of their stack. What another kernel
            does, it does to both sides: it is worth a mark, and begins no new series. Others are of
            launches of servers, at the time of their run.
    """

    interval: str
    suffix: str
    ratio: bool


TRACKS: Final[dict[Kind, Track]] = {
    "anchored": Track(
        interval="95 % interval of the ratio to the anchor, over duets",
        suffix="-anchored",
        ratio=True,
    ),
    "load": Track(
        interval="95 % interval of the mean over launches",
        suffix="",
        ratio=False,
    ),
}


@dataclass(frozen=True, slots=True)
class CaseState:
    """What is to be said of a case besides that it was measured without any flag.

    `disturbed`: measured, but nothing is decided from it. `flags` are sorted names; `reason` says
    why there is no figure.
    """

    status: Status
    flags: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RunHeader:
    """A run without its figures.

    Attributes:
        profile: Of anchored points the anchor's name.
        time: Start, s since 1970; of points the date of the stack.
        commit: 40 hex digits; None outside a repository.
        fingerprint: The machine in words; another one is another machine, whatever its id.
        interpreters: Name → version and build, in words.
        stacks: Name → digest of the lock, as far as it is known.
        packages: Stack → package → version.
        cases: Ids; the next three have a value for each.
        definitions: A digest of its declaration.
        metrics: Names.
        odd: Place in `cases` → what is to be said of it.
        as_of: Date as of which its stacks were resolved, where no commit has their locks.
    """

    run: str
    kind: Kind
    profile: str
    time: int
    commit: str | None
    machine: str
    fingerprint: str
    interpreters: dict[str, str]
    stacks: dict[str, str]
    packages: dict[str, dict[str, str]]
    cases: tuple[str, ...]
    definitions: tuple[str, ...]
    pythons: tuple[str, ...]
    stack_of: tuple[str, ...]
    metrics: tuple[str, ...]
    odd: dict[int, CaseState] = field(default_factory=dict)
    as_of: str | None = None

    @property
    def track(self) -> Track:
        return TRACKS[self.kind]

    @property
    def profiled(self) -> str:
        """Its profile for people, who must not take an anchor's name for one."""
        return f"anchor {self.profile}" if self.track.ratio else self.profile


@dataclass(frozen=True, slots=True, eq=False)
class RunColumns:
    """A run as columns: blocks of cases × metrics in SI units; NaN: no figure, or no interval.

    `launches` (or duets), up to 255, are what a figure rests on.
    """

    header: RunHeader
    mean: Figures
    low: Figures
    high: Figures
    launches: Counts


def empty(header: RunHeader) -> tuple[Figures, Figures, Figures, Counts]:
    """Blocks for a run's figures: none yet."""
    shape = (len(header.cases), len(header.metrics))
    nothing = np.full(shape, math.nan, dtype=np.float32)
    return nothing, nothing.copy(), nothing.copy(), np.zeros(shape, dtype=np.uint8)


def fingerprint(machine: Machine) -> str:
    """What makes it this machine, in words; kernels show a little less or more memory."""
    known = machine.model_dump(exclude={"id", "memory"}).items()
    return "; ".join(f"{key} {value}" for key, value in known if value is not None)


def builds(interpreters: Iterable[InterpreterRecord]) -> dict[str, str]:
    """Interpreters' versions and builds, in words, by name."""
    return {one.name: f"{one.version}; {one.origin}; {one.build}" for one in interpreters}


def of_run(run: Run) -> RunColumns:
    """The columns of a run; figures and intervals as everywhere (`summary`)."""
    results = run.results
    summaries = [summarise_case(result, run.launches) for result in results]
    states = (_state(*both) for both in zip(results, summaries, strict=True))
    header = RunHeader(
        run=run.id,
        kind="load",
        profile=run.profile,
        time=int(datetime.fromisoformat(run.started).timestamp()),
        commit=run.commit,
        machine=run.machine.id,
        fingerprint=fingerprint(run.machine),
        interpreters=builds(run.interpreters),
        stacks={stack.name: stack.digest for stack in run.stacks},
        packages={stack.name: stack.packages for stack in run.stacks},
        cases=tuple(result.case.id for result in results),
        definitions=tuple(
            hashlib.sha256(result.case.model_dump_json().encode()).hexdigest()[:12]
            for result in results
        ),
        pythons=tuple(result.case.python for result in results),
        stack_of=tuple(result.case.stack for result in results),
        metrics=TRENDS,
        odd={place: state for place, state in enumerate(states) if state is not None},
    )
    mean, low, high, launches = empty(header)
    for row, summary in enumerate(summaries):
        for column, name in enumerate(TRENDS):
            if (figure := summary.metrics.get(name)) is not None:
                ends = (figure.estimate, figure.low, figure.high)
                for block, value in zip((mean, low, high), ends, strict=True):
                    if value is not None:
                        block[row, column] = min(max(value, -_LARGEST), _LARGEST)
                launches[row, column] = min(figure.n, MOST_LAUNCHES)
    return RunColumns(header, mean, low, high, launches)


def _state(result: CaseResult, summary: CaseSummary) -> CaseState | None:
    flags = tuple(sorted({str(flag.name) for launch in result.launches for flag in launch.flags}))
    if summary.status == "failed":
        reasons = dict.fromkeys(failure.reason for failure in summary.failures)
        return CaseState("failed", flags, "; ".join(reasons))
    if summary.status == "not measured":
        return CaseState("not measured", flags, "the run ended before it came to this case")
    disturbed = sum(
        any(flag.name in DISTURBING for flag in launch.flags)
        for launch in result.launches
        if launch.status is LaunchStatus.OK
    )
    if 2 * disturbed >= summary.measured:
        return CaseState("disturbed", flags)
    return CaseState("measured", flags) if flags else None
