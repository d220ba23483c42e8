"""Reads what a repository declares in TOML files: types, tables, and a mistake in any of them."""

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

from pydantic import BaseModel, BeforeValidator, Field, StringConstraints, ValidationError

from duetbench.core.errors import DeclarationError
from duetbench.core.model import Frozen
from duetbench.host import paths

FILE: Final = "duetbench.toml"
"""Takes precedence over `[tool.duetbench]` of `pyproject.toml`."""


def read_toml(path: Path, label: str = "") -> dict[str, Any]:
    """Read a TOML file; a DeclarationError names it by `label`, else by its path."""
    label = label or str(path)
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise DeclarationError(label, "file", error.strerror, "a readable file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DeclarationError(label, "file", str(error), "valid TOML in UTF-8") from error


def read_pyproject(root: Path) -> dict[str, Any]:
    """Read a repository's `pyproject.toml`, if any; raises DeclarationError if it is no TOML."""
    file = root / "pyproject.toml"
    return read_toml(file) if file.is_file() else {}


def read_table(root: Path) -> tuple[Path, dict[str, Any]]:
    """Read a repository's table and the file that has it; the table is empty without a file.

    Raises DeclarationError if the file is no TOML.
    """
    if (file := root / FILE).is_file():
        return file, read_toml(file)
    return root / "pyproject.toml", read_pyproject(root).get("tool", {}).get("duetbench", {})


def results_dir(root: Path) -> Path:
    """The folder of a repository's run files: the one that it sets, or else in the state folder.

    Raises UsageError as `paths.inside`, and DeclarationError as `read_table`.
    """
    if folder := read_table(root)[1].get("results"):
        return paths.inside(root, str(folder))
    return paths.project_state(root) / "results"


def project_name(root: Path) -> str:
    """Return the name of a repository's project, in characters that an id may have."""
    document = read_pyproject(root)
    poetry = document.get("tool", {}).get("poetry", {})
    name = document.get("project", {}).get("name") or poetry.get("name") or root.name
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", str(name)).strip("-.") or "project"


Place = tuple[str | int, ...]
"""Keys and indexes that lead from the top of a file to a value."""

_Kind = TypeVar("_Kind", bound=BaseModel)

DOCUMENTED: Final = "only the keys that docs/reference.md names"


def several(value: object) -> object:
    """Take a single value as a list of one."""
    return value if isinstance(value, list | tuple) else (value,)


Text = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
Several = Annotated[tuple[Text, ...], BeforeValidator(several)]
HeaderName = Annotated[str, StringConstraints(pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")]
HeaderText = Annotated[str, StringConstraints(pattern=r"^[\t -~]*$")]
EnvName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
PatchVersion = Annotated[str, StringConstraints(pattern=r"^\d+\.\d+\.\d+([abrc]+\d+)?$")]


APPLICATION: Final = r"^\w+(\.\w+)*:\w+(\.\w+)*$"
Application = Annotated[str, StringConstraints(pattern=APPLICATION)]


class OhaSpec(Frozen):
    """The load generator."""

    version: PatchVersion
    sha256: Digest = Field(description="SHA-256 of the crate.")
    prebuilt: dict[str, Digest] = Field(
        default_factory=dict, description="File of the release → its SHA-256."
    )


def validate(
    kind: type[_Kind],
    written: dict[str, Any],
    label: str,
    *,
    table: str = "",
    keys: str = DOCUMENTED,
) -> _Kind:
    """Validate the content of a file (or of a `table` in it) as a type.

    Raises:
        DeclarationError: The first mistake. It names the file as `label`; for an unknown key it
            says `keys`.
    """
    try:
        return kind.model_validate(written)
    except ValidationError as error:
        place, actual, allowed = mistake(error, keys)
        key = key_path((*([table] if table else []), *place))
        raise DeclarationError(label, key, actual, allowed) from error


def mistake(error: ValidationError, keys: str = DOCUMENTED) -> tuple[Place, Any, str]:
    """Describe the first mistake: its place, the value there, and what is allowed."""
    first = error.errors(include_url=False)[0]
    place = first["loc"][:-1] if first["loc"][-1:] == ("[key]",) else first["loc"]
    allowed = first["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    actual: Any = first["input"]
    if not isinstance(actual, str | int | float | list | tuple):
        actual = "a table"
    match first["type"]:
        case "missing":
            actual, allowed = "nothing", "a value; this key is required"
        case "extra_forbidden":
            actual, allowed = place[-1], keys
        case "too_short" | "string_too_short":
            allowed = "at least one value"
        case "string_pattern_mismatch" if first["ctx"]["pattern"] == APPLICATION:
            allowed = "MODULE:ATTRIBUTE, such as shop.main:app"
        case "string_pattern_mismatch":
            allowed = f"text that matches {first['ctx']['pattern']}"
    return place, actual, allowed


def key_path(location: Place) -> str:
    """Spell a place in the file: `cases[0].endpoint`."""
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return path.removeprefix(".") or "file"
