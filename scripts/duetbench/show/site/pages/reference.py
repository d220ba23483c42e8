"""Pages to look things up in: the method, and the downloads."""

from collections.abc import Iterator

from duetbench.core.errors import FlagName
from duetbench.core.metrics import METRICS
from duetbench.core.units import Interval
from duetbench.show import addresses
from duetbench.show.site.pages.site import PageFile, Site, json_file, render
from duetbench.show.site.pages.trends import FORMAT
from duetbench.trend.reading import coverage
from duetbench.trend.summary import ENOUGH_LAUNCHES
from duetbench.trend.table import KINDS


def pages(site: Site) -> Iterator[PageFile]:
    """How figures are made and judged, the downloads, and their list for tools."""
    yield render(
        site,
        "method.html.j2",
        addresses.METHOD,
        "Method",
        "How the figures are made and judged, and how often the judgement is wrong, as measured.",
        confidence=f"{100 * Interval.confidence:g} %",
        enough=ENOUGH_LAUNCHES,
        canary=coverage(site.sources.points),
        flags=tuple(FlagName),
    )
    cases = site.cases()
    yield render(
        site,
        "data.html.j2",
        addresses.DATA,
        "Data",
        "All figures as JSON, with their schema, and every raw file.",
        kinds=KINDS,
        format=FORMAT,
        example=addresses.data_file(min(cases)) if cases else "",
        schemas=[entry for entry in site.downloads.items() if entry[0].endswith("schema.json")],
        raw_asv=sum(address.startswith(addresses.RAW_ASV) for address in site.downloads),
        metrics=list(METRICS.values()),
    )
    index = {
        "format": FORMAT,
        "feed": addresses.FEED,
        "cases": {case: addresses.data_file(case) for case in sorted(cases)},
        "runs": [addresses.run_file(run) for run in site.runs],
        "points": [addresses.points_file(name) for name in sorted(site.points)],
        "changes": [addresses.change_file(record.id) for record in site.changes],
        "comparisons": [addresses.comparison_file(name) for name in site.comparisons],
        "problems": list(site.sources.problems),
    }
    yield json_file("index.json", index)
