"""How reports read: figures, intervals, changes, verdicts; tables and lists of them.

Text from files is escaped in Markdown; on a terminal everything is made a `Text`, since a plain
string would be read as markup.
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from duetbench.core import units
from duetbench.core.metrics import INSTRUCTIONS, METRICS, TIME_INSIDE, WITNESSES
from duetbench.core.model import Verdict
from duetbench.core.text import ASCII, visible
from duetbench.core.units import Interval

_GLOSSARY: Final = "docs/glossary.md"

MISSING: Final = "—"
MARKS: Final = {
    Verdict.SLOWER: "▼",
    Verdict.FASTER: "▲",
    Verdict.NO_CHANGE: "=",
    Verdict.INCONCLUSIVE: "?",
    Verdict.NOT_COMPARABLE: "✕",
}
"""A mark beside each word: neither colour nor sign alone ever says what is better."""

_DOUBLED: Final = 2.0  # from here on factors are said
_SYMMETRIC: Final = 0.25  # up to here both halves of an interval are nearly equal
_ROUNDING: Final = 1e-9  # of means over logarithms, relative


def sparkline(values: Sequence[float], least: float = 1e6) -> str:
    """Draw values as blocks; a span below `least` does not fill their height."""
    low, span = min(values), max(least, max(values) - min(values))
    return "".join("▁▂▃▄▅▆▇█"[int(7 * (value - low) / span)] for value in values)


def figure(metric: str, value: float | None) -> str:
    """A metric's figure with its unit; a dash when there is none."""
    return MISSING if value is None else METRICS[metric].format(value)


def interval(metric: str, figure: Interval | None) -> str:
    """The 95 % interval of a metric's figure, as `spread` writes it."""
    return spread(METRICS[metric].format, figure)


def spread(write: units.Formatter, figure: Interval | None) -> str:
    """The 95 % interval: `±1.2 %`, or `lo…hi` where it is wide; empty when there is none."""
    if figure is None or figure.ends is None:
        return ""
    if math.isclose(*figure.ends, rel_tol=_ROUNDING):
        return ""  # the same in every launch: a declared value, or a count of zero
    half = figure.spread
    if half is not None and half <= _SYMMETRIC:
        return f"±{units.significant(100 * half, 2)} %"
    low, high = map(write, figure.ends)
    # `1.2…3.4 ms` rather than `1.2 ms…3.4 ms`.
    number, _, unit = low.partition(" ")
    if unit and high.endswith(f" {unit}"):
        return f"{number}…{high}"
    if low.endswith("/s") and high.endswith("/s"):
        return f"{low.removesuffix('/s')}…{high}"
    return f"{low}…{high}"


def ratio(value: float | None) -> str:
    """A ratio with at least three significant digits; a dash when there is none."""
    return MISSING if value is None else units.significant(value, 3)


def limits(least: float | None, most: float | None) -> str:
    """The range that a statement expects."""
    if least is not None and most is not None:
        return f"{least:g} to {most:g}"
    return f"≥ {least:g}" if least is not None else f"≤ {most:g}"


def duration(seconds: float) -> str:
    """A wall time as people say it: `48 s`, `12 min`, `1 h 5 min`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def verdict(metric: str, outcome: Verdict) -> str:
    """The verdict's word with its mark; memory and instructions get more or less, not slower.

    What explains a change has no mark: by itself it is neither good nor bad.
    """
    word = outcome.value
    if metric in WITNESSES:
        more, less = re.findall(r"(\w+)\|(\w+)", METRICS[metric].moves)[0]
        return str({Verdict.SLOWER: more, Verdict.FASTER: less}.get(outcome, word))
    if metric == INSTRUCTIONS:
        word = {Verdict.SLOWER: "more", Verdict.FASTER: "fewer"}.get(outcome, word)
    elif metric and METRICS[metric].unit == "B":
        word = {Verdict.SLOWER: "larger", Verdict.FASTER: "smaller"}.get(outcome, word)
    return f"{MARKS[outcome]} {word}"


def percent(ratio: float | None) -> str:
    """A ratio as a signed change, `+1.23 %`; from doubling on as a factor, `31.5×`.

    A dash when there is none.
    """
    if ratio is not None and ratio >= _DOUBLED:
        return f"{units.significant(ratio)}×"
    return MISSING if ratio is None else f"{_signed(ratio)} %"


def ends(ratio: Interval | None) -> str:
    """A ratio's interval as the ends of a change: `+0.9…+1.5 %`; empty when there is none.

    Of a factor they are factors.
    """
    if ratio is None or ratio.ends is None:
        return ""
    if ratio.estimate >= _DOUBLED:
        return f"{'…'.join(map(units.significant, ratio.ends))}×"
    return f"{'…'.join(map(_signed, ratio.ends))} %"


def reach(ratios: Iterable[Interval]) -> float:
    """How far an axis of changes has to go: it has all estimates, and nine of ten intervals whole.

    The others have an arrow at its end.
    """
    every = list(ratios)
    widths = sorted(max(abs(end - 1) for end in ratio.ends) for ratio in every if ratio.ends)
    inner = widths[math.ceil(0.9 * len(widths)) - 1 :][:1]
    return max([0.0, *(abs(ratio.estimate - 1) for ratio in every), *inner])


def moved(metric: str, ratio: Interval) -> str:
    """By how much a case moved, in plain words: `needs 22.0 % more CPU per request (20.7…24.0 %)`.

    From doubling on: `needs 31.5 times the CPU per request (27.2…36.0 times)`. `metric` is of the
    registry, or the unit that asv gives to a benchmark inside the process.
    A size without an interval was counted and cannot scatter; the text says so.
    """
    rose = ratio.estimate >= 1
    factor = ratio.estimate >= _DOUBLED
    if ratio.ends is None:
        within = "counted"
    elif factor:
        within = ends(ratio).replace("×", " times")
    elif ratio.excludes(1):
        near, far = sorted(ratio.ends, key=lambda end: abs(end - 1))
        within = f"{_plain(near)}…{_plain(far)} %"
    else:
        within = ends(ratio)  # whose signs say that it may be either
    size = f"{units.significant(ratio.estimate)} times" if factor else f"{_plain(ratio.estimate)} %"
    if metric in METRICS:
        words = METRICS[metric].moved(size, rose=rose)
    else:
        row = TIME_INSIDE
        if metric == INSTRUCTIONS:
            row = replace(row, moves="takes {} more|fewer instructions in process")
        words = row.moved(size, rose=rose)
    return f"{words} ({within})"


def direction(metric: str, ratio: Interval) -> str:
    """What `moved` says without the verb and the figures: `more CPU per request`."""
    words = moved(metric, ratio).partition(" (")[0]
    return words.partition(" % ")[2] or f"times{words.partition(' times')[2]}"


def _plain(ratio: float) -> str:
    return _signed(ratio).lstrip("+−")


def size(change: float | None) -> str:
    """A relative size without sign: `0.62 %`; a dash when there is none."""
    return MISSING if change is None else f"{units.significant(100 * change, 2)} %"


def title(metric: str) -> str:
    """The metric's column heading."""
    return METRICS[metric].title


def series_title(metric: str) -> str:
    """What a series measures, in words; of a benchmark inside the process, with the unit of asv."""
    if metric == INSTRUCTIONS:
        return "instructions"
    return METRICS[metric].title if metric in METRICS else f"time in process ({metric})"


def quantity(number: int, singular: str, plural: str = "") -> str:
    """`1 case`, `2 cases`, `1,825 nights`."""
    return f"{units.count(number)} {singular if number == 1 else plural or f'{singular}s'}"


def _signed(ratio: float) -> str:
    change = 100 * (ratio - 1)
    digits = 2 if round(abs(change), 2) < 10 else 1
    text = f"{change:+.{digits}f}"
    # Typographic minus, and no sign on what rounds to nothing.
    return text.replace("-", "−") if float(text) else f"{0:.{digits}f}"


WORDS: Final = f"<sub>What the words mean: `{_GLOSSARY}` of duetbench.</sub>\n"
"""The end of a report, where the address of no site is known."""

_WORDS: Final = "case metric verdict why stack package base head note state function"
WORDY: Final = frozenset(_WORDS.split())
"""Columns of words; others are of figures."""

_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>#|~])")


def escape(text: str) -> str:
    """Escape text so that Markdown and terminals show it as it is, on one line."""
    return _SPECIAL.sub(r"\\\1", visible(" ".join(text.split())))


def grid(head: Sequence[str], align: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; cells are escaped here."""
    lines = [head, *rows]
    text = [f"| {' | '.join(map(escape, line))} |" for line in lines]
    return "\n".join([text[0], f"| {' | '.join(align)} |", *text[1:]])


def facts(rows: Iterable[tuple[str, str]]) -> str:
    """Names and values as a list; where there is no name, the value alone."""
    return "\n".join(
        f"- **{escape(name)}**: {escape(value)}" if name else f"- {escape(value)}"
        for name, value in rows
    )


def bullets(notes: Iterable[str]) -> str:
    """Sentences as a list."""
    return facts(("", note) for note in notes)


MOST: Final = 40
"""Rows that are shown; those without change beyond them are counted."""

GLOSSARY: Final = Text(f"\nwhat the words mean: {_GLOSSARY}", style="dim")
_LAST: Final = 16  # columns of text in the last cell that names may take no room from
_STYLES: Final = {
    MARKS[Verdict.SLOWER]: "bold dark_orange",
    MARKS[Verdict.FASTER]: "bold dodger_blue1",
    MARKS[Verdict.NOT_COMPARABLE]: "bold",
}


def print_rows(console: Console, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows in aligned columns; where there is no room for the first cell, it stands above.

    Of rows with the same first cell only the first has it. Words at the end may have any length.
    """
    ascii_only = console.options.ascii_only
    every = [
        [cell.translate(ASCII) if ascii_only else cell for cell in row] for row in (head, *rows)
    ]
    widths = [max(map(cell_len, column)) for column in zip(*every, strict=True)]
    inline = 2 * len(widths) + sum(widths[:-1]) + min(widths[-1], _LAST) <= console.width
    above = every[0][0]
    for line in every:
        name, *cells = line
        if name != above and not inline:
            console.print(Text(name), soft_wrap=True)
        text = Text("  ")
        if inline:
            shown = name if name != above or line is every[0] else ""
            text.append(shown + " " * (widths[0] - cell_len(shown) + 2))
        above = name
        for column, cell, width in zip(head[1:], cells, widths[1:], strict=True):
            room = " " * (width - cell_len(cell))
            aligned = cell + room if column in WORDY else room + cell
            text.append(f"{aligned}  ", "dim" if line is every[0] else _STYLES.get(cell[:1], ""))
        text.rstrip()
        console.print(text, soft_wrap=True)
