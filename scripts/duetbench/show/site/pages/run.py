"""The runs: a list of them, and for each what it measured, found and missed, and its raw file.

The newest runs are shown in full; what older ones measured is in their trends and their file.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import numpy as np

from duetbench.core.errors import RecordError
from duetbench.core.interval import Interval
from duetbench.core.model import RunStatus
from duetbench.show.page import make_page
from duetbench.show.site.pages import addresses, trace, trends, words
from duetbench.show.site.pages.case import suite_of
from duetbench.show.site.pages.page import PageFile, render
from duetbench.show.site.pages.site import Site, grouped
from duetbench.store.change import Change
from duetbench.trend.columns import CaseState, RunColumns, RunHeader
from duetbench.trend.summary import RunSummary

NEWEST: Final = 60
"""So many runs are on the first page of them."""
LOST: Final = 10
"""So many nights of which something is missing are named there."""


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run in the list."""

    header: RunHeader
    cases: int
    failed: int
    disturbed: int
    missing: int

    @property
    def measured(self) -> int:
        return self.cases - self.failed - self.missing


def list_pages(site: Site) -> Iterator[PageFile]:
    """The newest runs, and a page for each year that has more."""
    every = newest_first(site.headers.values())
    years = grouped((started(header).year, header) for header in every)
    lost = [one for one in reversed(site.sources.night_records) if one.status != "complete"]
    shown = [(addresses.RUNS, "Runs", every[:NEWEST], len(every), lost[:LOST])]
    shown += [
        (addresses.year(year), f"Runs of {year}", [*many], len(many), [])
        for year, many in years.items()
    ]
    for address, title, headers, total, missed in shown:
        yield render(
            site,
            "runs.html.j2",
            address,
            title,
            "Every run with what it measured, what failed, and its raw file.",
            rows=[(started(header), run_row(header)) for header in headers],
            years=[(year, len(many)) for year, many in years.items()],
            total=total,
            lost=missed,
        )


def newest_first(headers: Iterable[RunHeader]) -> list[RunHeader]:
    """Runs in the order of lists."""
    return sorted(headers, key=lambda header: (started(header), header.run), reverse=True)


def run_row(header: RunHeader) -> RunRow:
    """A run in numbers."""
    odd = [one.status for one in header.odd.values()]
    return RunRow(
        header=header,
        cases=len(header.cases),
        failed=odd.count("failed"),
        disturbed=odd.count("disturbed"),
        missing=odd.count("not measured"),
    )


def started(header: RunHeader) -> datetime:
    """When a run was made; benchmarks stand at their commit's date, and their names say when."""
    if not header.track.served:
        with suppress(ValueError):  # not named by us
            return datetime.strptime(header.run[:16], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    return datetime.fromtimestamp(header.time, UTC)


FULL: Final = 60
"""So many run files are shown in full: reading one takes a tenth of a second."""

_MEASURED: Final = CaseState("measured")


@dataclass(frozen=True, slots=True)
class CaseLine:
    """One case of a night without its file.

    Attributes:
        odd: What is to be said of it.
        figure: With its unit, of benchmarks; empty for others.
    """

    case: str
    odd: CaseState
    figure: str = ""
    interval: str = ""
    samples: int = 0


def pages(site: Site) -> Iterator[PageFile]:
    """One page for each run, and one for each commit that asv measured."""
    whole = set(list(site.runs)[-FULL:])
    beside = neighbours(site.headers)
    concerned = grouped(
        (run, record)
        for record in site.changes
        for run in (record.before_run, record.after_run)
        if run
    )
    for run_id, night in site.nights.items():
        summary, problem = None, ""
        if run_id in whole:
            try:
                summary = site.read_run(run_id)
            except RecordError as error:  # it was there a moment ago
                problem = str(error)
        yield _page(site, night, summary, problem, beside[run_id], concerned.get(run_id, ()))


def neighbours(headers: Mapping[str, RunHeader]) -> dict[str, tuple[str, str]]:
    """By run: those before and after it, of its machine and profile; empty: none."""
    found = dict.fromkeys(headers, ("", ""))
    kin = grouped(((one.machine, one.kind, one.profile), run) for run, one in headers.items())
    for runs in kin.values():
        for before, run, after in zip(("", *runs[:-1]), runs, (*runs[1:], ""), strict=True):
            found[run] = before, after
    return found


def lines(night: RunColumns) -> Iterator[CaseLine]:
    """Of a night of benchmarks or ratios every case's first figure; of a run, what was odd."""
    header = night.header
    if header.track.served:
        yield from (CaseLine(header.cases[place], odd) for place, odd in sorted(header.odd.items()))
        return
    for place, case in enumerate(header.cases):
        odd = header.odd.get(place, _MEASURED)
        there = np.flatnonzero(~np.isnan(night.mean[place]))
        if not len(there):
            yield CaseLine(case, odd)
            continue
        at = place, int(there[0])  # a benchmark has one unit, and ratios have their headline first
        mean, low, high = (float(block[at]) for block in (night.mean, night.low, night.high))
        count, unit, titled = int(night.launches[at]), header.metrics[at[1]], ""
        if header.track.ratio:
            unit, titled = words.RATIO, f"{trends.title(unit)} "
        known = Interval(mean, n=count) if np.isnan(low) else Interval(mean, low, high, count)
        interval = words.spread(known, unit)
        yield CaseLine(case, odd, titled + words.figure(mean, unit), interval, count)


def _page(
    site: Site,
    night: RunColumns,
    summary: RunSummary | None,
    problem: str,
    beside: tuple[str, str],
    changes: tuple[Change, ...],
) -> PageFile:
    header = night.header
    page = make_page(summary, site.published, site.about) if summary is not None else None
    found = list(lines(night))
    suites = {} if header.track.served else grouped((_part(line.case), line) for line in found)
    one_case = [trace.again(header, case) for case in header.cases[:1]]
    return render(
        site,
        "run.html.j2",
        addresses.run(header.run),
        f"Run {header.run}",
        f"What was measured on {header.machine} in run {header.run}.",
        header=header,
        row=run_row(header),
        started=started(header),
        before=beside[0],
        after=beside[1],
        changes=changes,
        interrupted=summary is not None and summary.run.status is RunStatus.PARTIAL,
        facts=page.facts if page else _facts(header),
        sections=page.sections if page else (),
        lines=found,
        suites=suites,
        problem=problem,
        raw=trace.links(site, header.run),
        commands=(trace.run_command(header), *one_case),
    )


def _part(case: str) -> str:
    """What a case is listed under: its suite, or its experiment."""
    experiment = case.partition("/")[0]
    return suite_of(case) if experiment == "inprocess" else experiment


def _facts(header: RunHeader) -> tuple[tuple[str, str], ...]:
    def packed(stack: str) -> str:
        packages = header.packages.get(stack, {})
        return ", ".join(f"{package} {version}" for package, version in packages.items())

    return (
        ("anchor" if header.track.ratio else "profile", header.profile),
        ("machine", f"{header.machine}: {header.fingerprint}"),
        ("commit", header.commit or "none: not measured in a git repository"),
        *((f"interpreter {name}", told) for name, told in header.interpreters.items() if told),
        *(
            (f"stack {name}", f"{digest[:12]}: {packed(name)}")
            for name, digest in header.stacks.items()
        ),
    )
