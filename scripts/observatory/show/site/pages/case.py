"""The cases: for each its trends, newest figures and command."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from pydantic_core import to_json

from duetbench.load.summary import RunSummary
from duetbench.report import formats
from observatory.show import addresses, quoting
from observatory.show.site import words
from observatory.show.site.pages import trends
from observatory.show.site.pages.experiment import page_of
from observatory.show.site.pages.site import PageFile, Site, explanations, guard, render
from observatory.show.site.pages.story import request_table
from observatory.trend.table import COLUMNS, Table


@dataclass(frozen=True, slots=True)
class View:
    """The newest figures of a case on one machine.

    Attributes:
        anchor: What ratios stand against; empty for absolute figures.
        lines: Metric, figure and interval, the main metric first.
    """

    machine: str
    time: str | float
    lines: list[tuple[str, str, str]]
    note: str
    file: str
    anchor: str = ""


def pages(site: Site) -> Iterator[PageFile]:
    """Make a page and a data file for each case that any night or run planned."""
    for case in sorted(site.planned):
        yield from guard(site, addresses.case(case), case, partial(_of_case, site, case))


def _of_case(site: Site, case: str) -> Iterator[PageFile]:
    tables, changes = site.cases.get(case, ()), site.changes_by_case.get(case, ())
    nights = [trends.newest(table, case, table.metrics[0]).night for table in tables]
    runs = [summary for summary in site.newest if case in summary.cases]
    newest = runs[0].run if runs else None
    experiment = page_of(case)
    main = next(iter(trends.metrics(tables[0], case)), "") if tables else ""
    # One night makes no line: its figures are below.
    has_line = tables and tables[0].length(case) > 1
    yield render(
        site,
        "case.html.j2",
        addresses.case(case),
        case,
        f"Trend and newest figures of {case}.",
        case=case,
        experiment=experiment if experiment in site.experiments else "",
        views=[*(_ratios(site, table, case) for table in tables), *_figures(site, case, runs)],
        since=trends.since(tables[0], case) if has_line else None,
        chart=trends.trend(case, tables[0]) if has_line else None,
        changes=sorted(
            ((record, site.quote(record)) for record in changes),
            key=lambda change: change[1] is None or change[1].metric != main,
        ),
        # What has no release has no page but this one.
        traces=[
            (
                record,
                explanations([record]),
                request_table(site, None, record.evidence),
            )
            for record in changes
            if not site.quote(record) and record.series.case == case
        ],
        file=site.raw.get(site.sources.planned.get(case, ""), ""),
        command=words.point_command(
            case, max(nights, key=lambda night: night.time, default=newest)
        ),
        data=addresses.data_file(case) if tables else "",
    )
    if tables:
        series = {table: table.planned_nights(case) for table in tables}
        document = trends.document(site, case, series)
        yield PageFile(addresses.file(addresses.data_file(case)), to_json(document).decode())


def _ratios(site: Site, table: Table, case: str) -> View:
    names = trends.metrics(table, case) or table.metrics[:1]
    points = {name: trends.newest(table, case, name) for name in names}
    first = points[names[0]]
    return View(
        table.machine,
        first.night.time,
        [(quoting.title(name), *trends.cells(point)[:2]) for name, point in points.items()],
        first.reason,
        site.raw.get(first.night.id, ""),
        first.night.anchor,
    )


def _figures(site: Site, case: str, runs: Sequence[RunSummary]) -> Iterator[View]:
    """Yield a case's absolute figures in the newest of the runs on each machine."""
    newest = {run.run.machine.id: run for run in reversed(runs)}
    for machine, summary in sorted(newest.items()):
        own, run = summary.cases[case], summary.run
        lines = [
            (quoting.title(name), *formats.cells(name, own.metrics[name]))
            for name in COLUMNS
            if name in own.metrics
        ]
        state = "" if own.status == "measured" else own.status
        reasons = [state, own.missing, *own.failures[:1]]
        reasons += [", ".join(warning.name for warning in own.warnings)]
        lines = lines or [("", formats.MISSING, "")]
        yield View(machine, run.started, lines, "; ".join(filter(None, reasons)), site.raw[run.id])
