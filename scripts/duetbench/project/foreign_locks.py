"""Locks of other tools than uv and pip, as lines of requirements: Poetry, PDM and Pipenv."""

import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
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

    A package without hashes in the lock has none here. See `ungrouped` for other locks.

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
                if groups.intersection(_groups(entry))
                and (target.extras or not entry.get("optional"))
                and _fits(entry, values, target.extras)
            ]
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        problem = f"{type(error).__name__}: {error}"
        allowed = f"a {file.name} of its tool"
        raise DeclarationError(file.name, "file", problem, allowed) from error
    return tuple(sorted(dict.fromkeys(lines)))


def ungrouped(file: Path) -> list[str]:
    """List all of a lock that does not say what its packages are for, as constraints.

    Poetry from 1.5 to 1.8 wrote such locks, and older PDMs. Otherwise there are none.
    """
    if file.name == PIPENV:
        return []
    with suppress(ValueError, LookupError, TypeError, AttributeError):
        entries = tomllib.loads(file.read_text("utf-8"))["package"]
        names = Counter(entry["name"] for entry in entries)
        if not any(map(_groups, entries)):
            lines = (_line(e["name"], e) for e in entries if names[e["name"]] == 1)
            return [line.partition(" --hash=")[0] for line in lines]
    return []


def asked(root: Path, target: Target) -> tuple[str, ...]:
    """List the packages that Poetry's own table asks for."""
    poetry = read_pyproject(root).get("tool", {}).get("poetry", {})
    tables = [poetry.get("dependencies", {})]
    tables += [poetry.get("group", {})[group]["dependencies"] for group in target.groups]
    chosen = {name for extra in target.extras for name in poetry.get("extras", {}).get(extra, ())}
    fields = {
        name: spec if isinstance(spec, dict) else {}
        for table in tables
        for name, spec in table.items()
        if name != "python"
    }
    return tuple(
        f"{name}[{','.join(spec.get('extras', ()))}]"
        for name, spec in fields.items()
        if name in chosen or not spec.get("optional")
    )


def _groups(entry: _Table) -> list[str]:
    """The groups that a package is locked for; Poetry up to 1.4 has one, its category."""
    return entry.get("groups") or [entry[key] for key in ("category",) if key in entry]


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
