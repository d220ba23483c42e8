"""Everything that pages are made from, from what was read and from the checkout's declarations."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

from servebench import store
from servebench.errors import RecordError
from servebench.inprocess.declared import FILE as INSIDE_FILE
from servebench.inprocess.declared import read_declared
from servebench.inprocess.readings import Snapshot
from servebench.published import load_published
from servebench.report.page import read_about
from servebench.site import asv_nights
from servebench.site.data import Written
from servebench.site.nights import Night
from servebench.site.pages.site import Site
from servebench.site.reading import Sources
from servebench.summary import RunSummary, summarise


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
    """Gather it.

    Args:
        root: The checkout, for its declarations.
        results: Where the sources were read.
        sources: What was read.
        written: What became of the data.
        static: Folder of stylesheet and modules.
        base: Address of the site, if it is known.
        downloads: Further files, by address.
        notes: What people should know about the build.

    Raises:
        DeclarationError: A declaration of the checkout is wrong.
    """

    @cache
    def snapshots() -> tuple[Snapshot, ...]:
        try:
            return asv_nights.newest(results / asv_nights.FOLDER, sources.nights, sources.asv_files)
        except RecordError:  # named among the problems by the reading of the nights
            return ()

    @cache
    def read_run(run: str) -> RunSummary:
        return summarise(store.load(sources.runs[run]))

    tables = {(table.machine, table.kind): (table, many) for table, many in written.shards}
    nights = {night.header.run: night for night in sorted(sources.nights, key=_order)}
    return Site(
        base=base,
        static=static,
        sources=sources,
        tables={key: table for key, (table, _) in tables.items()},
        shards={key: many for key, (_, many) in tables.items()},
        stories=dict(zip(tables, written.stories, strict=True)),
        nights=nights,
        headers={run: night.header for run, night in nights.items()},
        newest=dict(_newest(sources, nights, read_run)),
        about=read_about(root),
        published=load_published(root),
        inside=read_declared(root) if (root / INSIDE_FILE).is_file() else None,
        snapshots=snapshots,
        read_run=read_run,
        read_manifest=written.manifest,
        downloads=downloads,
        planned=frozenset(
            case for cases in {night.header.cases for night in nights.values()} for case in cases
        ),
        notes=(*written.notes, *notes),
    )


def declared(site: Site) -> str:
    """A digest of what pages draw from declarations: another one makes all pages anew."""
    told = [
        repr(sorted(site.about.items())),
        *(f"{name} {one.model_dump_json()}" for name, one in sorted(site.published.items())),
        site.inside.model_dump_json() if site.inside else "",
        site.base,
    ]
    return hashlib.sha256("\0".join(told).encode("utf-8", "replace")).hexdigest()


def _order(night: Night) -> tuple[str, str]:
    """Runs are named by when they were made."""
    return night.header.run, night.source


def _newest(
    sources: Sources, nights: Mapping[str, Night], read_run: Callable[[str], RunSummary]
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
