"""The files of the site: written where they changed, removed where nothing made them.

index.json              every case with its data file, and every raw file
b/<case>/data.json      all series of a case (`pages.trends`)
runs/<run>.json         the run files as they are
points/<id>.json        the files of anchored points
c/<change>.json         the change records
cmp/<comparison>.json   the stored comparisons as they are
why/<id>.json           where the instructions of changes are, and folded stacks beside
badge/<name>.json       for shields.io
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from duetbench.core.errors import RecordError, UsageError
from duetbench.show import addresses
from duetbench.show import attribution as report_attribution
from duetbench.store import comparisons, files
from duetbench.trend.reading import Sources

OURS: Final = (
    *("asv", "b", "badge", "c", "cmp", "data", "method", "p", "points", "raw", "runs", "static"),
    *("why", "x"),
    # Of sites that an older version made.
    *("across", "compare", "find", "glossary", "machines", "nights", "parquet", "series"),
)
"""Folders in which nothing else stands: what was not made this time is removed there."""

_SCHEMAS: Final = {
    "schema.json": "JSON Schema of run files",
    "comparison.schema.json": "JSON Schema of comparisons",
}
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


def refuse_others_work(site: Path, sign: str, origin: str, option: str = "") -> None:
    """Raise UsageError if there is a file, or a folder with things in it, but none named `sign`."""
    if site.exists() and not site.is_dir():
        raise UsageError(f"{site}: expected a folder, found a file; name another place{option}")
    if site.is_dir() and any(site.iterdir()) and not (site / sign).is_file():
        raise UsageError(
            f"{site}: expected an empty folder, or a site that {origin}; found something else: "
            f"name another folder{option}"
        )


def copy(folder: Folder, results: Path, sources: Sources) -> dict[str, str]:
    """Write the raw files; errors as `Folder.put`.

    Returns:
        Schemas and asv's files by address, and what they are.
    """
    for run, path in sources.runs.items():
        folder.put(f"{addresses.RUNS}{run}.json", path.read_bytes())
    for points in sources.points:
        folder.put(f"points/{points.id}.json", points.model_dump_json().encode())
    for record in sources.changes:
        text = record.model_dump_json(indent=1) + "\n"
        folder.put(f"{addresses.CHANGES}{record.id}.json", text.encode())
    for comparison in sources.comparisons:
        path = results / comparisons.COMPARISONS / f"{comparison.id}.json"
        folder.put(f"{addresses.COMPARISONS}{path.name}", path.read_bytes())
    for attribution in sources.attributions:
        folder.put(addresses.attribution_file(attribution.id), files.encode(attribution))
        for side in ("base", "head"):
            stacks = report_attribution.folded(attribution, side).encode()
            folder.put(addresses.folded(attribution.id, side), stacks)
    downloads = {
        folder.put(name, (results / name).read_bytes()): meaning
        for name, meaning in _SCHEMAS.items()
        if (results / name).is_file()
    }
    recorded = results / "asv"
    for path in sorted(recorded.rglob("*.json")):  # asv's names, which name no folder of ours
        name = path.relative_to(recorded).as_posix()
        folder.put(f"{addresses.RAW_ASV}{name}", path.read_bytes())
        downloads[f"{addresses.RAW_ASV}{quote(name)}"] = "asv's results as asv wrote them"
    return downloads


def dense(document: Mapping[str, Any]) -> bytes:
    """Strict JSON without a space."""
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
