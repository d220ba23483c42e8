"""The cases: for each its trends, newest figures and command."""

import glob
import shlex
from collections.abc import Iterator
from functools import partial

from pydantic_core import to_json

from duetbench.core.model import Run
from duetbench.load.summary import RunSummary
from duetbench.report import formats
from observatory.show import addresses, quoting
from observatory.show.site.pages import trends
from observatory.show.site.pages.experiment import page_of, profile_of
from observatory.show.site.pages.site import Context, Page, Site
from observatory.show.site.pages.story import request_table
from observatory.store.points import Points
from observatory.trend.table import COLUMNS, Table


def pages(site: Site) -> Iterator[Page]:
    """List a page and a data file for each case that any night or run planned."""
    for case in sorted(site.planned):
        yield site.page(addresses.case(case), case, "case", partial(_page, site, case))
        if tables := site.cases.get(case):
            yield Page(addresses.data_file(case), case, partial(_data, site, case, tables))


def _data(site: Site, case: str, tables: tuple[Table, ...]) -> str:
    series = {table: table.planned_nights(case) for table in tables}
    return to_json(trends.document(site, case, series)).decode()


def _page(site: Site, case: str) -> Context:
    tables, changes = site.cases.get(case, ()), site.changes_by_case.get(case, ())
    runs = {run.run.machine.id: run for run in reversed(site.newest) if case in run.cases}
    newest = max((run.run for run in runs.values()), key=lambda run: run.started, default=None)
    nights = [trends.newest(table, case, table.metrics[0]).night for table in tables]
    point = max(nights, key=lambda night: night.time) if nights else newest
    experiment = page_of(case)
    main = next(iter(trends.metrics(tables[0], case)), "") if tables else ""
    # One night makes no line: its figures are below.
    line = tables[0] if tables and tables[0].length(case) > 1 else None
    quoted = [(record, site.quote(record)) for record in changes]
    return {
        "case": case,
        "experiment": experiment if experiment in site.experiments else "",
        "views": [
            *(_ratios(site, table, case) for table in tables),
            *(_figures(site, case, run) for _, run in sorted(runs.items())),
        ],
        "since": trends.since(line, case) if line else None,
        "chart": trends.trend(case, line) if line else None,
        "changes": sorted(quoted, key=lambda change: not change[1] or change[1].metric != main),
        # What has no release has no page but this one.
        "traces": [
            (record, quoting.explanations([record]), request_table(site, None, record.evidence))
            for record, quote in quoted
            if not quote and record.series.case == case
        ],
        "file": site.raw.get(site.sources.planned.get(case, ""), ""),
        "command": point_command(case, point),
        "data": addresses.data_file(case) if tables else "",
    }


def point_command(case: str, of: Points | Run | None) -> str:
    """Return the shell command that measures a case again, as a night or a run did."""
    select = ("--select", glob.escape(case))
    if isinstance(of, Points) and of.as_of is not None:
        days = ("--since", of.as_of, "--until", of.as_of)
        return shlex.join(("observatory", "backfill", *days, *select))
    if isinstance(of, Points):
        words: tuple[str, ...] = ("anchor", "run")
    else:
        words = ("measure", "--profile", profile_of(of))
    command = shlex.join(("observatory", *words, *select))
    if of is None or not of.commit or not of.commit.isalnum():
        return command
    return f"git switch --detach {of.commit[:12]} && observatory setup && {command}"


def _ratios(site: Site, table: Table, case: str) -> Context:
    """Show the newest night's ratios to the anchor: metric, figure and interval."""
    names = trends.metrics(table, case) or table.metrics[:1]
    points = {name: trends.newest(table, case, name) for name in names}
    first = points[names[0]]
    return {
        "machine": table.machine,
        "time": first.night.time,
        "lines": [(quoting.title(name), *trends.cells(p)[:2]) for name, p in points.items()],
        "note": first.reason,
        "file": site.raw.get(first.night.id, ""),
        "anchor": first.night.anchor,
    }


def _figures(site: Site, case: str, summary: RunSummary) -> Context:
    """Show a case's own figures in a run: metric, figure and interval."""
    own, run = summary.cases[case], summary.run
    lines = [
        (quoting.title(name), *formats.cells(name, own.metrics[name]))
        for name in COLUMNS
        if name in own.metrics
    ]
    state = "" if own.status == "measured" else own.status
    reasons = [state, own.missing, *own.failures[:1]]
    reasons += [", ".join(warning.name for warning in own.warnings)]
    return {
        "machine": run.machine.id,
        "time": run.started,
        "lines": lines or [("", formats.MISSING, "")],
        "note": "; ".join(filter(None, reasons)),
        "file": site.raw[run.id],
        "anchor": "",
    }
