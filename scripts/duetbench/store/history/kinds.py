"""What the history consists of: which files, how each is checked, and which may change.

What is not listed here does not enter the history, and what is damaged does not either.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from duetbench.core.errors import RecordError
from duetbench.core.model import Artefact, Run
from duetbench.store import (
    attribution,
    change,
    files,
    packages,
    points,
    store,
)
from duetbench.store.attribution import Attribution
from duetbench.store.change import ChangeRecord, Dismissal
from duetbench.store.comparison import Comparison
from duetbench.store.night import NightRecord
from duetbench.store.packages import PackageRecord
from duetbench.store.points import Points

MOST_BYTES: Final = 8_000_000
"""Of one file; a nightly run has 0.2 MB, the longest comparison 2 MB."""

_Kind = TypeVar("_Kind", bound=Artefact)
_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}"


@dataclass(frozen=True, slots=True)
class File:
    """A file for the history."""

    path: str  # below `results/`
    data: bytes  # its bytes, which were checked
    replaceable: bool  # whether other bytes may take their place one day
    settled: bool = False  # whether what is there under its name stays, and is as good


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of file."""

    name: str
    path: re.Pattern[str]  # where it is, below `results/`
    replaceable: bool  # whether it may change; a measurement may not
    # From its bytes and what to call them to where they belong; RecordError if they are damaged.
    place: Callable[[bytes, str], str]
    # Whether the first one of a name stays: a commit is measured in the process once, and nights
    # without a new commit would measure it again.
    settled: bool = False


def _below(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"{pattern}\.json")


def _of(kind: type[_Kind], where: Callable[[_Kind], str]) -> Callable[[bytes, str], str]:
    return lambda data, name: where(files.parse(kind, data, name))


def _of_asv(name_of: Callable[[dict[str, Any]], str]) -> Callable[[bytes, str], str]:
    """For files of asv's, of which no more is read here than where they belong."""

    def place(data: bytes, name: str) -> str:
        try:
            return f"asv/{name_of(json.loads(data))}.json"
        except (ValueError, TypeError, KeyError, RecursionError) as problem:
            first = f"{type(problem).__name__}: {problem}"
            raise RecordError(f"{name}: expected a file of asv's, found: {first}") from problem

    return place


KINDS: Final = (
    Kind(
        "run", _below(rf"runs/{_NAME}/\d{{4}}/{_NAME}"), replaceable=False,
        place=lambda data, name: store.path_for(Path(), store.decode(data, name)).as_posix(),
    ),
    Kind(
        "comparison", _below(rf"comparisons/{_NAME}"), replaceable=False,
        place=_of(Comparison, lambda one: f"comparisons/{one.id}.json"),
    ),
    Kind(
        "anchored points", _below(rf"{points.FOLDER}/{_NAME}/\d{{4}}/{_NAME}"), replaceable=False,
        place=_of(Points, lambda one: points.path_of(one).as_posix()),
    ),
    Kind(
        "attribution", _below(rf"{attribution.FOLDER}/{_NAME}"), replaceable=True,
        place=_of(Attribution, lambda one: f"{attribution.FOLDER}/{one.id}.json"),
    ),
    Kind(
        "night", _below(rf"nights/\d{{4}}/{_NAME}"), replaceable=True,
        place=_of(NightRecord, lambda one: one.path),
    ),
    Kind(
        "change", _below(rf"{change.FOLDER}/{_NAME}"), replaceable=True,
        place=_of(ChangeRecord, lambda one: f"{change.FOLDER}/{one.id}.json"),
    ),
    Kind(
        "dismissal", _below(rf"dismissed/{_NAME}"), replaceable=True,
        place=_of(Dismissal, lambda one: f"dismissed/{one.id}.json"),
    ),
    Kind(
        "links of a package", _below(rf"{packages.FOLDER}/{_NAME}"), replaceable=True,
        place=_of(PackageRecord, lambda one: packages.path_of(one.id).as_posix()),
    ),
    Kind(
        "figures inside the process", _below(rf"asv/{_NAME}/[0-9a-f]{{8}}-duetbench-{_NAME}"),
        replaceable=False, settled=True, place=_of_asv(
            lambda of: f"{of['params']['machine']}/{of['commit_hash'][:8]}-{of['env_name']}"
        ),
    ),
    Kind(
        "machine, for asv", _below(rf"asv/{_NAME}/machine"), replaceable=True,
        place=_of_asv(lambda found: f"{found['machine']}/machine"),
    ),
)  # fmt: skip
"""To add one, add a row here."""


def kind_of(path: str) -> Kind | None:
    """The kind of a path below `results/`; None if it is no part of the history."""
    return next((kind for kind in KINDS if kind.path.fullmatch(path)), None)


def collect(folder: Path) -> tuple[tuple[File, ...], tuple[Run, ...], tuple[str, ...]]:
    """Read and check all files of a results folder; raises RecordError.

    A run that was cut short (`*.partial.json`) enters the history as what it is, a partial run,
    under its own name; unless it was finished after all. Returns the files, the runs among them,
    and paths that are no part of the history.
    """
    found: dict[str, File] = {}
    runs: list[Run] = []
    others: list[str] = []
    for path in sorted(_plain(folder), key=lambda p: (p.name.endswith(store.PARTIAL), p)):
        below = path.relative_to(folder).as_posix()
        begun = below.removesuffix(store.PARTIAL)
        final = below if begun == below else f"{begun}.json"
        kind = kind_of(final)
        if kind is None or (begun != below and kind.name != "run"):
            others.append(below)
            continue
        data = files.contents(path, MOST_BYTES)
        belongs = kind.place(data, str(path))
        if belongs and belongs != final:
            raise RecordError(
                f"{path}: expected it at {folder / belongs}, as its contents say; move it there"
            )
        if final in found:
            continue
        found[final] = File(final, data, kind.replaceable, kind.settled)
        if kind.name == "run":
            runs.append(store.decode(data, str(path)))
    return tuple(found.values()), tuple(runs), tuple(others)


def _plain(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if path.is_symlink():
            raise RecordError(f"{path}: expected a plain file, found a link; remove it")
        if path.is_file() and not any(part[0] == "." for part in path.relative_to(folder).parts):
            yield path
