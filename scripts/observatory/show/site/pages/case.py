"""The cases: a list of them, and for each its trends, newest figures and command."""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from markupsafe import Markup
from pydantic_core import to_json

from duetbench.app import case_names
from duetbench.app.case_names import CaseName
from duetbench.core.metrics import METRICS
from duetbench.core.model import Case, LoadModel
from duetbench.report import formats
from observatory.matrix.published import SHARED_PAGE
from observatory.show import addresses
from observatory.show.changes import ChangeText, describe
from observatory.show.site import words
from observatory.show.site.pages import trends
from observatory.show.site.pages.site import PageFile, Site, group, guard, render
from observatory.store.change import Change
from observatory.trend.table import Table

_NEVER: Final = datetime.min.replace(tzinfo=UTC)
_INSIDE: Final = "inprocess"
_MEANINGS: Final = {"instructions": "Counted in the process, for one request; not sampled."}
_NUMBERS: Final = re.compile(r"([0-9]+)")


def pages(site: Site) -> Iterator[PageFile]:
    """Make a page and a data file for each case that any run planned, and a list of all."""
    tables = site.cases()
    newest_runs = {case: run for run, night in site.nights.items() for case in night.cases}
    changes_by_case = site.changes_by_case()
    for case in dict.fromkeys((*tables, *newest_runs)):
        of_case, changes = tables.get(case, ()), changes_by_case.get(case, ())
        make = partial(_of_case, site, case, of_case, changes, newest_runs[case])
        yield from guard(site, addresses.case(case), case, make)
    yield from guard(site, addresses.CASES, "Cases", partial(_list, site, tables))


def _of_case(
    site: Site, case: str, tables: tuple[Table, ...], changes: tuple[Change, ...], newest_run: str
) -> Iterator[PageFile]:
    views = [_view(site, table, case) for table in tables]
    summaries = [summary for summary in site.newest if case in summary.cases]
    newest = max(summaries, key=lambda summary: summary.run.started, default=None)
    summary = newest.cases[case] if newest else None
    # The command measures the newest night of the first kind again.
    headers = [view["header"] for view in views if view["table"].kind == tables[0].kind]
    header = max(headers, key=lambda header: header.time, default=site.nights[newest_run])
    place = header.cases[case]
    facts = [("Python", place.python), ("stack", place.stack)]
    experiment, label = _experiment(site, case)
    # One night makes no line: its figures are below.
    has_line = tables and len(trends.nights(tables[0], case)) > 1
    yield render(
        site,
        "case.html.j2",
        addresses.case(case),
        case,
        f"Trend and newest figures of {case}.",
        case=case,
        experiment=experiment,
        experiment_label=label,
        views=views,
        since=trends.since(tables[0], case) if has_line else None,
        chart=trends.trend(case, tables[0]) if has_line else None,
        changes=[(describe(record), site.quote(record)) for record in changes],
        file=site.raw.get(newest_run, ""),
        facts=_declared_facts(summary.case) if summary else facts,
        command=words.point_command(header, case),
        data=addresses.data_file(case) if tables else "",
    )
    if tables:
        series = {table: trends.nights(table, case) for table in tables}
        document = trends.document(site, case, series, changes)
        yield PageFile(addresses.file(addresses.data_file(case)), to_json(document).decode())


def _view(site: Site, table: Table, case: str) -> dict[str, Any]:
    """Describe a case on one machine; a line is a metric's newest figure."""
    measured = trends.metrics(table, case)
    metric = next(iter((*measured, *table.metrics)), "")
    newest = trends.newest(table, case, metric)
    lines = []
    for name in measured:
        row, point = METRICS.get(name), trends.newest(table, case, name)
        meaning = row.meaning if row else _MEANINGS.get(name, "")
        lines.append((trends.title(name), *trends.cells(table, name, point)[:2], meaning))
    return {
        "table": table,
        "title": trends.title(metric, table),
        "newest": newest,
        "cells": trends.cells(table, metric, newest),
        "header": newest.night,
        "file": site.raw.get(newest.night.run, ""),
        "lines": lines,
    }


def _experiment(site: Site, case: str) -> tuple[str, str]:
    """Return the address and name of a case's experiment; no address if it has no page."""
    name = case.partition("/")[0]
    if name == _INSIDE:
        suite = suite_of(case)
        name = next(
            (declaration.page for declaration in site.suites if declaration.suite == suite),
            SHARED_PAGE,
        )
    elif name not in site.experiments():
        return "", name
    return addresses.experiment(name), name


def suite_of(case: str) -> str:
    """Return the suite of an in-process case: `gil` of `inprocess/gil.Cpu.time_tasks(…)/…`."""
    return case.partition("/")[2].partition(".")[0]


def _declared_facts(case: Case) -> list[tuple[str, str]]:
    endpoint, load = case.endpoint, case.load
    connections = formats.quantity(load.connections, "connection")
    model = f"closed loop, {connections}"
    if load.model is not LoadModel.CLOSED:
        model = f"{load.model.value}, {load.rate:g} requests/s, at most {connections}"
    method = "" if endpoint.method == "GET" else f"{endpoint.method} "
    further = len({endpoint.path, *endpoint.paths}) - 1
    request = f"{method}{endpoint.path}" + (f" and {further} more" if further else "")
    pairs = [
        ("endpoint", f"{request} ({endpoint.interface.upper()}, {endpoint.app})"),
        ("takes at least", formats.figure("service_min", endpoint.floor) if endpoint.floor else ""),
        ("Python", case.python),
        ("stack", case.stack),
        ("server", f"{case.server}, event loop {case.loop}"),
        ("workers", str(case.workers)),
        ("blocking threads per worker", str(case.threads or "")),
        ("load", f"{model}, {load.duration:g} s, timeout {load.timeout:g} s"),
        ("cores", "server and generator apart" if case.cores == "split" else "shared by both"),
        ("ceiling", formats.figure("ceiling", case.ceiling) if case.ceiling else ""),
        ("environment", ", ".join(f"{name}={text}" for name, text in case.env.items())),
        ("private variables", ", ".join(case.env_names)),
        ("before", "; ".join(case.before)),
        ("after each stop", "; ".join(case.after)),
    ]
    return [(name, text) for name, text in pairs if text]


def _list(site: Site, tables: Mapping[str, tuple[Table, ...]]) -> Iterator[PageFile]:
    """List all cases by experiment, below the newest figure of every endpoint."""
    cases = sorted(site.planned, key=_natural)
    yield render(
        site,
        "cases.html.j2",
        addresses.CASES,
        "Cases",
        "Every case with its newest figure.",
        groups=group((_group(case), case) for case in cases),
        rows=list(endpoint_rows(site, tables)),
    )


def endpoint_rows(
    site: Site, tables: Mapping[str, tuple[Table, ...]]
) -> Iterator[tuple[CaseName, Markup, str, str, ChangeText | None]]:
    """Return a row for each endpoint, server and interpreter: sketch, newest figure, last change.

    Of cases that differ only in workers, threads or load, it has the first. What moved last comes
    first.
    """
    cells: dict[tuple[str, str, str], CaseName] = {}
    for case in tables:
        name = case_names.name(case)
        if name.server:
            cells.setdefault((name.what, name.server, name.python), name)
    last = {case: newest for case, (newest, *_) in site.changes_by_case().items()}
    # A stable sort: cases without a change stay in the order of names.
    rows = sorted(cells.items())
    rows.sort(key=lambda row: last[row[1].id].when if row[1].id in last else _NEVER, reverse=True)
    for _, name in rows:
        change = last.get(name.id)
        figure, interval = trends.newest_figure(name.id, tables[name.id])
        sketch = trends.spark(name.id, tables[name.id])
        yield name, sketch, figure, interval, describe(change) if change else None


def _group(case: str) -> str:
    experiment = case.partition("/")[0]
    return f"{_INSIDE}: {suite_of(case)}" if experiment == _INSIDE else experiment


def _natural(case: str) -> tuple[bool, list[str | int]]:
    """Order in-process cases last, and 2 threads before 10."""
    parts = [int(part) if part.isdecimal() else part for part in _NUMBERS.split(case)]
    return case.startswith(f"{_INSIDE}/"), parts
