"""Locks that uv does not read: Poetry's, PDM's, Pipenv's and `pylock.toml`, as lines for it.

A lock of Poetry or PDM is read as versions that limit what its project asks for. The others list
just what is to be installed.
"""

import json
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from packaging.markers import Marker

from duetbench.app.declarations import read_pyproject
from duetbench.app.target import Target
from duetbench.core.errors import DeclarationError

POETRY: Final = "poetry.lock"
PDM: Final = "pdm.lock"
PIPENV: Final = "Pipfile.lock"
LIMITS: Final = (POETRY, PDM)
"""Locks of whose packages a project asks for some."""

LOCKS: Final = (*LIMITS, PIPENV)

_COMMITS: Final = ("commit-id", "resolved_reference", "revision", "ref")

_Table = Mapping[str, Any]


def read(file: Path, target: Target, values: Mapping[str, str]) -> list[str]:
    """List the versions or places in a lock that hold on a platform with these marker values.

    Packages with several of them are left out.

    Raises DeclarationError if the lock is invalid.
    """
    lines: dict[str, set[str]] = defaultdict(set)
    try:
        text = file.read_text("utf-8")
        document: _Table = json.loads(text) if file.name == PIPENV else tomllib.loads(text)
        if file.name == PIPENV:
            sections = (document[key] for key in ("default", *target.groups))
            named = {name: entry for section in sections for name, entry in section.items()}
            entries = [{"name": name, **entry} for name, entry in named.items()]
        else:
            entries = document["package" if file.name in LOCKS else "packages"]
        groups = frozenset((*target.groups, *document.get("default-groups", ())))
        chosen: dict[str, Any] = {
            **values,
            "extras": frozenset(target.extras),
            "dependency_groups": groups,
        }
        for entry in entries:
            marker = entry.get("markers") or entry.get("marker")
            if isinstance(marker, dict):  # Poetry has one per group
                marker = marker.get("main")
            if not marker or any(
                Marker(marker).evaluate({**chosen, "extra": extra}, "lock_file")
                for extra in ("", *target.extras)
            ):
                lines[entry["name"]].add(_line(entry, file.parent))
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        problem = f"{type(error).__name__}: {error}"
        allowed = f"a {file.name} of its tool"
        raise DeclarationError(file.name, "file", problem, allowed) from error
    return sorted(line for some in lines.values() for line in some if len(some) == 1)


def _line(package: _Table, root: Path) -> str:
    """Write a package's line: its version, or its place."""
    name = package["name"]
    tables = (package.get(key) for key in ("source", "vcs", "directory", "archive"))
    source: _Table = next(filter(None, tables), package)
    kind, address = source.get("type", ""), source.get("url")
    if git := source.get("git") or (address if kind == "git" else None):
        commit = next(source[key] for key in _COMMITS if source.get(key))
        below = f"#subdirectory={source['subdirectory']}" if source.get("subdirectory") else ""
        return f"{name} @ git+{git}@{commit}{below}"
    place = source.get("path") or (address if kind != "legacy" else None)
    if place is None:
        return f"{name}=={package['version'].removeprefix('==')}"
    if "://" not in place:
        place = (root / place / source.get("subdirectory", "")).resolve().as_uri()
    return f"{name} @ {place}"


def metadata(root: Path) -> tuple[list[str] | None, dict[str, list[str]], dict[str, list[str]]]:
    """Read what a project asks for, by default (None: not listed), by extra and by group.

    Poetry's own table counts beside its lock, which has the versions.
    """
    document = read_pyproject(root)
    project, tools = document.get("project", {}), document.get("tool", {})
    specs = tools.get("poetry", {}).get("dependencies", {}) if (root / POETRY).is_file() else None
    needed = specs and [
        text
        for name, spec in specs.items()
        if name != "python" and not (isinstance(spec, dict) and spec.get("optional"))
        for text in _texts(name, spec)
    ]
    groups = tools.get("pdm", {}).get("dev-dependencies", {})
    return (
        project.get("dependencies", needed),
        project.get("optional-dependencies", {}),
        {**groups, **document.get("dependency-groups", {})},
    )


def _texts(name: str, spec: Any) -> Iterator[str]:
    """Write one of Poetry's dependencies, which may have several conditions, as requirements."""
    for table in spec if isinstance(spec, list) else [spec]:
        fields = table if isinstance(table, dict) else {}
        conditions = [f"({text})" for text in [fields.get("markers")] if text]
        conditions += [f"sys_platform == '{text}'" for text in [fields.get("platform")] if text]
        marker = f" ; {' and '.join(conditions)}" * bool(conditions)
        yield f"{name}[{','.join(fields.get('extras', ()))}]{marker}"
