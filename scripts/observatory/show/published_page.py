"""Runs beside what experiments declare of them: published figures, tables and statements."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from duetbench.core.comparison import Comparison
from duetbench.core.model import Run
from duetbench.host import result_files
from duetbench.load.summary import CaseSummary, RunSummary, summarise
from duetbench.report.run import facts, title
from observatory.matrix.published import Published
from observatory.show.claims import Evidence, check
from observatory.show.run_view import Answer, RunPage, Section, different, experiment_tables
from observatory.store import kinds

_RECENT: Final = 8  # runs of a machine and profile that statements use


def reference_runs(results: Path) -> list[RunSummary]:
    """Read the newest runs of each machine and profile, except unreadable ones."""
    groups: defaultdict[tuple[str, str], list[Path]] = defaultdict(list)
    for path in result_files.runs(results):
        profile = path.name.partition("-")[2].partition("-")[0]
        groups[path.parent.parent.name, profile].append(path)
    recent = [path for group in groups.values() for path in group[-_RECENT:]]
    return kinds.read_each(recent, lambda path: summarise(kinds.read_at(Run, results, path)), [])


def make_page(
    summary: RunSummary,
    published: Mapping[str, Published] = MappingProxyType({}),
    reference: Sequence[RunSummary] = (),
) -> RunPage:
    """Make the page of a run, whose answers use all of it; declared experiments come first.

    Those that it leaves open add the answers of `reference` runs.
    """
    of = defaultdict[str, list[CaseSummary]](list)
    for case in summary.cases.values():
        of[case.case.experiment].append(case)
    sections = []
    for name in sorted(of, key=lambda name: (name not in published, name)):
        about = published.get(name, Published())
        ours, others = Evidence.of([summary], name), Evidence.of(reference, name, published)
        sections.append(make_section(name, of[name], about, check(ours, about, others)))
    return RunPage(title(summary), facts(summary), tuple(sections))


def experiment(
    name: str,
    runs: Sequence[RunSummary],
    published: Mapping[str, Published],
    comparisons: Iterable[Comparison] = (),
) -> tuple[Evidence, Section]:
    """Return all evidence of an experiment, and its section."""
    evidence = Evidence.of(runs, name, published, comparisons)
    about, cases = published.get(name, Published()), [*evidence.cases.values()]
    return evidence, make_section(name, cases, about, check(evidence, about))


def make_section(
    experiment: str, cases: Sequence[CaseSummary], about: Published, answers: tuple[Answer, ...]
) -> Section:
    """Make the section of one experiment, with tables of all cases."""
    return Section(
        experiment=experiment,
        question=about.question,
        source=". ".join(filter(None, (about.source, about.setting))),
        answers=answers,
        tables=experiment_tables(cases, about),
        notes=(*about.notes, *different(about.deviations)),
    )
