"""What a comparison measures with: duets, single launches, instruction counts."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
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
from servebench.model import Case
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

    def instructions(
        self, pairs: Sequence[tuple[Part, Part]], limit: float
    ) -> tuple[Instructions | str, ...]:
        """Count both sides' instructions per request within `limit` s, or say why not.

        Args:
            pairs: Base and head of cases that share stack, interpreter and environment variables.
            limit: Seconds for all of them.
        """


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

    def instructions(
        self, pairs: Sequence[tuple[Part, Part]], limit: float
    ) -> tuple[Instructions | str, ...]:
        """Count both sides at the same time; the counter is this checkout's."""
        sides = [[pair[0] for pair in pairs], [pair[1] for pair in pairs]]
        ends = time.monotonic() + limit
        try:
            with ExitStack() as stack:
                under_way = [stack.enter_context(_counting(side)) for side in sides]
                base, head = (collect(ends - time.monotonic()) for collect in under_way)
        except CountError as error:
            return (str(error),) * len(pairs)
        return tuple(
            _together(base[_target(below.case)], head[_target(above.case)])
            for below, above in pairs
        )

    def _logs(self, case: str) -> Callable[[SideName], Path]:
        stem = f"{next(self._numbers):04d}-{case.replace('/', '_')}"
        return lambda side: self._folder / f"{stem}-{side}.log"


def _counting(parts: Sequence[Part]) -> AbstractContextManager[counting.Collect]:
    """Begin to count one request to each case's endpoint, in process and without a server."""
    case, rig = parts[0].case, parts[0].rig
    return counting.started(
        rig.pythons[case.stack, case.python],
        ["-P", "-m", "benchmarks._counted"],
        list(dict.fromkeys(_target(part.case) for part in parts)),
        env={
            **case.env,
            "PYTHONPATH": str(paths.project_root()),
            "SERVEBENCH_CHECKOUT": str(rig.apps.parent),
            "SERVEBENCH_STACK": case.stack,
        },
    )


def _target(case: Case) -> str:
    return f"request/{case.experiment}/{case.endpoint.name}"


def _together(
    base: counting.Instructions | counting.Uncounted,
    head: counting.Instructions | counting.Uncounted,
) -> Instructions | str:
    if isinstance(base, counting.Uncounted):
        return base.reason
    if isinstance(head, counting.Uncounted):
        return head.reason
    return Instructions(
        base=base.per_unit, head=head.per_unit, spread=max(base.spread, head.spread)
    )
