"""The cases: a list of them, and for each its trends, newest figures, launches and command."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from markupsafe import Markup

from servebench.core.metrics import HEADLINES, METRICS
from servebench.declare.suites import SHARED_PAGE
from servebench.record.change import ChangeRecord
from servebench.report.change import ChangeText, told
from servebench.series import table as history
from servebench.series.columns import RunHeader
from servebench.series.summary import CaseSummary, Estimate
from servebench.series.table import Point, Table
from servebench.site.charts import trend
from servebench.site.pages import addresses, case_data, trace, trends, words
from servebench.site.pages.case_data import Folders
from servebench.site.pages.page import PageFile, markup, render
from servebench.site.pages.site import Site, has_page

_MODULES: Final = ("js/keyboard.js", "js/trend.js")


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
    newest: Point
    header: RunHeader
    chart: Markup
    lines: tuple[MetricLine, ...]

    @property
    def figure(self) -> str:
        return words.figure(self.newest.mean, self.metric)

    @property
    def interval(self) -> str:
        return _interval(self.newest, self.metric)

    @property
    def interval_title(self) -> str:
        return self.table.track.interval_title

    @property
    def title(self) -> str:
        return trends.title(self.metric)


def pages(site: Site) -> Iterator[PageFile]:
    """One page for each case that any run planned."""
    tables = site.cases()
    seen = _last_seen(site.headers)
    newest = _newest_headers(site.headers)
    concerned, folders = _by_case(site.changes), case_data.folders(site)
    for case in filter(has_page, dict.fromkeys((*tables, *seen))):
        records = concerned.get(case, ())
        others = tuple(header for header in newest if case in header.cases)
        here = tuple(tables.get(case, ()))
        yield _page(site, case, here, records, others, seen[case], folders)


def _last_seen(headers: Mapping[str, RunHeader]) -> dict[str, str]:
    found: dict[str, str] = {}
    before: dict[tuple[str, ...], str] = {}
    for run, header in headers.items():
        before[header.cases] = run  # nearly all nights have the same cases
    for planned, run in before.items():
        found |= dict.fromkeys(planned, run)
    return found


def _newest_headers(headers: Mapping[str, RunHeader]) -> tuple[RunHeader, ...]:
    found = {(one.machine, one.kind, one.profile): one for one in headers.values()}
    return tuple(found.values())


def _by_case(changes: tuple[ChangeRecord, ...]) -> dict[str, tuple[ChangeRecord, ...]]:
    found: dict[str, tuple[ChangeRecord, ...]] = {}
    for record in changes:
        for case in dict.fromkeys(one.case for one in (record.series, *record.others)):
            found[case] = (*found.get(case, ()), record)
    return found


def _page(
    site: Site,
    case: str,
    tables: tuple[Table, ...],
    changes: tuple[ChangeRecord, ...],
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
    summaries = [one for one in site.newest.values() if case in one.cases]
    described = max(summaries, key=lambda one: one.run.started, default=None)
    summary = described.cases[case] if described else None
    metric = views[0].metric if views and views[0].metric in METRICS else _metric(summary)
    each = None
    if metric is not None:
        here = case_data.launch_results(summaries, case)
        each = case_data.launch_chart(here, metric, lambda run: root + addresses.run(run))
    header = views[0].header if views else site.headers[seen]
    facts = (
        case_data.declared_facts(summary.case)
        if summary
        else case_data.recorded_facts(header, case)
    )
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
        views=views,
        data=case_data.for_scripts(folders, case, tables, changes, root) if views else None,
        changes=[(one, _where(one, case)) for one in map(told, changes)],
        others=[one for one in others if all(one.run != view.newest.run for view in views)],
        seen=seen,
        launches=None if each is None else markup(each),
        summary=summary,
        facts=facts,
        command=trace.command(case, header.profile, header.commit),
        links=trace.links(site, views[0].newest.run if views else seen),
        files=case_data.files(site, folders, case, tables),
    )


def _view(
    site: Site,
    root: str,
    table: Table,
    case: str,
    changes: tuple[ChangeRecord, ...],
    anchor: str,
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
        newest=newest,
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
        span = (words.figure(end[column], metric) for end in (lowest, highest))
        yield MetricLine(
            metric=metric,
            title=trends.title(metric),
            meaning=known.meaning if known else "",
            figure=words.figure(point.mean, metric),
            interval=_interval(point, metric),
            range=" … ".join(span) if counts[column] > 1 else "",
            nights=counts[column],
        )


def _interval(point: Point, metric: str) -> str:
    if point.mean is None:
        return point.reason or (point.status if point.status != "measured" else "not in this run")
    estimate = Estimate(n=point.launches, mean=point.mean, low=point.low, high=point.high)
    return words.spread(estimate, metric)


def _metric(summary: CaseSummary | None) -> str | None:
    if summary is None:
        return None
    return next((name for name in HEADLINES if name in summary.metrics), None)


def _where(change: ChangeText, case: str) -> str:
    """What of the case a change moved: `CPU/request on xeon-2c`."""
    record = change.record
    names = [one for one in (record.series, *record.others) if one.case == case]
    return ", ".join(dict.fromkeys(f"{trends.title(one.metric)} on {one.machine}" for one in names))


def _experiment(site: Site, case: str) -> tuple[str, str]:
    """Address and name of the experiment that a case belongs to; empty if it has no page."""
    name = case.partition("/")[0]
    if name == "inprocess":
        suite = suite_of(case)
        name = next((one.page for one in site.suites if one.suite == suite), SHARED_PAGE)
    elif name not in site.experiments():
        return "", name
    return addresses.experiment(name), name


_INSIDE = "inprocess"


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
    found: dict[str, list[str]] = {}
    for case in sorted(cases, key=lambda case: (case.startswith(f"{_INSIDE}/"), case)):
        experiment = case.partition("/")[0]
        group = f"{_INSIDE}: {suite_of(case)}" if experiment == _INSIDE else experiment
        found.setdefault(group, []).append(case)
    return {group: tuple(many) for group, many in found.items()}


def suite_of(case: str) -> str:
    """The suite of a case inside the process: `gil` of `inprocess/gil.Cpu.time_tasks(…)/…`."""
    return case.partition("/")[2].partition(".")[0]
