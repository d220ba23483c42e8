"""The experiments: a list of them, and for each its question, answers, charts and tables."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from duetbench.project import names
from duetbench.project.published import SHARED_PAGE
from duetbench.show import addresses, inprocess
from duetbench.show.claims import ANSWERED, Answer, Evidence, tally
from duetbench.show.page import Section, answer_table, facts
from duetbench.show.site import declared, words
from duetbench.show.site.pages.site import PageFile, Site, render
from duetbench.store.change import INPROCESS

_SHARED_QUESTION = "What does a request take inside the process?"


@dataclass(frozen=True, slots=True)
class ExperimentQuestion:
    """An experiment in a list: what it asks, its first answer, and how many statements hold."""

    name: str
    question: str
    answer: Answer | None
    tally: str


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


def questions(site: Site) -> Iterator[ExperimentQuestion]:
    """Every experiment with its first answer."""
    for name in _names(site):
        _, sections = known(site, name)
        answers = answers_of(sections)
        yield ExperimentQuestion(
            name,
            _question(name, sections),
            next((answer for answer in answers if answer.verdict in ANSWERED), None),
            tally(answers),
        )


def known(site: Site, name: str) -> tuple[Evidence, tuple[Section, ...]]:
    """All that is known of an experiment."""
    return inprocess.experiment(
        name, site.newest, site.snapshots, site.published, site.about, site.suites
    )


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
    evidence, sections = known(site, name)
    about, published = site.about.get(name), site.published.get(name)
    question, answers = _question(name, sections), answers_of(sections)
    suites = [suite.suite for suite in site.suites if suite.page == name]
    commands = [f"duetbench inprocess --select '{suite}.*'" for suite in suites]
    if about or evidence.cases:
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
        article_url=about.url if about else "",
        source=published.source if published else "",
        runs=[(run.run.id, facts(run)) for run in evidence.runs],
        commands=commands,
        has_cases=any(case.partition("/")[0] == name for case in site.planned),
    )


def charts(site: Site, name: str, root: str) -> Iterator[Markup]:
    """The declared charts; of an experiment that declares none, its throughput."""
    evidence, sections = known(site, name)
    published = site.published.get(name)
    if cases := tuple(evidence.cases.values()):
        layouts = published.charts if published else ()
        for layout in layouts or (declared.default_layout(cases),):
            if chart := declared.draw(cases, layout, published, root):
                yield chart
    suites = {suite.title: suite for suite in site.suites if suite.page == name}
    for section in (section for section in sections if section.experiment in suites):
        yield from declared.speed_up_charts(
            section, suites[section.experiment], root + addresses.ASV
        )
