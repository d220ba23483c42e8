"""The experiments: a list of them, and for each its question, answers, charts and tables."""

import glob
import shlex
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from markupsafe import Markup

from duetbench.app import case_names
from duetbench.core.errors import DISTURBING
from duetbench.core.units import count
from duetbench.judge.summary import ENOUGH_LAUNCHES, CaseSummary
from duetbench.report.html.charts import Caption
from duetbench.report.run import facts
from observatory.matrix import titles
from observatory.matrix.layouts import KEYS
from observatory.matrix.published import SHARED_PAGE, ChartLayout, Published
from observatory.matrix.schema import PROFILES
from observatory.show import addresses, inprocess
from observatory.show.claims import Evidence, tally
from observatory.show.run_view import (
    ANSWERED,
    Answer,
    Section,
    answer_table,
    order_cases,
    select,
)
from observatory.show.site.pages.site import PageFile, Site, guard, render
from observatory.show.site.plots import FigureDot, PlotPoint, Quantity, Value, draw_figures, plot
from observatory.store.change import INPROCESS

_SHARED_QUESTION = "What does a request take inside the process?"


def pages(site: Site) -> Iterator[PageFile]:
    """Make the list, and one page for each experiment."""
    yield from guard(site, addresses.EXPERIMENTS, "Experiments", partial(_list, site))
    for name in _names(site):
        address = addresses.experiment(name)
        yield from guard(site, address, name, partial(_page, site, name))


def _list(site: Site) -> Iterator[PageFile]:
    yield render(
        site,
        "experiments.html.j2",
        addresses.EXPERIMENTS,
        "Experiments",
        "Questions about the Python web stack, each with its answer and figures.",
        questions=questions(site),
    )


def questions(site: Site) -> Iterator[dict[str, Any]]:
    """Return each experiment's question, first answer, and number of statements that hold."""
    for name in _names(site):
        _, sections = _content(site, name)
        answers = _answers(sections)
        yield {
            "name": name,
            "question": (question := _question(name, sections)),
            "first": _first(answers),
            "title": _title(name, question, answers),
            "tally": tally(answers),
        }


def _content(site: Site, name: str) -> tuple[Evidence, tuple[Section, ...]]:
    known = site.comparisons.values()
    return inprocess.experiment(
        name, site.newest, site.snapshots, site.published, site.suites, known
    )


def _answers(sections: Sequence[Section]) -> tuple[Answer, ...]:
    return tuple(answer for section in sections for answer in section.answers)


def _names(site: Site) -> tuple[str, ...]:
    inside = site.snapshots or any(case.startswith(INPROCESS) for case in site.planned)
    return (*site.experiments(), *([SHARED_PAGE] if inside else []))


def _question(name: str, sections: Sequence[Section]) -> str:
    return _SHARED_QUESTION if name == SHARED_PAGE else sections[0].question if sections else ""


def _first(answers: Sequence[Answer]) -> Answer | None:
    """Return what an experiment's page begins with: the first statement that holds here."""
    holding = (answer for answer in answers if answer.verdict == "holds")
    return next(holding, next((one for one in answers if one.verdict in ANSWERED), None))


def _title(name: str, question: str, answers: Sequence[Answer]) -> str:
    """Return the finding of an experiment; without one, what it is about."""
    if (first := _first(answers)) and first.verdict == "holds":
        return f"{first.statement[:1].upper()}{first.statement[1:]}"
    topic = titles.experiment(name)
    return (topic if topic != name else question) or name


def _page(site: Site, name: str) -> Iterator[PageFile]:
    address = addresses.experiment(name)
    root = addresses.root(addresses.file(address))
    evidence, sections = _content(site, name)
    published = site.published.get(name, Published())
    question, answers = _question(name, sections), _answers(sections)
    suites = [suite.suite for suite in site.suites if suite.page == name]
    commands = [f"observatory inprocess --select '{suite}.*'" for suite in suites]
    if name in site.published or evidence.cases:
        profile = evidence.runs[0].run.profile if evidence.runs else "nightly"
        profile = profile if profile in PROFILES else "nightly"
        select = f"{glob.escape(name)}/*"
        command = ("duetbench", "run", "--profile", profile, "--select", select)
        commands.insert(0, shlex.join(command))
    yield render(
        site,
        "experiment.html.j2",
        address,
        _title(name, question, answers),
        question or f"Figures of the experiment {name}.",
        name=name,
        question=question,
        answers=answer_table(answers, published=any(section.source for section in sections)),
        tally=tally(answers),
        first=_first(answers),
        sections=sections,
        charts=[
            chart
            for layout in published.charts
            if (chart := draw(layout, *of_one_day(evidence, layout), published, root))
        ],
        article_url=published.url,
        source=published.source,
        runs=[(run.run.id, facts(run)) for run in evidence.runs],
        compared=sorted({name for answer in answers for name in answer.comparisons}),
        commands=commands,
        has_cases=any(case.partition("/")[0] == name for case in site.planned),
    )


def value_of(case: CaseSummary, metric: str, published: float | None = None) -> Value:
    """Return the figure of one metric, with its ceiling and its published figure.

    It is not valid with too few launches for an interval, or if at least half of them were
    disturbed. Other warnings are only named.
    """
    estimate = case.metrics.get(metric)
    if estimate is None:
        reasons = dict.fromkeys(failure.reason for failure in case.failures)
        return Value(None, published=published, note="; ".join((case.status, *reasons)))
    ceiling = case.metrics.get("ceiling") if metric == "throughput" else None
    disturbed = any(
        flag.name in DISTURBING and 2 * flag.launches >= case.measured for flag in case.warnings
    )
    return Value(
        estimate,
        ceiling=ceiling.estimate if ceiling else None,
        published=published,
        valid=not disturbed and case.measured >= ENOUGH_LAUNCHES,
        note=", ".join(flag.name.replace("_", " ") for flag in case.warnings),
    )


def of_one_day(evidence: Evidence, layout: ChartLayout) -> tuple[str, list[CaseSummary]]:
    """Return the day whose runs have most valid figures of a chart, or most figures; its cases.

    What the machine does to the runs of a day, it does to all of them; not so to those of others.
    """
    days: defaultdict[str, dict[str, CaseSummary]] = defaultdict(dict)
    for summary in evidence.runs:
        cases = days[summary.run.started[:10]]
        for case in select(summary.cases.values(), layout.select):
            if case.measured > cases.setdefault(case.id, case).measured:
                cases[case.id] = case

    def figures(day: str) -> tuple[int, int]:
        values = [value_of(case, layout.metric) for case in days[day].values()]
        known = [value.valid for value in values if value.figure]
        return sum(known), len(known)

    day = max(sorted(days, reverse=True), key=figures, default="")
    return day, [*days[day].values()]


def draw(
    layout: ChartLayout, day: str, chosen: Sequence[CaseSummary], published: Published, root: str
) -> Markup | None:
    """Draw a chart of a day's cases; return None if fewer than two cases have a figure."""
    if sum(layout.metric in case.metrics for case in chosen) < 2:
        return None
    caption = Caption(layout.name, layout.title, f"{layout.caption} Measured {day}.".strip())
    quantity, keys = Quantity.of(layout.metric), layout.keys
    values = {
        case.id: value_of(case, layout.metric, published.figures_of(case.id).get(layout.metric))
        for case in chosen
    }
    # Cases with one value of x would make a column of dots: rows show their names as well.
    if layout.x and len({KEYS[layout.x].of(case.case) for case in chosen}) > 1:
        varied = KEYS[layout.x]
        lines: dict[str, list[PlotPoint]] = {}
        for case in order_cases(chosen, (*keys, layout.x)):
            # A server that runs with its own default has no place on the axis.
            if isinstance(x := varied.of(case.case), int | float):
                point = PlotPoint(float(x), values[case.id], root + addresses.case(case.id))
                lines.setdefault(_words(case, keys), []).append(point)
        return plot(caption, Quantity(varied.title, count), quantity, lines, log=layout.log)
    if len({_words(case, (*layout.group, *keys)) for case in chosen}) < len(chosen):
        keys = (*keys, "id")  # rows with the same words would look like repetitions
    groups: dict[str, list[FigureDot]] = {}
    for case in order_cases(chosen, (*layout.group, *keys)):
        href = root + addresses.case(case.id)
        dot = FigureDot(_words(case, keys), values[case.id], KEYS[keys[0]].text(case.case), href)
        what = case_names.of(case.case)
        title = what.what if layout.group == ("endpoint",) and what.known else None
        groups.setdefault(title or _words(case, layout.group), []).append(dot)
    return draw_figures(caption, quantity, groups)


def _words(case: CaseSummary, keys: Sequence[str]) -> str:
    """`3.14t, 2 workers`."""
    words = ((KEYS[key].text(case.case), KEYS[key].title) for key in keys)
    # A number needs the name of what it counts.
    return ", ".join(
        f"{text} {title.removesuffix('s') if text == '1' else title}" if text.isdigit() else text
        for text, title in words
    )
