"""How reports show figures and their intervals, with tables and lists of them.

Text from files is escaped in Markdown.
"""

import math
import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from duetbench.core import units
from duetbench.core.metrics import METRICS
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
_SYMMETRIC: Final = 0.25  # up to this spread both halves of an interval are nearly equal


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
    if math.isclose(*figure.ends):
        return ""  # the same in every launch: a declared value, or a count of zero
    half = figure.spread
    if half is not None and half <= _SYMMETRIC:
        return f"±{units.significant(100 * half, 2)} %"
    low, high = map(write, figure.ends)
    units_ = (f" {high.rpartition(' ')[2]}", "/s")
    unit = next((u for u in units_ if low.endswith(u) and high.endswith(u)), "")
    return f"{low.removesuffix(unit)}…{high}"  # `1.2…3.4 ms`, not `1.2 ms…3.4 ms`


def quantity(number: int, singular: str) -> str:
    """Format a number with its noun: `1 case`, `2 cases`, `1,825 nights`."""
    return f"{units.count(number)} {singular}{'s' * (number != 1)}"


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
