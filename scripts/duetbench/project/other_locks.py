"""Locks of other tools than uv and pip, as lines of requirements: Poetry's, PDM's and Pipenv's."""

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
from duetbench.project.settings import Target, read_pyproject

POETRY: Final = "poetry.lock"
PDM: Final = "pdm.lock"
PIPENV: Final = "Pipfile.lock"
LOCKS: Final = (POETRY, PDM, PIPENV)

_Table = Mapping[str, Any]


def read(file: Path, root: Path, wanted: Target, values: Mapping[str, str]) -> tuple[str, ...]:
    """The packages of a lock that a platform with these values of markers gets, one a line.

    Those without a file's hash in the lock have none here.

    DeclarationError: it is no such lock.
    """
    try:
        text = file.read_text("utf-8")
        if file.name == PIPENV:
            document: _Table = json.loads(text)
            sections = ("default", *wanted.groups)
            entries = {name: one for key in sections for name, one in document[key].items()}
            lines = [_pinned(name, one) for name, one in entries.items() if _fits(one, values)]
        elif file.name == PDM:
            document = tomllib.loads(text)
            groups = {"default", *wanted.groups, *wanted.extras}
            lines = [
                _pinned(one["name"], one)
                for one in document["package"]
                if _fits(one, values) and groups.intersection(one.get("groups", groups))
            ]
        else:
            lines = list(_of_poetry(tomllib.loads(text), read_pyproject(root), wanted, values))
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        problem = f"{type(error).__name__}: {error}"
        raise DeclarationError(str(file), "file", problem, f"a {file.name} of its tool") from error
    return tuple(sorted(dict.fromkeys(lines)))


def interpreter(root: Path) -> str:
    """What Poetry or Pipenv ask for of an interpreter, as a specifier; empty: nothing."""
    poetry = read_pyproject(root).get("tool", {}).get("poetry", {})
    if text := poetry.get("dependencies", {}).get("python", ""):
        return _specifier(str(text))
    pipfile = root / "Pipfile"
    requires = (
        tomllib.loads(pipfile.read_text("utf-8")).get("requires", {}) if pipfile.is_file() else {}
    )
    text = str(requires.get("python_full_version") or requires.get("python_version") or "")
    return _specifier(text) if text else ""


def _specifier(text: str) -> str:
    """Poetry's `^3.10`, `~3.11`, `3.11` and `>=3.10,<3.13`; of alternatives the last."""
    parts = []
    for word in re.split(r"\s*,\s*|(?<=[\w*])\s+", text.rpartition("||")[2].strip()):
        if word[:1] in {"^", "~"} and word[:2] != "~=":
            number = word.lstrip("^~ ")
            release = Version(number).release
            kept = release[:1] if word[0] == "^" else release[:2]
            upper = ".".join(map(str, (*kept[:-1], kept[-1] + 1)))
            parts.append(f">={number},<{upper}")
        elif word[:1].isdigit():
            parts.append(f"=={word}" if word.endswith("*") else f"=={word}.*")
        elif word != "*":
            parts.append(word.replace(" ", ""))
    return ",".join(parts)


def _fits(package: _Table, values: Mapping[str, str], extras: Iterable[str] = ()) -> bool:
    """Whether a package, or a dependency, is for this platform, with some of its user's extras."""
    marker = package.get("markers") or package.get("marker")
    if isinstance(marker, dict):  # Poetry's, by group
        marker = marker.get("main")
    return not marker or any(
        Marker(marker).evaluate({**values, "extra": extra}) for extra in ("", *extras)
    )


def _pinned(name: str, package: _Table) -> str:
    """A package's line: its version, or its place, and the hashes of its files."""
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
    hashes = package.get("hashes") or [one["hash"] for one in package.get("files", ())]
    options = "".join(f" --hash={one}" for one in hashes)
    if address := source["url"] if kind == "url" else "":
        return f"{name} @ {address}{options}"
    return f"{name}=={package['version'].removeprefix('==')}{options}"


def _of_poetry(
    lock: _Table, document: _Table, wanted: Target, values: Mapping[str, str]
) -> Iterator[str]:
    """Follow what the project asks for, since a lock need not tell for what a package is there."""
    packages: dict[str, list[_Table]] = {}
    for one in lock["package"]:
        packages.setdefault(canonicalize_name(one["name"]), []).append(one)
    todo = [*_roots(document, wanted, values)]
    visited: set[tuple[str, tuple[str, ...]]] = set()
    chosen: dict[str, str] = {}
    while todo:
        name, extras = todo.pop()
        fitting = [one for one in packages.get(name, ()) if _fits(one, values)]
        if (name, extras) in visited or not fitting:
            continue
        visited.add((name, extras))
        package = max(fitting, key=lambda one: Version(one["version"]))
        chosen[name] = _pinned(name, package)
        todo += _needs(package.get("dependencies", {}), values, extras)
    yield from chosen.values()


def _roots(
    document: _Table, wanted: Target, values: Mapping[str, str]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    project, poetry = document.get("project", {}), document.get("tool", {}).get("poetry", {})
    texts = [*project.get("dependencies", ())]
    for extra in wanted.extras:
        texts += project.get("optional-dependencies", {}).get(extra, ())
        texts += poetry.get("extras", {}).get(extra, ())
    for group in wanted.groups:
        texts += [t for t in document.get("dependency-groups", {}).get(group, ()) if t == str(t)]
        theirs = poetry.get("group", {}).get(group, {}).get("dependencies", {})
        yield from _needs(theirs, values, ())
    for requirement in map(Requirement, texts):
        if requirement.marker is None or requirement.marker.evaluate(dict(values)):
            yield canonicalize_name(requirement.name), tuple(sorted(requirement.extras))
    yield from _needs(poetry.get("dependencies", {}), values, ())


def _needs(
    dependencies: _Table, values: Mapping[str, str], extras: Iterable[str]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What a table of dependencies asks for here; what is optional only by its marker's extra."""
    for name, specs in dependencies.items():
        for spec in specs if isinstance(specs, list) else [specs]:
            table: _Table = spec if isinstance(spec, dict) else {}
            named = "extra" in str(table.get("markers", ""))
            asked = named or not table.get("optional")
            if name != "python" and asked and _fits(table, values, extras):
                yield canonicalize_name(name), tuple(sorted(table.get("extras", ())))
