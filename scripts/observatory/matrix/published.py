"""What an experiment declares besides its cases: published figures, tables, statements.

`apps/<experiment>/published.toml` is for servers. Its tables select cases by globs over their ids
and distinguish them by `KEYS`, properties of a case; its figures are metrics of the registry.
Without the file, an experiment gets one table of everything. `benchmarks/<suite>.toml` says on
which stacks asv runs a suite inside the process.
"""

from collections.abc import Container
from pathlib import Path
from typing import Final, Self

from pydantic import Field, model_validator

from duetbench.app.pyproject import read_toml
from duetbench.app.schema import validate
from duetbench.core.model import Frozen
from observatory.matrix.layouts import MetricName, TableLayout
from observatory.matrix.schema import FILE as EXPERIMENT
from observatory.matrix.schema import PUBLISHED as FILE

SUITES: Final = "benchmarks"


class Shape(Frozen):
    """A statement about the shape of the result.

    It holds if the ratio of two cases, or the figure of one, is between `least` and `most`. Cases
    are names from `cases`, or ids; `denominator` is optional.
    """

    statement: str
    metric: MetricName
    numerator: str
    denominator: str | None = None
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


class Published(Frozen):
    """The source of an experiment; the question itself is in `experiment.toml`."""

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

    @model_validator(mode="after")
    def _known_names(self) -> Self:
        sides = {
            side for shape in self.shapes for side in (shape.numerator, shape.denominator) if side
        }
        unknown = sorted(n for n in {*self.figures, *sides} - {*self.cases} if "/" not in n)
        if unknown:
            raise ValueError(f"names {unknown} are not in [cases]: {', '.join(self.cases)}")
        return self

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


class Suite(Frozen):
    """A suite of benchmarks inside the process; `suite` is the file's name without `.toml`."""

    suite: str
    question: str
    stacks: tuple[str, ...] = Field(min_length=1, description="Stacks that it runs on.")


def load_published(root: Path) -> dict[str, Published]:
    """Read what experiments ask (`experiment.toml`) and their sources say (`published.toml`).

    Raises DeclarationError if a file is not TOML, or has an invalid value.
    """
    by_name = {}
    for path in sorted((root / "apps").glob(f"*/{EXPERIMENT}")):
        declaration, source = read_toml(path), path.with_name(FILE)
        table = {
            "question": declaration.get("question", ""),
            "deviations": declaration.get("deviations", ()),
            "url": declaration.get("source", {}).get("url", ""),
            **(read_toml(source) if source.exists() else {}),
        }
        keys = "only the documented keys: results/README.md"
        by_name[path.parent.name] = validate(Published, table, str(source), keys=keys)
    return by_name


def read_suites(root: Path) -> tuple[Suite, ...]:
    """Read all suites that a checkout declares, by name; raises DeclarationError."""
    return tuple(
        validate(
            Suite,
            {"suite": path.stem, **read_toml(path, name := f"{SUITES}/{path.name}")},
            name,
            keys="only documented keys",
        )
        for path in sorted((root / SUITES).glob("*.toml"))
    )
