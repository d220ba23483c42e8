"""An attribution in words: its sentences, ranked rows, packages, what came and went. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from rich.console import Console
from rich.text import Text

from duetbench.core import units
from duetbench.core.text import short
from duetbench.core.units import Interval
from duetbench.project import names
from duetbench.show import formats, layout
from duetbench.store.attribution import (
    APPLICATION,
    PYTHON,
    Attribution,
    Function,
    Node,
    Row,
)

FIRST: Final = 3
"""Rows that stand where there is only room for the first; compiled code is shown of so many."""

GREY: Final = 0.002
"""Share of all instructions below which a function of the tree is not said to have moved."""

_NATIVE: Final = 3  # compiled functions of a row that are named
_TURNOVER: Final = 8  # functions that came or went that are named
_LONGEST: Final = 150  # characters of a cell in issues and comments
_HEAD: Final = ("share", "of all", "entries", "function", "where", "package", "called by")
_ALIGN: Final = ("---:", "---:", "---:", "---", "---", "---", "---")


@dataclass(frozen=True, slots=True)
class RowText:
    """A row in words: `50 %` of the change, `+8.0 %` of all instructions of the base.

    `share` is a dash where the whole change is within what equal sides differ by.
    """

    row: Row
    share: str
    of_all: str
    entries: str
    function: str
    where: str
    package: str
    caller: str
    native: tuple[str, ...]

    @property
    def cells(self) -> tuple[str, ...]:
        return (
            self.share,
            self.of_all,
            self.entries,
            self.function,
            self.where,
            self.package,
            self.caller,
        )

    @property
    def below(self) -> str:
        """Where it is, and what calls it."""
        called = f", called by {self.caller}" if self.caller else ""
        return f"{self.where} ({self.package}){called}"


@dataclass(frozen=True, slots=True)
class AttributionText:
    """An attribution in words; `cause` says what is named, or that nothing is."""

    record: Attribution
    headline: str
    cause: str
    scatter: str
    rows: tuple[RowText, ...]
    by_package: tuple[tuple[str, str, str, str], ...]
    turnover: tuple[tuple[str, str], ...]


def describe(record: Attribution) -> AttributionText:
    """Put an attribution into words that say no more than its counts."""
    rows = tuple(_row(record, row) for row in moved_rows(record))
    return AttributionText(
        record=record,
        headline=_headline(record),
        cause=_cause(record, rows),
        scatter=_scatter(record),
        rows=rows,
        by_package=tuple(_by_package(record)),
        turnover=tuple(_turnover(record)),
    )


def moved_rows(record: Attribution) -> tuple[Row, ...]:
    """Select the rows that moved by more than equal sides differ by."""
    least = record.threshold * record.counted.base
    return tuple(row for row in record.rows if row.head != row.base and _size(row) >= least)


def has_moved(record: Attribution) -> bool:
    """Whether the plain counts differ by more than repeated ones."""
    return abs(record.totals.head / record.totals.base - 1) > record.totals.spread


def place(function: Function) -> str:
    """`fastapi/routing.py:412`; of compiled code its file alone."""
    return f"{function.file}:{function.line}" if function.line else function.file


def version(record: Attribution, package: str) -> tuple[str | None, str | None] | None:
    """A package's versions on both sides; None: it does not differ, or is none."""
    changes = (change for change in record.packages if change.package == package)
    return next(((change.base, change.head) for change in changes), None)


def brief(record: Attribution) -> str:
    """Write its sentences and first rows as Markdown for issues and comments."""
    text = describe(record)
    sentences = short(f"{text.headline} {text.cause}", _LONGEST * len(_HEAD))
    parts = [f"**Which code it is**: {layout.escape(sentences)}"]
    if text.rows:
        first = text.rows[:FIRST]
        cells = ([short(cell, _LONGEST) for cell in row.cells] for row in first)
        parts.append(layout.grid(_HEAD, _ALIGN, cells))
        parts.append(f"{text.scatter} Counted: an explanation, and never a verdict.")
    return "\n\n".join(parts)


def print_attribution(console: Console, record: Attribution) -> None:
    """Print an attribution: two lines per row, compiled code below the first rows."""

    def say(line: str, style: str = "") -> None:
        console.print(Text(line, style=style), soft_wrap=True)

    text = describe(record)
    say(text.headline, "bold")
    say(f"  {record.case}, Python {record.python}, in {formats.duration(record.seconds)}", "dim")
    say(f"  {text.cause}")
    if text.rows:
        say("")
        lines = [layout.TextLine("", row.cells[:3], row.function, row.below) for row in text.rows]
        layout.print_lines(console, lines, {0, 1, 2}, layout.TextLine("", _HEAD[:3], _HEAD[3]))
        say(f"  {text.scatter}", "dim")
    code = [f"{row.function}: {', '.join(row.native)}" for row in text.rows if row.native]
    moving = [row for row in text.by_package if row[3] != formats.MISSING]
    for title, listed in (
        ("compiled code below the first rows", code[:FIRST]),
        ("own instructions by package", [f"{p}: {b} → {h} ({c})" for p, b, h, c in moving]),
        ("came and went", [f"{name} {word}" for word, name in text.turnover]),
        ("it cannot see", list(record.notes)),
    ):
        if listed:
            say("")
            say(f"  {title}", "bold")
        for line in listed:
            say(f"    {line}")


def _size(row: Row) -> float:
    return abs(row.head - row.base)


def _headline(record: Attribution) -> str:
    totals, name = record.totals, record.asked or names.name(record.case).what
    if not has_moved(record):
        scatter = formats.size(totals.spread)
        return f"{name}: instructions per request did not move (counts repeat within {scatter})."
    ratio = totals.head / totals.base
    size = formats.percent(ratio).lstrip("+−")
    within = formats.ends(Interval(ratio, ratio * (1 - totals.spread), ratio * (1 + totals.spread)))
    return (
        f"{name} executes {size} {'more' if ratio > 1 else 'fewer'} instructions per request "
        f"({within}, as far as counts repeat): "
        f"{units.count(totals.base)} → {units.count(totals.head)}."
    )


def _cause(record: Attribution, rows: tuple[RowText, ...]) -> str:
    if not rows:
        least = formats.size(record.threshold)
        return f"No function is named: none moved by {least} of all instructions or more."
    first = rows[0]
    where = f"{first.function}, {first.where}, {first.package}"
    if first.share == formats.MISSING:
        return f"What moved most is {where}: {first.of_all} of all instructions."
    return f"The first row has {first.share} (±{_doubt(record)} %) of the change: {where}."


def _scatter(record: Attribution) -> str:
    """Say how precise the figures of rows are."""
    share = f", or {_doubt(record)} % of the change" if _shared(record) else ""
    scatter = f"Equal sides were seen to differ by up to {formats.size(record.threshold)} of all"
    return f"{scatter}{share}: rows are good for no more."


def _shared(record: Attribution) -> bool:
    """Whether the change is large enough to divide it among functions."""
    change = abs(record.counted.head - record.counted.base)
    return change > 0 and change >= record.threshold * record.counted.base


def _doubt(record: Attribution) -> str:
    change = abs(record.counted.head - record.counted.base)
    return units.significant(100 * record.threshold * record.counted.base / change, 1)


def _row(record: Attribution, row: Row) -> RowText:
    share = f"{'−' * (row.share < 0)}{abs(100 * row.share):.0f} %"
    return RowText(
        row=row,
        share=share if _shared(record) else formats.MISSING,
        of_all=of_all(record, row.base, row.head),
        entries=_pair(row.entries) if row.entries else "",
        function=row.function.name + {"came": " (new)", "went": " (gone)", "both": ""}[row.state],
        where=place(row.function),
        package=_package(record, row.function.package),
        caller=row.caller.name if row.caller else "",
        native=tuple(_native(record, row)),
    )


def _native(record: Attribution, row: Row) -> Iterator[str]:
    for code in row.native[:_NATIVE]:
        if code.base != code.head:
            yield f"{code.symbol} {of_all(record, code.base, code.head)}"


def _package(record: Attribution, package: str) -> str:
    if package == PYTHON:
        return f"Python {record.python}"
    if package == APPLICATION or (versions := version(record, package)) is None:
        return package
    base, head = versions
    return f"{package} {base or 'new'} → {head or 'gone'}"


def _by_package(record: Attribution) -> Iterator[tuple[str, str, str, str]]:
    least = record.threshold * record.counted.base
    for part in sorted(record.own, key=lambda part: (-abs(part.head - part.base), part.package)):
        sure = part.head != part.base and abs(part.head - part.base) >= least
        change = of_all(record, part.base, part.head) if sure else formats.MISSING
        package = _package(record, part.package)
        yield package, units.count(part.base), units.count(part.head), change


def _turnover(record: Attribution) -> Iterator[tuple[str, str]]:
    """Yield `came` or `went` with its functions, the largest first, unless they only moved."""
    sums_of: dict[tuple[str, str], list[float]] = {}
    least = GREY * record.counted.base
    for node in walk(record.tree):
        # Without the line, which may have moved.
        sums = sums_of.setdefault((node.function.name, node.function.file), [0.0, 0.0])
        sums[0] += node.base
        sums[1] += node.head
    for word, here, there in (("came", 1, 0), ("went", 0, 1)):
        moving = [
            (-sums[here], *key)
            for key, sums in sums_of.items()
            if sums[here] >= least and not sums[there]
        ]
        if moving:
            listed = [f"{name} ({file})" for _, name, file in sorted(moving)]
            yield word, formats.some(listed, _TURNOVER)


def walk(node: Node) -> Iterator[Node]:
    """Yield a tree's nodes, callers first."""
    waiting = [node]
    while waiting:
        current = waiting.pop()
        yield current
        waiting += reversed(current.below)


def own_counts(node: Node) -> tuple[float, float]:
    """Instructions of base and head in a node itself, without what is below it."""
    base = node.base - sum(child.base for child in node.below)
    return max(0.0, base), max(0.0, node.head - sum(child.head for child in node.below))


def folded(record: Attribution, side: str = "both") -> str:
    """Write the tree as folded stacks, a line each: `a;b;c 31 32`, own instructions of both sides.

    Two counts are what difffolded.pl writes and flamegraph.pl reads; with `side` base or head there
    is one count, which speedscope reads too.
    """
    return "".join(f"{line}\n" for line in _stacks(record.tree, "", side))


def _stacks(node: Node, above: str, side: str) -> Iterator[str]:
    function = node.function
    name = f"{function.name} ({place(function)})".translate(_SEPARATORS)
    stack = f"{above};{name}" if above else name
    counts = [round(count) for count in own_counts(node)]
    chosen = {"base": counts[:1], "head": counts[1:]}.get(side, counts)
    if any(chosen):
        yield f"{stack} {' '.join(map(str, chosen))}"
    for child in node.below:
        yield from _stacks(child, stack, side)


_SEPARATORS: Final = {ord(";"): ",", **{ord(each): " " for each in "\t\r\n"}}


def of_all(record: Attribution, base: float, head: float) -> str:
    """A change as a signed share of all instructions of the base: `+8.0 %`."""
    if base == head:
        return "0 %"
    change = 100 * (head - base) / record.counted.base
    return f"{'+' if change > 0 else '−'}{units.significant(abs(change), 2)} %"


def _pair(figures: Iterable[float]) -> str:
    return " → ".join(
        units.count(figure) if figure == round(figure) else units.significant(figure)
        for figure in figures
    )
