"""Anchored points: ratios of a stack to a frozen anchor, from duets.

A file has the points of one stack on one machine: of a night, or of an earlier stack that was
measured later (backfill). A point is a ratio, so that disturbances of the machine, and partly the
machine itself, cancel.
"""

import math
from collections.abc import Sequence
from typing import Annotated, ClassVar, Final, Literal

from packaging.version import InvalidVersion, Version
from pydantic import AfterValidator, AwareDatetime, ConfigDict, Field, StringConstraints
from pydantic.dataclasses import dataclass

from duetbench.core.comparison import Missing, Release
from duetbench.core.model import (
    Artefact,
    InterpreterRecord,
    Machine,
    Many,
    StackRecord,
    in_our_time,
)
from duetbench.core.units import Interval, student

NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}"
Name = Annotated[str, StringConstraints(pattern=f"^{NAME}$")]
"""Of a file, a machine or an anchor: it is also a part of an address."""

_CONFIG: Final = ConfigDict(extra="forbid")
When = Annotated[AwareDatetime, AfterValidator(in_our_time)]
"""A time with its offset from UTC."""

NORMAL: Final = 1.959964  # standard errors on either side of a 95 % interval
MOST_SERIES: Final = 500  # of a file: each has a page

Origin = Literal["night", "backfill"]


def interval(log: float, half: float, n: int = 1) -> Interval:
    """Make the interval of a ratio whose logarithm is known: `half` on either side of it."""
    return Interval(math.exp(log), math.exp(log - half), math.exp(log + half), n)


# Years of nights have half a million of them: without a dictionary and a set for each.
@dataclass(frozen=True, slots=True, kw_only=True, config=_CONFIG)
class AnchoredPoint:
    """One metric of a case, as a ratio to the anchor's."""

    metric: str = Field(description="Of the registry, or `instructions`.")
    ratio: float = Field(ge=1e-3, le=1e3, description="Geometric mean over the duets.")
    se: float = Field(ge=0, le=7, description="Standard error of the ratio's logarithm.")
    anchor: float = Field(gt=0, le=1e18, description="Mean of the anchor's figures, for display.")
    duets: int = Field(ge=1, le=10_000, description="Usable duets, or counts.")
    excluded: int = Field(ge=0, le=10_000, description="Disturbed or failed duets.")

    @property
    def log(self) -> float:
        return math.log(self.ratio)

    @property
    def half(self) -> float:
        """Half of the logarithm's interval, by Student's t over its duets, which may be few."""
        # A single count has a standard error of its own, not one from samples.
        return (student(self.duets - 1) if self.duets > 1 else NORMAL) * self.se

    @property
    def interval(self) -> Interval:
        return interval(self.log, self.half, self.duets)


@dataclass(frozen=True, slots=True, kw_only=True, config=_CONFIG)
class CasePoints:
    """The points of a case."""

    case: str
    stack: str
    python: str
    points: Many[AnchoredPoint] = Field(min_length=1)


class Points(Artefact):
    """Ratios of one stack to an anchor, case by case."""

    noun: ClassVar[str] = "a file of anchored points"
    indent: ClassVar[int | None] = None
    place: ClassVar[str] = "points/{0.machine.id}/{0.started:%Y}/{0.id}.json"

    format: Literal[2] = 2
    id: Name
    anchor: Name = Field(description="Name of the anchor.")
    origin: Origin
    label: str = Field(description="The stack in words: a date, a release, a revision.")
    when: When = Field(
        description="Date of the stack: for a night its start, else the date as of which it was "
        "resolved, or of the release."
    )
    release: Release | None = Field(default=None, description="The difference from the anchor.")
    started: When
    seconds: float = Field(ge=0, le=1e7, description="Duration without set-up.")
    duetbench: str
    commit: str | None = Field(description="The applications' commit; null outside git.")
    machine: Machine
    interpreters: tuple[InterpreterRecord, ...]
    stacks: tuple[StackRecord, ...]
    cases: tuple[CasePoints, ...] = Field(max_length=MOST_SERIES)
    missing: tuple[Missing, ...] = Field(
        default=(), max_length=MOST_SERIES, description="Cases without points, and why."
    )
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        without = f", {len(self.missing)} without" * bool(self.missing)
        return f"{self.label}: {len(self.cases)} cases with points{without}"

    @property
    def time(self) -> int:
        """Its place on a trend, s since 1970: a stack as of today has nothing later than now."""
        return int(min(self.when, self.started).timestamp())

    @property
    def as_of(self) -> str | None:
        """Date of its stacks, if no commit has their locks."""
        return f"{self.when:%Y-%m-%d}" if self.origin == "backfill" else None

    def stack(self, name: str) -> StackRecord | None:
        """Return its lock of a stack."""
        return next((stack for stack in self.stacks if stack.name == name), None)

    @property
    def version(self) -> str:
        """The release's version; empty without a release."""
        return self.release.version if self.release else ""

    @property
    def previous(self) -> str | None:
        """The release before it, measured or not."""
        return self.release.previous if self.release else None

    def point(self, case: str, metric: str) -> AnchoredPoint | None:
        points = next((each.points for each in self.cases if each.case == case), ())
        return next((point for point in points if point.metric == metric), None)

    def reason(self, case: str) -> str:
        """Say why a case has no points; empty if it has some, or was not planned."""
        return next((lost.reason for lost in self.missing if lost.case == case), "")


def order(version: str) -> tuple[bool, Version, str]:
    """Key that sorts versions: 0.9 before 0.10; strings that are no version come first."""
    try:
        return True, Version(version), version
    except InvalidVersion:
        return False, Version("0"), version


def join(parts: Sequence[Points]) -> Points:
    """Join the files of one stack, oldest first; the last measurement of a case counts."""
    if len(parts) == 1:
        return parts[0]
    cases = {case.case: case for part in parts for case in part.cases}
    missing = {case.case: case for part in parts for case in part.missing if case.case not in cases}
    # The first release of a span has no record of the one before it.
    releases = (part.release for part in reversed(parts) if part.previous)
    update = {
        "cases": tuple(cases.values()),
        "missing": tuple(missing.values()),
        "stacks": tuple({stack.name: stack for part in parts for stack in part.stacks}.values()),
        "interpreters": tuple({py.name: py for part in parts for py in part.interpreters}.values()),
        "release": next(releases, parts[-1].release),
    }
    return parts[-1].model_copy(update=update)
