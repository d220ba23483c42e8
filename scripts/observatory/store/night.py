"""A night: its plan in shards, the shard of one machine, and what came of it.

A series consists of the figures of one machine, so a case that moves to another one starts a new
series. `[tool.observatory.fleet]` therefore declares which machine measures which cases.
"""

from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import ClassVar, Final, Literal, TypeVar

from pydantic import Field

from duetbench.core.errors import DeclarationError, UsageError
from duetbench.core.model import Artefact, Frozen, Plan, Run
from duetbench.core.text import some
from duetbench.host import machine, result_files
from observatory.store.points import Name, Points

_Measured = TypeVar("_Measured", Run, Points)

RUNNER: Final = "duetbench"  # label of every runner; each also has its machine's id as a label


class Shard(Frozen):
    """What one machine measures in a night."""

    number: int = Field(ge=1)
    machine: Name | None = Field(default=None, description="Null: any.")
    plan: Plan


class NightPlan(Artefact):
    """A plan that is divided among machines."""

    noun: ClassVar[str] = "a night's plan (observatory plan --output)"

    format: Literal[1] = 1
    id: Name = Field(description="Time, profile and commit, as a run's.")
    commit: str | None
    anchor: str | None = Field(default=None, description="Name; cases are compared with it.")
    shards: tuple[Shard, ...] = Field(min_length=1)

    def mark(self, measured: _Measured, number: int) -> _Measured:
        """Record in a run or in points which shard of this night it is."""
        # Machines of one model have the same id, and may begin in the same second.
        marks = {"id": f"{measured.id}-s{number}", "night": self.id, "shard": number}
        return measured.model_copy(update=marks)


def assignment(path: Path) -> tuple[NightPlan, Shard]:
    """Read a night's plan, and find this machine's shard in it; UsageError or RecordError."""
    night, here = result_files.read(NightPlan, path), machine.fingerprint().id
    shard = next((shard for shard in night.shards if shard.machine in {None, here}), None)
    if shard is None:
        raise UsageError(f"{path}: expected a shard of this machine, {here}, found none")
    return night, shard


def share_out(plan: Plan, fleet: Mapping[str, Sequence[str]]) -> tuple[Shard, ...]:
    """Give each machine of the fleet the cases that its globs match; no fleet: one shard for any.

    A case may be measured by several machines; a machine without a case has no shard.

    Raises:
        DeclarationError: No machine measures some of the cases.
    """
    if not fleet:
        return (Shard(number=1, machine=None, plan=plan),)
    shares = {
        machine: tuple(c for c in plan.cases if any(fnmatchcase(c.id, glob) for glob in globs))
        for machine, globs in fleet.items()
    }
    measured = {case.id for cases in shares.values() for case in cases}
    if homeless := [case.id for case in plan.cases if case.id not in measured]:
        raise DeclarationError(
            "pyproject.toml", "tool.observatory.fleet", f"no machine for {', '.join(homeless)}",
            "globs that match every case of the night",
        )  # fmt: skip
    used = [machine for machine in shares if shares[machine]]
    return tuple(
        Shard(number=n, machine=name, plan=plan.model_copy(update={"cases": shares[name]}))
        for n, name in enumerate(used, start=1)
    )


def missing(plan: NightPlan, shards: Collection[int], runs: Sequence[Run]) -> list[str]:
    """Say which cases of some shards have no launch in the runs that arrived, a sentence each.

    A failed launch is a result, and so is a missing interpreter: its run has the reason.
    """
    sentences = []
    for shard in (shard for shard in plan.shards if shard.number in shards):
        results = [result for run in runs if run.shard == shard.number for result in run.results]
        launched = {result.case.id for result in results if result.launches or result.missing}
        reason = "its run ended before" if results else "no run of this shard arrived"
        cases = [case.id for case in shard.plan.cases]
        if lost := [case for case in cases if case not in launched]:
            names = f"{len(lost)} of {len(cases)} cases are missing: {some(lost, at_most=10)}"
            sentences.append(f"shard {shard.number} on {shard.machine or 'any'}: {reason}: {names}")
    return sentences
