"""What an experiment declares besides its cases: published figures, tables, statements.

`apps/<experiment>/published.toml` is for servers. Its tables select cases by globs over their ids
and distinguish them by `KEYS`, properties of a case; its figures are metrics of the registry.
`benchmarks/<suite>.toml` is for an in-process suite, which asv runs.
"""

from collections.abc import Callable, Collection, Container
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Final, Self

from pydantic import AfterValidator, Field, model_validator

from duetbench.app.declarations import read_toml, validate
from duetbench.core import units
from duetbench.core.metrics import METRICS
from duetbench.core.model import Case, Frozen
from observatory.matrix.experiments import FILE as EXPERIMENT
from observatory.matrix.experiments import PUBLISHED as FILE

KEYS: Final[dict[str, Callable[[Case], str | int | None]]] = {
    "endpoint": lambda case: case.endpoint.name,
    "users": lambda case: case.load.connections,
    "floor": lambda case: units.seconds(case.endpoint.floor) if case.endpoint.floor else None,
    **{
        name: attrgetter(name)
        for name in ("python", "stack", "server", "loop", "workers", "threads")
    },
}
"""Properties of a case that distinguish rows, and how to read them."""

_ASKED: Final[tuple[str, ...]] = ("title", "question", "deviations")  # keys of `experiment.toml`


def _one_of(kind: str, names: Collection[str]) -> AfterValidator:
    def check(name: str) -> str:
        if name not in names:
            raise ValueError(f"unknown {kind} {name!r}; known: {', '.join(names)}")
        return name

    return AfterValidator(check)


KeyName = Annotated[str, _one_of("property", KEYS)]
MetricName = Annotated[str, _one_of("metric", METRICS)]


class TableLayout(Frozen):
    """A table of an experiment: its cases, what distinguishes them, and its figures."""

    title: str
    select: tuple[str, ...] = Field(min_length=1, description="Globs over case ids.")
    keys: Annotated[tuple[KeyName, ...], Field(min_length=1)] = Field(
        description="Properties that distinguish rows."
    )
    columns: tuple[MetricName, ...] = Field(min_length=1)
    headings: dict[MetricName, str] = Field(
        default_factory=dict, description="Column headings instead of the metrics' titles."
    )
    note: str | None = None


class Shape(Frozen):
    """A statement about the shape of the result.

    It holds if the ratio of two sides, or the figure of one, is between `least` and `most`. Sides
    are names from `cases`, ids of cases, or of readings of asv (see `Reading.id`).
    """

    statement: str
    metric: MetricName = Field(default="", description="Empty: seconds that asv measured.")
    numerator: str
    denominator: str | None = None
    per: tuple[MetricName, str, str] | None = Field(
        default=None,
        description="Metric and cases of a run with servers, by whose ratio it is divided.",
    )
    least: float | None = None
    most: float | None = None
    published: float | None = Field(
        default=None, description="Only if it does not follow from the published figures."
    )
    if_not: str | None = Field(default=None, description="Why our shape may differ.")
    cannot: str | None = Field(
        default=None, description="Why a machine with fewer than `needs` cores cannot answer it."
    )
    needs: int | None = Field(default=None, description="None: no machine can answer it.")

    @model_validator(mode="after")
    def _limited(self) -> Self:
        if self.least is None and self.most is None:
            raise ValueError("a shape needs least or most, or both")
        return self


class SuiteColumn(Frozen):
    """A column of a table: an environment."""

    title: str
    python: str
    stack: str | None = None


class SuiteTable(Frozen):
    """A table of one benchmark, or of many: a row is one with its parameters, or its name."""

    title: str
    benchmark: str = Field(description="Its name, or the start of several names.")
    keys: tuple[str, ...] = Field(
        default=(), description="Its parameters; of rows that differ in the last, the order stays."
    )
    columns: tuple[SuiteColumn, ...] = Field(min_length=1)
    note: str = ""


class InProcess(Frozen):
    """A suite's file: what an experiment measures inside the process."""

    question: str = ""
    experiment: str = Field(
        default="", description="That its tables and statements belong to; empty: none."
    )
    deviations: tuple[str, ...] = ()
    source: str = Field(default="", description="Title, date, machine and versions.")
    tables: tuple[SuiteTable, ...] = ()
    published: tuple[dict[str, float], ...] = Field(
        default=(), description="For each run of the source, seconds by the ids of readings."
    )
    shapes: tuple[Shape, ...] = ()


class Published(Frozen):
    """The source of an experiment; the question itself is in `experiment.toml`."""

    title: str = ""
    question: str = ""
    deviations: tuple[str, ...] = ()
    url: str = Field(default="", description="Address of the repeated article.")
    source: str = Field(default="", description="Title, author or site, date.")
    setting: str | None = Field(default=None, description="Machine and versions of the source.")
    cases: dict[str, str | tuple[str, ...]] = Field(
        default_factory=dict,
        description="Short names for case ids, used below. Of several ids, the first in a run "
        "counts; published figures belong to the first of all.",
    )
    figures: dict[str, dict[MetricName, float]] = Field(
        default_factory=dict, description="By case name or id: metric → figure in SI units."
    )
    notes: tuple[str, ...] = Field(default=(), description="How figures were converted.")
    tables: tuple[TableLayout, ...] = ()
    shapes: tuple[Shape, ...] = ()
    suite: InProcess = Field(default=InProcess(), description="Of `benchmarks/`.")

    def ids(self, name: str) -> tuple[str, ...]:
        """Return the case ids behind a short name; an id stands for itself."""
        id_ = self.cases.get(name, name)
        return (id_,) if isinstance(id_, str) else id_

    def case_id(self, name: str, present: Container[str]) -> str:
        """Return the case that a name means: its first id that is present, else its first id."""
        ids = self.ids(name)
        return next((case_id for case_id in ids if case_id in present), ids[0])

    def figures_of(self, case_id: str) -> dict[str, float]:
        """Return all published figures of a case, in SI units."""
        return next((row for name, row in self.figures.items() if self.ids(name)[0] == case_id), {})


def load_published(root: Path) -> dict[str, Published]:
    """Read what experiments ask and their sources say, of servers and inside the process.

    Raises DeclarationError if a file is not TOML, or has an invalid value.
    """
    by_name = {}
    for path in sorted((root / "apps").glob(f"*/{EXPERIMENT}")):
        declared, source = read_toml(path), path.with_name(FILE)
        asked = {key: declared[key] for key in _ASKED if key in declared}
        url = declared.get("source", {}).get("url", "")
        table = {**asked, "url": url, **(read_toml(source) if source.exists() else {})}
        keys = "only the documented keys: results/README.md"
        by_name[path.parent.name] = validate(Published, table, str(source), keys=keys)
    for path in sorted((root / "benchmarks").glob("*.toml")):
        name = f"benchmarks/{path.name}"
        suite = validate(InProcess, read_toml(path, name), name, keys="only documented keys")
        if suite.experiment:
            own = by_name.get(suite.experiment, Published())
            by_name[suite.experiment] = own.model_copy(update={"suite": suite})
    return by_name
