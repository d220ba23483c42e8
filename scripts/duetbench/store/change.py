"""Causes: releases and commits that changed something, as searches find them."""

import math
from typing import Self

from pydantic import Field, model_validator

from duetbench.core.metrics import row
from duetbench.core.model import (
    Amount,
    Frozen,
    Many,
    Ratio,
)
from duetbench.core.units import Interval


class SeriesName(Frozen):
    """One case and metric over runs on one machine."""

    machine: str
    case: str
    metric: str


class Release(Frozen):
    """The release of a package that caused a change."""

    package: str
    version: str
    previous: str | None = Field(description="The version before it; null: the package was new.")

    def __str__(self) -> str:
        return f"{self.package} {self.previous or 'new'} → {self.version}"


class Effect(Frozen):
    """A change as measured by duets: head over base, with the 95 % interval."""

    ratio: float = Field(ge=1e-3, le=1e3)
    low: float = Field(ge=1e-3, le=1e3)
    high: float = Field(ge=1e-3, le=1e3)
    duets: int = Field(ge=1)

    @property
    def interval(self) -> Interval:
        return Interval(self.ratio, self.low, self.high, self.duets)

    @model_validator(mode="after")
    def _the_interval_holds_the_ratio(self) -> Self:
        if not self.low <= self.ratio <= self.high:
            raise ValueError(f"{self.low} ≤ {self.ratio} ≤ {self.high} does not hold")
        return self


class Share(Effect):
    """Effect of releases that were changed together; the first one names the share."""

    releases: Many[Release] = Field(min_length=1)

    @property
    def names(self) -> str:
        """Its releases: `pydantic 2.11.0 → 2.12.0 with pydantic-core …`."""
        first, *others = map(str, self.releases)
        return f"{first} with {', '.join(others)}" if others else first


class Cause(Frozen):
    """Result of a search for the cause of a change; `reason`: why suspects remain."""

    whole: Effect | None = Field(description="Effect of all packages together, measured again.")
    shares: tuple[Share, ...] = Field(description="The largest first.")
    rest: Effect | None = Field(description="Effect of all packages outside the shares.")
    suspects: tuple[str, ...] = Field(description="Packages that may contain the rest.")
    reason: str


class StackState(Frozen):
    """The stack on one side of a change."""

    stack: str
    digest: str = Field(description="SHA-256 of the lock file.")
    as_of: str | None = Field(default=None, description="Date for which it was resolved.")


class Commit(Frozen):
    """A commit of a repository."""

    id: str = Field(description="40 hex digits.")
    subject: str = Field(description="The first line of its message.")
    merge: bool = False


class Trait(Frozen):
    """What differs between two commits: a figure of a case."""

    case: str
    metric: str = Field(description="`instructions`, a metric of duets, or a kind of effect.")
    ratio: Ratio = 1.0
    effect: tuple[Amount, Amount] | None = Field(
        default=None, description="Of an effect: how often a request has it, before and after."
    )

    @property
    def size(self) -> float:
        """How large it is: the logarithm; of an effect, as if a request had it once more."""
        before, after = self.effect or (0.0, self.ratio - 1)
        return abs(math.log((after + 1) / (before + 1)))

    @property
    def weight(self) -> float:
        """The size over that on which somebody acts, so that metrics can be compared."""
        return self.size / (1.0 if self.effect else math.log1p(row(self.metric).limit))


class CommitCause(Frozen):
    """The commit behind a change, or several that could not be told apart."""

    traits: tuple[Trait, ...] = Field(description="What they changed: what was searched first.")
    commits: tuple[Commit, ...]
    skipped: tuple[tuple[Commit, str], ...] = Field(
        description="Of several all but the last, each with the reason."
    )
