"""The words of a night as types: its plan in shards, and the record of what came of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal, Self, TypeVar

from pydantic import Field, ValidationError, model_validator

from servebench.codec import first_problem
from servebench.errors import RecordError
from servebench.model import Frozen, Plan, Profile
from servebench.store import replace

FORMAT_VERSION: Final = 1
"""Version of both files. 1: first published format (2026-11)."""

FOLDER: Final = "nights"
_MOST_BYTES: Final = 16_000_000  # a plan of hundreds of shards is a tenth of it
_NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,119}$"
_Model = TypeVar("_Model", bound=Frozen)


class Shard(Frozen):
    """What one machine measures in a night."""

    number: int = Field(ge=1)
    machine: str | None = Field(
        default=None, pattern=_NAME, description="Id of the machine; null: whichever takes it."
    )
    expected_seconds: float = Field(ge=0)
    plan: Plan


class NightPlan(Frozen):
    """A plan shared out over machines."""

    format: Literal[1] = FORMAT_VERSION
    id: str = Field(pattern=_NAME, description="When, what and of which commit, as of a run.")
    created: str = Field(description="UTC, ISO 8601.")
    commit: str | None
    calibration: str | None = Field(
        default=None, description="The case that every shard measures: it shows the machines."
    )
    shards: tuple[Shard, ...] = Field(min_length=1)
    notes: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _numbered(self) -> Self:
        numbers = [shard.number for shard in self.shards]
        if numbers != list(range(1, len(numbers) + 1)):
            raise ValueError(f"shards are numbered from 1, found {numbers}")
        return self

    def shard(self, number: int) -> Shard | None:
        """The shard of a number, if there is one."""
        return next((shard for shard in self.shards if shard.number == number), None)


class ShardRecord(Frozen):
    """What came of one shard."""

    shard: int = Field(ge=1)
    machine: str | None = Field(description="That it was planned for; null: whichever.")
    planned: int = Field(ge=0, description="Cases.")
    runs: tuple[str, ...] = Field(default=(), description="machine/run of the files that came.")
    missing: tuple[str, ...] = Field(default=(), description="Cases without any launch.")
    failed: tuple[str, ...] = Field(default=(), description="Cases without a usable launch.")
    reason: str = Field(default="", description="Why something is missing, as far as it is known.")


class NightRecord(Frozen):
    """What came of a night; one small file, so that what is missing can be shown."""

    format: Literal[1] = FORMAT_VERSION
    id: str = Field(pattern=_NAME, description="The night plan's.")
    created: str = Field(description="When it was planned: UTC, ISO 8601.")
    commit: str | None
    profile: Profile
    status: Literal["complete", "incomplete", "empty"] = Field(
        description="incomplete: cases are missing; empty: no launch was usable."
    )
    shards: tuple[ShardRecord, ...]

    @property
    def missing(self) -> tuple[ShardRecord, ...]:
        """The shards of which something is missing."""
        return tuple(shard for shard in self.shards if shard.missing)

    @property
    def path(self) -> str:
        """Where it belongs below `results/`."""
        return f"{FOLDER}/{self.created[:4]}/{self.id}.json"


def encode(value: NightPlan | NightRecord) -> bytes:
    """The bytes of either file."""
    return (value.model_dump_json(indent=1) + "\n").encode()


def write_plan(path: Path, plan: NightPlan) -> None:
    """Write a night's plan.

    Raises:
        RecordError: It cannot be written.
    """
    replace(path, encode(plan))


def read_plan(path: Path) -> NightPlan:
    """Read a night's plan.

    Raises:
        RecordError: It cannot be read, or is none.
    """
    return _read(NightPlan, path, "a night's plan (servebench plan --output)")


def read_record(path: Path) -> NightRecord:
    """Read what came of a night.

    Raises:
        RecordError: It cannot be read, is none, or is not named as its file.
    """
    record = _read(NightRecord, path, "the record of a night")
    if path.stem != record.id:
        raise RecordError(
            f"{path}: expected the night's id as the file's name, found id {record.id!r}; rename "
            "one of them"
        )
    return record


def records(results: Path) -> Iterator[NightRecord]:
    """The records of all nights, oldest first.

    Raises:
        RecordError: One of them cannot be read.
    """
    found = sorted((results / FOLDER).glob("*/*.json"), key=lambda path: path.name)
    yield from (read_record(path) for path in found)


def _read(kind: type[_Model], path: Path, what: str) -> _Model:
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as problem:
        raise RecordError(f"{path}: cannot be read: {problem.strerror}") from problem
    if len(data) > _MOST_BYTES:
        raise RecordError(f"{path}: expected {what}, found more than {_MOST_BYTES:,} bytes")
    try:
        return kind.model_validate_json(data)
    except ValidationError as problem:
        raise RecordError(
            f"{path}: expected {what} of format {FORMAT_VERSION}: {first_problem(problem)}"
        ) from problem
