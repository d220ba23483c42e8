"""What an experiment asks, and what the newest runs that measured it answer."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from duetbench.project.published import FILE
from duetbench.project.suites import SHARED_PAGE, SuiteDeclaration
from duetbench.show import claims, inprocess
from duetbench.show.site.pages.site import Site, grouped
from duetbench.store.asv_results import newest
from duetbench.store.change import INPROCESS
from duetbench.trend.summary import CaseSummary, RunSummary

ORDER: Final = ("published", "nightly", "quick")
"""Profiles in the order in which they speak."""

SHARED_QUESTION: Final = "What does a request take inside the process, and Pydantic alone?"


@dataclass(frozen=True, slots=True)
class ExperimentAnswer:
    """A sentence with figures, and the run that it speaks of.

    Attributes:
        run: The run's id, or the commit that asv measured; empty: no run has all of its figures,
            and the text says so.
    """

    text: str
    run: str
    profile: str
    machine: str
    flags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ExperimentQuestion:
    """An experiment in a list."""

    name: str
    question: str
    answer: ExperimentAnswer | None
    cases: int = 0


def questions(site: Site) -> Iterator[ExperimentQuestion]:
    """Every experiment with the first sentence of its answer."""
    cases = {case for table in site.newest_tables for case in table.cases}
    measured = Counter(case.partition("/")[0] for case in cases)
    suites = {suite.page: suite for suite in site.suites if suite.source}
    for name in site.experiments():
        if name in suites:
            yield ExperimentQuestion(name, suites[name].question, suite_answer(site, suites[name]))
        else:
            about = site.about.get(name)
            answer = next(answers(site, name), None)
            yield ExperimentQuestion(name, about.question if about else "", answer, measured[name])
    if has_inprocess(site):
        yield ExperimentQuestion(SHARED_PAGE, SHARED_QUESTION, None)


def speakers(site: Site, experiment: str) -> tuple[RunSummary, ...]:
    """The newest runs that measured an experiment, in the order in which they speak.

    The machine that has measured most of its cases comes first, and of equal ones that with the
    newest run: a few cases tried elsewhere do not take a whole page's figures away. Nor does a
    night of one launch those of a run of the same profile that had enough.
    """
    # Of one machine and profile enough launches sort last, and take the place of too few.
    measured = {
        (machine, profile): summary
        for (machine, profile, _), summary in sorted(
            site.newest.items(), key=lambda entry: entry[0]
        )
        if is_measured(cases_of(summary, experiment))
    }
    of = grouped(
        (machine, summary)
        for profile in ORDER
        for (machine, name), summary in measured.items()
        if name == profile
    )
    ranked = sorted(
        of.values(),
        key=lambda runs: (
            len({case.id for run in runs for case in cases_of(run, experiment)}),
            max(run.run.started for run in runs),
        ),
        reverse=True,
    )
    return tuple(run for runs in ranked for run in runs)


def answers(site: Site, experiment: str) -> Iterator[ExperimentAnswer]:
    """The experiment's sentences; none without a run of it, or where none is declared."""
    published = site.published.get(experiment)
    having = speakers(site, experiment)
    if published is None or not having:
        return
    for template in published.answers:
        tried = [
            (summary, claims.fill(template, summary, published, f"apps/{experiment}/{FILE}"))
            for summary in having
        ]
        filled = [attempt for attempt in tried if attempt[1].measured] or tried[:1]
        summary, claim = next(
            (attempt for attempt in filled if attempt[0].run.launches > 1), filled[0]
        )
        run = summary.run
        source = run.id if claim.measured else ""
        yield ExperimentAnswer(claim.text, source, run.profile, run.machine.id, tuple(claim.flags))


def has_inprocess(site: Site) -> bool:
    """Whether asv measured anything, or a trend is of a job inside the process."""
    return bool(site.snapshots) or any(case.startswith(INPROCESS) for case in site.planned)


def suite_answer(site: Site, suite: SuiteDeclaration) -> ExperimentAnswer | None:
    """Answer from what asv measured last; None: it has not measured all of it."""
    snapshot = newest(site.snapshots, *suite.benchmarks)
    text = inprocess.answer(snapshot, suite) if snapshot else ""
    if snapshot is None or not text:
        return None
    return ExperimentAnswer(text, snapshot.commit, "asv", snapshot.machine, ())


def cases_of(summary: RunSummary, experiment: str) -> tuple[CaseSummary, ...]:
    """Take a run's cases of an experiment."""
    return tuple(case for case in summary.cases.values() if case.case.experiment == experiment)


def is_measured(cases: Sequence[CaseSummary]) -> bool:
    """Whether any case has a figure."""
    return any(case.status == "measured" for case in cases)
