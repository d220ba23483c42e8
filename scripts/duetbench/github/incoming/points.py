"""Checks the anchored points that a shard sent against the night's plan and the checkout. Pure.

A machine can lie about its figures, within the bounds of their metrics. It cannot speak for another
machine that the plan names, another anchor, commit or night, or of cases that are not its own.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Final

from duetbench.core.errors import ArtifactError
from duetbench.core.metrics import METRICS
from duetbench.core.text import shown
from duetbench.github.incoming import nights
from duetbench.github.incoming.comparisons import LARGEST
from duetbench.github.incoming.facts import Checkout, decoded, require, require_time
from duetbench.github.incoming.folder import ArtifactFile
from duetbench.judge.inprocess import jobs
from duetbench.judge.pairs import Pair
from duetbench.judge.samples import judged
from duetbench.store import files as record_files
from duetbench.store.night import NightPlan, Shard
from duetbench.store.points import CANARY, FOLDER, INSTRUCTIONS, AnchoredPoint, CasePoints, Points

_MOST_DUETS: Final = 1000
_LONGEST_S: Final = 86_400
_INSIDE: Final = (1e-12, 1e15)
"""What a time of a call, or a number of instructions, is between."""

Known = tuple[str, str, frozenset[str]]
"""Stack, interpreter and metrics that the points of a case, or of a benchmark, may have."""


def belongs(path: str) -> bool:
    """Whether a file of an artifact has points, by its path below the artifact."""
    return path.startswith(f"{FOLDER}/")


def check(
    files: Iterable[ArtifactFile],
    machines: Iterable[str],
    artifact: str,
    night: NightPlan,
    trusted: Checkout,
    now: datetime,
) -> tuple[Points, ...]:
    """Check the points of an artifact, whose runs are of these `machines`; raises ArtifactError."""
    found = tuple(_points(file.data, artifact, night, trusted, now) for file in files)
    if len(found) > 1:
        raise ArtifactError(f"{len(found)} files of points, expected one of each shard")
    if len({*machines, *(one.machine.id for one in found)}) > 1:
        raise ArtifactError("points of another machine than the run's beside them")
    return found


def _points(
    data: bytes, artifact: str, night: NightPlan, trusted: Checkout, now: datetime
) -> Points:
    found = decoded(partial(record_files.parse, Points), data)
    shard = nights.shard_of(found, artifact, night)
    require("origin of points", "night", found.origin)
    require("release of points", None, found.release)
    require("anchor", night.anchor, found.anchor)
    require("duetbench", trusted.duetbench, found.duetbench)
    nights.require_origin(found, shard, night, trusted)
    created = datetime.fromisoformat(night.created).astimezone(UTC)
    for what, moment in (("start", found.started), ("time", found.when)):
        require_time(f"{what} of the points", moment.isoformat(), created, now)
    start = f"{found.started.astimezone(UTC):%Y%m%dT%H%M%SZ}-night-"
    if not re.fullmatch(rf"{start}[0-9a-f]{{6}}(-s{shard.number})?", found.id):
        raise ArtifactError(f"id of the points: expected {start}…, found {shown(found.id)}")
    if found.seconds > _LONGEST_S:
        raise ArtifactError(f"{found.seconds:g} s of playing, more than a day")
    known = dict(_known(shard))
    names = [case.case for case in found.cases]
    for name in (*names, *(one.case for one in found.missing)):
        if name not in known:
            raise ArtifactError(
                f"the case {shown(name)}, which shard {shard.number} of the plan does not have"
            )
    if len(set(names)) != len(names):
        raise ArtifactError("a case twice")
    for case in found.cases:
        _require_possible(case, known)
    return found


def _known(shard: Shard) -> Iterator[tuple[str, Known]]:
    """What a shard's cases can have, and the benchmarks that go with them."""
    for case in shard.plan.cases:
        leading, tails = judged(case)
        metrics = frozenset({*leading, *tails, INSTRUCTIONS})
        for name in (case.id, f"{CANARY}{case.id}"):
            yield name, (case.stack, case.python, metrics)
    every = [Pair(case, case, case.id) for case in shard.plan.cases]
    for job in jobs(every):
        yield job.series, (job.pair.head.stack, job.pair.head.python, frozenset({INSTRUCTIONS}))


def _require_possible(case: CasePoints, known: Mapping[str, Known]) -> None:
    stack, python, metrics = known[case.case]
    require(f"stack of {case.case}", stack, case.stack)
    require(f"interpreter of {case.case}", python, case.python)
    names = [point.metric for point in case.points]
    if foreign := sorted(set(names) - metrics):
        raise ArtifactError(f"the metric {shown(foreign[0])}, which {case.case} has no points of")
    if len(set(names)) != len(names):
        raise ArtifactError(f"a metric of {case.case} twice")
    for point in case.points:
        if wrong := _wrong(point):
            raise ArtifactError(f"{point.metric} of {case.case}: {wrong}")


def _wrong(point: AnchoredPoint) -> str | None:
    """Why there can be no such point, in half a sentence."""
    if not 1 / LARGEST <= point.ratio <= LARGEST:
        return f"a ratio of {point.ratio:g}"
    if point.se > math.log(LARGEST):
        return f"a standard error of {point.se:g}"
    if max(point.duets, point.excluded) > _MOST_DUETS:
        return f"{max(point.duets, point.excluded):,} duets"
    if point.metric in METRICS:
        return METRICS[point.metric].wrong(point.anchor)
    low, high = _INSIDE
    return None if low <= point.anchor <= high else f"{point.anchor:g} of the anchor"
