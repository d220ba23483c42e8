"""Paths of the checkout, of the caches outside it, and of temporary folders."""

import atexit
import fcntl
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final

import platformdirs

from duetbench.core.errors import UsageError

_NAME: Final = "duetbench"
_PACKAGE: Final = Path(__file__).resolve().parents[1]
PINS: Final = _PACKAGE / "app" / "pins"
"""The folder with what duetbench declares itself: interpreters and the load generator."""

_SCRATCH: Final = f"{_NAME}-tmp-"  # begins names of folders
_CHECKOUT: Final = _PACKAGE.parents[1]  # nothing of ours, if the package is installed
_TABLE: Final = re.compile(rf"^\[tool\.{_NAME}[\].]", re.MULTILINE)
_PROJECTS: Final = (".git", "pyproject.toml", "setup.py", "setup.cfg", "requirements.txt")
"""Files that mark a folder as a repository or project."""


def project_root(*, stand_in: bool = True) -> Path:
    """Find the current repository: the folder that `declares` something, or else any project's.

    `$DUETBENCH_ROOT` names it, if set. Otherwise it is the working directory or one of its parents,
    up to the top of their repository. If there is none and `stand_in`, it is duetbench's own
    checkout, or the folder of its pins. Raises UsageError if there is no such folder.
    """
    setting = os.environ.get("DUETBENCH_ROOT")
    if setting:
        if (root := Path(setting).resolve()).is_dir():
            return root
        raise UsageError(f"DUETBENCH_ROOT={setting}: expected the folder of a repository")
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
    if stand_in:
        return _CHECKOUT if declares(_CHECKOUT) else PINS
    raise UsageError(
        f"{here} is in no repository: change into the one to be measured, or set "
        "DUETBENCH_ROOT to its folder"
    )


def declares(folder: Path) -> bool:
    """Whether a folder's `pyproject.toml` has `[tool.duetbench]`, or it has a `duetbench.toml`."""
    if (folder / f"{_NAME}.toml").is_file():
        return True
    with suppress(OSError):
        return _TABLE.search((folder / "pyproject.toml").read_text("utf-8", "replace")) is not None
    return False


def project_state(root: Path) -> Path:
    """The folder for a repository's own files in the state folder."""
    where = hashlib.sha256(str(root).encode()).hexdigest()[:8]
    return state_dir() / "projects" / f"{root.name}-{where}"


def above(folder: Path, levels: int) -> Path:
    """The folder so many levels above another; that itself for none."""
    return folder.parents[levels - 1] if levels else folder


def inside(root: Path, name: str) -> Path:
    """The path that a file of a repository names in its folder `root`.

    Raises UsageError if it is outside the repository: anybody may have written that file.
    """
    top = next((place for place in (root, *root.parents) if (place / ".git").exists()), root)
    if not (root / name).resolve().is_relative_to(top.resolve()):
        raise UsageError(f"{name}: expected a path in the repository, as {root} names it")
    return root / name


def keep_newest_logs(folder: Path, most: int = 20) -> None:
    """Remove all but the newest folders of logs: they explain failures, and old ones do not."""
    for old in sorted(path for path in folder.iterdir() if path.is_dir())[:-most]:
        shutil.rmtree(old, ignore_errors=True)


def make_logs(folder: Path) -> None:
    """Make a folder for logs, which may contain private values: nobody else can read it."""
    folder.mkdir(parents=True, exist_ok=True)
    with suppress(PermissionError):  # another user's
        folder.chmod(0o700)


def cache_dir() -> Path:
    """The folder for set-up: `$XDG_CACHE_HOME/duetbench`. Safe to delete, but slow to rebuild."""
    return platformdirs.user_cache_path(_NAME)


def state_dir() -> Path:
    """The folder for files that outlive a run and are no results: `$XDG_STATE_HOME/duetbench`."""
    return platformdirs.user_state_path(_NAME)


@contextmanager
def scratch(base: Path | None = None) -> Iterator[Path]:
    """Provide a folder as of `make_scratch`; remove those of dead processes."""
    sweep_scratch(base)
    folder = make_scratch(base)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def make_scratch(base: Path | None = None) -> Path:
    """Make an empty folder; its path has a fixed length. The caller removes it.

    It is below `base`, or the folder for temporary files, in a folder of this process.
    """
    own = _own_scratch(base or Path(tempfile.gettempdir()), os.getpid())
    return Path(tempfile.mkdtemp(prefix="", dir=own))


def sweep_scratch(base: Path | None = None) -> None:
    """Remove the folders of `make_scratch` whose processes are dead."""
    for folder in (base or Path(tempfile.gettempdir())).glob(f"{_SCRATCH}????????"):
        with suppress(OSError):  # another user's, or locked
            handle = os.open(folder, os.O_RDONLY)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(handle)


@cache
def _own_scratch(base: Path, process: int) -> Path:
    """A process's folder, which it locks; the kernel releases it, however the process ends."""
    folder = Path(tempfile.mkdtemp(prefix=_SCRATCH, dir=base))
    with suppress(OSError):  # no locks on this file system
        fcntl.flock(os.open(folder, os.O_RDONLY), fcntl.LOCK_EX)
    if not folder.exists():  # another one removed it before it was locked
        return _own_scratch.__wrapped__(base, process)

    def remove() -> None:
        if os.getpid() == process:  # no fork of it
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder
