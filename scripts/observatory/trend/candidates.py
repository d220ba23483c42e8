"""Detects steps in the series of a table, and joins them to candidates. Pure.

A series of ratios to the anchor is cut into pieces of one level each: see `levels`.

Figures of one side are not searched: they scatter ten times as far. Another machine, kernel or
interpreter moves both sides of a ratio, so it does not break a series.

The night of a step is only approximate, because neighbouring nights scatter too. So every change of
the case's stack within one night of the step is a possible cause, unless the step is high above the
scatter. Steps that share a possible cause are one candidate. It lies between the stack before the
first of these changes and the one after the last.

Releases that came to several stacks at once are one candidate: that of the stack to which all of
them came. Only its cases get duets; the series of the other stacks are listed without.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final

import numpy as np

from duetbench.core.comparison import differences
from duetbench.core.metrics import CPU, INSTRUCTIONS, JUDGED
from duetbench.core.metrics import row as metric_row
from duetbench.core.model import Verdict
from duetbench.host import cache
from observatory.store.change import Candidates, Change, SeriesName, StackState, Step
from observatory.store.points import NORMAL
from observatory.trend.levels import fit, interval
from observatory.trend.table import STATES, Table, bumps

LONGEST: Final = 180  # nights searched: an older step was detected when it was new

PLACED: Final = 4.0
"""Height of a step, in standard errors of a single point, from which its night is certain: no point
lies on the other level by chance."""

REPEATED: Final = 3e-4
"""Standard error of a count's logarithm from one counting to the next. The interval of a point does
not include it: that covers the rounds of one counting, which all differ in the same way."""

_MEASURED: Final = STATES.index("measured")


@dataclass(frozen=True, slots=True)
class TableStep:
    """A step, and its places in the table: the last night `before` it, and the first `night` on it.

    `placed`: no other night is possible.
    """

    step: Step
    night: int
    before: int
    placed: bool


def steps(table: Table) -> Iterator[TableStep]:
    """Yield all steps of a table's series beyond a tenth of the limit, case by case."""
    for row in range(len(table.cases)):
        for metric in (*JUDGED, INSTRUCTIONS):
            if metric in table.metrics:
                yield from _of_series(table, row, table.metrics.index(metric))


def _of_series(table: Table, row: int, column: int) -> Iterator[TableStep]:
    metric = table.metrics[column]
    lone = metric == INSTRUCTIONS
    floor = metric_row(CPU if lone else metric).floor
    figures = table.figures[:, row, column].astype(float)
    usable = (table.status[:, row] == _MEASURED) & np.isfinite(figures[:, :3]).all(axis=1)
    nights = np.flatnonzero(usable & (figures[:, 1] > 0))
    nights = nights[nights >= len(table.nights) - LONGEST]
    mean, low, high = figures[nights, :3].T
    # Intervals of few duets are wider than by the normal distribution: these points count less.
    errors = np.full(len(nights), REPEATED) if lone else np.log(high / low) / 2 / NORMAL
    chosen = [table.nights[night].as_of is not None for night in nights.tolist()]
    pieces = fit(np.log(mean).tolist(), errors.tolist(), lone=lone, chosen=chosen)
    for left, right in pairwise(pieces):
        height, error = right.log - left.log, math.hypot(left.se, right.se)
        if abs(math.expm1(height)) <= floor:
            continue
        ratio, sizes = interval(height, error), (left.size, right.size)
        single = max(left.se * math.sqrt(sizes[0]), right.se * math.sqrt(sizes[1]))
        before, after = int(nights[right.start - 1]), int(nights[right.start])
        yield TableStep(
            step=Step(
                series=SeriesName(machine=table.machine, case=table.cases[row], metric=metric),
                ratio=ratio.estimate,
                within=ratio.ends,
                strength=abs(height) / error,
                before_run=table.nights[before].run,
                after_run=table.nights[after].run,
                when=datetime.fromtimestamp(table.nights[after].time, UTC),
                nights=sizes,
            ),
            night=after,
            before=before,
            placed=abs(height) >= PLACED * single,
        )


SLACK: Final = 1
"""Nights between a step that is not `placed` and the change of the stack that may have caused
it."""


def detect(tables: Iterable[Table], judged: Sequence[Change] = ()) -> Candidates:
    """Return the candidates of tables of anchored points that were not `judged` yet."""
    new: list[Change] = []
    unexplained: list[Step] = []
    known = 0
    for table in tables:
        candidates, steps_without_change = of_table(table)
        unexplained += steps_without_change
        places = {night.run: place for place, night in enumerate(table.nights)}
        for candidate in candidates:
            earlier = [
                change
                for change in judged
                if change.id == candidate.id or _same(candidate, change, places)
            ]
            if any(change.final for change in earlier):
                known += 1
            else:
                tries = max((change.tries for change in earlier), default=0)
                new.append(candidate.model_copy(update={"tries": tries}))
    return Candidates(candidates=tuple(_unite(new)), unexplained=tuple(unexplained), known=known)


def figures_of(steps: Iterable[Step]) -> dict[str, Any]:
    """Fields of a candidate by its steps, strongest first: the first gives series and figures."""
    steps = tuple(sorted(steps, key=lambda step: -step.strength))
    low, high = steps[0].within or (steps[0].ratio, steps[0].ratio)
    others = tuple(dict.fromkeys(step.series for step in steps[1:]))
    return {
        "steps": steps, "series": steps[0].series, "others": others,
        "ratio": steps[0].ratio, "low": low, "high": high,
    }  # fmt: skip


def _unite(candidates: Iterable[Change]) -> list[Change]:
    """Sort candidates, strongest first, and join those of stacks with the same releases at once.

    The joined candidate is that of the stack to which all the releases came.
    """

    def releases(candidate: Change) -> set[tuple[str, str | None, str | None]]:
        return {(move.package, move.base, move.head) for move in candidate.packages}

    def strongest(candidate: Change) -> tuple[float, str]:
        return -candidate.steps[0].strength, candidate.id

    united: list[Change] = []
    by_size = sorted(candidates, key=lambda change: (-len(releases(change)), *strongest(change)))
    for candidate in by_size:
        where = candidate.series.machine, candidate.before_run, candidate.after_run
        for place, other in enumerate(united):
            if (
                where == (other.series.machine, other.before_run, other.after_run)
                and candidate.base.stack != other.base.stack
                and releases(candidate)
                and releases(candidate) <= releases(other)
            ):
                steps = (*other.steps, *candidate.steps)
                united[place] = other.model_copy(update=figures_of(steps))
                break
        else:
            united.append(candidate)
    return sorted(united, key=strongest)


def _same(candidate: Change, judged: Change, places: Mapping[str, int]) -> bool:
    """Whether a `judged` change lies between the same runs as the candidate, at least in part.

    As nights are added, a known step may appear a night earlier or later; it must not count as new.
    A confirmed change of another stack has judged the series that it names. `places` are those of
    the runs of the candidate's table; names of other runs sort by time.
    """
    stepped = {step.series for step in candidate.steps}
    named = judged.confirmed and not stepped.isdisjoint((*judged.all_series, *judged.unplayed))
    machine_and_stack = candidate.series.machine, candidate.base.stack
    if not named and (judged.series.machine, judged.base.stack) != machine_and_stack:
        return False
    runs = (judged.before_run, candidate.after_run, candidate.before_run, judged.after_run)
    if None in runs:
        return False
    order: Sequence[Any] = runs
    dates = judged.base.as_of, candidate.head.as_of, candidate.base.as_of, judged.head.as_of
    if judged.confirmed and all(dates):
        # Stacks of past dates are measured in any order, and may be measured again.
        order = dates
    elif all(run in places for run in runs):
        # Commits stand in the order of their dates, whenever they were measured.
        order = [places[str(run)] for run in runs]
    return bool(order[0] < order[1] and order[2] < order[3])


def of_table(table: Table) -> tuple[tuple[Change, ...], tuple[Step, ...]]:
    """Return a machine's candidates, and the steps at which no stack changed (see `steps`)."""
    changed: dict[str, list[int]] = {}
    for bump in bumps(table):
        changed.setdefault(bump.stack, []).append(bump.night)
    explained: dict[str, list[tuple[set[int], Step]]] = {}
    unexplained: list[Step] = []
    for step in steps(table):
        stack = table.nights[step.night].cases[step.step.series.case].stack
        slack = 0 if step.placed else SLACK
        near = {
            night
            for night in changed.get(stack, ())
            # Nights between the two levels may be disturbed: the step was at any of them.
            if step.before - slack < night <= step.night + slack
        }
        if near:
            explained.setdefault(stack, []).append((near, step.step))
        elif all(stack in table.nights[night].stacks for night in (step.before, step.night)):
            unexplained.append(step.step)
        # Otherwise it is unknown whether the stack changed.
    candidates = (
        _candidate(table, stack, *cluster)
        for stack, causes in sorted(explained.items())
        for cluster in _clusters(causes)
    )
    return tuple(candidates), tuple(unexplained)


def _clusters(steps: Iterable[tuple[set[int], Step]]) -> list[tuple[set[int], list[Step]]]:
    """Group the steps of one stack by the changes that may have caused them.

    Steps that share a change are one cluster: the places of the first nights with these changes,
    and the steps. A step with several possible changes joins the strongest of the clusters that
    need only some of these changes, and does not unite them.
    """
    clusters: list[tuple[set[int], list[Step]]] = []
    for near, step in sorted(steps, key=lambda cause: (len(cause[0]), -cause[1].strength)):
        within = [cluster for cluster in clusters if cluster[0] <= near]
        if within:
            strongest = max(within, key=lambda cluster: max(step.strength for step in cluster[1]))
            strongest[1].append(step)
            continue
        touching = [cluster for cluster in clusters if cluster[0] & near]
        clusters = [cluster for cluster in clusters if not cluster[0] & near]
        nights = near.union(*(cluster[0] for cluster in touching))
        clusters.append((nights, [step, *(step for cluster in touching for step in cluster[1])]))
    return clusters


def _candidate(table: Table, stack: str, nights: set[int], moved: list[Step]) -> Change:
    head = table.nights[max(nights)]
    base = next(night for night in reversed(table.nights[: min(nights)]) if stack in night.stacks)
    digests = base.stacks[stack], head.stacks[stack]
    when = datetime.fromtimestamp(head.time, UTC)
    name = f"{when:%Y%m%d}-{stack}-anchored"
    return Change(
        status="candidate",
        verdict=Verdict.UNKNOWN,
        id=f"{name}-{cache.digest(table.machine, *digests)[:6]}",
        when=when,
        before_run=base.run,
        after_run=head.run,
        base=StackState(stack=stack, digest=digests[0], as_of=base.as_of),
        head=StackState(stack=stack, digest=digests[1], as_of=head.as_of),
        base_commit=base.commit,
        head_commit=head.commit,
        packages=differences(stack, base.packages.get(stack, {}), head.packages.get(stack, {})),
        **figures_of(moved),
    )
