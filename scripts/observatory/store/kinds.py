"""The files of the history: how each is checked and found, and which may change."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final, TypeVar

from pydantic import ValidationError

from duetbench.core.comparison import Comparison
from duetbench.core.errors import RecordError
from duetbench.core.model import Artefact, Run
from duetbench.host import files, result_files
from observatory.store.asv_files import AsvFile, AsvMachine, AsvResults
from observatory.store.change import Change
from observatory.store.points import NAME, Points

_Record = TypeVar("_Record", bound=Artefact)

KINDS: Final = (Run, Comparison, Points, Change, AsvResults, AsvMachine)
"""The contents of all files, each of which names its file's place."""


def kind_of(path: str) -> type[Artefact] | None:
    """The kind of a path below `results/`; None if it does not belong to the history."""
    for kind in KINDS:
        pattern = NAME.join(map(re.escape, re.split("{.*?}", kind.place)))
        if re.fullmatch(pattern, path):
            return kind
    return None


def parse(kind: type[_Record], data: bytes, path: str, name: str) -> _Record:
    """The value of a file at `path` below `results/`, which must be its content's place.

    RecordError calls the file `name`.
    """
    reader = _of_asv if issubclass(kind, AsvFile) else result_files.parse
    value = reader(kind, data, name)
    if value.path != path:
        raise RecordError(
            f"{name}: expected it at {value.path} below the results, by its content; move it there"
        )
    return value


def _of_asv(kind: type[_Record], data: bytes, name: str) -> _Record:
    try:
        return kind.model_validate(json.loads(data), strict=True)
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as problem:
        fault = files.first_problem(problem) if isinstance(problem, ValidationError) else problem
        raise RecordError(f"{name}: expected {kind.noun}, found: {fault}") from problem


def read_all(
    kind: type[_Record],
    results: Path,
    problems: list[str] | None = None,
    paths: Iterable[Path] | None = None,
) -> list[_Record]:
    """All values of a kind in a results folder, or those of some of its files.

    Each must be where its content says. A file that cannot be read, or is elsewhere, adds a
    sentence to `problems`; None: it raises.
    """
    values = []
    for path in result_files.of_kind(kind, results) if paths is None else paths:
        try:
            place, data = path.relative_to(results).as_posix(), result_files.contents(path)
            values.append(parse(kind, data, place, str(path)))
        except Exception as problem:
            if problems is None:
                raise
            reason = f"{path}: cannot be used ({type(problem).__name__}: {problem})"
            problems.append(str(problem) if isinstance(problem, RecordError | OSError) else reason)
    return values
