"""`results/` → nights, change records and trials; what was read before comes from a cache.

A run file is read once: its night is kept by the SHA-256 of the file, so that it is right whatever
happens to names and dates; which file has which digest is remembered with its size and date
(`kept`). Nights of years are in one file per results folder, which is read at once (`packs`), and
made again when enough others have come. The same holds for what asv measured (`asv_nights`). A file
that cannot be read or worked out, for whatever reason, is named among the problems, and the rest is
read: the history is never rewritten, so that a bad file stays.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from servebench import changes, codec, files, store
from servebench.changes import ChangeRecord
from servebench.compare import trials as trials_
from servebench.compare.trials import Trial
from servebench.errors import RecordError, SetupError
from servebench.night.model import NightRecord
from servebench.site import asv_nights, kept, making, nights, packs
from servebench.site.kept import Digests
from servebench.site.nights import SUFFIX, Night

NIGHTS: Final = "nights"
"""Folder of the records of nights (`night.model`), and of nights that were generated, not measured
(`servebench dev history`)."""

_PACK: Final = "nights.pack"

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
        asv_files: Source of a night of asv's → its files, by their names below `results/asv`.
    """

    nights: tuple[Night, ...]
    runs: dict[str, Path]
    changes: tuple[ChangeRecord, ...]
    trials: tuple[Trial, ...]
    problems: tuple[str, ...]
    night_records: tuple[NightRecord, ...] = ()
    asv_files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


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
    place = kept.place(cache, results)
    digests = kept.digests(place)
    before = packs.read(place / _PACK)
    runs: dict[str, Path] = {}
    found: list[Night] = []
    for path in store.runs(results):
        if made := attempt(path, partial(_of_run, path, cache, digests, before), problems):
            runs[path.stem] = path
            found += made
    for entry in kept.below(results / NIGHTS, SUFFIX):
        found += attempt(entry.path, partial(_generated, entry, digests, before), problems)
    if packs.renew(place / _PACK, found, before):
        for night in found:
            _single(cache, night.source).unlink(missing_ok=True)
    asv_files: dict[str, tuple[str, ...]] = {}
    inside_process = partial(_of_asv, results, cache, place, digests)
    for inside in attempt(results / asv_nights.FOLDER, inside_process, problems):
        found += inside.nights
        asv_files |= inside.files
        problems += inside.problems
    records: list[ChangeRecord] = []
    for path in changes.files(results):
        records += attempt(path, partial(_record, path), problems)
    trials = attempt(results / trials_.FOLDER, partial(trials_.load_trials, results), problems)
    shared: list[NightRecord] = []
    for path in sorted((results / NIGHTS).glob("*/*.json")):
        shared += attempt(path, partial(_shared, path), problems)
    shared.sort(key=lambda record: (record.created, record.id))
    kept.remember(place, digests)
    kept.sign(place, results)
    return Sources(
        nights=tuple(found),
        runs=runs,
        changes=tuple(records),
        trials=tuple(trials),
        # People read them on the site, where the folders of the machine that built it mean nothing.
        problems=tuple(problem.replace(f"{results}/", "") for problem in problems),
        night_records=tuple(shared),
        asv_files=asv_files,
    )


def attempt(
    path: Path | str, read_some: Callable[[], Sequence[T]], problems: list[str]
) -> Sequence[T]:
    """What was read of a file; nothing, and one more problem, whatever goes wrong with it."""
    try:
        return read_some()
    except (RecordError, OSError) as problem:
        problems.append(str(problem))
    except SetupError:  # of the cache, which is not the file's fault
        raise
    except Exception as problem:
        what = f"{type(problem).__name__}: {problem}"
        problems.append(f"{path}: cannot be used ({what}); it is left out")
    return ()


def _of_run(path: Path, cache: Path, digests: Digests, before: Mapping[str, Night]) -> list[Night]:
    source = digests.of(path)
    packed = _single(cache, source)
    night = before.get(source) or nights.read(packed, source)
    if night is None:
        run = codec.decode(path.read_bytes(), str(path))
        night = making.of_run(_checked(path, run, run.started), source)
        kept.write(packed, nights.pack(night))
    return [night]


def _single(cache: Path, source: str) -> Path:
    """Where the night of a run file is that is in no pack."""
    return cache / "runs" / str(nights.FORMAT) / f"{source}{SUFFIX}"


def _generated(
    entry: os.DirEntry[str], digests: Digests, before: Mapping[str, Night]
) -> list[Night]:
    source = digests.of(entry)
    night = before.get(source)
    if night is None:
        night = nights.unpack(Path(entry.path).read_bytes(), entry.path, source)
    return [night]


def _of_asv(
    results: Path, cache: Path, place: Path, digests: Digests
) -> tuple[asv_nights.Found, ...]:
    return (asv_nights.read(results / asv_nights.FOLDER, cache, place, digests),)


def _record(path: Path) -> list[ChangeRecord]:
    return [changes.read(path)]


def _shared(path: Path) -> list[NightRecord]:
    record = files.read(NightRecord, path, named=True)
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
