"""Locks of other tools than uv and pip, as lines of requirements: Poetry, PDM and Pipenv."""

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from packaging.markers import Marker
from packaging.version import Version

from duetbench.core.errors import DeclarationError
from duetbench.project.pyproject import read_pyproject
from duetbench.project.target import Target

POETRY: Final = "poetry.lock"
PDM: Final = "pdm.lock"
PIPENV: Final = "Pipfile.lock"
LOCKS: Final = (POETRY, PDM, PIPENV)

_Table = Mapping[str, Any]

_ELSEWHERE: Final = re.compile(r"-(win|macosx)[^-]*\.whl$")
"""Files for other platforms."""


def read(file: Path, target: Target, values: Mapping[str, str]) -> tuple[str, ...]:
    """List the packages that a platform with these marker values gets from a lock, one per line.

    A package without hashes in the lock has none here. Of a Poetry older than 2, whose lock does
    not say which group a package is for, these are all that have a file for this platform.

    Raises DeclarationError if the lock is invalid.
    """
    try:
        text = file.read_text("utf-8")
        if file.name == PIPENV:
            document: _Table = json.loads(text)
            sections = ("default", *target.groups)
            entries = {name: entry for key in sections for name, entry in document[key].items()}
            lines = [_line(name, entry) for name, entry in entries.items() if _fits(entry, values)]
        else:
            groups = {"default", "main", *target.groups, *target.extras}
            lines = [
                _line(entry["name"], entry)
                for entry in tomllib.loads(text)["package"]
                if groups.intersection(entry.get("groups", groups))
                and (target.extras or not entry.get("optional"))
                and _fits(entry, values, target.extras)
            ]
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        problem = f"{type(error).__name__}: {error}"
        allowed = f"a {file.name} of its tool"
        raise DeclarationError(file.name, "file", problem, allowed) from error
    return tuple(sorted(dict.fromkeys(lines)))


def interpreter(root: Path) -> tuple[str, str]:
    """Return the Python that Poetry or Pipenv ask for, and in which file; empty: any.

    It is a version or a specifier.
    """
    poetry = read_pyproject(root).get("tool", {}).get("poetry", {})
    if text := poetry.get("dependencies", {}).get("python"):
        return _specifier(str(text)), "pyproject.toml"
    pipfile = root / "Pipfile"
    if pipfile.is_file():
        requires = tomllib.loads(pipfile.read_text("utf-8")).get("requires", {})
        if text := requires.get("python_full_version") or requires.get("python_version"):
            return str(text), "Pipfile"
    return "", ""


def _specifier(text: str) -> str:
    """Convert Poetry's `^3.10`, `~3.11`, `3.11` and `>=3.10,<3.13`; of alternatives the last."""
    parts = []
    for word in re.split(r"\s*,\s*|(?<=[\w*])\s+", text.rpartition("||")[2].strip()):
        if word[:1] in {"^", "~"} and word[:2] != "~=":
            number = word.lstrip("^~ ")
            release = Version(number).release
            prefix = release[:1] if word[0] == "^" else release[:2]
            upper = ".".join(map(str, (*prefix[:-1], prefix[-1] + 1)))
            parts.append(f">={number},<{upper}")
        elif word[:1].isdigit():
            parts.append(f"=={word}" if word.endswith("*") else f"=={word}.*")
        elif word != "*":
            parts.append(word.replace(" ", ""))
    return ",".join(parts)


def _fits(package: _Table, values: Mapping[str, str], extras: Iterable[str] = ()) -> bool:
    """Whether a package is for this platform, given its user's extras."""
    marker = package.get("markers") or package.get("marker")
    if isinstance(marker, dict):  # Poetry has one per group
        marker = marker.get("main")
    files = [item.get("file", "") for item in package.get("files", ())]
    if files and all(_ELSEWHERE.search(file) for file in files):
        return False
    return not marker or any(
        Marker(marker).evaluate({**values, "extra": extra}) for extra in ("", *extras)
    )


def _line(name: str, package: _Table) -> str:
    """Write a package's line: its version or place, and the hashes of its files."""
    source = package.get("source", package)
    kind = source.get("type", "")
    if git := source.get("git") or (source.get("url") if kind == "git" else None):
        commit = next(
            source[key] for key in ("resolved_reference", "revision", "ref") if source.get(key)
        )
        below = f"#subdirectory={source['subdirectory']}" if source.get("subdirectory") else ""
        return f"{name} @ git+{git}@{commit}{below}"
    if place := source.get("path") or (source["url"] if kind in {"directory", "file"} else ""):
        return f"{name} @ {place}"
    hashes = package.get("hashes") or [item["hash"] for item in package.get("files", ())]
    options = "".join(f" --hash={item}" for item in hashes)
    if address := source["url"] if kind == "url" else "":
        return f"{name} @ {address}{options}"
    return f"{name}=={package['version'].removeprefix('==')}{options}"
