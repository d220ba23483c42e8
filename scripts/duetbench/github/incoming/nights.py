"""Checks a run that a shard sent against the night's plan and the checkout. Pure.

A machine of the fleet can lie about its figures, which nobody else has seen, within the bounds of
their metrics and below the case's ceiling. It cannot speak for another machine that the plan names,
measure other cases, another commit or other packages, or give readers something to run.
"""

import re
from datetime import UTC, datetime
from typing import Final

from duetbench.core import units
from duetbench.core.errors import ArtifactError
from duetbench.core.formula import NO_UNIT, FormulaError
from duetbench.core.model import CaseResult, Machine, Run
from duetbench.core.text import shown
from duetbench.github.incoming.facts import (
    Checkout,
    decoded,
    require,
    require_commands,
    require_machine,
    require_time,
    rig_of,
)
from duetbench.measure.validity import CEILING
from duetbench.store import store
from duetbench.store.night import NightPlan, Shard
from duetbench.store.points import Points

_ARTIFACT: Final = re.compile(r"shard-(\d{1,4})")
_SHORTEST_S: Final = 0.1
"""Of a load window; with less nothing can be said of a rate."""


def run(data: bytes, artifact: str, night: NightPlan, trusted: Checkout, now: datetime) -> Run:
    """Read and check one run file; raises ArtifactError."""
    found = decoded(store.decode, data)
    shard = shard_of(found, artifact, night)
    created = datetime.fromisoformat(night.created).astimezone(UTC)
    _require_header(found, shard, night, trusted)
    _require_times(found, created, now)
    planned = {case.id: case for case in shard.plan.cases}
    if len({result.case.id for result in found.results}) != len(found.results):
        raise ArtifactError("a case twice")
    for result in found.results:
        case = planned.get(result.case.id)
        if case is None:
            raise ArtifactError(f"the case {shown(result.case.id)}, which shard {shard.number} of "
                                "the plan does not have")  # fmt: skip
        if case != result.case:
            raise ArtifactError(f"case {case.id} with another definition than the plan's")
        rounds = [launch.round for launch in result.launches]
        if len(set(rounds)) != len(rounds) or any(r >= shard.plan.launches for r in rounds):
            raise ArtifactError(
                f"launches {shown(str(rounds))} of case {case.id}, expected each of "
                f"{shard.plan.launches} at most once"
            )
        _require_possible(result, found.machine)
        require_commands(result.commands, case, found.machine)
    return found


def shard_of(found: Run | Points, artifact: str, night: NightPlan) -> Shard:
    """The shard that a file says it is of; ArtifactError if that is none of the plan's."""
    require("night", night.id, found.night)
    shard = None if found.shard is None else night.shard(found.shard)
    if shard is None:
        raise ArtifactError(f"shard {found.shard}, which the plan does not have")
    if (named := _ARTIFACT.fullmatch(artifact)) is not None:
        require(f"shard of artifact {artifact}", int(named[1]), shard.number)
    return shard


def require_origin(found: Run | Points, shard: Shard, night: NightPlan, trusted: Checkout) -> None:
    """Refuse another commit, packages, interpreters or machine than planned: ArtifactError."""
    require("commit", night.commit, found.commit)
    trusted.require_stacks(found.stacks)
    trusted.require_interpreters(found.interpreters)
    require_machine(found.machine)
    if shard.machine is not None:
        require(f"machine of shard {shard.number}", shard.machine, found.machine.id)
    elif found.machine.id in {other.machine for other in night.shards}:
        raise ArtifactError(
            f"shard {shard.number} from machine {found.machine.id}, which has a shard of its own"
        )


def _require_header(found: Run, shard: Shard, night: NightPlan, trusted: Checkout) -> None:
    plan = shard.plan
    require_origin(found, shard, night, trusted)
    require("uncommitted changes", False, found.dirty)
    require("profile", plan.profile, found.profile)
    require("launches", plan.launches, found.launches)
    require("seed", plan.seed, found.seed)
    trusted.require_tools(found.duetbench, found.oha)


def _require_times(found: Run, created: datetime, now: datetime) -> None:
    require_time("start of the run", found.started, created, now)
    if found.finished is not None:
        require_time("end of the run", found.finished, created, now)
    for result in found.results:
        for launch in result.launches:
            require_time(f"start of a launch of {result.case.id}", launch.started, created, now)
    start = store.run_id(found.started, found.profile, found.commit)
    if not re.fullmatch(rf"{re.escape(start)}([-.][a-z0-9-]{{1,20}})?", found.id):
        raise ArtifactError(f"id of the run: expected {start}, found {shown(found.id)}")


def _require_possible(result: CaseResult, machine: Machine) -> None:
    """No throughput is above what the case's ceiling allows, whatever the launch says it is."""
    case, rig = result.case, rig_of(machine)
    for launch in result.launches:
        found = launch.metrics.get("throughput")
        if found is None:
            continue
        try:
            allowed = rig.ceiling(case, NO_UNIT)
        except FormulaError as error:
            raise ArtifactError(f"case {case.id}: no ceiling: {error.reason}") from error
        if allowed is None:
            continue
        # One tick more than the rate allows: n of them span n - 1 intervals.
        most = allowed * CEILING + 1 / max(launch.metrics.get("window", 0.0), _SHORTEST_S)
        if found > most:
            raise ArtifactError(
                f"case {case.id}: expected a throughput of at most {units.rate(allowed)}, its "
                f"ceiling, found {units.rate(found)}: the measurement is wrong"
            )
