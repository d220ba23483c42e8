"""Charts: everything stands where arithmetic puts it, says what it is, and leaves nothing out."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, Final

import pytest

from duetbench.core import units
from duetbench.core.flags import Flag, FlagName
from duetbench.core.model import CaseResult
from duetbench.core.text import clean
from duetbench.show.site.charts import figure, svg
from duetbench.show.site.charts.data import Caption, Link, Quantity, Value, interval, sentence
from duetbench.show.site.charts.declared import value_of
from duetbench.show.site.charts.figure import Chart
from duetbench.show.site.charts.forest import CHANGE, ROWS, Dot, DotGroup, Forest, change, forest
from duetbench.show.site.charts.heat import Heat, heat, limits, shade
from duetbench.show.site.charts.legend import STYLES, assign
from duetbench.show.site.charts.lines import LinePoint, Lines, LineSeries, lines
from duetbench.show.site.charts.scale import (
    AxisScale,
    declared_axis,
    nice,
    nice_log,
    time_axis,
    value_axis,
)
from duetbench.show.site.charts.svg import MARKS, Drawing, Line, Mark, Path, Text, symbol
from duetbench.show.site.charts.trend import Trend, TrendEvent, TrendPoint, spark, trend
from duetbench.store.comparison import Verdict
from duetbench.trend.summary import summarise_case
from synthetic import failed, make_case, ok

SVG: Final = "{http://www.w3.org/2000/svg}"
RATE: Final = Quantity.of("throughput")
TIME: Final = Quantity.of("response_p50")
USERS: Final = Quantity("users", units.count)
PLAIN: Final = Quantity("figure", units.plain)
ABOUT: Final = Caption("x", "Throughput")
START: Final = datetime(2026, 1, 1, tzinfo=UTC)
HOSTILE: Final = (
    "<img src=x onerror=alert(1)>",
    "\"><script>alert(1)</script><b title='",
    "*Markdown* [a](javascript:alert(1)) | `x` {{ 7 * 7 }} {% raw %}",
    "a\x00b\x1b[31m\x7f\u202e\u061cgnp.\ud800\ufffe]]>&amp;",
    "n" * 10_000,
)


def parsed(chart: Chart) -> ET.Element:
    return ET.fromstring(figure.figure(chart).encode("utf-8"))


def words(tree: ET.Element) -> str:
    return " ".join("".join(tree.itertext()).split())


def shapes_of(drawing: Drawing) -> Iterator[object]:
    for shape in drawing.shapes:
        yield from shape.shapes if isinstance(shape, Mark) else (shape,)


def dots(*values: Value, **more: object) -> Forest:
    group = DotGroup("", tuple(Dot(f"d{at}", value) for at, value in enumerate(values)))
    return Forest(ABOUT, PLAIN, (group,), **more)  # type: ignore[arg-type]


def kinds(drawing: Drawing, kind: str) -> list[Any]:
    return [shape for shape in shapes_of(drawing) if kind in getattr(shape, "kind", "").split()]


def days(*values: Value, **more: object) -> Trend:
    points = tuple(
        TrendPoint(START + timedelta(days=day), f"run{day}", value)
        for day, value in enumerate(values)
    )
    return Trend(ABOUT, PLAIN, points, **more)  # type: ignore[arg-type]


# Figures and what stands beside them


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
        lambda: Link("t", "javascript:alert(1)"),
        lambda: Link("t", "//elsewhere.example/"),
        lambda: Link("t", "/\t/elsewhere.example/"),
        lambda: Link("t", "/\\elsewhere.example/"),
        lambda: Link("t", "data:text/html,x"),
        lambda: TrendPoint(datetime(2026, 1, 1), "run", Value(1.0)),
        lambda: Heat(ABOUT, PLAIN, "r", "c", ("1",), ("1", "2"), ((None,),)),
        lambda: Trend(ABOUT, PLAIN, days(Value(1.0), Value(2.0)).points[::-1]),
        lambda: Drawing(10.0, 10.0, (Mark("x", 0, 0, 0.0, 0.0, ()),) * (MARKS + 1)),
        lambda: AxisScale(1.0, 1.0, 0.0, 1.0),
        lambda: AxisScale(0.0, 1.0, 0.0, 1.0, log=True),
    ],
)
def test_what_cannot_be_true_is_refused(wrong: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=r"."):
        wrong()


def test_relative_addresses_and_https_are_links() -> None:
    for href in ("../b/x/", "./#a", "/runs/r.json", "?a=b", "https://example.org/x"):
        assert Link("t", href).href == href


def test_a_figure_is_said_with_all_that_stands_beside_it() -> None:
    value = Value(3041.0, 3000.0, 3090.0, 12_800.0, 30_415.0, valid=False, note="host_noise")
    assert sentence(RATE, value) == (
        "3,041/s, 95 % interval ±1.6 %, ceiling 12,800/s, published 30,415/s, not judged, "
        "host_noise"
    )
    assert sentence(RATE, Value(None, note="failed: wrong_body")) == "no figure: failed: wrong_body"
    assert interval(PLAIN, Value(10.0, 5.0, 20.0)) == "5.00…20.0"
    assert interval(PLAIN, Value(10.0, 10.0, 10.0)) == ""


def test_a_case_of_a_run_becomes_a_figure_with_ceiling_and_flags() -> None:
    case = make_case("x/a/py3.14")
    noise = Flag(name=FlagName.HOST_NOISE, detail="steal 3 %")
    metrics = {"throughput": 100.0, "ceiling": 128.0}
    launches = (ok(case.id, 0, metrics, noise), ok(case.id, 1, metrics))
    value = value_of(summarise_case(CaseResult(case=case, launches=launches), 2), "throughput")
    assert value.mean == pytest.approx(100)
    assert value.ceiling == pytest.approx(128)
    assert not value.valid
    assert value.note == "host_noise, few_launches"
    broken = (failed(case.id, 0, FlagName.NOT_READY, "no answer in 30 s"),)
    value = value_of(summarise_case(CaseResult(case=case, launches=broken), 1), "throughput")
    assert value == Value(None, note="failed; not_ready: no answer in 30 s")


# Scales and ticks


def test_scales_map_by_rule_of_three() -> None:
    assert AxisScale(0, 100, 50, 250).at(25) == 100.0
    assert AxisScale(1, 100, 0, 200, log=True).at(10) == 100.0
    assert AxisScale(0, 100, 296, 24).at(50) == 160.0
    assert AxisScale(0, 100, 0, 10).at(1000) == 10.0


def test_ticks_are_round() -> None:
    """Steps are 1, 2 or 5 times a power of ten, as many as are asked for at most."""
    assert nice(0, 3041, 5) == ([0, 1000, 2000, 3000], 1000)
    assert nice(-0.03, 0.03, 7)[0] == pytest.approx([-0.03, -0.02, -0.01, 0, 0.01, 0.02, 0.03])
    assert nice_log(0.0009, 2.3, 6) == pytest.approx([0.001, 0.01, 0.1, 1])
    assert nice_log(1, 10, 6) == pytest.approx([1, 2, 5, 10])
    assert nice_log(1e-9, 1e9, 4) == pytest.approx([1e-9, 1e-4, 1e1, 1e6])


def test_an_axis_has_one_unit_for_all_labels() -> None:
    """0.5 ms and 1 ms are 500 µs and 1 ms nowhere on one linear axis."""
    axis = value_axis(TIME, AxisScale(0, 0.0045, 296, 24), 5)
    assert [tick.text for tick in axis.ticks] == ["0", "1", "2", "3", "4"]
    assert axis.title == "response p50 (ms)"
    axis = value_axis(TIME, AxisScale(0.0009, 2.3, 296, 24, log=True), 6)
    assert [tick.text for tick in axis.ticks] == ["1 ms", "10 ms", "100 ms", "1 s"]
    assert axis.title == "response p50"
    axis = value_axis(RATE, AxisScale(0, 5000, 296, 24), 5)
    assert [tick.text for tick in axis.ticks][-1] == "5,000"
    assert axis.title == "throughput (1/s)"


@pytest.mark.parametrize("width", [60, 150, 330, 700])
@pytest.mark.parametrize("high", [3.0, 1234.0, 98_765_432.0])
def test_labels_of_a_lying_axis_do_not_overlap(width: int, high: float) -> None:
    axis = value_axis(RATE, AxisScale(0, high, 8, 8 + width), 8, sideways=True)
    declared = declared_axis(
        USERS, AxisScale(0, high, 8, 8 + width), [high * i / 40 for i in range(41)]
    )
    times = time_axis(AxisScale(0, 86_400 * high / 10_000 + 1, 8, 8 + width))
    for ticks in (axis.ticks, declared.ticks, times.ticks[:0] if width == 60 else times.ticks):
        spans = [tick.span for tick in ticks]
        assert all(a[1] < b[0] for a, b in pairwise(spans))
    assert declared.ticks[-1].at == 8 + width


def test_dates_are_days_months_or_years_by_their_room() -> None:
    def labels(last: datetime) -> list[str]:
        return [
            t.text for t in time_axis(AxisScale(START.timestamp(), last.timestamp(), 0, 900)).ticks
        ]

    assert labels(datetime(2026, 1, 8, tzinfo=UTC))[:2] == ["2026-01-01", "2026-01-02"]
    assert labels(datetime(2026, 7, 1, tzinfo=UTC))[-1] == "2026-07"
    assert labels(datetime(2040, 7, 1, tzinfo=UTC))[0] == "2026"
    assert labels(datetime(2026, 1, 1, 5, tzinfo=UTC)) == ["2026-01-01"]


# Texts


def test_names_are_cut_from_the_left_and_sentences_from_the_right() -> None:
    name = "asgi-wsgi/asgi-json/py3.14t/w2/c256"
    assert svg.fit(name, 1000) == name
    cut = svg.fit(name, 100, "end")
    assert cut.startswith("…")
    assert cut.endswith("/w2/c256")
    assert svg.text_width(cut) <= 100
    assert svg.fit("failed: wrong_body", 80) == "failed: wro…"
    assert svg.text_width("日本") == 24.0  # full width: one em each
    assert svg.text_width("iiii") < svg.text_width("mmmm")


# Intervals and dots


def test_dots_stand_where_arithmetic_puts_them() -> None:
    """On 342 px for 0 to 106, a hundred is 322.6 px from zero, and fifty half of it."""
    drawing = forest(dots(Value(100.0, 90.0, 100.0), Value(50.0))).narrow
    assert [(mark.x, mark.y) for mark in drawing.marks] == [(330.6, 30.0), (169.3, 70.0)]
    (whisker,) = kinds(drawing, "whisker")
    assert (whisker.x1, whisker.x2, whisker.y1) == (298.4, 330.6, 30.0)
    near = forest(dots(Value(100.0), Value(101.0), axis="near"))
    # Noise is no landslide: two per cent of the figures at least.
    assert near.narrow.marks[1].x - near.narrow.marks[0].x == pytest.approx(171, abs=3)
    assert near.notes == ("The axis does not begin at zero.",)


def test_near_ceilings_and_published_figures_are_on_the_axis_and_far_ones_counted() -> None:
    near = forest(dots(Value(100.0, ceiling=200.0, published=150.0)))
    # The axis ends at 1.06 × 200 = 212: 8 + 342 × 200 / 212 = 330.6.
    assert [line.x1 for line in kinds(near.narrow, "ceiling")] == [330.6]
    assert len(kinds(near.narrow, "published")) == 1
    assert near.notes == ("Published figures are of another machine: compare shapes, not sizes.",)
    far = forest(dots(Value(100.0, ceiling=1000.0)))
    assert far.notes == ("1 published figures or ceilings lie beyond the axis: see the table.",)
    assert "1,000" in words(parsed(far))


def test_a_failure_is_never_a_dot_and_what_is_not_judged_is_hollow() -> None:
    flagged = Value(1.0, valid=False, note="host_noise")
    chart = forest(dots(Value(None, note="failed: wrong_body"), flagged))
    (dot,) = kinds(chart.wide, "dot")
    assert dot.kind == "dot m-circle hollow"
    assert [each.text for each in kinds(chart.wide, "missing")] == ["no figure: failed: wrong_body"]
    assert chart.table.rows[0] == ("d0", "—", "failed: wrong_body")
    assert "flagged, or too few launches: not judged" in [key.label for key in chart.legend]


def test_too_many_rows_are_counted() -> None:
    chart = forest(dots(*[Value(1.0)] * (ROWS + 20)))
    assert chart.notes == ("20 of 100 rows are not drawn; the table has them.",)
    assert (len(chart.wide.marks), len(chart.table.rows)) == (ROWS, 100)


def ratios(*dots: Dot) -> Forest:
    return Forest(ABOUT, CHANGE, (DotGroup("", dots),), "change")


def test_a_ratio_stands_where_arithmetic_puts_it() -> None:
    """±3.45 % on 342 px: +2 % is at 8 + 342 × 5.45 / 6.9 = 278.1."""
    dot = change("a", Value(1.02, 1.01, 1.03), Verdict.SLOWER, "▼ slower")
    chart = forest(ratios(dot))
    (mark,) = chart.narrow.marks
    assert (mark.x, mark.y, mark.kind) == (278.1, 50.0, "worse")
    assert mark.say == "a: ▼ slower +2.00 %, 95 % interval +1.00…+3.00 %"
    assert chart.table.rows == (("a", "▼ slower", "+2.00 %", "+1.00…+3.00 %"),)
    assert chart.table.head == ("row", "verdict", "change", "95 % interval")
    gone = change("b", Value(None, note="head: wrong_body"), Verdict.NOT_COMPARABLE, "✕ not")
    assert forest(ratios(dot, gone)).table.rows[1] == ("b", "✕ not", "—", "", "head: wrong_body")


def test_an_interval_that_goes_on_beyond_the_axis_shows_it() -> None:
    narrow = [change(f"{at}", Value(1.0, 0.99, 1.01), Verdict.NO_CHANGE, "=") for at in range(10)]
    wide = change("wide", Value(1.0, 0.5, 1.9), Verdict.INCONCLUSIVE, "?")
    marks = forest(ratios(*narrow, wide)).narrow.marks
    arrows = [[s for s in mark.shapes if isinstance(s, Path) and s.kind == "whisker"]
              for mark in marks]  # fmt: skip
    assert [len(found) for found in arrows] == [0] * 10 + [2]
    (line,) = (s for s in marks[-1].shapes if isinstance(s, Line))
    assert (line.x1, line.x2) == (8.0, 350.0)
    # Nothing gets smaller than nothing: of thirty times as long no tick is at −2000 %.
    drawing = forest(ratios(change("a", Value(30.0, 29.0, 31.0), Verdict.SLOWER, "▼"))).wide
    ticks = [each.text for each in kinds(drawing, "tick")]
    assert "2,000" in ticks
    assert not any(tick.startswith("−") for tick in ticks)


# Lines


def two(*values: Value, **more: object) -> Lines:
    points = tuple(LinePoint(float(10**i), value) for i, value in enumerate(values))
    return Lines(ABOUT, USERS, PLAIN, (LineSeries("a", points),), **more)  # type: ignore[arg-type]


def test_lines_stand_where_arithmetic_puts_them() -> None:
    """0 to 106 on 272 px: 50 is 128.3 px above the bottom at 296; logarithmic: in the middle."""
    assert lines(two(Value(100.0), Value(50.0))).wide.marks[1].y == 167.7
    log = lines(two(Value(0.001), Value(0.01), Value(0.1), log_y=True)).wide
    assert [mark.y for mark in log.marks][1] == 160.0
    sideways = lines(two(Value(1.0), Value(1.0), Value(1.0), log_x=True)).wide
    first, middle, last = (mark.x for mark in sideways.marks)
    assert middle == pytest.approx((first + last) / 2, abs=0.1)


def test_a_line_is_interrupted_where_a_figure_is_missing() -> None:
    good, failed = Value(100.0), Value(None, note="failed: not_ready")
    drawing = lines(two(good, good, failed, good, good)).wide
    paths = [s for s in drawing.shapes if getattr(s, "kind", "").startswith("line ")]
    assert len(paths) == 2
    assert drawing.marks[2].kind == "gap"
    assert drawing.marks[2].y == 296.0
    assert drawing.marks[2].say == "a, 100 users: no figure: failed: not_ready"


def test_dashes_tell_variants_and_colours_tell_series() -> None:
    point = (LinePoint(1.0, Value(1.0)), LinePoint(2.0, Value(2.0)))
    every = tuple(
        LineSeries(stack, point, variant)
        for stack in ("pydantic-v1", "pydantic-v2")
        for variant in ("p50", "p99")
    )
    chart = lines(Lines(ABOUT, USERS, TIME, every, log_y=True))
    kinds = [key.kind for key in chart.legend]
    assert kinds == [
        "s-purple d-solid", "s-purple d-dash", "s-green d-solid", "s-green d-dash",
    ]  # fmt: skip
    assert [key.label for key in chart.legend][:2] == ["pydantic-v1 p50", "pydantic-v1 p99"]


def test_labels_of_points_do_not_lie_on_each_other() -> None:
    same = tuple(LinePoint(10.0, Value(1.0), f"c{2**i}") for i in range(8))
    chart = lines(Lines(ABOUT, RATE, TIME, (LineSeries("a", same),), log_y=True, declared=False))
    shown = [s for s in chart.wide.shapes if isinstance(s, Text) and s.kind == "note"]
    assert 0 < len(shown) <= 4
    assert "c128" in words(parsed(chart))


def test_a_shared_ceiling_is_drawn_once() -> None:
    def points(mean: float) -> tuple[LinePoint, ...]:
        return tuple(LinePoint(float(t), Value(mean * t, ceiling=100.0 * t)) for t in (1, 8, 64))

    both = (LineSeries("3.14", points(90)), LineSeries("3.14t", points(80)))
    chart = lines(Lines(ABOUT, USERS, PLAIN, both, log_x=True))
    assert len([s for s in chart.wide.shapes if getattr(s, "kind", "") == "ceiling"]) == 1


def test_changes_are_dots_around_zero_which_no_line_joins() -> None:
    """From −1 to 3 % with 6 % of that to either side, on 272 px: zero is 75.3 px above the bottom.

    What is not judged is further off, and lands on the edge.
    """
    drawing = lines(two(Value(0.03), Value(0.02), Value(9.0, valid=False), change=True)).wide
    assert not [s for s in drawing.shapes if getattr(s, "kind", "").startswith("line ")]
    (zero,) = [s for s in drawing.shapes if isinstance(s, Line) and s.kind == "zero"]
    assert zero.y1 == zero.y2 == 220.7
    assert drawing.marks[2].y == 24.0
    assert {"-1", "2"} <= {tick.text.replace("−", "-") for tick in kinds(drawing, "tick")}
    small = lines(two(Value(0.001), Value(-0.001), change=True)).wide
    assert small.marks[0].y == pytest.approx(160, abs=13), "noise is no landslide"


def test_too_many_points_are_thinned_and_counted() -> None:
    long = tuple(LinePoint(float(i), Value(1.0 + i)) for i in range(2000))
    chart = lines(Lines(ABOUT, USERS, PLAIN, (LineSeries("a", long), LineSeries("b", long[:10]))))
    assert len(chart.wide.marks) == MARKS // 2 + 10
    assert chart.notes == ("1750 points are not drawn; the table has them.",)


# Heat maps


def test_shades_are_equal_steps_and_noise_gets_no_landscape() -> None:
    """100 to 200 in seven steps; 99 and 100 are nearly the same shade, not the ends."""

    def grid(*means: float) -> Heat:
        cells = (tuple(Value(mean) for mean in means),)
        return Heat(ABOUT, PLAIN, "workers", "threads", ("1",), tuple(map(str, means)), cells)

    assert limits(grid(100, 150, 200)) == (100, 200)
    assert [shade(mean, 100, 200) for mean in (100, 150, 200)] == [0, 3, 6]
    assert limits(grid(99, 100)) == (80, 100)
    assert shade(99, 80, 100) == 6


def test_every_cell_has_its_figure_in_it() -> None:
    cells = ((Value(28_898.0, published=30_000.0), None), (Value(None, note="failed"), Value(5.0)))
    chart = heat(Heat(ABOUT, RATE, "workers", "threads", ("1", "2"), ("1", "2"), cells))
    found = parsed(chart).findall(".//table[@class='chart-drawing chart-grid']/tbody/tr/td")
    assert [list(cell.itertext()) for cell in found] == [
        ["28,898/s", "(30,000/s)"], [], ["no figure"], ["5.00/s"],
    ]  # fmt: skip
    assert [cell.get("class") for cell in found] == ["mark h6", "void", "mark void", "mark h0"]
    assert found[0].get("title") == "1 workers, 1 threads: 28,898/s, published 30,000/s"


# Trends


def test_a_trend_stands_where_arithmetic_puts_it() -> None:
    """10 to 20 with 6 % to each side on 252 px: 10 is at 262.5, 20 at 37.5."""
    chart = trend(days(*(Value(figure) for figure in (10.0, 10.0, 10.0, 20.0, 20.0))))
    assert [mark.y for mark in chart.wide.marks] == [262.5, 262.5, 262.5, 37.5, 37.5]
    xs = [mark.x for mark in chart.wide.marks]
    assert xs[2] == pytest.approx((xs[0] + xs[4]) / 2, abs=0.1)
    assert chart.notes == ("The upright axis does not begin at zero.",)


def test_gaps_and_flags_are_not_part_of_the_line() -> None:
    good, flagged = Value(10.0), Value(11.0, valid=False, note="host_noise")
    chart = trend(days(good, good, Value(None, note="failed: not_ready"), good, flagged, good))
    (path,) = kinds(chart.wide, "trend-line")
    assert path.d.count("M") == 2
    assert [mark.kind for mark in chart.wide.marks] == ["", "", "gap", "", "flagged", ""]
    assert chart.wide.marks[2].say == "2026-01-03: no figure: failed: not_ready"
    assert chart.wide.marks[4].say == "2026-01-05: 11.0, not judged, host_noise"


def test_nothing_is_joined_across_a_break_or_a_long_silence() -> None:
    cut = TrendEvent(START + timedelta(days=2), "machine m1 → m2")
    broken = trend(days(*[Value(10.0)] * 5, breaks=(cut,)))
    later = tuple(replace(point, time=point.time + timedelta(days=40))
                  for point in days(*[Value(10.0)] * 5).points)  # fmt: skip
    silent = trend(Trend(ABOUT, PLAIN, days(*[Value(10.0)] * 5).points + later))
    for chart, lengths in ((broken, [2, 3]), (silent, [5, 5])):
        (path,) = kinds(chart.wide, "trend-line")
        assert [1 + piece.count("L") for piece in path.d.split("M")[1:]] == lengths
    assert [mark.say for mark in broken.wide.marks if mark.series == 2] == [
        "2026-01-03: not comparable with before: machine m1 → m2"
    ]


def test_change_points_are_said_in_words_with_mark_and_cause() -> None:
    ratio = Value(1.032, 1.021, 1.043)
    moved = TrendEvent(START + timedelta(days=1), "granian 2.8.7", Verdict.SLOWER, ratio)
    chart = trend(days(Value(10.0), Value(10.3), changes=(moved,)))
    (mark,) = (mark for mark in chart.wide.marks if mark.series == 1)
    assert mark.say == "2026-01-02: ▼ slower +3.20 % (+2.10 % to +4.30 %), granian 2.8.7"
    assert mark.kind == "change-mark worse"
    assert chart.table.rows[0][-1] == "▼ slower +3.20 % (+2.10 % to +4.30 %), granian 2.8.7"
    assert "▼ slower from here on" in [key.label for key in chart.legend]


def test_five_years_are_drawn_within_the_limit_and_all_are_counted() -> None:
    """Of many figures two paths, and marks for what happened; the newest 400 of them."""
    nights = [
        Value(None, note="no run") if day % 31 == 0
        else Value(100.0 + day % 7, 90.0, 120.0, valid=day % 29 != 0, note="")
        for day in range(1826)
    ]  # fmt: skip
    every = [START + timedelta(days=day) for day in range(1826)]
    chart = trend(
        days(
            *nights,
            bumps=tuple(TrendEvent(at, "fastapi 0.1") for at in every),
            breaks=tuple(TrendEvent(at, "machine") for at in every[::200]),
            changes=tuple(TrendEvent(at, "", Verdict.FASTER, Value(0.9)) for at in every[::10]),
        )
    )
    assert {mark.series for mark in chart.wide.marks} == {1, 2, 3}
    assert len(chart.wide.marks) < 150
    hollow = sum(day % 31 != 0 and day % 29 == 0 for day in range(1426, 1826))
    assert len(kinds(chart.wide, "hollow")) == hollow
    assert len(kinds(chart.wide, "band")) == len(kinds(chart.wide, "trend-line")) == 1
    assert chart.notes[-1] == "The newest 400 of 1826 runs are drawn."
    assert chart.table.hidden == 1826 - figure.ROWS


# All charts


def every_chart(name: str = "a", note: str = "b") -> list[Chart]:
    about = Caption("x", name, note)
    quantity = Quantity(name, units.plain)
    value, failed = Value(2.0, 1.9, 2.1, 3.0, 4.0, note=note), Value(None, note=name)
    moved = change(name, Value(1.1, 1.05, 1.2, note=note), Verdict.SLOWER, note)
    points = (LinePoint(1.0, value, name), LinePoint(2.0, failed, note), LinePoint(3.0, value))
    both = (LineSeries(name, points, note), LineSeries(note, points))
    cell = Heat(about, quantity, name, note, (name, note), (note,), ((value,), (failed,)))
    when = TrendEvent(START, name)
    since = TrendEvent(START, name, Verdict.SLOWER, Value(1.1))
    history = tuple(TrendPoint(START + timedelta(days=d), name, value) for d in range(3))
    return [
        forest(Forest(about, quantity, (DotGroup(name, (Dot(name, value, note),
                                                        Dot(note, failed, name))),))),
        lines(Lines(about, quantity, quantity, both)),
        heat(cell),
        forest(Forest(about, CHANGE, (DotGroup("", (moved,)),), "change")),
        trend(Trend(about, quantity, history, (since,), (when,), (when,))),
    ]  # fmt: skip


@pytest.mark.parametrize("hostile", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_strings_are_text(hostile: str) -> None:
    plain = every_chart("a", "b")
    for chart, tame in zip(every_chart(hostile, hostile[::-1]), plain, strict=True):
        tree = parsed(chart)
        assert {element.tag for element in tree.iter()} == {e.tag for e in parsed(tame).iter()}
        names = {name for element in tree.iter() for name in element.attrib}
        assert names <= {name for element in parsed(tame).iter() for name in element.attrib}
        assert " ".join(clean(hostile).split()) in words(tree)


@pytest.mark.parametrize(
    "chart",
    [
        forest(Forest(ABOUT, PLAIN, ())),
        lines(Lines(ABOUT, USERS, PLAIN, ())),
        lines(two(Value(0.0), log_y=True)),
        lines(two(Value(None, note="failed"))),
        heat(Heat(ABOUT, PLAIN, "r", "c", (), (), ())),
        forest(ratios()),
        trend(days()),
        trend(days(Value(None, note="failed"))),
    ],
)
def test_nothing_to_draw_is_said(chart: Chart) -> None:
    assert not chart.drawings
    assert not chart.grid
    assert "the table says why" in words(parsed(chart))


@pytest.mark.parametrize("value", [Value(0.0), Value(1.0), Value(1.0, 1.0, 1.0), Value(1e12)])
def test_one_point_is_drawn(value: Value) -> None:
    for chart in (forest(dots(value)), lines(two(value)), trend(days(value))):
        assert len(chart.wide.marks) == len(chart.narrow.marks) == 1
        parsed(chart)


def test_a_figure_can_be_read_without_seeing_it() -> None:
    for chart in every_chart("name", "note"):
        tree = parsed(chart)
        assert tree.get("tabindex") == "0"
        caption = tree.find("figcaption")
        assert caption is not None
        assert caption.get("id") == tree.get("aria-labelledby")
        drawings = [e for e in tree.iter(f"{SVG}svg") if e.get("role") == "img"]
        assert [svg.get("aria-label") for svg in drawings] == ["name"] * len(chart.drawings)
        marks = [e for e in tree.iter() if "mark" in (e.get("class") or "").split()]
        assert marks
        for mark in marks:
            assert mark.findtext(f"{SVG}title") or mark.get("title")
            assert {"data-series", "data-point"} <= set(mark.attrib)
        assert tree.find("details//table//th[@scope='row']") is not None


def test_marks_and_texts_lie_within_their_drawing() -> None:
    for chart in every_chart("asgi-wsgi/asgi-json/py3.14t/w2/c256", "granian"):
        for drawing in chart.drawings:
            for shape in shapes_of(drawing):
                if isinstance(shape, Text):
                    wide = svg.text_width(shape.text)
                    left = shape.x - {"start": 0, "middle": wide / 2, "end": wide}[shape.anchor]
                    assert left >= -1, shape
                    assert left + wide <= drawing.width + 1, shape
                    assert 0 <= shape.y <= drawing.height
            for mark in drawing.marks:
                assert 0 <= mark.x <= drawing.width
                assert 0 <= mark.y <= drawing.height


def test_a_sparkline_shows_the_last_value_and_gaps() -> None:
    tree = ET.fromstring(spark("throughput, 5 runs", [1.0, 2.0, None, 2.0, 3.0], "worse"))
    assert tree.get("aria-label") == "throughput, 5 runs"
    (line,) = (e for e in tree if "line" in (e.get("class") or "").split())
    assert (line.get("d") or "").count("M") == 2
    (dot,) = (e for e in tree if "dot" in (e.get("class") or ""))
    # The last of five is at the right edge, the largest at the top: (116, 4).
    assert dot.get("d") == symbol("circle", 116, 4, 3)
    assert "<path" not in spark("nothing yet", [None])
    assert len(spark("many", [float(i % 9) for i in range(5000)])) < 3000


# Styles


def test_series_look_the_same_on_every_page_and_differ_within_one() -> None:
    assert assign(["3.14t", "3.14"])["3.14t"] == assign(["3.14t", "other", "more"])["3.14t"]
    ten = assign([f"series {i}" for i in range(len(STYLES))])
    assert len(set(ten.values())) == len(STYLES)
    assert len({style.colour for style in assign(["a", "b", "c", "d", "e"]).values()}) == 5
    assert len(assign(map(str, range(30)))) == 30


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
    css = figure.stylesheet()
    pairs = re.findall(r"(--[\w-]+): light-dark\((#\w{6}), (#\w{6})\)", css)
    found = {name: shades[theme] for name, *shades in pairs}
    paper = found["--paper"]
    for name, colour in found.items():
        if name.startswith("--s-"):
            assert _contrast(colour, paper) >= 3, name
    for name in ("--ink", "--faint", "--worse", "--better", "--open"):
        assert _contrast(found[name], paper) >= 4.5, name
    steps = [colour for name, colour in found.items() if re.fullmatch(r"--h\d", name)]
    assert len(steps) == 7
    ink, reverse = found["--ink"], found["--reverse"]
    for step, colour in enumerate(steps):
        assert _contrast(colour, ink if step < 4 else reverse) >= 4.5, step


def test_every_class_that_charts_use_has_a_rule() -> None:
    css = figure.stylesheet()
    neutral = {"mark", "wide", "label", "change-mark", "break-mark", "bump-mark", "number"}
    neutral |= {f"m-{marker}" for marker in ("circle", "square", "triangle", "hourglass", "wedge")}
    neutral |= {"d-solid", "chart-plot", "dot", "flagged"}
    neutral |= {f"chart-{kind}" for kind in ("lines", "heat", "forest", "trend")}
    for chart in every_chart():
        for element in parsed(chart).iter():
            for name in (element.get("class") or "").split():
                assert name in neutral or re.search(rf"\.{name}\b", css), name
