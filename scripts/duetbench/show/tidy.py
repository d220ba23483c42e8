"""Results as tidy tables: one row per observation, units in the names of columns. Pure.

docs/export.md names every column; a test compares it with the output.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from duetbench.core.metrics import INSTRUCTIONS, METRICS
from duetbench.core.model import Case, Flag, Run
from duetbench.store.comparison import SIDES, Comparison, set_material
from duetbench.store.points import Points

Row = dict[str, str | int | float | bool | None]
"""Cells by column; None: no value."""

UNIT: Final = {"s": "seconds", "B": "bytes", "1/s": "per second", "1": "ratio or count"}
"""Text of the column `unit` for an SI unit of the registry."""

_COLUMNS: Final = {
    "started": "started_utc",
    "seconds": "wall_seconds",
    "round": "launch",
    "low": "ratio_low",
    "high": "ratio_high",
    "detectable": "detectable_relative",
    "p": "p_adjusted",
}
"""Names of columns that differ from those of their fields."""

_TIMES: Final = ("started", "seconds", "load_seconds")


def tables(result: Run | Comparison | Points) -> dict[str, list[Row]]:
    """Make all tables of a file, by name, as pandas.DataFrame and polars.DataFrame take them.

    The first table is the one for most uses. All rows of a table have the same columns.
    """
    if isinstance(result, Run):
        return {"launches": [*_launches(result)]}
    if isinstance(result, Comparison):
        return {"judgements": [*_judgements(result)], "duets": [*_duets(result)]}
    return {"points": [*_points(result)]}


def as_csv(rows: Sequence[Row]) -> str:
    """Write a table as RFC 4180 defines it, except for line ends; no value is an empty cell."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [*rows[0]] if rows else (), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _launches(run: Run) -> Iterator[Row]:
    """Yield a row for each launch and metric; for a failed launch one without a metric."""
    whole: Row = {"run": run.id, "machine": run.machine.id, "profile": run.profile}
    for result in run.results:
        for launch in result.launches:
            fields = _fields(launch, "round", "order", *_TIMES, "status")
            common = {**whole, **_case(result.case), **fields, "flags": _flags(launch.flags)}
            yield from ({**common, **figure} for figure in _figures(launch.metrics))


def _duets(comparison: Comparison) -> Iterator[Row]:
    """Yield a row for each duet, side and metric; for a void duet one for each side."""
    whole: Row = {"comparison": comparison.id, "machine": comparison.machine.id}
    for case in comparison.cases:
        for duet in case.duets:
            common = {**whole, **_case(case.case), "duet": duet.order}
            common |= _fields(duet, "head_first", *_TIMES, "usable")
            for name in SIDES:
                side: Row = {"side": name, "flags": _flags(duet.flags(name))}
                for figure in _figures(duet.metrics(name)):
                    yield {**common, **side, **figure, "alone": figure["metric"] in duet.alone}


def _judgements(comparison: Comparison) -> Iterator[Row]:
    """Yield a row for each judgement; for an in-process benchmark the metric is empty."""
    whole: Row = {"comparison": comparison.id, "machine": comparison.machine.id}
    whole |= {"base": comparison.base.label, "head": comparison.head.label}
    judged = [
        (_case(case.case), judgement) for case in comparison.cases for judgement in case.judgements
    ]
    for micro in comparison.micro:
        place: Row = {"case": micro.benchmark, "python": micro.python, "stack": micro.stack}
        judged.append((_CASE | place, micro.judgement))
    for columns, judgement in judged:
        fields = _fields(judgement, *type(judgement).model_fields)
        metric = judgement.metric if judgement.metric in METRICS else ""
        fields["material"] = set_material(judgement, comparison.method).material
        yield {**whole, **columns, **fields, "metric": metric}


def _points(points: Points) -> Iterator[Row]:
    """Yield a row for each case and metric, as a ratio to the anchor."""
    whole: Row = {"points": points.id, "machine": points.machine.id}
    whole |= {**_fields(points, "anchor", "label"), "when_utc": points.when.isoformat()}
    for case in points.cases:
        for point in case.points:
            yield {
                **whole,
                **_fields(case, "case", "stack", "python"),
                **_fields(point, "metric", "ratio"),
                "ratio_low": point.interval.low,
                "ratio_high": point.interval.high,
                **_fields(point, "duets", "excluded"),
                "unit": _unit(point.metric),
                "anchor_value": point.anchor,
            }


def _fields(record: object, *names: str) -> Row:
    values = ((name, getattr(record, name)) for name in names)
    # An enumeration becomes its value.
    return {
        _COLUMNS.get(name, name): str(value) if isinstance(value, str) else value
        for name, value in values
    }


_CASE: Final[Row] = dict.fromkeys(
    ("case", "experiment", "endpoint", "python", "interface", "server", "stack", "connections")
)


def _case(case: Case) -> Row:
    values: Row = {
        "case": case.id,
        "endpoint": case.endpoint.name,
        "interface": str(case.endpoint.interface),
        "connections": case.load.connections,
    }
    return {**_CASE, **_fields(case, "experiment", "python", "server", "stack"), **values}


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
