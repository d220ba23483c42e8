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
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

from servebench.site import across, feeds, history, overview, parquet, reading, shards, story
from servebench.site.folder import Folder
from servebench.site.history import Table
from servebench.site.reading import Sources
from servebench.site.shards import FORMAT, Columns, Shard, Year, dense, folder_name
from servebench.site.story import Story

MANIFEST: Final = "manifest.json"
OURS: Final = ("series", "across", "nights", "parquet", "badge")
"""Folders in which nothing else stands: what was not made this time is removed there."""

NO_PARQUET: Final = (
    "no Parquet: pyarrow is not installed; pip install 'servebench[parquet]' if you want it"
)

_HASH: Final = 10

Entry = tuple[str, int, str]
"""Digest of a file's bytes, its size, and a digest of what it was made from."""
Entries = dict[str, Entry]
"""By year."""


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
    """

    shards: tuple[tuple[Table, tuple[Shard, ...]], ...]
    stories: tuple[Story, ...]
    written: int
    kept: int
    removed: int
    notes: tuple[str, ...]


@dataclass(slots=True)
class _Manifest:
    """The files of one build, looked up in the one before."""

    before: Mapping[str, Any]
    now: dict[str, dict[str, Entries]] = field(default_factory=dict)

    def keep_or_make(
        self,
        folder: Folder,
        key: tuple[str, str, str],
        suffix: str,
        inputs: str,
        make: Callable[[], bytes],
    ) -> None:
        """Take a file over from the last build, or make it.

        Args:
            folder: The site's.
            key: Section, folder in it, and year.
            suffix: Of the file's name.
            inputs: Digest of what it is made from.
            make: Its bytes.
        """
        section, name, year = key
        entries = self.now.setdefault(section, {}).setdefault(name, {})
        stem = f"{section}/{name}/{year}"
        entry = _entry(self.before, key)
        if entry and entry[2] == inputs and folder.has(f"{stem}-{entry[0]}{suffix}", entry[1]):
            entries[year] = entry
            return
        data = make()
        digest = hashlib.sha256(data).hexdigest()[:_HASH]
        folder.put(f"{stem}-{digest}{suffix}", data)
        entries[year] = (digest, len(data), inputs)


def write(
    folder: Folder,
    sources: Sources,
    tables: Iterable[Table],
    *,
    base: str = "",
    with_parquet: bool = True,
) -> Written:
    """Write all data files below the folder; those of earlier builds stay (`Folder.remove_others`).

    Args:
        folder: The site's.
        sources: What was read.
        tables: Of its nights.
        base: Address of the site, for the feed; empty: relative links.
        with_parquet: Whether to write Parquet, if pyarrow is installed.

    Raises:
        RecordError: A file cannot be written.
    """
    manifest = _Manifest(_before(folder.root / MANIFEST))
    notes = list(sources.problems)
    with_arrow = with_parquet and parquet.available()
    if with_parquet and not with_arrow:
        notes.append(NO_PARQUET)
    sharded = tuple((table, shards.shards(table)) for table in tables)
    stories = tuple(story.story(table) for table, _ in sharded)
    for (table, many), happened in zip(sharded, stories, strict=True):
        for year in shards.years(table):
            _write_year(folder, manifest, happened, table, many, year, with_arrow)
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
    folder.put(MANIFEST, dense({"format": FORMAT, **manifest.now}))  # last: it vouches for the rest
    return Written(sharded, stories, folder.written, folder.kept, 0, tuple(notes))


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


def _write_year(
    folder: Folder,
    manifest: _Manifest,
    happened: Story,
    table: Table,
    many: Iterable[Shard],
    year: Year,
    with_arrow: bool,
) -> None:
    key, name = str(year.year), f"{folder_name(table.machine)}-{table.kind}"
    data = shards.nights_file(table, year, happened)
    digest = hashlib.sha256(data).hexdigest()[:_HASH]
    manifest.keep_or_make(folder, ("nights", name, key), ".json", digest, lambda: data)
    scaled = cache(partial(shards.columns, table, year))  # only if a file needs it
    planned = table.status[year.span].max(axis=0)
    for shard in many:
        if not any(planned[case] for case, _ in shard.series):
            continue  # not measured that year
        manifest.keep_or_make(
            folder,
            ("series", shard.id, key),
            ".json",
            shards.made_from(table, shard, year),
            partial(_shard_file, scaled, shard),
        )
    told = json.dumps([FORMAT, table.metrics, table.cases, table.sources[year.span]])
    inputs = hashlib.sha256(told.encode()).hexdigest()[:12]
    for metric in across.metrics(table):
        manifest.keep_or_make(
            folder,
            ("across", across.folder(table, metric), key),
            ".json",
            inputs,
            partial(_across_file, scaled, metric),
        )
    if with_arrow:
        manifest.keep_or_make(
            folder,
            ("parquet", name, key),
            ".parquet",
            inputs,
            partial(parquet.parquet_file, table, year),
        )


def _shard_file(scaled: Callable[[], Columns], shard: Shard) -> bytes:
    return shards.shard_file(scaled(), shard)


def _across_file(scaled: Callable[[], Columns], metric: str) -> bytes:
    return across.across_file(scaled(), metric)


def _before(path: Path) -> Mapping[str, Any]:
    """The manifest of the last build; nothing if it is damaged or of another format."""
    try:
        stored = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return stored if isinstance(stored, dict) and stored.get("format") == FORMAT else {}


def _entry(manifest: Mapping[str, Any], key: tuple[str, str, str]) -> Entry | None:
    try:
        section, name, year = key
        digest, size, inputs = manifest[section][name][year]
        return str(digest), int(size), str(inputs)
    except (KeyError, TypeError, ValueError):
        return None
