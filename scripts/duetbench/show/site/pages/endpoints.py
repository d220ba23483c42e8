"""What cases have in common: pages of an experiment's endpoints, and of one endpoint's variants.

They stand where the addresses of cases begin. All figures of a page are of one machine; variants
stand in the order of what they are, and nothing is ranked.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from markupsafe import Markup

from duetbench.core.metrics import HEADLINES, METRICS
from duetbench.core.model import Case, Run
from duetbench.project import names
from duetbench.project.published import KEYS, BarsLayout
from duetbench.show.site.charts import declared
from duetbench.show.site.charts.declared import ChartCases
from duetbench.show.site.charts.figure import Chart
from duetbench.show.site.charts.trend import spark
from duetbench.show.site.pages import addresses, trends, words
from duetbench.show.site.pages.case import endpoint, groups
from duetbench.show.site.pages.page import PageFile, markup, render
from duetbench.show.site.pages.site import Site, grouped
from duetbench.trend.summary import ENOUGH_LAUNCHES, CaseSummary
from duetbench.trend.table import STATES, Table

NIGHTS: Final = 90
"""So many nights are sketched."""

_VARIED: Final = ("stack", "server", "loop", "workers", "threads", "load", "connections", "cores")
"""What tells variants apart, but for the interpreter, which gives the colour."""
_NUMBERS: Final = re.compile(r"([0-9]+)")
_METRICS: Final = tuple(name for name in HEADLINES if METRICS[name].compared)
_MEASURED: Final = STATES.index("measured")


@dataclass(frozen=True, slots=True)
class Shown:
    """What is shown of a case, and the run that it is of."""

    summary: CaseSummary
    run: Run


@dataclass(frozen=True, slots=True)
class Variant:
    """A case in the table of its endpoint.

    Attributes:
        figure: Of the metric that comes first, with its interval; empty: the run has none.
        sketch: A sparkline of what `sketched` says; empty for fewer than two figures.
    """

    case: str
    figure: str
    interval: str
    profile: str
    flags: str
    sketch: Markup
    sketched: str


def pages(site: Site) -> Iterator[PageFile]:
    """A page for each experiment's endpoints, and one for each endpoint."""
    tables = site.cases()
    experiments = grouped(
        (case.partition("/")[0], case) for case in sorted(site.planned, key=_natural)
    )
    for experiment, cases in experiments.items():
        found = grouped((endpoint(case), case) for case in cases)
        named = {name: many for name, many in found.items() if name and name not in site.planned}
        if experiment not in site.planned:
            yield _list_page(site, experiment, cases, named)
        for name, many in named.items():
            here = {case: tables.get(case, ()) for case in many}
            yield _page(site, experiment, name, here)


def _natural(case: str) -> list[str | int]:
    """2 threads stand before 10."""
    return [int(part) if part.isdecimal() else part for part in _NUMBERS.split(case)]


def _list_page(
    site: Site, experiment: str, cases: Sequence[str], named: dict[str, tuple[str, ...]]
) -> PageFile:
    inside = {case for many in named.values() for case in many}
    return render(
        site,
        "endpoints.html.j2",
        addresses.prefix(experiment),
        f"Cases of {experiment}",
        f"All cases of {experiment}, by endpoint.",
        experiment=experiment,
        has_page=experiment in site.experiments(),
        endpoints=named,
        others=groups(frozenset(case for case in cases if case not in inside)),
    )


def _page(
    site: Site, experiment: str, name: str, tables: Mapping[str, tuple[Table, ...]]
) -> PageFile:
    address = addresses.prefix(name)
    root = addresses.root(addresses.file(address))
    found = chosen(site, tables)
    shown = [one.summary for one in found.values()]
    runs = {one.run.id: one.run for one in found.values()}
    metric = next((one for one in _METRICS if any(one in case.metrics for case in shown)), "")
    # Without a run's file there is a trend at least, of one machine as well.
    first = next((many[0].machine for many in tables.values() if many), "")
    machine = next((run.machine.id for run in runs.values()), first)
    called = {one.what for case in tables if (one := names.name(case)).known}
    return render(
        site,
        "endpoint.html.j2",
        address,
        called.pop() if len(called) == 1 else name,
        f"All variants of {name} side by side.",
        name=name,
        modules=("js/keyboard.js",),
        experiment=experiment,
        has_page=experiment in site.experiments(),
        runs=sorted(runs.values(), key=lambda run: run.launches < ENOUGH_LAUNCHES),
        machine=machine,
        title_of=METRICS[metric].title if metric else "",
        charts=[*map(markup, _charts(root, shown))],
        variants=[
            _variant(found.get(case), [one for one in many if one.machine == machine], case, metric)
            for case, many in tables.items()
        ],
    )


def chosen(site: Site, cases: Collection[str]) -> dict[str, Shown]:
    """What the newest runs of one machine have of the cases.

    It is the machine that measured any of them last. Of each case it is what a run of enough
    launches measured; without one, what another did, or why there is nothing.
    """
    having = [
        one
        for one in site.newest.values()
        if any(case in one.cases and one.cases[case].measured for case in cases)
    ]
    last = max(having, key=lambda one: (one.run.started, one.run.id), default=None)
    found: dict[str, Shown] = {}
    if last is not None:
        here = [one for one in having if one.run.machine.id == last.run.machine.id]
        here.sort(key=lambda one: (one.run.started, one.run.id), reverse=True)
        here.sort(key=lambda one: one.run.launches < ENOUGH_LAUNCHES)
        for case in cases:
            tried = [Shown(one.cases[case], one.run) for one in here if case in one.cases]
            measured = [one for one in tried if one.summary.measured]
            if tried:
                found[case] = (measured or tried)[0]
    return found


def _charts(root: str, shown: Sequence[CaseSummary]) -> Iterator[Chart]:
    of_run = ChartCases(
        cases=shown,
        published=None,
        address=lambda case: root + addresses.case(case),
        source="",
    )
    keys = tuple(key for key in _VARIED if _varies(key, [one.case for one in shown]))
    several = len({one.case.python for one in shown}) > 1
    for metric in _METRICS:
        layout = BarsLayout(
            kind="bars",
            name=metric.replace("_", "-"),
            title=METRICS[metric].title,
            select=("*",),
            metric=metric,
            group=keys if several else (),
            keys=("python",) if several else keys or ("python",),
            series="python" if several else None,
        )
        if chart := declared.draw(of_run, layout):
            yield chart


def _varies(key: str, cases: Sequence[Case]) -> bool:
    return len({KEYS[key].text(case) for case in cases}) > 1


def _variant(shown: Shown | None, tables: Sequence[Table], case: str, metric: str) -> Variant:
    estimate = shown.summary.metrics.get(metric) if shown else None
    flags = [flag.name.value for flag in shown.summary.warnings] if shown else []
    if shown and not shown.summary.measured:
        flags.insert(0, shown.summary.status)
    # Ratios to the anchor are what a trend is of, where there are any.
    ordered = sorted(tables, key=lambda table: table.kind != "anchored")
    drawn = (_sketch(table, case) for table in ordered)
    sketch, sketched = next((one for one in drawn if one[0]), ("", ""))
    return Variant(
        case=case,
        figure=words.figure(estimate.estimate, metric) if estimate else "",
        interval=words.spread(estimate, metric),
        profile=shown.run.profile if shown else "",
        flags=", ".join(flags),
        sketch=Markup(sketch),  # noqa: S704 - drawn by what escapes
        sketched=sketched,
    )


def _sketch(table: Table, case: str) -> tuple[str, str]:
    """The series that the case's page shows first, and in words what it is."""
    metric = next(iter(trends.metrics(table, case)), "")
    if not metric:
        return "", ""
    row, column = table.place(case, metric)
    planned = np.flatnonzero(table.status[:, row])[-NIGHTS:]
    values = [
        float(table.mean[night, row, column])
        if table.status[night, row] == _MEASURED and not np.isnan(table.mean[night, row, column])
        else None
        for night in planned.tolist()
    ]
    if sum(value is not None for value in values) < 2:
        return "", ""
    told = f"{trends.title(metric, table)}, {words.many(len(values), 'point')}"
    return spark(f"{case}: {told}", values), told
