"""Runs, comparisons and anchored points on a terminal: they read well from 100 columns on.

Everything is made a `Text`, since a plain string would be read as markup.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from rich import box
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from duetbench.core.metrics import METRICS
from duetbench.core.text import ASCII, short
from duetbench.project import names
from duetbench.project.names import CaseName
from duetbench.show import axis, formats, rows
from duetbench.show.rows import Grid, ViewRow
from duetbench.show.view import make_view
from duetbench.store.comparison import Comparison, Judgement, Verdict
from duetbench.store.points import AnchoredPoint, Points
from duetbench.store.reproduce import TO_REPEAT

if TYPE_CHECKING:  # pages are made with numpy and jinja2; comparisons need neither
    from duetbench.show.claims import ShapeResult
    from duetbench.show.page import RunPage, Section
    from duetbench.show.tables import FigureRow, FigureTable
    from duetbench.trend.summary import CaseSummary, RunSummary

MOST: Final = 40
"""Lines that are shown; rows without change beyond them are counted."""

_ENDLESS: Final = 10_000  # columns
_MISSING_NAMED: Final = 3  # so many published cases that a run lacks are named, the rest counted
_FIGURES: Final = 3  # of a case of a run that stand in its line
_AFTER: Final = 24  # columns of text behind cells that names may take no room from
_REASON: Final = 120  # letters of a failure; the details have all
_FLOORS: Final = 4  # that are named below lines; the legend of the details has all
_GLOSSARY: Final = Text(f"\nwhat the words mean: {formats.GLOSSARY}", style="dim")
_SPARE: Final = ("base → head", "samples", "could see")
"""Columns that are left out where the terminal is narrow, in this order."""
_STYLES: Final = {
    formats.MARKS[Verdict.SLOWER]: "bold dark_orange",
    formats.MARKS[Verdict.FASTER]: "bold dodger_blue1",
    formats.MARKS[Verdict.NOT_COMPARABLE]: "bold",
    "does not hold": "bold magenta",
    "not decided": "yellow",
    "not measured": "dim",
}


@dataclass(frozen=True, slots=True)
class Line:
    """Cells of one case, and text around them.

    Attributes:
        after: Text of any length behind the cells.
        below: A line of its own below them.
        beside: What people call the case; shown where its name stands above its lines.
    """

    name: str
    cells: Sequence[str]
    after: str = ""
    below: str = ""
    beside: str = ""


def print_lines(
    console: Console,
    lines: Sequence[Line],
    right: Container[int],
    head: Line | None = None,
    *,
    inline: bool = True,
) -> None:
    """Print cells below each other, each case's name once: before its cells, if there is room.

    Otherwise, or without `inline`, it stands above them, whole. Cells of columns `right` are
    aligned to the right.
    """

    def printed(text: str) -> str:
        return text.translate(ASCII) if console.options.ascii_only else text

    every = [head, *lines] if head else lines
    columns = zip_longest(*(line.cells for line in every), fillvalue="")
    widths = [max(cell_len(printed(cell)) for cell in column) for column in columns]
    name = max((cell_len(printed(line.name)) for line in lines), default=0)
    longest = max(
        sum(2 + width for width in widths[: len(line.cells)]) + min(cell_len(line.after), _AFTER)
        for line in every
    )
    inline = inline and 2 + name + longest <= console.width
    above = ""
    for line in every:
        new, above = line.name != above, line.name
        if new and not inline:
            beside = Text(f"  {line.beside}" if line.beside else "", style="dim")
            console.print(Text(line.name) + beside, soft_wrap=True)
        text = Text("  ")
        if inline and name:
            text.append(printed(line.name if new else "")).align("left", name + 4)
        for at, (cell, width) in enumerate(zip(line.cells, widths, strict=False)):
            room = " " * (width - cell_len(printed(cell)))
            shown = room + printed(cell) if at in right else printed(cell) + room
            text.append(shown + "  ", "dim" if line is head else _style(cell))
        indent = cell_len(text.plain) if line.after else 4
        text.append(line.after, _style(line.after))
        text.rstrip()
        if line.after:
            console.print(text, soft_wrap=True)
        else:
            console.print(text, no_wrap=True, overflow="ellipsis")
        if line.below:
            console.print(Text(" " * indent + line.below, style="dim"), soft_wrap=True)


def _style(cell: str) -> str:
    return _STYLES.get(cell[:1], "")


def print_overview(console: Console, comparison: Comparison) -> None:
    """Print a comparison's sentence, a line per case and metric, and what to do next."""
    found = rows.grouped(comparison)
    console.print(Text(rows.headline(comparison, found), style="bold"))
    # The rows without change come last.
    shown = len(found.all) - max(0, min(len(found.unchanged), len(found.all) - MOST))
    requests = names.requests(one.case for one in comparison.cases)
    if every := [replace(one, case=requests.get(one.case, one.case)) for one in found.all[:shown]]:
        console.print()
        _print_drawn(console, every)
    if left := len(found.all) - shown:
        console.print(Text(f"  … and {formats.many(left, 'more row')} without change", style="dim"))
    if steps := [*rows.steps(comparison, found)]:
        console.print()
    further = [f"{command}  # {what}" for what, command in rows.commands(comparison, found)]
    further += [note for note in comparison.notes if note.startswith(TO_REPEAT)]
    for line in (*steps, *further):
        console.print(Text(f"  {line}"), soft_wrap=True)


def _print_drawn(console: Console, every: Sequence[ViewRow], *, verdicts: bool = True) -> None:
    """Print rows with their intervals on one axis, as wide as the terminal allows."""
    figures = [one for one in every if one.judged.ratio is not None]
    columns = [(one.label, one.change, one.interval, one.verdict * verdicts) for one in every]
    wide = axis.width(
        console.width
        - 2
        - sum(2 + max(map(cell_len, column)) for column in zip(*columns, strict=True)),
        2 + max(cell_len(one.case) for one in every),
    )
    far = axis.reach(figures)
    lines = []
    for row, (label, change, interval, verdict) in zip(every, columns, strict=True):
        if row.judged.ratio is None:
            lines.append(Line(row.case, (label,), f"{verdict}: {row.why}"))
            continue
        drawn = (axis.interval(row, far, wide),) if wide else ()
        lines.append(Line(row.case, (label, change, interval, *drawn, verdict)))
    head = Line("", ("", "", "", axis.scale(far, wide))) if wide and figures else None
    print_lines(console, lines, {1, 2}, head)
    if figures and verdicts:
        floors = formats.some([*axis.floors(figures)], _FLOORS)
        told = f"●: head over base, within its 95 % interval; ┊: relevance floor ({floors})"
        console.print(Text(f"  {told if wide else told.partition('; ')[2]}", style="dim"))


def print_points(console: Console, found: Points) -> None:
    """Print each case of anchored points with its intervals on one axis."""
    told = f"{found.label} against the anchor {found.anchor}, {found.seconds / 60:.0f} min"
    console.print(Text(told), soft_wrap=True)
    every = [_point(case.case, one) for case in found.cases for one in case.points]
    if every:
        _print_drawn(console, every, verdicts=False)
    for one in found.missing:
        console.print(Text(f"{one.case}: no point: {one.reason}"), soft_wrap=True)
    if every:
        told = "●: this stack over the anchor, within its 95 % interval"
        console.print(Text(told, style="dim"), soft_wrap=True)


def _point(case: str, point: AnchoredPoint) -> ViewRow:
    """The point as a row of a comparison; it has no verdict."""
    metric, ratio = point.metric if point.metric in METRICS else "", point.interval
    found = Judgement(
        metric=metric,
        verdict=Verdict.INCONCLUSIVE,
        ratio=ratio.estimate,
        low=ratio.low,
        high=ratio.high,
        duets=point.duets,
    )
    return ViewRow(case, metric, found, titled="" if metric else point.metric)


def print_cases(console: Console, summary: RunSummary) -> None:
    """Print a line per case of a run: its headline figures with their intervals, or why not."""
    cases = [*summary.cases.values()]
    requests = names.requests(case.case for case in cases)
    wanted = {name for case in cases for name, one in case.metrics.items() if one.estimate}
    shown = sorted(
        (name for name in wanted if METRICS[name].rank is not None),
        key=lambda name: METRICS[name].rank or 0,
    )[:_FIGURES]
    lines = [
        Line(requests.get(case.id, case.id), [_figure(case, name) for name in shown], _state(case))
        for case in cases[:MOST]
    ]
    titles = [formats.title(name) for name in shown]
    print_lines(console, lines, range(_FIGURES), Line("", titles, "state"))
    if (left := len(cases) - MOST) > 0:
        console.print(Text(f"… and {formats.many(left, 'more case')}", style="dim"))


def _figure(case: CaseSummary, metric: str) -> str:
    one = case.metrics.get(metric)
    within = formats.interval(metric, one)
    return " ".join(filter(None, (formats.figure(metric, one.estimate if one else None), within)))


def _state(case: CaseSummary) -> str:
    if case.failures:
        failed = f"✕ {len(case.failures)} of {case.expected} failed: {case.failures[0].reason}"
        return short(failed, _REASON)
    warned = ", ".join(one.name for one in case.warnings)
    return f"{case.status}{f' ({warned})' if warned else ''}"


def print_comparison(console: Console, comparison: Comparison) -> None:
    """Print all that a comparison says."""
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
    console.print(_GLOSSARY)


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
        Line(
            row[0],
            [columns[name][at] for name in columns],
            below=reasons[at],
            beside=str(case) if (case := called.get(row[0])) and case.known else "",
        )
        for at, row in enumerate(grid.rows)
    ]
    right = {at for at, name in enumerate(columns) if name not in grid.words}
    print_lines(console, lines, right, Line("", [*columns]), inline=False)


def print_page(console: Console, page: RunPage) -> None:
    """Print a run."""
    console.print(Text(page.title, style="bold"))
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(overflow="fold")
    for name, value in page.facts:
        facts.add_row(name, Text(value))
    console.print(facts)
    for part in (part for section in page.sections for part in _section(section, console)):
        console.print(part)
    console.print(_GLOSSARY)


def _section(section: Section, console: Console) -> Iterator[RenderableType]:
    yield Text()
    yield Text(section.experiment, style="bold underline")
    if section.question:
        yield Text(section.question, style="italic")
    if section.source:
        yield Text(f"published: {section.source}", style="dim")
    for answer in section.answers:
        yield Text(f"→ {answer.text}{answer.flagged}", style="" if answer.measured else "dim")
    for table in section.tables:
        yield Text()
        yield Text(table.title, style="bold")
        yield from _fitting(table, console)
        yield from map(_aside, table.notes)
    if section.notes or section.missing:
        yield Text()
    yield from map(_aside, section.notes)
    if section.missing:
        named = formats.some(section.missing, _MISSING_NAMED)
        yield _aside(f"published, not in this run: {named}")
    if section.shapes:
        yield Text()
        yield Text("Does the published shape hold?", style="bold")
        if measured := [one for one in section.shapes if one.verdict != "not measured"]:
            yield _shapes(measured)
        if left := len(section.shapes) - len(measured):
            yield _aside(
                f"{left} of {len(section.shapes)} statements: not measured, for lack of figures of "
                "their cases (--markdown says which)"
            )


def _aside(text: str) -> Padding:
    return Padding(Text(text, style="dim"), (0, 0, 0, 1))


def _fitting(table: FigureTable, console: Console) -> Iterator[RenderableType]:
    """The table, in as many parts as the width asks for: no figure is ever cut or broken."""
    drawn = _table(table)
    columns = len(table.columns)
    # Measured on a line without end: what fits the console would only be cut to it.
    wanted = console.measure(drawn, options=console.options.update_width(_ENDLESS)).maximum
    if columns < 2 or wanted <= console.width:
        yield drawn
        return
    half = (columns + 1) // 2
    for part in (slice(None, half), slice(half, None)):
        if part.start:
            yield Text("… and further:", style="dim")
        rows = tuple(replace(row, cells=row.cells[part]) for row in table.rows)
        yield from _fitting(replace(table, columns=table.columns[part], rows=rows), console)


def _table(table: FigureTable) -> Table:
    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True, show_edge=False)
    marked = any(row.marks for row in table.rows)
    for key in (*table.keys, ""):
        drawn.add_column(Text(key), no_wrap=True)
    for column in table.columns:
        drawn.add_column(Text(column), justify="right", no_wrap=True)
    if marked:
        drawn.add_column("flags")
    for row in table.rows:
        shown = [("ours", "95 %", "published")]
        shown += [(one.ours, one.interval, one.published or formats.MISSING) for one in row.cells]
        cells = [*map(Text, row.keys), *(_lines(row, *lines) for lines in shown)]
        drawn.add_row(*cells, *([row.marks] if marked else []))
    return drawn


def _lines(row: FigureRow, ours: str, interval: str, published: str) -> Text:
    text = Text(ours)
    if any(cell.interval for cell in row.cells):
        text.append(f"\n{interval}", style="dim")
    if row.has_published:
        text.append(f"\n{published}", style="cyan")
    return text


def _shapes(shapes: Sequence[ShapeResult]) -> Table:
    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    drawn.add_column("statement", ratio=3, overflow="fold")
    for name in ("expected", "published", "ours"):
        drawn.add_column(name, justify="right", no_wrap=True)
    drawn.add_column("verdict", ratio=3, overflow="fold")
    for shape in shapes:
        verdict = Text(shape.verdict, style=_STYLES.get(shape.verdict, "bold"))
        verdict.append(shape.told.removeprefix(shape.verdict), style="dim")
        ours = shape.figure.replace(" (", "\n").removesuffix(")")
        cells = (shape.statement, shape.expected, formats.ratio(shape.published), ours)
        drawn.add_row(*map(Text, cells), verdict)
    return drawn
