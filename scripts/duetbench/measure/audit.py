"""A published table, row by row: what cannot be, what is suspicious, and what could not be checked.

The laws are in `laws`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from duetbench.measure.laws import LAWS, Problem
from duetbench.project.published_table import PublishedRow, PublishedTable


@dataclass(frozen=True, slots=True)
class RowAudit:
    """What became of one row: its problems, the laws that hold, and what others lack."""

    row: PublishedRow
    problems: tuple[Problem, ...]
    fine: tuple[str, ...]
    unchecked: Mapping[str, str]

    @property
    def verdict(self) -> str:
        """The worst that is said of it; "unchecked" where nothing could be held against a law."""
        verdicts = {problem.verdict for problem in self.problems}
        worst = next((one for one in ("impossible", "suspicious") if one in verdicts), None)
        return worst or ("fine" if self.fine else "unchecked")


@dataclass(frozen=True, slots=True)
class Audit:
    """A published table, row by row."""

    table: PublishedTable
    rows: tuple[RowAudit, ...]

    def count(self, verdict: str) -> int:
        """How many rows have a verdict."""
        return sum(row.verdict == verdict for row in self.rows)


def audit(table: PublishedTable) -> Audit:
    """Hold every row of a table against every law that it has the columns for."""
    return Audit(table, tuple(map(_audited, table.rows)))


def _audited(row: PublishedRow) -> RowAudit:
    problems: list[Problem] = []
    fine: list[str] = []
    unchecked: dict[str, str] = {}
    for law in LAWS:
        if lacking := law.lacks(row.figures):
            unchecked[law.name] = lacking
            continue
        found = list(law.problems(row))
        problems += found
        fine += [] if found else [law.name]
    return RowAudit(row, tuple(problems), tuple(fine), unchecked)
