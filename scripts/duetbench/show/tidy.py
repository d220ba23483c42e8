"""Results as tidy tables: one row per observation, units in the names of columns. Pure.

docs/export.md names every column; a test compares it with what is written.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from duetbench.core.metrics import METRICS
from duetbench.core.model import Case, Flag, Run
from duetbench.store.comparison import Comparison, Judgement
from duetbench.store.points import INSTRUCTIONS, Points

Row = dict[str, str | int | float | bool | None]
"""Cells by column; None: no value."""

UNIT: Final = {"s": "seconds", "B": "bytes", "1/s": "per second", "1": "ratio or count"}
"""What the column `unit` says of an SI unit of the registry."""


def tables(result: Run | Comparison | Points) -> dict[str, list[Row]]:
    """Make all tables of a file, by name, as pandas.DataFrame and polars.DataFrame take them.

    The first table is what most people want. All rows of a table have the same columns.
    """
    if isinstance(result, Run):
        return {"launches": [*_launches(result)]}
    if isinstance(result, Comparison):
        return {"judgements": [*_judgements(result)], "duets": [*_duets(result)]}
    return {"points": [*_points(result)]}


def _launches(run: Run) -> Iterator[Row]:
    """A row for each launch and metric; of a failed launch one without a metric."""
    for result in run.results:
        for launch in result.launches:
            columns: Row = {
                "run": run.id,
                "machine": run.machine.id,
                "profile": run.profile,
                **_case(result.case),
                "launch": launch.round,
                "order": launch.order,
                "started_utc": launch.started,
                "wall_seconds": launch.seconds,
                "load_seconds": launch.load_seconds,
                "status": str(launch.status),
                "flags": _flags(launch.flags),
            }
            yield from ({**columns, **figure} for figure in _figures(launch.metrics))


def _duets(comparison: Comparison) -> Iterator[Row]:
    """A row for each duet, side and metric; of a void duet one for each side."""
    for case in comparison.cases:
        for duet in case.duets:
            columns: Row = {
                "comparison": comparison.id,
                "machine": comparison.machine.id,
                **_case(case.case),
                "duet": duet.order,
                "head_first": duet.head_first,
                "started_utc": duet.started,
                "wall_seconds": duet.seconds,
                "load_seconds": duet.load_seconds,
                "usable": duet.usable,
            }
            sides = (("base", duet.flags_base, duet.base), ("head", duet.flags_head, duet.head))
            for name, flags, metrics in sides:
                side: Row = {"side": name, "flags": _flags(flags)}
                yield from ({**columns, **side, **figure} for figure in _figures(metrics))


def _judgements(comparison: Comparison) -> Iterator[Row]:
    """A row for each judgement; of a benchmark inside the process the metric is empty."""
    pairs: list[tuple[Row, Judgement]] = [
        (_case(case.case), judged) for case in comparison.cases for judged in case.judgements
    ]
    for inside in comparison.micro:
        of_case = {"case": inside.benchmark, "python": inside.python, "stack": inside.stack}
        pairs.append(({**dict.fromkeys(_CASE), **of_case}, inside.judgement))
    for columns, judged in pairs:
        yield {
            "comparison": comparison.id,
            "machine": comparison.machine.id,
            "base": comparison.base.label,
            "head": comparison.head.label,
            **columns,
            "metric": judged.metric if judged.metric in METRICS else "",
            "verdict": str(judged.verdict),
            "ratio": judged.ratio,
            "ratio_low": judged.low,
            "ratio_high": judged.high,
            "detectable_relative": judged.detectable,
            "p_adjusted": judged.p,
            "duets": judged.duets,
            "excluded": judged.excluded,
            "reason": judged.reason,
        }


def _points(points: Points) -> Iterator[Row]:
    """A row for each case and metric, as a ratio to the anchor."""
    for case in points.cases:
        for point in case.points:
            yield {
                "points": points.id,
                "machine": points.machine.id,
                "anchor": points.anchor,
                "label": points.label,
                "when_utc": points.when.isoformat(),
                "case": case.case,
                "stack": case.stack,
                "python": case.python,
                "metric": point.metric,
                "ratio": point.ratio,
                "ratio_low": point.interval.low,
                "ratio_high": point.interval.high,
                "duets": point.duets,
                "excluded": point.excluded,
                "unit": _unit(point.metric),
                "anchor_value": point.anchor,
            }


_CASE: Final[dict[str, Callable[[Case], str | int | None]]] = {
    "case": lambda case: case.id,
    "experiment": lambda case: case.experiment,
    "endpoint": lambda case: case.endpoint.name,
    "python": lambda case: case.python,
    "interface": lambda case: str(case.endpoint.interface),
    "server": lambda case: case.server,
    "stack": lambda case: case.stack,
    "connections": lambda case: case.load.connections,
}


def _case(case: Case) -> Row:
    return {column: read(case) for column, read in _CASE.items()}


def _figures(metrics: Mapping[str, float]) -> Iterator[Row]:
    for name, value in metrics.items():
        yield {"metric": name, "unit": _unit(name), "value": value}
    if not metrics:
        yield {"metric": None, "unit": None, "value": None}


def _unit(metric: str) -> str:
    if metric in METRICS:
        return UNIT[METRICS[metric].unit]
    return "count" if metric == INSTRUCTIONS else "seconds"


def _flags(flags: Iterable[Flag]) -> str:
    return " ".join(dict.fromkeys(str(flag.name) for flag in flags))
