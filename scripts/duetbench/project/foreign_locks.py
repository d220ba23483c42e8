"""Locks of other tools than uv and pip, as lines of requirements: Poetry, PDM and Pipenv."""

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from duetbench.core.errors import DeclarationError
from duetbench.project.pyproject import read_pyproject
from duetbench.project.target import Target

POETRY: Final = "poetry.lock"
PDM: Final = "pdm.lock"
PIPENV: Final = "Pipfile.lock"
LOCKS: Final = (POETRY, PDM, PIPENV)

_Table = Mapping[str, Any]


def read(file: Path, root: Path, target: Target, values: Mapping[str, str]) -> tuple[str, ...]:
    """List the packages that a platform with these marker values gets from a lock, one per line.

    A package without hashes in the lock has none here.

    Raises DeclarationError if the lock is invalid.
    """
    try:
        text = file.read_text("utf-8")
        if file.name == PIPENV:
            document: _Table = json.loads(text)
            sections = ("default", *target.groups)
            entries = {name: entry for key in sections for name, entry in document[key].items()}
            lines = [_line(name, entry) for name, entry in entries.items() if _fits(entry, values)]
        elif file.name == PDM:
            document = tomllib.loads(text)
            groups = {"default", *target.groups, *target.extras}
            lines = [
                _line(entry["name"], entry)
                for entry in document["package"]
                if _fits(entry, values) and groups.intersection(entry.get("groups", groups))
            ]
        else:
            lines = list(_of_poetry(tomllib.loads(text), read_pyproject(root), target, values))
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
    """Whether a package or dependency is for this platform, given its user's extras."""
    marker = package.get("markers") or package.get("marker")
    if isinstance(marker, dict):  # Poetry has one per group
        marker = marker.get("main")
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


def _of_poetry(
    lock: _Table, document: _Table, target: Target, values: Mapping[str, str]
) -> Iterator[str]:
    """Follow the project's requirements, as a lock need not say why it contains a package."""
    packages: dict[str, list[_Table]] = {}
    for entry in lock["package"]:
        packages.setdefault(canonicalize_name(entry["name"]), []).append(entry)
    todo = [*_roots(document, target, values)]
    visited: set[tuple[str, tuple[str, ...]]] = set()
    lines: dict[str, str] = {}
    while todo:
        name, extras = todo.pop()
        matches = [entry for entry in packages.get(name, ()) if _fits(entry, values)]
        if (name, extras) in visited or not matches:
            continue
        visited.add((name, extras))
        package = max(matches, key=lambda entry: Version(entry["version"]))
        lines[name] = _line(name, package)
        todo += _needs(package.get("dependencies", {}), values, extras)
    yield from lines.values()


def _roots(
    document: _Table, target: Target, values: Mapping[str, str]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    project, poetry = document.get("project", {}), document.get("tool", {}).get("poetry", {})
    texts = [*project.get("dependencies", ())]
    for extra in target.extras:
        texts += project.get("optional-dependencies", {}).get(extra, ())
        texts += poetry.get("extras", {}).get(extra, ())
    for group in target.groups:
        texts += [t for t in document.get("dependency-groups", {}).get(group, ()) if t == str(t)]
        table = poetry.get("group", {}).get(group, {}).get("dependencies", {})
        yield from _needs(table, values, ())
    for requirement in map(Requirement, texts):
        if requirement.marker is None or requirement.marker.evaluate(dict(values)):
            yield canonicalize_name(requirement.name), tuple(sorted(requirement.extras))
    yield from _needs(poetry.get("dependencies", {}), values, ())


def _needs(
    dependencies: _Table, values: Mapping[str, str], extras: Iterable[str]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """List what a table of dependencies needs here; optional ones only if an extra needs them."""
    for name, specs in dependencies.items():
        for spec in specs if isinstance(specs, list) else [specs]:
            table: _Table = spec if isinstance(spec, dict) else {}
            by_extra = "extra" in str(table.get("markers", ""))
            needed = by_extra or not table.get("optional")
            if name != "python" and needed and _fits(table, values, extras):
                yield canonicalize_name(name), tuple(sorted(table.get("extras", ())))
