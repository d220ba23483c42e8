"""`benchmarks/<suite>.toml`: the question of a suite inside the process, its stacks and tables.

A suite with a `[source]` is an experiment with a page of its own, as `apps/<experiment>/` is for
servers; the others share one page.
"""

from pathlib import Path
from typing import Final, Self

from pydantic import Field, model_validator

from duetbench.core.model import Frozen
from duetbench.core.protocol import FormulaError, evaluate
from duetbench.project.schema import read_toml, validated

FOLDER: Final = "benchmarks"
SHARED_PAGE: Final = "inside-the-process"
"""The page of suites that nobody published before."""


class SuiteSource(Frozen):
    """Where an experiment comes from."""

    title: str
    date: str
    setting: str
    python: str = Field(description="The interpreter that its figures stand beside.")


class SuiteColumn(Frozen):
    """A column of a table: an environment, or how many times one column's figures are another's."""

    title: str
    python: str | None = None
    stack: str | None = None
    over: tuple[int, int] | None = Field(default=None, description="Places of two columns.")


class BesideRun(Frozen):
    """What a run with servers adds to a table: a row for each load and metric of an experiment."""

    experiment: str
    metrics: dict[str, str] = Field(description="Metric → its name in the row.")


class SuiteTable(Frozen):
    """A table of one benchmark that does the same work in several ways, or of many benchmarks.

    With `variant`, the parameter that says which way, every interpreter has the time, the speed-up
    over the way `base`, and what is possible at best. Without it, a row is a benchmark with its
    parameters and a column is an environment.
    """

    title: str
    benchmark: str = Field(description="Its name, or the start of several names.")
    name: str = Field(default="", pattern="^[a-z0-9-]*$", description="For shapes and anchors.")
    keys: tuple[str, ...] = Field(default=(), description="Its parameters besides the variant.")
    variant: str | None = None
    base: str | None = Field(default=None, description="The variant that others are compared with.")
    times: str | None = Field(
        default=None, description="The parameter that says how many times the work of `base` it is."
    )
    best: str | None = Field(
        default=None,
        description="Formula for the shortest possible time in seconds, over base (its time), "
        "cores, slowest, and the numbers among the parameters.",
    )
    slowest: str | None = Field(
        default=None, description="The benchmark that tracks the slowest single round."
    )
    columns: tuple[SuiteColumn, ...] = Field(default=(), description="Default: all environments.")
    beside: BesideRun | None = None
    note: str = ""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if (self.variant is None) != (self.base is None):
            raise ValueError("variant and base belong together")
        if self.best is not None:
            parameters = [*self.keys, *([self.variant] if self.variant else [])]
            try:
                evaluate(self.best, dict.fromkeys(["base", "cores", "slowest", *parameters], 1.0))
            except FormulaError as problem:
                raise ValueError(str(problem)) from problem
        return self


class PublishedTimes(Frozen):
    """What the source measured in one run, by variant, in seconds."""

    table: str
    run: str | None = None
    where: dict[str, str] = Field(default_factory=dict)
    seconds: dict[str, float]


class SuiteSide(Frozen):
    """One of two figures."""

    python: str
    stack: str | None = None
    variant: str | None = None


class RunRatio(Frozen):
    """A ratio of two cases in a run with servers."""

    metric: str
    above: str
    below: str


class SuiteShape(Frozen):
    """`above` is at least, at most so many times `below`; `per`: divided by what a run gained."""

    statement: str
    table: str
    benchmark: str | None = Field(default=None, description="Default: that of the table.")
    where: dict[str, str] = Field(default_factory=dict)
    above: SuiteSide
    below: SuiteSide
    per: RunRatio | None = None
    least: float | None = None
    most: float | None = None
    if_not: str | None = None

    @model_validator(mode="after")
    def _limited(self) -> Self:
        if self.least is None and self.most is None:
            raise ValueError("a shape needs least or most, or both")
        return self


class SuiteAnswer(Frozen):
    """A sentence that ends with how many times as fast one variant is, on every interpreter."""

    says: str
    table: str
    where: dict[str, str] = Field(default_factory=dict)
    variant: str


class SuiteDeclaration(Frozen):
    """The file; `suite` is its name without `.toml`."""

    suite: str
    name: str = ""
    question: str
    stacks: tuple[str, ...] = Field(min_length=1, description="On which it runs.")
    deviations: tuple[str, ...] = ()
    source: SuiteSource | None = None
    tables: tuple[SuiteTable, ...] = Field(min_length=1)
    published: tuple[PublishedTimes, ...] = ()
    shapes: tuple[SuiteShape, ...] = ()
    answer: SuiteAnswer | None = None
    titles: dict[str, str] = Field(
        default_factory=dict,
        description="Benchmark → what people call it, with {parameters}; an endpoint's is its own.",
    )
    words: dict[str, str] = Field(
        default_factory=dict, description="Value of a parameter → what a title says for it."
    )

    @model_validator(mode="after")
    def _known_tables(self) -> Self:
        tables = {table.name: table for table in self.tables if table.name}
        items: list[PublishedTimes | SuiteShape | SuiteAnswer] = [*self.published, *self.shapes]
        for item in (*items, *([self.answer] if self.answer else [])):
            if item.table not in tables:
                raise ValueError(f"no table {item.table!r}; declared: {', '.join(tables)}")
            keys = tables[item.table].keys
            whole = not isinstance(item, SuiteShape) or item.benchmark is None
            if whole and set(item.where) != set(keys):
                raise ValueError(
                    f"table {item.table}: expected `where` to name {list(keys)}, "
                    f"found {sorted(item.where)}"
                )
        return self

    @property
    def title(self) -> str:
        return self.name or self.suite

    @property
    def page(self) -> str:
        return self.title if self.source else SHARED_PAGE

    @property
    def benchmarks(self) -> tuple[str, ...]:
        names = (name for table in self.tables for name in (table.benchmark, table.slowest))
        return tuple(dict.fromkeys(filter(None, names)))

    def table(self, name: str) -> SuiteTable:
        """The table of this name."""
        return next(table for table in self.tables if table.name == name)

    def seconds(self, table: str, where: dict[str, str], *variants: str) -> list[tuple[float, ...]]:
        """Published seconds of several variants together, one tuple per run that has all."""
        return [
            tuple(row.seconds[variant] for variant in variants)
            for row in self.published
            if row.table == table and row.where == where and set(variants) <= row.seconds.keys()
        ]


def read_suites(root: Path) -> tuple[SuiteDeclaration, ...]:
    """All suites that a checkout declares, by name; DeclarationError: a file is wrong."""
    return tuple(_read(path) for path in sorted((root / FOLDER).glob("*.toml")))


def _read(path: Path) -> SuiteDeclaration:
    name = f"{FOLDER}/{path.name}"
    document = {"suite": path.stem, **read_toml(path, name)}
    return validated(SuiteDeclaration, document, name, keys="only documented keys")
