"""All files of a kind in a results folder, each at the place that its content says."""

import json
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TypeVar

from duetbench.core.errors import RecordError
from duetbench.core.model import Artefact
from duetbench.store import files

_T = TypeVar("_T")
_Kind = TypeVar("_Kind", bound=Artefact)


def read_at(kind: type[_Kind], results: Path, path: Path) -> _Kind:
    """Read a file of a results folder, which must be where its content says; RecordError."""
    value = files.read(kind, path)
    require_place(value.path, path.relative_to(results).as_posix(), str(path))
    return value


def require_place(place: str, found: str, name: str) -> None:
    """Refuse a file `name` at another place below the results than its content's; RecordError."""
    if place != found:
        raise RecordError(
            f"{name}: expected it at {place} below the results, by its content; move it there"
        )


def read_all(kind: type[_Kind], results: Path, problems: list[str] | None = None) -> list[_Kind]:
    """All values of a kind; problems of unreadable files go to `problems`, or raise."""
    found, read_one = files.paths(kind, results), partial(read_at, kind, results)
    return list(map(read_one, found)) if problems is None else read_each(found, read_one, problems)


def read_each(
    paths: Iterable[Path], read_one: Callable[[Path], _T], problems: list[str]
) -> list[_T]:
    """The values of the readable files; each other file adds a sentence to `problems`."""
    values = []
    for path in paths:
        try:
            values.append(read_one(path))
        except Exception as problem:
            reason = f"{path}: cannot be used ({type(problem).__name__}: {problem})"
            problems.append(str(problem) if isinstance(problem, RecordError | OSError) else reason)
    return values


def schema(kind: type[Artefact]) -> str:
    """The JSON Schema (2020-12) of the files of a kind, as text."""
    name, version = kind.noun.removeprefix("a "), kind.model_fields["format"].default
    title = f"duetbench {name}, format {version}"
    dialect = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title}
    document = {**dialect, **kind.model_json_schema(), "title": title}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"
