"""A run: what it was measured with, what it found, what failed, and its raw file.

The newest runs are shown in full, with the articles' figures beside theirs. Older ones have a short
page: what they measured is in their trends, and all of it in their file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from servebench.core.errors import RecordError
from servebench.core.model import RunStatus
from servebench.record.change import ChangeRecord
from servebench.report.page import make_page
from servebench.series.columns import CaseState, RunColumns, RunHeader
from servebench.series.summary import Estimate, RunSummary
from servebench.site.pages import addresses, cases, runs, trace, words
from servebench.site.pages.page import Page, render
from servebench.site.pages.site import Site

FULL: Final = 60
"""So many run files are shown in full: reading one takes a tenth of a second."""

_MEASURED: Final = CaseState("measured")


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The runs before and after one, of its machine and profile; empty: none."""

    before: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """One case of a night without its file.

    Attributes:
        case: Its id.
        figure: With its unit, of benchmarks; empty for others.
        interval: Of the figure.
        samples: How many it rests on.
        odd: What is to be said of it.
    """

    case: str
    figure: str
    interval: str
    samples: int
    odd: CaseState


def pages(site: Site) -> Iterator[Page]:
    """One page for each run, and one for each commit that asv measured."""
    whole = set(list(site.runs)[-FULL:])
    beside = neighbours(site.headers)
    concerned = _concerned(site.changes)
    for run_id, night in site.nights.items():
        path = addresses.file(addresses.run(run_id))
        full, there = run_id in whole, beside[run_id]
        changes = concerned.get(run_id, ())
        yield Page(path, _html(site, path, night, there, changes, full=full))


def neighbours(headers: Mapping[str, RunHeader]) -> dict[str, Neighbours]:
    """By run: the runs before and after it.

    Args:
        headers: Oldest first.
    """
    last: dict[tuple[str, str, str], str] = {}
    before: dict[str, str] = {}
    after: dict[str, str] = {}
    for run_id, header in headers.items():
        key = (header.machine, header.kind, header.profile)
        if key in last:
            before[run_id], after[last[key]] = last[key], run_id
        last[key] = run_id
    return {run: Neighbours(before.get(run, ""), after.get(run, "")) for run in headers}


def lines(night: RunColumns) -> list[Line]:
    """Of a benchmarks' night every figure; of another one, what was odd."""
    header = night.header
    if header.track.served:
        return [
            Line(header.cases[place], "", "", 0, odd) for place, odd in sorted(header.odd.items())
        ]
    found = []
    for place, case in enumerate(header.cases):
        odd = header.odd.get(place, _MEASURED)
        there = np.flatnonzero(~np.isnan(night.mean[place]))
        if not len(there):
            found.append(Line(case, "", "", 0, odd))
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
        found.append(Line(case, words.figure(mean, unit), words.spread(estimate, unit), count, odd))
    return found


def suites(header: RunHeader, found: Sequence[Line]) -> dict[str, tuple[Line, ...]]:
    """The lines of a benchmarks' night by suite, since there are many; nothing of another night."""
    if header.track.served:
        return {}
    groups: dict[str, list[Line]] = {}
    for line in found:
        groups.setdefault(cases.suite(line.case), []).append(line)
    return {suite: tuple(many) for suite, many in groups.items()}


def _concerned(changes: tuple[ChangeRecord, ...]) -> dict[str, tuple[ChangeRecord, ...]]:
    """By run: the changes that it is next to."""
    found: dict[str, tuple[ChangeRecord, ...]] = {}
    for record in changes:
        for run in (record.before_run, record.after_run):
            if run:
                found[run] = (*found.get(run, ()), record)
    return found


def _html(
    site: Site,
    path: str,
    night: RunColumns,
    beside: Neighbours,
    changes: tuple[ChangeRecord, ...],
    *,
    full: bool,
) -> str:
    header = night.header
    summary, problem = _summary(site, header.run) if full else (None, "")
    page = make_page(summary, site.published, site.about) if summary is not None else None
    found = lines(night)
    return render(
        site,
        "run.html.j2",
        path=path,
        title=f"Run {header.run}",
        description=f"What was measured on {header.machine} in run {header.run}.",
        night=night,
        header=header,
        row=runs.row(header),
        started=runs.started(header),
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
    """The run, read; or why it cannot be."""
    try:
        return site.read_run(run_id), ""
    except RecordError as error:  # it was there a moment ago
        return None, str(error)


def _facts(header: RunHeader) -> tuple[tuple[str, str], ...]:
    """What a night without its file knows of itself."""
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
