"""Runs beside what experiments declare of them: published figures, tables and statements."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from duetbench.core.comparison import Comparison
from duetbench.core.model import Run
from duetbench.host import result_files
from duetbench.judge.summary import CaseSummary, RunSummary, summarise
from observatory.matrix.published import Published
from observatory.show import run_view
from observatory.show.claims import Evidence, check
from observatory.show.run_view import RunPage, Section
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
    published: Mapping[str, Published],
    reference: Sequence[RunSummary] = (),
) -> RunPage:
    """Make the page of a run, whose answers use all of it.

    Those that it leaves open add the answers of `reference` runs.
    """
    return run_view.make_page(
        summary,
        published,
        lambda name: check(
            Evidence.of([summary], name),
            published.get(name, Published()),
            Evidence.of(reference, name, published),
        ),
    )


def experiment(
    name: str,
    runs: Sequence[RunSummary],
    published: Mapping[str, Published],
    comparisons: Iterable[Comparison] = (),
) -> tuple[Evidence, tuple[Section, ...]]:
    """Return all evidence of an experiment, and its section, if it is declared or measured."""
    evidence = Evidence.of(runs, name, published, comparisons)
    known = name in published or evidence.cases
    return evidence, (make_section(name, evidence, published.get(name)),) if known else ()


def make_section(
    experiment: str,
    evidence: Evidence,
    published: Published | None,
    cases: Sequence[CaseSummary] | None = None,
) -> Section:
    """Make the section of one experiment; tables show all cases of the evidence, or `cases`."""
    published = published or Published()
    shown = [*evidence.cases.values()] if cases is None else cases
    return run_view.make_section(experiment, shown, published, check(evidence, published))
