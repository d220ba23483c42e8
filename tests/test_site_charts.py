"""Charts: everything stands where arithmetic puts it, says what it is, and leaves nothing out."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Final

import pytest

from servebench import units
from servebench.compare.model import Verdict
from servebench.flags import Flag, FlagName
from servebench.model import CaseResult
from servebench.site.charts import figure, text, timeline
from servebench.site.charts.bars import ROWS, Bar, BarGroup, Bars, bars
from servebench.site.charts.data import About, Link, Quantity, Value, interval, sentence
from servebench.site.charts.figure import Chart
from servebench.site.charts.forest import Effect, Forest, forest
from servebench.site.charts.heat import Heat, heat, limits, shade
from servebench.site.charts.history import Change, Event, Trend, TrendPoint
from servebench.site.charts.lines import curve, lines, percentiles, sweep
from servebench.site.charts.measured import value_of
from servebench.site.charts.scale import (
    Scale,
    declared_axis,
    nice,
    nice_log,
    time_axis,
    value_axis,
)
from servebench.site.charts.shapes import MARKS, Drawing, Line, Mark, Rect, Text, symbol
from servebench.site.charts.spark import spark
from servebench.site.charts.styles import STYLES, assign
from servebench.site.charts.trend import trend
from servebench.site.charts.varied import Lines, Point, Series
from servebench.summary import summarise_case
from synthetic import failed, make_case, ok

SVG: Final = "{http://www.w3.org/2000/svg}"
RATE: Final = Quantity.of("throughput")
TIME: Final = Quantity.of("response_p50")
USERS: Final = Quantity("users", units.count)
PLAIN: Final = Quantity("figure", units.plain)
ABOUT: Final = About("x", "Throughput")
START: Final = datetime(2026, 1, 1, tzinfo=UTC)
HOSTILE: Final = (
    "<img src=x onerror=alert(1)>",
    "\"><script>alert(1)</script><b title='",
    "*Markdown* [a](javascript:alert(1)) | `x` {{ 7 * 7 }} {% raw %}",
    "a\x00b\x1b[31m\x7f\u202e\u061cgnp.\ud800\ufffe]]>&amp;",
    "n" * 10_000,
)


def parsed(chart: Chart) -> ET.Element:
    """The figure as a tree; it is well-formed, and can be encoded."""
    return ET.fromstring(figure.figure(chart).encode("utf-8"))


def words(tree: ET.Element) -> str:
    return " ".join("".join(tree.itertext()).split())


def shapes_of(drawing: Drawing) -> Iterator[object]:
    for shape in drawing.shapes:
        yield from shape.shapes if isinstance(shape, Mark) else (shape,)


def one_bar(value: Value, *, label: str = "a", series: str = "s") -> Bars:
    return Bars(ABOUT, PLAIN, (BarGroup("", (Bar(label, series, value),)),))


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
        lambda: About("1x", "t"),
        lambda: About('x" onload="', "t"),
        lambda: Link("t", "javascript:alert(1)"),
        lambda: Link("t", "//elsewhere.example/"),
        lambda: Link("t", "/\t/elsewhere.example/"),
        lambda: Link("t", "/\\elsewhere.example/"),
        lambda: Link("t", "data:text/html,x"),
        lambda: TrendPoint(datetime(2026, 1, 1), "run", Value(1.0)),
        lambda: Heat(ABOUT, PLAIN, "r", "c", ("1",), ("1", "2"), ((None,),)),
        lambda: Trend(ABOUT, PLAIN, (), most=131),
        lambda: Scale(1.0, 1.0, 0.0, 1.0),
        lambda: Scale(0.0, 1.0, 0.0, 1.0, log=True),
    ],
)
def test_what_cannot_be_true_is_refused(wrong: Callable[[], object]) -> None:
    """Where no number is, there is a reason; addresses stay on the site or say where they lead."""
    with pytest.raises(ValueError, match=r"."):
        wrong()


@pytest.mark.parametrize(
    "href", ["../b/x/", "./#a", "/runs/r.json", "?a=b", "https://example.org/x"]
)
def test_ordinary_addresses_are_links(href: str) -> None:
    """Relative addresses and https are what pages need."""
    assert Link("t", href).href == href


def test_a_figure_is_said_with_all_that_stands_beside_it() -> None:
    """What the eye sees in the picture is in the sentence too."""
    value = Value(3041.0, 3000.0, 3090.0, 12_800.0, 30_415.0, valid=False, note="host_noise")
    assert sentence(RATE, value) == (
        "3,041/s, 95 % interval ±1.6 %, ceiling 12,800/s, published 30,415/s, not judged, "
        "host_noise"
    )
    assert sentence(RATE, Value(None, note="failed: wrong_body")) == "no figure: failed: wrong_body"
    assert interval(PLAIN, Value(10.0, 5.0, 20.0)) == "5.00…20.0"
    assert interval(PLAIN, Value(10.0, 10.0, 10.0)) == ""


def test_a_case_of_a_run_becomes_a_figure_with_ceiling_and_flags() -> None:
    """Disturbed in half of its launches it may not be judged; without any it has a reason."""
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
    """A quarter of the way is a quarter of the px; ten is half of a hundred, logarithmically."""
    assert Scale(0, 100, 50, 250).at(25) == 100.0
    assert Scale(1, 100, 0, 200, log=True).at(10) == 100.0
    assert Scale(0, 100, 296, 24).at(50) == 160.0
    assert Scale(0, 100, 0, 10).at(1000) == 10.0


def test_ticks_are_round() -> None:
    """Steps are 1, 2 or 5 times a power of ten, as many as are asked for at most."""
    assert nice(0, 3041, 5) == ([0, 1000, 2000, 3000], 1000)
    assert nice(-0.03, 0.03, 7)[0] == pytest.approx([-0.03, -0.02, -0.01, 0, 0.01, 0.02, 0.03])
    assert nice_log(0.0009, 2.3, 6) == pytest.approx([0.001, 0.01, 0.1, 1])
    assert nice_log(1, 10, 6) == pytest.approx([1, 2, 5, 10])
    assert nice_log(1e-9, 1e9, 4) == pytest.approx([1e-9, 1e-4, 1e1, 1e6])


def test_an_axis_has_one_unit_for_all_labels() -> None:
    """0.5 ms and 1 ms are 500 µs and 1 ms nowhere on one linear axis."""
    axis = value_axis(TIME, Scale(0, 0.0045, 296, 24), 5)
    assert [tick.text for tick in axis.ticks] == ["0", "1", "2", "3", "4"]
    assert axis.title == "response p50 (ms)"
    axis = value_axis(TIME, Scale(0.0009, 2.3, 296, 24, log=True), 6)
    assert [tick.text for tick in axis.ticks] == ["1 ms", "10 ms", "100 ms", "1 s"]
    assert axis.title == "response p50"
    axis = value_axis(RATE, Scale(0, 5000, 296, 24), 5)
    assert [tick.text for tick in axis.ticks][-1] == "5,000"
    assert axis.title == "throughput (1/s)"


@pytest.mark.parametrize("width", [60, 150, 330, 700])
@pytest.mark.parametrize("high", [3.0, 1234.0, 98_765_432.0])
def test_labels_of_a_lying_axis_do_not_overlap(width: int, high: float) -> None:
    """Whatever the figures and the width, there is room between two labels."""
    axis = value_axis(RATE, Scale(0, high, 8, 8 + width), 8, sideways=True)
    declared = declared_axis(
        USERS, Scale(0, high, 8, 8 + width), [high * i / 40 for i in range(41)]
    )
    times = time_axis(Scale(0, 86_400 * high / 10_000 + 1, 8, 8 + width))
    for ticks in (axis.ticks, declared.ticks, times.ticks[:0] if width == 60 else times.ticks):
        spans = [tick.span for tick in ticks]
        assert all(a[1] < b[0] for a, b in pairwise(spans))
    assert declared.ticks[-1].at == 8 + width


def test_dates_are_days_months_or_years_by_their_room() -> None:
    """Five years have years, half a year has months, a week has days."""

    def labels(last: datetime) -> list[str]:
        return [t.text for t in time_axis(Scale(START.timestamp(), last.timestamp(), 0, 900)).ticks]

    assert labels(datetime(2026, 1, 8, tzinfo=UTC))[:2] == ["2026-01-01", "2026-01-02"]
    assert labels(datetime(2026, 7, 1, tzinfo=UTC))[-1] == "2026-07"
    assert labels(datetime(2040, 7, 1, tzinfo=UTC))[0] == "2026"
    assert labels(datetime(2026, 1, 1, 5, tzinfo=UTC)) == ["2026-01-01"]


# Texts


def test_names_are_cut_from_the_left_and_sentences_from_the_right() -> None:
    """The end of a case's id tells more than its beginning; of a reason it is the start."""
    name = "asgi-wsgi/asgi-json/py3.14t/w2/c256"
    assert text.fit(name, 1000) == name
    cut = text.fit(name, 100, "end")
    assert cut.startswith("…")
    assert cut.endswith("/w2/c256")
    assert text.width(cut) <= 100
    assert text.fit("failed: wrong_body", 80) == "failed: wro…"
    assert text.width("日本") == 24.0  # full width: one em each
    assert text.width("iiii") < text.width("mmmm")


# Bars


def test_bars_begin_at_zero_and_end_at_their_figure() -> None:
    """On 342 px for 0 to 103, a bar of 100 is 332 px long, and one of 50 half of it."""
    data = Bars(
        ABOUT, PLAIN, (BarGroup("", (Bar("a", "s", Value(100.0)), Bar("b", "s", Value(50.0)))),)
    )
    drawing = bars(data).narrow
    rects = [shape for shape in shapes_of(drawing) if isinstance(shape, Rect)]
    assert [(rect.x, rect.width) for rect in rects] == [(8.0, 332.0), (8.0, 166.0)]
    assert [(mark.x, mark.y) for mark in drawing.marks] == [(340.0, 30.0), (174.0, 70.0)]


def test_near_ceilings_are_marks_and_far_ones_point_out() -> None:
    """A ceiling at twice the bar is on the axis, one at ten times is said to be beyond."""
    near = bars(one_bar(Value(100.0, ceiling=206.0)))
    (mark,) = near.narrow.marks
    # The axis ends at 1.03 × 206 = 212.18: 8 + 342 × 206 / 212.18 = 340.0.
    assert [(s.x1, s.kind) for s in mark.shapes if isinstance(s, Line)] == [(340.0, "ceiling")]
    assert not near.notes
    far = bars(one_bar(Value(100.0, ceiling=1000.0)))
    assert far.notes == ("One ceiling is more than 2.5 times the longest bar: ▸ at the edge.",)
    assert "1,000" in words(parsed(far))


def test_a_failure_is_never_a_bar() -> None:
    """A case without a figure has its reason, in the drawing and in the table."""
    chart = bars(one_bar(Value(None, note="failed: wrong_body")))
    assert not [s for s in shapes_of(chart.wide) if isinstance(s, Rect)]
    shown = [s.text for s in shapes_of(chart.wide) if isinstance(s, Text)]
    assert "no figure: failed: wrong_body" in shown
    assert chart.table.rows == (("a", "—", "failed: wrong_body"),)


def test_published_figures_stand_beside_and_never_on_the_axis() -> None:
    """Another machine's figure must not be read off ours' axis."""
    chart = bars(one_bar(Value(100.0, published=1e6)))
    shown = [s.text for s in shapes_of(chart.wide) if isinstance(s, Text)]
    assert "published 1,000,000" in shown
    (mark,) = chart.wide.marks
    assert [type(s) for s in mark.shapes] == [Rect]
    assert "of another machine" in chart.notes[0]


def test_figures_that_may_not_be_judged_are_hollow() -> None:
    """A flagged bar differs by more than colour, and the legend says why."""
    chart = bars(one_bar(Value(1.0, valid=False, note="host_noise")))
    (mark,) = chart.wide.marks
    assert isinstance(mark.shapes[0], Rect)
    assert mark.shapes[0].kind == "bar hollow"
    assert "flagged, or too few launches: not judged" in [key.label for key in chart.legend]


def test_too_many_bars_are_counted() -> None:
    """What is not drawn is said, and is in the table."""
    many = tuple(Bar(f"b{i}", "s", Value(1.0)) for i in range(ROWS + 20))
    chart = bars(Bars(ABOUT, PLAIN, (BarGroup("", many),)))
    assert chart.notes == ("20 of 100 bars are not drawn; the table has them.",)
    assert len(chart.table.rows) == 100


# Lines


def two(*values: Value, **more: object) -> Lines:
    points = tuple(Point(float(10**i), value) for i, value in enumerate(values))
    return Lines(ABOUT, USERS, PLAIN, (Series("a", points),), **more)  # type: ignore[arg-type]


def test_lines_stand_where_arithmetic_puts_them() -> None:
    """0 to 106 on 272 px: 50 is 128.3 px above the bottom at 296; logarithmic: in the middle."""
    assert lines(two(Value(100.0), Value(50.0))).wide.marks[1].y == 167.7
    log = lines(two(Value(0.001), Value(0.01), Value(0.1), log_y=True)).wide
    assert [mark.y for mark in log.marks][1] == 160.0
    sideways = lines(two(Value(1.0), Value(1.0), Value(1.0), log_x=True)).wide
    first, middle, last = (mark.x for mark in sideways.marks)
    assert middle == pytest.approx((first + last) / 2, abs=0.1)


def test_a_line_is_interrupted_where_a_figure_is_missing() -> None:
    """A failed point is a cross on the axis, not a value, and nothing is drawn through it."""
    good, failed = Value(100.0), Value(None, note="failed: not_ready")
    drawing = lines(two(good, good, failed, good, good)).wide
    paths = [s for s in drawing.shapes if getattr(s, "kind", "").startswith("line ")]
    assert len(paths) == 2
    assert drawing.marks[2].kind == "gap"
    assert drawing.marks[2].y == 296.0
    assert drawing.marks[2].say == "a, 100 users: no figure: failed: not_ready"


def test_dashes_tell_variants_and_colours_tell_series() -> None:
    """Percentiles of one stack share its colour; the same percentile shares the dash."""
    point = (Point(1.0, Value(1.0)), Point(2.0, Value(2.0)))
    every = tuple(
        Series(stack, point, variant)
        for stack in ("pydantic-v1", "pydantic-v2")
        for variant in ("p50", "p99")
    )
    chart = percentiles(ABOUT, USERS, TIME, every)
    kinds = [key.kind for key in chart.legend]
    assert kinds == [
        "s-purple d-solid", "s-purple d-dash", "s-green d-solid", "s-green d-dash",
    ]  # fmt: skip
    assert [key.label for key in chart.legend][:2] == ["pydantic-v1 p50", "pydantic-v1 p99"]


def test_labels_of_points_do_not_lie_on_each_other() -> None:
    """Of two loads at one place, one label is left to the pointer and the table."""
    same = tuple(Point(10.0, Value(1.0), f"c{2**i}") for i in range(8))
    chart = curve(ABOUT, RATE, TIME, (Series("a", same),))
    shown = [s for s in chart.wide.shapes if isinstance(s, Text) and s.kind == "note"]
    assert 0 < len(shown) <= 4
    assert "c128" in words(parsed(chart))


def test_a_shared_ceiling_is_drawn_once() -> None:
    """Two interpreters under one ceiling have one line above them."""

    def points(mean: float) -> tuple[Point, ...]:
        return tuple(Point(float(t), Value(mean * t, ceiling=100.0 * t)) for t in (1, 8, 64))

    chart = sweep(ABOUT, USERS, PLAIN, (Series("3.14", points(90)), Series("3.14t", points(80))))
    assert len([s for s in chart.wide.shapes if getattr(s, "kind", "") == "ceiling"]) == 1


def test_too_many_points_are_thinned_and_counted() -> None:
    """No drawing has more marks than can be told apart."""
    long = tuple(Point(float(i), Value(1.0 + i)) for i in range(2000))
    chart = lines(Lines(ABOUT, USERS, PLAIN, (Series("a", long), Series("b", long[:10]))))
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
    """Shade is never alone; what is not declared is empty, what failed says so."""
    cells = ((Value(28_898.0, published=30_000.0), None), (Value(None, note="failed"), Value(5.0)))
    chart = heat(Heat(ABOUT, RATE, "workers", "threads", ("1", "2"), ("1", "2"), cells))
    shown = [s.text for s in shapes_of(chart.wide) if isinstance(s, Text)]
    assert {"28,898/s", "(30,000/s)", "no figure", "5.00/s"} <= set(shown)
    assert len(chart.wide.marks) == 3
    assert chart.wide.marks[0].say == ("1 workers, 1 threads: 28,898/s, published 30,000/s")


# Forest plots


def test_a_ratio_stands_where_arithmetic_puts_it() -> None:
    """±3.45 % on 342 px: +2 % is at 8 + 342 × 5.45 / 6.9 = 278.1."""
    effect = Effect("a", Value(1.02, 1.01, 1.03), Verdict.SLOWER, "▼ slower")
    chart = forest(Forest(ABOUT, (effect,)))
    (mark,) = chart.narrow.marks
    assert (mark.x, mark.y, mark.kind) == (278.1, 50.0, "worse")
    assert mark.say == "a: ▼ slower +2.00 % (+1.00…+3.00 %)"
    assert chart.table.rows == (("a", "▼ slower", "+2.00 %", "+1.00…+3.00 %"),)


def test_rows_without_a_ratio_are_counted_and_listed() -> None:
    """Not comparable is not 'no change'."""
    effect = Effect("a", Value(None, note="head: wrong_body"), Verdict.NOT_COMPARABLE, "✕ not")
    chart = forest(Forest(ABOUT, (effect,)))
    assert chart.notes == ("1 without a ratio: the table says why.",)
    assert "head: wrong_body" in words(parsed(chart))


# Trends


def test_a_trend_stands_where_arithmetic_puts_it() -> None:
    """10 to 20 with 6 % to each side on 252 px: 10 is at 262.5, 20 at 37.5."""
    chart = trend(days(*(Value(figure) for figure in (10.0, 10.0, 10.0, 20.0, 20.0))))
    assert [mark.y for mark in chart.wide.marks] == [262.5, 262.5, 262.5, 37.5, 37.5]
    xs = [mark.x for mark in chart.wide.marks]
    assert xs[2] == pytest.approx((xs[0] + xs[4]) / 2, abs=0.1)
    assert chart.notes == ("The upright axis does not begin at zero.",)


def test_gaps_and_flags_are_not_part_of_the_line() -> None:
    """A run without figures interrupts the line; a flagged figure is hollow, and beside it."""
    good, flagged = Value(10.0), Value(11.0, valid=False, note="host_noise")
    chart = trend(days(good, good, Value(None, note="failed: not_ready"), good, flagged, good))
    paths = [s for s in chart.wide.shapes if getattr(s, "kind", "") == "line trend-line"]
    assert len(paths) == 2
    assert [mark.kind for mark in chart.wide.marks] == ["", "", "gap", "", "flagged", ""]
    assert chart.wide.marks[2].say == "2026-01-03: no figure: failed: not_ready"
    assert chart.wide.marks[4].say == "2026-01-05: 11.0, not judged, host_noise"


def test_nothing_is_joined_or_merged_across_a_break() -> None:
    """Another machine begins another line, and another ribbon."""
    cut = Event(START + timedelta(days=2), "machine m1 → m2")
    line = timeline.make(days(*(Value(10.0),) * 2, *(Value(50.0),) * 3, breaks=(cut,), noise=0.1))
    assert [[each.mean for each in run] for run in line.lines] == [[10, 10], [50, 50, 50]]
    assert [(ribbon.low, ribbon.high) for ribbon in line.ribbons] == [
        pytest.approx((9, 11)), pytest.approx((45, 55)),
    ]  # fmt: skip


def test_no_mark_mixes_both_sides_of_a_change_point() -> None:
    """A median over a jump would be a figure that neither side had."""
    at = START + timedelta(days=33)
    level = [Value(10.0)] * 33 + [Value(20.0)] * 33
    change = Change(at, Verdict.SLOWER, Value(2.0))
    line = timeline.make(days(*level, changes=(change,), most=6))
    assert {(each.low, each.high) for each in line.bins} == {(10, 10), (20, 20)}
    assert [each.size for each in line.bins] == [11] * 6


def test_a_long_silence_interrupts_the_line() -> None:
    """Where no run was even tried for weeks, nothing is drawn through."""
    first = days(*(Value(10.0),) * 5)
    later = tuple(
        TrendPoint(START + timedelta(days=40 + day), f"later{day}", Value(10.0)) for day in range(5)
    )
    line = timeline.make(Trend(ABOUT, PLAIN, first.points + later))
    assert [len(run) for run in line.lines] == [5, 5]


def test_change_points_are_said_in_words_with_mark_and_cause() -> None:
    """Verdict, size, interval and the release stand in the picture, the legend and the table."""
    change = Change(
        START + timedelta(days=1), Verdict.SLOWER, Value(1.032, 1.021, 1.043), "granian 2.8.7"
    )
    chart = trend(days(Value(10.0), Value(10.3), changes=(change,)))
    (mark,) = (mark for mark in chart.wide.marks if mark.series == 1)
    assert mark.say == "2026-01-02: ▼ slower +3.20 % (+2.10 % to +4.30 %), granian 2.8.7"
    assert mark.kind == "change-mark worse"
    assert chart.table.rows[0][-1] == "▼ slower +3.20 % (+2.10 % to +4.30 %), granian 2.8.7"
    assert "▼ slower from here on" in [key.label for key in chart.legend]


def test_two_figures_share_a_mark_in_their_middle() -> None:
    """100 and 110 at 105, 94 and 90 at 92, neither of them on the lower one; the legend says so."""
    bare = days(*(Value(mean) for mean in (100.0, 110.0, 94.0, 90.0)), most=2)
    line = timeline.make(bare)
    assert [(each.mean, each.low, each.high) for each in line.bins] == [
        (105, 100, 110), (92, 90, 94),
    ]  # fmt: skip
    chart = trend(bare)
    assert chart.wide.marks[0].say.endswith("median of 2 runs 105")
    assert chart.legend[0].label == "lowest to highest of the figures that share a mark"
    assert chart.notes[0].endswith("the band spans all of these figures.")
    wide = trend(days(*(Value(mean, mean - 1, mean + 1) for mean in (100.0, 110.0)), most=1))
    assert wide.legend[0].label.startswith("lowest to highest of the 95 % intervals")
    alone = trend(days(*(Value(mean, mean - 1, mean + 1) for mean in (100.0, 110.0)), most=2))
    assert alone.legend[0].label == "95 % interval over launches"


def test_five_years_are_drawn_within_the_limit_and_all_are_counted() -> None:
    """Every night is in a mark: medians of neighbours, and bands that span all of them."""
    nights = [
        Value(None, note="no run") if day % 31 == 0
        else Value(100.0 + day % 7, 90.0, 120.0, valid=day % 29 != 0, note="")
        for day in range(1826)
    ]  # fmt: skip
    every = [START + timedelta(days=day) for day in range(1826)]
    data = days(
        *nights,
        bumps=tuple(Event(at, "fastapi 0.1") for at in every),
        breaks=tuple(Event(at, "machine") for at in every[::20]),
        changes=tuple(Change(at, Verdict.FASTER, Value(0.9)) for at in every[::10]),
        most=130,
    )
    line = timeline.make(data)
    assert sum(each.size for each in line.bins) == line.figures
    assert sum(map(len, line.gaps)) == 59  # 1826 / 31 = 58.9
    assert sum(map(len, line.bumps)) == 1826
    assert all(each.low == 90 and each.high == 120 for each in line.bins)
    chart = trend(data)
    assert len(chart.wide.marks) <= MARKS
    assert f"{line.figures} figures in {len(line.bins)} marks" in chart.notes[0]
    assert chart.table.hidden == 1826 - figure.ROWS


# All charts


def every_chart(name: str = "a", note: str = "b") -> list[Chart]:
    """One of each kind, with the text wherever text goes."""
    about = About("x", name, note)
    quantity = Quantity(name, units.plain)
    value, failed = Value(2.0, 1.9, 2.1, 3.0, 4.0, note=note), Value(None, note=name)
    effect = Effect(name, Value(1.1, 1.05, 1.2, note=note), Verdict.SLOWER, note)
    points = (Point(1.0, value, name), Point(2.0, failed, note), Point(3.0, value))
    cell = Heat(about, quantity, name, note, (name, note), (note,), ((value,), (failed,)))
    when = Event(START, name)
    moved = Change(START, Verdict.SLOWER, Value(1.1), name)
    history = tuple(TrendPoint(START + timedelta(days=d), name, value) for d in range(3))
    return [
        bars(Bars(about, quantity, (BarGroup(name, (Bar(name, note, value),
                                                    Bar(note, name, failed))),))),
        lines(Lines(about, quantity, quantity, (Series(name, points, note), Series(note, points)))),
        heat(cell),
        forest(Forest(about, (effect,))),
        trend(Trend(about, quantity, history, (moved,), (when,), (when,), 0.01)),
    ]  # fmt: skip


@pytest.mark.parametrize("hostile", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_strings_are_text(hostile: str) -> None:
    """Whatever a run file says, it adds no element and no attribute; it is shown."""
    plain = every_chart("a", "b")
    for chart, tame in zip(every_chart(hostile, hostile[::-1]), plain, strict=True):
        tree = parsed(chart)
        assert {element.tag for element in tree.iter()} == {e.tag for e in parsed(tame).iter()}
        names = {name for element in tree.iter() for name in element.attrib}
        assert names <= {name for element in parsed(tame).iter() for name in element.attrib}
        assert " ".join(text.clean(hostile).split()) in words(tree)


@pytest.mark.parametrize(
    "chart",
    [
        bars(Bars(ABOUT, PLAIN, ())),
        lines(Lines(ABOUT, USERS, PLAIN, ())),
        lines(two(Value(0.0), log_y=True)),
        lines(two(Value(None, note="failed"))),
        heat(Heat(ABOUT, PLAIN, "r", "c", (), (), ())),
        forest(Forest(ABOUT, ())),
        trend(days()),
        trend(days(Value(None, note="failed"))),
    ],
)
def test_nothing_to_draw_is_said(chart: Chart) -> None:
    """An empty history is a sentence, not an empty picture or an error."""
    assert [shape for shape in chart.wide.shapes if isinstance(shape, Text)]
    assert not chart.wide.marks
    parsed(chart)


@pytest.mark.parametrize("value", [Value(0.0), Value(1.0), Value(1.0, 1.0, 1.0), Value(1e12)])
def test_one_point_is_drawn(value: Value) -> None:
    """A history begins with one figure, and that may be nought."""
    cell = Heat(ABOUT, PLAIN, "r", "c", ("1",), ("1",), ((value,),))
    for chart in (bars(one_bar(value)), lines(two(value)), heat(cell), trend(days(value))):
        assert len(chart.wide.marks) == len(chart.narrow.marks) == 1
        parsed(chart)


def test_a_figure_can_be_read_without_seeing_it() -> None:
    """Caption, label, focus, a sentence per mark with its place, and the data as a table."""
    for chart in every_chart("name", "note"):
        tree = parsed(chart)
        assert tree.get("tabindex") == "0"
        caption = tree.find("figcaption")
        assert caption is not None
        assert caption.get("id") == tree.get("aria-labelledby")
        drawings = [e for e in tree.iter(f"{SVG}svg") if e.get("role") == "img"]
        assert [svg.get("aria-label") for svg in drawings] == ["name", "name"]
        marks = [e for e in tree.iter(f"{SVG}g") if "mark" in (e.get("class") or "")]
        assert marks
        for mark in marks:
            assert mark.findtext(f"{SVG}title")
            assert {"data-series", "data-point", "data-x", "data-y"} <= set(mark.attrib)
        assert tree.find("details//table//th[@scope='row']") is not None


def test_marks_and_texts_lie_within_their_drawing() -> None:
    """Nothing is cut off at the right, on wide pages and on narrow ones."""
    for chart in every_chart("asgi-wsgi/asgi-json/py3.14t/w2/c256", "granian"):
        for drawing in (chart.wide, chart.narrow):
            for shape in shapes_of(drawing):
                if isinstance(shape, Text):
                    wide = text.width(shape.text)
                    left = shape.x - {"start": 0, "middle": wide / 2, "end": wide}[shape.anchor]
                    assert left >= -1, shape
                    assert left + wide <= drawing.width + 1, shape
                    assert 0 <= shape.y <= drawing.height
            for mark in drawing.marks:
                assert 0 <= mark.x <= drawing.width
                assert 0 <= mark.y <= drawing.height


def test_a_drawing_with_too_many_marks_is_refused() -> None:
    """The limit holds for charts that are yet to be written."""
    mark = Mark("x", 0, 0, 0.0, 0.0, ())
    with pytest.raises(ValueError, match="501 marks"):
        Drawing(10.0, 10.0, (mark,) * 501)


def test_a_sparkline_shows_the_last_value_and_gaps() -> None:
    """Word-sized: a line, interrupted where a value is missing, and a dot at its end."""
    tree = ET.fromstring(spark("throughput, 5 runs", [1.0, 2.0, None, 2.0, 3.0], "worse"))
    assert tree.get("aria-label") == "throughput, 5 runs"
    assert len([e for e in tree if e.get("class") == "line"]) == 2
    (dot,) = (e for e in tree if "dot" in (e.get("class") or ""))
    # The last of five is at the right edge, the largest at the top: (116, 4).
    assert dot.get("d") == symbol("circle", 116, 4, 3)
    assert "<path" not in spark("nothing yet", [None])
    assert len(spark("many", [float(i % 9) for i in range(5000)])) < 3000


# Styles


def test_series_look_the_same_on_every_page_and_differ_within_one() -> None:
    """Colour is bound to the name; ten series have ten looks, the first five by colour."""
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
    pairs = re.findall(r"([\w.\s-]+)[:{](?:\s*fill:)?\s*light-dark\((#\w{6}), (#\w{6})\)", css)
    found = {name.strip(): shades[theme] for name, *shades in pairs}
    paper = found["--paper"]
    for name, colour in found.items():
        if name.startswith("--s-"):
            assert _contrast(colour, paper) >= 3, name
    for name in ("--ink", "--faint", "--worse", "--better", "--open"):
        assert _contrast(found[name], paper) >= 4.5, name
    steps = [colour for name, colour in found.items() if "rect.h" in name]
    assert len(steps) == 7
    ink, reverse = found["--ink"], ("#ffffff", "#0d1013")[theme]
    for step, colour in enumerate(steps):
        assert _contrast(colour, ink if step < 4 else reverse) >= 4.5, step


def test_every_class_that_charts_use_has_a_rule() -> None:
    """A shape without a rule would be black on black."""
    css = figure.stylesheet()
    neutral = {"mark", "wide", "label", "cell", "change-mark", "break-mark", "bump-mark", "number"}
    neutral |= {f"m-{marker}" for marker in ("circle", "square", "triangle", "hourglass", "wedge")}
    neutral |= {"d-solid", "chart-plot", "dot", "flagged"}
    neutral |= {f"chart-{kind}" for kind in ("bars", "lines", "heat", "forest", "trend")}
    for chart in every_chart():
        for element in parsed(chart).iter():
            for name in (element.get("class") or "").split():
                assert name in neutral or re.search(rf"\.{name}\b", css), name
