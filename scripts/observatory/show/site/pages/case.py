"""The cases: for each its trends, newest figures and command."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from pydantic_core import to_json

from observatory.show import addresses, quoting
from observatory.show.site import words
from observatory.show.site.pages import trends
from observatory.show.site.pages.experiment import page_of
from observatory.show.site.pages.site import PageFile, Site, explanations, guard, render
from observatory.show.site.pages.story import request_table
from observatory.store.change import Change
from observatory.trend.table import Table


def pages(site: Site) -> Iterator[PageFile]:
    """Make a page and a data file for each case that any run planned."""
    tables = site.cases
    newest_runs = {case: run for run, night in site.nights.items() for case in night.cases}
    changes_by_case = site.changes_by_case
    for case in dict.fromkeys((*tables, *newest_runs)):
        of_case, changes = tables.get(case, ()), changes_by_case.get(case, ())
        make = partial(_of_case, site, case, of_case, changes, newest_runs[case])
        yield from guard(site, addresses.case(case), case, make)


def _of_case(
    site: Site, case: str, tables: tuple[Table, ...], changes: tuple[Change, ...], newest_run: str
) -> Iterator[PageFile]:
    views = [_view(site, table, case) for table in tables]
    # The command measures the newest night of the first kind again.
    last = (view["night"] for view in views if view["table"].kind == tables[0].kind)
    night = max(last, key=lambda night: night.time, default=site.nights[newest_run])
    experiment = page_of(case)
    main = next(iter(trends.metrics(tables[0], case)), "") if tables else ""
    # One night makes no line: its figures are below.
    has_line = tables and len(trends.nights(tables[0], case)) > 1
    yield render(
        site,
        "case.html.j2",
        addresses.case(case),
        case,
        f"Trend and newest figures of {case}.",
        case=case,
        experiment=experiment if experiment in site.experiments else "",
        views=views,
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
        file=site.raw.get(newest_run, ""),
        command=words.point_command(night, case),
        data=addresses.data_file(case) if tables else "",
    )
    if tables:
        series = {table: trends.nights(table, case) for table in tables}
        document = trends.document(site, case, series)
        yield PageFile(addresses.file(addresses.data_file(case)), to_json(document).decode())


def _view(site: Site, table: Table, case: str) -> dict[str, Any]:
    """Describe a case on one machine; a line is a metric's newest figure, the main one's first."""
    names = trends.metrics(table, case) or table.metrics[:1]
    points = {name: trends.newest(table, case, name) for name in names}
    night = points[names[0]].night
    return {
        "table": table,
        "title": trends.title(names[0], table),
        "night": night,
        "lines": [
            (quoting.title(n), *trends.cells(table, n, point)) for n, point in points.items()
        ],
        "file": site.raw.get(night.run, ""),
    }
