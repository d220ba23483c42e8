"""Where things are: the checkout, and the caches outside it."""

import hashlib
import os
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import platformdirs

from duetbench.core.errors import UsageError

_NAME: Final = "duetbench"
_PACKAGE: Final = Path(__file__).resolve().parents[1]
_IN_WHEEL: Final = _PACKAGE / "own"
OWN: Final = _IN_WHEEL if _IN_WHEEL.is_dir() else _PACKAGE.parents[1]
"""The checkout that this package is part of; in an installed one the folder with what it reads of
it (`scripts/hatch_build.py` says what that is)."""

_PROJECTS: Final = (".git", "pyproject.toml", "setup.py", "setup.cfg", "requirements.txt")
"""What a folder has that is somebody's repository or project."""

_HOWTO: Final = "see 'Adding things' in duetbench's CONTRIBUTING.md"


def project_root(*, stand_in: bool = True) -> Path:
    """Find the repository around us: the folder that `declares` something, or else any project's.

    `$DUETBENCH_ROOT` decides when it is set; otherwise the working directory and its parents, up
    to the end of their repository. Where that is none, duetbench's own checkout will do if
    `stand_in`. Raises UsageError if there is no such folder.
    """
    chosen = os.environ.get("DUETBENCH_ROOT")
    if chosen:
        root = Path(chosen).resolve()
        if declares(root) or any((root / name).exists() for name in _PROJECTS):
            return root
        raise UsageError(
            f"DUETBENCH_ROOT={chosen}: expected a folder of a repository or project (with one of "
            f"{', '.join(_PROJECTS)}); point it at the one that is to be measured, or unset it"
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
        return other
    if stand_in and declares(OWN):
        return OWN
    raise UsageError(
        f"{here} lies in no repository: change into the one that is to be measured, or set "
        "DUETBENCH_ROOT to its folder"
    )


def undeclared(what: Path | str, found: str) -> UsageError:
    """What to say of a repository `what`, or a state of one, that declares nothing to measure."""
    return UsageError(
        f"{what} declares nothing to measure ({found}): name its application, as in "
        "`--app shop.main:app --path /items/7`, or keep that in [tool.duetbench] of "
        f"pyproject.toml, which `duetbench init` writes; for experiments {_HOWTO}"
    )


def declares(folder: Path) -> bool:
    """Whether a folder's `pyproject.toml` has a `[tool.duetbench]`, or it a `duetbench.toml`."""
    return _table(folder) is not None


def others(folder: Path) -> dict[str, Any]:
    """What a folder's `pyproject.toml` says beside `[tool.duetbench]`."""
    project = _read(folder / "pyproject.toml")
    tools = {name: table for name, table in project.get("tool", {}).items() if name != _NAME}
    return {**project, "tool": tools}


def _table(folder: Path) -> Mapping[str, Any] | None:
    if (own := folder / f"{_NAME}.toml").is_file():
        return _read(own)
    table: Mapping[str, Any] | None = _read(folder / "pyproject.toml").get("tool", {}).get(_NAME)
    return table


def _read(file: Path) -> Mapping[str, Any]:
    try:
        stat = file.stat()
        return _parsed(file, stat.st_mtime_ns, stat.st_size)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return {}


@cache
def _parsed(file: Path, _changed: int, _size: int) -> Mapping[str, Any]:
    """Once per state of the file: a site asks for the name of a case twenty thousand times."""
    return tomllib.loads(file.read_text("utf-8"))


def results_dir(root: Path) -> Path:
    """Where a repository's run files are kept: in it, where its experiments or `results` say so.

    Those of a target are nobody's files there unless it says so: they go to the state folder.
    """
    table = _table(root)
    if table is not None and (chosen := table.get("results")):
        return root / str(chosen)
    if table is not None and "app" not in table:
        return root / "results"
    where = hashlib.sha256(str(root).encode()).hexdigest()[:8]
    return state_dir() / "projects" / f"{root.name}-{where}" / "results"


def cache_dir() -> Path:
    """What set-up made: `$XDG_CACHE_HOME/duetbench`. Safe to delete, slow to make again."""
    return platformdirs.user_cache_path(_NAME)


def state_dir() -> Path:
    """What outlives a run without being a result: `$XDG_STATE_HOME/duetbench`."""
    return platformdirs.user_state_path(_NAME)
