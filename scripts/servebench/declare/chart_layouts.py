"""Charts that an experiment declares in its `published.toml`: which cases, laid out how. Data only.

Like a table, a chart selects cases by globs over their ids and tells them apart by properties of a
case (report/keys.py); its figures are metrics of the registry.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from servebench.core.metrics import METRICS
from servebench.core.model import Frozen
from servebench.declare.case_keys import KEYS


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
