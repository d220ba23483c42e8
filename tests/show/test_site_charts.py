"""Charts: figures where arithmetic puts them, and scripts that agree with the Python here."""

import json
import random
import re
from typing import Final
from xml.etree import ElementTree as ET

import pytest

import sites
import synthetic as runs
from duetbench.core import units
from duetbench.core.errors import FlagName
from duetbench.core.metrics import METRICS
from duetbench.core.model import Flag, Verdict
from duetbench.core.units import Interval
from duetbench.host import paths
from duetbench.judge.summary import summarise_case
from duetbench.report import formats
from duetbench.report.html.charts import Caption, Dot, Scale, forest, scale_of
from observatory.show.site.pages.experiment import value_of
from observatory.show.site.plots import (
    FigureDot,
    PlotPoint,
    Quantity,
    Value,
    draw_figures,
    plot,
)

PLAIN: Final = Quantity("figure", units.plain)
ABOUT: Final = Caption("x", "Throughput")


def value(
    figure: float, low: float | None = None, high: float | None = None, note: str = ""
) -> Value:
    return Value(Interval(figure, low, high), note=note)


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
    wide, missing = value(100.0, 80.0, 120.0), Value(None, note="failed")
    first, second, none = rows(
        draw_figures(
            ABOUT,
            PLAIN,
            {"": [FigureDot("d", each, "") for each in (wide, value(200.0), missing)]},
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
    wide = Dot("a", Interval(1.02, 0.5, 9.0), Verdict.UNKNOWN)
    sure = Dot("b", Interval(1.02, 1.01, 1.03), Verdict.WORSE)
    every = [*[sure] * 19, wide]
    # Nine of ten intervals are whole: 1.15 times 3 %.
    low, high = pytest.approx(0.9655), pytest.approx(1.0345)
    assert scale_of(every) == Scale(low, high, 1.0)  # type: ignore[arg-type]
    title, *found = rows(forest(ABOUT, {"all": every}))
    assert texts(title) == ["all"]
    assert found[0].get("class") == "worse"
    assert texts(found[0])[2:] == ["▼ worse", "+2.0 %", "+1.0…+3.0 %"]
    assert len(marked(found[-1], "whisker")) == 3, "a line and two arrows"
    assert scale_of([Dot("c", Interval(1.001), Verdict.SAME)]) == Scale(0.99, 1.01, 1.0)


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


_TYPES = paths.project_root() / "scripts" / "typescript"


def test_figures_read_the_same_in_the_page_and_in_its_scripts() -> None:
    source = random.Random(5)
    values = [10 ** source.uniform(-9, 10) * source.choice((1, 1, -1)) for _ in range(400)]
    values += [0.0, 1.0, 999.6, 0.9996, 1e-3, 9.996e-4, 1e-6, 12_345.0, 99.96]
    writers = {row.format.name: row.format for row in METRICS.values()}
    writers["significant"] = units.plain
    found = sites.node(
        """
        const { named } = await import(js + "/formats.js");
        result = Object.fromEntries(given.names.map(
          (name) => [name, given.values.map((value) => named(name)(value))]));
        """,
        {"names": list(writers), "values": values},
    )
    for name, written in writers.items():
        assert found[name] == [written(value) for value in values], name
    assert writers.keys() >= {"seconds", "rate", "size", "share", "cores", "count", "significant"}


def test_intervals_read_the_same_in_the_page_and_in_its_scripts() -> None:
    cases = [(1e-4, 0.98e-4, 1.02e-4), (1e-4, 0.5e-4, 2e-4), (1e-4, 1e-4, 1e-4), (3.0, 2.9, 3.3)]
    assert sites.node(
        """
        const { interval, named } = await import(js + "/formats.js");
        result = given.map(([mean, low, high]) => interval(mean, low, high, named("seconds")));
        """,
        cases,
    ) == [formats.spread(units.seconds, Interval(*one)) for one in cases]


def test_a_line_is_interrupted_by_missing_figures_and_breaks_only() -> None:
    found = sites.node(
        """
        const { pieces } = await import(js + "/chart.js");
        result = pieces(given).map((piece) => piece.map((point) => point.x));
        """,
        [
            {"x": 1, "mean": 1}, {"x": 2, "mean": 9, "hollow": True}, {"x": 3, "mean": 1},
            {"x": 4}, {"x": 5, "mean": 1}, {"x": 6, "mean": 2, "cut": True},
        ],
    )  # fmt: skip
    assert found == [[1, 3], [5], [6]]


def test_published_figures_are_on_the_axis_unless_they_would_squeeze_ours() -> None:
    """Ours is 100; what is published at 240 is shown, and at 260 on a logarithmic axis only."""
    given = [(beside, log) for beside in (240, 260) for log in (False, True)]
    found = sites.node(
        """
        const { limits } = await import(js + "/chart.js");
        result = given.map(([beside, log]) =>
          limits({ y: { log }, x: {} }, [{ x: 0, mean: 100, beside }])[1] >= beside);
        """,
        given,
    )
    assert found == [True, True, False, True]


def test_the_lock_of_npm_names_no_host() -> None:
    lock = (_TYPES / "package-lock.json").read_text()
    packages = {name: load for name, load in json.loads(lock)["packages"].items() if name}
    assert set(packages) == {"node_modules/typescript"}
    assert all(package["integrity"].startswith("sha512-") for package in packages.values())
    assert "://" not in lock
