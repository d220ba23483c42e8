"""How the cases of an experiment are laid out in tables: properties of a case, and columns."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from duetbench.core import units
from duetbench.core.metrics import METRICS
from duetbench.core.model import Case, Frozen

KeyValue = str | float | None


@dataclass(frozen=True, slots=True)
class Key:
    """One property of a case: its heading, and how to read it."""

    title: str
    of: Callable[[Case], KeyValue]

    def text(self, case: Case) -> str:
        value = self.of(case)
        if value is None:
            return "—"
        return f"{value:g}" if isinstance(value, float) else str(value)


def _floor(case: Case) -> str | None:
    return units.seconds(case.endpoint.floor) if case.endpoint.floor else None


KEYS: Final[dict[str, Key]] = {
    "id": Key("case", lambda case: case.id.partition("/")[2]),
    "endpoint": Key("endpoint", lambda case: case.endpoint.name),
    "python": Key("Python", lambda case: case.python),
    "stack": Key("stack", lambda case: case.stack),
    "server": Key("server", lambda case: case.server),
    "loop": Key("loop", lambda case: case.loop),
    "workers": Key("workers", lambda case: case.workers),
    "threads": Key("threads", lambda case: case.threads),
    "users": Key("users", lambda case: case.load.connections),
    "floor": Key("floor", _floor),
}


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
