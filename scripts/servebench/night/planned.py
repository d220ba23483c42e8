"""Making the plan of a night, and handing its shards to a workflow's matrix."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from servebench import store
from servebench.errors import UsageError
from servebench.model import Plan
from servebench.night.model import NightPlan, Shard, encode
from servebench.night.recorded import recorded
from servebench.night.sharing import Recorded, share_out

RUNNER: Final = "servebench"
"""Label that every runner has; besides, each has its machine's id."""

MOST_SHARDS: Final = 256
"""Jobs that a matrix may have (GitHub's limit)."""

_NAMED: Final = 3


def fleet(shards: int | None, machines: Sequence[str]) -> tuple[str | None, ...]:
    """Who measures: the machines that are named, and for further shards whoever takes them.

    Args:
        shards: At least so many; None: one.
        machines: Ids, each with a shard of its own; several in one text are separated by commas.

    Raises:
        UsageError: More shards than a matrix may have, or one machine twice.
    """
    named = [name for text in machines for name in text.replace(",", " ").split()]
    count = max(shards or 1, len(named))
    if count > MOST_SHARDS:
        raise UsageError(f"--shards: expected at most {MOST_SHARDS}, found {count}")
    if len(set(named)) != len(named):
        raise UsageError(f"--machine: expected each machine once, found {', '.join(named)}")
    return (*named, *[None] * (count - len(named)))


def make(
    plan: Plan,
    machines: Sequence[str | None],
    *,
    results: Path,
    commit: str | None,
    now: datetime | None = None,
) -> NightPlan:
    """Share a plan out by what the recorded runs say.

    Args:
        plan: What is to be measured.
        machines: As `fleet` says.
        results: The results folder.
        commit: Of the checkout, 40 hex digits.
        now: The time.
    """
    known = recorded(results, plan.profile)
    shards, calibration = share_out(plan, machines, known)
    created = (now or datetime.now(UTC)).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return NightPlan(
        id=store.run_id(created, plan.profile, commit),
        created=created,
        commit=commit,
        calibration=calibration,
        shards=shards,
        notes=(*_unknown(shards, known), *_moves(shards, known, calibration)),
    )


def outputs(night: NightPlan) -> dict[str, str]:
    """What a workflow needs: `matrix`, `shards`, `night`, and the `sha256` of the plan's file."""
    include = [
        {
            "shard": shard.number,
            "machine": shard.machine or "",
            "runner": shard.machine or RUNNER,
            "cases": len(shard.plan.cases),
            "minutes": math.ceil(shard.expected_seconds / 60),
        }
        for shard in night.shards
    ]
    return {
        "matrix": json.dumps({"include": include}, separators=(",", ":")),
        "shards": str(len(include)),
        "night": night.id,
        "sha256": hashlib.sha256(encode(night)).hexdigest(),
    }


def _unknown(shards: Sequence[Shard], known: Recorded) -> tuple[str, ...]:
    """Say which machines have measured nothing: for a wrong id its shard waits in vain."""
    measured = {machine for machine, _ in known.nights}
    return tuple(
        f"no night of {shard.machine} is recorded: if that is no new machine, look whether its id "
        "is right (`servebench doctor` on the machine)"
        for shard in shards
        if measured and shard.machine is not None and shard.machine not in measured
    )


def _moves(shards: Sequence[Shard], known: Recorded, calibration: str | None) -> tuple[str, ...]:
    """Say which cases leave the machine that has measured them: their series begin anew."""
    moved: dict[tuple[str, str], list[str]] = {}
    for shard in shards:
        if shard.machine is None:
            continue
        for case in shard.plan.cases:
            before = {
                machine: nights
                for (machine, name), nights in known.nights.items()
                if name == case.id
            }
            if case.id != calibration and before and shard.machine not in before:
                home = max(before, key=lambda machine: (before[machine], machine))
                moved.setdefault((home, shard.machine), []).append(case.id)
    return tuple(
        f"{len(cases)} {'case moves' if len(cases) == 1 else 'cases move'} from {home} to "
        f"{machine}, where their series begin anew: {', '.join(cases[:_NAMED])}"
        + (" …" if len(cases) > _NAMED else "")
        for (home, machine), cases in moved.items()
    )
