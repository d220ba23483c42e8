"""Heat maps: a table with a figure for each pair of two declared values, its cells shaded. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from duetbench.show.site.charts import figure, legend, svg
from duetbench.show.site.charts.data import Caption, Quantity, Value, interval, sentence
from duetbench.show.site.charts.figure import Chart
from duetbench.show.site.charts.legend import LegendKey
from duetbench.show.site.charts.svg import Rect, escaped

STEPS: Final = 7
"""Shades; the stylesheet has as many."""
_LEAST: Final = 1.25  # the shades span at least this factor: noise must not look like a landscape


@dataclass(frozen=True, slots=True)
class Heat:
    """A whole heat map.

    Attributes:
        cells: A row of cells for each row; None where no such case is declared.
    """

    about: Caption
    quantity: Quantity
    row_title: str
    column_title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[tuple[Value | None, ...], ...]

    def __post_init__(self) -> None:
        if [len(row) for row in self.cells] != [len(self.columns)] * len(self.rows):
            raise ValueError(f"cells: expected {len(self.rows)} rows of {len(self.columns)}")

    @property
    def values(self) -> list[Value]:
        return [value for line in self.cells for value in line if value is not None]


def heat(data: Heat) -> Chart:
    """Shade the table; every cell has its figure in it, so that shade is never alone."""
    bounds = limits(data)
    notes = []
    if bounds is None:
        notes.append("No figures to shade: the table says why.")
    if any(value.published is not None for value in data.values):
        notes.append(
            "In brackets: published figures, of another machine. Compare shapes, not sizes."
        )
    return Chart(
        about=data.about,
        kind="heat",
        grid=_grid(data, bounds) if bounds else "",
        table=figure.table(
            (data.row_title, data.column_title, *figure.VALUE_HEAD),
            (
                (row, column, *figure.value_cells(data.quantity, value))
                for row, line in zip(data.rows, data.cells, strict=True)
                for column, value in zip(data.columns, line, strict=True)
                if value is not None
            ),
            words=2,
        ),
        legend=tuple(_legend(data, bounds)) if bounds else (),
        notes=tuple(notes),
    )


def shade(value: float, low: float, high: float) -> int:
    """Which of the shades, from 0: equal steps from `low` to `high`."""
    return min(STEPS - 1, max(0, int(STEPS * (value - low) / (high - low))))


def limits(data: Heat) -> tuple[float, float] | None:
    """What the lightest and the darkest shade stand for; None without figures."""
    means = [value.mean for value in data.values if value.mean is not None]
    if not means:
        return None
    high = max(means)
    low = min(*means, high / _LEAST)
    return (low, high) if low < high else (low - 1.0, high)


def _grid(data: Heat, bounds: tuple[float, float]) -> str:
    """Cells carry what marks of drawings carry, for the page's script."""
    corner = f"{escaped(data.row_title)}\xa0↓ {escaped(data.column_title)}\xa0→"
    head = "".join(f'<th scope="col">{escaped(column)}</th>' for column in data.columns)
    body = "".join(
        f'<tr><th scope="row">{escaped(data.rows[row])}</th>'
        + "".join(_cell(data, (row, at), value, bounds) for at, value in enumerate(line))
        + "</tr>\n"
        for row, line in enumerate(data.cells)
    )
    return (
        '<div class="chart-scroll"><table class="chart-drawing chart-grid">\n'
        f"<thead><tr><td>{corner}</td>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table></div>"
    )


def _cell(
    data: Heat, place: tuple[int, int], value: Value | None, bounds: tuple[float, float]
) -> str:
    if value is None:
        return '<td class="void"></td>'
    row, column = place
    where = f"{data.rows[row]} {data.row_title}, {data.columns[column]} {data.column_title}"
    said = escaped(svg.clip(f"{where}: {sentence(data.quantity, value)}"))
    kind, lines = "void", ["no figure"]
    if value.mean is not None:
        kind = f"h{shade(value.mean, *bounds)}" + ("" if value.valid else " hollow")
        lines = [data.quantity.format(value.mean), interval(data.quantity, value)]
        if value.published is not None:
            lines.append(f"({data.quantity.format(value.published)})")
    shown = "".join(f"<span>{escaped(line)}</span>" for line in lines if line)
    return (
        f'<td class="mark {kind}" data-series="{row}" data-point="{column}" title="{said}">'
        f"{shown}</td>"
    )


def _legend(data: Heat, bounds: tuple[float, float]) -> Iterator[LegendKey]:
    low, high = bounds
    for step in (0, STEPS // 2, STEPS - 1):
        ends = (low + (high - low) * (step + more) / STEPS for more in (0, 1))
        yield LegendKey(
            "…".join(map(data.quantity.format, ends)), (Rect(f"h{step}", 0, 0, 28, 14),)
        )
    if any(value.mean is not None and not value.valid for value in data.values):
        yield LegendKey(legend.UNSURE, (Rect("h0 hollow", 1, 1, 26, 12),))
