"""`results/` → nights, change records and trials; what was read before comes from a cache.

The cache holds one packed night per run file, named by the SHA-256 of the file, so that it is right
whatever happens to names and dates; which file has which digest is remembered with its size and
date. Nights of years are in one more file per results folder, which is read at once (`packs`), and
made again when enough others have come. asv's results are cached as a whole. A file that cannot be
read is named among the problems, and the rest is read.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from servebench import changes, codec, store
from servebench.changes import ChangeRecord
from servebench.compare import trial_store
from servebench.compare.trials import Trial
from servebench.errors import RecordError, SetupError
from servebench.inprocess import readings
from servebench.night.model import NightRecord, read_record
from servebench.site import making, nights, packs
from servebench.site.nights import Night

NIGHTS: Final = "nights"
"""Folder of the records of nights (`night.model`), and of nights that were generated, not measured
(`servebench dev history`)."""
SUFFIX: Final = ".night"
PACKS: Final = "packs"
"""Folder of the cache with one pack per results folder."""
TAIL: Final = 30
"""So many nights are read one by one before they are put into the pack, too."""

_ASV: Final = "asv"
_INDEX: Final = "digests.json"

Stamp = tuple[int, int, str]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Sources:
    """All that a site is made from.

    Attributes:
        nights: In no particular order.
        runs: Run id → its file, oldest first; those that could be read.
        changes: By id.
        trials: Of the instrument itself.
        problems: What could not be read, in sentences.
        night_records: What came of each night's shards, oldest first.
    """

    nights: tuple[Night, ...]
    runs: dict[str, Path]
    changes: tuple[ChangeRecord, ...]
    trials: tuple[Trial, ...]
    problems: tuple[str, ...]
    night_records: tuple[NightRecord, ...] = ()


@dataclass(slots=True)
class Digests:
    """SHA-256 of files by path; read again only if size or date moved."""

    known: dict[str, Stamp]
    seen: dict[str, Stamp] = field(default_factory=dict)

    def of(self, path: Path | os.DirEntry[str]) -> str:
        """The digest of a file, given by its absolute path."""
        name, status = os.fspath(path), path.stat()
        stamp = self.known.get(name)
        if stamp is None or (stamp[0], stamp[1]) != (status.st_size, status.st_mtime_ns):
            digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
            stamp = (status.st_size, status.st_mtime_ns, digest)
        self.seen[name] = stamp
        return stamp[2]


def read(results: Path, cache: Path) -> Sources:
    """Read all of `results/`.

    Args:
        results: Its folder; nothing is in it if it is not there.
        cache: A folder of this function's own, made when it is needed.

    Raises:
        SetupError: The cache cannot be written.
    """
    results = results.absolute()
    problems: list[str] = []
    digests = Digests(_known(cache / _INDEX))
    pack = cache / PACKS / f"{hashlib.sha256(os.fsencode(results)).hexdigest()[:16]}.pack"
    before = packs.read(pack)
    runs: dict[str, Path] = {}
    found: list[Night] = []
    for path in store.runs(results):
        if made := _attempt(partial(_of_run, path, cache, digests, before), problems):
            runs[path.stem] = path
            found += made
    for entry in _below(results / NIGHTS, SUFFIX):
        found += _attempt(partial(_generated, entry, digests, before), problems)
    _pack_again(pack, found, before)
    found += _attempt(partial(_of_asv, results / _ASV, cache, digests), problems)
    records: list[ChangeRecord] = []
    for path in changes.files(results):
        records += _attempt(partial(_record, path), problems)
    trials = _attempt(partial(trial_store.load, results), problems)
    shared: list[NightRecord] = []
    for path in sorted((results / NIGHTS).glob("*/*.json")):
        shared += _attempt(partial(_shared, path), problems)
    shared.sort(key=lambda record: (record.created, record.id))
    if digests.seen != digests.known:
        _write(cache / _INDEX, json.dumps(digests.seen).encode())
    # People read them on the site, where the folders of the machine that built it mean nothing.
    told = tuple(problem.replace(f"{results}/", "") for problem in problems)
    return Sources(tuple(found), runs, tuple(records), tuple(trials), told, tuple(shared))


def _attempt(read_some: Callable[[], Sequence[T]], problems: list[str]) -> Sequence[T]:
    """What was read; nothing, and one more problem, if it cannot be."""
    try:
        return read_some()
    except (RecordError, OSError) as problem:
        problems.append(str(problem))
        return ()


def _below(folder: Path | str, suffix: str) -> Iterator[os.DirEntry[str]]:
    """All files of a kind below a folder, by name; there are thousands of them."""
    try:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except OSError:  # nothing there, or nothing that can be looked at
        return
    for entry in found:
        if entry.is_dir(follow_symlinks=False):
            yield from _below(entry.path, suffix)
        elif entry.name.endswith(suffix):
            yield entry


def _of_run(path: Path, cache: Path, digests: Digests, before: Mapping[str, Night]) -> list[Night]:
    source = digests.of(path)
    if (night := before.get(source)) is not None:
        return [night]
    packed = cache / "runs" / str(nights.FORMAT) / f"{source}{SUFFIX}"
    if (night := _cached(packed, source)) is not None:
        return [night]
    run = codec.decode(path.read_bytes(), str(path))
    night = making.of_run(_checked(path, run, run.started), source)
    _write(packed, nights.pack(night))
    return [night]


def _generated(
    entry: os.DirEntry[str], digests: Digests, before: Mapping[str, Night]
) -> list[Night]:
    source = digests.of(entry)
    night = before.get(source)
    if night is None:
        night = nights.unpack(Path(entry.path).read_bytes(), entry.path, source)
    return [night]


def _pack_again(path: Path, found: Sequence[Night], before: Mapping[str, Night]) -> None:
    """Make the pack anew if many nights are not in it, or many of those in it are gone."""
    needed = {night.source for night in found}
    if len(needed - before.keys()) >= TAIL or len(before.keys() - needed) >= max(TAIL, len(needed)):
        _write(path, b"".join(packs.pack(found)))


def _of_asv(folder: Path, cache: Path, digests: Digests) -> list[Night]:
    """What asv measured, without the load runs, which it was only handed."""
    files = sorted(folder.rglob("*.json"))
    if not files:
        return []
    source = making.together(
        text for path in files for text in (path.relative_to(folder).as_posix(), digests.of(path))
    )
    packed = cache / _ASV / str(nights.FORMAT) / source
    if (packed / "complete").is_file():
        kept = [_cached(path, path.stem) for path in sorted(packed.glob(f"*{SUFFIX}"))]
        if None not in kept:
            return [night for night in kept if night is not None]
    found = list(_named(making.of_snapshot(snapshot) for snapshot in readings.read(folder)))
    for night in found:
        _write(packed / f"{night.source}{SUFFIX}", nights.pack(night))
    _write(packed / "complete", b"")
    return found


def _named(made: Iterable[Night]) -> Iterator[Night]:
    """Nights with figures, each with the digest of its own bytes as its source."""
    for night in made:
        if night.header.cases:
            packed = nights.pack(night)
            yield nights.unpack(packed, night.header.run, hashlib.sha256(packed).hexdigest())


def _record(path: Path) -> list[ChangeRecord]:
    return [changes.read(path)]


def _shared(path: Path) -> list[NightRecord]:
    record = read_record(path)
    return [_checked(path, record, record.created)]


def _checked(path: Path, value: T, moment: str) -> T:
    """The value, if this is a moment; pages and trends stand in the order of time."""
    try:
        with_zone = datetime.fromisoformat(moment).tzinfo is not None
    except ValueError:
        with_zone = False
    if not with_zone:
        raise RecordError(
            f"{path}: expected a moment like 2026-11-20T03:00:00+00:00, found {moment:.40}; "
            "the file is damaged: remove it"
        )
    return value


def _cached(path: Path, source: str) -> Night | None:
    """What the cache has; a damaged file is as good as none."""
    try:
        return nights.unpack(path.read_bytes(), str(path), source)
    except (OSError, RecordError):
        return None


def _known(path: Path) -> dict[str, Stamp]:
    try:
        stored = json.loads(path.read_bytes())
        return {
            name: (int(size), int(date), str(sha)) for name, (size, date, sha) in stored.items()
        }
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _write(path: Path, data: bytes) -> None:
    """Write a file of the cache as a whole; unlike a run file it may be lost."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Another process may be at the same file: the name is this one's own.
        beside = path.with_name(f"{path.name}.{os.getpid()}.partial")
        try:
            beside.write_bytes(data)
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as problem:
        raise SetupError(
            f"{path}: the cache cannot be written ({problem.strerror}); make room, or set "
            "XDG_CACHE_HOME to a folder that can be written"
        ) from problem
