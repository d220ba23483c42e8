"""What a comparison measures with: duets, single launches, instruction counts."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Final, Protocol

from servebench import launch, paths
from servebench.compare import duet
from servebench.compare.duet import DuetOutcome
from servebench.compare.model import Instructions, SideName
from servebench.compare.player import Part
from servebench.errors import CountError
from servebench.icount import counting
from servebench.protocol import DUET_SECONDS, WINDOW_SECONDS
from servebench.runner import Outcome

KEPT_LOGS: Final = 20
"""Comparisons whose server logs are kept."""


class Instruments(Protocol):
    """Seam between the session and everything that starts a process."""

    def duet(self, base: Part, head: Part, *, head_first: bool) -> DuetOutcome:
        """Play one duet; may raise `InterruptedRun` and nothing else."""

    def launch(self, part: Part) -> Outcome:
        """Do one launch with nothing beside it; may raise `InterruptedRun` and nothing else."""

    def instructions(self, base: Part, head: Part, limit: float) -> Instructions | str:
        """Count both sides' instructions per request within `limit` s, or say why not."""


class Real:
    """Real servers and generators."""

    def __init__(self, logs: Path, seconds: float = DUET_SECONDS) -> None:
        """Keep server logs in a folder of this comparison, in `compare` below `logs`.

        Args:
            logs: Folder for all server logs.
            seconds: Least duration of a duet's closed load, s.
        """
        self._folder = logs / "compare" / f"{datetime.now(UTC):%Y%m%dT%H%M%S%f}"
        self._folder.mkdir(parents=True)
        self._numbers = count()
        self._seconds = seconds
        for old in sorted(self._folder.parent.iterdir())[:-KEPT_LOGS]:
            shutil.rmtree(old, ignore_errors=True)

    def duet(self, base: Part, head: Part, *, head_first: bool) -> DuetOutcome:
        """Play one duet."""
        return duet.perform(
            base, head, self._logs(head.case.id), head_first=head_first, seconds=self._seconds
        )

    def launch(self, part: Part) -> Outcome:
        """Do one launch."""
        options = launch.Options(window=WINDOW_SECONDS["quick"])
        return launch.perform(part.case, part.rig, options, self._logs(part.case.id)("head"))

    def instructions(self, base: Part, head: Part, limit: float) -> Instructions | str:
        """Count both sides one after the other; the counter is this checkout's."""
        try:
            found = [_count(part, limit / 2) for part in (base, head)]
        except CountError as error:
            return str(error)
        for one in found:
            if isinstance(one, counting.Uncounted):
                return one.reason
        below, above = (one for one in found if isinstance(one, counting.Instructions))
        return Instructions(
            base=below.per_unit, head=above.per_unit, spread=max(below.spread, above.spread)
        )

    def _logs(self, case: str) -> Callable[[SideName], Path]:
        stem = f"{next(self._numbers):04d}-{case.replace('/', '_')}"
        return lambda side: self._folder / f"{stem}-{side}.log"


def _count(part: Part, limit: float) -> counting.Instructions | counting.Uncounted:
    """Count one request to a case's endpoint, in process and without a server."""
    case, rig = part.case, part.rig
    target = f"request/{case.experiment}/{case.endpoint.name}"
    found = counting.count(
        rig.pythons[case.stack, case.python],
        ["-P", "-m", "benchmarks._counted"],
        [target],
        env={
            **case.env,
            "PYTHONPATH": str(paths.project_root()),
            "SERVEBENCH_CHECKOUT": str(rig.apps.parent),
            "SERVEBENCH_STACK": case.stack,
        },
        timeout=limit,
    )
    return found[target]
