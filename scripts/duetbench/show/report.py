"""A comparison on a terminal and in Markdown, and anchored points on a terminal.

Terminals are wide enough from 100 columns on.
"""

import textwrap
from typing import Final

from rich.console import Console
from rich.text import Text

from duetbench.core.text import visible
from duetbench.project import names
from duetbench.show import formats
from duetbench.show.view import Section, make_view
from duetbench.store.comparison import Comparison
from duetbench.store.points import Points

_HEAD: Final = ("case", "metric", "change", "95 % interval", "verdict")
_BRIEF: Final = frozenset({"Next", "Reproduce"})
"""Sections of a comparison that are printed without its details."""


def print_comparison(console: Console, comparison: Comparison, *, details: bool = True) -> None:
    """Print all of a comparison; without details its rows, and what to do next."""
    view = make_view(comparison)
    console.print(Text(view.headline, style="bold"))
    if not details:
        requests = names.requests(row.case for row in comparison.cases)
        # The rows without change come last.
        shown = [
            (
                requests.get(row.case, row.case),
                row.label,
                row.change,
                row.interval,
                row.verdict if row.judged.ratio else f"{row.verdict}: {row.why}",
            )
            for place, row in enumerate(view.rows)
            if place < formats.MOST or row.group not in {"unchanged", "unawaited"}
        ]
        if shown:
            console.print()
            formats.print_rows(console, _HEAD, shown)
        if left := len(view.rows) - len(shown):
            more = formats.quantity(left, "more row")
            console.print(Text(f"  … and {more} without change", style="dim"))
    for section in view.sections:
        if details or section.title in _BRIEF:
            _print_section(console, section)
    if details:
        console.print(formats.GLOSSARY)


def _print_section(console: Console, section: Section) -> None:
    console.print()
    if section.title:
        console.print(Text(section.title, style="bold underline"))
    for name, line in section.lines:
        # What is copied must not be broken.
        console.print(Text(f"  {name}: {line}" if name else f"  {line}"), soft_wrap=True)
    if section.rows:
        formats.print_rows(console, section.head, section.rows)
    if section.command:
        console.print(Text(f"  {section.command}"), soft_wrap=True)


def print_points(console: Console, points: Points) -> None:
    """Print each case of anchored points with its intervals."""
    text = f"{points.label} against the anchor {points.anchor}, {points.seconds / 60:.0f} min"
    console.print(Text(text), soft_wrap=True)
    rows = [
        (
            case.case,
            formats.series_title(point.metric),
            formats.percent(point.ratio),
            formats.ends(point.interval),
        )
        for case in points.cases
        for point in case.points
    ]
    if rows:
        formats.print_rows(console, ("case", "metric", "change", "95 % interval"), rows)
    for missing in points.missing:
        console.print(Text(f"{missing.case}: no point: {missing.reason}"), soft_wrap=True)


def as_markdown(comparison: Comparison, *, lead: str = "", end: str = formats.WORDS) -> str:
    """Write a comparison as Markdown, with paragraphs below its headline and at its end."""
    view = make_view(comparison)
    headline = f"## {formats.escape(view.headline)}\n\n"
    return headline + lead + "".join(map(_section, view.sections)) + end


def _section(section: Section) -> str:
    align = ["---" if name in formats.WORDY else "---:" for name in section.head]
    parts = [
        formats.facts(section.lines),
        formats.grid(section.head, align, section.rows) if section.rows else "",
        # Indented, not fenced: no text can close an indented block.
        textwrap.indent(visible(section.command), "    "),
    ]
    body = "\n\n".join(filter(None, parts))
    if section.folded:
        return f"<details><summary>{section.title}</summary>\n\n{body}\n\n</details>\n\n"
    return f"### {section.title}\n\n{body}\n\n" if section.title else f"{body}\n\n"
