"""Detects steps in the series of a table, and joins them to candidates. Pure.

A series of ratios to the anchor is cut into pieces of one level each: see `levels`. Another
machine, kernel or interpreter moves both sides of a ratio, so it does not break a series.

The night of a step is only approximate, because neighbouring nights scatter too. So every change of
the case's stack within one night of the step is a possible cause, unless the step is high above the
scatter. Steps that share a possible cause are one candidate. It lies between the stack before the
first of these changes and the one after the last.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain, product
from typing import Final

from duetbench.core.comparison import INSTRUCTIONS, differences
from duetbench.core.comparison import row as metric_row
from duetbench.core.metrics import CPU, JUDGED
from duetbench.core.model import Verdict
from duetbench.host import cache
from duetbench.judge.statistics import direction
from observatory.store.change import Candidates, Change, SeriesName, StackState, Step
from observatory.store.points import NORMAL
from observatory.trend.levels import rises
from observatory.trend.table import Table

LONGEST: Final = 180  # nights searched: an older step was detected when it was new

PLACED: Final = 4.0
"""Height of a step, in standard errors of a single point, from which its night is certain: no point
lies on the other level by chance."""

SLACK: Final = 1
"""Nights between a step that is not certain in this way and the change of the stack that may have
caused it."""

REPEATED: Final = 3e-4
"""Standard error of a count's logarithm from one counting to the next. The interval of a point does
not include it: that covers the rounds of one counting, which all differ in the same way."""


def detect(tables: Iterable[Table], judged: Sequence[Change] = ()) -> Candidates:
    """Return the candidates of tables of anchored points that were not `judged` yet."""
    new: list[Change] = []
    for candidate in chain.from_iterable(map(of_table, tables)):
        earlier = [c for c in judged if c.id == candidate.id or _overlap(candidate, c)]
        if not any(change.final for change in earlier):
            tries = max((change.tries for change in earlier), default=0)
            new.append(candidate.model_copy(update={"tries": tries}))
    new.sort(key=lambda candidate: (-candidate.steps[0].strength, candidate.id))
    return Candidates(candidates=tuple(new))


def of_table(table: Table) -> Iterator[Change]:
    """Yield a machine's candidates: a step at which no stack changed is none."""
    locks: dict[str, str] = {}
    renewed = defaultdict[str, set[int]](set)
    for place, night in enumerate(table.files):
        for lock in night.stacks:
            if locks.setdefault(lock.name, lock.digest) != lock.digest:
                renewed[lock.name].add(place)
            locks[lock.name] = lock.digest
    explained = defaultdict[str, list[tuple[Step, frozenset[int]]]](list)
    for step, nights in steps(table):
        stack = table.cases[step.series.case]
        if near := frozenset(renewed[stack].intersection(nights)):
            explained[stack].append((step, near))
    for stack, causes in sorted(explained.items()):
        for places, cluster in _join(causes).items():
            yield _candidate(table, stack, places, cluster)


def steps(table: Table) -> Iterator[tuple[Step, range]]:
    """Yield all steps of a table's series beyond a tenth of the limit, case by case.

    Each has the places of the nights at which it may have happened.
    """
    files, oldest = table.files, len(table.files) - LONGEST
    for case, metric in product(table.cases, (*JUDGED, INSTRUCTIONS)):
        counted = metric == INSTRUCTIONS
        floor = metric_row(CPU if counted else metric).floor
        series = {n: point for n, point in table.series(case, metric).items() if n >= oldest}
        nights, points = [*series], [*series.values()]
        # Of few duets it is larger, as their interval is.
        errors = [REPEATED if counted else point.half / NORMAL for point in points]
        lone = [counted or files[night].as_of is not None for night in nights]
        for rise in rises([point.log for point in points], errors, floor, lone):
            before, after = nights[rise.right.start - 1 : rise.right.start + 1]
            slack = 0 if abs(rise.height) >= PLACED * rise.single else SLACK
            step = Step(
                series=SeriesName(machine=table.machine.id, case=case, metric=metric),
                ratio=rise.ratio.estimate,
                within=rise.ratio.ends,
                strength=abs(rise.height) / rise.error,
                before_run=files[before].id,
                after_run=files[after].id,
                nights=(rise.left.size, rise.right.size),
            )
            # Nights between the two levels may have failed: the step was at any of them.
            yield step, range(before + 1 - slack, min(after + slack + 1, len(files)))


def _join(causes: Iterable[tuple[Step, frozenset[int]]]) -> dict[frozenset[int], list[Step]]:
    """Join the steps of one stack that share a possible cause; return them by the nights of these.

    Steps with few possible causes come first. One with several joins the strongest of those with
    which it shares any, and does not unite them.
    """
    clusters: dict[frozenset[int], list[Step]] = {}

    def strength(nights: frozenset[int]) -> float:
        return max(step.strength for step in clusters[nights])

    for step, nights in sorted(causes, key=lambda cause: (len(cause[1]), -cause[0].strength)):
        touching = [other for other in clusters if other & nights]
        clusters.setdefault(max(touching, key=strength, default=nights), []).append(step)
    return clusters


def _candidate(table: Table, stack: str, nights: frozenset[int], cluster: Iterable[Step]) -> Change:
    sides = (*reversed(table.files[: min(nights)]), table.files[max(nights)])
    (base, before), *_, (head, after) = (
        (night, lock) for night in sides if (lock := night.stack(stack))
    )
    when = datetime.fromtimestamp(head.time, UTC)
    states = [
        StackState(stack=stack, digest=lock.digest, as_of=night.as_of)
        for night, lock in ((base, before), (head, after))
    ]
    first, *more = sorted(cluster, key=lambda step: -step.strength)
    low, high = first.within or (first.ratio, first.ratio)
    digest = cache.digest(table.machine.id, *(state.digest for state in states))
    return Change(
        status="candidate",
        verdict=Verdict.UNKNOWN,
        id=f"{when:%Y%m%d}-{stack}-anchored-{digest[:6]}",
        when=when,
        before_run=base.id,
        after_run=head.id,
        base=states[0],
        head=states[1],
        base_commit=base.commit,
        head_commit=head.commit,
        packages=differences(stack, before.packages, after.packages),
        series=first.series,
        others=tuple(dict.fromkeys(step.series for step in more)),
        steps=(first, *more),
        ratio=first.ratio,
        low=low,
        high=high,
    )


def _overlap(candidate: Change, judged: Change) -> bool:
    """Whether a candidate is a `judged` change of the same stack, at least in part.

    As nights are added, a known step may appear a night earlier or later; it must not count as new.
    """
    stacks = {(change.series.machine, change.base.stack) for change in (candidate, judged)}
    (began, ended), (first, last) = _span(candidate), _span(judged)
    return len(stacks) == 1 and began < last and first < ended


def _span(change: Change) -> tuple[str, str]:
    """Return text that sorts by time for both sides: dates of stacks, or names of nights' runs.

    Stacks of past dates are measured in any order, and may be measured again.
    """
    base, head = change.base.as_of or change.before_run, change.head.as_of or change.after_run
    return (base or "~").replace("-", ""), (head or "").replace("-", "")


def close(records: Sequence[Change]) -> list[Change]:
    """Return changes, oldest first, with those closed that a later one of their series undid.

    A change is undone when both together leave the series no worse than before, within the metric's
    limit.
    """

    def settle(record: Change) -> Change:
        metric = record.series.metric
        undone = (
            later.id
            for later in records
            if record.status == "open" and later.when > record.when
            if later.series == record.series
            for log in [math.log(record.ratio * later.ratio)]
            if direction(metric, log) is not Verdict.WORSE
            or abs(log) <= math.log1p(metric_row(metric).limit)
        )
        if (by := next(undone, None)) is None:
            return record
        note = f"{record.note} Undone by the change {by}.".lstrip()
        return record.model_copy(update={"status": "closed", "note": note})

    return [*map(settle, records)]
