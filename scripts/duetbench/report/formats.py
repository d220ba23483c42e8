"""How reports show figures, intervals, changes and verdicts, with tables and lists of them.

Text from files is escaped in Markdown. On a terminal all text is made a `Text`, since rich reads a
plain string as markup.
"""

import math
import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from duetbench.core import units
from duetbench.core.metrics import METRICS
from duetbench.core.metrics import row as row_of
from duetbench.core.model import Verdict
from duetbench.core.text import visible
from duetbench.core.units import Interval


@dataclass(frozen=True, slots=True)
class Section:
    """Sentences, each with its subject or none, and below them a table or a command."""

    title: str
    lines: Sequence[tuple[str, str]] = ()
    head: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    command: str = ""


MISSING: Final = "—"
_DOUBLED: Final = 2.0  # ratios from here on are written as factors
_COARSE: Final = 0.01 + 1e-9  # width of an interval that allows two digits of a factor
_WIDE: Final = 100.0  # ends of an interval that are so many times apart say nothing
_BEYOND: Final = 10.0  # what can be seen only beyond this factor has no useful size
_SYMMETRIC: Final = 0.25  # up to this spread both halves of an interval are nearly equal
_ROUNDING: Final = 1e-9  # of means over logarithms, relative


def figure(metric: str, value: float | None) -> str:
    """Format a metric's figure with its unit; a dash if there is none."""
    return MISSING if value is None else METRICS[metric].format(value)


def cells(metric: str, interval: Interval | None) -> tuple[str, str]:
    """Format a metric's figure, and its 95 % interval as `spread` does."""
    estimate = interval.estimate if interval else None
    return figure(metric, estimate), spread(METRICS[metric].format, interval)


def spread(write: units.Formatter, figure: Interval | None) -> str:
    """Format the 95 % interval: `±1.2 %`, or `lo…hi` if it is wide; empty if there is none."""
    if figure is None or figure.ends is None:
        return ""
    if math.isclose(*figure.ends, rel_tol=_ROUNDING):
        return ""  # the same in every launch: a declared value, or a count of zero
    half = figure.spread
    if half is not None and half <= _SYMMETRIC:
        return f"±{units.significant(100 * half, 2)} %"
    low, high = map(write, figure.ends)
    units_ = (f" {high.rpartition(' ')[2]}", "/s")
    unit = next((u for u in units_ if low.endswith(u) and high.endswith(u)), "")
    return f"{low.removesuffix(unit)}…{high}"  # `1.2…3.4 ms`, not `1.2 ms…3.4 ms`


def change(ratio: Interval | float | None) -> str:
    """Format a ratio as a signed change, `+1.23 %`; from doubling on as a factor, `31.5×`.

    It has no more digits than its interval; a dash if there is none.
    """
    ratio = Interval(ratio) if isinstance(ratio, float) else ratio
    if ratio is None or ratio.estimate >= _DOUBLED:
        return MISSING if ratio is None else f"{_factor(ratio, ratio.estimate)}×"
    return f"{_signed(ratio.estimate, _decimals(ratio))} %"


def amount(metric: str, ratio: Interval, *, moved: bool) -> tuple[str, str]:
    """Write a change and its interval: `19 % less`, `17…21 %`; with signs unless it surely moved.

    Beside a mark, a sign would be read as one: ▲ −19 %.
    """
    if not moved or ratio.estimate >= _DOUBLED:
        return change(ratio), ends(ratio)
    word = row_of(metric).directions[ratio.estimate < 1]
    return f"{change(ratio).lstrip('+−')} {word}", within(ratio).replace(" times", "×")


def _decimals(ratio: Interval) -> int | None:
    """Return the decimals of a change in per cent, and of its ends; None: as without ends.

    The interval's width decides, so that columns align: from 0.1 to 1 % there is one decimal, two
    below. Wider ones have one for sizes below 10 %, and none above. More are shown only if a change
    that the interval proves would otherwise round to none.
    """
    if ratio.ends is None or (width := 100 * (ratio.ends[1] - ratio.ends[0])) <= 0:
        return None
    changes = [100 * (end - 1) for end in (ratio.estimate, *ratio.ends)]
    decimals = max(
        int(round(max(map(abs, changes)), 1) < 10), 1 - math.ceil(math.log10(width) - _ROUNDING)
    )
    while ratio.excludes(1) and decimals < 2 and not all(round(end, decimals) for end in changes):
        decimals += 1
    return min(2, decimals)


def _factor(ratio: Interval, end: float) -> str:
    """Format an end of a ratio as a factor; no end that excludes 1 rounds to it."""
    coarse = ratio.ends is not None and ratio.ends[1] - ratio.ends[0] > _COARSE
    text = units.significant(end, 3 - coarse)
    return units.significant(end) if text == "1.0" else text


def ends(ratio: Interval | None) -> str:
    """Format a ratio's interval as a change, `+0.9…+1.5 %`, or as factors; empty without one."""
    if ratio is None or ratio.ends is None:
        return ""
    low, high = ratio.ends
    if high > _WIDE * low:  # two loud samples bound nothing: their ends are no figures
        return f"wider than a factor of {_WIDE:g}"
    if ratio.estimate >= _DOUBLED:
        return f"{'…'.join(_factor(ratio, end) for end in ratio.ends)}×"
    return f"{'…'.join(_signed(end, _decimals(ratio)) for end in ratio.ends)} %"


def reach(ratios: Iterable[Interval]) -> float:
    """Return an axis' reach for changes: all estimates, and nine of ten intervals, are within it.

    The other intervals, and those that bound nothing, end in an arrow.
    """
    ratios = list(ratios)
    bounds = (r.ends for r in ratios if r.ends and r.ends[1] <= _WIDE * r.ends[0])
    widths = sorted(max(abs(end - 1) for end in ends) for ends in bounds)
    inner = widths[math.ceil(0.9 * len(widths)) - 1 :][:1]
    return max([0.0, *(abs(ratio.estimate - 1) for ratio in ratios), *inner])


def within(ratio: Interval) -> str:
    """Write a size's interval, the nearer end first: `18…22 %`, `2.0…2.7 times`; empty without."""
    if ratio.ends is None or ratio.estimate >= _DOUBLED or not ratio.excludes(1):
        return ends(ratio).replace("×", " times")  # signs show that either direction is possible
    near, far = sorted(ratio.ends, key=lambda end: abs(end - 1))
    return "…".join(_signed(end, _decimals(ratio)).lstrip("+−") for end in (near, far)) + " %"


def movement(metric: str, ratio: Interval) -> str:
    """Say how much a case moved: `needs 22 % more CPU`; from doubling on `31 times the CPU`."""
    size = change(ratio).lstrip("+−").replace("×", " times")
    return row_of(metric).effect(size, rose=ratio.estimate >= 1)


def size(change: float | None) -> str:
    """Format a relative size without sign: `0.62 %`, `2.4 times`; a dash if there is none."""
    if change is None:
        return MISSING
    factor = 1 + change
    if factor > _BEYOND:
        return f"over {_BEYOND:g} times"
    if factor >= _DOUBLED:
        return f"{units.significant(factor, 2)} times"
    return f"{units.significant(100 * change, 2)} %"


def quantity(number: int, singular: str) -> str:
    """Format a number with its noun: `1 case`, `2 cases`, `1,825 nights`."""
    return f"{units.count(number)} {singular}{'s' * (number != 1)}"


def _signed(ratio: float, decimals: int | None = None) -> str:
    change = 100 * (ratio - 1)
    digits = decimals if decimals is not None else 2 if round(abs(change), 2) < 10 else 1
    # No sign if it rounds to zero.
    return units.signed(change, f",.{digits}f") if round(change, digits) else f"{0:.{digits}f}"


_WORDS: Final = "case metric subject change why stack package base head note state function"
WORDY: Final = frozenset(["", *_WORDS.split()])
"""Columns of words; the others have figures."""

_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>#|~])")


def escape(text: str) -> str:
    """Escape text so that Markdown and terminals show it as it is, on one line."""
    return _SPECIAL.sub(r"\\\1", visible(" ".join(text.split())))


def grid(head: Sequence[str], align: Iterable[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a Markdown table; this escapes the cells."""
    lines = [head, *rows]
    text = [f"| {' | '.join(map(escape, line))} |" for line in lines]
    return "\n".join([text[0], f"| {' | '.join(align)} |", *text[1:]])


def facts(rows: Iterable[tuple[str, str]]) -> str:
    """Write names and values as a list; without a name, the value alone."""
    return "\n".join(
        f"- **{escape(name)}**: {escape(value)}" if name else f"- {escape(value)}"
        for name, value in rows
    )


def markdown(section: Section) -> str:
    """Write a section of a report as Markdown."""
    parts = [f"#### {section.title}" if section.title else "", facts(section.lines)]
    if section.rows:
        rules = ("---" if column in WORDY else "---:" for column in section.head)
        parts.append(grid(section.head, rules, section.rows))
    # Indented, rather than fenced: no text can close an indented block.
    parts.append(textwrap.indent(visible(section.command), "    "))
    return "\n\n".join(filter(None, parts))


GLOSSARY: Final = Text("\nwhat the words mean: duetbench explain WORD", style="dim")
_STYLES: Final = {
    Verdict.WORSE.sign: "bold dark_orange",
    Verdict.BETTER.sign: "bold dodger_blue1",
    Verdict.DIFFERENT.sign: "bold",
}


def style_of(text: str) -> str:
    """Return the terminal's style of a text that begins with a verdict's sign."""
    return _STYLES.get(text[:1], "")


def print_rows(console: Console, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows in aligned columns; only the first of rows with the same first cell prints it.

    Words wrap, and figures never do.
    """
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("", width=0)  # the indent
    for name in head:
        wordy = name in WORDY or name == head[-1]
        table.add_column(
            Text(name), justify="left" if wordy else "right", no_wrap=not wordy, overflow="fold"
        )
    above = ""
    for row in rows:
        cells = [Text(cell, style=style_of(cell)) for cell in row]
        table.add_row("", "" if row[0] == above and len(row) > 1 else cells[0], *cells[1:])
        above = row[0]
    console.print(table)


def print_section(console: Console, section: Section) -> None:
    """Print a section of a report."""
    if section.title:
        console.print(Text(section.title, style="bold underline"))
    for name, line in section.lines:
        print_line(console, f"{name}: {line}" if name else line)
    if section.rows:
        print_rows(console, section.head, section.rows)
    if section.command:
        console.print(Text(f"  {section.command}"), soft_wrap=True)


def print_line(console: Console, line: str) -> None:
    """Print a sentence, on a terminal broken between words."""
    wraps = console.is_terminal
    text = Padding(Text(line), (0, 0, 0, 2), expand=False) if wraps else Text(f"  {line}")
    console.print(text, soft_wrap=not wraps)
