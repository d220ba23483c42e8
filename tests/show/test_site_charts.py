"""Charts: figures where arithmetic puts them, refusals, hostile texts, and colours."""

import json
import re
from collections.abc import Callable
from typing import Any, Final
from xml.etree import ElementTree as ET

import pytest

import synthetic as runs
from duetbench.core import units
from duetbench.core.flags import Flag, FlagName
from duetbench.core.model import Verdict
from duetbench.show.site.charts import forest as forests
from duetbench.show.site.charts.declared import value_of
from duetbench.show.site.charts.figure import (
    STYLES,
    Caption,
    Quantity,
    Value,
    assign,
    interval,
)
from duetbench.show.site.charts.forest import (
    CHANGE,
    Dot,
    DotGroup,
    Forest,
    Scale,
    change,
    forest,
    scale_of,
)
from duetbench.show.site.charts.plot import Plot, PlotPoint, PlotSeries, plot, spark
from duetbench.show.site.pages.packages import badge
from duetbench.show.site.pages.site import series_styles
from duetbench.trend.summary import summarise_case

PLAIN: Final = Quantity("figure", units.plain)
ABOUT: Final = Caption("x", "Throughput")
HOSTILE: Final = (
    "<img src=x onerror=alert(1)>",
    "\"><script>alert(1)</script><b title='",
    "a\x00b\x1b[31m\x7f\u202e\u061cgnp.\ud800\ufffe]]>&amp;",
    "n" * 10_000,
)


def dots(*values: Value, **more: Any) -> Forest:
    group = DotGroup("", tuple(Dot(f"d{at}", value) for at, value in enumerate(values)))
    return Forest(ABOUT, PLAIN, (group,), **more)


def rows(markup: str) -> list[ET.Element]:
    tree = ET.fromstring(f"<x>{markup}</x>".encode("utf-8", "replace"))
    return tree.findall(".//tbody/tr")


def texts(row: ET.Element) -> list[str]:
    return ["".join(cell.itertext()) for cell in row]


def marked(row: ET.Element, kind: str) -> list[ET.Element]:
    return [node for node in row.iter() if kind in node.get("class", "").split()]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Value(float("nan")),
        lambda: Value(1.0, ceiling=float("inf")),
        lambda: Value(None),
        lambda: Value(None, 1.0, 2.0, note="failed"),
        lambda: Value(1.0, low=0.9),
        lambda: Value(1.0, 1.1, 1.2),
        lambda: Caption("1x", "t"),
        lambda: Caption('x" onload="', "t"),
    ],
)
def test_what_cannot_be_true_is_refused(wrong: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=r"."):
        wrong()


def test_an_interval_is_relative_where_it_is_narrow() -> None:
    assert interval(PLAIN, Value(100.0, 98.0, 102.0)) == "±2.0 %"
    assert interval(PLAIN, Value(10.0, 5.0, 20.0)) == "5.00…20.0"
    assert interval(PLAIN, Value(10.0, 10.0, 10.0)) == ""


def test_a_case_of_a_run_becomes_a_figure_with_ceiling_and_flags() -> None:
    noise = Flag(name=FlagName.HOST_NOISE, detail="0.3 cores")
    result = runs.steady_result(runs.make_case("a/b"), {"throughput": 3000.0, "ceiling": 6400.0})
    launches = tuple(launch.model_copy(update={"flags": (noise,)}) for launch in result.launches)
    value = value_of(
        summarise_case(result.model_copy(update={"launches": launches}), 3), "throughput"
    )
    assert (value.mean, value.ceiling) == pytest.approx((3000, 6400))
    assert not value.valid
    assert value.note == "host_noise"
    one = runs.steady_result(runs.make_case("a/b"), {"throughput": 3000.0})
    alone = one.model_copy(update={"launches": one.launches[:1]})
    assert not value_of(summarise_case(alone, 1), "throughput").valid


def test_dots_stand_where_arithmetic_puts_them() -> None:
    """From 0 to 1.06 × 200 between 2 and 98 %: 100 lies at 2 + 96 / 2.12."""
    first, second, none = rows(
        forest(dots(Value(100.0, 80.0, 120.0), Value(200.0), Value(None, note="failed")))
    )
    (line,) = marked(first, "whisker")
    assert [line.get("x1"), line.get("x2")] == [f"{2 + 96 * x / 212:.2f}%" for x in (80, 120)]
    (dot,) = [node for node in first.iter("svg") if node.find("circle[@class='dot']") is not None]
    assert dot.get("x") == f"{2 + 96 / 2.12:.2f}%"
    assert texts(first)[2:] == ["100", "±20 %", ""]
    assert texts(none)[2:] == ["—", "", "failed"]
    assert not marked(none, "dot")
    assert not marked(second, "whisker")


def test_near_ceilings_and_published_figures_are_on_the_axis_and_far_ones_in_the_table() -> None:
    near, far = rows(forest(dots(Value(100.0, ceiling=150.0), Value(100.0, published=10_000.0))))
    assert marked(near, "ceiling")
    assert texts(near)[-1] == "ceiling 150"
    assert not marked(far, "published")
    assert texts(far)[-1] == "published 10,000"


def test_a_change_has_none_in_the_middle_and_an_interval_that_goes_on_has_an_arrow() -> None:
    wide = change("a", Value(1.02, 0.5, 9.0), Verdict.INCONCLUSIVE, "? inconclusive")
    sure = [change(f"b{n}", Value(1.02, 1.01, 1.03), Verdict.SLOWER, "▼ slower") for n in range(19)]
    data = Forest(ABOUT, CHANGE, (DotGroup("all", (*sure, wide)),), "change")
    # Nine of ten intervals are whole: 1.15 times 3 %.
    assert scale_of(data) == Scale(pytest.approx(-0.0345), pytest.approx(0.0345))  # type: ignore[arg-type]
    title, *found = rows(forest(data))
    assert texts(title) == ["all"]
    assert found[0].get("class") == "worse"
    assert texts(found[0])[2:] == ["▼ slower", "+2.00 %", "+1.00…+3.00 %"]
    assert len(marked(found[-1], "whisker")) == 3, "a line and two arrows"
    assert scale_of(dots(Value(0.001), axis="change")) == Scale(-0.01, 0.01)


def test_samples_stand_beside_what_is_made_of_them() -> None:
    dot = Dot("a", Value(0.02), verdict=Verdict.SLOWER, samples=(0.01, 0.03))
    (row,) = rows(forest(Forest(ABOUT, CHANGE, (DotGroup("", (dot,)),), "change")))
    assert len(marked(row, "sample")) == 2


def test_nothing_to_draw_is_a_table_that_says_why() -> None:
    (row,) = rows(forest(dots(Value(None, note="not measured"))))
    assert texts(row) == ["d0", "", "—", "", "not measured"]
    assert not row.findall(".//svg")


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_strings_are_text(hostile: str) -> None:
    dot = Dot(hostile, Value(1.0, note=hostile), series=hostile, word=hostile)
    markup = forest(Forest(Caption("x", hostile, hostile), PLAIN, (DotGroup(hostile, (dot,)),)))
    line = PlotSeries(hostile, (PlotPoint(0.0, Value(1.0, note=hostile), hostile),))
    markup += plot(Plot(Caption("y", hostile), PLAIN, PLAIN, (line,), names=(hostile,)))
    markup += badge(hostile, hostile, "same", hostile)
    assert "<img" not in markup
    assert "<script>alert" not in markup
    for character in "\x00\x1b\x7f\u202e":
        assert character not in markup


def test_a_plot_has_its_figures_as_data_and_as_a_table() -> None:
    points = (
        PlotPoint(0.0, Value(1.0, 0.9, 1.1), href="../p/a/1/"),
        PlotPoint(1.0, Value(None, note="no wheel")),
    )
    series = (PlotSeries("3.14", points),)
    markup = plot(Plot(ABOUT, PLAIN, PLAIN, series, names=("1", "2"), styles=series_styles()))
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


def test_variants_of_one_name_have_other_dashes() -> None:
    point = (PlotPoint(1.0, Value(1.0)),)
    lines = tuple(PlotSeries(name, point, kind) for name in "ab" for kind in ("p50", "p99"))
    model = plot(Plot(ABOUT, PLAIN, PLAIN, lines))
    slots = [int(slot) for slot in re.findall(r'"slot": (\d+)', model)]
    assert [slot % 5 for slot in slots[::2]] == [slot % 5 for slot in slots[1::2]]
    assert len(set(slots)) == 4


def test_a_sparkline_ends_at_its_last_value() -> None:
    """Of five the last is at the right edge (117), the largest at the top: 28 / 2 - 10."""
    markup = spark([1.0, 2.0, None, 2.0, 3.0], lambda count: f"{count} <nights>")
    svg = ET.fromstring(markup)
    assert svg.get("aria-label") == "4 <nights>"
    dot = svg.find("circle")
    assert dot is not None
    assert (dot.get("cx"), dot.get("cy")) == ("117.0", "4.0")
    assert spark([1.0, None], str) == ""


def test_series_look_the_same_on_every_page_and_differ_within_one() -> None:
    fixed = series_styles()
    assert [
        assign(names, fixed)["3.14t"] for names in (["3.14t", "3.14"], ["3.14t", "b", "a"])
    ] == [1, 1]
    ten = assign([f"series {i}" for i in range(STYLES)], fixed)
    assert len(set(ten.values())) == STYLES
    assert len({slot % 5 for slot in assign(["a", "b", "c", "d", "e"], fixed).values()}) == 5
    assert len(assign(map(str, range(30)), fixed)) == 30


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: str, other: str) -> float:
    """WCAG 2.2, relative luminance."""
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_colours_can_be_seen(theme: int) -> None:
    """Lines have 3 times the contrast of the paper, text 4.5 times (WCAG 1.4.11 and 1.4.3)."""
    css = forests.stylesheet()
    pairs = re.findall(r"(--[\w-]+): light-dark\((#\w{6}), (#\w{6})\)", css)
    lines = [shades[theme] for name, *shades in pairs if name == "--c"]
    colours = {name: shades[theme] for name, *shades in pairs}
    assert len(lines) == 6
    for colour in lines:
        assert _contrast(colour, colours["--paper"]) >= 3, colour
    for name in ("--ink", "--faint", "--worse", "--better", "--open"):
        assert _contrast(colours[name], colours["--paper"]) >= 4.5, name
