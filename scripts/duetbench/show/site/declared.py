"""The charts that experiments and suites declare, from a run's cases or a commit's benchmarks."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from markupsafe import Markup

from duetbench.core import units
from duetbench.core.errors import DISTURBING
from duetbench.core.metrics import METRICS
from duetbench.core.units import Interval, count
from duetbench.project.published import (
    KEYS,
    BarsLayout,
    ChartLayout,
    LinesLayout,
    Published,
    SuiteDeclaration,
)
from duetbench.show import addresses
from duetbench.show.inprocess import plural
from duetbench.show.page import Section, ordered, select
from duetbench.show.site.charts import (
    Caption,
    Dot,
    PlotPoint,
    Quantity,
    Value,
    forest,
    plot,
)
from duetbench.trend.summary import ENOUGH_LAUNCHES, CaseSummary

Shown = tuple[str, Value]
"""Where a case's page is, and its figure."""


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


def draw(
    cases: Iterable[CaseSummary], layout: ChartLayout, published: Published | None, root: str
) -> Markup | None:
    """Draw a chart; None if its cases have no figure."""
    chosen = select(cases, layout.select, layout.but_not)
    if not any(metric in case.metrics for case in chosen for metric in layout.figures):
        return None

    def shown(case: CaseSummary, metric: str) -> Shown:
        return root + addresses.case(case.id), value_of(case, metric, published)

    caption = Caption(layout.name, layout.title, layout.caption)
    if isinstance(layout, BarsLayout):
        return _forest(chosen, layout, caption, shown)
    return _lines(chosen, layout, caption, shown)


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


def _forest(
    cases: Sequence[CaseSummary],
    layout: BarsLayout,
    caption: Caption,
    shown: Callable[[CaseSummary, str], Shown],
) -> Markup:
    names = [_words(case, (*layout.group, *layout.keys)) for case in cases]
    # Rows with the same words would be taken for repetitions.
    keys = layout.keys if len(set(names)) == len(names) else (*layout.keys, "id")
    groups: dict[str, list[Dot]] = {}
    for case in ordered(cases, (*layout.group, *keys)):
        series = KEYS[layout.series].text(case.case) if layout.series else ""
        href, value = shown(case, layout.metric)
        dot = Dot(_words(case, keys), value, series, href)
        groups.setdefault(_words(case, layout.group), []).append(dot)
    return forest(caption, Quantity.of(layout.metric), groups)


def _lines(
    cases: Sequence[CaseSummary],
    layout: LinesLayout,
    caption: Caption,
    shown: Callable[[CaseSummary, str], Shown],
) -> Markup:
    varied = KEYS[layout.x]
    lines: dict[tuple[str, str], list[PlotPoint]] = {}
    for case in ordered(cases, (*layout.series, layout.x)):
        x = varied.of(case.case)
        if not isinstance(x, int | float):
            continue  # the server was not told how many: there is no place on the axis for it
        for metric in layout.metrics:
            href, value = shown(case, metric)
            point = PlotPoint(float(x), value, href=href)
            short = metric.removeprefix("service_").removeprefix("response_")
            variant = METRICS[metric].title if short == metric else short.replace("p999", "p99.9")
            variant = variant if len(layout.metrics) > 1 else ""
            lines.setdefault((_words(case, layout.series), variant), []).append(point)
    row = METRICS[layout.metrics[0]]
    return plot(
        caption,
        Quantity(varied.title, count),
        Quantity(layout.unit, row.format, row.format.name),
        lines,
        log=layout.log,
    )


def speed_up_charts(section: Section, suite: SuiteDeclaration, asv: str) -> Iterator[Markup]:
    """One chart for each table that has a speed-up; `asv`: where asv's own pages are."""
    layouts = {layout.title: layout for layout in suite.tables}
    for table in section.tables:
        layout = layouts[table.title]
        groups: dict[str, list[Dot]] = {}
        for row in table.rows:
            *where, variant = map(plural, row.keys, table.keys)
            for bar in (cell.bar for cell in row.cells if cell.bar):
                python, gain, ceiling, published = bar
                if row.keys[-1] != layout.base:
                    note = "" if gain else "failed or not measured"
                    figure = Interval(gain) if gain else None
                    value = Value(figure, ceiling=ceiling, published=published, note=note)
                    dot = Dot(f"{variant}, {python}", value, python, f"{asv}#{layout.benchmark}")
                    groups.setdefault(", ".join(where), []).append(dot)
        if not any(dot.value.note == "" for dots in groups.values() for dot in dots):
            continue
        base = plural(layout.base or "", layout.variant or "")
        caption = f"That of {base} is 1."
        if layout.best:
            caption += " The ceiling is what the cores, or the slowest wait, allow."
        yield forest(
            Caption(f"speed-up-{layout.name}", table.title, caption),
            Quantity(f"times as fast as {base}", units.plain),
            {
                title: sorted(dots, key=lambda dot: (dot.label, dot.series))
                for title, dots in sorted(groups.items(), key=lambda entry: len(entry[0]))
            },
        )
