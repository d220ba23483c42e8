"""Charts that an experiment declares in its `published.toml`: which cases, laid out how. Data only.

Like a table, a chart selects cases by globs over their ids and tells them apart by `KEYS`,
properties of a case; its figures are metrics of the registry.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import Field, model_validator

from servebench.core import units
from servebench.core.metrics import METRICS
from servebench.core.model import Case, Frozen

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
        number = isinstance(value, int | float)
        return (not number, float(value) if isinstance(value, int | float) else 0.0)


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


def known_keys(names: AbstractSet[str]) -> None:
    """Refuse what is no property of a case; ValueError says which there are."""
    if unknown := sorted(names - set(KEYS)):
        raise ValueError(f"unknown properties {unknown}; known: {', '.join(KEYS)}")


def known_metrics(names: AbstractSet[str]) -> None:
    """Refuse what is no metric; ValueError says which there are."""
    if unknown := sorted(names - set(METRICS)):
        raise ValueError(f"unknown metrics {unknown}; known: {', '.join(METRICS)}")


class _Layout(Frozen):
    """What all charts have; which of their fields name properties of a case, and which metrics."""

    key_fields: ClassVar[tuple[str, ...]]
    metric_fields: ClassVar[tuple[str, ...]]

    name: str = Field(pattern="^[a-z][a-z0-9-]*$", description="Its anchor on the page.")
    title: str
    caption: str = Field(default="", description="How to read it.")
    select: tuple[str, ...] = Field(min_length=1, description="Globs over case ids.")
    but_not: tuple[str, ...] = Field(
        default=(), alias="except", description="Globs over case ids that are left out."
    )

    @model_validator(mode="after")
    def _known_names(self) -> Self:
        known_keys({*self._named(self.key_fields)})
        known_metrics({*self.figures})
        return self

    @property
    def figures(self) -> tuple[str, ...]:
        return self._named(self.metric_fields)

    def _named(self, fields: tuple[str, ...]) -> tuple[str, ...]:
        values: list[Any] = [getattr(self, field) or () for field in fields]
        return tuple(name for v in values for name in ([v] if isinstance(v, str) else v))


class BarsLayout(_Layout):
    """One bar per case."""

    key_fields: ClassVar[tuple[str, ...]] = ("group", "keys", "series")
    metric_fields: ClassVar[tuple[str, ...]] = ("metric",)

    kind: Literal["bars"]
    metric: str
    group: tuple[str, ...] = Field(default=(), description="Bars that are alike in these are near.")
    keys: tuple[str, ...] = Field(min_length=1, description="The label of a bar.")
    series: str | None = Field(default=None, description="What the colour stands for.")


class LinesLayout(_Layout):
    """One line per series and metric, over a number that was varied.

    `percentiles`: users and the like, with a logarithmic upright axis; `sweep`: threads and the
    like, which are doubled rather than added.
    """

    key_fields: ClassVar[tuple[str, ...]] = ("x", "series")
    metric_fields: ClassVar[tuple[str, ...]] = ("metrics",)

    kind: Literal["percentiles", "sweep"]
    x: str = Field(description="The property that was varied: a number.")
    series: tuple[str, ...] = Field(min_length=1, description="Cases alike in these are one line.")
    metrics: tuple[str, ...] = Field(min_length=1)
    unit: str = Field(description="Title of the upright axis.")
    log: bool = Field(default=False, description="Logarithmic upright axis, also of a sweep.")


class CurveLayout(_Layout):
    """Latency against throughput: one point per load, joined from the lightest on."""

    key_fields: ClassVar[tuple[str, ...]] = ("series", "label")
    metric_fields: ClassVar[tuple[str, ...]] = ("x", "y")

    kind: Literal["curve"]
    x: str = Field(description="A metric: the throughput.")
    y: str = Field(description="A metric: the latency.")
    series: tuple[str, ...] = Field(min_length=1, description="Cases alike in these are one line.")
    label: str = Field(description="What tells the points of a line apart: a number.")


class HeatLayout(_Layout):
    """A cell for each pair of two properties."""

    key_fields: ClassVar[tuple[str, ...]] = ("rows", "columns")
    metric_fields: ClassVar[tuple[str, ...]] = ("metric",)

    kind: Literal["heat"]
    metric: str
    rows: str
    columns: str


ChartLayout = Annotated[
    BarsLayout | LinesLayout | CurveLayout | HeatLayout, Field(discriminator="kind")
]
