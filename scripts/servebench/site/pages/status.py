"""What the newest night of a machine brought, and what is open since before it, in words. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from servebench.core.units import count
from servebench.record.change import ChangeRecord
from servebench.record.comparison import Verdict
from servebench.series.events import Events
from servebench.series.table import STATES, Table
from servebench.site.pages import words

RECENT: Final = 7
"""A case that one of so many nights before measured, and the newest did not, is missing."""

_RELEASES: Final = 4  # so many are named
_FAILED, _DISTURBED, _MEASURED = (
    STATES.index(name) for name in ("failed", "disturbed", "measured")
)


@dataclass(frozen=True, slots=True)
class Status:
    """The newest night of a table; every case is in exactly one of its last five lists.

    Attributes:
        run: The night's run.
        time: Its start, s since 1970.
        nightly: Whether it is one of the nightly runs.
        slower: Cases that a change made slower (or larger) from this night on.
        faster: Cases that a change made faster from this night on.
        releases: What came in with it: `fastapi 0.163.2`.
        still: Changes that are open since before it.
        measured: Cases with a figure, and with one in some night before.
        first: Cases that no night measured before: there is nothing to compare them with.
        disturbed: Cases of which nothing is decided: something else was measured with them.
        failed: Cases without a figure, because they failed.
        missing: Cases that the night did not come to, or that its plan no longer has.
    """

    run: str
    time: int
    nightly: bool
    slower: tuple[str, ...]
    faster: tuple[str, ...]
    releases: tuple[str, ...]
    still: tuple[ChangeRecord, ...]
    measured: tuple[str, ...]
    first: tuple[str, ...]
    disturbed: tuple[str, ...]
    failed: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def counts(self) -> tuple[tuple[str, str, int], ...]:
        """Class, words and number of what became of the cases, in the order of interest."""
        every = (
            ("same", "measured", self.measured),
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


def of_table(table: Table, happened: Events, changes: Iterable[ChangeRecord]) -> Status:
    """The status of a table's newest night."""
    newest, last = table.nights[-1], len(table.nights) - 1
    records = [
        record
        for record in changes
        if record.status == "open"
        and record.verdict in {Verdict.SLOWER, Verdict.FASTER}
        and _cases(record, table.machine)
    ]
    began = [record for record in records if record.when.timestamp() >= newest.time]
    before = (table.status[:-1] == _MEASURED).any(axis=0)
    recent = (table.status[-1 - RECENT :] > 0).any(axis=0)
    found: dict[str, list[str]] = {}
    for row in np.flatnonzero(recent).tolist():
        kind = _kind(int(table.status[-1, row]), measured_before=bool(before[row]))
        found.setdefault(kind, []).append(table.cases[row])
    moved = {
        verdict: tuple(
            dict.fromkeys(
                case
                for record in began
                if record.verdict is verdict
                for case in _cases(record, table.machine)
            )
        )
        for verdict in (Verdict.SLOWER, Verdict.FASTER)
    }
    releases = dict.fromkeys(
        f"{one.package} {one.head or 'gone'}"
        for bump in happened.bumps
        if bump.night == last
        for one in bump.packages
    )
    kinds = ("measured", "first", "disturbed", "failed", "missing")
    return Status(
        newest.run,
        newest.time,
        newest.profile == "nightly",
        moved[Verdict.SLOWER],
        moved[Verdict.FASTER],
        tuple(releases),
        tuple(record for record in records if record not in began),
        *(tuple(found.get(kind, ())) for kind in kinds),
    )


def sentence(status: Status) -> str:
    """What the newest night brought, in words."""
    parts = [
        _part(len(many), label)
        for many, label in (
            (status.measured, "measured"),
            (status.first, "measured for the first time"),
            (status.disturbed, "disturbed and not judged"),
            (status.failed, "failed"),
            (status.missing, "missing"),
        )
        if many
    ]
    cases = f"Of {words.many(status.total, 'case')} {'; '.join(parts)}."
    if not status.measured:
        return f"{cases} There is nothing to compare with yet."
    moved = [
        f"{words.many(len(many), 'case')} {word}"
        for many, word in ((status.slower, "slower"), (status.faster, "faster"))
        if many
    ]
    news = f"{' and '.join(moved)} from here on" if moved else "nothing new"
    return (
        f"{'Newest night' if status.nightly else 'Newest run'}: {news} ({_came(status)}). {cases}"
    )


def still_open(status: Status, machine: str) -> str:
    """What is open since before the night; empty if nothing is."""
    if not status.still:
        return ""
    cases = {case for record in status.still for case in _cases(record, machine)}
    since = words.day(min(record.when for record in status.still))
    return (
        f"Open since {since}: {words.many(len(status.still), 'change')}, "
        f"{words.many(len(cases), 'case')}."
    )


def _came(status: Status) -> str:
    """Which releases came in."""
    if not status.releases:
        return "no release came in"
    named, more = status.releases[:_RELEASES], status.releases[_RELEASES:]
    return f"{words.many(len(status.releases), 'release')} came in: {', '.join(named)}" + (
        f" and {len(more)} more" if more else ""
    )


def _part(number: int, label: str) -> str:
    plain = label in {"failed", "measured for the first time"}
    verb = "" if plain else "is " if number == 1 else "are "
    return f"{count(number)} {verb}{label}"


def _kind(code: int, *, measured_before: bool) -> str:
    if code == _FAILED:
        return "failed"
    if code == _DISTURBED:
        return "disturbed"
    if code != _MEASURED:
        return "missing"
    return "measured" if measured_before else "first"


def _cases(record: ChangeRecord, machine: str) -> list[str]:
    """The cases of a machine that a change moved."""
    return [one.case for one in (record.series, *record.others) if one.machine == machine]
