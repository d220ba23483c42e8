"""`results/` → runs as columns, change records, trials and records of nights.

A run file is read once: its columns are kept by the SHA-256 of the file, and so are those of asv's
results (`series.cache`). A file that cannot be read, for whatever reason, is named among the
problems, and the rest is read: the history is never rewritten, so that a bad file stays.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from servebench.core.errors import RecordError
from servebench.record import change, files, store
from servebench.record import trial as trials_
from servebench.record.change import ChangeRecord
from servebench.record.night import NightRecord
from servebench.record.trial import Trial
from servebench.series import asv, cache
from servebench.series.columns import RunColumns, of_run

NIGHTS: Final = "nights"
"""Folder of the records of nights (`night.model`)."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Sources:
    """All that a site is made from.

    Attributes:
        nights: Runs, also asv's, in no particular order.
        runs: Run id → its file, oldest first; those that could be read.
        trials: Of the instrument itself.
        problems: What could not be read, in sentences.
        night_records: What came of each night's shards, oldest first.
        notes: What else a reader should know, in sentences.
    """

    nights: tuple[RunColumns, ...] = ()
    runs: dict[str, Path] = field(default_factory=dict)
    changes: tuple[ChangeRecord, ...] = ()
    trials: tuple[Trial, ...] = ()
    problems: tuple[str, ...] = ()
    night_records: tuple[NightRecord, ...] = ()
    notes: tuple[str, ...] = ()


def read(results: Path, cache_dir: Path, root: Path) -> Sources:
    """Read all of `results/`; SetupError: the cache in `cache_dir` cannot be written.

    The git of the checkout `root` has the locks of asv's commits.
    """
    results = results.absolute()
    problems: list[str] = []
    kept = cache.opened(cache_dir, results)
    runs: dict[str, Path] = {}
    found: list[RunColumns] = []
    for path in store.runs(results):
        if made := attempt(path, partial(_of_run, path, kept), problems):
            runs[path.stem] = path
            found += made
    asv_folder = results / asv.FOLDER
    of_asv = attempt(asv_folder, partial(asv.read, asv_folder, kept, problems), problems)
    of_asv, notes = asv.with_git(of_asv, root)
    records: list[ChangeRecord] = []
    for path in change.files(results):
        records += attempt(path, partial(_record, path), problems)
    trials = attempt(results / trials_.FOLDER, partial(trials_.load_trials, results), problems)
    nights: list[NightRecord] = []
    for path in sorted((results / NIGHTS).glob("*/*.json")):
        nights += attempt(path, partial(_night, path), problems)
    nights.sort(key=lambda record: (record.created, record.id))
    kept.save()
    return Sources(
        nights=(*found, *of_asv),
        runs=runs,
        changes=tuple(records),
        trials=tuple(trials),
        # People read them on the site, where the folders of the machine that built it mean nothing.
        problems=tuple(problem.replace(f"{results}/", "") for problem in problems),
        night_records=tuple(nights),
        notes=notes,
    )


def attempt(path: Path, read_some: Callable[[], Sequence[T]], problems: list[str]) -> Sequence[T]:
    """What was read of a file; nothing, and one more problem, whatever goes wrong with it."""
    try:
        return read_some()
    except (RecordError, OSError) as problem:
        problems.append(str(problem))
    except Exception as problem:
        what = f"{type(problem).__name__}: {problem}"
        problems.append(f"{path}: cannot be used ({what}); it is left out")
    return ()


def _of_run(path: Path, kept: cache.Cache) -> tuple[RunColumns, ...]:
    data = path.read_bytes()

    def made() -> tuple[RunColumns, ...]:
        run = store.decode(data, str(path))
        return (of_run(_checked(path, run, run.started)),)

    return kept.of(hashlib.sha256(data).hexdigest(), made)


def _record(path: Path) -> list[ChangeRecord]:
    return [change.read(path)]


def _night(path: Path) -> list[NightRecord]:
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
