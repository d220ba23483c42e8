"""Results as tidy tables: one row per observation, units in the names of columns. Pure.

docs/export.md names every column; the test of it holds both against each other.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from duetbench.core.flags import Flag
from duetbench.core.metrics import METRICS
from duetbench.core.model import Case, Run
from duetbench.store.comparison import Comparison, Judgement
from duetbench.store.points import INSTRUCTIONS, Points

Cell = str | int | float | bool | None

UNIT: Final = {"s": "seconds", "B": "bytes", "1/s": "per second", "1": "ratio or count"}
"""What the column `unit` says of an SI unit of the registry."""

_CASE: Final = (
    "case", "experiment", "endpoint", "python", "interface", "server", "stack", "connections",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tidy:
    """A table: `name` tells it from the others of one file; None is a cell without a value."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def dicts(self) -> list[dict[str, Cell]]:
        """Its rows by column, as pandas.DataFrame and polars.DataFrame take them."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


def tables(found: Run | Comparison | Points) -> dict[str, Tidy]:
    """All tables of a file by name; the first one is what most people want."""
    made: tuple[Tidy, ...]
    if isinstance(found, Run):
        made = (_table("launches", _LAUNCHES, _launches(found)),)
    elif isinstance(found, Comparison):
        made = (
            _table("judgements", _JUDGEMENTS, _judgements(found)),
            _table("duets", _DUETS, _duets(found)),
        )
    else:
        made = (_table("points", _POINTS, _points(found)),)
    return {one.name: one for one in made}


def _table(name: str, columns: Sequence[str], rows: Iterable[tuple[Cell, ...]]) -> Tidy:
    return Tidy(name, tuple(columns), tuple(rows))


_LAUNCHES: Final = (
    "run", "machine", "profile", *_CASE, "launch", "order", "started_utc", "wall_seconds",
    "load_seconds", "status", "flags", "metric", "unit", "value",
)  # fmt: skip


def _launches(run: Run) -> Iterator[tuple[Cell, ...]]:
    """A row for each launch and metric; of a failed launch one without a metric."""
    for result in run.results:
        for one in result.launches:
            before = (
                run.id, run.machine.id, run.profile, *_of_case(result.case), one.round, one.order,
                one.started, one.seconds, one.load_seconds, str(one.status), _flags(one.flags),
            )  # fmt: skip
            yield from ((*before, *cells) for cells in _metrics(one.metrics))


_DUETS: Final = (
    "comparison", "machine", *_CASE, "duet", "head_first", "started_utc", "wall_seconds",
    "load_seconds", "usable", "side", "flags", "metric", "unit", "value",
)  # fmt: skip


def _duets(comparison: Comparison) -> Iterator[tuple[Cell, ...]]:
    """A row for each duet, side and metric; of a void duet one for each side."""
    for case in comparison.cases:
        for one in case.duets:
            before = (
                comparison.id, comparison.machine.id, *_of_case(case.case), one.order,
                one.head_first, one.started, one.seconds, one.load_seconds, one.usable,
            )  # fmt: skip
            sides = (("base", one.flags_base, one.base), ("head", one.flags_head, one.head))
            for side, flags, metrics in sides:
                yield from ((*before, side, _flags(flags), *cells) for cells in _metrics(metrics))


_JUDGEMENTS: Final = (
    "comparison", "machine", "base", "head", *_CASE, "metric", "verdict", "ratio", "ratio_low",
    "ratio_high", "detectable_relative", "p_adjusted", "duets", "excluded", "reason",
)  # fmt: skip


def _judgements(comparison: Comparison) -> Iterator[tuple[Cell, ...]]:
    """A row for each judgement; of a benchmark inside the process the metric is empty."""
    before = (
        comparison.id, comparison.machine.id, comparison.base.label, comparison.head.label,
    )  # fmt: skip
    for case in comparison.cases:
        for one in case.judgements:
            yield (*before, *_of_case(case.case), one.metric, *_judged(one))
    for inside in comparison.micro:
        nothing = (None,) * 2
        named = (inside.benchmark, *nothing, inside.python, *nothing, inside.stack, None)
        yield (*before, *named, "", *_judged(inside.judgement))


def _judged(one: Judgement) -> tuple[Cell, ...]:
    return (
        str(one.verdict), one.ratio, one.low, one.high, one.detectable, one.p, one.duets,
        one.excluded, one.reason,
    )  # fmt: skip


_POINTS: Final = (
    "points", "machine", "anchor", "label", "when_utc", "case", "stack", "python", "metric",
    "ratio", "ratio_low", "ratio_high", "duets", "excluded", "unit", "anchor_value",
)  # fmt: skip


def _points(found: Points) -> Iterator[tuple[Cell, ...]]:
    """A row for each case and metric, as a ratio to the anchor."""
    for case in found.cases:
        for one in case.points:
            yield (
                found.id, found.machine.id, found.anchor, found.label, found.when.isoformat(),
                case.case, case.stack, case.python, one.metric, one.ratio,
                one.interval.low, one.interval.high, one.duets, one.excluded,
                _unit(one.metric), one.anchor,
            )  # fmt: skip


def _of_case(case: Case) -> tuple[Cell, ...]:
    return tuple(find(case) for find in _OF_CASE)


_OF_CASE: Final[tuple[Callable[[Case], Cell], ...]] = (
    lambda case: case.id,
    lambda case: case.experiment,
    lambda case: case.endpoint.name,
    lambda case: case.python,
    lambda case: str(case.endpoint.interface),
    lambda case: case.server,
    lambda case: case.stack,
    lambda case: case.load.connections,
)


def _metrics(found: Mapping[str, float]) -> Iterator[tuple[Cell, ...]]:
    if not found:
        yield (None, None, None)
    for name, value in found.items():
        yield (name, _unit(name), value)


def _unit(metric: str) -> str:
    if metric in METRICS:
        return UNIT[METRICS[metric].unit]
    return "count" if metric == INSTRUCTIONS else "seconds"


def _flags(flags: Iterable[Flag]) -> str:
    return " ".join(dict.fromkeys(str(flag.name) for flag in flags))
