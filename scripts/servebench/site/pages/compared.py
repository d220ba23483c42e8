"""The compare page's table as the page itself has it: the sides that it begins with, in words.

The page's script makes the same of any two sides (`static/js/rows.js`); without it nothing else can
be chosen, so that the first rows of everything are shown and the others counted. Pure.
"""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from markupsafe import Markup

from servebench.site import across
from servebench.site.charts import data as charts
from servebench.site.charts.data import Quantity, Value
from servebench.site.charts.trend import spark
from servebench.site.history import Table
from servebench.site.nights import Header
from servebench.site.pages import pairs, trends, words
from servebench.site.pages.deltas import Figure
from servebench.site.pages.pairs import PYTHON, Group, Row
from servebench.site.shards import folder_name
from servebench.site.story import Story

MOST: Final = 40
"""So many rows."""

_TOLD: Final[dict[Group, str]] = {
    "within": "not told apart",
    "flagged": "not judged",
    "broken": "whose circumstances changed in between",
    "missing": "without a figure on one side",
}
_UNSAID: Final[dict[Group, str]] = {
    "within": "not told apart",
    "flagged": "not judged",
    "broken": "not comparable",
    "missing": "no figure",
}


@dataclass(frozen=True, slots=True)
class Side:
    """What is compared.

    Attributes:
        letter: A or B.
        what: What of the run it is; empty: the run itself.
        run: Its id.
        day: `2026-11-20`.
        commit: Eight digits; empty: none.
    """

    letter: str
    what: str
    run: str
    day: str
    commit: str


@dataclass(frozen=True, slots=True)
class Line:
    """A row: every figure with what stands below it; `tone` is a CSS class."""

    case: str
    group: Group
    tone: str
    a: tuple[str, str]
    b: tuple[str, str]
    change: tuple[str, str]
    factor: tuple[str, str]
    reading: str
    sketch: Markup


@dataclass(frozen=True, slots=True)
class Compared:
    """The comparison.

    Attributes:
        says: What came of it, in a sentence.
        sides: A and B.
        metric: What stands in addresses for the metric.
        lines: The first rows.
        hidden: What the others are, in a sentence; empty: there is none.
        command: What measures both sides together; empty: nothing can.
    """

    says: str
    sides: tuple[Side, Side]
    metric: str
    lines: tuple[Line, ...]
    hidden: str
    command: str


def compared(table: Table, happened: Story, a: str, b: str) -> Compared | None:
    """Compare in the table's first metric.

    Args:
        table: Where both sides stand.
        happened: To the table.
        a: A run's id, or `py:` and an interpreter's name.
        b: Likewise.

    Returns:
        None if the table has no metric that can be compared across cases.
    """
    metric = next(iter(across.metrics(table)), None)
    if metric is None:
        return None
    rows = pairs.rows(table, happened, metric, a, b)
    title = across.title(metric)
    quantity = trends.quantity(metric, title)
    cross = a.startswith(PYTHON)
    nights = {night.run: night for night in table.nights}
    headers = [nights.get(side, table.nights[-1]) for side in (a, b)]
    one, other = (
        _side(letter, word, header)
        for letter, word, header in zip("AB", (a, b), headers, strict=True)
    )
    return Compared(
        says=outcome(title, quantity.better, rows),
        sides=(one, other),
        metric=folder_name(metric),
        lines=tuple(_line(row, quantity, cross=cross) for row in rows[:MOST]),
        hidden=_hidden(rows[MOST:]),
        command=_command(a, b, headers),
    )


def outcome(title: str, better: str, rows: Sequence[Row]) -> str:
    """What came of it, in a sentence."""
    groups = Counter(row.group for row in rows)
    higher = sum(
        row.group == "beyond" and row.change is not None and row.change.ratio > 1 for row in rows
    )
    counts = {"higher": higher, "lower": groups["beyond"] - higher}
    counts |= {said: groups[group] for group, said in _TOLD.items()}
    nothing = not groups["beyond"] and not groups["within"]
    causes = (row.note for group in ("broken", "flagged") for row in rows if row.group == group)
    cause = next(causes, "") if nothing else ""
    return (
        f"{title} of {words.many(len(rows), 'case')}"
        + (": " if better == "neither" else f", {better} is better: ")
        + ("nothing could be compared: " if nothing else "")
        + ", ".join(f"{number} {said}" for said, number in counts.items() if number)
        + (f" ({cause})." if cause else ".")
    )


def _side(letter: str, word: str, header: Header) -> Side:
    python = word.removeprefix(PYTHON) if word.startswith(PYTHON) else ""
    return Side(
        letter=letter,
        what=f"Python {python}" if python else "",
        run=header.run,
        day=_day(header),
        commit=(header.commit or "")[:8],
    )


def _line(row: Row, quantity: Quantity, *, cross: bool) -> Line:
    tone = _tone(row, quantity)
    change, beside = row.change, row.beside
    reading = _UNSAID.get(row.group, "")
    if row.group == "beyond" and change is not None:
        reading = "↑ higher" if change.ratio > 1 else "↓ lower"
    ends = ""
    if change is not None and change.low is not None and change.high is not None:
        ends = f"{words.change(change.low).removesuffix(' %')}…{words.change(change.high)}"
    factor = ("", "")
    if beside is not None:
        floor = words.change(math.exp(beside.floor))[1:]
        factor = (f"{beside.factor:.1f}×", f"±{floor}{'' if beside.known else '*'}")
    return Line(
        case=row.case,
        group=row.group,
        tone=tone,
        a=_cell(row.a, quantity),
        b=_cell(row.b, quantity),
        change=("—" if change is None else words.change(change.ratio), ends),
        factor=factor,
        reading=f"{reading}: {row.note}" if row.note else reading,
        sketch=_sketch(row.recent, tone, cross=cross),
    )


def _tone(row: Row, quantity: Quantity) -> str:
    """Worse, better, other (no direction is better), or same: within the noise, or not judged."""
    if row.group != "beyond" or row.change is None:
        return "same"
    if quantity.better == "neither":
        return "other"
    return "better" if (row.change.ratio > 1) == (quantity.better == "higher") else "worse"


def _cell(figure: Figure | None, quantity: Quantity) -> tuple[str, str]:
    """A figure, and its interval."""
    if figure is None or figure.mean is None:
        return "—", ""
    low, high = figure.low, figure.high
    if low is None or high is None:
        low = high = None
    else:  # figure and ends were rounded apart from each other
        low, high = min(low, figure.mean), max(high, figure.mean)
    interval = charts.interval(quantity, Value(figure.mean, low, high))
    return quantity.format(figure.mean), interval


def _sketch(recent: Sequence[float | None], tone: str, *, cross: bool) -> Markup:
    if sum(value is not None for value in recent) < 2:
        return Markup("")
    what = "B over A" if cross else "the figure"
    drawing = spark(f"{what} in the last {len(recent)} nights", recent, tone)
    return Markup(drawing)  # noqa: S704 - drawn by what escapes


def _hidden(rows: Sequence[Row]) -> str:
    counts = Counter("that differ" if row.group == "beyond" else _TOLD[row.group] for row in rows)
    parts = [f"{number} {told}" for told, number in counts.items()]
    return f"Not shown: {', '.join(parts)}." if parts else ""


def _command(a: str, b: str, headers: Sequence[Header]) -> str:
    """Commits where they are known and differ, otherwise the stacks of the days."""
    options = list(_options(a, b, headers))
    return shlex.join(["servebench", "compare", *options]) if options else ""


def _options(a: str, b: str, headers: Sequence[Header]) -> Iterator[str]:
    one, other = headers
    if a.startswith(PYTHON):
        yield from ("--python", a.removeprefix(PYTHON), b.removeprefix(PYTHON))
    elif one.commit and other.commit and one.commit != other.commit:
        yield from (one.commit, other.commit)
    elif _day(one) != _day(other):
        yield from ("--stack-as-of", _day(one), "--stack-as-of", _day(other))


def _day(header: Header) -> str:
    return f"{datetime.fromtimestamp(header.time, UTC):%Y-%m-%d}"
