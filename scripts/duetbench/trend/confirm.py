"""Candidates one after another, each judged by a duet and kept with its evidence at once."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from duetbench.core.errors import HistoryError, SetupError, UsageError
from duetbench.judge.duets import Judge
from duetbench.store import change, comparison_store
from duetbench.store.change import Change
from duetbench.store.files import write
from duetbench.store.points import INSTRUCTIONS
from duetbench.trend.conclude import conclude

LEAST_SECONDS: Final = 60.0
"""A comparison in less would decide nothing."""


@dataclass(frozen=True, slots=True)
class Conclusions:
    """What came of the candidates; `left` were not judged, for the reason beside them."""

    judged: tuple[Change, ...]
    left: tuple[tuple[Change, str], ...]


def confirm(
    candidates: Sequence[Change],
    judge: Judge,
    seconds: float,
    results: Path,
    *,
    log: Callable[[str], None],
    explain: Callable[[Change], None] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Conclusions:
    """Judge candidates of this machine in so many seconds, and keep all in `results`.

    Those that have no time, as after a backfill of years, are the last ones: the weakest. What is
    confirmed is attributed, and what moved in instructions at once, as far as it can be.

    Raises:
        InterruptedRun: What was judged until then is kept.
        RecordError: A file cannot be written.
    """
    ends = clock() + seconds
    judged: list[Change] = []
    left: list[tuple[Change, str]] = []
    for place, candidate in enumerate(candidates):
        if explain and any(step.series.metric == INSTRUCTIONS for step in candidate.steps):
            explain(candidate)
        remaining = ends - clock()
        share = max(LEAST_SECONDS, remaining / (len(candidates) - place))
        if remaining < LEAST_SECONDS:
            left.append((candidate, "the time was up"))
            continue
        log(f"{candidate.id}: {share / 60:.0f} min for {len(candidate.steps)} series that moved")
        try:
            comparison = judge(candidate, share)
        except (HistoryError, SetupError, UsageError) as problem:
            # One stack that cannot be made any more must not keep the others waiting.
            left.append((candidate, str(problem)))
            continue
        concluded = conclude(candidate, comparison)
        write(results / comparison_store.FOLDER / f"{comparison.id}.json", comparison)
        change.save(results, concluded)
        judged.append(concluded)
        if explain and concluded.confirmed:
            explain(concluded)
    return Conclusions(tuple(judged), tuple(left))
