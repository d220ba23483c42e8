"""Removing from the cache what nothing has used for long.

Every lock and every build has a place of its own in the cache. What the present checkout declares
stays, whenever it was used, and so do the anchor's interpreters, which may be had nowhere any more,
and what the site has read of a results folder that is there; anything else can be made again.
"""

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from duetbench.core.errors import DuetbenchError
from duetbench.host import cache, paths
from duetbench.project import anchor, interpreters, oha, stacks
from duetbench.project.project import Project

DAYS: Final = 30
"""A month: longer than a pull request is usually looked at, and a night's locks are used once."""

_DAY_S: Final = 86400


class UnusedFolder(NamedTuple):
    """A folder in the cache that nothing has used for so many days."""

    path: Path
    kind: str
    days: float


class Removal(NamedTuple):
    """What was removed, the bytes that were freed, and what stays since somebody is making it."""

    names: tuple[str, ...] = ()
    freed: int = 0  # files shared with uv's cache give none
    busy: tuple[str, ...] = ()


def unused(project: Project, days: float = DAYS) -> tuple[UnusedFolder, ...]:
    """Find what has not been used for so long.

    Raises:
        DeclarationError: The checkout's declarations are wrong: what it needs is not known.
    """
    kept = _declared(project) | set(_of_anchor(project))
    environments = list(_folders("environments"))
    kinds: dict[str, Iterable[Path]] = {
        "environment": environments,
        "snapshot": _folders("snapshots"),
        "resolved lock": _folders("resolved"),
        "load generator": _folders("tools", "oha-*"),
        "columns of results": _folders("site/columns"),
        "built package": _folders("wheels"),
        "fetched package": _folders("sources"),
    }
    old = [one for kind, found in kinds.items() for one in _old(kind, found, kept, days)]
    going = {one.path for one in old}
    # An interpreter is used by its environments, and by nothing else.
    needed = [(cache.facts(path) or {}).get("python") for path in environments if path not in going]
    builds = [
        build
        for build in _folders("interpreters")
        if not any(isinstance(one, str) and Path(one).is_relative_to(build) for one in needed)
    ]
    return (*old, *_old("interpreters", builds, kept, days))


def prune(project: Project, days: float = DAYS) -> Removal:
    """Remove what has not been used for so long; the caller holds the machine.

    Raises:
        DeclarationError: As `unused`.
    """
    names: list[str] = []
    busy: list[str] = []
    freed = 0
    for one in unused(project, days):
        own = (p.lstat() for p in one.path.rglob("*") if p.is_symlink() or not p.is_dir())
        size = sum(512 * status.st_blocks for status in own if status.st_nlink == 1)
        if cache.remove(one.path):
            names.append(f"{one.kind} {one.path.name}")
            freed += size
        else:
            busy.append(one.path.name)
    return Removal(tuple(names), freed, tuple(busy))


def _declared(project: Project) -> set[Path]:
    configured = project.settings
    kept = {oha.place(configured.oha)} | {
        interpreters.place(name, origin, configured).parent
        for name in configured.interpreters
        for origin in interpreters.ORIGINS
    }
    for stack_name, pythons in project.known_stacks.items():
        for python in pythons:
            try:
                kept.add(stacks.place(project.lock(stack_name), project.interpreter(python)))
            except DuetbenchError:
                continue  # not locked, or not made: it has nothing to lose
    return kept


def _of_anchor(project: Project) -> Iterator[Path]:
    if anchor.place(project.root).is_file():
        versions = {*anchor.load(project.root).interpreters.values()}
        for build in _folders("interpreters"):  # prebuilt-3.14.7, source-3.14.7-…
            if versions & {*build.name.split("-")}:
                yield build


def _folders(kind: str, pattern: str = "*") -> Iterator[Path]:
    base = paths.cache_dir() / kind
    if base.is_symlink():
        return  # somebody else's, which we only use
    for path in sorted(base.glob(pattern)):
        if path.is_dir() and not path.is_symlink() and path.name[0] != ".":
            yield path


def _old(kind: str, found: Iterable[Path], kept: set[Path], days: float) -> Iterator[UnusedFolder]:
    for path in found:
        passed = (time.time() - _last_used(path)) / _DAY_S
        if path not in kept and passed > days:
            yield UnusedFolder(path, kind, passed)


def _last_used(path: Path) -> float:
    # Using an artefact sets its folder's time; other folders are as old as their newest file.
    times = [path.stat().st_mtime]
    if cache.facts(path) is None:
        times += [inner.stat().st_mtime for inner in path.iterdir()]
    return max(times)
