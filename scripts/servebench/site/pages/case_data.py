"""What a case's page has beside its trends: its declaration, its launches, data for its script."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from servebench.core.flags import DISTURBING
from servebench.core.metrics import METRICS
from servebench.core.model import Case, CaseResult, Launch, Load, LoadModel, Status
from servebench.record.change import ChangeRecord
from servebench.report.change import told
from servebench.series.columns import RunHeader
from servebench.series.summary import RunSummary
from servebench.series.table import Table
from servebench.site import data_files
from servebench.site.charts.data import Caption, Quantity, Value
from servebench.site.charts.figure import Chart
from servebench.site.charts.forest import Dot, DotGroup, Forest, forest
from servebench.site.pages import addresses, trends, words
from servebench.site.pages.site import Site, Trended

Folders = Mapping[Trended, Mapping[str, Mapping[str, str]]]
"""Machine and kind → case → metric → folder of its files."""


def folders(site: Site) -> Folders:
    """Where the figures of all cases are, looked through once for all pages."""
    found: dict[Trended, dict[str, dict[str, str]]] = {}
    for key, many in site.shards.items():
        table, by_case = site.tables[key], found.setdefault(key, {})
        for shard in many:
            for case, metric in shard.series:
                by_case.setdefault(table.cases[case], {})[table.metrics[metric]] = shard.id
    return found


def for_scripts(
    where: Folders,
    case: str,
    tables: tuple[Table, ...],
    changes: tuple[ChangeRecord, ...],
    root: str,
) -> dict[str, Any]:
    """What the page's script needs to know to fetch and draw every series of the case."""
    return {
        "case": case,
        "machines": [
            {
                "id": table.machine,
                "nights": data_files.table_folder(table),
                "stack": trends.stack_of(table, case),
                "interval": table.track.interval_title,
                "metrics": [
                    {
                        "name": name,
                        "title": trends.title(name),
                        "format": trends.format_name(name),
                    }
                    for name in trends.metrics(table, case)
                ],
                "shards": _shards(where, table, case),
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


def _moved(record: ChangeRecord, metric: str, root: str) -> dict[str, Any]:
    change = told(record)
    parts = (f"{change.word} {change.change} ({change.interval})", change.cause)
    return {
        "metric": metric,
        "time": record.when.timestamp(),
        "verdict": record.verdict.value,
        "ratio": record.ratio,
        "label": ", ".join(filter(None, parts)),
        "href": root + addresses.change(record.id),
    }


def _shards(where: Folders, table: Table, case: str) -> Mapping[str, str]:
    return where[table.machine, table.kind].get(case, {})


def files(site: Site, where: Folders, case: str, tables: tuple[Table, ...]) -> list[str]:
    """Addresses of the data files of the case."""
    series = site.manifest.get("series", {})
    return [
        f"series/{shard}/{year}-{entry[0]}.json"
        for table in tables
        for shard in dict.fromkeys(_shards(where, table, case).values())
        for year, entry in sorted(series.get(shard, {}).items())
    ]


def declared_facts(case: Case) -> list[tuple[str, str]]:
    """What a case's declaration says."""
    endpoint = case.endpoint
    pairs = [
        ("endpoint", f"{endpoint.path} ({endpoint.interface.upper()}, {endpoint.app})"),
        ("takes at least", words.figure(endpoint.floor, "service_min") if endpoint.floor else ""),
        ("Python", case.python),
        ("stack", case.stack),
        ("server", f"{case.server}, event loop {case.loop}"),
        ("workers", str(case.workers)),
        ("blocking threads per worker", str(case.threads or "")),
        ("load", _load(case.load)),
        ("cores", "server and generator apart" if case.cores == "split" else "shared by both"),
        ("ceiling", case.ceiling or ""),
        ("environment", ", ".join(f"{name}={text}" for name, text in case.env.items())),
    ]
    return [(name, text) for name, text in pairs if text]


def _load(load: Load) -> str:
    connections = words.many(load.connections, "connection")
    timing = f"{load.duration:g} s, timeout {load.timeout:g} s"
    if load.model is LoadModel.CLOSED:
        return f"closed loop, {connections}, {timing}"
    return f"{load.model.value}, {load.rate:g} requests/s, at most {connections}, {timing}"


def recorded_facts(header: RunHeader, case: str) -> list[tuple[str, str]]:
    """What a night says of a case whose declaration is in no run file here."""
    place = header.cases.index(case)
    return [("Python", header.pythons[place]), ("stack", header.stack_of[place])]


_FEW: Final = 2


def launch_results(
    summaries: Iterable[RunSummary], case: str
) -> Iterator[tuple[RunSummary, CaseResult]]:
    """The runs that planned a case, with what came of it."""
    for summary in summaries:
        for result in summary.run.results:
            if result.case.id == case:
                yield summary, result


def launch_chart(
    found: Iterable[tuple[RunSummary, CaseResult]], metric: str, address: Callable[[str], str]
) -> Chart | None:
    """One mark per launch; None for fewer than two figures."""
    planned = [(summary, result) for summary, result in found if result.launches]
    machines = {summary.run.machine.id for summary, _ in planned}
    groups = tuple(
        DotGroup(
            _name(summary, several=len(machines) > 1),
            tuple(
                Dot(f"launch {one.round + 1}", _value(one, metric), href=address(summary.run.id))
                for one in sorted(result.launches, key=lambda launch: launch.round)
            ),
        )
        for summary, result in planned
    )
    if sum(dot.value.mean is not None for group in groups for dot in group.dots) < _FEW:
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


def _name(summary: RunSummary, *, several: bool) -> str:
    run = summary.run
    named = f"{run.profile}, {run.started[:10]}"
    return f"{named}, {run.machine.id}" if several else named
