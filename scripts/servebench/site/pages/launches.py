"""Every launch of a case in the newest runs: what means and intervals were made of. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from servebench.core.flags import DISTURBING
from servebench.core.metrics import METRICS
from servebench.core.model import CaseResult, Launch, Status
from servebench.series.summary import RunSummary
from servebench.site.charts.data import Caption, Quantity, Value
from servebench.site.charts.figure import Chart
from servebench.site.charts.forest import Dot, DotGroup, Forest, forest

_FEW: Final = 2


def results(summaries: Iterable[RunSummary], case: str) -> Iterator[tuple[RunSummary, CaseResult]]:
    """The runs that planned a case, with what came of it."""
    for summary in summaries:
        for result in summary.run.results:
            if result.case.id == case:
                yield summary, result


def chart(
    found: Iterable[tuple[RunSummary, CaseResult]], metric: str, address: Callable[[str], str]
) -> Chart | None:
    """One mark per launch; None for fewer than two figures.

    Args:
        found: See `results`.
        metric: Of the registry.
        address: From a run's id to where its page is.
    """
    planned = [(summary, result) for summary, result in found if result.launches]
    machines = {summary.run.machine.id for summary, _ in planned}
    groups = tuple(
        DotGroup(
            _name(summary, several=len(machines) > 1),
            tuple(
                Dot(f"launch {one.round + 1}", _value(one, metric), href=address(summary.run.id))
                for one in sorted(result.launches, key=lambda launch: launch.round)
            ),
        )
        for summary, result in planned
    )
    if sum(dot.value.mean is not None for group in groups for dot in group.dots) < _FEW:
        return None
    about = Caption(
        "launches",
        f"{METRICS[metric].title}, launch by launch",
        "Each dot is one start of the server. Means and intervals are over these, not requests.",
    )
    return forest(Forest(about, Quantity.of(metric), groups, "near"))


def _value(launch: Launch, metric: str) -> Value:
    names = [str(flag.name) for flag in launch.flags]
    if launch.status is not Status.OK:
        why = "; ".join(f"{flag.name}: {flag.detail}" for flag in launch.flags)
        return Value(None, note=f"failed: {why}")
    if metric not in launch.metrics:
        return Value(None, note="no such figure")
    judged = not any(flag.name in DISTURBING for flag in launch.flags)
    return Value(launch.metrics[metric], valid=judged, note=", ".join(names))


def _name(summary: RunSummary, *, several: bool) -> str:
    """Which run: its profile and day, and its machine where runs are of several."""
    run = summary.run
    named = f"{run.profile}, {run.started[:10]}"
    return f"{named}, {run.machine.id}" if several else named
