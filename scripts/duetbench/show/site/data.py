"""The data of the site: what is read of `results/`, written as files that pages and tools fetch.

manifest.json                       which files there are: format, names, sizes
overview.json                       the newest figure of every series
index.json                          every case with its series and runs, for tools
nights/<machine>-<kind>/<year>-<hash>.json   runs, gaps, breaks and stack bumps of a year
series/<file>/<year>-<hash>.json    figures of about twelve series
across/<machine>-<kind>/<metric>/<year>-<hash>.json   one metric of all cases, to compare them
runs/<run>.json                     the run files as they are
points/<id>.json                    the files of anchored points
c/<change>.json                     the change records
cmp/<comparison>.json               the stored comparisons as they are
badge/<name>.json                   for shields.io
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from duetbench.core.errors import RecordError, UsageError
from duetbench.show.site import data_files, overview
from duetbench.show.site.data_files import FORMAT, SeriesFile, dense
from duetbench.trend import events as events_
from duetbench.trend.events import Events
from duetbench.trend.reading import Sources
from duetbench.trend.table import Table

_PARTIAL: Final = ".partial"


@dataclass(slots=True)
class Folder:
    """Files below a folder."""

    root: Path
    written: int = 0
    kept: int = 0
    names: set[str] = field(default_factory=set)

    def put(self, name: str, data: bytes) -> str:
        """Write a file, unless it is there with these bytes.

        Returns:
            Its name.

        Raises:
            RecordError: It cannot be written.
        """
        path = self._path(name)
        self.names.add(name)
        try:
            if path.is_file() and path.read_bytes() == data:
                self.kept += 1
                return name
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_name(path.name + _PARTIAL)
            partial.write_bytes(data)
            partial.replace(path)
        except OSError as problem:
            raise RecordError(
                f"{path}: cannot be written ({problem.strerror}); make room or choose another "
                "folder (-o)"
            ) from problem
        self.written += 1
        return name

    def keep(self, folder: str) -> None:
        """Leave everything below a folder as it is."""
        for path in self._path(folder).rglob("*"):
            if path.is_file():
                self.names.add(path.relative_to(self.root).as_posix())
                self.kept += 1

    def remove_others(self, *folders: str) -> int:
        """Remove the files below these folders that were neither written nor kept.

        Returns:
            How many there were.
        """
        others = [
            path
            for folder in folders
            for path in self._path(folder).rglob("*")
            if not path.is_dir() and path.relative_to(self.root).as_posix() not in self.names
        ]
        for path in others:
            path.unlink()
        return len(others)

    def _path(self, name: str) -> Path:
        if not name or name.startswith("/") or ".." in name.split("/"):
            raise UsageError(f"{name!r}: expected the name of a file inside the site")
        return self.root / name


def refuse_others_work(site: Path, sign: str, made: str, option: str = "") -> None:
    """Raise UsageError if there is a file, or a folder with things in it, but none named `sign`."""
    if site.exists() and not site.is_dir():
        raise UsageError(f"{site}: expected a folder, found a file; name another place{option}")
    if site.is_dir() and any(site.iterdir()) and not (site / sign).is_file():
        raise UsageError(
            f"{site}: expected an empty folder, or a site that {made}; found something else: "
            f"name another folder{option}"
        )


SECTIONS: Final = ("series", "across", "nights")
OURS: Final = (*SECTIONS, "parquet", "badge", "points")
"""Folders in which nothing else stands: what was not made this time is removed there."""

Manifest = dict[str, dict[str, dict[str, tuple[str, int]]]]
"""Section → folder → year → digest in the file's name, and its size."""


@dataclass(frozen=True, slots=True)
class Written:
    """What was written.

    Attributes:
        events: Per table, in the same order.
    """

    tables: tuple[tuple[Table, tuple[SeriesFile, ...]], ...]
    events: tuple[Events, ...]
    manifest: Mapping[str, Any]


def write(folder: Folder, sources: Sources, tables: Sequence[Table]) -> Written:
    """Write all data files below the folder; those of earlier builds stay (`Folder.remove_others`).

    RecordError: a file cannot be written.
    """
    manifest: Manifest = {section: {} for section in SECTIONS}
    divided = tuple((table, data_files.series_files(table)) for table in tables)
    events = tuple(events_.events(table) for table in tables)

    def put(section: str, name: str, year: int, document: Mapping[str, Any]) -> None:
        content = dense(document)
        digest = hashlib.sha256(content).hexdigest()[:10]
        folder.put(f"{section}/{name}/{year}-{digest}.json", content)
        manifest[section].setdefault(name, {})[str(year)] = (digest, len(content))

    for (table, files), happened in zip(divided, events, strict=True):
        of_table = data_files.table_folder(table)
        for year in data_files.years(table):
            put("nights", of_table, year.year, data_files.nights_document(table, year, happened))
            scaled = data_files.scaled(table, year)
            planned = table.status[year.span].max(axis=0)
            for file in files:
                if any(planned[case] for case, _ in file.series):
                    put("series", file.id, year.year, data_files.series_document(scaled, file))
            for metric in data_files.compared_metrics(table):
                name = f"{of_table}/{data_files.folder_name(metric)}"
                put("across", name, year.year, data_files.across_document(scaled, metric))
    told = {"format": FORMAT, **{name: files for name, files in manifest.items() if files}}
    for run, path in sources.runs.items():
        folder.put(f"runs/{run}.json", path.read_bytes())
    for points in sources.points:
        folder.put(f"points/{points.id}.json", points.model_dump_json().encode())
    folder.put("overview.json", dense(overview.overview(tables, sources.changes, sources.problems)))
    folder.put("index.json", dense(overview.index(divided, sources.runs)))
    for record in sources.changes:
        folder.put(f"c/{record.id}.json", (record.model_dump_json(indent=1) + "\n").encode())
    for badge, shown in overview.badges(tables, sources.changes).items():
        folder.put(f"badge/{badge}.json", dense(shown))
    folder.put("manifest.json", dense(told))
    return Written(divided, events, told)
