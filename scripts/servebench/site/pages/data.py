"""Downloads: what there is, in which form, and how to read it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from servebench.core.metrics import METRICS
from servebench.declare.published import headlines
from servebench.site.data_files import FORMAT, INTERVALS, LETTERS
from servebench.site.pages import addresses
from servebench.site.pages.page import Page, render
from servebench.site.pages.site import Site

SERIES: Final = {
    "case": "place in `cases`, which have id, status, flags and reasons night by night",
    "metric": "its name; of benchmarks inside the process their unit",
    "unit": "SI unit of the figures",
    "better": "lower, higher or neither",
    "exponent": "a step is 10 to this power of the unit",
    "mean": "steps, one per night of the year; null: no figure, and the status says why",
    "low": "ten steps each below the mean; null instead of the list: no night has an interval",
    "high": "ten steps each above the mean",
    "launches": "how many each figure rests on, as runs of [how often, which]",
}
"""Every key of a series in a shard's file."""


@dataclass(frozen=True, slots=True)
class Download:
    """A file that can be downloaded.

    Attributes:
        address: Where it is.
        label: What it is called.
        size: Bytes.
    """

    address: str
    label: str
    size: int


def pages(site: Site) -> Iterator[Page]:
    """The page of downloads."""
    path = addresses.file(addresses.DATA)
    yield Page(
        path,
        render(
            site,
            "data.html.j2",
            path=path,
            title="Data",
            description="All figures as JSON, with their schema, and every raw file.",
            series=SERIES,
            letters=LETTERS,
            intervals=INTERVALS,
            format=FORMAT,
            example=_example(site),
            badges=[(one.name, one.label) for one in headlines()]
            + [("changes", "open regressions")],
            schemas=[
                (address, told)
                for address, told in site.downloads.items()
                if address.endswith("schema.json")
            ],
            raw_asv=sum(address.startswith(addresses.RAW_ASV) for address in site.downloads),
            raw=len(site.runs),
            metrics=list(METRICS.values()),
            base=site.base,
        ),
    )


def _example(site: Site) -> Download | None:
    """A shard's file: of a headline, if one was measured, and of the newest year."""
    by_shard = site.manifest.get("series", {})
    wanted = {headline.case for headline in headlines()}
    every = [
        (shard.group not in wanted, shard.id)
        for many in site.shards.values()
        for shard in many
        if shard.id in by_shard
    ]
    if not every:
        return None
    _, shard = min(every)
    year, (digest, size) = max(by_shard[shard].items())
    return Download(f"series/{shard}/{year}-{digest}.json", f"{shard}, {year}", int(size))
