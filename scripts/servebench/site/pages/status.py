"""What the newest run of a machine says, in one sentence and in counts that add up. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from servebench.changes import ChangeRecord
from servebench.compare.model import Verdict
from servebench.site.history import STATES, Table
from servebench.site.pages import words
from servebench.units import count

RECENT: Final = 7
"""A case that one of so many nights before measured, and the newest did not, is missing."""

_FAILED, _DISTURBED, _MEASURED = (
    STATES.index(name) for name in ("failed", "disturbed", "measured")
)


@dataclass(frozen=True, slots=True)
class Status:
    """The newest night of a table, case by case; every case is in exactly one of the lists.

    Attributes:
        run: The night's run.
        time: Its start, s since 1970.
        slower: Cases that an open change made slower (or larger).
        faster: Cases that an open change made faster.
        steady: Cases without an open change.
        first: Cases that no night measured before: there is nothing to compare them with.
        disturbed: Cases of which nothing is decided: something else was measured with them.
        failed: Cases without a figure, because they failed.
        missing: Cases that the night did not come to, or that its plan no longer has.
    """

    run: str
    time: int
    slower: tuple[str, ...]
    faster: tuple[str, ...]
    steady: tuple[str, ...]
    first: tuple[str, ...]
    disturbed: tuple[str, ...]
    failed: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def counts(self) -> tuple[tuple[str, str, int], ...]:
        """Class, words and number of what there is, in the order of interest."""
        every = (
            ("slower", "slower", self.slower),
            ("faster", "faster", self.faster),
            ("same", "within noise", self.steady),
            ("first", "measured for the first time", self.first),
            ("open", "disturbed, not judged", self.disturbed),
            ("open", "failed", self.failed),
            ("open", "missing", self.missing),
        )
        return tuple((kind, label, len(many)) for kind, label, many in every if many)

    @property
    def total(self) -> int:
        """All cases."""
        return sum(number for _, _, number in self.counts)


def of_table(table: Table, changes: Iterable[ChangeRecord]) -> Status:
    """The status of a table's newest night."""
    moved = _moved(table.machine, changes)
    before = (table.status[:-1] == _MEASURED).any(axis=0)
    recent = (table.status[-1 - RECENT :] > 0).any(axis=0)
    found: dict[str, list[str]] = {}
    for row in np.flatnonzero(recent).tolist():
        case, code = table.cases[row], int(table.status[-1, row])
        kind = _kind(code, moved.get(case), measured_before=bool(before[row]))
        found.setdefault(kind, []).append(case)
    newest = table.nights[-1]
    kinds = ("slower", "faster", "steady", "first", "disturbed", "failed", "missing")
    return Status(newest.run, newest.time, *(tuple(found.get(kind, ())) for kind in kinds))


def sentence(status: Status) -> str:
    """The status in words.

    >>> sentence(Status("r", 0, ("a",), (), ("b", "c"), (), (), (), ()))
    'Of 3 cases 1 is slower than before; 2 are within noise.'
    """
    compared = status.slower or status.faster or status.steady
    parts = [
        _part(len(many), label)
        for many, label in (
            (status.slower, "slower than before"),
            (status.faster, "faster than before"),
            (status.steady, "within noise"),
            (status.first, "measured for the first time"),
            (status.disturbed, "disturbed and not judged"),
            (status.failed, "failed"),
            (status.missing, "missing"),
        )
        if many
    ]
    text = f"Of {words.many(status.total, 'case')} "
    if compared and not (status.slower or status.faster):
        text += "none has an open change; "
    text += "; ".join(parts)
    return f"{text}." if compared else f"{text}. There is nothing to compare with yet."


def _part(number: int, label: str) -> str:
    plain = label in {"failed", "measured for the first time"}
    verb = "" if plain else "is " if number == 1 else "are "
    return f"{count(number)} {verb}{label}"


def _kind(code: int, verdict: Verdict | None, *, measured_before: bool) -> str:
    if code == _FAILED:
        return "failed"
    if code not in {_MEASURED, _DISTURBED}:
        return "missing"
    if verdict is not None:
        return verdict.value  # "slower" or "faster"
    if code == _DISTURBED:
        return "disturbed"
    return "steady" if measured_before else "first"


def _moved(machine: str, changes: Iterable[ChangeRecord]) -> dict[str, Verdict]:
    """Case → what open changes did to it; slower, if both."""
    found: dict[str, Verdict] = {}
    for record in changes:
        if record.status != "open" or record.verdict not in {Verdict.SLOWER, Verdict.FASTER}:
            continue
        for series in (record.series, *record.others):
            if series.machine == machine and found.get(series.case) is not Verdict.SLOWER:
                found[series.case] = record.verdict
    return found
