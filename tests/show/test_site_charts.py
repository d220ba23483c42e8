"""Charts: figures where arithmetic puts them, and the data for scripts."""

import json
import re
from typing import Final
from xml.etree import ElementTree as ET

import pytest

import synthetic as runs
from duetbench.core import units
from duetbench.core.errors import FlagName
from duetbench.core.model import Flag, Verdict
from duetbench.core.units import Interval
from duetbench.show.html.charts import (
    CHANGE,
    Caption,
    Dot,
    Quantity,
    Scale,
    Value,
    forest,
    scale_of,
)
from duetbench.trend.summary import summarise_case
from observatory.show.site.pages.experiment import value_of
from observatory.show.site.plots import PlotPoint, plot

PLAIN: Final = Quantity("figure", units.plain)
ABOUT: Final = Caption("x", "Throughput")


def value(
    figure: float, low: float | None = None, high: float | None = None, note: str = ""
) -> Value:
    return Value(Interval(figure, low, high), note=note)


def dots(*values: Value) -> list[Dot]:
    return [Dot(f"d{at}", value) for at, value in enumerate(values)]


def rows(markup: str) -> list[ET.Element]:
    tree = ET.fromstring(f"<x>{markup}</x>".encode("utf-8", "replace"))
    return tree.findall(".//tbody/tr")


def texts(row: ET.Element) -> list[str]:
    return ["".join(cell.itertext()) for cell in row]


def marked(row: ET.Element, kind: str) -> list[ET.Element]:
    return [node for node in row.iter() if kind in node.get("class", "").split()]


def test_a_case_of_a_run_becomes_a_figure_with_ceiling_and_flags() -> None:
    noise = Flag(name=FlagName.HOST_NOISE, detail="0.3 cores")
    result = runs.steady_result(runs.make_case("a/b"), {"throughput": 3000.0, "ceiling": 6400.0})
    launches = tuple(launch.model_copy(update={"flags": (noise,)}) for launch in result.launches)
    value = value_of(
        summarise_case(result.model_copy(update={"launches": launches}), 3), "throughput"
    )
    assert value.figure is not None
    assert (value.figure.estimate, value.ceiling) == pytest.approx((3000, 6400))
    assert not value.valid
    assert value.note == "host noise"
    one = runs.steady_result(runs.make_case("a/b"), {"throughput": 3000.0})
    alone = one.model_copy(update={"launches": one.launches[:1]})
    assert not value_of(summarise_case(alone, 1), "throughput").valid


def test_dots_stand_where_arithmetic_puts_them() -> None:
    """From 0 to 1.06 × 200 between 2 and 98 %: 100 lies at 2 + 96 / 2.12."""
    first, second, none = rows(
        forest(
            ABOUT,
            PLAIN,
            {"": dots(value(100.0, 80.0, 120.0), value(200.0), Value(None, note="failed"))},
        )
    )
    (line,) = marked(first, "whisker")
    assert [line.get("x1"), line.get("x2")] == [f"{2 + 96 * x / 212:.2f}%" for x in (80, 120)]
    (dot,) = [node for node in first.iter("svg") if node.find("circle[@class='dot']") is not None]
    assert dot.get("x") == f"{2 + 96 / 2.12:.2f}%"
    assert texts(first)[2:] == ["100", "±20 %", ""]
    assert texts(none)[2:] == ["—", "", "failed"]
    assert not marked(none, "dot")
    assert not marked(second, "whisker")


def test_a_change_has_none_in_the_middle_and_an_interval_that_goes_on_has_an_arrow() -> None:
    wide = Dot("a", value(1.02, 0.5, 9.0), verdict=Verdict.UNKNOWN, word="? not decided")
    sure = Dot("b", value(1.02, 1.01, 1.03), verdict=Verdict.WORSE, word="▼ slower")
    every = [*[sure] * 19, wide]
    # Nine of ten intervals are whole: 1.15 times 3 %.
    low, high = pytest.approx(0.9655), pytest.approx(1.0345)
    assert scale_of(CHANGE, every) == Scale(low, high, 1.0)  # type: ignore[arg-type]
    title, *found = rows(forest(ABOUT, CHANGE, {"all": every}))
    assert texts(title) == ["all"]
    assert found[0].get("class") == "worse"
    assert texts(found[0])[2:] == ["▼ slower", "+2.0 %", "+1.0…+3.0 %"]
    assert len(marked(found[-1], "whisker")) == 3, "a line and two arrows"
    assert scale_of(CHANGE, dots(value(1.001))) == Scale(0.99, 1.01, 1.0)


def test_a_plot_has_its_figures_as_data_and_as_a_table() -> None:
    points = (
        PlotPoint(0.0, value(1.0, 0.9, 1.1), href="../p/a/1/"),
        PlotPoint(1.0, Value(None, note="no wheel")),
    )
    markup = plot(ABOUT, PLAIN, PLAIN, {"3.14": points}, names=("1", "2"))
    script = re.search(r'<script type="application/json">(.*?)</script>', markup)
    assert script is not None
    model = json.loads(script[1])
    assert model["x"]["names"] == ["1", "2"]
    (line,) = model["series"]
    assert (line["name"], line["slot"]) == ("3.14", 0)
    assert line["points"] == [
        {"x": 0.0, "mean": 1.0, "low": 0.9, "high": 1.1, "href": "../p/a/1/"},
        {"x": 1.0, "note": "no wheel"},
    ]
    text = re.sub(r"<[^>]+>", " ", markup.partition("<tbody>")[2])
    assert text.split() == ["3.14", "1", "1.00", "±10", "%", "3.14", "2", "—", "no", "wheel"]
