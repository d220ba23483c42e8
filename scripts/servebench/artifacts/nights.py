"""Whether a run that a shard sent is one of the night. Pure.

Nothing in it may be of its own choice but what it has measured.

A machine of the fleet can lie about its figures, which nobody else has seen, as far as arithmetic
goes: each is within the bounds of its metric (`metrics`; asked by whatever reads a run), and no
throughput is above its case's ceiling. It cannot speak for another machine that the plan names,
measure other cases, another commit or other packages under these names, rewrite what is recorded,
or give readers something to run.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Final

from servebench import codec, store, units
from servebench.artifacts.trusted import (
    Trusted,
    require,
    require_commands,
    require_machine,
    require_time,
    rig_of,
)
from servebench.errors import ArtifactError, RecordError
from servebench.formulas import NO_UNIT, FormulaError
from servebench.model import CaseResult, Machine, Run
from servebench.night.model import NightPlan, Shard
from servebench.text import require_plain, shown
from servebench.validate import CEILING

_ARTIFACT: Final = re.compile(r"shard-(\d{1,4})")
_REASON: Final = 400
_SHORTEST_S: Final = 0.1
"""Of a load window; with less nothing can be said of a rate."""


def run(data: bytes, artifact: str, night: NightPlan, trusted: Trusted, now: datetime) -> Run:
    """Read and check one run file.

    Args:
        data: The file.
        artifact: Name of the artifact that it came in.
        night: The plan, as the store itself knows it.
        trusted: What the checkout says.
        now: With an offset.

    Returns:
        The run; its file may be written with these very bytes.

    Raises:
        ArtifactError: It is not a run of this night.
    """
    found = decode(data)
    shard = _shard(found, artifact, night)
    _require_header(found, shard, night, trusted, now)
    planned = {case.id: case for case in shard.plan.cases}
    measured = [result.case.id for result in found.results]
    if len(set(measured)) != len(measured):
        raise ArtifactError("a case twice")
    for result in found.results:
        case = planned.get(result.case.id)
        if case is None:
            raise ArtifactError(f"the case {shown(result.case.id)}, which shard {shard.number} of "
                                "the plan does not have")  # fmt: skip
        if case != result.case:
            raise ArtifactError(f"case {case.id} with another definition than the plan's")
        _require_launches(result, shard, night, now)
        _require_possible(result, found.machine)
        require_commands(result.commands, case, found.machine)
    return found


def decode(data: bytes) -> Run:
    """Read a run file that is exactly what our own encoder writes, with plain texts.

    Raises:
        ArtifactError: It is not.
    """
    try:
        found = codec.decode(data, "the file")
        ours = codec.encode(found)
    except RecordError as error:
        raise ArtifactError(shown(str(error), _REASON)) from error
    if ours != data:
        raise ArtifactError("a run file that is written otherwise than ours are")
    require_plain(json.loads(data))
    return found


def _shard(found: Run, artifact: str, night: NightPlan) -> Shard:
    require("night", night.id, found.night)
    shard = None if found.shard is None else night.shard(found.shard)
    if shard is None:
        raise ArtifactError(f"shard {found.shard}, which the plan does not have")
    named = _ARTIFACT.fullmatch(artifact)
    if named is not None:
        require(f"shard of artifact {artifact}", int(named[1]), shard.number)
    return shard


def _require_header(
    found: Run, shard: Shard, night: NightPlan, trusted: Trusted, now: datetime
) -> None:
    plan = shard.plan
    require("commit", night.commit, found.commit)
    require("uncommitted changes", False, found.dirty)
    require("profile", plan.profile, found.profile)
    require("launches", plan.launches, found.launches)
    require("seed", plan.seed, found.seed)
    trusted.require_tools(found.servebench, found.oha)
    trusted.require_stacks(found.stacks)
    trusted.require_interpreters(found.interpreters)
    require_machine(found.machine)
    if shard.machine is not None:
        require(f"machine of shard {shard.number}", shard.machine, found.machine.id)
    elif found.machine.id in {other.machine for other in night.shards}:
        raise ArtifactError(
            f"shard {shard.number} from machine {found.machine.id}, which has a shard of its own"
        )
    created = datetime.fromisoformat(night.created).astimezone(UTC)
    require_time("start of the run", found.started, created, now)
    if found.finished is not None:
        require_time("end of the run", found.finished, created, now)
    start = store.run_id(found.started, found.profile, found.commit)
    if found.id != start and not re.fullmatch(
        rf"{re.escape(start)}[-.][a-z0-9-]{{1,20}}", found.id
    ):
        raise ArtifactError(f"id of the run: expected {start}, found {shown(found.id)}")


def _require_launches(result: CaseResult, shard: Shard, night: NightPlan, now: datetime) -> None:
    rounds = [launch.round for launch in result.launches]
    if len(set(rounds)) != len(rounds) or any(r >= shard.plan.launches for r in rounds):
        raise ArtifactError(
            f"launches {shown(str(rounds))} of case {result.case.id}, expected each of "
            f"{shard.plan.launches} at most once"
        )
    created = datetime.fromisoformat(night.created).astimezone(UTC)
    for launch in result.launches:
        require_time(f"start of a launch of {result.case.id}", launch.started, created, now)


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
