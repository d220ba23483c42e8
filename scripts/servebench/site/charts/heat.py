"""Heat maps: a figure for each pair of two declared values. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from servebench.site.charts import figure, keys, text
from servebench.site.charts.data import About, Quantity, Value, interval, sentence
from servebench.site.charts.figure import Chart, Key
from servebench.site.charts.shapes import NARROW, WIDE, Drawing, Mark, Rect, Shape, Text

STEPS: Final = 7
"""Shades; the stylesheet has as many."""
_LEAST: Final = 1.25  # the shades span at least this factor: noise must not look like a landscape
_ROWS: Final = 20
_COLUMNS: Final = 20
_TITLE: Final = 24.0
_HEAD: Final = 22.0
_TALLEST: Final = 62.0
_WIDEST: Final = 130.0


@dataclass(frozen=True, slots=True)
class Heat:
    """A whole heat map.

    Attributes:
        about: What it is.
        quantity: What the cells show.
        row_title: What varies from row to row.
        column_title: What varies from column to column.
        rows: The rows' values, as text.
        columns: The columns' values, as text.
        cells: A row of cells for each row; None where no such case is declared.
    """

    about: About
    quantity: Quantity
    row_title: str
    column_title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[tuple[Value | None, ...], ...]

    def __post_init__(self) -> None:
        if len(self.cells) != len(self.rows) or any(
            len(row) != len(self.columns) for row in self.cells
        ):
            raise ValueError(f"cells: expected {len(self.rows)} rows of {len(self.columns)}")


def heat(data: Heat) -> Chart:
    """Draw the map; every cell has its figure in it, so that shade is never alone."""
    notes = []
    if len(data.rows) > _ROWS or len(data.columns) > _COLUMNS:
        notes.append(
            f"The first {min(len(data.rows), _ROWS)} × {min(len(data.columns), _COLUMNS)} of "
            f"{len(data.rows)} × {len(data.columns)} cells are drawn; the table has all."
        )
    if any(value.published is not None for *_, value in _cells(data)):
        notes.append(
            "In brackets: published figures, of another machine. Compare shapes, not sizes."
        )
    return Chart(
        about=data.about,
        kind="heat",
        wide=_draw(data, WIDE),
        narrow=_draw(data, NARROW),
        table=figure.table(
            (data.row_title, data.column_title, *figure.VALUE_HEAD),
            (
                (data.rows[row], data.columns[column],
                 *figure.value_cells(data.quantity, value))
                for row, column, value in _cells(data)
            ),
            words=2,
        ),
        legend=tuple(_legend(data)),
        notes=tuple(notes),
    )  # fmt: skip


def shade(value: float, low: float, high: float) -> int:
    """Which of the shades, from 0: equal steps from `low` to `high`."""
    return min(STEPS - 1, max(0, int(STEPS * (value - low) / (high - low))))


def limits(data: Heat) -> tuple[float, float] | None:
    """What the lightest and the darkest shade stand for; None without figures."""
    means = [value.mean for *_, value in _cells(data) if value.mean is not None]
    if not means:
        return None
    high = max(means)
    low = min(*means, high / _LEAST)
    return (low, high) if low < high else (low - 1.0, high)


def _cells(data: Heat) -> Iterator[tuple[int, int, Value]]:
    for row, line in enumerate(data.cells):
        for column, value in enumerate(line):
            if value is not None:
                yield row, column, value


def _draw(data: Heat, width: float) -> Drawing:
    found = limits(data)
    if found is None:
        return figure.empty(width, "No figures to draw: the table says why.")
    rows, columns = data.rows[:_ROWS], data.columns[:_COLUMNS]
    left = min(width / 3, max(text.width(text.clean(row)) for row in rows) + 14)
    left = max(left, min(width / 3, text.width(text.clean(f"{data.row_title} ↓")) + 8))
    cell = min(_WIDEST, (width - left) / len(columns))
    tall = min(_TALLEST, max(30.0, 0.7 * cell))
    top = _TITLE + _HEAD
    shapes: list[Shape | Mark] = [
        Text("faint", left, 12.0, text.fit(f"{data.column_title} →", width - left)),
        Text("faint", 0.0, top - 7, text.fit(f"{data.row_title} ↓", left - 4)),
    ]
    for index, column in enumerate(columns):
        middle = left + cell * (index + 0.5)
        shapes.append(Text("tick", middle, top - 7, text.fit(column, cell - 6, "end"), "middle"))
    for index, row in enumerate(rows):
        middle = top + tall * (index + 0.5)
        shapes.append(Text("tick", left - 8, middle + 4, text.fit(row, left - 8, "end"), "end"))
    box = (cell - 2, tall - 2)
    for row_at, column_at, value in _cells(data):
        if row_at < len(rows) and column_at < len(columns):
            corner = (left + cell * column_at + 1, top + tall * row_at + 1)
            place = f"{data.rows[row_at]} {data.row_title}, "
            place += f"{data.columns[column_at]} {data.column_title}"
            shapes.append(
                Mark(
                    say=text.clip(f"{place}: {sentence(data.quantity, value)}"),
                    series=row_at,
                    point=column_at,
                    x=corner[0] + box[0] / 2,
                    y=corner[1] + box[1] / 2,
                    shapes=tuple(_cell(data.quantity, value, corner, box, found)),
                    kind="cell",
                )
            )
    return Drawing(width, top + tall * len(rows) + 4, tuple(shapes))


def _cell(
    quantity: Quantity,
    value: Value,
    corner: tuple[float, float],
    box: tuple[float, float],
    bounds: tuple[float, float],
) -> Iterator[Shape]:
    (x, y), (wide, tall) = corner, box
    if value.mean is None:
        yield Rect("void", x, y, wide, tall)
        yield Text("faint", x + wide / 2, y + tall / 2 + 4, text.fit("no figure", wide), "middle")
        return
    kind = f"h{shade(value.mean, *bounds)}"
    yield Rect(f"{kind} hollow" if not value.valid else kind, x, y, wide, tall)
    published = None if value.published is None else quantity.format(value.published)
    asides = [each for each in (interval(quantity, value), published and f"({published})") if each]
    # What has no room in a cell is in the table, and under the pointer.
    room = max(0, int((tall - 18) // 15))
    asides = [each for each in asides if text.width(each) <= wide - 4][:room]
    middle = y + tall / 2 + 4 - 7.5 * len(asides)
    main = quantity.format(value.mean)
    if 1.08 * text.width(main) <= wide:  # a number that is cut would be another number
        yield Text(f"plain {kind} strong", x + wide / 2, middle, main, "middle")
    for line, aside in enumerate(asides, start=1):
        yield Text(f"plain {kind}", x + wide / 2, middle + 15.0 * line, aside, "middle")


def _legend(data: Heat) -> Iterator[Key]:
    found = limits(data)
    if found is None:
        return
    low, high = found
    for step in (0, STEPS // 2, STEPS - 1):
        least = low + (high - low) * step / STEPS
        most = low + (high - low) * (step + 1) / STEPS
        label = f"{data.quantity.format(least)}…{data.quantity.format(most)}"
        yield Key(label, (Rect(f"h{step}", 0, 0, 28, 14),))
    if any(value.mean is not None and not value.valid for *_, value in _cells(data)):
        yield keys.HOLLOW_CELL
