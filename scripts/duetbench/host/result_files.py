"""Stored results: read strictly, and found by the names that people use for them."""

import json
import os
import re
from pathlib import Path
from typing import Final, TypeVar

from pydantic import ValidationError

from duetbench.core.comparison import Comparison
from duetbench.core.errors import RecordError, UsageError
from duetbench.core.model import Artefact, Run
from duetbench.host import files, paths

MOST_BYTES: Final = 16_000_000  # of one file: many times the largest one
_SHOWN_PROBLEMS: Final = 3
_Kind = TypeVar("_Kind", bound=Artefact)


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
        messages = [files.problem_of(error) for error in errors[:_SHOWN_PROBLEMS]]
        more = len(errors) - len(messages)
        messages += [f"and {more} more"] if more else []
        raise RecordError(
            f"{expected} of format {version}: {'; '.join(messages)}. If a newer duetbench wrote "
            "it, update duetbench (uv tool upgrade duetbench); otherwise it is damaged"
        ) from problem


def read(kind: type[_Kind], path: Path) -> _Kind:
    """Read a file; raises RecordError."""
    return parse(kind, contents(path), str(path))


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


def of_kind(kind: type[Artefact], results: Path) -> list[Path]:
    """The files of a kind, by folder and name."""
    return sorted(results.glob(re.sub(r"{.*?}", "*", kind.place)))


def runs(results: Path) -> list[Path]:
    """The files of finished runs, oldest first."""
    return [path for name, path in _ids(Run, results).items() if path.stem == name]


def find(name: str, results: Path) -> Path:
    """The file that a name means: a path, `latest`, an id, or part of an id.

    Results are those in a folder, and the comparisons that are kept on this machine. The latest is
    the newest finished run, or comparison, of this repository.

    Raises UsageError: no result has that name, or several have.
    """
    if (path := Path(name)).is_file():
        return path
    if name == "latest":
        known = _ids(Comparison, paths.project_state(paths.project_root()), results)
        known |= {path.stem: path for path in runs(results)}
        matching = [max(known)] if known else []  # names begin with their time
    else:
        kept = paths.state_dir().glob("projects/*")
        known = _ids(Run, results) | _ids(Comparison, *kept, results)
        matching = [name] if name in known else [id_ for id_ in known if name in id_]
    if len(matching) == 1:
        return known[matching[0]]
    if matching:
        raise UsageError(f"{name!r} could be any of {', '.join(matching[-5:])}; be more specific")
    raise UsageError(
        f"no result has the name {name!r} (expected 'latest', an id, or a file); the newest are: "
        f"{', '.join([*known][-3:]) or 'none; duetbench run or duetbench compare makes one'}"
    )


def load(name: str | Path, results: Path) -> Run | Comparison:
    """Read a result by a name of `find`, whose errors it has; RecordError if it is none."""
    path = find(str(name), results)
    try:
        keys = dict(json.loads(path.read_bytes()))
    except (OSError, TypeError, ValueError, RecursionError):
        keys = {}  # reading it as a run reports the problem
    return read(Comparison, path) if "base" in keys else read(Run, path)


def _ids(kind: type[Run | Comparison], *folders: Path) -> dict[str, Path]:
    """The files of a kind by their id; a finished one comes before an unfinished one."""
    results = (path for folder in folders for path in reversed(of_kind(kind, folder)))
    ids = {path.name.removesuffix(".json").removesuffix(".partial"): path for path in results}
    return dict(sorted(ids.items()))
