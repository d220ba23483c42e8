"""Two nights, or two interpreters of one, case by case: what becomes of each row. Pure.

What `static/js/comparing.js` does for any two sides, for those that the compare page begins with.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from servebench.site import across
from servebench.site.history import Table
from servebench.site.pages.deltas import (
    Beyond,
    Delta,
    Entry,
    Figure,
    beyond,
    called,
    chance,
    delta,
    figure,
    judged,
    noise,
)
from servebench.site.scaling import Year, columns, years
from servebench.site.story import Story

PYTHON: Final = "py:"
"""What the word of a side begins with that is an interpreter; others are runs."""
RECENT: Final = 60
"""Nights of a sparkline."""

Group = Literal["beyond", "within", "flagged", "broken", "missing"]
"""`beyond` the noise, or `within` it: not told apart; `flagged`: a figure that is not judged;
`broken`: the circumstances changed in between; `missing`: no figure on one side."""
_ORDER: Final[tuple[Group, ...]] = ("beyond", "within", "flagged", "broken", "missing")

Document = Mapping[str, Any]
"""A file of one metric, read."""


@dataclass(frozen=True, slots=True)
class Row:
    """One case.

    Attributes:
        case: Of side B; of A where B has none.
        group: What became of it.
        a: The figure of side A; None: A has no such case.
        b: Likewise.
        change: B over A.
        beside: The change beside the noise.
        chance: Of so large a change though nothing changed; of judged rows.
        note: Why nothing is said of it.
        recent: The newest nights, up to the later side; of interpreters their ratio.
    """

    case: str
    group: Group
    a: Figure | None
    b: Figure | None
    change: Delta | None = None
    beside: Beyond | None = None
    chance: float = 1.0
    note: str = ""
    recent: tuple[float | None, ...] = ()


@dataclass(frozen=True, slots=True)
class _Place:
    """A night in its year's file."""

    night: int
    year: Year
    file: Document

    @property
    def here(self) -> int:
        """Its place in the year."""
        return self.night - self.year.start


@dataclass(frozen=True, slots=True)
class _Pair:
    """A case on both sides."""

    a: Entry | None
    b: Entry | None
    cross: bool = False

    @property
    def case(self) -> str:
        """Its id."""
        entry = self.b or self.a or {}
        return str(entry["id"])


def rows(table: Table, happened: Story, metric: str, a: str, b: str) -> list[Row]:
    """All rows, what differs first, the largest by its noise at the top.

    Args:
        table: Where both sides stand.
        happened: To the table.
        metric: Its name.
        a: The base: a run's id, or `py:` and an interpreter's name, of the newest night.
        b: What is compared with it, of the same kind.

    Raises:
        ValueError: The table has no such night.
    """
    cross = a.startswith(PYTHON)
    runs = [night.run for night in table.nights]
    nights = [len(runs) - 1] * 2 if cross else [runs.index(a), runs.index(b)]
    files: dict[Year, Document] = {}
    before, after = (_place(table, metric, night, files) for night in nights)
    pairs = (
        _crossed(after.file, a.removeprefix(PYTHON), b.removeprefix(PYTHON))
        if cross
        else _paired(before.file, after.file)
    )
    made = [_row(pair, before, after, happened) for pair in pairs]
    return sorted(_judged(made), key=_furthest)


def _judged(made: Sequence[Row]) -> Iterator[Row]:
    """Call those rows different of which so many looks at once leave no doubt."""
    compared = [place for place, row in enumerate(made) if row.group == "within"]
    chances = [made[place].chance for place in compared]
    differs = dict(zip(compared, called(chances), strict=True))
    for place, row in enumerate(made):
        beyond = differs.get(place) and row.beside and row.beside.factor > 1
        yield replace(row, group="beyond") if beyond else row


def _place(table: Table, metric: str, night: int, files: dict[Year, Document]) -> _Place:
    year = next(one for one in years(table) if one.start <= night < one.stop)
    if year not in files:
        files[year] = _file(table, metric, year)
    return _Place(night, year, files[year])


def _file(table: Table, metric: str, year: Year) -> Document:
    """What the script would fetch; of one metric, which takes a fraction of the time of all."""
    column = table.metrics.index(metric)
    only = slice(column, column + 1)
    blocks = {name: getattr(table, name)[..., only] for name in ("mean", "low", "high", "launches")}
    alone = replace(table, metrics=(metric,), **blocks)
    found: Document = json.loads(across.across_file(columns(alone, year), metric))
    return found


def _paired(before: Document, after: Document) -> list[_Pair]:
    """The same cases of two nights."""
    olds, news = ({entry["id"]: entry for entry in file["cases"]} for file in (before, after))
    return [_Pair(olds.get(case), news.get(case)) for case in {**olds, **news}]


def _crossed(file: Document, a: str, b: str) -> list[_Pair]:
    """Cases of one night that differ in the interpreter only: that segment of their ids."""
    found: dict[str, dict[str, Entry]] = {}
    for entry in file["cases"]:
        own = f"py{entry['python']}"
        family = "/".join("*" if part == own else part for part in entry["id"].split("/"))
        if entry["python"] in {a, b} and family != entry["id"]:
            found.setdefault(family, {})[entry["python"]] = entry
    return [_Pair(both.get(a), both.get(b), cross=True) for both in found.values()]


def _row(pair: _Pair, before: _Place, after: _Place, happened: Story) -> Row:
    samples = after.file["kind"] == "inprocess"  # quartiles are no interval of a mean
    one = None if pair.a is None else figure(pair.a, before.here, samples=samples)
    other = None if pair.b is None else figure(pair.b, after.here, samples=samples)
    values = _series(pair)
    until = 1 + max(after.here, before.here if before.year == after.year else 0)
    row = Row(
        pair.case, "missing", one, other, recent=tuple(values[max(0, until - RECENT) : until])
    )
    change = delta(one, other) if one and other else None
    if one is None or other is None or change is None:
        return replace(row, note=_why(one, other))
    first, last = sorted((before.night, after.night))
    between = [
        f"{each.what}: {each.before} → {each.after}"
        for each in happened.breaks.get(pair.case, ())
        if first < each.night <= last
    ]
    if between and not pair.cross:
        return replace(row, group="broken", change=change, note=between[-1])
    row = replace(row, group="flagged", change=change)
    if not (one.judged and other.judged):
        return replace(row, note=_why(one, other))
    noisy = noise(values, set(_edges(pair.case, after.year, happened)))
    return replace(
        row,
        group="within",
        beside=beyond(change, noisy, after.file["floor"]),
        chance=chance(change, min(one.freedom, other.freedom), noisy),
    )


def _series(pair: _Pair) -> list[float | None]:
    """What is judged of both sides over the year: the figures, or in one night their ratio."""
    if pair.b is None:
        return []
    after = judged(pair.b)
    if not pair.cross or pair.a is None:
        return after
    return [
        None if value is None or not base else value / base
        for value, base in zip(after, judged(pair.a), strict=True)
    ]


def _edges(case: str, year: Year, happened: Story) -> Iterator[int]:
    """Places in a year before which the circumstances of a case changed, or any stack."""
    nights = [one.night for one in happened.breaks.get(case, ())]
    nights += [one.night for one in happened.bumps]
    yield from (night - year.start for night in nights if year.start <= night < year.stop)


def _why(a: Figure | None, b: Figure | None) -> str:
    told = (
        (name, "no such case" if one is None else one.why) for name, one in (("A", a), ("B", b))
    )
    return "; ".join(f"{name}: {why}" for name, why in told if why)


def _furthest(row: Row) -> tuple[int, float, str]:
    return _ORDER.index(row.group), -(row.beside.factor if row.beside else 0.0), row.case
