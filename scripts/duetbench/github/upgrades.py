"""Upgrades: changes of nothing but locks, as bots propose them, and the release that did it."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Final, Literal

from pydantic import Field

from duetbench.core.model import Artefact
from duetbench.host import git
from duetbench.store.change import Cause

LOCKS: Final = re.compile(
    r"(uv|poetry|pdm)\.lock|pylock(\.[^/]+)?\.toml|Pipfile(\.lock)?"
    r"|[^/]*(requirements|constraints)[^/]*\.(txt|in)"
)
"""Names of files that say which packages there are, and nothing else."""

PROJECT: Final = "pyproject.toml"
_REQUIREMENTS: Final = re.compile(r"requirements/[^/]+\.(txt|in)")


class Upgrade(Artefact):
    """What came of the search for the release that moved an application, on an upgrade branch."""

    noun: ClassVar[str] = "what an upgrade's search found"

    format: Literal[1] = 1
    cause: Cause | None = Field(default=None, description="Null: nothing was searched for.")
    note: str = Field(default="", description="Why there is no cause.")


def is_lock(path: str) -> bool:
    """Whether a file of a repository is a lock, by its path."""
    name = PurePosixPath(path).name
    return bool(LOCKS.fullmatch(name) or _REQUIREMENTS.fullmatch("/".join(path.split("/")[-2:])))


def is_upgrade(root: Path, base: str, head: str, lock: str = "") -> bool:
    """Whether two commits differ in locks alone, and in what `pyproject.toml` requires.

    Args:
        root: The repository, or a folder of it.
        base: A commit that is there.
        head: Another.
        lock: The only file that counts as a lock; its path from the repository's root.

    Raises:
        GitError: A commit is not there.
    """
    listed = git.ask(root, "diff-tree", "-r", "-z", "--no-renames", "--name-only", base, head)
    files = [path for path in listed.split("\0") if path]
    locks = [path for path in files if (path == lock if lock else is_lock(path))]
    others = [path for path in files if path not in locks]
    return bool(locks) and all(
        PurePosixPath(path).name == PROJECT
        and _without_requirements(root, base, path) == _without_requirements(root, head, path)
        for path in others
    )


def _without_requirements(root: Path, commit: str, path: str) -> Mapping[str, Any] | None:
    text = git.ask_or_none(root, "show", f"{commit}:{path}")
    try:
        project = tomllib.loads(text or "")
    except tomllib.TOMLDecodeError:
        return {"unreadable": text, "commit": commit}
    project.pop("dependency-groups", None)
    for key in ("dependencies", "optional-dependencies"):
        project.get("project", {}).pop(key, None)
    return project
