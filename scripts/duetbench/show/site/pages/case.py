"""The cases: a list of them, and for each its trends, newest figures, launches and command."""

import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from markupsafe import Markup

from duetbench.core.flags import DISTURBING
from duetbench.core.interval import Interval
from duetbench.core.metrics import HEADLINES, METRICS
from duetbench.core.model import Case, Endpoint, Launch, LoadModel, Status
from duetbench.project.suites import SHARED_PAGE
from duetbench.show.change import ChangeText, describe
from duetbench.show.site import data_files
from duetbench.show.site.charts import trend
from duetbench.show.site.charts.data import Caption, Quantity, Value, interval
from duetbench.show.site.charts.figure import Chart
from duetbench.show.site.charts.forest import Dot, DotGroup, Forest, forest
from duetbench.show.site.pages import addresses, trace, trends, words
from duetbench.show.site.pages.page import PageFile, markup, render
from duetbench.show.site.pages.site import Site, Trended, grouped, has_page
from duetbench.store.change import Change
from duetbench.trend import table as history
from duetbench.trend.columns import RunHeader
from duetbench.trend.summary import RunSummary
from duetbench.trend.table import Point, Table

_INSIDE: Final = "inprocess"
_MEANINGS: Final = {"instructions": "Counted inside the process, of one request; not sampled."}
_MODULES: Final = ("js/keyboard.js", "js/trend.js")

Folders = Mapping[Trended, Mapping[str, Mapping[str, str]]]
"""Machine and kind → case → metric → folder of its files."""


@dataclass(frozen=True, slots=True)
class MetricLine:
    """One metric of a case on one machine.

    Attributes:
        range: From the lowest to the highest of all nights.
        nights: How many have a figure.
    """

    metric: str
    title: str
    meaning: str
    figure: str
    interval: str
    range: str
    nights: int


@dataclass(frozen=True, slots=True)
class CaseView:
    """A case on one machine."""

    table: Table
    metric: str
    title: str
    newest: Point
    figure: str
    interval: str
    header: RunHeader
    chart: Markup
    lines: tuple[MetricLine, ...]


def pages(site: Site) -> Iterator[PageFile]:
    """One page for each case that any run planned."""
    tables = site.cases()
    before = {header.cases: run for run, header in site.headers.items()}  # mostly the same cases
    seen = {case: run for planned, run in before.items() for case in planned}
    newest = {(one.machine, one.kind, one.profile): one for one in site.headers.values()}
    concerned = grouped(
        (case, record)
        for record in site.changes
        for case in dict.fromkeys(one.case for one in (record.series, *record.others))
    )
    folders = _folders(site)
    for case in filter(has_page, dict.fromkeys((*tables, *seen))):
        others = tuple(header for header in newest.values() if case in header.cases)
        here = tables.get(case, ())
        yield _page(site, case, here, concerned.get(case, ()), others, seen[case], folders)


def _page(
    site: Site,
    case: str,
    tables: tuple[Table, ...],
    changes: tuple[Change, ...],
    others: tuple[RunHeader, ...],
    seen: str,
    folders: Folders,
) -> PageFile:
    address = addresses.case(case)
    root = addresses.root(addresses.file(address))
    views = [
        _view(site, root, table, case, changes, "trend" if place == 0 else f"trend-{place + 1}")
        for place, table in enumerate(tables)
    ]
    # How to measure it, and with what launches, is told of its own figures.
    own = next((view for view in views if view.table.track.served), None)
    summaries = [one for one in site.newest.values() if case in one.cases]
    described = max(summaries, key=lambda one: one.run.started, default=None)
    summary = described.cases[case] if described else None
    known = (name for name in HEADLINES if summary and name in summary.metrics)
    metric = own.metric if own and own.metric in METRICS else next(known, None)
    each = None
    if metric is not None:
        each = launch_chart(summaries, case, metric, lambda run: root + addresses.run(run))
    header = views[0].header if views else site.headers[seen]
    place = header.cases.index(case)
    recorded = [("Python", header.pythons[place]), ("stack", header.stack_of[place])]
    experiment, label = _experiment(site, case)
    return render(
        site,
        "case.html.j2",
        address,
        case,
        f"Trend and newest figures of {case}.",
        modules=_MODULES if views else _MODULES[:1],
        case=case,
        experiment=experiment,
        experiment_label=label,
        prefixes=prefixes(case, site.planned),
        views=views,
        data=_for_scripts(folders, case, tables, changes, root) if views else None,
        changes=[(one, _where(one, case)) for one in map(describe, changes)],
        others=[one for one in others if all(one.run != view.newest.run for view in views)],
        seen=seen,
        launches=None if each is None else markup(each),
        summary=summary,
        facts=_declared_facts(summary.case) if summary else recorded,
        command=trace.again(header, case),
        links=trace.links(site, views[0].newest.run if views else seen),
        files=_files(site, folders, case, tables),
    )


def _view(
    site: Site, root: str, table: Table, case: str, changes: tuple[Change, ...], anchor: str
) -> CaseView:
    names = trends.metrics(table, case)
    metric = names[0] if names else (table.metrics[0] if table.metrics else "")
    night = int(np.flatnonzero(table.status[:, table.cases.index(case)])[-1])
    happened = site.events[table.machine, table.kind]
    data = trends.trend(root, table, happened, changes, case, metric, anchor)
    newest = history.point(table, night, case, metric)
    return CaseView(
        table=table,
        metric=metric,
        title=trends.title(metric),
        newest=newest,
        figure=words.figure(newest.mean, trends.unit(table, metric)),
        interval=_interval(table, newest, metric),
        header=table.nights[night],
        chart=markup(trend.trend(data)),
        lines=tuple(_lines(table, newest, night, case, names)),
    )


def _lines(
    table: Table, newest: Point, night: int, case: str, names: tuple[str, ...]
) -> Iterator[MetricLine]:
    row = table.cases.index(case)
    of_case = np.ascontiguousarray(table.mean[:, row])
    counts = np.count_nonzero(~np.isnan(of_case), axis=0).tolist()
    lowest, highest = (end.reduce(of_case, axis=0).tolist() for end in (np.fmin, np.fmax))
    ends = (block[night, row].tolist() for block in (table.mean, table.low, table.high))
    mean, low, high = ([None if math.isnan(one) else one for one in end] for end in ends)
    for metric in names:
        column = table.metrics.index(metric)
        known = METRICS.get(metric)
        point = replace(newest, mean=mean[column], low=low[column], high=high[column])
        written = trends.unit(table, metric)
        span = (words.figure(end[column], written) for end in (lowest, highest))
        yield MetricLine(
            metric=metric,
            title=trends.title(metric),
            meaning=known.meaning if known else _MEANINGS.get(metric, ""),
            figure=words.figure(point.mean, written),
            interval=_interval(table, point, metric),
            range=" … ".join(span) if counts[column] > 1 else "",
            nights=counts[column],
        )


def _interval(table: Table, point: Point, metric: str) -> str:
    if point.mean is None:
        return point.reason or (point.status if point.status != "measured" else "not in this run")
    if table.track.ratio:
        return interval(trends.quantity(table, metric, ""), trends.value(point, with_ends=True))
    estimate = Interval(point.mean, point.low, point.high, point.launches)
    return words.spread(estimate, metric)


def _where(change: ChangeText, case: str) -> str:
    """What of the case a change moved: `CPU/request on xeon-2c`."""
    record = change.record
    names = [one for one in (record.series, *record.others) if one.case == case]
    return ", ".join(dict.fromkeys(f"{trends.title(one.metric)} on {one.machine}" for one in names))


def _experiment(site: Site, case: str) -> tuple[str, str]:
    """Address and name of the experiment that a case belongs to; empty if it has no page."""
    name = case.partition("/")[0]
    if name == _INSIDE:
        suite = suite_of(case)
        name = next((one.page for one in site.suites if one.suite == suite), SHARED_PAGE)
    elif name not in site.experiments():
        return "", name
    return addresses.experiment(name), name


def endpoint(case: str) -> str:
    """The experiment and endpoint that a case's id begins with; empty: it names no more."""
    first, second, *rest = (*case.split("/", 2), "", "")
    return f"{first}/{second}" if rest[0] and first != _INSIDE else ""


def prefixes(case: str, planned: Container[str]) -> list[tuple[str, str]]:
    """Pages between the experiment's and the case's: address and label."""
    name = endpoint(case)
    if not name or name in planned:
        return []
    return [(addresses.prefix(name), name.partition("/")[2])]


def _folders(site: Site) -> Folders:
    """Where the figures of all cases are, looked through once for all pages."""
    found: dict[Trended, dict[str, dict[str, str]]] = {}
    for key, many in site.shards.items():
        table, by_case = site.tables[key], found.setdefault(key, {})
        for shard in many:
            for case, metric in shard.series:
                by_case.setdefault(table.cases[case], {})[table.metrics[metric]] = shard.id
    return found


def _for_scripts(
    where: Folders, case: str, tables: Iterable[Table], changes: Iterable[Change], root: str
) -> dict[str, Any]:
    """What the page's script needs to know to fetch and draw every series of the case."""
    return {
        "case": case,
        "machines": [
            {
                # The data's folder tells a machine's ratios from its own figures.
                "id": data_files.table_folder(table) if table.track.ratio else table.machine,
                "label": trends.label(table),
                "nights": data_files.table_folder(table),
                "stack": trends.stack_of(table, case),
                "interval": table.track.interval_title,
                "metrics": [
                    {
                        "name": one,
                        "title": trends.title(one, table),
                        "format": trends.format_name(trends.unit(table, one)),
                    }
                    for one in trends.metrics(table, case)
                ],
                "shards": where[table.machine, table.kind].get(case, {}),
                "changes": [
                    _moved(record, name.metric, root)
                    for record in changes
                    for name in (record.series, *record.others)
                    if name.machine == table.machine and name.case == case
                ],
            }
            for table in tables
        ],
    }


def _moved(record: Change, metric: str, root: str) -> dict[str, Any]:
    change = describe(record)
    parts = (f"{change.word} {change.change} ({change.interval})", change.cause)
    return {
        "metric": metric,
        "time": record.when.timestamp(),
        "verdict": record.verdict.value,
        "ratio": record.ratio,
        "label": ", ".join(filter(None, parts)),
        "href": root + addresses.change(record.id),
    }


def _files(site: Site, where: Folders, case: str, tables: Iterable[Table]) -> list[str]:
    """Addresses of the data files of the case."""
    series = site.manifest.get("series", {})
    shards = [where[table.machine, table.kind].get(case, {}).values() for table in tables]
    return [
        f"series/{shard}/{year}-{entry[0]}.json"
        for many in shards
        for shard in dict.fromkeys(many)
        for year, entry in sorted(series.get(shard, {}).items())
    ]


def _asked(endpoint: Endpoint) -> str:
    method = "" if endpoint.method == "GET" else f"{endpoint.method} "
    further = len({endpoint.path, *endpoint.paths}) - 1
    return f"{method}{endpoint.path}" + (f" and {further} more" if further else "")


def _declared_facts(case: Case) -> list[tuple[str, str]]:
    endpoint, load = case.endpoint, case.load
    connections = words.many(load.connections, "connection")
    model = f"closed loop, {connections}"
    if load.model is not LoadModel.CLOSED:
        model = f"{load.model.value}, {load.rate:g} requests/s, at most {connections}"
    pairs = [
        ("endpoint", f"{_asked(endpoint)} ({endpoint.interface.upper()}, {endpoint.app})"),
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


def launch_chart(
    summaries: Iterable[RunSummary], case: str, metric: str, address: Callable[[str], str]
) -> Chart | None:
    """One mark per launch of the case, by run; None for fewer than two figures."""
    planned = [
        (summary.run, result)
        for summary in summaries
        for result in summary.run.results
        if result.case.id == case and result.launches
    ]
    several = len({run.machine.id for run, _ in planned}) > 1
    groups = tuple(
        DotGroup(
            f"{run.profile}, {run.started[:10]}" + (f", {run.machine.id}" if several else ""),
            tuple(
                Dot(f"launch {one.round + 1}", _value(one, metric), href=address(run.id))
                for one in sorted(result.launches, key=lambda launch: launch.round)
            ),
        )
        for run, result in planned
    )
    if sum(dot.value.mean is not None for group in groups for dot in group.dots) < 2:
        return None
    about = Caption(
        "launches",
        f"{METRICS[metric].title}, launch by launch",
        "Each dot is one start of the server. Means and intervals are over these, not requests.",
    )
    return forest(Forest(about, Quantity.of(metric), groups, "near"))


def _value(launch: Launch, metric: str) -> Value:
    names = [str(flag.name) for flag in launch.flags]
    if launch.status is not Status.OK:
        why = "; ".join(f"{flag.name}: {flag.detail}" for flag in launch.flags)
        return Value(None, note=f"failed: {why}")
    if metric not in launch.metrics:
        return Value(None, note="no such figure")
    judged = not any(flag.name in DISTURBING for flag in launch.flags)
    return Value(launch.metrics[metric], valid=judged, note=", ".join(names))


def list_pages(site: Site) -> Iterator[PageFile]:
    """The list."""
    yield render(
        site,
        "cases.html.j2",
        addresses.CASES,
        "Cases",
        "Every case with a trend, by experiment.",
        groups=groups(site.planned),
        experiments=frozenset(site.experiments()),
    )


def groups(cases: frozenset[str]) -> dict[str, tuple[str, ...]]:
    """By experiment, and inside the process by suite; everything in the order of names."""
    return grouped(
        (f"{_INSIDE}: {suite_of(case)}" if experiment == _INSIDE else experiment, case)
        for case in sorted(cases, key=lambda case: (case.startswith(f"{_INSIDE}/"), case))
        for experiment in (case.partition("/")[0],)
    )


def suite_of(case: str) -> str:
    """The suite of a case inside the process: `gil` of `inprocess/gil.Cpu.time_tasks(…)/…`."""
    return case.partition("/")[2].partition(".")[0]
