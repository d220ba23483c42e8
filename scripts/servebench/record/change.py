"""Change records: where a series moved for good, with the evidence; one file per change.

A record is written when a change point has been confirmed, and read by the site. Its figures are
those of the confirming comparison and do not move any more; only `status`, `culprit` and `note` may
be filled in later. Files are `results/changes/<id>.json`.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Final, Literal, Self

from pydantic import AwareDatetime, Field, model_validator

from servebench.core.model import Artefact, Frozen
from servebench.record.comparison import PackageChange, Verdict
from servebench.record.files import read as read_file
from servebench.record.files import write

FOLDER: Final = "changes"
FORMAT_VERSION: Final = 1
"""Version of the change record. 1: first published format (2026-11)."""


class SeriesName(Frozen):
    """One case and metric over runs on one machine."""

    machine: str
    case: str
    metric: str


class Release(Frozen):
    """The release of a package that caused a change."""

    package: str
    version: str
    previous: str | None = Field(description="The version before it; null: it was not there.")


class StackState(Frozen):
    """The stack on one side of a change."""

    stack: str
    digest: str = Field(description="SHA-256 of the lock file.")
    as_of: str | None = Field(default=None, description="Date for which it was resolved.")


class ChangeRecord(Artefact):
    """One change point with its frozen evidence. Ratios are after over before."""

    what: ClassVar[str] = "a change record"

    format: Literal[1] = FORMAT_VERSION
    id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")
    status: Literal["open", "closed"]
    series: SeriesName
    others: tuple[SeriesName, ...] = Field(
        default=(), description="Series that moved with it: the same duets say so."
    )
    unplayed: tuple[SeriesName, ...] = Field(
        default=(),
        description="Series with a step at the same time, which no duet has played: whether they "
        "moved, and by this, is not known.",
    )
    when: AwareDatetime = Field(description="Start of the first run after the change.")
    before_run: str | None = Field(default=None, description="The last run before the change.")
    after_run: str | None = Field(default=None, description="The first run after the change.")
    base: StackState
    head: StackState
    packages: tuple[PackageChange, ...] = ()
    ratio: float = Field(gt=0, allow_inf_nan=False)
    low: float = Field(gt=0, allow_inf_nan=False, description="95 % interval of the ratio.")
    high: float = Field(gt=0, allow_inf_nan=False, description="95 % interval of the ratio.")
    verdict: Verdict
    culprit: Release | None = None
    evidence: str | None = Field(default=None, description="Id of the confirming comparison.")
    method: str = Field(description="How it was found and confirmed, in a sentence.")
    note: str = Field(default="", description="Why it was closed, where the release is fixed, …")

    @model_validator(mode="after")
    def _the_interval_holds_the_ratio(self) -> Self:
        if not self.low <= self.ratio <= self.high:
            raise ValueError(f"{self.low} ≤ {self.ratio} ≤ {self.high} does not hold")
        return self


def save(results: Path, record: ChangeRecord) -> Path:
    """Write a record, in place of an earlier state of it; RecordError if it cannot be written."""
    return write(results / FOLDER / f"{record.id}.json", record)


def read(path: Path) -> ChangeRecord:
    """Read one record; RecordError if it is none, or is not named as its file."""
    return read_file(ChangeRecord, path, named=True)


def files(results: Path) -> list[Path]:
    """The files of all records, by name."""
    return sorted((results / FOLDER).glob("*.json"))
