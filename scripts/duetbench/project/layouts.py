"""Charts that an experiment declares in its `published.toml`: which cases, laid out how. Data only.

Like a table, a chart selects cases by globs over their ids and tells them apart by `KEYS`,
properties of a case; its figures are metrics of the registry.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import AfterValidator, Field

from duetbench.core import units
from duetbench.core.metrics import METRICS
from duetbench.core.model import Case, Frozen

KeyValue = str | float | None


@dataclass(frozen=True, slots=True)
class Key:
    """One property of a case: its heading and how to get it."""

    title: str
    of: Callable[[Case], KeyValue]

    def text(self, case: Case) -> str:
        """The property for people."""
        value = self.of(case)
        if value is None:
            return "—"
        return f"{value:g}" if isinstance(value, float) else str(value)

    def order(self, case: Case) -> tuple[bool, float]:
        """Sorts numbers by size; other values keep their place."""
        value = self.of(case)
        return (False, float(value)) if isinstance(value, int | float) else (True, 0.0)


def _floor(case: Case) -> str | None:
    return units.seconds(case.endpoint.floor) if case.endpoint.floor else None


KEYS: Final[dict[str, Key]] = {
    "id": Key("case", lambda case: case.id.partition("/")[2]),
    "endpoint": Key("endpoint", lambda case: case.endpoint.name),
    "interface": Key("interface", lambda case: case.endpoint.interface.upper()),
    "python": Key("Python", lambda case: case.python),
    "stack": Key("stack", lambda case: case.stack),
    "server": Key("server", lambda case: case.server),
    "loop": Key("loop", lambda case: case.loop),
    "workers": Key("workers", lambda case: case.workers),
    "threads": Key("threads", lambda case: case.threads),
    "slots": Key("slots", lambda case: case.slots),
    "load": Key("load", lambda case: case.load.model.value),
    "connections": Key("connections", lambda case: case.load.connections),
    "users": Key("users", lambda case: case.load.connections),
    "rate": Key("offered/s", lambda case: case.load.rate),
    "floor": Key("floor", _floor),
    "cores": Key("cores", lambda case: case.cores),
}


def _one_of(kind: str, names: Collection[str]) -> AfterValidator:
    def check(name: str) -> str:
        if name not in names:
            raise ValueError(f"unknown {kind} {name!r}; known: {', '.join(names)}")
        return name

    return AfterValidator(check)


KeyName = Annotated[str, _one_of("property", KEYS)]
MetricName = Annotated[str, _one_of("metric", METRICS)]
Keys = Annotated[tuple[KeyName, ...], Field(min_length=1)]


class Selection(Frozen):
    """Some cases, and a title for what shows them."""

    title: str
    select: tuple[str, ...] = Field(min_length=1, description="Globs over case ids.")
    but_not: tuple[str, ...] = Field(
        default=(), alias="except", description="Globs over case ids that are left out."
    )


class _Layout(Selection):
    """What all charts have; which of their fields name metrics."""

    metric_fields: ClassVar[tuple[str, ...]] = ("metric",)

    name: str = Field(pattern="^[a-z][a-z0-9-]*$", description="Its anchor on the page.")
    caption: str = Field(default="", description="How to read it.")

    @property
    def figures(self) -> tuple[str, ...]:
        values: list[Any] = [getattr(self, field) for field in self.metric_fields]
        return tuple(name for v in values for name in ([v] if isinstance(v, str) else v))


class BarsLayout(_Layout):
    """One bar per case."""

    kind: Literal["bars"]
    metric: MetricName
    group: tuple[KeyName, ...] = Field(
        default=(), description="Bars that are alike in these are near."
    )
    keys: Keys = Field(description="The label of a bar.")
    series: KeyName | None = Field(default=None, description="What the colour stands for.")


class LinesLayout(_Layout):
    """One line per series and metric, over a number that was varied.

    `percentiles`: users and the like, with a logarithmic upright axis; `sweep`: threads and the
    like, which are doubled rather than added.
    """

    metric_fields: ClassVar[tuple[str, ...]] = ("metrics",)

    kind: Literal["percentiles", "sweep"]
    x: KeyName = Field(description="The property that was varied: a number.")
    series: Keys = Field(description="Cases alike in these are one line.")
    metrics: tuple[MetricName, ...] = Field(min_length=1)
    unit: str = Field(description="Title of the upright axis.")
    log: bool = Field(default=False, description="Logarithmic upright axis, also of a sweep.")


class CurveLayout(_Layout):
    """Latency against throughput: one point per load, joined from the lightest on."""

    metric_fields: ClassVar[tuple[str, ...]] = ("x", "y")

    kind: Literal["curve"]
    x: MetricName = Field(description="A metric: the throughput.")
    y: MetricName = Field(description="A metric: the latency.")
    series: Keys = Field(description="Cases alike in these are one line.")
    label: KeyName = Field(description="What tells the points of a line apart: a number.")


class HeatLayout(_Layout):
    """A cell for each pair of two properties."""

    kind: Literal["heat"]
    metric: MetricName
    rows: KeyName
    columns: KeyName


ChartLayout = Annotated[
    BarsLayout | LinesLayout | CurveLayout | HeatLayout, Field(discriminator="kind")
]
