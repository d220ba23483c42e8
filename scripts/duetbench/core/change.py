"""Causes: releases and commits that changed something, as searches find them."""

from typing import ClassVar, Literal

from pydantic import Field

from duetbench.core.comparison import Finding, Release
from duetbench.core.model import Artefact, Frozen, Many
from duetbench.core.units import Interval


class Commit(Frozen):
    """A commit of a repository."""

    id: str = Field(description="40 hex digits.")
    subject: str = Field(description="The first line of its message.")

    def __str__(self) -> str:
        return f"{self.id[:10]} {self.subject}"


class Share(Frozen):
    """Releases, or commits, that were not told apart, with what changed where only they differ."""

    releases: Many[Release] = Field(default=(), description="The first one names the share.")
    commits: Many[Commit] = ()
    skipped: Many[str] = Field(
        default=(), description="Of several commits all but the last: why nothing tells it."
    )
    findings: Many[Finding] = Field(min_length=1, description="What was searched.")

    @property
    def names(self) -> str:
        """What it names: `pydantic 2.11.0 → 2.12.0 with pydantic-core …`."""
        first, *others = map(str, (*self.releases, *self.commits))
        return f"{first} with {', '.join(others)}" if others else first

    @property
    def interval(self) -> Interval:
        """The ratio of what was searched, head over base; 1 for what has none."""
        return self.findings[0].interval or Interval(1.0)


class Cause(Artefact):
    """Result of a search for the cause of a change; `reason`: why suspects remain."""

    noun: ClassVar[str] = "a search's result"

    format: Literal[1] = 1
    shares: Many[Share] = Field(default=(), description="The largest first.")
    suspects: Many[str] = Field(default=(), description="What may contain the rest.")
    reason: str = ""
