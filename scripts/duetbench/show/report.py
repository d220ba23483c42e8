"""A comparison on a terminal and in Markdown, and anchored points on a terminal.

Terminals are wide enough from 100 columns on.
"""

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Final

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from duetbench.core.metrics import METRICS
from duetbench.core.model import Verdict
from duetbench.core.text import TO_REPEAT, visible
from duetbench.project import names
from duetbench.project.names import CaseName
from duetbench.show import formats, layout, rows
from duetbench.show.rows import Grid, ViewRow
from duetbench.show.view import Block, make_view
from duetbench.store.comparison import Comparison, Judgement
from duetbench.store.points import AnchoredPoint, Points

WIDEST: Final = 41
NARROWEST: Final = 15
"""Columns of the axis: an odd number, whose middle is no change."""

_NICE: Final = (1.0, 2.0, 5.0, 10.0)
_LEAST: Final = 0.01  # the axis goes so far to both sides, or further
_FLOORS: Final = 4  # that are named below lines; the legend of the details has all
_SPARE: Final = ("base → head", "samples", "could see")
"""Columns that are left out where the terminal is narrow, in this order."""


def print_overview(console: Console, comparison: Comparison) -> None:
    """Print a comparison's sentence, a line per case and metric, and what to do next."""
    groups = rows.group_rows(comparison)
    console.print(Text(rows.headline(comparison, groups), style="bold"))
    # The rows without change come last.
    count = len(groups.all) - max(0, min(len(groups.unchanged), len(groups.all) - layout.MOST))
    requests = names.requests(row.case for row in comparison.cases)
    if every := [replace(row, case=requests.get(row.case, row.case)) for row in groups.all[:count]]:
        console.print()
        _print_drawn(console, every)
    if left := len(groups.all) - count:
        more = formats.quantity(left, "more row")
        console.print(Text(f"  … and {more} without change", style="dim"))
    if steps := [*rows.steps(comparison, groups)]:
        console.print()
    further = [f"{command}  # {label}" for label, command in rows.commands(comparison, groups)]
    further += [note for note in comparison.notes if note.startswith(TO_REPEAT)]
    for line in (*steps, *further):
        console.print(Text(f"  {line}"), soft_wrap=True)


def _print_drawn(console: Console, every: Sequence[ViewRow], *, verdicts: bool = True) -> None:
    """Print rows with their intervals on one axis, as wide as the terminal allows."""
    figures = [row for row in every if row.judged.ratio is not None]
    columns = [(row.label, row.change, row.interval, row.verdict * verdicts) for row in every]
    wide = axis_width(
        console.width
        - 2
        - sum(2 + max(map(cell_len, column)) for column in zip(*columns, strict=True)),
        2 + max(cell_len(row.case) for row in every),
    )
    far = axis_reach(figures)
    lines = []
    for row, (label, change, interval, verdict) in zip(every, columns, strict=True):
        if row.judged.ratio is None:
            lines.append(layout.TextLine(row.case, (label,), f"{verdict}: {row.why}"))
            continue
        drawn = (draw_interval(row, far, wide),) if wide else ()
        lines.append(layout.TextLine(row.case, (label, change, interval, *drawn, verdict)))
    head = layout.TextLine("", ("", "", "", axis_scale(far, wide))) if wide and figures else None
    layout.print_lines(console, lines, {1, 2}, head)
    if figures and verdicts:
        sizes = dict.fromkeys(f"{row.label} {100 * row.floor:g} %" for row in figures)
        floors = formats.some([*sizes], _FLOORS)
        text = f"●: head over base, within its 95 % interval; ┊: relevance floor ({floors})"
        console.print(Text(f"  {text if wide else text.partition('; ')[2]}", style="dim"))


def print_points(console: Console, points: Points) -> None:
    """Print each case of anchored points with its intervals on one axis."""
    text = f"{points.label} against the anchor {points.anchor}, {points.seconds / 60:.0f} min"
    console.print(Text(text), soft_wrap=True)
    every = [_point(case.case, point) for case in points.cases for point in case.points]
    if every:
        _print_drawn(console, every, verdicts=False)
    for missing in points.missing:
        console.print(Text(f"{missing.case}: no point: {missing.reason}"), soft_wrap=True)
    if every:
        text = "●: this stack over the anchor, within its 95 % interval"
        console.print(Text(text, style="dim"), soft_wrap=True)


def _point(case: str, point: AnchoredPoint) -> ViewRow:
    """The point as a row of a comparison; it has no verdict."""
    metric, ratio = point.metric if point.metric in METRICS else "", point.interval
    judged = Judgement(
        metric=metric,
        verdict=Verdict.INCONCLUSIVE,
        ratio=ratio.estimate,
        low=ratio.low,
        high=ratio.high,
        duets=point.duets,
    )
    return ViewRow(case, metric, judged, unit=point.metric, titled=point.metric)


def print_comparison(console: Console, comparison: Comparison) -> None:
    """Print all of a comparison."""
    view = make_view(comparison)
    called = {row.case: row.name for row in view.groups.all}
    console.print(Text(view.headline, style="bold"))
    for block in view.blocks:
        if block.name == "Cases":  # their names stand beside the ids
            continue
        title = ", ".join(filter(None, (block.under, block.title)))
        if title or block.kind == "legend":
            console.print()
        if title:
            console.print(Text(title, style="bold underline"))
        style = "" if block.name in {"events", "Next", "Commands"} else "dim"
        for name, line in block.lines:
            text = f"{name}: {line}" if name else line
            text = f"{line}  # {name}" if block.kind == "commands" else text
            # What is copied must not be broken.
            console.print(Text(f"  {text}", style=style), soft_wrap=True)
        if block.grid is not None:
            _print_grid(console, block.grid, called)
    console.print(layout.GLOSSARY)


def _print_grid(console: Console, grid: Grid, called: Mapping[str, CaseName]) -> None:
    """Print rows below their first column, whose names are long, and reasons below their rows."""
    columns = {
        name: cells
        for name, cells in zip(grid.head[1:], [*zip(*grid.rows, strict=True)][1:], strict=True)
        if any(cell not in {"", formats.MISSING} for cell in cells)
    }
    reasons = columns.pop("why", ("",) * len(grid.rows))
    for spare in _SPARE:
        if sum(2 + max(map(cell_len, (name, *columns[name]))) for name in columns) < console.width:
            break
        columns.pop(spare, None)
    lines = [
        layout.TextLine(
            row[0],
            [columns[name][at] for name in columns],
            below=reasons[at],
            beside=str(case) if (case := called.get(row[0])) and case.known else "",
        )
        for at, row in enumerate(grid.rows)
    ]
    right = {at for at, name in enumerate(columns) if name not in grid.words}
    layout.print_lines(console, lines, right, layout.TextLine("", [*columns]), inline=False)


def axis_width(room: int, names: int) -> int:
    """Choose the columns of the axis: beside names if there is room, else below; 0: no axis."""
    width = min(
        next((columns for columns in (room - names, room) if columns >= NARROWEST), 0), WIDEST
    )
    return width - (width % 2 == 0) if width else 0


def axis_reach(rows: Sequence[ViewRow]) -> float:
    """Choose how far the axis goes to both sides, as a relative change: 0.05.

    It holds all estimates and nine of ten intervals; the others have an arrow at its end.
    """
    sizes = [abs(row.judged.ratio - 1) for row in rows if row.judged.ratio is not None]
    widths = sorted(
        max(abs(row.judged.low - 1), abs(row.judged.high - 1))
        for row in rows
        if row.judged.low is not None and row.judged.high is not None
    )
    sizes += widths[math.ceil(0.9 * len(widths)) - 1 :][:1]
    wanted = max(_LEAST, *sizes) if sizes else _LEAST
    unit = 10.0 ** math.floor(math.log10(wanted))
    return next((unit * nice for nice in _NICE if unit * nice >= wanted * (1 - 1e-9)), 10 * unit)


def axis_scale(far: float, width: int) -> str:
    """Draw the line above the axes: both ends, and the middle."""
    end = f"{100 * far:g} %"
    half = (width - 1) // 2
    return f"−{end}".ljust(half) + "0" + f"+{end}".rjust(half)


def draw_interval(row: ViewRow, far: float, width: int) -> str:
    """Draw the axis of a row: its estimate ●, its 95 % interval ├─┤, no change │, the floor ┊.

    What lies beyond no change never touches the middle, however near it is.
    """
    half = (width - 1) // 2
    cells = [" "] * width
    for side in (-1, 1):
        floor = round(half * row.floor / far)
        if 0 < floor <= half:
            cells[half + side * floor] = "┊"
    cells[half] = "│"
    judged = row.judged
    if judged.ratio is None:
        return "".join(cells)
    if judged.low is not None and judged.high is not None:
        low, high = (_column(end, far, half) for end in (judged.low, judged.high))
        first, last = max(low, -half), min(high, half)
        for at in range(first, last + 1):
            cells[half + at] = "┼" if at == 0 else "─"
        if first < last:
            cells[half + first] = "◄" if low < -half else "├"
            cells[half + last] = "►" if high > half else "┤"
    middle = _column(judged.ratio, far, half)
    cells[half + min(max(middle, -half), half)] = "●"
    return "".join(cells)


def _column(ratio: float, far: float, half: int) -> int:
    """Columns from the middle; 0 only for what is printed as no change."""
    change = ratio - 1
    if formats.percent(ratio) == formats.percent(1.0):
        return 0
    return int(math.copysign(max(1, round(half * abs(change) / far)), change))


LIMIT: Final = 60_000
"""Characters of a comparison's report. GitHub refuses comments above 65,536."""

_ROOM: Final = 400  # for the sentences about rows and blocks that are left out
_FOLD_END: Final = "\n</details>\n\n"


def as_markdown(comparison: Comparison, *, limit: int = LIMIT, end: str = layout.WORDS) -> str:
    """Write a comparison as a comment on a pull request, never longer than `limit`.

    A block that does not fit loses its last rows, and says how many; one of which nothing fits is
    named at the end. The headline and the rows that got worse always fit.
    """
    view = make_view(comparison)
    text, lost = f"## {layout.escape(view.headline)}\n\n", []
    for block in view.blocks:
        opening, lines, closing = _block(block)
        room = limit - len(text) - _ROOM - len(opening) - len(closing)
        count = sum(size <= room for size in accumulate(map(len, lines)))
        if count:
            left = len(lines) - count
            more = f"\n… and {left} more, in the comparison's JSON.\n" if left else ""
            text += opening + "".join(lines[:count]) + more + closing
        else:
            lost.append(block.name)
    if lost:
        text += f"Left out, for lack of room: {', '.join(dict.fromkeys(lost))}.\n\n"
    return text + end


def _block(block: Block) -> tuple[str, list[str], str]:
    """Write a block as the text before its lines, the lines, and the text after them."""
    opening = f"### {block.under}\n\n" if block.under else ""
    if block.folded:
        opening += f"<details><summary>{block.title}</summary>\n\n"
    elif block.title:
        opening += f"### {block.title}\n\n"
    closing = _FOLD_END if block.folded else "\n"
    if block.grid is not None:
        opening += "".join(f"{layout.escape(line)}\n\n" for _, line in block.lines)
        opening += layout.grid(block.grid.head, block.grid.align, []) + "\n"
        return opening, [f"{layout.row(cells)}\n" for cells in block.grid.rows], closing
    if block.kind == "facts":
        return opening, [f"{layout.facts(block.lines)}\n"], closing
    if block.kind == "legend":
        meanings = (f"**{name}**: {layout.escape(meaning)}" for name, meaning in block.lines)
        return opening, [f"<sub>{'. '.join(meanings)}.</sub>\n"], closing
    if block.kind == "news":
        return opening, [f"> {layout.escape(line)}\n\n" for _, line in block.lines], ""
    if block.kind == "commands":
        # Indented, not fenced: no text can close an indented block.
        texts = (visible(f"# {label}\n{command}\n") for label, command in block.lines)
        return opening, [textwrap.indent(text, "    ") for text in texts], closing
    labels = (f"{layout.escape(name)}: " if name else "" for name, _ in block.lines)
    lines = (layout.escape(line) for _, line in block.lines)
    return opening, [f"- {n}{line}\n" for n, line in zip(labels, lines, strict=True)], closing
