"""Where things are: the checkout, and the caches outside it."""

import os
import tomllib
from pathlib import Path
from typing import Any, Final

import platformdirs

from servebench.core.errors import UsageError

_NAME: Final = "servebench"
_PACKAGE: Final = Path(__file__).resolve().parents[1]
_IN_WHEEL: Final = _PACKAGE / "own"
OWN: Final = _IN_WHEEL if _IN_WHEEL.is_dir() else _PACKAGE.parents[1]
"""The checkout that this package is part of; in an installed one the folder with what it reads of
it (`scripts/hatch_build.py` says what that is)."""

_PROJECTS: Final = (".git", "pyproject.toml", "setup.py", "setup.cfg", "requirements.txt")
"""What a folder has that is somebody's repository or project."""

_HOWTO: Final = "see 'Benchmark your own applications' in servebench's docs/automation.md"


def project_root(*, stand_in: bool = True) -> Path:
    """Find the repository around us: the folder with a `[tool.servebench]` in `pyproject.toml`.

    `$SERVEBENCH_ROOT` decides when it is set; otherwise the working directory and its parents, up
    to the end of their repository. Where that is none, servebench's own checkout will do if
    `stand_in`. Raises UsageError if there is no such folder.
    """
    chosen = os.environ.get("SERVEBENCH_ROOT")
    if chosen:
        root = Path(chosen).resolve()
        if declares(root):
            return root
        raise UsageError(
            f"SERVEBENCH_ROOT={chosen}: expected a folder whose pyproject.toml has a "
            "[tool.servebench] table; point it at a checkout of servebench or unset it"
        )
    here, other = Path.cwd(), None
    for folder in (here, *here.parents):
        if declares(folder):
            return folder
        if other is None and any((folder / name).exists() for name in _PROJECTS):
            other = folder
        if (folder / ".git").exists():
            break
    if other is not None:
        raise undeclared(other, "no [tool.servebench] in its pyproject.toml")
    if stand_in and declares(OWN):
        return OWN
    raise UsageError(
        f"{here} lies in no repository: change into the one that is to be measured, or set "
        "SERVEBENCH_ROOT to its folder"
    )


def undeclared(what: Path | str, found: str) -> UsageError:
    """What to say of a repository `what`, or a state of one, that declares nothing to measure."""
    return UsageError(
        f"{what} declares nothing to measure: expected a [tool.servebench] table in "
        f"pyproject.toml, and apps/pyproject.toml beside apps/<experiment>/experiment.toml; found "
        f"{found}. Change into a repository that has them, set SERVEBENCH_ROOT to its folder, or "
        f"declare what is to be measured here: {_HOWTO}"
    )


def declares(folder: Path) -> bool:
    """Whether a folder's `pyproject.toml` has a `[tool.servebench]` table."""
    return _project(folder).get("tool", {}).get(_NAME) is not None


def others(folder: Path) -> dict[str, Any]:
    """What a folder's `pyproject.toml` says beside `[tool.servebench]`."""
    project = _project(folder)
    tools = {name: table for name, table in project.get("tool", {}).items() if name != _NAME}
    return {**project, "tool": tools}


def _project(folder: Path) -> dict[str, Any]:
    try:
        with (folder / "pyproject.toml").open("rb") as file:
            return tomllib.load(file)
    except (OSError, tomllib.TOMLDecodeError):
        return {}


def results_dir() -> Path:
    """Where run files are kept."""
    return project_root() / "results"


def cache_dir() -> Path:
    """What set-up made: `$XDG_CACHE_HOME/servebench`. Safe to delete, slow to make again."""
    return platformdirs.user_cache_path(_NAME)


def state_dir() -> Path:
    """What outlives a run without being a result: `$XDG_STATE_HOME/servebench`."""
    return platformdirs.user_state_path(_NAME)
