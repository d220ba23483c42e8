"""The shard of a night that this machine measures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from servebench.errors import UsageError
from servebench.model import Plan, Run
from servebench.night.model import Shard, read_plan


@dataclass(frozen=True, slots=True)
class Assigned:
    """A shard, and the night that it belongs to.

    Attributes:
        night: The night's id.
        commit: The commit that the night measures.
        shard: What is to be measured.
    """

    night: str
    commit: str | None
    shard: Shard

    @property
    def plan(self) -> Plan:
        """What is to be measured."""
        return self.shard.plan

    def begin(self, run: Run) -> Run:
        """Say in a run's header which shard it is.

        Raises:
            UsageError: It is of another machine or commit than the shard: its figures would stand
                in series where they do not belong.
        """
        number = self.shard.number
        if self.shard.machine not in {None, run.machine.id}:
            raise UsageError(
                f"shard {number} of {self.night} is for the machine {self.shard.machine}, and this "
                f"is {run.machine.id}: run it there, or plan anew with the machines that there are"
            )
        if self.commit and run.commit and self.commit != run.commit:
            raise UsageError(
                f"shard {number} of {self.night} measures commit {self.commit[:12]}, and the "
                f"checkout is at {run.commit[:12]}: check the former out, or plan anew"
            )
        # Machines of one model have one id, and may begin in the same second.
        marked = {"id": f"{run.id}-s{number}", "night": self.night, "shard": number}
        return run.model_copy(update=marked)


def read(path: Path | None, number: int | None) -> Assigned | None:
    """Read a shard; None if neither a plan nor a number is given.

    Raises:
        UsageError: One of them is missing, or the night has no such shard.
        RecordError: The plan cannot be read.
    """
    if path is None and number is None:
        return None
    if path is None or number is None:
        raise UsageError("--plan and --shard belong together: which night, and which part of it")
    night = read_plan(path)
    shard = night.shard(number)
    if shard is None:
        raise UsageError(f"--shard {number}: night {night.id} has shards 1 to {len(night.shards)}")
    return Assigned(night.id, night.commit, shard)
