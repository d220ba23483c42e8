"""The words of detection as types: steps of series, candidates, and what was not confirmed."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Final, Literal

from pydantic import AwareDatetime, Field

from servebench.core.model import Artefact, Frozen
from servebench.record import files
from servebench.record.change import SeriesName, StackState
from servebench.record.comparison import PackageChange, Verdict

FORMAT_VERSION: Final = 1
"""Version of both files. 1: first published format (2026-11)."""

DISMISSED: Final = "dismissed"
"""Folder below `results/` for what was not confirmed."""

MOST_TRIES: Final = 3
"""A candidate that stayed undecided so often is left alone."""

_NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"


class Step(Frozen):
    """A series stands on another level from some night on."""

    series: SeriesName
    ratio: float = Field(gt=0, description="The level after over the level before.")
    strength: float = Field(description="Height of the step over the scatter beside it.")
    before_run: str = Field(description="The last run on the old level.")
    after_run: str = Field(description="The first run on the new level.")
    when: AwareDatetime = Field(description="Start of that run.")
    nights: tuple[int, int] = Field(description="Nights on the old and on the new level.")


class Candidate(Frozen):
    """Steps on one machine that begin where one stack changed; a duet has to confirm them."""

    id: str = Field(pattern=_NAME, description="Of the change record that it may become.")
    machine: str = Field(pattern=_NAME)
    when: AwareDatetime = Field(
        description="Start of the first run with the new stack, or the date of its commit."
    )
    before_run: str
    after_run: str
    base: StackState
    head: StackState
    base_commit: str | None = Field(description="Of the last run with the old stack.")
    head_commit: str | None = Field(description="Of the first run with the new one.")
    packages: tuple[PackageChange, ...]
    steps: tuple[Step, ...] = Field(min_length=1, description="Strongest first.")
    tries: int = Field(default=0, ge=0, description="Duets that left it undecided so far.")


class Candidates(Artefact):
    """What detection found."""

    what: ClassVar[str] = "candidates (servebench ci detect)"

    format: Literal[1] = FORMAT_VERSION
    candidates: tuple[Candidate, ...] = ()
    unexplained: tuple[Step, ...] = Field(
        default=(), description="Steps where no stack changed: the machine's, or our own."
    )
    known: int = Field(default=0, ge=0, description="Candidates that were judged already.")


class Dismissal(Artefact):
    """A candidate that no duet confirmed, so that it is not asked again every night."""

    what: ClassVar[str] = "a dismissal"

    format: Literal[1] = FORMAT_VERSION
    id: str = Field(pattern=_NAME, description="The candidate's.")
    machine: str
    when: AwareDatetime
    before_run: str
    after_run: str
    stack: str
    series: tuple[SeriesName, ...]
    verdict: Verdict
    tries: int = Field(ge=1)
    evidence: str | None = Field(description="Id of the latest comparison.")
    note: str = ""

    @property
    def final(self) -> bool:
        return self.verdict is Verdict.NO_CHANGE or self.tries >= MOST_TRIES


def dismissals(results: Path) -> tuple[dict[str, Dismissal], tuple[str, ...]]:
    """All dismissals by id, and sentences about those that cannot be read."""
    problems: list[str] = []
    paths = sorted((results / DISMISSED).glob("*.json"))
    found = files.attempted(paths, lambda path: (path.stem, files.read(Dismissal, path)), problems)
    return dict(found), tuple(problems)
