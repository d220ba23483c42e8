"""What the runs say of an experiment: sentences, charts, verdicts on the published shape, flags."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from servebench.core.flags import FLAGS
from servebench.declare.layouts import ChartLayout
from servebench.declare.published import FILE
from servebench.report import claims, findings, formats
from servebench.report.claims import ShapeResult
from servebench.report.page import Section, facts, make_section
from servebench.series.summary import ENOUGH_LAUNCHES, CaseSummary, RunSummary
from servebench.site.charts import declared
from servebench.site.charts.declared import ChartCases
from servebench.site.charts.figure import Chart
from servebench.site.pages import addresses, words
from servebench.site.pages.site import Site

ORDER: Final = ("published", "nightly", "quick")


@dataclass(frozen=True, slots=True)
class ExperimentAnswer:
    """A sentence with figures, and the run that it speaks of.

    Attributes:
        run: The run's id; empty: no run has all of its figures, and the text says so.
    """

    text: str
    run: str
    profile: str
    machine: str
    flags: tuple[str, ...]


def speakers(site: Site) -> tuple[RunSummary, ...]:
    """The newest runs of the machine that was measured last, in the order in which they speak."""
    newest = max(site.newest.values(), key=lambda summary: summary.run.started, default=None)
    if newest is None:
        return ()
    machine = newest.run.machine.id
    found = (site.newest.get((machine, profile)) for profile in ORDER)
    return tuple(summary for summary in found if summary is not None)


def answers(site: Site, experiment: str) -> Iterator[ExperimentAnswer]:
    """The experiment's sentences; none without a run of it, or where none is declared."""
    published = site.published.get(experiment)
    having = [summary for summary in speakers(site) if _measured(summary, experiment)]
    if published is None or not having:
        return
    for template in published.answers:
        tried = [
            (summary, claims.fill(template, summary, published, f"apps/{experiment}/{FILE}"))
            for summary in having
        ]
        filled = [one for one in tried if one[1].measured] or tried[:1]
        summary, found = next((one for one in filled if one[0].run.launches > 1), filled[0])
        run = summary.run
        yield ExperimentAnswer(
            text=found.text,
            run=run.id if found.measured else "",
            profile=run.profile,
            machine=run.machine.id,
            flags=tuple(found.flags),
        )


def _measured(summary: RunSummary, experiment: str) -> bool:
    return any(
        case.status == "measured" and case.case.experiment == experiment
        for case in summary.cases.values()
    )


_FEW: Final = 3  # figures: fewer are not worth a second drawing
_STANDARD: Final = ("published", "nightly")
"""Profiles that answer questions; a quick run speaks where neither has."""


@dataclass(frozen=True, slots=True)
class RunSource:
    """A run that measured the experiment."""

    label: str
    summary: RunSummary
    cases: tuple[CaseSummary, ...]
    section: Section

    @property
    def run(self) -> str:
        return self.summary.run.id

    @property
    def profile(self) -> str:
        return self.summary.run.profile

    @property
    def facts(self) -> tuple[tuple[str, str], ...]:
        return facts(self.summary)

    @property
    def coverage(self) -> str:
        measured, expected = (sum(getattr(case, name) for case in self.cases)
                              for name in ("measured", "expected"))  # fmt: skip
        return f"{measured} of {words.many(expected, 'launch', 'launches')} measured"


@dataclass(frozen=True, slots=True)
class ChartVersions:
    """A chart, and the same from the other runs."""

    chart: Chart
    others: tuple[tuple[str, Chart], ...]


@dataclass(frozen=True, slots=True)
class ShapeVerdict:
    """Whether a statement holds in one run: the ratio found, with its interval and flags."""

    ratio: str
    verdict: str
    flags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement about the shape of the result."""

    text: str
    expected: str
    published: str
    verdicts: tuple[ShapeVerdict, ...]


@dataclass(frozen=True, slots=True)
class FlagSummary:
    """A flag of a run: what it says, for example, and which cases have it."""

    name: str
    meaning: str
    example: str
    cases: tuple[str, ...]


def sources(site: Site, experiment: str) -> tuple[RunSource, ...]:
    """The runs that measured an experiment, in the order in which they speak."""
    found = [
        RunSource(
            label=f"{summary.run.profile} profile",
            summary=summary,
            cases=cases,
            section=make_section(
                summary,
                experiment,
                cases,
                site.published.get(experiment),
                site.about.get(experiment),
            ),
        )
        for summary in speakers(site)
        if (cases := _cases(summary, experiment))
        and any(case.status == "measured" for case in cases)
    ]
    standard = tuple(source for source in found if source.profile in _STANDARD)
    return standard or tuple(found)


def charts(
    site: Site, experiment: str, root: str, found: Sequence[RunSource]
) -> Iterator[ChartVersions]:
    """The declared charts, of figures with intervals where a run has them.

    What only runs of too few launches have is drawn from these, and hollow.
    """
    published = site.published.get(experiment)
    layouts = published.charts if published else ()
    if not layouts and found:
        layouts = (declared.default_layout(found[0].cases),)
    for layout in layouts:
        order = sorted(found, key=partial(_rank, site, experiment, root, layout))
        having = [
            (source, shown)
            for source in order
            for shown in (_shown(site, experiment, root, source, f"{source.profile}-"),)
            if declared.figures(shown, layout)
        ]
        if not having:
            continue
        chart = declared.draw(_joined(layout, [shown for _, shown in having]), layout)
        others = (
            (source.label, declared.draw(shown, layout))
            for source, shown in having[1:]
            if declared.figures(shown, layout) >= _FEW
        )
        if chart is not None:
            yield ChartVersions(chart, tuple((label, other) for label, other in others if other))


def statements(found: Sequence[RunSource]) -> tuple[Statement, ...]:
    """The published shape, held against each run."""
    shapes = (source.section.shapes for source in found)
    return tuple(statement(results) for results in zip(*shapes, strict=True))


def statement(results: Sequence[ShapeResult]) -> Statement:
    """One statement, and what each run says of it."""
    first = results[0]
    theirs = first.published
    return Statement(
        text=first.statement,
        expected=first.expected,
        published=formats.MISSING if theirs is None else formats.ratio(theirs),
        verdicts=tuple(_verdict(result) for result in results),
    )


def differences(found: Sequence[RunSource]) -> tuple[str, ...]:
    """Where our shape is not the published one, and why."""
    return findings.differences(
        [(findings.RunSource(one.label, "", one.summary), one.section.shapes) for one in found]
    )


def flags(source: RunSource) -> tuple[FlagSummary, ...]:
    """All that was flagged in a run's cases, the most frequent first."""
    found: dict[str, tuple[str, str, list[str]]] = {}
    for case in source.cases:
        for flag in case.warnings:
            entry: tuple[str, str, list[str]] = (FLAGS[flag.name].meaning, flag.detail, [])
            found.setdefault(str(flag.name), entry)[2].append(case.id)
    raised = (FlagSummary(name, said, example, tuple(many))
              for name, (said, example, many) in found.items())  # fmt: skip
    return tuple(sorted(raised, key=lambda one: -len(one.cases)))


def failures(source: RunSource) -> tuple[tuple[str, str], ...]:
    """Cases of which launches failed, and why."""
    return tuple(
        (
            case.id,
            f"{len(case.failures)} of {words.many(case.expected, 'launch', 'launches')} failed: "
            + "; ".join(dict.fromkeys(failure.reason for failure in case.failures)),
        )
        for case in source.cases
        if case.failures
    )


def _cases(summary: RunSummary, experiment: str) -> tuple[CaseSummary, ...]:
    return tuple(case for case in summary.cases.values() if case.case.experiment == experiment)


def _shown(
    site: Site, experiment: str, root: str, source: RunSource, anchor: str = ""
) -> ChartCases:
    launches = source.summary.run.launches
    return ChartCases(
        cases=source.cases,
        published=site.published.get(experiment),
        address=lambda case: root + addresses.case(case),
        source=f"From the {source.label}, {words.many(launches, 'launch', 'launches')} per case.",
        anchor=anchor,
    )


def _joined(layout: ChartLayout, runs: Sequence[ChartCases]) -> ChartCases:
    """Every case of the first run that has its figures; the caption says which these are."""
    cases: dict[str, CaseSummary] = {}
    told: list[str] = []
    for shown in runs:
        new = {
            case.id: case
            for case in shown.cases
            if case.id not in cases and any(metric in case.metrics for metric in layout.figures)
        }
        if declared.figures(replace(shown, cases=tuple(new.values())), layout):
            told.append(shown.source if not told else f"Others: {shown.source[0].lower()}"
                        f"{shown.source[1:]}")  # fmt: skip
        cases |= new
    for shown in runs:  # those without a figure too: charts and tables say why
        cases = {case.id: case for case in shown.cases} | cases
    return replace(runs[0], cases=tuple(cases.values()), source=" ".join(told), anchor="")


def _verdict(result: ShapeResult) -> ShapeVerdict:
    ours = result.ours
    ratio = formats.MISSING
    if ours is not None:
        interval = formats.ratio_interval(ours)
        ratio = formats.ratio(ours.mean) + (f" ({interval})" if interval else "")
    return ShapeVerdict(ratio, result.verdict, result.flags)


def _rank(
    site: Site, experiment: str, root: str, layout: ChartLayout, source: RunSource
) -> tuple[bool, int, int]:
    """Runs with intervals first; of these, and of the others, that with most of the figures."""
    shown = _shown(site, experiment, root, source)
    launches = source.summary.run.launches
    return launches < ENOUGH_LAUNCHES, -declared.figures(shown, layout), -launches
