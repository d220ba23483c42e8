"""What can tell the rows of a table apart: properties of a case, by name.

To let tables show another property, add a row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from servebench.core import units
from servebench.core.model import Case

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
