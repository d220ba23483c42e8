"""The experiments: a list of them, and for each its question, answer, charts and evidence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from servebench.declare.suites import SHARED_PAGE, SuiteDeclaration
from servebench.record.asv_results import Snapshot, newest
from servebench.report import inprocess
from servebench.site.charts import declared
from servebench.site.pages import addresses, evidence, trace
from servebench.site.pages.evidence import ExperimentAnswer, answers
from servebench.site.pages.page import PageFile, markup, render
from servebench.site.pages.site import Site

_SHARED_QUESTION: Final = "What does a request take inside the process, and Pydantic alone?"
_MODULES: Final = ("js/keyboard.js",)


@dataclass(frozen=True, slots=True)
class ExperimentQuestion:
    """An experiment in a list."""

    name: str
    question: str
    answer: ExperimentAnswer | None
    cases: int = 0


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
    cases = _by_experiment(site)
    shared = [SHARED_PAGE] if _has_inprocess(site) else []
    for name in (*site.experiments(), *shared):
        if suites := tuple(suite for suite in site.suites if suite.page == name):
            yield _inprocess(site, name, suites)
        else:
            yield _page(site, name, cases.get(name, ()))


def questions(site: Site) -> Iterator[ExperimentQuestion]:
    """Every experiment with the first sentence of its answer."""
    cases = {case for table in site.newest_tables for case in table.cases}
    measured = Counter(case.partition("/")[0] for case in cases)
    suites = {suite.page: suite for suite in site.suites if suite.source}
    for name in site.experiments():
        if name in suites:
            yield ExperimentQuestion(name, suites[name].question, _answer(site, suites[name]))
        else:
            about = site.about.get(name)
            answer = next(answers(site, name), None)
            yield ExperimentQuestion(name, about.question if about else "", answer, measured[name])
    if _has_inprocess(site):
        yield ExperimentQuestion(SHARED_PAGE, _SHARED_QUESTION, None)


def _has_inprocess(site: Site) -> bool:
    return not all(table.track.served for table in site.tables.values())


def _answer(site: Site, suite: SuiteDeclaration) -> ExperimentAnswer | None:
    snapshot = newest(site.snapshots(), *suite.benchmarks)
    text = inprocess.answer(snapshot, suite) if snapshot else ""
    if snapshot is None or not text:
        return None
    return next(
        (
            ExperimentAnswer(text, header.run, header.profile, header.machine, ())
            for header in site.headers.values()
            if not header.track.served
            and (header.machine, header.commit) == (snapshot.machine, snapshot.commit)
        ),
        None,
    )


def _by_experiment(site: Site) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for case in site.cases():
        name = case.partition("/")[0]
        found[name] = (*found.get(name, ()), case)
    return found


def _page(site: Site, name: str, cases: tuple[str, ...]) -> PageFile:
    address = addresses.experiment(name)
    about, published = site.about.get(name), site.published.get(name)
    found = evidence.sources(site, name)
    question = about.question if about else ""
    return render(
        site,
        "experiment.html.j2",
        address,
        name,
        question or f"Figures of the experiment {name}.",
        modules=_MODULES,
        name=name,
        question=question,
        published=published,
        answers=list(answers(site, name)),
        sources=found,
        charts=[
            (markup(one.chart), [(label, markup(chart)) for label, chart in one.others])
            for one in evidence.charts(site, name, addresses.root(addresses.file(address)), found)
        ],
        statements=evidence.statements(found),
        differences=evidence.differences(found),
        deviations=about.deviations if about else (),
        validity=[(one, evidence.flags(one), evidence.failures(one)) for one in found],
        commands=[
            (one.label, trace.experiment_command(name, one.profile, one.summary.run.commit))
            for one in found
        ]
        or [("", trace.experiment_command(name))],
        cases=cases,
        measured=[case.id for one in found for case in one.cases if case.id not in cases],
    )


def _inprocess(site: Site, name: str, suites: Sequence[SuiteDeclaration]) -> PageFile:
    snapshots = site.snapshots()
    most = max(site.newest.values(), key=lambda one: one.run.launches, default=None)
    sections = inprocess.sections(snapshots, suites, most)
    address = addresses.experiment(name)
    root, own = addresses.root(addresses.file(address)), suites[0] if suites[0].source else None
    latest = ((suite, newest(snapshots, *suite.benchmarks)) for suite in suites)
    answer = _answer(site, own) if own else None
    question = own.question if own else _SHARED_QUESTION
    return render(
        site,
        "inprocess.html.j2",
        address,
        name,
        question,
        modules=_MODULES,
        name=name,
        question=question,
        charts=[
            markup(chart)
            for suite, snapshot in latest
            if snapshot is not None
            for chart in declared.speed_up_charts(
                snapshot, suite, lambda case: root + addresses.case(case)
            )
        ],
        answer=answer.text if answer else "",
        statements=[
            (section, [evidence.statement((shape,)) for shape in section.shapes])
            for section in sections
        ],
        sections=sections,
        command=f"servebench inprocess --select '{own.suite}.*'" if own else "servebench inprocess",
        files=list(_files(site, snapshots)),
    )


def _files(site: Site, snapshots: Sequence[Snapshot]) -> Iterator[str]:
    shown = {(snapshot.machine, snapshot.commit) for snapshot in snapshots}
    for run, header in site.headers.items():
        if not header.track.served and (header.machine, header.commit) in shown:
            yield from trace.raw_asv(site, run)
