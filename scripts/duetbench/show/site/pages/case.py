"""The cases: lists of them, and for each its trends, newest figures and command."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from markupsafe import Markup

from duetbench.core.interval import Interval
from duetbench.core.metrics import METRICS
from duetbench.core.model import Case, Endpoint, LoadModel
from duetbench.project import names
from duetbench.project.suites import SHARED_PAGE
from duetbench.show import addresses
from duetbench.show.change import ChangeText, describe
from duetbench.show.site import words
from duetbench.show.site.charts.figure import Caption, interval
from duetbench.show.site.data import dense
from duetbench.show.site.pages import trends
from duetbench.show.site.pages.site import PageFile, Site, grouped, render
from duetbench.store.change import Change
from duetbench.trend import table as history
from duetbench.trend.table import Point, Table

_INSIDE: Final = "inprocess"
_MEANINGS: Final = {"instructions": "Counted inside the process, of one request; not sampled."}
_NUMBERS: Final = re.compile(r"([0-9]+)")
_MOST_SIBLINGS: Final = 12


def pages(site: Site) -> Iterator[PageFile]:
    """One page for each case that any run planned, with its data file; and lists of cases."""
    tables = site.cases()
    before = {header.cases: run for run, header in site.headers.items()}  # mostly the same cases
    newest_runs = {case: run for planned, run in before.items() for case in planned}
    concerned = grouped(
        (case, record)
        for record in site.changes
        for case in dict.fromkeys(name.case for name in (record.series, *record.others))
    )
    kin = grouped((endpoint(case), case) for case in tables)
    for case in dict.fromkeys((*tables, *newest_runs)):
        of_case, changes = tables.get(case, ()), concerned.get(case, ())
        siblings = [
            other for other in kin.get(endpoint(case), ()) if other != case and endpoint(case)
        ]
        yield _page(site, case, of_case, changes, newest_runs[case], siblings)
        if of_case:
            document = trends.document(site, case, of_case, changes)
            yield PageFile(
                addresses.file(addresses.data_file(case)), dense(document).decode("utf-8")
            )
    yield from _lists(site, tables)


def _page(
    site: Site,
    case: str,
    tables: tuple[Table, ...],
    changes: tuple[Change, ...],
    newest_run: str,
    siblings: Sequence[str],
) -> PageFile:
    views = [_view(site, table, case) for table in tables]
    summaries = [summary for summary in site.newest.values() if case in summary.cases]
    described = max(summaries, key=lambda summary: summary.run.started, default=None)
    summary = described.cases[case] if described else None
    # Of points against the anchor, the newest is measured again.
    alike = [view["header"] for view in views if view["table"].kind == tables[0].kind]
    header = max(alike, key=lambda header: header.time, default=site.headers[newest_run])
    place = header.cases.index(case)
    recorded = [("Python", header.pythons[place]), ("stack", header.stack_of[place])]
    experiment, label = _experiment(site, case)
    sources = {
        names.name(sibling).variant: addresses.data_file(sibling)
        for sibling in siblings[:_MOST_SIBLINGS]
    }
    caption = (
        "Ratios to the frozen anchor, at the time of each stack."
        if (tables and tables[0].track.ratio)
        else ""
    )
    source = addresses.data_file(case)
    about = Caption("trend", views[0]["title"], caption) if views else None
    return render(
        site,
        "case.html.j2",
        addresses.case(case),
        case,
        f"Trend and newest figures of {case}.",
        case=case,
        experiment=experiment,
        experiment_label=label,
        prefixes=prefixes(site, case),
        views=views,
        chart=trends.trend(case, tables, source, sources, about) if about else None,
        changes=[(text, _where(text, case)) for text in map(describe, changes)],
        files=site.files_of(newest_run),
        summary=summary,
        facts=_declared_facts(summary.case) if summary else recorded,
        command=words.point_command(header, case),
        data=source if tables else "",
    )


def _view(site: Site, table: Table, case: str) -> dict[str, Any]:
    """What the page says of a case on one machine."""
    measured = trends.metrics(table, case)
    metric = measured[0] if measured else (table.metrics[0] if table.metrics else "")
    night, newest = _newest(table, case, metric)
    return {
        "table": table,
        "title": trends.title(metric, table),
        "newest": newest,
        "figure": words.figure(newest.mean, trends.unit(table, metric)),
        "interval": _interval(table, newest, metric),
        "header": table.nights[night],
        "files": site.files_of(newest.run),
        "lines": list(_lines(table, newest, night, case, measured)),
    }


def _newest(table: Table, case: str, metric: str) -> tuple[int, Point]:
    """The last night that planned a case, and what it measured."""
    night = int(np.flatnonzero(table.status[:, table.cases.index(case)])[-1])
    return night, history.point(table, night, case, metric)


def _lines(
    table: Table, newest: Point, night: int, case: str, metrics: tuple[str, ...]
) -> Iterator[dict[str, Any]]:
    """Each metric of a case: its newest figure, and the range of all nights."""
    row = table.cases.index(case)
    of_case = np.ascontiguousarray(table.mean[:, row])
    counts = np.count_nonzero(~np.isnan(of_case), axis=0).tolist()
    lowest, highest = (end.reduce(of_case, axis=0).tolist() for end in (np.fmin, np.fmax))
    ends = (block[night, row].tolist() for block in (table.mean, table.low, table.high))
    mean, low, high = ([None if math.isnan(number) else number for number in end] for end in ends)
    for metric in metrics:
        column = table.metrics.index(metric)
        known_metric = METRICS.get(metric)
        point = replace(newest, mean=mean[column], low=low[column], high=high[column])
        unit = trends.unit(table, metric)
        span = (words.figure(end[column], unit) for end in (lowest, highest))
        yield {
            "title": trends.title(metric),
            "meaning": known_metric.meaning if known_metric else _MEANINGS.get(metric, ""),
            "figure": words.figure(point.mean, unit),
            "interval": _interval(table, point, metric),
            "range": " … ".join(span) if counts[column] > 1 else "",
            "nights": counts[column],
        }


def _interval(table: Table, point: Point, metric: str) -> str:
    if point.mean is None:
        return point.reason or (point.status if point.status != "measured" else "not in this run")
    if table.track.ratio:
        return interval(trends.quantity(table, metric), trends.value(point))
    estimate = Interval(point.mean, point.low, point.high, point.launches)
    return words.spread(estimate, metric)


def _where(change: ChangeText, case: str) -> str:
    """What of the case a change moved: `CPU/request on xeon-2c`."""
    record = change.record
    series = [name for name in (record.series, *record.others) if name.case == case]
    return ", ".join(
        dict.fromkeys(f"{trends.title(name.metric)} on {name.machine}" for name in series)
    )


def _experiment(site: Site, case: str) -> tuple[str, str]:
    """Address and name of the experiment that a case belongs to; empty if it has no page."""
    name = case.partition("/")[0]
    if name == _INSIDE:
        suite = suite_of(case)
        name = next(
            (declared.page for declared in site.suites if declared.suite == suite), SHARED_PAGE
        )
    elif name not in site.experiments():
        return "", name
    return addresses.experiment(name), name


def endpoint(case: str) -> str:
    """The experiment and endpoint that a case's id begins with; empty: it names no more."""
    first, second, *rest = (*case.split("/", 2), "", "")
    return f"{first}/{second}" if rest[0] and first != _INSIDE else ""


def suite_of(case: str) -> str:
    """The suite of a case inside the process: `gil` of `inprocess/gil.Cpu.time_tasks(…)/…`."""
    return case.partition("/")[2].partition(".")[0]


def prefixes(site: Site, case: str) -> list[tuple[str, str]]:
    """Lists between the experiment's page and the case's: address and label."""
    name = endpoint(case)
    if not name or name in site.planned:
        return []
    return [(addresses.prefix(name), name.partition("/")[2])]


def _request(endpoint: Endpoint) -> str:
    method = "" if endpoint.method == "GET" else f"{endpoint.method} "
    further = len({endpoint.path, *endpoint.paths}) - 1
    return f"{method}{endpoint.path}" + (f" and {further} more" if further else "")


def _declared_facts(case: Case) -> list[tuple[str, str]]:
    endpoint, load = case.endpoint, case.load
    connections = words.quantity(load.connections, "connection")
    model = f"closed loop, {connections}"
    if load.model is not LoadModel.CLOSED:
        model = f"{load.model.value}, {load.rate:g} requests/s, at most {connections}"
    pairs = [
        ("endpoint", f"{_request(endpoint)} ({endpoint.interface.upper()}, {endpoint.app})"),
        ("takes at least", words.figure(endpoint.floor, "service_min") if endpoint.floor else ""),
        ("Python", case.python),
        ("stack", case.stack),
        ("server", f"{case.server}, event loop {case.loop}"),
        ("workers", str(case.workers)),
        ("blocking threads per worker", str(case.threads or "")),
        ("load", f"{model}, {load.duration:g} s, timeout {load.timeout:g} s"),
        ("cores", "server and generator apart" if case.cores == "split" else "shared by both"),
        ("ceiling", case.ceiling or ""),
        ("environment", ", ".join(f"{name}={text}" for name, text in case.env.items())),
        ("private variables", ", ".join(case.env_names)),
        ("before each start", "; ".join(case.before)),
        ("after each stop", "; ".join(case.after)),
    ]
    return [(name, text) for name, text in pairs if text]


def _lists(site: Site, tables: dict[str, tuple[Table, ...]]) -> Iterator[PageFile]:
    """All cases; those of each experiment; and the variants of each endpoint."""
    every = sorted(site.planned, key=_natural)
    groups = grouped((_group(case), case) for case in every)
    yield _list(site, addresses.CASES, "Cases", "", groups, {})
    experiments = grouped((case.partition("/")[0], case) for case in every)
    for experiment, cases in experiments.items():
        endpoints = grouped((endpoint(case) or _group(case), case) for case in cases)
        if experiment not in site.planned:
            title = f"Cases of {experiment}"
            yield _list(site, addresses.prefix(experiment), title, experiment, endpoints, tables)
        for name, variants in endpoints.items():
            if endpoint(variants[0]) and name not in site.planned:
                titles = {name.what for name in map(names.name, variants) if name.known}
                title = titles.pop() if len(titles) == 1 else f"Cases of {name}"
                groups = {"": variants}
                yield _list(site, addresses.prefix(name), title, experiment, groups, tables)


def _list(
    site: Site,
    address: str,
    title: str,
    experiment: str,
    groups: dict[str, tuple[str, ...]],
    tables: dict[str, tuple[Table, ...]],
) -> PageFile:
    """A list, with figures where `tables` are given."""
    return render(
        site,
        "cases.html.j2",
        address,
        title,
        "Every case with its newest figure.",
        experiment=experiment if experiment in site.experiments() else "",
        nested=bool(experiment),
        groups={
            name: [_row(case, tables.get(case, ())) for case in cases]
            for name, cases in groups.items()
        },
        figures=bool(tables),
    )


def _row(case: str, tables: Sequence[Table]) -> tuple[str, str, str, Markup | str]:
    """A case, its newest absolute figure with its interval, and a sketch of its first series."""
    table = next((table for table in tables if not table.track.ratio), next(iter(tables), None))
    metric = next(iter(trends.metrics(table, case)), "") if table else ""
    if table is None or not metric:
        return case, "", "", ""
    _, newest = _newest(table, case, metric)
    figure = words.figure(newest.mean, trends.unit(table, metric))
    return case, figure, _interval(table, newest, metric), trends.spark(tables[0], case)


def _group(case: str) -> str:
    experiment = case.partition("/")[0]
    return f"{_INSIDE}: {suite_of(case)}" if experiment == _INSIDE else experiment


def _natural(case: str) -> tuple[bool, list[str | int]]:
    """Inside the process last; 2 threads stand before 10."""
    parts = [int(part) if part.isdecimal() else part for part in _NUMBERS.split(case)]
    return case.startswith(f"{_INSIDE}/"), parts
