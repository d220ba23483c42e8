"""The experiments: a list of them, and for each its question, answer, charts and evidence."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from markupsafe import Markup

from duetbench.core.errors import FlagName
from duetbench.core.model import Run
from duetbench.project import names
from duetbench.project.published import ChartLayout
from duetbench.project.suites import SHARED_PAGE, SuiteDeclaration
from duetbench.show import addresses, findings, inprocess
from duetbench.show.page import Section, facts, make_section
from duetbench.show.site import declared, words
from duetbench.show.site.declared import ChartCases
from duetbench.show.site.pages.answers import (
    SHARED_QUESTION,
    answers,
    cases_of,
    has_inprocess,
    is_measured,
    questions,
    speakers,
    suite_answer,
)
from duetbench.show.site.pages.site import PageFile, Site, grouped, render
from duetbench.store.asv_results import newest
from duetbench.trend.summary import ENOUGH_LAUNCHES, CaseSummary, RunSummary


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
    cases = grouped((case.partition("/")[0], case) for case in site.cases())
    shared = [SHARED_PAGE] if has_inprocess(site) else []
    for name in (*site.experiments(), *shared):
        if suites := tuple(suite for suite in site.suites if suite.page == name):
            yield _inprocess(site, name, suites)
        else:
            yield _page(site, name, cases.get(name, ()))


def _page(site: Site, name: str, cases: tuple[str, ...]) -> PageFile:
    address = addresses.experiment(name)
    about, published = site.about.get(name), site.published.get(name)
    runs = sources(site, name)
    question = about.question if about else ""
    return render(
        site,
        "experiment.html.j2",
        address,
        names.experiment(name),
        question or f"Figures of the experiment {name}.",
        name=name,
        question=question,
        published=published,
        answers=list(answers(site, name)),
        sources=runs,
        charts=list(charts(site, name, addresses.root(addresses.file(address)), runs)),
        statements=list(zip(*(run.section.shapes for run in runs), strict=True)),
        differences=findings.differences(
            [(findings.RunSource(run.label, "", run.summary), run.section.shapes) for run in runs]
        ),
        deviations=about.deviations if about else (),
        article_url=about.url if about else "",
        validity=[(run, _flags(run), _failures(run)) for run in runs],
        commands=[
            (run.label, words.experiment_command(name, run.run.profile, run.run.commit))
            for run in runs
        ]
        or [("", words.experiment_command(name))],
        cases=cases,
        measured=tuple(
            dict.fromkeys(case.id for run in runs for case in run.cases if case.id not in cases)
        ),
    )


def _inprocess(site: Site, name: str, suites: Sequence[SuiteDeclaration]) -> PageFile:
    snapshots = site.snapshots
    most = max(site.newest.values(), key=lambda summary: summary.run.launches, default=None)
    address = addresses.experiment(name)
    root, page_suite = (
        addresses.root(addresses.file(address)),
        suites[0] if suites[0].source else None,
    )
    latest = [(suite, newest(snapshots, *suite.benchmarks)) for suite in suites]
    answer = suite_answer(site, page_suite) if page_suite else None
    question = page_suite.question if page_suite else SHARED_QUESTION
    newest_files = tuple(
        f"{addresses.RAW_ASV}{snapshot.machine}/{snapshot.commit[:8]}-"
        for _, snapshot in latest
        if snapshot is not None
    )
    return render(
        site,
        "inprocess.html.j2",
        address,
        name,
        question,
        name=name,
        question=question,
        charts=[
            chart
            for suite, snapshot in latest
            if snapshot is not None
            for chart in declared.speed_up_charts(snapshot, suite, root + addresses.ASV)
        ],
        answer=answer.text if answer else "",
        sections=inprocess.sections(snapshots, suites, most),
        command=f"duetbench inprocess --select '{page_suite.suite}.*'"
        if page_suite
        else "duetbench inprocess",
        files=[address for address in site.downloads if address.startswith(newest_files)],
    )


_STANDARD: Final = ("published", "nightly")
"""Profiles that answer questions; a quick run speaks where neither has."""


@dataclass(frozen=True, slots=True)
class RunSource:
    """A run that measured the experiment."""

    summary: RunSummary
    cases: tuple[CaseSummary, ...]
    section: Section
    facts: tuple[tuple[str, str], ...]

    elsewhere: bool = False  # measured by another machine than most of the page was

    @property
    def run(self) -> Run:
        return self.summary.run

    @property
    def label(self) -> str:
        machine = f" on {self.run.machine.id}" if self.elsewhere else ""
        return f"{self.run.profile} profile{machine}"


def sources(site: Site, experiment: str) -> tuple[RunSource, ...]:
    """The runs that measured an experiment, in the order in which they speak.

    Of other machines than the first there is only what that has not measured: their figures do not
    belong into one picture.
    """
    published, about = site.published.get(experiment), site.about.get(experiment)
    runs = speakers(site, experiment)
    runs = tuple(summary for summary in runs if summary.run.profile in _STANDARD) or runs
    chosen: list[RunSource] = []
    speaker: dict[str, str] = {}  # case → the machine that speaks for it
    for summary in runs:
        machine = summary.run.machine.id
        elsewhere = machine != runs[0].run.machine.id
        cases = tuple(
            case
            for case in cases_of(summary, experiment)
            if speaker.get(case.id, machine) == machine
        )
        if not is_measured(cases):
            continue
        speaker |= dict.fromkeys((case.id for case in cases if case.status == "measured"), machine)
        section = make_section(summary, experiment, cases, published, about)
        chosen.append(RunSource(summary, cases, section, facts(summary), elsewhere))
    return tuple(chosen)


def charts(site: Site, experiment: str, root: str, runs: Sequence[RunSource]) -> Iterator[Markup]:
    """The declared charts.

    They are of figures with intervals where a run has them. What only runs of too few launches
    have is drawn from these, and hollow.
    """
    published = site.published.get(experiment)
    layouts = published.charts if published else ()
    if not layouts and runs:
        layouts = (declared.default_layout(runs[0].cases),)
    drawable = [
        ChartCases(
            cases=source.cases,
            published=published,
            address=lambda case: root + addresses.case(case),
            source=f"From the {source.label}, "
            f"{words.quantity(source.run.launches, 'launch', 'launches')} per case.",
        )
        for source in runs
    ]
    for layout in layouts:
        # Runs with intervals first; of these, and of the others, that with most of the figures.
        ranked = sorted(
            (
                (launches < ENOUGH_LAUNCHES, -figures, -launches, place)
                for place, source in enumerate(runs)
                if (figures := declared.figures(drawable[place], layout))
                for launches in (source.run.launches,)
            ),
        )
        chosen = [drawable[place] for *_, place in ranked]
        if chosen and (chart := declared.draw(_joined(layout, chosen), layout)):
            yield chart


def _joined(layout: ChartLayout, runs: Sequence[ChartCases]) -> ChartCases:
    """Every case of the first run that has its figures; the caption says which these are."""
    cases: dict[str, CaseSummary] = {}
    captions: list[str] = []
    for run in runs:
        new = {
            case.id: case
            for case in run.cases
            if case.id not in cases and any(metric in case.metrics for metric in layout.figures)
        }
        if declared.figures(replace(run, cases=tuple(new.values())), layout):
            rest = f"Others: {run.source[0].lower()}{run.source[1:]}"
            captions.append(rest if captions else run.source)
        cases |= new
    for run in runs:  # those without a figure too: charts and tables say why
        cases = {case.id: case for case in run.cases} | cases
    return replace(runs[0], cases=tuple(cases.values()), source=" ".join(captions))


def _flags(source: RunSource) -> list[tuple[FlagName, str, list[str]]]:
    """All that was flagged, the most frequent first: a detail, for example, and which cases."""
    examples: dict[FlagName, tuple[str, list[str]]] = {}
    for case in source.cases:
        for flag in case.warnings:
            examples.setdefault(flag.name, (flag.detail, []))[1].append(case.id)
    every = [(name, example, cases) for name, (example, cases) in examples.items()]
    return sorted(every, key=lambda entry: -len(entry[2]))


def _failures(source: RunSource) -> list[tuple[str, str]]:
    """Cases of which launches failed, and why."""
    return [
        (
            case.id,
            f"{len(case.failures)} of "
            f"{words.quantity(case.expected, 'launch', 'launches')} failed: "
            + "; ".join(dict.fromkeys(failure.reason for failure in case.failures)),
        )
        for case in source.cases
        if case.failures
    ]
