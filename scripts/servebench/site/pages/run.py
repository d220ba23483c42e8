"""The runs: a list of them, and for each what it measured, found and missed, and its raw file.

The newest runs are shown in full; what older ones measured is in their trends and their file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Final

import numpy as np

from servebench.core.errors import RecordError
from servebench.core.model import RunStatus
from servebench.record.change import ChangeRecord
from servebench.record.night import NightRecord
from servebench.report.page import make_page
from servebench.series.columns import CaseState, RunColumns, RunHeader
from servebench.series.summary import Estimate, RunSummary
from servebench.site.pages import addresses, trace, words
from servebench.site.pages.case import suite_of
from servebench.site.pages.page import PageFile, render
from servebench.site.pages.site import Site

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
    newest_first = sorted(
        site.headers.values(), key=lambda header: (started(header), header.run), reverse=True
    )
    years = [
        (year, list(many))
        for year, many in groupby(newest_first, key=lambda header: started(header).year)
    ]
    counted = tuple((year, len(many)) for year, many in years)
    lost = [one for one in reversed(site.sources.night_records) if one.status != "complete"]
    shown = tuple(lost[:LOST])
    yield _list_page(
        site, addresses.RUNS, "Runs", newest_first[:NEWEST], counted, len(newest_first), shown
    )
    for year, many in years:
        yield _list_page(
            site, addresses.year(year), f"Runs of {year}", many, counted, len(many), ()
        )


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


def _list_page(
    site: Site,
    address: str,
    title: str,
    headers: Sequence[RunHeader],
    years: tuple[tuple[int, int], ...],
    total: int,
    lost: tuple[NightRecord, ...],
) -> PageFile:
    return render(
        site,
        "runs.html.j2",
        address,
        title,
        "Every run with what it measured, what failed, and its raw file.",
        rows=[(started(header), run_row(header)) for header in headers],
        years=years,
        total=total,
        lost=lost,
    )


FULL: Final = 60
"""So many run files are shown in full: reading one takes a tenth of a second."""

_MEASURED: Final = CaseState("measured")


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The runs before and after one, of its machine and profile; empty: none."""

    before: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True)
class CaseLine:
    """One case of a night without its file.

    Attributes:
        figure: With its unit, of benchmarks; empty for others.
        odd: What is to be said of it.
    """

    case: str
    figure: str
    interval: str
    samples: int
    odd: CaseState


def pages(site: Site) -> Iterator[PageFile]:
    """One page for each run, and one for each commit that asv measured."""
    whole = set(list(site.runs)[-FULL:])
    beside = neighbours(site.headers)
    concerned = _concerned(site.changes)
    for run_id, night in site.nights.items():
        full, there = run_id in whole, beside[run_id]
        changes = concerned.get(run_id, ())
        yield _run_page(site, night, there, changes, full=full)


def neighbours(headers: Mapping[str, RunHeader]) -> dict[str, Neighbours]:
    """By run: the runs before and after it."""
    last: dict[tuple[str, str, str], str] = {}
    before: dict[str, str] = {}
    after: dict[str, str] = {}
    for run_id, header in headers.items():
        key = (header.machine, header.kind, header.profile)
        if key in last:
            before[run_id], after[last[key]] = last[key], run_id
        last[key] = run_id
    return {run: Neighbours(before.get(run, ""), after.get(run, "")) for run in headers}


def lines(night: RunColumns) -> list[CaseLine]:
    """Of a benchmarks' night every figure; of another one, what was odd."""
    header = night.header
    if header.track.served:
        return [
            CaseLine(header.cases[place], "", "", 0, odd)
            for place, odd in sorted(header.odd.items())
        ]
    found = []
    for place, case in enumerate(header.cases):
        odd = header.odd.get(place, _MEASURED)
        there = np.flatnonzero(~np.isnan(night.mean[place]))
        if not len(there):
            found.append(CaseLine(case, "", "", 0, odd))
            continue
        column = int(there[0])  # a benchmark has one unit
        mean, low, high = (
            float(block[place, column]) for block in (night.mean, night.low, night.high)
        )
        several = not np.isnan(low)
        count = int(night.launches[place, column])
        estimate = Estimate(
            n=count, mean=mean, low=low if several else None, high=high if several else None
        )
        unit = header.metrics[column]
        found.append(
            CaseLine(case, words.figure(mean, unit), words.spread(estimate, unit), count, odd)
        )
    return found


def suites(header: RunHeader, found: Sequence[CaseLine]) -> dict[str, tuple[CaseLine, ...]]:
    """The lines of a benchmarks' night by suite, since there are many; nothing of another night."""
    if header.track.served:
        return {}
    groups: dict[str, list[CaseLine]] = {}
    for line in found:
        groups.setdefault(suite_of(line.case), []).append(line)
    return {suite: tuple(many) for suite, many in groups.items()}


def _concerned(changes: tuple[ChangeRecord, ...]) -> dict[str, tuple[ChangeRecord, ...]]:
    found: dict[str, tuple[ChangeRecord, ...]] = {}
    for record in changes:
        for run in (record.before_run, record.after_run):
            if run:
                found[run] = (*found.get(run, ()), record)
    return found


def _run_page(
    site: Site,
    night: RunColumns,
    beside: Neighbours,
    changes: tuple[ChangeRecord, ...],
    *,
    full: bool,
) -> PageFile:
    header = night.header
    summary, problem = _summary(site, header.run) if full else (None, "")
    page = make_page(summary, site.published, site.about) if summary is not None else None
    found = lines(night)
    return render(
        site,
        "run.html.j2",
        addresses.run(header.run),
        f"Run {header.run}",
        f"What was measured on {header.machine} in run {header.run}.",
        night=night,
        header=header,
        row=run_row(header),
        started=started(header),
        beside=beside,
        changes=changes,
        interrupted=summary is not None and summary.run.status is RunStatus.PARTIAL,
        facts=page.facts if page else _facts(header),
        sections=page.sections if page else (),
        lines=found,
        suites=suites(header, found),
        problem=problem,
        raw=trace.links(site, header.run),
        commands=(
            trace.run_command(header),
            *(
                trace.command(case, header.profile, header.commit)
                for case in header.cases[:1]
            ),
        ),
    )  # fmt: skip


def _summary(site: Site, run_id: str) -> tuple[RunSummary | None, str]:
    try:
        return site.read_run(run_id), ""
    except RecordError as error:  # it was there a moment ago
        return None, str(error)


def _facts(header: RunHeader) -> tuple[tuple[str, str], ...]:
    return (
        ("profile", header.profile),
        ("machine", f"{header.machine}: {header.fingerprint}"),
        ("commit", header.commit or "none: not measured in a git repository"),
        *((f"interpreter {name}", told) for name, told in header.interpreters.items() if told),
        *(
            (
                f"stack {name}",
                f"{digest_[:12]}: "
                + ", ".join(
                    f"{package} {version}"
                    for package, version in header.packages.get(name, {}).items()
                ),
            )
            for name, digest_ in header.stacks.items()
        ),
    )
