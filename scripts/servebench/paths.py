"""Where things are: the checkout, and the caches outside it."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import platformdirs

from servebench.errors import UsageError

_NAME: Final = "servebench"


def project_root() -> Path:
    """Find the checkout: the folder whose `pyproject.toml` has a `[tool.servebench]` table.

    `$SERVEBENCH_ROOT` decides when it is set; otherwise the working directory and its parents are
    searched, then the parents of this package.

    Raises:
        UsageError: No such folder was found.
    """
    chosen = os.environ.get("SERVEBENCH_ROOT")
    if chosen:
        root = Path(chosen).resolve()
        if _is_root(root):
            return root
        raise UsageError(
            f"SERVEBENCH_ROOT={chosen}: expected a folder whose pyproject.toml has a "
            "[tool.servebench] table; point it at a checkout of servebench or unset it"
        )
    for folder in _candidates():
        if _is_root(folder):
            return folder
    raise UsageError(
        f"no checkout of servebench around {Path.cwd()}: expected a pyproject.toml with a "
        "[tool.servebench] table; change into a checkout or set SERVEBENCH_ROOT"
    )


def _candidates() -> Iterator[Path]:
    for start in (Path.cwd(), Path(__file__).resolve().parent):
        yield from (start, *start.parents)


def _is_root(folder: Path) -> bool:
    try:
        with (folder / "pyproject.toml").open("rb") as file:
            return _NAME in tomllib.load(file).get("tool", {})
    except (OSError, tomllib.TOMLDecodeError):
        return False


def apps_dir() -> Path:
    """The applications and stacks under test."""
    return project_root() / "apps"


def results_dir() -> Path:
    """Where run files are kept."""
    return project_root() / "results"


def cache_dir() -> Path:
    """What set-up made: `$XDG_CACHE_HOME/servebench`. Safe to delete, slow to make again."""
    return platformdirs.user_cache_path(_NAME)


def state_dir() -> Path:
    """What outlives a run without being a result: `$XDG_STATE_HOME/servebench`."""
    return platformdirs.user_state_path(_NAME)
