"""The files of results: one strict reader, one writer, one sentence for each problem.

A file is strict JSON of one `Artefact`. The writer always replaces the whole file: it writes a new
one beside it and flushes it to the disk first. Whatever happens, the earlier file stays whole.
"""

import json
import os
import re
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from duetbench.core.errors import RecordError
from duetbench.core.model import Artefact, Profile
from duetbench.core.text import visible_json
from duetbench.host.paths import project_root, project_state

MOST_BYTES: Final = 16_000_000  # of one file: many times the largest one
MOST_COMPARISONS: Final = 50  # comparisons that are kept: the newest

_Kind = TypeVar("_Kind", bound=Artefact)
_SHOWN_PROBLEMS: Final = 3
PARTIAL: Final = ".partial.json"  # end of the name of a file that still grows

ADVICE: Final = (
    "free some space, or make the folder writable; XDG_CACHE_HOME and XDG_STATE_HOME move "
    "duetbench's own folders"
)
"""What to do if a file cannot be written."""


def encode(value: Artefact) -> bytes:
    """Encode a value as the bytes of its file."""
    return (visible_json(value.model_dump_json(indent=value.indent)) + "\n").encode()


def parse(kind: type[_Kind], data: bytes, name: str) -> _Kind:
    """Parse the bytes of a file; raises RecordError.

    Strict JSON: no NaN, no infinity, no text for a number, no unknown key.
    Errors call the file `name`.
    """
    version = kind.model_fields["format"].default
    expected = f"{name}: expected {kind.noun}"
    _require_object(data, expected)
    try:
        return kind.model_validate_json(data, strict=True)
    except ValidationError as problem:
        errors = problem.errors(include_url=False, include_context=False)
        messages = [_problem(error) for error in errors[:_SHOWN_PROBLEMS]]
        more = len(errors) - len(messages)
        messages += [f"and {more} more"] if more else []
        raise RecordError(
            f"{expected} of format {version}: {'; '.join(messages)}. If a newer duetbench wrote "
            "it, update duetbench (uv tool upgrade duetbench); otherwise it is damaged"
        ) from problem


def read(kind: type[_Kind], path: Path) -> _Kind:
    """Read a file; raises RecordError."""
    return parse(kind, contents(path), str(path))


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


def paths(kind: type[Artefact], results: Path) -> list[Path]:
    """The files of a kind, by folder and name."""
    return sorted(results.glob(re.sub(r"{.*?}", "*", kind.place)))


def contents(path: Path) -> bytes:
    """The bytes of a file; raises RecordError."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size  # 0 of a pipe
            data = file.read(min(size or MOST_BYTES, MOST_BYTES) + 1)
    except OSError as problem:
        raise RecordError(f"{path}: cannot be read: {problem.strerror}") from problem
    if len(data) > MOST_BYTES:
        raise RecordError(f"{path}: expected at most {MOST_BYTES:,} bytes, found more")
    return data


def write(path: Path, value: Artefact) -> Path:
    """Write a value to its file, replacing what was there; raises RecordError."""
    replace(path, encode(value))
    return path


def first_problem(error: ValidationError) -> str:
    """The first mistake: its place, the rule, and the value."""
    return _problem(error.errors(include_url=False, include_context=False)[0])


def _problem(error: ErrorDetails) -> str:
    place = ".".join(map(str, error["loc"])) or "the file"
    # A message about a whole object is complete; the object itself would add nothing.
    plain = isinstance(error["input"], str | int | float | None)
    silent = error["type"] == "missing" or (error["type"] == "value_error" and not plain)
    value = f", found {error['input']!r:.60}" if not silent else ""
    return f"{place}: {error['msg'].removeprefix('Value error, ')}{value}"


def _require_object(data: bytes, expected: str) -> None:
    """Refuse data that is no strict JSON object with a format; raises RecordError."""
    try:
        document = json.loads(data.decode())
        json.dumps(document, allow_nan=False)  # neither NaN nor 1e999, which is infinite
    except (ValueError, RecursionError) as problem:
        content = problem if data.strip() else "an empty file"
        raise RecordError(
            f"{expected} in strict JSON, found {content}; if it is truncated or damaged, restore "
            "it from git, or remove it"
        ) from problem
    if not isinstance(document, dict) or "format" not in document:
        raise RecordError(f"{expected}, which is a JSON object with the key 'format', found none")


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
