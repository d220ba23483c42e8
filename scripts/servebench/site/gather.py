"""Everything that pages are made from, from what was read and from the checkout's declarations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

from servebench.core.errors import RecordError
from servebench.declare.published import load_published
from servebench.declare.suites import read_suites
from servebench.record import store
from servebench.record.asv_results import Snapshot
from servebench.report.page import read_about
from servebench.series import asv
from servebench.series.columns import RunColumns
from servebench.series.reading import Sources
from servebench.series.summary import RunSummary, summarise
from servebench.site.data import Written
from servebench.site.pages.site import Site, has_page


def gather(
    root: Path,
    results: Path,
    sources: Sources,
    written: Written,
    *,
    static: str,
    base: str = "",
    downloads: Mapping[str, str],
    notes: tuple[str, ...] = (),
) -> Site:
    """Gather it; what it consists of is said by `Site`.

    Raises:
        DeclarationError: A declaration of the checkout is wrong.
    """

    @cache
    def snapshots() -> tuple[Snapshot, ...]:
        try:
            return asv.newest(results / asv.FOLDER, sources.nights)
        except RecordError:  # named among the problems by the reading of the nights
            return ()

    @cache
    def read_run(run: str) -> RunSummary:
        return summarise(store.load(sources.runs[run]))

    tables = {(table.machine, table.kind): (table, many) for table, many in written.tables}
    nights = {night.header.run: night for night in sorted(sources.nights, key=_order)}
    return Site(
        base=base,
        static=static,
        sources=sources,
        tables={key: table for key, (table, _) in tables.items()},
        shards={key: many for key, (_, many) in tables.items()},
        events=dict(zip(tables, written.events, strict=True)),
        nights=nights,
        headers={run: night.header for run, night in nights.items()},
        newest=dict(_newest(sources, nights, read_run)),
        about=read_about(root),
        published=load_published(root),
        suites=read_suites(root),
        snapshots=snapshots,
        read_run=read_run,
        manifest=written.manifest,
        downloads=downloads,
        planned=frozenset(
            case
            for cases in {night.header.cases for night in nights.values()}
            for case in filter(has_page, cases)
        ),
        notes=(*sources.problems, *sources.notes, *notes),
    )


def _order(night: RunColumns) -> tuple[str, str]:
    """Runs are named by when they were made."""
    return night.header.run, night.header.machine


def _newest(
    sources: Sources, nights: Mapping[str, RunColumns], read_run: Callable[[str], RunSummary]
) -> Iterator[tuple[tuple[str, str], RunSummary]]:
    """The newest run of each machine and profile that has a file."""
    last: dict[tuple[str, str], str] = {}
    for run in sources.runs:
        if run in nights:
            header = nights[run].header
            last[header.machine, header.profile] = run
    for key, run in last.items():
        try:
            yield key, read_run(run)
        except RecordError:  # it was there a moment ago
            continue
