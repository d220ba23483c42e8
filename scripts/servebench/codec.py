"""Run ↔ the bytes of a run file: strict JSON, described by `results/schema.json`.

The disk layout differs from `model.Run` in two places, to stay small in a repository that keeps
every night for years:

- an endpoint is stored once, under `endpoints`, and named by the cases that use it;
- the launches of a case are stored as columns: one array per property and per metric, with one
  place per launch; null where a launch has no such figure (a failed launch has none).

Measured values are rounded to `DIGITS` significant digits, a relative error of at most 5e-6, which
is a thousand times below the noise of any launch. Counts and declared values are kept exactly.

The disk types are derived from the model's, so that a field added there needs no change here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from typing import Any, Final, Literal, NoReturn

from pydantic import BaseModel, Field, ValidationError, create_model
from pydantic_core import ErrorDetails

from servebench import units
from servebench.errors import RecordError
from servebench.metrics import METRICS
from servebench.model import (
    FORMAT_VERSION,
    Case,
    CaseResult,
    Endpoint,
    Frozen,
    Launch,
    Run,
)

DIGITS: Final = 6
_LINE: Final = 110  # a value that fits is written on one line
_SHOWN_PROBLEMS: Final = 3

Document = dict[str, Any]

_UPGRADES: Final[dict[int, Callable[[Document], Document]]] = {}
"""Loader upgrades: `_UPGRADES[n]` turns a document of format n into one of format n + 1.

The history of the format:
1 (2026-11): first published format.
"""


def _as_stored(model: type[Frozen], *, without: set[str], **instead: Any) -> dict[str, Any]:
    """The model's fields as definitions of a disk type."""
    kept = {
        name: (field.annotation, field)
        for name, field in model.model_fields.items()
        if name not in without
    }
    return {**kept, **instead}


def _as_columns(model: type[Frozen], *, without: set[str], **instead: Any) -> dict[str, Any]:
    """The model's fields as arrays, one place per instance."""
    kept = {
        name: (tuple[field.annotation, ...], Field(description=field.description))  # type: ignore[name-defined]
        for name, field in model.model_fields.items()
        if name not in without
    }
    return {**kept, **instead}


DiskCase = create_model(
    "DiskCase",
    __base__=Frozen,
    __doc__="One cell; its endpoint by key in `endpoints`.",
    **_as_stored(
        Case,
        without={"endpoint"},
        endpoint=(str, Field(description="Key in the run's `endpoints`.")),
    ),
)
DiskLaunches = create_model(
    "DiskLaunches",
    __base__=Frozen,
    __doc__="The launches of a case as columns of equal length, one place per launch.",
    **_as_columns(
        Launch,
        without={"case", "metrics"},
        metrics=(
            dict[str, tuple[float | None, ...]],
            Field(description="Per metric (SI units): one figure per launch; null: none."),
        ),
    ),
)
DiskResult = create_model(
    "DiskResult",
    __base__=Frozen,
    __doc__=CaseResult.__doc__ or "",
    **_as_stored(
        CaseResult, without={"case", "launches"}, case=(DiskCase, ...), launches=(DiskLaunches, ...)
    ),
)
DiskRun = create_model(
    "DiskRun",
    __base__=Frozen,
    __doc__=Run.__doc__ or "",
    **_as_stored(
        Run,
        without={"format", "results"},
        format=(Literal[FORMAT_VERSION], Field(description="Version of this format.")),
        endpoints=(
            dict[str, Endpoint],
            Field(description="The endpoints of all cases, by experiment/name."),
        ),
        results=(tuple[DiskResult, ...], ...),
    ),
)


def encode(run: Run) -> bytes:
    """Turn a run into the bytes of its file.

    Raises:
        RecordError: A figure is not finite, which strict JSON cannot say.
    """
    endpoints: dict[str, Endpoint] = {}
    try:
        results = [_result_to_disk(result, endpoints) for result in run.results]
        document = {
            **run.model_dump(mode="json", exclude={"results"}),
            "wall_seconds": _rounded(run.wall_seconds),
            "endpoints": {key: value.model_dump(mode="json") for key, value in endpoints.items()},
            "results": results,
        }
        return (_render(document, 0) + "\n").encode()
    except ValueError as problem:
        raise RecordError(
            f"run {run.id}: every figure must be a finite number, found one that is not "
            f"({problem}); this is a fault of the launch that made it"
        ) from problem


def decode(data: bytes, name: str) -> Run:
    """Turn the bytes of a run file into a run.

    Args:
        data: The file's bytes.
        name: What to call the file in an error.

    Raises:
        RecordError: Not a run file, a format this version does not read, or damaged.
    """
    document = _upgraded(_parsed(data, name), name)
    try:
        # Through JSON once more: strictness of JSON, where an array is a tuple and "3" no number.
        disk = DiskRun.model_validate_json(json.dumps(document), strict=True).model_dump()
        return _run_from_disk(disk)
    except ValidationError as problem:
        raise RecordError(f"{name}: {_problems(problem)}") from problem
    except (KeyError, ValueError) as problem:
        raise RecordError(f"{name}: {problem}; the file is damaged") from problem


def schema() -> str:
    """The JSON Schema (2020-12) of run files, as text."""
    return describe(DiskRun, f"servebench run file, format {FORMAT_VERSION}")


def describe(kind: type[BaseModel], title: str) -> str:
    """The JSON Schema (2020-12) of what a type reads, as text."""
    described = kind.model_json_schema()
    return (
        json.dumps(
            {
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "title": title,
                **{key: value for key, value in described.items() if key != "title"},
            },
            indent=1,
            ensure_ascii=False,
        )
        + "\n"
    )


def rounded(run: Run) -> Run:
    """The run as it will be read back: measured values rounded as in the file."""
    return decode(encode(run), run.id)


def _result_to_disk(result: CaseResult, endpoints: dict[str, Endpoint]) -> Document:
    case = result.case.model_dump(mode="json", exclude={"endpoint"})
    case["endpoint"] = _endpoint_key(result.case, endpoints)
    dumped = [launch.model_dump(mode="json") for launch in result.launches]
    columns: Document = {
        name: [_rounded(launch[name]) for launch in dumped]
        for name in Launch.model_fields
        if name not in {"case", "metrics"}
    }
    measured = {name for launch in result.launches for name in launch.metrics}
    columns["metrics"] = {
        name: [_figure(name, launch.metrics.get(name)) for launch in result.launches]
        for name in METRICS
        if name in measured
    }
    commands = result.commands.model_dump(mode="json") if result.commands else None
    return {"case": case, "commands": commands, "launches": columns}


def _endpoint_key(case: Case, endpoints: dict[str, Endpoint]) -> str:
    """Key of the case's endpoint, which is added when it is new."""
    base = key = f"{case.experiment}/{case.endpoint.name}"
    number = 1
    while endpoints.setdefault(key, case.endpoint) != case.endpoint:
        number += 1
        key = f"{base}#{number}"
    return key


def _figure(name: str, value: float | None) -> float | int | None:
    if value is None:
        return None
    if not math.isfinite(value):
        raise ValueError(f"{name} is {value}")
    exact = METRICS[name].format is units.count and value.is_integer()
    figure = value if exact else float(f"{value:.{DIGITS}g}")
    return int(figure) if figure.is_integer() else figure


def _rounded(value: Any) -> Any:
    """Round a float to `DIGITS` significant digits; leave everything else as it is."""
    if isinstance(value, float) and math.isfinite(value):
        return float(f"{value:.{DIGITS}g}")
    return value


def _render(value: Any, depth: int) -> str:
    """Write JSON that a person can read: short values on one line, keys in their given order."""
    line = json.dumps(value, ensure_ascii=False, allow_nan=False)
    if not isinstance(value, dict | list) or len(line) + depth <= _LINE or _is_flat(value):
        return line
    inner = " " * (depth + 1)
    if isinstance(value, dict):
        parts: Iterable[str] = (
            f"{json.dumps(key, ensure_ascii=False)}: {_render(item, depth + 1)}"
            for key, item in value.items()
        )
        start, end = "{}"
    else:
        parts = (_render(item, depth + 1) for item in value)
        start, end = "[]"
    body = f",\n{inner}".join(parts)
    return f"{start}\n{inner}{body}\n{inner[1:]}{end}"


def _is_flat(value: Any) -> bool:
    return isinstance(value, list) and not any(isinstance(item, dict | list) for item in value)


def _parsed(data: bytes, name: str) -> Document:
    try:
        document = json.loads(
            data.decode("utf-8"),
            parse_constant=_no_constant,
            parse_float=_finite,
            object_pairs_hook=_unique,
        )
    except UnicodeDecodeError as problem:
        raise RecordError(
            f"{name}: expected a run file (JSON), found bytes that are no text"
        ) from (problem)
    except json.JSONDecodeError as problem:
        if data.strip() and data.lstrip()[:1] != b"{":
            raise RecordError(
                f"{name}: expected a run file (a JSON object), found text that is none"
            ) from problem
        what = "an empty file" if not data.strip() else f"{problem.msg} at line {problem.lineno}"
        raise RecordError(
            f"{name}: expected a run file (JSON), found {what}; it is truncated or damaged: "
            "restore it from git, or remove it"
        ) from problem
    except (ValueError, RecursionError) as problem:
        raise RecordError(f"{name}: expected strict JSON, found {problem}") from problem
    if not isinstance(document, dict) or "format" not in document:
        raise RecordError(
            f"{name}: expected a run file (a JSON object with the key 'format'), found "
            f"{'an object without it' if isinstance(document, dict) else 'something else'}"
        )
    return document


def _no_constant(text: str) -> NoReturn:
    raise ValueError(text)


def _finite(text: str) -> float:
    """A number; 1e999 is written like one, and is infinite."""
    value = float(text)
    if not math.isfinite(value):
        _no_constant(text)
    return value


def _unique(pairs: list[tuple[str, Any]]) -> Document:
    document = dict(pairs)
    if len(document) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice!r} twice in one object")
    return document


def _upgraded(document: Document, name: str) -> Document:
    while (found := document["format"]) != FORMAT_VERSION or not _is_whole(found):
        upgrade = _UPGRADES.get(found) if _is_whole(found) else None
        if upgrade is None:
            readable = sorted({*_UPGRADES, FORMAT_VERSION})
            raise RecordError(
                f"{name}: found run file format {found!r}; this servebench reads "
                f"{', '.join(map(str, readable))}. Update servebench (git pull, make setup) "
                "to read a newer file"
            )
        document = upgrade(document)
    return document


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _run_from_disk(disk: Document) -> Run:
    endpoints = disk.pop("endpoints")
    results = []
    for result in disk.pop("results"):
        case = result["case"]
        key = case["endpoint"]
        if key not in endpoints:
            raise ValueError(f"case {case['id']} names the unknown endpoint {key!r}")
        case["endpoint"] = endpoints[key]
        launches = _rows(case["id"], result["launches"])
        results.append({"case": case, "commands": result["commands"], "launches": launches})
    return Run.model_validate({**disk, "results": results})


def _rows(case: str, columns: Document) -> list[Document]:
    metrics = columns.pop("metrics")
    lengths = {len(column) for column in (*columns.values(), *metrics.values())}
    if len(lengths) != 1:
        raise ValueError(
            f"case {case}: columns of launches of equal length expected, found "
            f"{', '.join(map(str, sorted(lengths)))}"
        )
    return [
        {
            "case": case,
            **{name: column[place] for name, column in columns.items()},
            "metrics": {
                name: column[place] for name, column in metrics.items() if column[place] is not None
            },
        }
        for place in range(lengths.pop())
    ]


def first_problem(error: OSError | ValidationError) -> str:
    """Why a record cannot be read: its place, the rule and what was found, or what the system says.

    Args:
        error: What reading it has raised.
    """
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return _problem(error.errors(include_url=False, include_context=False)[0], "the file")


def _problem(problem: ErrorDetails, whole: str) -> str:
    place = ".".join(map(str, problem["loc"])) or whole
    # What is wrong with an object as a whole says so itself; the object says nothing more.
    plain = isinstance(problem["input"], str | int | float | None)
    silent = problem["type"] == "missing" or (problem["type"] == "value_error" and not plain)
    found = "" if silent else f", found {problem['input']!r:.60}"
    return f"{place}: {problem['msg'].removeprefix('Value error, ')}{found}"


def _problems(error: ValidationError) -> str:
    """The first problems of a validation, each with its place."""
    problems = error.errors(include_url=False, include_context=False)
    told = [_problem(problem, "run") for problem in problems[:_SHOWN_PROBLEMS]]
    more = len(problems) - len(told)
    return (
        f"not what format {FORMAT_VERSION} says: "
        + "; ".join(told)
        + (f"; and {more} more" if more > 0 else "")
        + ". A file of a newer servebench needs a newer servebench; otherwise it is damaged"
    )
