"""Results as tidy tables: one row per observation, units in the names of columns. Pure.

docs/export.md names every column; the test of it checks both against each other.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from duetbench.core.flags import Flag
from duetbench.core.metrics import METRICS
from duetbench.core.model import Case, Run
from duetbench.store.comparison import Comparison, Judgement
from duetbench.store.points import INSTRUCTIONS, Points

Row = dict[str, str | int | float | bool | None]
"""Cells by column; None: no value."""

UNIT: Final = {"s": "seconds", "B": "bytes", "1/s": "per second", "1": "ratio or count"}
"""What the column `unit` says of an SI unit of the registry."""


def tables(found: Run | Comparison | Points) -> dict[str, list[Row]]:
    """All tables of a file by name, as pandas.DataFrame and polars.DataFrame take them.

    The first one is what most people want. All rows of a table have the same columns.
    """
    if isinstance(found, Run):
        return {"launches": [*_launches(found)]}
    if isinstance(found, Comparison):
        return {"judgements": [*_judgements(found)], "duets": [*_duets(found)]}
    return {"points": [*_points(found)]}


def _launches(run: Run) -> Iterator[Row]:
    """A row for each launch and metric; of a failed launch one without a metric."""
    for result in run.results:
        for one in result.launches:
            launch: Row = {
                "run": run.id,
                "machine": run.machine.id,
                "profile": run.profile,
                **_case(result.case),
                "launch": one.round,
                "order": one.order,
                "started_utc": one.started,
                "wall_seconds": one.seconds,
                "load_seconds": one.load_seconds,
                "status": str(one.status),
                "flags": _flags(one.flags),
            }
            yield from ({**launch, **figure} for figure in _figures(one.metrics))


def _duets(comparison: Comparison) -> Iterator[Row]:
    """A row for each duet, side and metric; of a void duet one for each side."""
    for case in comparison.cases:
        for one in case.duets:
            duet: Row = {
                "comparison": comparison.id,
                "machine": comparison.machine.id,
                **_case(case.case),
                "duet": one.order,
                "head_first": one.head_first,
                "started_utc": one.started,
                "wall_seconds": one.seconds,
                "load_seconds": one.load_seconds,
                "usable": one.usable,
            }
            sides = (("base", one.flags_base, one.base), ("head", one.flags_head, one.head))
            for name, flags, metrics in sides:
                side: Row = {"side": name, "flags": _flags(flags)}
                yield from ({**duet, **side, **figure} for figure in _figures(metrics))


def _judgements(comparison: Comparison) -> Iterator[Row]:
    """A row for each judgement; of a benchmark inside the process the metric is empty."""
    pairs: list[tuple[Row, Judgement]] = [
        (_case(case.case), one) for case in comparison.cases for one in case.judgements
    ]
    for inside in comparison.micro:
        of_case = {"case": inside.benchmark, "python": inside.python, "stack": inside.stack}
        pairs.append(({**dict.fromkeys(_CASE), **of_case}, inside.judgement))
    for case_, one in pairs:
        yield {
            "comparison": comparison.id,
            "machine": comparison.machine.id,
            "base": comparison.base.label,
            "head": comparison.head.label,
            **case_,
            "metric": one.metric if one.metric in METRICS else "",
            "verdict": str(one.verdict),
            "ratio": one.ratio,
            "ratio_low": one.low,
            "ratio_high": one.high,
            "detectable_relative": one.detectable,
            "p_adjusted": one.p,
            "duets": one.duets,
            "excluded": one.excluded,
            "reason": one.reason,
        }


def _points(found: Points) -> Iterator[Row]:
    """A row for each case and metric, as a ratio to the anchor."""
    for case in found.cases:
        for one in case.points:
            yield {
                "points": found.id,
                "machine": found.machine.id,
                "anchor": found.anchor,
                "label": found.label,
                "when_utc": found.when.isoformat(),
                "case": case.case,
                "stack": case.stack,
                "python": case.python,
                "metric": one.metric,
                "ratio": one.ratio,
                "ratio_low": one.interval.low,
                "ratio_high": one.interval.high,
                "duets": one.duets,
                "excluded": one.excluded,
                "unit": _unit(one.metric),
                "anchor_value": one.anchor,
            }


_CASE: Final = (
    "case", "experiment", "endpoint", "python", "interface", "server", "stack", "connections",
)  # fmt: skip


def _case(case: Case) -> Row:
    endpoint, connections = case.endpoint, case.load.connections
    cells = (
        case.id, case.experiment, endpoint.name, case.python, str(endpoint.interface),
        case.server, case.stack, connections,
    )  # fmt: skip
    return dict(zip(_CASE, cells, strict=True))


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
