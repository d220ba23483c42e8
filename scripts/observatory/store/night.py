"""The plan of a night in shards, the shard of one machine, and the record of the night."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, Literal

from pydantic import Field

from duetbench.core.errors import UsageError
from duetbench.core.model import Artefact, Frozen, Moment, Plan, Profile, Run
from duetbench.host import files

FORMAT_VERSION: Final = 1
"""Version of both files. 1: first published format (2026-11)."""

_NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,119}$"


class Shard(Frozen):
    """What one machine measures in a night."""

    number: int = Field(ge=1)
    machine: str | None = Field(default=None, pattern=_NAME, description="Null: any.")
    plan: Plan


class NightPlan(Artefact):
    """A plan that is divided among machines."""

    noun: ClassVar[str] = "a night's plan (observatory plan --output)"

    format: Literal[1] = FORMAT_VERSION
    id: str = Field(pattern=_NAME, description="Time, profile and commit, as a run's.")
    created: Moment = Field(description="UTC, ISO 8601.")
    commit: str | None
    anchor: str | None = Field(default=None, description="Name; cases are compared with it.")
    shards: tuple[Shard, ...] = Field(min_length=1)

    def shard(self, number: int) -> Shard | None:
        return next((shard for shard in self.shards if shard.number == number), None)


class ShardRecord(Frozen):
    """Result of one shard."""

    shard: int = Field(ge=1)
    machine: str | None = Field(description="The machine of the plan; null: any.")
    planned: int = Field(ge=0, description="Number of cases.")
    runs: tuple[str, ...] = Field(default=(), description="machine/run of the received files.")
    missing: tuple[str, ...] = Field(default=(), description="Cases without any launch.")
    reason: str = Field(default="", description="Why something is missing, if known.")


class NightRecord(Artefact):
    """Result of a night: one small file, so that reports can show what is missing."""

    noun: ClassVar[str] = "the record of a night"
    place: ClassVar[str] = "nights/{0.created:.4}/{0.id}.json"

    format: Literal[1] = FORMAT_VERSION
    id: str = Field(pattern=_NAME, description="The night plan's.")
    created: Moment = Field(description="When it was planned: UTC, ISO 8601.")
    commit: str | None
    profile: Profile
    status: Literal["complete", "incomplete", "empty"] = Field(
        description="incomplete: cases are missing; empty: no launch was usable."
    )
    shards: tuple[ShardRecord, ...]

    @property
    def missing(self) -> tuple[ShardRecord, ...]:
        return tuple(shard for shard in self.shards if shard.missing)


@dataclass(frozen=True, slots=True)
class Assignment:
    """The shard that this machine measures, and the night that it belongs to."""

    night: str
    commit: str | None  # measured in this night
    shard: Shard

    @property
    def plan(self) -> Plan:
        return self.shard.plan

    def begin(self, run: Run) -> Run:
        """Record in a run's header which shard it is; raises UsageError."""
        self.require(run.machine.id, run.commit)
        return run.model_copy(update=self.marks(run.id))

    def marks(self, name: str) -> dict[str, str | int]:
        """The fields that identify the shard in a file with this name."""
        number = self.shard.number
        # Machines of one model have the same id, and may begin in the same second.
        return {"id": f"{name}-s{number}", "night": self.night, "shard": number}

    def require(self, machine: str, commit: str | None) -> None:
        """Refuse another machine or checkout than the shard's; raises UsageError."""
        number = self.shard.number
        if self.shard.machine not in {None, machine}:
            raise UsageError(
                f"shard {number} of {self.night} is for the machine {self.shard.machine}, but this "
                f"is {machine}: run it there, or make a new plan for the available machines"
            )
        if self.commit and commit and self.commit != commit:
            raise UsageError(
                f"shard {number} of {self.night} measures commit {self.commit[:12]}, but the "
                f"checkout is at {commit[:12]}: check that commit out, or make a new plan"
            )


def assignment(path: Path | None, number: int | None) -> Assignment | None:
    """Read a shard of a night's plan; None if neither a plan nor a number is given.

    Raises UsageError if one of them is missing, or the night has no such shard; or RecordError.
    """
    if path is None and number is None:
        return None
    if path is None or number is None:
        raise UsageError("--plan and --shard belong together: which night, and which part of it")
    night = files.read(NightPlan, path)
    shard = night.shard(number)
    if shard is None:
        raise UsageError(f"--shard {number}: night {night.id} has shards 1 to {len(night.shards)}")
    return Assignment(night.id, night.commit, shard)
