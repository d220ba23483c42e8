"""Results as they are committed, without what has been measured in this checkout since.

What the repository says of its own results (pictures, tests) must not depend on who has run
`make bench` in it.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from servebench.core.errors import HistoryError, SetupError
from servebench.host import git

_RESULTS: Final = "results"


def results(root: Path, folder: Path) -> Path:
    """Copy the results that git tracks.

    Args:
        root: The checkout.
        folder: Where to; existing.

    Returns:
        The copy, `folder / "results"`.

    Raises:
        SetupError: `root` is no checkout of git's, or git does not work.
    """
    try:
        listed = git.run(["-C", str(root), "ls-files", "-z", "--", _RESULTS], {})
    except HistoryError as error:
        raise SetupError(f"git cannot list the results of {root}: {error}") from error
    copy = folder / _RESULTS
    copy.mkdir()
    for name in filter(None, listed.decode().split("\0")):
        source, target = root / name, folder / name
        if source.is_file():  # it may have been removed, and that not been committed yet
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    return copy
