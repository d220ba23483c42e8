"""The experiments: a list of them, and for each its question, answers, charts and tables."""

from collections.abc import Iterator, Sequence
from typing import Any

from markupsafe import Markup

from duetbench.core import units
from duetbench.core.errors import DISTURBING
from duetbench.core.metrics import METRICS
from duetbench.core.units import Interval, count
from duetbench.project import names
from duetbench.project.published import (
    KEYS,
    SHARED_PAGE,
    BarsLayout,
    ChartLayout,
    LinesLayout,
    Published,
    SuiteDeclaration,
)
from duetbench.show import addresses, inprocess
from duetbench.show.claims import ANSWERED, Answer, Evidence, tally
from duetbench.show.inprocess import plural
from duetbench.show.page import Section, answer_table, facts, ordered, select
from duetbench.show.site import words
from duetbench.show.site.charts import (
    Caption,
    Dot,
    PlotPoint,
    Quantity,
    Value,
    forest,
    plot,
)
from duetbench.show.site.pages.site import PageFile, Site, render
from duetbench.store.change import INPROCESS
from duetbench.trend.summary import ENOUGH_LAUNCHES, CaseSummary

_SHARED_QUESTION = "What does a request take inside the process?"


def pages(site: Site) -> Iterator[PageFile]:
    """The list, and one page for each experiment."""
    yield render(
        site,
        "experiments.html.j2",
        addresses.EXPERIMENTS,
        "Experiments",
        "Questions about the Python web stack, each with its answer and figures.",
        questions=questions(site),
    )
    for name in _names(site):
        yield _page(site, name)


def questions(site: Site) -> Iterator[dict[str, Any]]:
    """Every experiment with its question, its first answer, and how many statements hold."""
    for name in _names(site):
        _, sections = content(site, name)
        answers = answers_of(sections)
        yield {
            "name": name,
            "question": _question(name, sections),
            "answer": next((answer for answer in answers if answer.verdict in ANSWERED), None),
            "tally": tally(answers),
        }


def content(site: Site, name: str) -> tuple[Evidence, tuple[Section, ...]]:
    """All that is known of an experiment."""
    return inprocess.experiment(name, site.newest, site.snapshots, site.published, site.suites)


def answers_of(sections: Sequence[Section]) -> tuple[Answer, ...]:
    """All answers of an experiment."""
    return tuple(answer for section in sections for answer in section.answers)


def _names(site: Site) -> tuple[str, ...]:
    inside = site.snapshots or any(case.startswith(INPROCESS) for case in site.planned)
    return (*site.experiments(), *([SHARED_PAGE] if inside else []))


def _question(name: str, sections: Sequence[Section]) -> str:
    return _SHARED_QUESTION if name == SHARED_PAGE else sections[0].question if sections else ""


def _page(site: Site, name: str) -> PageFile:
    address = addresses.experiment(name)
    evidence, sections = content(site, name)
    published = site.published.get(name)
    question, answers = _question(name, sections), answers_of(sections)
    suites = [suite.suite for suite in site.suites if suite.page == name]
    commands = [f"duetbench inprocess --select '{suite}.*'" for suite in suites]
    if published or evidence.cases:
        profile = evidence.runs[0].run.profile if evidence.runs else "nightly"
        commands.insert(0, words.experiment_command(name, profile))
    return render(
        site,
        "experiment.html.j2",
        address,
        names.experiment(name),
        question or f"Figures of the experiment {name}.",
        name=name,
        question=question,
        answers=answer_table(answers),
        tally=tally(answers),
        sections=sections,
        charts=list(charts(site, name, addresses.root(addresses.file(address)))),
        article_url=published.url if published else "",
        source=published.source if published else "",
        runs=[(run.run.id, facts(run)) for run in evidence.runs],
        commands=commands,
        has_cases=any(case.partition("/")[0] == name for case in site.planned),
    )


def charts(site: Site, name: str, root: str) -> Iterator[Markup]:
    """The declared charts, and those of speed-ups."""
    evidence, sections = content(site, name)
    published = site.published.get(name)
    for layout in published.charts if published else ():
        if chart := draw(layout, tuple(evidence.cases.values()), published, root):
            yield chart
    suites = {suite.title: suite for suite in site.suites if suite.page == name}
    for section in (section for section in sections if section.experiment in suites):
        yield from speed_up_charts(section, suites[section.experiment], root + addresses.ASV)


def value_of(case: CaseSummary, metric: str, published: Published | None = None) -> Value:
    """The figure of one metric, with its ceiling and the published figure beside it.

    It may not be judged where there are too few launches for an interval, or where at least half of
    them measured something else besides; the other warnings are named only.
    """
    estimate = case.metrics.get(metric)
    theirs = published.figures_of(case.id).get(metric) if published else None
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
    layout: ChartLayout, cases: Sequence[CaseSummary], published: Published | None, root: str
) -> Markup | None:
    """Draw a chart; None if its cases have no figure."""
    chosen = select(cases, layout.select)
    if not any(metric in case.metrics for case in chosen for metric in layout.figures):
        return None
    caption = Caption(layout.name, layout.title, layout.caption)
    if isinstance(layout, BarsLayout):
        return _bars(caption, layout, chosen, published, root)
    return _lines(caption, layout, chosen, published, root)


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


def _bars(
    caption: Caption,
    layout: BarsLayout,
    cases: Sequence[CaseSummary],
    published: Published | None,
    root: str,
) -> Markup:
    names = [_words(case, (*layout.group, *layout.keys)) for case in cases]
    # Rows with the same words would be taken for repetitions.
    keys = layout.keys if len(set(names)) == len(names) else (*layout.keys, "id")
    groups: dict[str, list[Dot]] = {}
    for case in ordered(cases, (*layout.group, *keys)):
        series = KEYS[layout.series].text(case.case) if layout.series else ""
        value = value_of(case, layout.metric, published)
        dot = Dot(_words(case, keys), value, series, root + addresses.case(case.id))
        groups.setdefault(_words(case, layout.group), []).append(dot)
    return forest(caption, Quantity.of(layout.metric), groups)


def _lines(
    caption: Caption,
    layout: LinesLayout,
    cases: Sequence[CaseSummary],
    published: Published | None,
    root: str,
) -> Markup:
    varied = KEYS[layout.x]
    lines: dict[tuple[str, str], list[PlotPoint]] = {}
    for case in ordered(cases, (*layout.series, layout.x)):
        x = varied.of(case.case)
        if not isinstance(x, int | float):
            continue  # the server was not told how many: there is no place on the axis for it
        for metric in layout.metrics:
            value = value_of(case, metric, published)
            point = PlotPoint(float(x), value, root + addresses.case(case.id))
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
