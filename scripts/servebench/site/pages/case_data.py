"""What the script of a case's page needs to know to fetch and draw every series of the case."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from servebench.record.change import ChangeRecord
from servebench.report.change import told
from servebench.series.table import Table
from servebench.site import data_files
from servebench.site.pages import addresses, trends
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
    """Metric → folder of its files."""
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
