"""A comparison on a terminal and in Markdown, and anchored points on a terminal.

It needs a terminal of at least 100 columns.
"""

import math
import re
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from duetbench.core.text import LACKING, visible
from duetbench.project import case_names
from duetbench.show import formats
from duetbench.show.comparison_view import Section, make_view
from duetbench.show.conclusion import ViewRow
from duetbench.show.verdict import HEAD, Answer, lines, with_code
from duetbench.store.attribution import Attribution
from duetbench.store.comparison import Comparison
from duetbench.store.points import Points

_WIDEST: Final = 41
_NARROWEST: Final = 15
"""Columns of the axis: an odd number, whose middle means no change."""

_LEAST: Final = 0.01  # smallest reach of the axis to both sides
_ROWS: Final = 4  # of an answer in Markdown
_PLAIN: Final = re.compile(r"[\w.<>:/ +-]{1,200}", re.ASCII)
_UNIT: Final = re.compile(r"(?<=\d) (?=[%µa-zA-Z])")


def print_comparison(
    console: Console,
    comparison: Comparison,
    *,
    details: bool = True,
    code: Attribution | None = None,
    more: str = "",
) -> None:
    """Print the answer; with details, all rows on one axis and all sections below it.

    `more` are options that its commands lack, which only their author may see.
    """
    if more:
        notes = tuple(note for note in comparison.notes if not note.startswith(LACKING))
        comparison = comparison.model_copy(update={"notes": notes})
    view = make_view(comparison)
    _print_answer(console, with_code(view.answer, code), more)
    if not details:
        return
    if shown := [row for row in view.rows[: formats.MOST] if row.group != "broken"]:
        requests = case_names.requests(row.case for row in comparison.cases)
        console.print()
        drawn = [replace(row, case=requests.get(row.case, row.case)) for row in shown]
        _print_drawn(console, drawn)
    for section in view.sections:
        _print_section(console, section, more)
    console.print(formats.GLOSSARY)


def _print_answer(console: Console, answer: Answer, more: str) -> None:
    style = formats.style_of(answer.verdict)
    console.print(Text(answer.verdict, style=f"bold {style}"), soft_wrap=True)
    if answer.rows:
        console.print()
        formats.print_rows(console, answer.head, answer.rows)
    console.print()
    for line in lines(answer):
        # Names and commands are copied, so lines must not be broken.
        console.print(Text(f"  {line}"), soft_wrap=True)
    if answer.command:
        console.print(Text(f"  next: {answer.command} {more}".rstrip()), soft_wrap=True)


def _print_section(console: Console, section: Section, more: str) -> None:
    console.print()
    if section.title:
        console.print(Text(section.title, style="bold underline"))
    for name, line in section.lines:
        # Commands are copied, so lines must not be broken.
        console.print(Text(f"  {name}: {line}" if name else f"  {line}"), soft_wrap=True)
    if section.rows:
        formats.print_rows(console, section.head, section.rows)
    if section.command:
        console.print(Text(f"  {section.command} {more}".rstrip()), soft_wrap=True)


def print_points(console: Console, points: Points) -> None:
    """Print each case of anchored points with its intervals."""
    took = formats.duration(points.seconds)
    text = f"{points.label} against the anchor {points.anchor}, {took}"
    console.print(Text(text), soft_wrap=True)
    rows = [
        (
            case.case,
            formats.series_title(point.metric),
            formats.change(point.interval),
            formats.ends(point.interval),
        )
        for case in points.cases
        for point in case.points
    ]
    if rows:
        formats.print_rows(console, ("case", "metric", "change", "95 % interval"), rows)
    for missing in points.missing:
        console.print(Text(f"{missing.case}: no point: {missing.reason}"), soft_wrap=True)


def _print_drawn(console: Console, rows: Sequence[ViewRow]) -> None:
    """Print rows with their intervals on one axis, as wide as the terminal allows."""
    head = ["case", "metric", "change", "95 % interval", "verdict"]
    lines = [[row.case, row.noun, row.change, row.interval, row.verdict] for row in rows]
    name, *widths = (2 + max(map(cell_len, column)) for column in zip(head, *lines, strict=True))
    room = console.width - 4 - sum(widths)
    # Beside the names, or else below them.
    room -= name if room - name >= _NARROWEST else 0
    wide = min(room - (room % 2 == 0), _WIDEST)
    if wide >= _NARROWEST:
        far = axis_reach(rows)
        head.insert(4, axis_scale(far, wide))
        for line, row in zip(lines, rows, strict=True):
            line.insert(4, draw_interval(row, far, wide))
    for line, row in zip(lines, rows, strict=True):
        hidden = not row.judgement.ratio or row.vague
        line[-1] += f": {row.why}" if hidden or row.judgement.reason else ""
    formats.print_rows(console, head, lines)
    text = "●: head over base, within its 95 % interval; ┊: what is between counts as none"
    console.print(Text(f"  {text}", style="dim"))


def axis_reach(rows: Sequence[ViewRow]) -> float:
    """Choose the axis' reach to both sides, as a relative change up to doubling: 0.05."""
    intervals = (row.judgement.interval for row in rows if row.judgement.interval)
    least = min(max(_LEAST, formats.reach(intervals)), 1.0)
    unit = 10.0 ** math.floor(math.log10(least))
    return unit * math.ceil(least / unit - 1e-9)


def axis_scale(far: float, width: int) -> str:
    """Draw the line above the axes: both ends, and the middle."""
    end = f"{100 * far:g} %"
    half = (width - 1) // 2
    return f"−{end}".ljust(half) + "0" + f"+{end}".rjust(half)


def draw_interval(row: ViewRow, far: float, width: int) -> str:
    """Draw the axis of a row: its estimate ●, its 95 % interval ├─┤, no change │, the floor ┊.

    A value beyond no change never touches the middle, however near it is.
    """
    half = (width - 1) // 2
    cells = [" "] * width
    for side in (-1, 1):
        floor = round(half * row.floor / far)
        if 0 < floor <= half:
            cells[half + side * floor] = "┊"
    cells[half] = "│"
    judgement = row.judgement
    if judgement.ratio is None:
        return "".join(cells)
    if judgement.low is not None and judgement.high is not None:
        low, high = (_column(end, far, half) for end in (judgement.low, judgement.high))
        first, last = max(low, -half), min(high, half)
        for at in range(first, last + 1):
            cells[half + at] = "┼" if at == 0 else "─"
        if first < last:
            cells[half + first] = "◄" if low < -half else "├"
            cells[half + last] = "►" if high > half else "┤"
    middle = _column(judgement.ratio, far, half)
    cells[half + min(max(middle, -half), half)] = "●"
    return "".join(cells)


def _column(ratio: float, far: float, half: int) -> int:
    """Return columns from the middle; 0 only for a ratio that is printed as no change."""
    change = ratio - 1
    if formats.percent(ratio) == formats.percent(1.0):
        return 0
    return int(math.copysign(max(1, round(half * abs(change) / far)), change))


def as_markdown(
    comparison: Comparison,
    *,
    lead: Sequence[str] = (),
    check: str = "",
    end: str = formats.WORDS,
    code: Attribution | None = None,
) -> str:
    """Write a comparison as Markdown: what people need fits a dozen lines, the rest is folded.

    `lead` are paragraphs above the table, which name the packages that differ. `check` says what a
    job does with the verdict.
    """
    view = make_view(comparison)
    answer = with_code(view.answer, code)
    advice = "" if answer.command else answer.advice  # which is about that
    rows, more = answer.rows[:_ROWS], answer.more + len(answer.rows[_ROWS:])
    head, cells = _narrow(answer.head, rows)
    parts = [
        f"### {formats.escape(answer.verdict)}",
        check,
        *lead,
        _unbroken(formats.grid(head, ["---", "---:", "---"], cells)) if cells else "",
        formats.escape(answer.open),
        *(_code(cause) for cause in answer.causes if not (lead and cause.startswith("package"))),
        formats.escape(". ".join(filter(None, (answer.sure, advice)))),
    ]
    summary = f"All figures{f' ({more} more)' if more > 0 else ''} · method · repeat it"
    folded = "".join(map(_section, view.sections))
    if code is not None:
        from duetbench.show.change import brief  # noqa: PLC0415 - few reports have one

        folded = f"{brief(code)}\n\n{folded}"
    body = "\n\n".join(filter(None, parts))
    return f"{body}\n\n<details><summary>{summary}</summary>\n\n{folded}</details>\n\n{end}"


def _narrow(
    head: Sequence[str], rows: Sequence[Sequence[str]]
) -> tuple[Sequence[str], list[Sequence[str]]]:
    """Merge an answer's columns to three, which a phone shows without a scroll bar."""
    start = len(head) - len(HEAD)
    cells: list[Sequence[str]] = []
    for row in rows:
        figures, change, ends, verdict = row[start:]
        mark = verdict.partition(" ")[0]
        size = change.strip(formats.MISSING)
        if size:  # the mark says which of both is better
            small = f", {formats.SMALL}" * (formats.SMALL in verdict)
            verdict = f"{mark} {size}{small}" if mark in "▲▼" else f"{verdict}: {size}"
        last = f"{verdict} ({ends})" if ends else verdict
        cells.append((", ".join(row[:start]), figures, last))
    return (", ".join(head[:start]), HEAD[0], "change"), cells


def _unbroken(text: str) -> str:
    """Keep numbers and their units on one line."""
    return _UNIT.sub("\u00a0", text)


def _code(cause: str) -> str:
    """Write what differs: plain names in backticks are code, as everywhere in Markdown."""
    parts = cause.split("`")
    if not all(map(_PLAIN.fullmatch, parts[1::2])):
        return formats.escape(cause)
    # Between dots, a text keeps its outer spaces.
    texts = [formats.escape(f".{part}.")[1:-1] for part in parts[::2]]
    parts[::2] = texts
    return "`".join(parts)


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
    return f"#### {section.title}\n\n{body}\n\n" if section.title else f"{body}\n\n"
