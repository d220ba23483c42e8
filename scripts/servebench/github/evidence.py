"""The comparison that the measuring machine sent: other people's code ran there, so it is checked.

It is read with bounds, must be of the commit that was asked for, and nothing in it decides where it
is shown; its words are shown as text (`github.text`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from servebench import files
from servebench.artifacts.folder import Limits
from servebench.artifacts.folder import read as read_file
from servebench.compare.model import Comparison
from servebench.errors import RecordError
from servebench.text import one_line

LIMIT: Final = 32_000_000
"""Bytes of a comparison file; a real one of a hundred cases has a tenth of it."""

_LIMITS: Final = Limits(entries=1, depth=0, file_bytes=LIMIT, total_bytes=LIMIT)


def read(path: Path, head: str) -> Comparison:
    """Read a comparison of a certain commit.

    Args:
        path: The file.
        head: The commit that was asked for, 40 hex digits.

    Raises:
        ArtifactError: It is not there, no plain file, or too large.
        RecordError: It is no comparison, or one of another commit.
    """
    if not path.exists():
        raise RecordError(f"{path.name}: expected a comparison, and none has arrived")
    found = read_file(path.parent, path.name, _LIMITS)
    if len(found) != 1:
        raise RecordError(f"{path.name}: expected a comparison, found an empty folder")
    try:
        comparison = files.parse(Comparison, found[0].data, path.name, quoted=False)
    except RecordError as error:
        raise RecordError(one_line(str(error))) from error
    side = comparison.head
    if side.commit != head or side.dirty:
        found_commit = one_line((side.commit or "no commit")[:12])
        raise RecordError(
            f"{path.name}: expected a comparison of {head[:12]}, found one of "
            f"{found_commit}{' with uncommitted changes' * side.dirty}"
        )
    return comparison
