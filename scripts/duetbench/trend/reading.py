"""`results/` → runs as columns, changes, comparisons and records of nights.

A run file is read once: its columns are kept by the SHA-256 of the file. A file that cannot be
read, for whatever reason, is named among the problems, and the rest is read: the history is never
rewritten, so that a bad file stays.
"""

import hashlib
import os
import pickle
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from duetbench.core.errors import SetupError
from duetbench.core.model import Run
from duetbench.store import (
    attribution,
    change,
    files,
    night,
    packages,
    store,
)
from duetbench.store import points as record_points
from duetbench.store.attribution import Attribution
from duetbench.store.change import Change
from duetbench.store.comparison import COMPARISONS, CaseComparison, Comparison
from duetbench.store.night import NightRecord
from duetbench.store.packages import PackageRecord
from duetbench.store.points import Points
from duetbench.trend.columns import RunColumns, of_run
from duetbench.trend.points import anchored

FOLDER: Final = "columns"
"""Of the site's cache; `prune` removes what is not used for long."""
FORMAT: Final = 3
"""Goes up when the same files would make other columns."""


@dataclass(frozen=True, slots=True)
class Sources:
    """All that a site is made from.

    Attributes:
        nights: Runs, and stacks against their anchor; in no particular order.
        runs: Run id → its file, oldest first; those that could be read.
        comparisons: Those that are stored, oldest first; of each launch only what is judged.
        changes: Those that duets have confirmed.
        dismissed: Candidates that none confirmed.
        problems: What could not be read, in sentences.
        night_records: What came of each night's shards, oldest first.
        points: All files of anchored points, oldest measurement first; those that are of a time,
            and of no single release, are among the nights too, joined and chained.
        packages: What is known of the packages under test, by name.
        attributions: Where the instructions of changes are, oldest first.
        notes: What else a reader should know, in sentences.
    """

    nights: tuple[RunColumns, ...] = ()
    runs: dict[str, Path] = field(default_factory=dict)
    changes: tuple[Change, ...] = ()
    dismissed: tuple[Change, ...] = ()
    problems: tuple[str, ...] = ()
    night_records: tuple[NightRecord, ...] = ()
    points: tuple[Points, ...] = ()
    packages: tuple[PackageRecord, ...] = ()
    notes: tuple[str, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    attributions: tuple[Attribution, ...] = ()


def read(results: Path, cache_dir: Path) -> Sources:
    """Read all of `results/`; SetupError: the cache in `cache_dir` cannot be written."""
    results = results.absolute()
    problems: list[str] = []
    runs = _runs(results, cache_dir, problems)
    changes = change.read_all(results, problems)
    stored = sorted((results / COMPARISONS).glob("*.json"))
    compared = files.attempted(stored, _comparison, problems)
    compared.sort(key=lambda one: (one.started, one.id))
    nights = files.attempted(sorted((results / night.FOLDER).glob("*/*.json")), _night, problems)
    points = files.attempted(record_points.paths(results), record_points.read, problems)
    attributions, unread = attribution.every(results)
    problems += unread
    about = files.attempted(packages.paths(results), packages.read, problems)
    points.sort(key=lambda one: (one.started, one.id))
    ratios, unchained = anchored(points)
    nights.sort(key=lambda record: (record.created, record.id))
    return Sources(
        nights=(*runs.values(), *ratios),
        runs={path.stem: path for path in runs},
        changes=tuple(one for one in changes if one.confirmed),
        dismissed=tuple(one for one in changes if not one.confirmed),
        # People read them on the site, where the folders of the machine that built it mean nothing.
        problems=tuple(problem.replace(f"{results}/", "") for problem in problems),
        night_records=tuple(nights),
        points=tuple(points),
        packages=tuple(about),
        notes=tuple(unchained),
        comparisons=tuple(compared),
        attributions=tuple(sorted(attributions.values(), key=lambda one: (one.when, one.id))),
    )


def _runs(results: Path, cache_dir: Path, problems: list[str]) -> dict[Path, RunColumns]:
    """The columns of all run files, oldest first, from the cache as far as it has them."""
    name = hashlib.sha256(os.fsencode(results)).hexdigest()[:16]
    path = cache_dir / FOLDER / name / "columns.pickle"
    known, used = _known(path), {}

    def columns(file: Path) -> tuple[Path, RunColumns]:
        data = file.read_bytes()
        digest = f"{FORMAT} {hashlib.sha256(data).hexdigest()}"
        used[digest] = known.get(digest) or of_run(files.parse(Run, data, str(file)))
        return file, used[digest]

    found = dict(files.attempted(store.runs(results), columns, problems))
    try:
        if used.keys() != known.keys():
            # Another process may write the same file: the name beside it is this one's own.
            beside = path.with_name(f"{path.name}.{os.getpid()}.partial")
            files.swap(path, pickle.dumps(used, pickle.HIGHEST_PROTOCOL), beside)
        elif used:
            os.utime(path)
    except OSError as problem:
        raise SetupError(
            f"{path}: the cache cannot be written ({problem.strerror}); make room, or set "
            "XDG_CACHE_HOME to a folder that can be written"
        ) from problem
    return found


def _known(path: Path) -> dict[str, RunColumns]:
    """Columns by digest; none if there is no cache, or a damaged one.

    Nobody but us writes in the site's cache, so that its pickles are ours.
    """
    try:
        found: Any = pickle.loads(path.read_bytes())  # noqa: S301 - see above
    except Exception:  # a pickle that is damaged raises anything
        return {}
    return found if isinstance(found, dict) else {}


def _night(path: Path) -> NightRecord:
    return files.read(NightRecord, path, check_name=True)


def _comparison(path: Path) -> Comparison:
    found = files.read(Comparison, path, check_name=True)
    return found.model_copy(update={"cases": tuple(map(_judged, found.cases))})


def _judged(case: CaseComparison) -> CaseComparison:
    """Without the dozens of figures of each launch that nobody judges: years are held at once."""
    metrics = {one.metric for one in case.judgements}
    duets = tuple(
        duet.model_copy(
            update={
                "base": {name: duet.base[name] for name in metrics & duet.base.keys()},
                "head": {name: duet.head[name] for name in metrics & duet.head.keys()},
            }
        )
        for duet in case.duets
    )
    return case.model_copy(update={"duets": duets})
