"""`apps/<experiment>/published.toml`: what the source published, and how to show ours beside it.

Tables and charts select cases by globs over their ids and tell them apart by `KEYS`, properties of
a case; their figures are metrics of the registry. An experiment without the file gets a table of
everything.
"""

from collections.abc import Callable, Collection, Container
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from duetbench.core import units
from duetbench.core.metrics import METRICS
from duetbench.core.model import Case, Frozen
from duetbench.project.schema import read_toml, validated

FILE: Final = "published.toml"

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


ChartLayout = Annotated[BarsLayout | LinesLayout | CurveLayout, Field(discriminator="kind")]


class TableLayout(Selection):
    """A table of an experiment: which cases, told apart by what, with which figures."""

    keys: Keys = Field(description="Properties of a case.")
    columns: tuple[MetricName, ...] = Field(min_length=1)
    headings: dict[MetricName, str] = Field(
        default_factory=dict, description="Column headings instead of the metrics' titles."
    )
    across: KeyName | None = Field(
        default=None,
        description="A property whose values become the columns; a line is then one metric.",
    )
    note: str | None = None


class Shape(Frozen):
    """A statement about the shape of the result, as a ratio of two cases or one figure.

    `numerator` and `denominator` are names from `cases`, or case ids. The statement holds when the
    ratio (without a denominator: the numerator's own figure) lies between `least` and `most`.
    """

    statement: str
    metric: MetricName | None = None
    numerator: str | None = None
    denominator: str | None = None
    least: float | None = None
    most: float | None = None
    published: float | None = Field(
        default=None, description="Where it does not follow from the published figures."
    )
    if_not: str | None = Field(default=None, description="Why our shape may differ.")
    pending: str | None = Field(default=None, description="Why no run can tell (instead of all).")

    @model_validator(mode="after")
    def _checkable(self) -> Self:
        if self.pending is not None:
            if self.metric or self.numerator or self.denominator:
                raise ValueError("a pending shape has no metric and no cases")
            return self
        if self.metric is None or self.numerator is None:
            raise ValueError("a shape needs metric and numerator (or says why it is pending)")
        if self.least is None and self.most is None:
            raise ValueError("a shape needs least or most, or both")
        return self


class Published(Frozen):
    """Everything declared about an experiment's source."""

    source: str = Field(description="Title, author or site, date.")
    setting: str | None = Field(default=None, description="Machine and versions of the source.")
    cases: dict[str, str | tuple[str, ...]] = Field(
        default_factory=dict,
        description="Short names for case ids, used below. Of several, the first that a run has "
        "is meant; published figures belong to the first of all.",
    )
    figures: dict[str, dict[MetricName, float]] = Field(
        default_factory=dict, description="By case name or id: metric → figure in SI units."
    )
    notes: tuple[str, ...] = Field(default=(), description="How figures were carried over.")
    tables: tuple[TableLayout, ...] = ()
    charts: tuple[ChartLayout, ...] = Field(default=(), description="For the site.")
    shapes: tuple[Shape, ...] = ()
    answers: tuple[str, ...] = Field(
        default=(), description="Sentences with figures: templates, see show/claims.py."
    )

    @model_validator(mode="after")
    def _known_names(self) -> Self:
        if wrong := [name for name in self.cases if "/" in name]:
            raise ValueError(f"short names without '/' expected, found {wrong}")
        sides = {
            side for shape in self.shapes for side in (shape.numerator, shape.denominator) if side
        }
        unknown = sorted(n for n in {*self.figures, *sides} - {*self.cases} if "/" not in n)
        if unknown:
            raise ValueError(f"names {unknown} are not in [cases]: {', '.join(self.cases)}")
        anchors = [chart.name for chart in self.charts]
        if len(set(anchors)) < len(anchors):
            raise ValueError(f"charts need names of their own, found {anchors}")
        return self

    def ids(self, name: str) -> tuple[str, ...]:
        """The case ids behind a short name; an id stands for itself."""
        id_ = self.cases.get(name, name)
        return (id_,) if isinstance(id_, str) else id_

    def case_id(self, name: str, present: Container[str]) -> str:
        """The case meant by a name: the first of its ids that is present, else its first."""
        ids = self.ids(name)
        return next((case_id for case_id in ids if case_id in present), ids[0])

    def figure(self, case_id: str, metric: str) -> float | None:
        """The published figure of a case, in SI units."""
        return self.figures_of(case_id).get(metric)

    def figures_of(self, case_id: str) -> dict[str, float]:
        """All published figures of a case, in SI units."""
        return next((row for name, row in self.figures.items() if self.ids(name)[0] == case_id), {})


def read_published(path: Path) -> Published:
    """Read one `published.toml`; DeclarationError: not TOML, or not allowed."""
    keys = "only the documented keys: results/README.md"
    return validated(Published, read_toml(path), str(path), keys=keys)


def load_published(root: Path) -> dict[str, Published]:
    """All that is declared under `apps/`, by experiment; errors as `read_published`."""
    return {
        path.parent.name: read_published(path) for path in sorted((root / "apps").glob(f"*/{FILE}"))
    }
