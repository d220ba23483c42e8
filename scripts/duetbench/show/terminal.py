"""Runs and comparisons on a terminal, with rich: they read well from 100 columns on.

Everything is made a `Text`, since a plain string would be read as markup.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
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
from duetbench.show import drawn, formats, rows
from duetbench.show.comparison import make_view
from duetbench.show.rows import ComparisonRow, Grid
from duetbench.store.comparison import Comparison, Verdict
from duetbench.store.reproduce import TO_REPEAT

if TYPE_CHECKING:  # pages are made with numpy and jinja2; comparisons need neither
    from duetbench.show.claims import ShapeResult
    from duetbench.show.page import RunPage, Section
    from duetbench.show.tables import FigureRow, FigureTable
    from duetbench.trend.summary import CaseSummary, RunSummary

_ENDLESS: Final = 10_000  # columns
_MISSING_NAMED: Final = 3  # so many published cases that a run lacks are named, the rest counted
_FIGURES: Final = 3  # of a case of a run that stand in its line
_STATE: Final = 24  # columns of a state that names may take no room from; longer ones go on
_REASON: Final = 120  # letters of a failure; the details have all
_FLOORS: Final = 4  # that are named below lines; the legend of the details has all
_GLOSSARY: Final = Text(f"\nwhat the words mean: {formats.GLOSSARY}", style="dim")
_SPARE: Final = ("base → head", "samples", "could see")
"""Columns that are left out where the terminal is narrow, in this order."""
_STYLES: Final = {
    formats.MARKS[Verdict.SLOWER]: "bold dark_orange",
    formats.MARKS[Verdict.FASTER]: "bold dodger_blue1",
    "does not hold": "bold magenta",
    "not decided": "yellow",
    "not measured": "dim",
}


def print_overview(console: Console, comparison: Comparison) -> None:
    """Print a comparison's sentence, a line per case and metric, and what to do next."""
    found = rows.grouped(comparison)
    console.print(Text(rows.headline(comparison, found), style="bold"))
    every, left = drawn.shown(found.all, len(found.unchanged))
    if every:
        _drawn(console, every, names.requests(one.case for one in comparison.cases))
    if left:
        console.print(Text(f"  … and {formats.many(left, 'more row')} without change", style="dim"))
    if steps := [*rows.steps(comparison, found)]:
        console.print()
        for step in steps:
            console.print(Text(f"  {step}"), soft_wrap=True)
    for what, command in rows.commands(comparison, found):
        console.print(Text(f"  {command}  # {what}"), soft_wrap=True)
    for note in comparison.notes:
        if note.startswith(TO_REPEAT):
            console.print(Text(f"  {note}"), soft_wrap=True)


def _drawn(console: Console, every: Sequence[ComparisonRow], requests: Mapping[str, str]) -> None:
    """Rows with their intervals on one axis, as wide as the terminal allows.

    `requests` stand in place of ids, where they tell the cases apart.
    """
    every = [replace(row, case=requests.get(row.case, row.case)) for row in every]
    plain = console.options.ascii_only

    def fitted(text: str, width: int, *, right: bool = False) -> str:
        """In the characters that are printed, so that what follows stands where it should."""
        shown = text.translate(ASCII) if plain else text
        room = " " * (width - cell_len(shown))
        return room + shown if right else shown + room

    def widest(texts: Iterable[str]) -> int:
        return max(cell_len(one.translate(ASCII) if plain else one) for one in texts)

    figures = [one for one in every if one.judged.ratio is not None]
    columns: list[tuple[Callable[[ComparisonRow], str], int, bool]] = [
        (lambda row: row.label, widest(row.label for row in every), False),
        (lambda row: row.change, widest(row.change for row in every), True),
        (lambda row: row.interval, widest(row.interval for row in every), True),
    ]
    verdict, case = (widest(getattr(row, name) for row in every) for name in ("verdict", "case"))
    beside = sum(width + 2 for _, width, _ in columns) + verdict + 4
    room = console.width - beside
    inline = room - case - 2 >= drawn.NARROWEST
    room = min(room - (case + 2) * inline, drawn.WIDEST)
    wide = room - (room % 2 == 0) if room >= drawn.NARROWEST and figures else 0
    far = drawn.reach(figures)
    before = "  " + " " * (case + 2) * inline
    console.print()
    if wide:
        blank = " " * sum(width + 2 for _, width, _ in columns)
        _whole(console, Text(f"{before}{blank}{drawn.scale(far, wide)}", style="dim"))
    above = ""
    for row in every:
        if row.case != above and not inline:
            console.print(Text(f"  {row.case}"), soft_wrap=True)
        first = f"  {fitted(row.case if row.case != above else '', case)}  " if inline else "    "
        above = row.case
        if row.judged.ratio is None:
            told = f"{first}{fitted(row.label, columns[0][1])}  {row.verdict}: {row.why}"
            console.print(Text(told, style=_STYLES.get(row.verdict[:1], "")), soft_wrap=True)
            continue
        line = Text(first)
        for cell, width, right in columns:
            line.append(fitted(cell(row), width, right=right) + "  ")
        if wide:
            line.append(drawn.interval(row, far, wide) + "  ")
        line.append(row.verdict, style=_STYLES.get(row.verdict[:1], ""))
        _whole(console, line)
    if figures:
        told = f"●: head over base, within its 95 % interval; ┊: relevance floor ({_few(figures)})"
        console.print(Text(f"  {told if wide else told.partition('; ')[2]}", style="dim"))


def _few(figures: Sequence[ComparisonRow]) -> str:
    return formats.some([*drawn.floors(figures)], _FLOORS)


def _whole(console: Console, line: Text) -> None:
    line.rstrip()
    console.print(line, no_wrap=True, overflow="ellipsis")


def print_cases(console: Console, summary: RunSummary) -> None:
    """Print a line per case of a run: its headline figures with their intervals, or why not."""
    cases = [*summary.cases.values()]
    asked = names.requests(case.case for case in cases)
    wanted = {name for case in cases for name, one in case.metrics.items() if one.estimate}
    shown = sorted(
        (name for name in wanted if METRICS[name].rank is not None),
        key=lambda name: METRICS[name].rank or 0,
    )[:_FIGURES]
    lines = [
        (asked.get(case.id, case.id), [_figure(case, name) for name in shown], _state(case))
        for case in cases[: drawn.MOST]
    ]
    titles = [formats.title(name) for name in shown]
    widths = [
        max(map(cell_len, (title, *(cells[at] for _, cells, _ in lines))))
        for at, title in enumerate(titles)
    ]
    name = max((cell_len(case) for case, _, _ in lines), default=0)
    states = min(max((cell_len(state.plain) for _, _, state in lines), default=0), _STATE)
    # Names that leave no room stand above their figures.
    above = name + sum(widths) + 2 * len(widths) + 2 + states > console.width

    def printed(case: str, cells: Iterable[str], state: Text) -> None:
        if above and case:
            console.print(Text(case), soft_wrap=True)
        line = Text("  " if above else case.ljust(name + 2))
        for cell, width in zip(cells, widths, strict=True):
            line.append(" " * (width - cell_len(cell)) + cell + "  ")
        line.append_text(state)
        line.rstrip()
        console.print(line, soft_wrap=True)

    if lines:
        printed("", titles, Text("state"))
    for case, cells, state in lines:
        printed(case, cells, state)
    if (left := len(cases) - drawn.MOST) > 0:
        console.print(Text(f"… and {formats.many(left, 'more case')}", style="dim"))


def _figure(case: CaseSummary, metric: str) -> str:
    one = case.metrics.get(metric)
    within = formats.interval(metric, one)
    return " ".join(filter(None, (formats.figure(metric, one.estimate if one else None), within)))


def _state(case: CaseSummary) -> Text:
    if case.failures:
        told = f"✕ {len(case.failures)} of {case.expected} failed: {case.failures[0].reason}"
        return Text(short(told, _REASON), style="bold")
    warned = ", ".join(one.name for one in case.warnings)
    return Text(f"{case.status}{f' ({warned})' if warned else ''}")


def print_comparison(console: Console, comparison: Comparison) -> None:
    """Print a comparison."""
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
            said = f"{name}: {line}" if name else line
            said = f"{line}  # {name}" if block.kind == "commands" else said
            # What is copied must not be broken.
            console.print(Text(f"  {said}", style=style), soft_wrap=True)
        if block.grid is not None:
            _grid(console, block.grid, called)
    console.print(_GLOSSARY)


def _grid(console: Console, found: Grid, called: Mapping[str, CaseName]) -> None:
    """Rows below their first column, whose names are long; reasons stand below their rows."""
    reasons = [row[-1] if found.head[-1] == "why" else "" for row in found.rows]
    further = [name for name in found.head[1:] if name != "why"]
    columns = {
        name: [row[found.head.index(name)] for row in found.rows]
        for name in further
        if any(row[found.head.index(name)] not in {"", formats.MISSING} for row in found.rows)
    }
    widths = {name: max(map(cell_len, (name, *cells))) for name, cells in columns.items()}
    for name in _SPARE:
        if sum(widths.values()) + 2 * len(widths) <= console.width:
            break
        widths.pop(name, None)

    def printed(cells: Iterable[str], style: str = "") -> None:
        line = Text("  ")
        for cell, (name, width) in zip(cells, widths.items(), strict=True):
            shown = Text(cell, style=style or _STYLES.get(cell[:1], ""))
            shown.align("left" if name in found.words else "right", width)
            line += shown + Text("  ")
        line.rstrip()
        console.print(line, no_wrap=True, overflow="ellipsis")

    printed(widths, "dim")
    above = ""
    for at, row in enumerate(found.rows):
        if row[0] != above:
            above = row[0]
            case = called.get(above)
            beside = Text(f"  {case}" if case is not None and case.known else "", style="dim")
            console.print(Text(above) + beside, soft_wrap=True)
        printed(columns[name][at] for name in widths)
        if reasons[at]:
            console.print(Text(f"    {reasons[at]}", style="dim"), soft_wrap=True)


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
