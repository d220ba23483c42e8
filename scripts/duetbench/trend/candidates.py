"""Steps → candidates: one per machine and change of a stack, whatever moved there. Pure.

A step tells only about where a series moved: the night before or after scatters, too. So every
change of the case's stack within a night of it comes into question (unless it is high above the
scatter), and changes that share a step are one candidate, between the stack before the first of
them and the one after the last.

Releases that came to several stacks at once are one candidate: of the stack to which all of them
came. Only its cases are played; series of the others are told as not played.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from duetbench.core.model import Verdict
from duetbench.host import cache
from duetbench.store.change import Candidates, Change, StackState, Step
from duetbench.trend.steps import steps
from duetbench.trend.table import Table, bumps, differences

SLACK: Final = 1
"""Nights that a step may be away from the change of the stack that caused it, if not `placed`."""


_Cluster = tuple[set[int], list[Step]]
"""Changes of one stack that share steps: places of the first nights with them, and the steps."""


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
    series = judged.stepped
    kinds = {one.inprocess for one in series}
    stepped = {step.series for step in candidate.steps}
    named = judged.confirmed and not stepped.isdisjoint((*series, *judged.unplayed))
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
    clusters = {stack: _clusters(step) for stack, step in explained.items()}
    candidates = tuple(
        _candidate(table, stack, *cluster)
        for stack, many in sorted(clusters.items())
        for cluster in many
    )
    return candidates, tuple(unexplained)


def _clusters(steps: Iterable[tuple[set[int], Step]]) -> list[_Cluster]:
    """Steps by what they may come from: changes of one stack that share some are one.

    But of a step that may come from any of several changes, one that others show alone is enough:
    it joins the strongest of these, and does not make one event of them.
    """
    clusters: list[_Cluster] = []
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
