"""All runs, newest first, and those of each year."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Final

from servebench.record.night import NightRecord
from servebench.series.columns import RunHeader
from servebench.site.pages import addresses
from servebench.site.pages.page import Page, render
from servebench.site.pages.site import Site

NEWEST: Final = 60
"""So many runs are on the first page of them."""
LOST: Final = 10
"""So many nights of which something is missing are named there."""


@dataclass(frozen=True, slots=True)
class Row:
    """A run in the list.

    Attributes:
        header: What was measured.
        cases: Number of cases.
        failed: So many failed.
        disturbed: So many may not be judged.
        missing: To so many it did not come.
    """

    header: RunHeader
    cases: int
    failed: int
    disturbed: int
    missing: int

    @property
    def measured(self) -> int:
        """Cases with a figure."""
        return self.cases - self.failed - self.missing


def pages(site: Site) -> Iterator[Page]:
    """The newest runs, and a page for each year that has more."""
    newest_first = sorted(
        site.headers.values(), key=lambda header: (started(header), header.run), reverse=True
    )
    years = [
        (year, list(many))
        for year, many in groupby(newest_first, key=lambda header: started(header).year)
    ]
    counted = tuple((year, len(many)) for year, many in years)
    lost = [one for one in reversed(site.sources.night_records) if one.status != "complete"]
    shown = tuple(lost[:LOST])
    yield _page(
        site, addresses.RUNS, "Runs", newest_first[:NEWEST], counted, len(newest_first), shown
    )
    for year, many in years:
        yield _page(site, addresses.year(year), f"Runs of {year}", many, counted, len(many), ())


def row(header: RunHeader) -> Row:
    """A run in numbers."""
    odd = [one.status for one in header.odd.values()]
    return Row(
        header=header,
        cases=len(header.cases),
        failed=odd.count("failed"),
        disturbed=odd.count("disturbed"),
        missing=odd.count("not measured"),
    )


def started(header: RunHeader) -> datetime:
    """When a run was made; benchmarks stand at their commit's date, and their names say when."""
    if not header.track.served:
        with suppress(ValueError):  # not named by us
            return datetime.strptime(header.run[:16], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    return datetime.fromtimestamp(header.time, UTC)


def _page(
    site: Site,
    address: str,
    title: str,
    headers: Sequence[RunHeader],
    years: tuple[tuple[int, int], ...],
    total: int,
    lost: tuple[NightRecord, ...],
) -> Page:
    path = addresses.file(address)

    html = render(
        site,
        "runs.html.j2",
        path=path,
        title=title,
        description="Every run with what it measured, what failed, and its raw file.",
        rows=[(started(header), row(header)) for header in headers],
        years=years,
        total=total,
        lost=lost,
    )
    return Page(path, html)
