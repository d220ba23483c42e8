"""Removing from the cache what nothing has used for long.

Every lock and every build has a place of its own in the cache, and its folder's time is that of its
last use. What the present checkout declares stays, whenever it was used, and so do the anchor's
interpreters, which may be had nowhere any more; anything else can be made again.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from duetbench.core.errors import DuetbenchError
from duetbench.host import cache, paths
from duetbench.project import anchor, interpreters, oha, stacks
from duetbench.project.project import Project
from duetbench.project.types import ORIGINS

DAYS: Final = 30
"""A month: longer than a pull request is usually looked at, and a night's locks are used once."""

_DAY_S: Final = 86400
_KINDS: Final = {
    "environment": "environments/*",
    "interpreters": "interpreters/*",
    "snapshot": "snapshots/*",
    "resolved lock": "resolved/*",
    "load generator": "tools/oha-*",
    "columns of results": "site/columns/*",
    "built package": "wheels/*",
    "fetched package": "sources/*",
}
"""Kind of folder → where its folders are in the cache."""


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
    needed = {*_declared(project), *_of_anchor(project)}
    candidates = (
        UnusedFolder(path, kind, (time.time() - _last_used(path)) / _DAY_S)
        for kind, pattern in _KINDS.items()
        for path in _folders(pattern)
        if path not in needed
    )
    return tuple(entry for entry in candidates if entry.days > days)


def prune(project: Project, days: float = DAYS) -> Removal:
    """Remove what has not been used for so long; the caller holds the machine.

    Raises:
        DeclarationError: As `unused`.
    """
    names: list[str] = []
    busy: list[str] = []
    freed = 0
    for entry in unused(project, days):
        files = (p.lstat() for p in entry.path.rglob("*") if p.is_symlink() or not p.is_dir())
        size = sum(512 * status.st_blocks for status in files if status.st_nlink == 1)
        if cache.remove(entry.path):
            names.append(f"{entry.kind} {entry.path.name}")
            freed += size
        else:
            busy.append(entry.path.name)
    return Removal(tuple(names), freed, tuple(busy))


def _declared(project: Project) -> Iterator[Path]:
    configured = project.settings
    yield oha.place(configured.oha)
    for name in configured.interpreters:
        for origin in ORIGINS:
            yield interpreters.place(name, origin, configured).parent
    for stack, pythons in project.known_stacks.items():
        for python in pythons:
            try:
                yield stacks.place(project.lock(stack), project.interpreter(python))
            except DuetbenchError:
                continue  # not locked, or not made: it has nothing to lose


def _of_anchor(project: Project) -> Iterator[Path]:
    if anchor.place(project.root).is_file():
        versions = {*anchor.load(project.root).interpreters.values()}
        for build in _folders("interpreters/*"):  # prebuilt-3.14.7, source-3.14.7-…
            if versions & {*build.name.split("-")}:
                yield build


def _folders(pattern: str) -> Iterator[Path]:
    for path in sorted(paths.cache_dir().glob(pattern)):
        # What is linked is somebody else's, which we only use.
        linked = path.is_symlink() or path.parent.is_symlink()
        if path.is_dir() and not linked and path.name[0] != ".":
            yield path


def _last_used(path: Path) -> float:
    # Folders that are no artefacts are as old as the newest in them.
    times = [path.stat().st_mtime]
    if cache.facts(path) is None:
        times += [inner.stat().st_mtime for inner in path.iterdir()]
    return max(times)
