"""The files of the history: how each is checked and found, and which may change.

Files that are not listed here, or are damaged, do not enter the history.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, Self, TypeVar

from pydantic import AfterValidator, ConfigDict, Field, ValidationError, model_validator

from duetbench.core.comparison import Comparison
from duetbench.core.errors import RecordError
from duetbench.core.model import Artefact, Frozen, Run
from duetbench.host import files
from observatory.store.change import Change
from observatory.store.night import NightRecord
from observatory.store.points import Points

_T = TypeVar("_T")
_Record = TypeVar("_Record", bound=Artefact)
_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}"


_LARGEST: Final = 1e18


def _finite_or_nan(value: float) -> float:
    if abs(value) > _LARGEST:
        raise ValueError(f"a figure beyond {_LARGEST:g}")
    return value


_Text = Annotated[str, Field(max_length=200)]
_Texts = dict[_Text, _Text]


class AsvFile(Frozen):
    """A file as asv writes it; asv's own code would read much more, and fail later."""

    noun: ClassVar[str] = "a file of asv's"
    place: ClassVar[str] = ""


class AsvMachine(AsvFile):
    """A machine, in asv's words."""

    place: ClassVar[str] = "asv/{0.machine}/machine.json"

    machine: _Text
    arch: _Text = ""
    cpu: _Text = ""
    num_cpu: _Text = ""
    os: _Text = ""
    ram: _Text = ""
    version: Literal[1]


class AsvResults(AsvFile):
    """What asv measured at a commit in one environment."""

    place: ClassVar[str] = "asv/{0.params[machine]}/{0.commit_hash:.8}-duetbench-{0.where}.json"

    commit_hash: str = Field(pattern="^[0-9a-f]{40}$")
    env_name: str = Field(pattern=r"^duetbench-[^\n]{1,200}$")
    date: int = Field(ge=946_684_800_000, lt=7_258_118_400_000)  # ms: in 2000 to 2199
    params: _Texts
    python: _Text
    requirements: _Texts
    env_vars: _Texts
    result_columns: list[str]
    results: dict[str, list[Any]]
    durations: dict[str, float]
    version: Literal[2]

    @property
    def where(self) -> str:
        """Its interpreter and stack."""
        return self.env_name.removeprefix("duetbench-")

    @model_validator(mode="after")
    def _names_and_rows(self) -> Self:
        if not {"machine", "python"} <= self.params.keys():
            raise ValueError("params: expected machine and python among them")
        for name, row in self.results.items():
            try:
                columns = dict(zip(self.result_columns, row, strict=False))
                AsvRow.model_validate(columns, strict=True)
            except ValidationError as problem:
                raise ValueError(f"{name}: {files.first_problem(problem)}") from problem
        return self


class AsvRow(Frozen):
    """One benchmark: lists have an item for each combination of its parameters.

    A result is NaN where the benchmark does not apply, and None where it failed.
    """

    model_config = ConfigDict(allow_inf_nan=True, extra="ignore")

    result: list[Annotated[float, AfterValidator(_finite_or_nan)] | None] | None = None
    params: list[list[_Text]] | None = None


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of file."""

    model: type[Artefact] | type[AsvFile]  # the content, which names its place
    # Whether it may change: a measurement may not, except asv's, which every night without a new
    # commit repeats.
    replaceable: bool = False

    def read(self, data: bytes, path: str, name: str) -> Any:
        """The value of a file at `path` below `results/`, which must be its content's place.

        RecordError calls the file `name`.
        """
        if issubclass(self.model, AsvFile):
            value: Any = _of_asv(self.model, data, name)
        else:
            value = files.parse(self.model, data, name)
        if (place := value.place.format(value)) != path:
            raise RecordError(
                f"{name}: expected it at {place} below the results, by its content; move it there"
            )
        return value


def _of_asv(model: type[AsvFile], data: bytes, name: str) -> AsvFile:
    try:
        return model.model_validate(json.loads(data), strict=True)
    except (ValueError, RecursionError) as problem:
        reason = files.first_problem(problem) if isinstance(problem, ValidationError) else problem
        raise RecordError(f"{name}: expected {model.noun}, found: {reason}") from problem


KINDS: Final = (
    Kind(Run),
    Kind(Comparison),
    Kind(Points),
    Kind(NightRecord, replaceable=True),
    Kind(Change, replaceable=True),
    Kind(AsvResults, replaceable=True),
    Kind(AsvMachine, replaceable=True),
)
"""All kinds. To add one, add a row here."""

FOLDERS: Final = tuple(dict.fromkeys(kind.model.place.partition("/")[0] for kind in KINDS))
"""Of a results folder, in which its files are."""


def kind_of(path: str) -> Kind | None:
    """The kind of a path below `results/`; None if it does not belong to the history."""
    for kind in KINDS:
        pattern = _NAME.join(map(re.escape, re.split("{.*?}", kind.model.place)))
        if re.fullmatch(pattern, path):
            return kind
    return None


def final(path: str) -> str:
    """The final path of an interrupted run's file; the run is kept as a partial one."""
    stem = path.removesuffix(files.PARTIAL)
    return path if stem == path or not path.startswith("runs/") else f"{stem}.json"


def collect(folder: Path) -> tuple[dict[str, bytes], list[Any], list[str]]:
    """Read and check all files of a results folder; raises RecordError.

    An interrupted run (`*.partial.json`) enters the history as a partial run, under its own name,
    unless it was finished later. Returns the files by their paths, their values, and the paths that
    do not belong to the history.
    """
    accepted, values, others = dict[str, bytes](), list[Any](), list[str]()
    for path in sorted(_plain(folder), key=lambda p: (p.name.endswith(files.PARTIAL), p)):
        below = path.relative_to(folder).as_posix()
        place = final(below)
        if (kind := kind_of(place)) is None:
            others.append(below)
        elif place not in accepted:
            accepted[place] = files.contents(path)
            values.append(kind.read(accepted[place], place, str(path)))
    return accepted, values, others


def _plain(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if path.is_symlink():
            raise RecordError(f"{path}: expected a plain file, found a link; remove it")
        if path.is_file() and not any(part[0] == "." for part in path.relative_to(folder).parts):
            yield path


def read_at(kind: type[_Record], results: Path, path: Path) -> _Record:
    """Read a file of a results folder, which must be where its content says; RecordError."""
    below = path.relative_to(results).as_posix()
    value: _Record = Kind(kind).read(files.contents(path), below, str(path))
    return value


def read_all(
    kind: type[_Record], results: Path, problems: list[str] | None = None
) -> list[_Record]:
    """All values of a kind; problems of unreadable files go to `problems`, or raise."""
    places, read_one = files.paths(kind, results), partial(read_at, kind, results)
    return (
        list(map(read_one, places)) if problems is None else read_each(places, read_one, problems)
    )


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
