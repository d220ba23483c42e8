"""asv's result files → nights; each file is read once.

asv keeps a machine's files in a folder, and names them by the first eight digits of their commit:
those that have both in common are read together, and make a night. Which bytes made which night is
remembered. So a build with nothing new opens none of them, and only for new ones asv is imported,
which takes half a second. A file that cannot be read is named, and the rest is read.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from servebench import git
from servebench.errors import HistoryError, RecordError
from servebench.inprocess import readings
from servebench.inprocess.readings import Snapshot
from servebench.site import kept, making, nights, packs
from servebench.site.kept import Digests
from servebench.site.nights import Night

if TYPE_CHECKING:
    from asv.results import Results

    from servebench.site.reading import Sources

FOLDER: Final = "asv"
"""Of results, and of the cache."""
FORMAT: Final = 3
"""Version of what is remembered; goes up when the same files would make other nights."""

_PACK: Final = "asv.pack"
_INDEX: Final = "asv.json"
_FORMATS: Final = [FORMAT, nights.FORMAT]
_MACHINE: Final = "machine.json"
_SECOND: Final = len("20261120T030000Z")
_AS_OF: Final = re.compile(r"\bas of (\d{4}-\d\d-\d\d)\b")
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class Found:
    """What asv measured, without the load runs, which it was only handed.

    Attributes:
        nights: One per machine and commit.
        files: Source of a night → the files that it was made of, by their names below the folder.
        problems: What could not be read, in sentences.
    """

    nights: tuple[Night, ...] = ()
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Bundle:
    """The files of a commit on a machine.

    Attributes:
        names: Below the folder, sorted.
        files: Digest of their names and bytes.
        read_with: Digest of what else decides how they are read: the list, and the machine.
    """

    names: tuple[str, ...]
    files: str
    read_with: str

    @property
    def digest(self) -> str:
        """Of everything that its night depends on."""
        return making.together((self.files, self.read_with))


def read(folder: Path, cache: Path, place: Path, digests: Digests) -> Found:
    """Read all of asv's results.

    Args:
        folder: asv's `results_dir`, absolute; nothing is in it if it is not there.
        cache: The site's.
        place: Of the results folder's packs.
        digests: Of files; gets those that are seen here.

    Raises:
        RecordError: asv's list of benchmarks cannot be read.
        SetupError: The cache cannot be written.
    """
    bundles = list(_bundles(folder, digests))
    if not bundles:
        return Found()
    before = packs.read(place / _PACK)
    known, now = _known(place / _INDEX), dict[str, list[str]]()
    files: dict[str, tuple[str, ...]] = {}
    found: list[Night] = []
    new: list[Night] = []
    problems: list[str] = []
    benchmarks: Any = None
    for bundle in bundles:
        wrong: list[str] = []
        many = _remembered(known.get(bundle.digest), before, cache)
        if many is None:
            if benchmarks is None:
                benchmarks = readings.benchmarks(folder)
            many = _made(folder, bundle, benchmarks, wrong)
            new += many
        if not wrong:  # otherwise it is read, and told, again
            now[bundle.digest] = [night.source for night in many]
        found += many
        files |= dict.fromkeys((night.source for night in many), bundle.names)
        problems += wrong
    if packs.renew(place / _PACK, found, before):
        for night in found:
            _single(cache, night.source).unlink(missing_ok=True)
    else:
        for night in new:
            kept.write(_single(cache, night.source), nights.pack(night))
    if now != known:
        kept.write(place / _INDEX, json.dumps({"formats": _FORMATS, "nights": now}).encode())
    return Found(tuple(found), files, tuple(problems))


def dated(root: Path, sources: Sources) -> Sources:
    """Put what was measured of an old stack where it belongs: at the day that its commit names.

    A commit "Stacks as of 2025-11-20" stands at the end of that day, and not at the second at which
    somebody made it. Commits that the checkout does not have stay where they are.
    """
    days = _days(root, {night.header.commit or "" for night in sources.nights if _inside(night)})
    moved: dict[str, Night] = {}
    for night in sources.nights:
        day = days.get(night.header.commit or "")
        if _inside(night) and day is not None and day < night.header.time:
            source = making.together((night.source, str(day)))
            moved[night.source] = replace(
                night, header=replace(night.header, time=day), source=source
            )
    return replace(
        sources,
        nights=tuple(moved.get(night.source, night) for night in sources.nights),
        asv_files={
            moved[source].source if source in moved else source: names
            for source, names in sources.asv_files.items()
        },
    )


def _inside(night: Night) -> bool:
    return night.header.kind == "inprocess"


def _days(root: Path, commits: Iterable[str]) -> dict[str, int]:
    """Commit → end of the day that its first line names, s since 1970."""
    given = "\n".join(sorted(commit for commit in commits if _COMMIT.fullmatch(commit)))
    if not given:
        return {}
    try:
        told = git.ask(
            root, "log", "--no-walk", "--ignore-missing", "--stdin", "--format=%H %s", stdin=given
        )
    except HistoryError:
        return {}
    found = {}
    for line in told.splitlines():
        if said := _AS_OF.search(line):
            with suppress(ValueError):  # no day of the calendar
                day = datetime.fromisoformat(f"{said[1]}T23:59:59+00:00")
                found[line.partition(" ")[0]] = int(day.timestamp())
    return found


def newest(
    folder: Path, every: Iterable[Night], files: Mapping[str, Sequence[str]]
) -> tuple[Snapshot, ...]:
    """Read with all samples what holds today: the commits that have any benchmark's newest figure.

    `readings.newest` finds among them what it finds among all.

    Args:
        folder: asv's `results_dir`.
        every: Nights, of any kind.
        files: As `Found.files`.

    Returns:
        The newest commit first; what cannot be read any more is left out.

    Raises:
        RecordError: asv's list of benchmarks cannot be read.
    """
    chosen = list(_newest(night for night in every if night.source in files))
    if not chosen:
        return ()
    benchmarks = readings.benchmarks(folder)
    return readings.newest_first(
        snapshot
        for night in chosen
        for snapshot in _snapshots(folder, files[night.source], benchmarks, [])
        if (snapshot.machine, snapshot.commit) == (night.header.machine, night.header.commit)
    )


def _bundles(folder: Path, digests: Digests) -> Iterator[_Bundle]:
    """All files of results, in an order that depends on their names alone."""
    listed = folder / readings.LIST
    if not listed.is_file():
        return
    by_commit: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for entry in kept.below(folder, ".json"):
        if entry.name not in {_MACHINE, readings.LIST}:
            inside = entry.path.rpartition("/")[0]
            key = inside, entry.name.partition("-")[0]
            name = entry.path.removeprefix(f"{folder}/")
            by_commit.setdefault(key, []).append((name, digests.of(entry)))
    read_with: dict[str, str] = {}
    for (inside, _), found in by_commit.items():
        if inside not in read_with:
            machine = Path(inside) / _MACHINE
            described = digests.of(machine) if machine.is_file() else ""
            read_with[inside] = making.together((digests.of(listed), described))
        files = making.together(text for one in found for text in one)
        yield _Bundle(tuple(name for name, _ in found), files, read_with[inside])


def _made(folder: Path, bundle: _Bundle, benchmarks: Any, problems: list[str]) -> list[Night]:
    """The nights of a bundle; none, and one more problem, where they cannot be worked out."""
    snapshots = _snapshots(folder, bundle.names, benchmarks, problems)
    try:
        with readings.understood(folder / bundle.names[0]):
            return list(_named(map(making.of_snapshot, snapshots), bundle.files))
    except RecordError as problem:
        problems.append(str(problem))
        return []


def _snapshots(
    folder: Path, names: Sequence[str], benchmarks: Any, problems: list[str]
) -> tuple[Snapshot, ...]:
    """What some files say together; those that cannot be read are added to the problems."""
    results: list[Results] = []
    for name in names:
        try:
            results.append(readings.load(folder / name))
        except RecordError as problem:
            problems.append(str(problem))
    try:
        with readings.understood(folder / names[0]):
            return readings.snapshots(results, benchmarks)
    except RecordError as problem:
        problems.append(str(problem))
        return ()


def _named(made: Iterable[Night], files: str) -> Iterator[Night]:
    """Nights with figures; their source is a digest of the files' and of their own bytes."""
    for night in made:
        if night.header.cases:
            own = hashlib.sha256(nights.pack(night)).hexdigest()
            yield replace(night, source=making.together((files, own)))


def _newest(every: Iterable[Night]) -> Iterator[Night]:
    """The nights with the newest figure of any benchmark; where several are as new, all of them."""
    seen: dict[str, tuple[int, str]] = {}
    for night in sorted(every, key=_age, reverse=True):
        groups, age = night.header.groups, _age(night)
        wanted = {group for group in set(groups) if seen.get(group, age) == age}
        if wanted:
            there = np.flatnonzero(~np.isnan(night.mean).all(axis=1)).tolist()
            wanted &= {groups[place] for place in there}
        if wanted:
            seen |= dict.fromkeys(wanted, age)
            yield night


def _age(night: Night) -> tuple[int, str]:
    """Dates of the commit and of the measurement, as `readings.newest_first` sorts by them."""
    return night.header.time, night.header.run[:_SECOND]


def _remembered(
    sources: Sequence[str] | None, before: Mapping[str, Night], cache: Path
) -> list[Night] | None:
    """The nights with these sources; None unless all are kept."""
    if sources is None:
        return None
    found: list[Night] = []
    for source in sources:
        night = before.get(source) or nights.read(_single(cache, source), source)
        if night is None:
            return None
        found.append(night)
    return found


def _single(cache: Path, source: str) -> Path:
    """Where a night is that is in no pack."""
    formats = f"{FORMAT}.{nights.FORMAT}"
    return cache / FOLDER / formats / f"{source}{nights.SUFFIX}"


def _known(path: Path) -> dict[str, list[str]]:
    """Which nights came of which bundles; nothing if it is not there, old, or damaged."""
    try:
        stored = json.loads(path.read_bytes())
        if stored["formats"] != _FORMATS:
            return {}
        return {str(key): [str(one) for one in many] for key, many in stored["nights"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
