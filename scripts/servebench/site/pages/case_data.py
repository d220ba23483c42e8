"""What the script of a case's page needs to know to fetch and draw every series of the case."""

from __future__ import annotations

from typing import Any

from servebench.changes import ChangeRecord
from servebench.site.history import Table
from servebench.site.pages import addresses, trends
from servebench.site.pages.changes import told
from servebench.site.pages.site import Site
from servebench.site.shards import folder_name


def for_scripts(
    site: Site,
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
                "nights": f"{folder_name(table.machine)}-{table.kind}",
                "stack": trends.stack_of(table, case),
                "interval": trends.interval_title(table.kind),
                "metrics": [
                    {
                        "name": name,
                        "title": trends.title(name),
                        "format": trends.format_name(name),
                    }
                    for name in trends.metrics(table, case)
                ],
                "shards": _shards(site, table, case),
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


def _shards(site: Site, table: Table, case: str) -> dict[str, str]:
    """Metric → folder of its files."""
    row = table.cases.index(case)
    return {
        table.metrics[metric]: shard.id
        for shard in site.shards[table.machine, table.kind]
        for place, metric in shard.series
        if place == row
    }


def files(site: Site, case: str, tables: tuple[Table, ...]) -> list[str]:
    """Addresses of the data files of the case."""
    series = site.manifest.get("series", {})
    return [
        f"series/{shard}/{year}-{entry[0]}.json"
        for table in tables
        for shard in dict.fromkeys(_shards(site, table, case).values())
        for year, entry in sorted(series.get(shard, {}).items())
    ]
