"""`apps/<experiment>/published.toml`: what the source published, and how to show ours beside it.

An experiment without the file gets a table of everything.
"""

import functools
from collections.abc import Container
from pathlib import Path
from typing import Final, Self

from pydantic import Field, model_validator

from duetbench.core.model import Frozen
from duetbench.host import paths
from duetbench.project.layouts import ChartLayout, KeyName, Keys, MetricName, Selection
from duetbench.project.schema import read_toml, validated

FILE: Final = "published.toml"


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


class Headline(Frozen):
    """A figure, or a ratio of two, that stands for an experiment: a card and a badge."""

    name: str = Field(pattern="^[a-z][a-z0-9-]*$", description="Of its badge's file.")
    place: int = Field(description="Its order among the cards of all experiments.")
    label: str = Field(description="In words.")
    case: str = Field(description="Case id.")
    base: str | None = Field(
        default=None, description="Id of the case that it is divided by; null: the figure itself."
    )
    metric: MetricName


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
    charts: tuple[ChartLayout, ...] = Field(default=(), description="For the site: layouts.py.")
    shapes: tuple[Shape, ...] = ()
    headlines: tuple[Headline, ...] = Field(default=(), description="For the site's front page.")
    answers: tuple[str, ...] = Field(
        default=(), description="Sentences with figures: templates, see show/claims.py."
    )

    @model_validator(mode="after")
    def _known_names(self) -> Self:
        if wrong := [name for name in self.cases if "/" in name]:
            raise ValueError(f"short names without '/' expected, found {wrong}")
        sides = {side for one in self.shapes for side in (one.numerator, one.denominator) if side}
        unknown = sorted(n for n in {*self.figures, *sides} - {*self.cases} if "/" not in n)
        if unknown:
            raise ValueError(f"names {unknown} are not in [cases]: {', '.join(self.cases)}")
        anchors = [chart.name for chart in self.charts]
        if len(set(anchors)) < len(anchors):
            raise ValueError(f"charts need names of their own, found {anchors}")
        return self

    def ids(self, name: str) -> tuple[str, ...]:
        """The case ids behind a short name; an id stands for itself."""
        named = self.cases.get(name, name)
        return (named,) if isinstance(named, str) else named

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


def headlines() -> tuple[Headline, ...]:
    """All headlines of the checkout around us, in their order."""
    return _headlines(paths.project_root())


@functools.cache
def _headlines(root: Path) -> tuple[Headline, ...]:
    found = (one for published in load_published(root).values() for one in published.headlines)
    return tuple(sorted(found, key=lambda one: (one.place, one.name)))
