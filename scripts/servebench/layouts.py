"""Charts that an experiment declares in its `published.toml`: which cases, laid out how. Data only.

Like a table, a chart selects cases by globs over their ids and tells them apart by properties of a
case (report/keys.py); its figures are metrics of the registry.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from servebench.metrics import METRICS
from servebench.model import Frozen
from servebench.report.keys import KEYS


class _Layout(Frozen):
    """What all charts have."""

    name: str = Field(pattern="^[a-z][a-z0-9-]*$", description="Its anchor on the page.")
    title: str
    caption: str = Field(default="", description="How to read it.")
    select: tuple[str, ...] = Field(min_length=1, description="Globs over case ids.")
    but_not: tuple[str, ...] = Field(
        default=(), alias="except", description="Globs over case ids that are left out."
    )

    @property
    def properties(self) -> tuple[str, ...]:
        """All properties of a case that it names."""
        raise NotImplementedError

    @property
    def figures(self) -> tuple[str, ...]:
        """All metrics that it names."""
        raise NotImplementedError

    @model_validator(mode="after")
    def _known_names(self) -> Self:
        if unknown := sorted(set(self.properties) - set(KEYS)):
            raise ValueError(f"unknown properties {unknown}; known: {', '.join(KEYS)}")
        if unknown := sorted(set(self.figures) - set(METRICS)):
            raise ValueError(f"unknown metrics {unknown}; known: {', '.join(METRICS)}")
        return self


class BarsLayout(_Layout):
    """One bar per case."""

    kind: Literal["bars"]
    metric: str
    group: tuple[str, ...] = Field(default=(), description="Bars that are alike in these are near.")
    keys: tuple[str, ...] = Field(min_length=1, description="The label of a bar.")
    series: str | None = Field(default=None, description="What the colour stands for.")

    @property
    def properties(self) -> tuple[str, ...]:
        """See `_Layout`."""
        return (*self.group, *self.keys, *([self.series] if self.series else []))

    @property
    def figures(self) -> tuple[str, ...]:
        """See `_Layout`."""
        return (self.metric,)


class LinesLayout(_Layout):
    """One line per series and metric, over a number that was varied.

    `percentiles`: users and the like, with a logarithmic upright axis; `sweep`: threads and the
    like, which are doubled rather than added.
    """

    kind: Literal["percentiles", "sweep"]
    x: str = Field(description="The property that was varied: a number.")
    series: tuple[str, ...] = Field(min_length=1, description="Cases alike in these are one line.")
    metrics: tuple[str, ...] = Field(min_length=1)
    unit: str = Field(description="Title of the upright axis.")
    log: bool = Field(default=False, description="Logarithmic upright axis, also of a sweep.")

    @property
    def properties(self) -> tuple[str, ...]:
        """See `_Layout`."""
        return (self.x, *self.series)

    @property
    def figures(self) -> tuple[str, ...]:
        """See `_Layout`."""
        return self.metrics


class CurveLayout(_Layout):
    """Latency against throughput: one point per load, joined from the lightest on."""

    kind: Literal["curve"]
    x: str = Field(description="A metric: the throughput.")
    y: str = Field(description="A metric: the latency.")
    series: tuple[str, ...] = Field(min_length=1, description="Cases alike in these are one line.")
    label: str = Field(description="What tells the points of a line apart: a number.")

    @property
    def properties(self) -> tuple[str, ...]:
        """See `_Layout`."""
        return (*self.series, self.label)

    @property
    def figures(self) -> tuple[str, ...]:
        """See `_Layout`."""
        return (self.x, self.y)


class HeatLayout(_Layout):
    """A cell for each pair of two properties."""

    kind: Literal["heat"]
    metric: str
    rows: str
    columns: str

    @property
    def properties(self) -> tuple[str, ...]:
        """See `_Layout`."""
        return (self.rows, self.columns)

    @property
    def figures(self) -> tuple[str, ...]:
        """See `_Layout`."""
        return (self.metric,)


ChartLayout = Annotated[
    BarsLayout | LinesLayout | CurveLayout | HeatLayout, Field(discriminator="kind")
]
