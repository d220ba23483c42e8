"""The words of detection as types: steps of series, candidates, and what was not confirmed."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

from pydantic import AwareDatetime, Field, ValidationError

from servebench.changes import SeriesName, StackState
from servebench.codec import first_problem
from servebench.compare.model import PackageChange, Verdict
from servebench.errors import RecordError
from servebench.model import Frozen
from servebench.store import replace

FORMAT_VERSION: Final = 1
"""Version of both files. 1: first published format (2026-11)."""

DISMISSED: Final = "dismissed"
"""Folder below `results/` for what was not confirmed."""

MOST_TRIES: Final = 3
"""A candidate that stayed undecided so often is left alone."""

_NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
_MOST_BYTES: Final = 8_000_000


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


class Candidates(Frozen):
    """What detection found."""

    format: Literal[1] = FORMAT_VERSION
    candidates: tuple[Candidate, ...] = ()
    unexplained: tuple[Step, ...] = Field(
        default=(), description="Steps where no stack changed: the machine's, or our own."
    )
    known: int = Field(default=0, ge=0, description="Candidates that were judged already.")


class Dismissal(Frozen):
    """A candidate that no duet confirmed, so that it is not asked again every night."""

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
        """Whether it is left alone from now on."""
        return self.verdict is Verdict.NO_CHANGE or self.tries >= MOST_TRIES


def encode_candidates(found: Candidates) -> bytes:
    """The bytes of the file."""
    return (found.model_dump_json(indent=1) + "\n").encode()


def write_candidates(path: Path, found: Candidates) -> None:
    """Write what was found.

    Raises:
        RecordError: It cannot be written.
    """
    replace(path, encode_candidates(found))


def read_candidates(path: Path) -> Candidates:
    """Read what was found.

    Raises:
        RecordError: It cannot be read, or is something else.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise RecordError(f"{path}: expected at most {_MOST_BYTES:,} bytes, found more")
        return Candidates.model_validate_json(data)
    except (OSError, ValidationError) as problem:
        raise RecordError(
            _unreadable(path, "candidates (servebench ci detect)", problem)
        ) from problem


def write_dismissal(results: Path, dismissal: Dismissal) -> Path:
    """Write a dismissal, in place of an earlier one.

    Raises:
        RecordError: It cannot be written.
    """
    path = results / DISMISSED / f"{dismissal.id}.json"
    replace(path, (dismissal.model_dump_json(indent=1) + "\n").encode())
    return path


def dismissals(results: Path) -> tuple[dict[str, Dismissal], tuple[str, ...]]:
    """All dismissals by id, and sentences about those that cannot be read."""
    found, problems = {}, []
    for path in sorted((results / DISMISSED).glob("*.json")):
        try:
            found[path.stem] = Dismissal.model_validate_json(path.read_bytes())
        except (OSError, ValidationError) as problem:
            problems.append(_unreadable(path, "a dismissal", problem))
    return found, tuple(problems)


def _unreadable(path: Path, what: str, problem: OSError | ValidationError) -> str:
    return f"{path}: expected {what} of format {FORMAT_VERSION}: {first_problem(problem)}"
