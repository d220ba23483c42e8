"""The experiments: a list of them, and for each its question, answer, charts and evidence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from servebench.inprocess import page as inprocess
from servebench.inprocess.readings import Snapshot, newest
from servebench.report.page import Section
from servebench.site.charts import speedups
from servebench.site.pages import addresses, evidence, inside, trace
from servebench.site.pages.answers import answers
from servebench.site.pages.page import Page, markup, render
from servebench.site.pages.site import INSIDE, Site

FURTHER: Final = "inside-the-process"
"""The page of what else asv measures: it answers questions of its own."""
_FURTHER_QUESTION: Final = "What does a request take inside the process, and Pydantic alone?"
_MODULES: Final = ("js/keyboard.js",)


@dataclass(frozen=True, slots=True)
class Entry:
    """An experiment in the list."""

    name: str
    question: str
    answer: str


def pages(site: Site) -> Iterator[Page]:
    """The list, and one page for each experiment."""
    path = addresses.file(addresses.EXPERIMENTS)
    yield Page(path, _list(site, path))
    cases = _by_experiment(site)
    for name in site.experiments():
        if name != INSIDE:
            path = addresses.file(addresses.experiment(name))
            yield Page(path, _page(site, path, name, cases.get(name, ())))
    if site.inside is not None:
        path = addresses.file(addresses.experiment(INSIDE))
        yield Page(path, _inside(site, path, INSIDE))
    if not all(table.track.served for table in site.tables.values()):
        path = addresses.file(addresses.experiment(FURTHER))
        yield Page(path, _inside(site, path, FURTHER))


def _by_experiment(site: Site) -> dict[str, tuple[str, ...]]:
    """Every case with a trend, by experiment."""
    found: dict[str, tuple[str, ...]] = {}
    for case in site.cases():
        name = case.partition("/")[0]
        found[name] = (*found.get(name, ()), case)
    return found


def _list(site: Site, path: str) -> str:
    entries = []
    for name in site.experiments():
        about = site.about.get(name)
        question = about.question if about else ""
        answer = next(answers(site, name), None)
        if name == INSIDE and site.inside is not None:
            question, answer = site.inside.question, inside.answer(site)
        entries.append(Entry(name, question, answer.text if answer else ""))
    if not all(table.track.served for table in site.tables.values()):
        entries.append(Entry(FURTHER, _FURTHER_QUESTION, ""))
    return render(
        site,
        "experiments.html.j2",
        path=path,
        title="Experiments",
        description="Questions about the Python web stack, each with its answer and figures.",
        entries=entries,
    )


def _page(site: Site, path: str, name: str, cases: tuple[str, ...]) -> str:
    about, published = site.about.get(name), site.published.get(name)
    found = evidence.sources(site, name)
    question = about.question if about else ""
    return render(
        site,
        "experiment.html.j2",
        path=path,
        title=name,
        description=question or f"Figures of the experiment {name}.",
        modules=_MODULES,
        name=name,
        question=question,
        published=published,
        answers=list(answers(site, name)),
        sources=found,
        charts=[
            (markup(one.chart), [(label, markup(chart)) for label, chart in one.others])
            for one in evidence.charts(site, name, addresses.root(path), found)
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


def _inside(site: Site, path: str, name: str) -> str:
    """The experiment inside the process: sections of asv's newest results."""
    declared = site.inside
    snapshots = site.snapshots()
    sections: tuple[Section, ...] = ()
    charts, answer = [], ""
    if declared is not None:
        most = max(site.newest.values(), key=lambda one: one.run.launches, default=None)
        sections = tuple(
            section
            for section in inprocess.sections(snapshots, declared, most)
            if (section.experiment == INSIDE) == (name == INSIDE)
        )
        latest = newest(snapshots, *declared.benchmarks)
        if name == INSIDE and latest is not None:
            root = addresses.root(path)
            charts = [
                markup(chart)
                for chart in speedups.charts(
                    latest, declared, lambda case: root + addresses.case(case)
                )
            ]
            found = inside.answer(site)
            answer = found.text if found else ""
    question = declared.question if declared and name == INSIDE else _FURTHER_QUESTION
    return render(
        site,
        "inside.html.j2",
        path=path,
        title=name,
        description=question,
        modules=_MODULES,
        name=name,
        question=question,
        sections=sections,
        charts=charts,
        answer=answer,
        statements=[
            (section, [evidence.statement((shape,)) for shape in section.shapes])
            for section in sections
        ],
        command="servebench micro --select 'gil.*'" if name == INSIDE else "servebench micro",
        files=list(_files(site, snapshots)),
    )


def _files(site: Site, snapshots: Sequence[Snapshot]) -> Iterator[str]:
    """Addresses of asv's files of these commits."""
    shown = {(snapshot.machine, snapshot.commit) for snapshot in snapshots}
    for run, header in site.headers.items():
        if not header.track.served and (header.machine, header.commit) in shown:
            yield from trace.raw_asv(site, run)
