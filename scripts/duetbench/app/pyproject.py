"""Reads the TOML files of a repository: `pyproject.toml`, and what declares for duetbench."""

import re
import tomllib
from pathlib import Path
from typing import Any, Final

from duetbench.core.errors import DeclarationError
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


def other_keys(root: Path) -> dict[str, Any]:
    """The content of a `pyproject.toml`, if it is valid, except `[tool.duetbench]`."""
    try:
        project = read_pyproject(root)
    except DeclarationError:
        project = {}
    tools = {name: table for name, table in project.get("tool", {}).items() if name != "duetbench"}
    return {**project, "tool": tools}


def project_name(root: Path) -> str:
    """Return the name of a repository's project, in characters that an id may have."""
    document = read_pyproject(root)
    poetry = document.get("tool", {}).get("poetry", {})
    name = document.get("project", {}).get("name") or poetry.get("name") or root.name
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", str(name)).strip("-.") or "project"
