"""Full disks: writes go to the kernel's full device, which fails each with ENOSPC."""

import io
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from bare import Programs

BALLAST: Final = "ballast"
"""The file that fills a disk; removing it makes room again."""

FULL: Final = "/dev/full"

_GIT: Final = """\
# On a full disk git prints the kernel's error and ends.
case "$*" in
*"{folder}/"*)
    if [ -e "{folder}/{ballast}" ]; then
        dd if=/dev/zero of={full} bs=1 count=1
        exit 128
    fi ;;
esac
exec {git} "$@"
"""


@contextmanager
def small_disk(folder: Path) -> Iterator[Callable[[], None]]:
    """Provide a function that fills a folder: then files can be created there, but not written.

    This affects this process and git.
    """
    real_open, real_mkstemp, git = io.open, tempfile.mkstemp, shutil.which("git")

    def is_full(name: object) -> bool:
        if not isinstance(name, str | os.PathLike) or not (folder / BALLAST).exists():
            return False
        return Path(name).is_relative_to(folder)

    def open_(file: Any, mode: str = "r", *arguments: Any, **named: Any) -> Any:
        if set(mode) & set("wax+") and is_full(file):
            real_open(file, mode, *arguments, **named).close()
            return real_open(FULL, mode.replace("x", "w"), *arguments, **named)
        return real_open(file, mode, *arguments, **named)

    def mkstemp(*arguments: Any, **named: Any) -> tuple[int, str]:
        handle, name = real_mkstemp(*arguments, **named)
        if is_full(name):
            os.close(handle)
            handle = os.open(FULL, os.O_WRONLY)
        return handle, name

    with tempfile.TemporaryDirectory() as programs, pytest.MonkeyPatch.context() as patch:
        text = _GIT.format(folder=folder, ballast=BALLAST, full=FULL, git=git)
        Programs(Path(programs)).write("git", text)
        patch.setenv("PATH", programs, prepend=os.pathsep)
        patch.setattr(io, "open", open_)
        patch.setattr(tempfile, "mkstemp", mkstemp)
        yield (folder / BALLAST).touch
