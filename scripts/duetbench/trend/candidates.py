"""Steps in the series of a table, and candidates: one per machine and change of a stack. Pure.

A series of ratios to the anchor is cut into pieces of one level each, so that the squared
deviations, each over its variance, and a price for every piece are least together. A point costs no
more than a limit however far away it lies: few far points are outliers, and no piece of their own
(Fearnhead and Rigaill, JASA 114, 2019, doi 10.1080/01621459.2017.1385466). A simulation has chosen
the prices (docs/method.md).

Figures of one side are not searched: they scatter ten times as far. What the machine did moves both
sides of a ratio: another machine, kernel or interpreter is no break. Benchmarks inside the process
are searched by their instructions; asv finds the steps of the others itself.

A step tells only about where a series moved: the night before or after scatters, too. So every
change of the case's stack within a night of it comes into question (unless it is high above the
scatter), and changes that share a step are one candidate, between the stack before the first of
them and the one after the last.

Releases that came to several stacks at once are one candidate: of the stack to which all of them
came. Only its cases get duets; series of the others are listed without.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final

import numpy as np

from duetbench.core.metrics import CPU, INSTRUCTIONS, JUDGED
from duetbench.core.metrics import row as metric_row
from duetbench.core.model import Verdict
from duetbench.host import cache
from duetbench.store.change import INPROCESS, Candidates, Change, SeriesName, StackState, Step
from duetbench.store.comparison import differences
from duetbench.store.points import CANARY
from duetbench.trend.table import STATES, Table, bumps

PRICE: Final = 14.0
"""Price of another piece, in squared standard errors. With it none of 300 series of 60 points that
do not move had a step at any time while the points came one by one, and with 0.3 to 0.6 % of
standard error a step of 2 % is seen at its second point (docs/method.md)."""

LONE: Final = 0.6 * PRICE
"""Highest cost of a point: one alone makes no piece, two do. (It is an outlier from 3.3 standard
errors on.)"""

LEAST_ERROR: Final = 1e-4
"""Standard error of a logarithm that is believed: counts that repeat exactly still differ by as
much for nothing but a comment."""

_FEW: Final = 8  # points that it takes to say how far they scatter beyond their errors

_MEDIAN: Final = 0.4549  # of the square of a standard normal deviate

_FINE: Final = 16  # levels that are tried within the smallest standard error


LONGEST: Final = 180  # nights that are looked at: a step that is older was found when it was new

PLACED: Final = 4.0
"""Height in standard errors of a single point from which on none is taken for one of the other
level by chance."""

REPEATED: Final = 3e-4
"""Standard error of a count's logarithm from one counting to the next. The interval of its point is
that of the rounds within one counting, which differ alike every time."""

_WIDTH: Final = 1.96
"""Standard errors on either side of a 95 % interval. Those of few duets are wider, and what they
say counts less."""

_MEASURED: Final = STATES.index("measured")


@dataclass(frozen=True, slots=True)
class TableStep:
    """A step, and its places in the table: the last night `before` it and the first one on it.

    `placed`: it is there, and not a night earlier or later.
    """

    step: Step
    night: int
    before: int
    placed: bool


def steps(table: Table, inside: Collection[str] = ()) -> Iterator[TableStep]:
    """All steps of a table's series that are large enough to matter, case by case.

    Of benchmarks only those `inside` are looked at, which a comparison can play.
    """
    for row, case in enumerate(table.cases):
        ours = case.startswith(CANARY)  # what moves there is the instrument's
        if not ours and (case in inside or not case.startswith(INPROCESS)):
            for metric in (*JUDGED, INSTRUCTIONS):
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
    errors = np.full(len(nights), REPEATED) if lone else np.log(high / low) / 2 / _WIDTH
    chosen = [table.nights[night].as_of is not None for night in nights.tolist()]
    pieces = fitted(np.log(mean).tolist(), errors.tolist(), lone=lone, chosen=chosen)
    for left, right in pairwise(pieces):
        height, error = right.log - left.log, math.hypot(left.se, right.se)
        if abs(math.expm1(height)) <= floor:
            continue
        sizes = left.end - left.start, right.end - right.start
        single = max(left.se * math.sqrt(sizes[0]), right.se * math.sqrt(sizes[1]))
        before, after = int(nights[right.start - 1]), int(nights[right.start])
        yield TableStep(
            step=Step(
                series=SeriesName(machine=table.machine, case=table.cases[row], metric=metric),
                ratio=math.exp(height),
                within=(math.exp(height - _WIDTH * error), math.exp(height + _WIDTH * error)),
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


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece: first place, place after the last, level and its standard error (logarithms)."""

    start: int
    end: int
    log: float
    se: float


def fitted(
    logs: Sequence[float],
    errors: Sequence[float],
    *,
    lone: bool = False,
    chosen: Sequence[bool] | None = None,
) -> list[Piece]:
    """The pieces of a series of logarithms with their standard errors.

    With `lone` one point can be a piece: what repeats exactly has no outliers. Nor have points of
    stacks that were `chosen` to be measured, a month apart: each may be on a level of its own.
    """
    if not len(logs):
        return []
    y = np.asarray(logs)
    far = np.zeros(len(y), dtype=bool) if chosen is None else np.asarray(chosen, dtype=bool)
    w = 1 / _variances(y, np.asarray(errors), ~(far[1:] | far[:-1]))
    limit = np.where(far | lone, math.inf, LONE)
    tried = _levels(y, w)
    cost = np.zeros(len(tried))
    since = np.zeros(len(tried), dtype=int)
    before: list[int] = []
    best = 0.0
    for place in range(len(y)):
        # Each level goes on, or begins here, after the best that led here.
        begins = cost > best + PRICE if place else np.zeros(len(tried), dtype=bool)
        cost = np.where(begins, best + PRICE, cost)
        since[begins] = place
        cost = cost + np.minimum(w[place] * (y[place] - tried) ** 2, limit[place])
        at = int(np.argmin(cost))
        best = float(cost[at])
        before.append(int(since[at]))
    pieces: list[Piece] = []
    end = len(y)
    while end:
        start = before[end - 1]
        part = slice(start, end)
        costs = w[part, None] * (y[part, None] - tried) ** 2
        level = np.minimum(costs, limit[part, None]).sum(axis=0).argmin()
        near = costs[:, level] <= limit[part]  # its level is that without its outliers
        weights = w[part][near]
        mean = float(np.average(y[part][near], weights=weights))
        pieces.append(Piece(start, end, mean, float(weights.sum() ** -0.5)))
        end = start
    return pieces[::-1]


def _variances(y: np.ndarray, errors: np.ndarray, near: np.ndarray) -> np.ndarray:
    """Of each point: its error's, none smaller than the usual one, and what all scatter more.

    `near`: of each but the first, whether what it differs by from the one before is scatter.
    """
    variances: np.ndarray = np.maximum(errors, max(float(np.median(errors)), LEAST_ERROR)) ** 2
    # By neighbours, of which few are on two levels.
    steps = np.diff(y)[near]
    if len(steps) < _FEW - 1:
        return variances
    scatter = float(np.median(steps**2)) / _MEDIAN / 2
    variances += max(0.0, scatter - float(np.median(variances)))
    return variances


def _levels(y: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Levels that are tried: the means of all runs of neighbours, as far as they differ."""
    sums, weights = (np.concatenate([[0.0], np.cumsum(part)]) for part in (w * y, w))
    ends, starts = np.tril_indices(len(sums), -1)
    means = (sums[ends] - sums[starts]) / (weights[ends] - weights[starts])
    _, places = np.unique(np.floor(means * math.sqrt(w.max()) * _FINE), return_index=True)
    return np.asarray(means[places])


SLACK: Final = 1
"""Nights that a step may be away from the change of the stack that caused it, if not `placed`."""


def found(
    tables: Iterable[Table], judged: Sequence[Change] = (), inside: Collection[str] = ()
) -> Candidates:
    """The candidates of tables of anchored points that were not `judged` yet.

    `inside` are jobs that a comparison can count.
    """
    new: list[Change] = []
    unexplained: list[Step] = []
    known = 0
    for table in tables:
        every, others = of_table(table, inside)
        unexplained += others
        places = {night.run: place for place, night in enumerate(table.nights)}
        for candidate in every:
            earlier = [
                change
                for change in judged
                if change.id == candidate.id or _same(candidate, change, places)
            ]
            if any(one.final for one in earlier):
                known += 1
            else:
                tries = max((one.tries for one in earlier), default=0)
                new.append(candidate.model_copy(update={"tries": tries}))
    return Candidates(candidates=tuple(_united(new)), unexplained=tuple(unexplained), known=known)


def figures_of(moved: Iterable[Step]) -> dict[str, Any]:
    """The steps of a candidate, strongest first; that one gives its series and figures."""
    steps = tuple(sorted(moved, key=lambda step: -step.strength))
    low, high = steps[0].within or (steps[0].ratio, steps[0].ratio)
    others = tuple(dict.fromkeys(step.series for step in steps[1:]))
    return {
        "steps": steps, "series": steps[0].series, "others": others,
        "ratio": steps[0].ratio, "low": low, "high": high,
    }  # fmt: skip


def _united(candidates: Iterable[Change]) -> list[Change]:
    """Candidates, strongest first; of several stacks that the same releases came to at once, one.

    It is that of the stack to which all of them came.
    """

    def releases(one: Change) -> set[tuple[str, str | None, str | None]]:
        return {(move.package, move.base, move.head) for move in one.packages}

    def strongest(one: Change) -> tuple[float, str]:
        return -one.steps[0].strength, one.id

    united: list[Change] = []
    for candidate in sorted(candidates, key=lambda one: (-len(releases(one)), *strongest(one))):
        where = candidate.series.machine, candidate.before_run, candidate.after_run
        for place, other in enumerate(united):
            if (
                where == (other.series.machine, other.before_run, other.after_run)
                and candidate.base.stack != other.base.stack
                and releases(candidate)
                and releases(candidate) <= releases(other)
            ):
                every = (*other.steps, *candidate.steps)
                united[place] = other.model_copy(update=figures_of(every))
                break
        else:
            united.append(candidate)
    return sorted(united, key=strongest)


def _same(candidate: Change, judged: Change, places: Mapping[str, int]) -> bool:
    """Whether something that was judged lies between the same runs, at least in part.

    With every night the step may be seen a night earlier or later, and must not be a new one. A
    confirmed change of another stack has judged what it names. `places` are those of the runs of
    the candidate's table; names of others sort by time.
    """
    kinds = {one.inprocess for one in judged.moved}
    stepped = {step.series for step in candidate.steps}
    named = judged.confirmed and not stepped.isdisjoint((*judged.moved, *judged.unplayed))
    here = candidate.series.machine, candidate.base.stack
    if not named and (judged.series.machine, judged.base.stack) != here:
        return False
    if not any(one.inprocess in kinds for one in stepped):
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


def of_table(
    table: Table, inside: Collection[str] = ()
) -> tuple[tuple[Change, ...], tuple[Step, ...]]:
    """The candidates of a machine, and steps where no stack changed; the rest as in `steps`."""
    changed: dict[str, list[int]] = {}
    for bump in bumps(table):
        changed.setdefault(bump.stack, []).append(bump.night)
    explained: dict[str, list[tuple[set[int], Step]]] = {}
    unexplained: list[Step] = []
    for step in steps(table, inside):
        stack = table.nights[step.night].cases[step.step.series.case].stack
        slack = 0 if step.placed else SLACK
        near = {
            night
            for night in changed.get(stack, ())
            # Nights between the two levels may have been disturbed: it was in any of them.
            if step.before - slack < night <= step.night + slack
        }
        if near:
            explained.setdefault(stack, []).append((near, step.step))
        elif all(stack in table.nights[night].stacks for night in (step.before, step.night)):
            unexplained.append(step.step)
        # Otherwise nobody knows whether it changed.
    candidates = (
        _candidate(table, stack, *cluster)
        for stack, many in sorted(explained.items())
        for cluster in _clusters(many)
    )
    return tuple(candidates), tuple(unexplained)


def _clusters(steps: Iterable[tuple[set[int], Step]]) -> list[tuple[set[int], list[Step]]]:
    """Steps by what they may come from: changes of one stack that share some are one.

    Of each the places of the first nights with these changes, and the steps.

    But of a step that may come from any of several changes, one that others show alone is enough:
    it joins the strongest of these, and does not make one event of them.
    """
    clusters: list[tuple[set[int], list[Step]]] = []
    for near, step in sorted(steps, key=lambda one: (len(one[0]), -one[1].strength)):
        within = [cluster for cluster in clusters if cluster[0] <= near]
        if within:
            max(within, key=lambda one: max(step.strength for step in one[1]))[1].append(step)
            continue
        touching = [cluster for cluster in clusters if cluster[0] & near]
        clusters = [cluster for cluster in clusters if not cluster[0] & near]
        nights = near.union(*(one[0] for one in touching))
        clusters.append((nights, [step, *(step for one in touching for step in one[1])]))
    return clusters


def _candidate(table: Table, stack: str, nights: set[int], moved: list[Step]) -> Change:
    head = table.nights[max(nights)]
    base = next(night for night in reversed(table.nights[: min(nights)]) if stack in night.stacks)
    digests = base.stacks[stack], head.stacks[stack]
    when = datetime.fromtimestamp(head.time, UTC)
    name = f"{when:%Y%m%d}-{stack}-anchored"
    return Change(
        status="candidate",
        verdict=Verdict.INCONCLUSIVE,
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
