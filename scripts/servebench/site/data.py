"""The data of the site: what is read of `results/`, written as files that pages and tools fetch.

    manifest.json                       which files there are: format, names, sizes
    overview.json                       the newest figure of every series
    index.json                          every case with its series and runs, for tools
    nights/<machine>-<kind>/<year>-<hash>.json   runs, gaps, breaks and stack bumps of a year
    series/<shard>/<year>-<hash>.json   figures of about twelve series
    across/<machine>-<kind>/<metric>/<year>-<hash>.json   one metric of all cases, to compare them
    parquet/<machine>-<kind>/<year>-<hash>.parquet   the same for notebooks, if pyarrow is there
    runs/<run>.json                     the run files as they are
    c/<change>.json                     the change records
    badge/<name>.json, changes.atom     for shields.io and feed readers

A file whose inputs did not change is not made again: the manifest remembers, beside the digest of
its bytes, a digest of what it was made from.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

from servebench.site import (
    across,
    feeds,
    history,
    overview,
    parquet,
    reading,
    scaling,
    shards,
    story,
)
from servebench.site.folder import Folder
from servebench.site.history import Table
from servebench.site.manifest import SECTIONS, Key, Manifest, digest, of_last_build
from servebench.site.nights_file import nights_file
from servebench.site.reading import Sources
from servebench.site.scaling import Columns, Year
from servebench.site.shards import FORMAT, Shard, dense, folder_name
from servebench.site.story import Story

OURS: Final = (*SECTIONS, "badge")
"""Folders in which nothing else stands: what was not made this time is removed there."""

NO_PARQUET: Final = (
    "no Parquet: pyarrow is not installed; pip install 'servebench[parquet]' if you want it"
)


@dataclass(frozen=True, slots=True)
class Written:
    """What became of the data.

    Attributes:
        shards: Per table, in order.
        stories: Per table, in the same order.
        written: Files that were written.
        kept: Files that were there already.
        removed: Files that nothing is in any more.
        notes: What people should know, in sentences.
        manifest: `manifest.json`: which data files there are. Waits for those that are still made,
            and writes it.
    """

    shards: tuple[tuple[Table, tuple[Shard, ...]], ...]
    stories: tuple[Story, ...]
    written: int
    kept: int
    removed: int
    notes: tuple[str, ...]
    manifest: Callable[[], Mapping[str, Any]]


@contextmanager
def writing(
    folder: Folder,
    sources: Sources,
    tables: Iterable[Table],
    *,
    base: str = "",
    with_parquet: bool = True,
) -> Iterator[Written]:
    """Write all data files below the folder; those of earlier builds stay (`Folder.remove_others`).

    Parquet, on which nothing else depends, is made beside what the caller does meanwhile, until the
    manifest is asked for, at the latest when the block ends.

    Args:
        folder: The site's.
        sources: What was read.
        tables: Of its nights.
        base: Address of the site, for the feed; empty: relative links.
        with_parquet: Whether to write Parquet, if pyarrow is installed.

    Raises:
        RecordError: A file cannot be written.
    """
    manifest = Manifest(folder, of_last_build(folder))
    notes = list(sources.problems)
    with_arrow = with_parquet and parquet.available()
    if with_parquet and not with_arrow:
        notes.append(NO_PARQUET)
    found = tuple(tables)
    new: list[tuple[Key, Table, Year]] = []
    for table in found if with_arrow else ():
        for year in scaling.years(table):
            key = ("parquet", _folder(table), str(year.year))
            if not manifest.keep(key, ".parquet", _made_from(table, year)):
                new.append((key, table, year))
    with parquet.files([(table, year) for _, table, year in new]) as made:
        sharded = tuple((table, shards.shards(table)) for table in found)
        stories = tuple(story.story(table) for table in found)
        for (table, many), happened in zip(sharded, stories, strict=True):
            _write_table(manifest, happened, table, many)
        _write_others(folder, sources, sharded, base)

        @cache
        def finished() -> Mapping[str, Any]:
            for (key, _, _), content in zip(new, made(), strict=True):
                manifest.put(key, ".parquet", content)
            return manifest.write()

        yield Written(
            sharded, stories, folder.written, folder.kept, 0, tuple(notes), manifest=finished
        )
        finished()


def write(
    folder: Folder,
    sources: Sources,
    tables: Iterable[Table],
    *,
    base: str = "",
    with_parquet: bool = True,
) -> Written:
    """Write all data files, and wait for all of them; see `writing`."""
    with writing(folder, sources, tables, base=base, with_parquet=with_parquet) as written:
        written.manifest()
        return replace(written, written=folder.written, kept=folder.kept)


def build(
    results: Path, output: Path, cache_dir: Path, *, base: str = "", with_parquet: bool = True
) -> Written:
    """Read `results/` and bring the data below `output` up to date.

    Args:
        results: Its folder.
        output: The site's folder.
        cache_dir: Where what was read is remembered.
        base: As for `write`.
        with_parquet: As for `write`.

    Raises:
        RecordError: A file cannot be written.
        SetupError: The cache cannot be written.
    """
    sources = reading.read(results, cache_dir)
    folder = Folder(output)
    written = write(
        folder, sources, history.tables(sources.nights), base=base, with_parquet=with_parquet
    )
    return replace(written, removed=folder.remove_others(*OURS))


def _write_table(manifest: Manifest, happened: Story, table: Table, many: Sequence[Shard]) -> None:
    names = [(shard, shards.named(table, shard)) for shard in many]
    for year in scaling.years(table):
        _write_year(manifest, happened, table, names, year)


def _write_year(
    manifest: Manifest,
    happened: Story,
    table: Table,
    many: Iterable[tuple[Shard, str]],
    year: Year,
) -> None:
    key = str(year.year)
    data = nights_file(table, year, happened)
    manifest.keep_or_make(
        ("nights", _folder(table), key), ".json", digest(data), lambda: data
    )  # fmt: skip
    scaled = cache(partial(scaling.columns, table, year))  # only if a file needs it
    planned = table.status[year.span].max(axis=0).tolist()
    nights = hashlib.sha256("\0".join(table.sources[year.span]).encode()).hexdigest()
    for shard, names in many:
        if not any(planned[case] for case, _ in shard.series):
            continue  # not measured that year
        manifest.keep_or_make(
            ("series", shard.id, key),
            ".json",
            shards.made_from(shard, year, names, nights),
            partial(_shard_file, scaled, shard),
        )
    inputs = _made_from(table, year)
    for metric in across.metrics(table):
        manifest.keep_or_make(
            ("across", across.folder(table, metric), key),
            ".json",
            inputs,
            partial(_across_file, scaled, metric),
        )


def _write_others(
    folder: Folder,
    sources: Sources,
    sharded: tuple[tuple[Table, tuple[Shard, ...]], ...],
    base: str,
) -> None:
    """Raw files, and the small ones of the whole."""
    for run, path in sources.runs.items():
        folder.copy(f"runs/{run}.json", path)
    found = [table for table, _ in sharded]
    folder.put("overview.json", dense(overview.overview(found, sources.changes, sources.problems)))
    folder.put("index.json", dense(overview.index(sharded, sources.runs)))
    folder.put("changes.atom", feeds.atom(sources.changes, base))
    for record in sources.changes:
        folder.put(f"c/{record.id}.json", (record.model_dump_json(indent=1) + "\n").encode())
    for name, badge in overview.badges(found, sources.changes).items():
        folder.put(f"badge/{name}.json", dense(badge))


def _folder(table: Table) -> str:
    """Folder of the files that are of a whole table."""
    return f"{folder_name(table.machine)}-{table.kind}"


def _made_from(table: Table, year: Year) -> str:
    """A digest of all that a file of a whole year depends on."""
    told = json.dumps([FORMAT, table.metrics, table.cases, table.sources[year.span]])
    return hashlib.sha256(told.encode()).hexdigest()[:12]


def _shard_file(scaled: Callable[[], Columns], shard: Shard) -> bytes:
    return shards.shard_file(scaled(), shard)


def _across_file(scaled: Callable[[], Columns], metric: str) -> bytes:
    return across.across_file(scaled(), metric)
