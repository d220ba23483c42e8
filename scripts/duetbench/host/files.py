"""Writes files of results, each strict JSON of one `Artefact`, and says what is wrong with one.

The writer always replaces the whole file: it writes a new one beside it and flushes it to the disk
first. Whatever happens, the earlier file stays whole.
"""

import os
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from duetbench.core.errors import RecordError
from duetbench.core.model import Artefact, Profile
from duetbench.core.text import visible_json
from duetbench.host.paths import project_root, project_state

MOST_COMPARISONS: Final = 50  # comparisons that are kept: the newest

PARTIAL: Final = ".partial.json"  # end of the name of a file that still grows

ADVICE: Final = (
    "free some space, or make the folder writable; XDG_CACHE_HOME and XDG_STATE_HOME move "
    "duetbench's own folders"
)
"""What to do if a file cannot be written."""


def encode(value: Artefact) -> bytes:
    """Encode a value as the bytes of its file."""
    return (visible_json(value.model_dump_json(indent=value.indent)) + "\n").encode()


def result_id(started: str, kind: Profile | Literal["compare"], commit: str | None) -> str:
    """A result's name, such as `20261120T094012Z-nightly-3f2a9c17`; names sort by time.

    `started` is ISO 8601 with an offset.
    """
    moment = datetime.fromisoformat(started).astimezone(UTC)
    return f"{moment:%Y%m%dT%H%M%SZ}-{kind}-{(commit or 'nocommit')[:8]}"


def place(results: Path, value: Artefact) -> Path:
    """The file of a value; an unfinished result's is another one."""
    path = results / value.path
    unfinished = getattr(value, "status", "") == "partial"
    return path.with_name(path.stem + PARTIAL) if unfinished else path


def save(results: Path, value: Artefact) -> Path:
    """Write a value to its place, replacing an earlier state; raises RecordError."""
    path = write(place(results, value), value)
    if not path.name.endswith(PARTIAL):
        path.with_name(path.stem + PARTIAL).unlink(missing_ok=True)
    return path


def save_comparison(comparison: Artefact, folder: Path | None = None) -> Path:
    """Write a comparison, by default among this repository's; only the newest are kept there."""
    path = save(folder or project_state(project_root()), comparison)
    for old in sorted(path.parent.glob("*.json"))[:-MOST_COMPARISONS]:  # names sort by time
        old.unlink(missing_ok=True)
    return path


def write(path: Path, value: Artefact) -> Path:
    """Write a value to its file, replacing what was there; raises RecordError."""
    replace(path, encode(value))
    return path


def first_problem(error: ValidationError) -> str:
    """Describe the first mistake, as `problem_of` does."""
    return problem_of(error.errors(include_url=False, include_context=False)[0])


def problem_of(error: ErrorDetails) -> str:
    """Describe a mistake: its place, the rule, and the value."""
    place = ".".join(map(str, error["loc"])) or "the file"
    # A message about a whole object is complete; the object itself would add nothing.
    plain = isinstance(error["input"], str | int | float | None)
    silent = error["type"] == "missing" or (error["type"] == "value_error" and not plain)
    value = f", found {error['input']!r:.60}" if not silent else ""
    return f"{place}: {error['msg'].removeprefix('Value error, ')}{value}"


def replace(path: Path, data: bytes) -> None:
    """Write a whole file, replacing what was there; raises RecordError.

    It is flushed to the disk before it has its name, and so is the name then.
    """
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
        temporary = Path(name)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)  # mkstemp makes it private; results are public
        temporary.replace(path)
        # The folder too, so that a new name survives a power cut.
        handle = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as problem:
        raise RecordError(
            f"{path}: the file could not be saved ({problem.strerror}); {ADVICE}. "
            "Earlier results are unharmed"
        ) from problem
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def require_writable(path: Path) -> None:
    """Check that a file can be written; raises RecordError."""
    new = not path.exists()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("ab").close()
        if new:
            path.unlink()
    except OSError as problem:
        raise RecordError(
            f"{path}: cannot be written ({problem.strerror}); {ADVICE}. Nothing was done"
        ) from problem


def require_room(folder: Path) -> None:
    """Check that a results folder can be written, before hours are spent; raises RecordError."""
    require_writable(folder / f".{os.getpid()}.tmp")
