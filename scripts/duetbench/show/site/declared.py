"""The charts that experiments and suites declare, from a run's cases or a commit's benchmarks."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from duetbench.core import units
from duetbench.core.errors import DISTURBING
from duetbench.core.metrics import METRICS
from duetbench.core.units import Interval, count
from duetbench.project.published import (
    KEYS,
    BarsLayout,
    ChartLayout,
    CurveLayout,
    LinesLayout,
    Published,
)
from duetbench.project.suites import SuiteDeclaration
from duetbench.show.inprocess import SpeedUp, plural, speed_ups
from duetbench.show.page import ordered, select
from duetbench.show.site.charts import (
    Caption,
    Dot,
    PlotPoint,
    Quantity,
    Value,
    forest,
    plot,
)
from duetbench.store.asv_results import Snapshot
from duetbench.trend.summary import ENOUGH_LAUNCHES, CaseSummary

Address = Callable[[str], str]
"""From a case's id to where its page is."""


@dataclass(frozen=True, slots=True)
class ChartCases:
    """The cases of one run that charts are drawn from.

    Attributes:
        source: Which run it is, for the captions.
    """

    cases: Sequence[CaseSummary]
    published: Published | None
    address: Address
    source: str

    def value(self, case: CaseSummary, metric: str) -> Value:
        """One figure with everything that stands beside it."""
        return value_of(case, metric, self.published)

    def about(self, layout: ChartLayout) -> Caption:
        """Name, title, and how to read it."""
        caption = " ".join(filter(None, (layout.caption, self.source)))
        return Caption(layout.name, layout.title, caption)


def value_of(case: CaseSummary, metric: str, published: Published | None = None) -> Value:
    """The figure of one metric, with its ceiling and the published figure beside it.

    It may not be judged where there are too few launches for an interval, or where at least half of
    them measured something else besides; the other warnings are named only.
    """
    estimate = case.metrics.get(metric)
    theirs = published.figure(case.id, metric) if published else None
    if estimate is None:
        reasons = dict.fromkeys(failure.reason for failure in case.failures)
        why = "; ".join((case.status, *reasons))
        none = f"no {metric} was recorded"
        return Value(None, published=theirs, note=none if case.status == "measured" else why)
    ceiling = case.metrics.get("ceiling") if metric in {"throughput", "achieved"} else None
    disturbed = any(
        flag.name in DISTURBING and 2 * flag.launches >= case.measured for flag in case.warnings
    )
    return Value(
        estimate,
        ceiling=ceiling.estimate if ceiling else None,
        published=theirs,
        valid=not disturbed and case.measured >= ENOUGH_LAUNCHES,
        note=", ".join(flag.name for flag in case.warnings),
    )


def figures(run: ChartCases, layout: ChartLayout) -> int:
    """How many figures a chart would have of these cases."""
    return sum(metric in case.metrics for case in _chosen(run, layout) for metric in layout.figures)


def draw(run: ChartCases, layout: ChartLayout) -> Markup | None:
    """Draw a chart; None if its cases have no figure."""
    if not figures(run, layout):
        return None
    if isinstance(layout, BarsLayout):
        return _forest(run, layout)
    return _lines(run, layout) if isinstance(layout, LinesLayout) else _curve(run, layout)


def default_layout(cases: Sequence[CaseSummary]) -> BarsLayout:
    """The chart of an experiment that declares none: requests per second of all cases."""
    return BarsLayout(
        kind="bars",
        name="throughput",
        title=METRICS["throughput"].title.capitalize(),
        select=("*",),
        metric="throughput",
        keys=("id",),
        series="python" if len({case.case.python for case in cases}) > 1 else None,
    )


def _chosen(run: ChartCases, layout: ChartLayout) -> list[CaseSummary]:
    return select(run.cases, layout.select, layout.but_not)


def _words(case: CaseSummary, keys: Sequence[str]) -> str:
    """`3.14t, 2 workers`: numbers need to be told what they count."""
    parts = []
    for key in keys:
        value = KEYS[key].of(case.case)
        text = KEYS[key].text(case.case)
        if isinstance(value, int):
            title = KEYS[key].title
            text = f"{text} {title.removesuffix('s') if value == 1 else title}"
        parts.append(text)
    return ", ".join(parts)


def _forest(run: ChartCases, layout: BarsLayout) -> Markup:
    cases = _chosen(run, layout)
    names = [_words(case, (*layout.group, *layout.keys)) for case in cases]
    # Rows with the same words would be taken for repetitions.
    keys = layout.keys if len(set(names)) == len(names) else (*layout.keys, "id")
    groups: dict[str, list[Dot]] = {}
    for case in ordered(cases, (*layout.group, *keys)):
        series = KEYS[layout.series].text(case.case) if layout.series else ""
        value = run.value(case, layout.metric)
        dot = Dot(_words(case, keys), value, series, run.address(case.id))
        groups.setdefault(_words(case, layout.group), []).append(dot)
    return forest(run.about(layout), Quantity.of(layout.metric), groups)


def _lines(run: ChartCases, layout: LinesLayout) -> Markup:
    varied = KEYS[layout.x]
    lines: dict[tuple[str, str], list[PlotPoint]] = {}
    for case in ordered(_chosen(run, layout), (*layout.series, layout.x)):
        x = varied.of(case.case)
        if not isinstance(x, int | float):
            continue  # the server was not told how many: there is no place on the axis for it
        for metric in layout.metrics:
            point = PlotPoint(float(x), run.value(case, metric), href=run.address(case.id))
            short = metric.removeprefix("service_").removeprefix("response_")
            variant = METRICS[metric].title if short == metric else short.replace("p999", "p99.9")
            variant = variant if len(layout.metrics) > 1 else ""
            lines.setdefault((_words(case, layout.series), variant), []).append(point)
    row = METRICS[layout.metrics[0]]
    return plot(
        run.about(layout),
        Quantity(varied.title, count),
        Quantity(layout.unit, row.format, row.format.name),
        lines,
        # Percentiles: a tail is many times a median. Sweeps: what is varied is doubled.
        log=layout.kind == "percentiles" or layout.log,
    )


def _curve(run: ChartCases, layout: CurveLayout) -> Markup:
    lines: dict[tuple[str, str], list[PlotPoint]] = {}
    for case in ordered(_chosen(run, layout), (*layout.series, layout.label)):
        across = case.metrics.get(layout.x)
        if across is None:
            continue  # a case without throughput has no place in the plane; the table above has it
        point = PlotPoint(
            across.estimate,
            run.value(case, layout.y),
            _words(case, (layout.label,)),
            run.address(case.id),
        )
        lines.setdefault((_words(case, layout.series), ""), []).append(point)
    axes = Quantity.of(layout.x), Quantity.of(layout.y)
    return plot(run.about(layout), *axes, lines, log=True)


def speed_up_charts(snapshot: Snapshot, suite: SuiteDeclaration, asv: str) -> Iterator[Markup]:
    """One chart for each table that has a speed-up; `asv`: where asv's own pages are."""
    for table in suite.tables:
        ratios = [
            ratio for ratio in speed_ups(snapshot, suite, table) if ratio.variant != table.base
        ]
        if all(ratio.gain is None for ratio in ratios):
            continue
        groups: dict[str, list[Dot]] = {}
        for ratio in ratios:
            groups.setdefault(ratio.title, []).append(
                _speed_up_dot(ratio, table.variant or "", asv)
            )
        base = plural(table.base or "", table.variant or "")
        caption = f"That of {base} is 1."
        if table.best:
            caption += " The ceiling is what the cores, or the slowest wait, allow."
        yield forest(
            Caption(f"speed-up-{table.name}", table.title, caption),
            Quantity(f"times as fast as {base}", units.plain),
            {
                title: sorted(dots, key=lambda dot: (dot.label, dot.series))
                for title, dots in sorted(groups.items(), key=lambda entry: len(entry[0]))
            },
        )


def _speed_up_dot(ratio: SpeedUp, variant: str, asv: str) -> Dot:
    published = next((gain for _, gain in ratio.published if gain), None)
    if ratio.gain is None:
        failed = ratio.reading is not None and ratio.reading.status == "failed"
        note = "failed" if failed else "not measured"
        value = Value(None, published=published, note=note)
    else:
        value = Value(Interval(ratio.gain), ceiling=ratio.ceiling, published=published)
    name = plural(ratio.variant, variant)
    href = f"{asv}#{ratio.reading.benchmark}" if ratio.reading else ""
    return Dot(f"{name}, {ratio.python}", value, ratio.python, href)
