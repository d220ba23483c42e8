"""Pydantic alone, on the models of `apps/pydantic-v1-v2`: the work behind a response.

Compare the stacks pydantic-v1 and pydantic-v2, which differ in nothing else; `current` follows the
newest release. Size 1 is one service, any other size a list model of that many services. Every
figure includes about 0.1 µs of asv's own call.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

from . import _suite

EXPERIMENT, MODULE = "pydantic-v1-v2", "services"
STACKS = ("pydantic-v1", "pydantic-v2", "current")
BAD_VERSION = 0  # the model requires 1 or more

# Raise it by hand when the jobs below change.
version = "1"
warmup_time = 0.2  # s; the first call of a process builds its documents
WALL = _suite.Clock(time.perf_counter)
timer = WALL

Job = Callable[[], Any]


class Validate:
    """Seconds to validate a right document."""

    params = ([1, 20, 1000], ["python", "json"])
    param_names = ("size", "source")

    def time_valid(self, size: int, source: str) -> None:
        """From Python objects (datetimes are datetimes) or from JSON bytes."""
        _validation(size, source)()


class Reject:
    """Seconds to refuse a document whose last service has one bad field, and to list the errors."""

    params = ([1, 20], ["python", "json"])
    param_names = ("size", "source")

    def time_refused(self, size: int, source: str) -> None:
        """From Python objects or from JSON bytes."""
        _refusal(size, source)()


class Serialise:
    """Seconds to convert a validated model back."""

    params = ([1, 20, 1000], ["python", "json"])
    param_names = ("size", "target")

    def time_serialised(self, size: int, target: str) -> None:
        """To Python objects or to JSON text."""
        _serialisation(size, target)()


class Define:
    """Seconds to execute the class statements of the application's models."""

    def time_models(self) -> None:
        """Both models, made again."""
        _definition()()


class Import:
    """Seconds that an import takes in a fresh interpreter, whose own start does not count."""

    params = ("pydantic", "services")
    param_names = ("module",)

    def timeraw_import(self, module: str) -> tuple[str, str]:
        """Pydantic, or the whole application with FastAPI."""
        _require_models()
        apps = _suite.checkout() / "apps"
        search = [str(apps / EXPERIMENT), str(apps)]
        # Pydantic 2 loads its parts on demand.
        statement = {"pydantic": "from pydantic import BaseModel, Field"}
        return statement.get(module, f"import {MODULE}"), f"import sys; sys.path[:0] = {search!r}"


class Memory:
    """Peak resident memory of the process, with some lists of 1,000 services alive at once."""

    params = (1, 50)
    param_names = ("lists",)

    def peakmem_validated(self, lists: int) -> None:
        """Bytes, with interpreter and imports; the difference between parameters is the models'."""
        validate = _validation(1000, "python")
        alive = [validate() for _ in range(lists)]
        del alive


@dataclass(frozen=True)
class Methods:
    """The names of a model's methods."""

    validate: str
    validate_json: str
    to_python: str
    to_json: str


V1 = Methods("parse_obj", "parse_raw", "dict", "json")
V2 = Methods("model_validate", "model_validate_json", "model_dump", "model_dump_json")


def methods() -> Methods:
    """The names in the installed version."""
    import pydantic  # noqa: PLC0415 - not everywhere installed

    return V1 if pydantic.VERSION.startswith("1.") else V2


def document(size: int) -> dict[str, Any]:
    """One service or a list of services, as Python objects."""
    services = _services()
    rows = [
        row
        for offset in range(0, size, services.COUNT)
        for row in services.fetch(offset)[: size - offset]
    ]
    if size == 1:
        return dict(rows[0])
    return {"offset": 0, "count": size, "total": services.TOTAL, "services": rows}


def model(size: int) -> Any:
    """The model for a document of this size."""
    return _services().Service if size == 1 else _services().ServiceList


def written(value: Any) -> bytes:
    """Write a document as JSON."""
    return json.dumps(value, default=lambda moment: moment.isoformat()).encode()


def _validator(size: int, source: str, value: Any) -> Job:
    names = methods()
    if source == "json":
        return functools.partial(getattr(model(size), names.validate_json), written(value))
    return functools.partial(getattr(model(size), names.validate), value)


@functools.cache
@WALL.leaves_out
def _validation(size: int, source: str) -> Job:
    _require_models()
    job = _validator(size, source, document(size))
    _expect(document(size), getattr(job(), methods().to_python)())
    return job


@functools.cache
@WALL.leaves_out
def _refusal(size: int, source: str) -> Job:
    _require_models()
    import pydantic  # noqa: PLC0415 - not everywhere installed

    bad = document(size)
    (bad if size == 1 else bad["services"][-1])["version_number"] = BAD_VERSION
    validate, refused = _validator(size, source, bad), pydantic.ValidationError

    def job() -> Any:
        try:
            return validate()
        except refused as error:
            return error.errors()

    place = ("version_number",) if size == 1 else ("services", size - 1, "version_number")
    _expect([place], [tuple(error["loc"]) for error in job()])
    return job


@functools.cache
@WALL.leaves_out
def _serialisation(size: int, target: str) -> Job:
    _require_models()
    instance = _validator(size, "python", document(size))()
    job: Job = getattr(instance, methods().to_json if target == "json" else methods().to_python)
    if target == "json":
        _expect(json.loads(written(document(size))), json.loads(job()))
    else:
        _expect(document(size), job())
    return job


@functools.cache
@WALL.leaves_out
def _definition() -> Job:
    _require_models()
    services = _services()
    code, names = _class_statements(services)

    def job() -> dict[str, Any]:
        namespace = dict(vars(services))
        exec(code, namespace)  # noqa: S102 - the application's own class statements
        return namespace

    models = job()
    _expect([True] * len(names), [models[name] is not getattr(services, name) for name in names])
    return job


def _class_statements(module: Any) -> tuple[CodeType, list[str]]:
    """Extract the models from a module's source; return the compiled code, and their names."""
    import pydantic  # noqa: PLC0415 - not everywhere installed

    models = {
        name
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, pydantic.BaseModel)
    }
    tree = ast.parse(Path(module.__file__).read_text("utf-8"))
    classes = [n for n in tree.body if isinstance(n, ast.ClassDef) and n.name in models]
    future = [n for n in tree.body if isinstance(n, ast.ImportFrom) and n.module == "__future__"]
    if not classes:
        raise ValueError(f"expected class statements of models in {module.__file__}, found none")
    statements = ast.Module(body=[*future, *classes], type_ignores=[])
    code = compile(statements, module.__file__, "exec", dont_inherit=True)
    return code, [node.name for node in classes]


def _expect(expected: Any, result: Any) -> None:
    if expected != result:
        raise ValueError(f"expected {str(expected)[:300]}, found {str(result)[:300]}")


def _services() -> Any:
    return _suite.load_module(EXPERIMENT, MODULE)


def _require_models() -> None:
    _suite.require_stack(*STACKS)
    if not (_suite.checkout() / "apps" / EXPERIMENT).is_dir():
        _suite.skip(f"this commit has no experiment {EXPERIMENT}")


if _suite.under_asv() and _suite.stack() in STACKS:
    with contextlib.suppress(Exception):  # the benchmarks report the error
        _services()
