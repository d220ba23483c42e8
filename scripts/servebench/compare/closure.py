"""What a case loads: files of the applications, and packages of its environment. Reads only.

The packages are the closure of *Requires-Dist* (core metadata; markers and extras evaluated for the
environment) from the server, what its arguments make it load, and what the application imports.
Application modules are parsed, never executed, here. A package that another one picks up without
declaring it (``try: import orjson``) is not seen; `touched` therefore treats packages that come or
go with care.
"""

from __future__ import annotations

import ast
import importlib.metadata
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from servebench.model import Case
from servebench.rig import Rig
from servebench.servers import SERVERS

_DYNAMIC: Final = frozenset({"__import__", "import_module", "exec", "eval"})
"""Calls that load what no parser sees."""


@dataclass(frozen=True, slots=True)
class Reach:
    """What a case loads.

    Attributes:
        files: Paths from the checkout's root of the modules that its application imports.
        packages: Normalised names of the distributions.
        unknown: Why this is not all; empty if it is.
        direct: Those of the packages that it asks for by itself.
    """

    files: frozenset[str]
    packages: frozenset[str]
    unknown: str = ""
    direct: frozenset[str] = frozenset()

    def __or__(self, other: Reach) -> Reach:
        return Reach(
            self.files | other.files,
            self.packages | other.packages,
            self.unknown or other.unknown,
            self.direct | other.direct,
        )


@dataclass(frozen=True, slots=True)
class Imports:
    """What a module imports, with the local modules that it imports.

    Attributes:
        files: The local modules, itself included.
        names: Top-level names of the others, the standard library's left out.
        unknown: Why this is not all; empty if it is.
    """

    files: frozenset[Path]
    names: frozenset[str]
    unknown: str = ""


@dataclass(frozen=True, slots=True)
class Installed:
    """The distributions of an environment, by normalised names.

    Attributes:
        requires: What each requires.
        provides: Top-level import name → the distributions that bring it.
    """

    requires: Mapping[str, tuple[Requirement, ...]]
    provides: Mapping[str, frozenset[str]]


@dataclass(slots=True)
class Reader:
    """Reads what cases of one side load, each file and environment once."""

    root: Path
    rig: Rig
    _installed: dict[Path, Installed] = field(default_factory=dict)
    _imports: dict[tuple[str, str], Imports] = field(default_factory=dict)

    def reach(self, case: Case, *, served: bool = True) -> Reach:
        """Find what a case of this side loads.

        Args:
            case: The case.
            served: With its server; without: what its application loads in whatever process.
        """
        module = case.endpoint.app.partition(":")[0]
        imported = self._imports.get((case.experiment, module))
        if imported is None:
            folders = (self.rig.folder(case), self.rig.apps)
            imported = self._imports[case.experiment, module] = imports(module, folders)
        python = self.rig.pythons[case.stack, case.python]
        if python not in self._installed:
            self._installed[python] = installed(python)
        environment = self._installed[python]
        strange = sorted(imported.names - environment.provides.keys())
        unknown = imported.unknown
        if strange and not unknown:
            unknown = f"what its import of {strange[0]} loads is not known"
        server = SERVERS[case.server]
        roots = {server.name, *server.loads(case)} if served else set()
        for name in imported.names - set(strange):
            roots |= environment.provides[name]
        return Reach(
            files=frozenset(path.relative_to(self.root).as_posix() for path in imported.files),
            packages=closure(
                environment, roots, marker_environment(self.rig.versions[case.python])
            ),
            unknown=unknown,
            direct=frozenset(map(canonicalize_name, roots)),
        )


def imports(module: str, folders: Iterable[Path]) -> Imports:
    """Parse an application module, and the local ones that it imports, wherever they do it.

    Args:
        module: Dotted name.
        folders: Where local modules are searched, in this order.
    """
    folders = tuple(folders)
    files: set[Path] = set()
    names: set[str] = set()
    unknown = ""
    todo = [module]
    seen: set[str] = set()
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        found = _local(name, folders)
        if not found:
            top = name.partition(".")[0]
            if top not in sys.stdlib_module_names:
                names.add(top)
            continue
        for path, dotted in found.items():
            if path in files:
                continue
            files.add(path)
            more, doubt = _imported(path, dotted)
            todo += more
            unknown = unknown or doubt
    return Imports(frozenset(files), frozenset(names), unknown)


def _local(name: str, folders: Iterable[Path]) -> dict[Path, str]:
    """The files that importing a dotted name executes, with their own; none if it is not local."""
    parts = name.split(".")
    for folder in folders:
        found: dict[Path, str] = {}
        for depth in range(1, len(parts) + 1):
            place = folder.joinpath(*parts[:depth])
            for path in (place.with_suffix(".py"), place / "__init__.py"):
                if path.is_file():
                    found[path] = ".".join(parts[:depth])
        if found:
            return found
    return {}


def _imported(path: Path, name: str) -> tuple[list[str], str]:
    """The dotted names that a file imports, and why these may not be all."""
    try:
        tree = ast.parse(path.read_text("utf-8"))
    except (OSError, SyntaxError, ValueError) as problem:
        return [], f"{path.name} cannot be read: {problem}"
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found: list[str] = []
    doubt = ""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) - node.level + 1]
            around = ".".join(parents) if node.level else ""
            source = ".".join(part for part in (around, node.module) if part)
            # `from package import module` may import a module as well.
            found += [source, *(f"{source}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Call) and _called(node) in _DYNAMIC:
            doubt = f"{path.name} loads code with {_called(node)}"
    return [name for name in found if name], doubt


def _called(call: ast.Call) -> str:
    function = call.func
    return getattr(function, "id", getattr(function, "attr", ""))


def installed(python: Path) -> Installed:
    """Read the metadata of an environment's distributions.

    Args:
        python: The environment's executable. It is not started.
    """
    folders = sorted(python.parent.parent.glob("lib/python*/site-packages"))
    requires: dict[str, tuple[Requirement, ...]] = {}
    provides: dict[str, set[str]] = {}
    for distribution in importlib.metadata.distributions(path=[str(path) for path in folders]):
        name = canonicalize_name(distribution.metadata["Name"])
        requires[name] = tuple(Requirement(text) for text in distribution.requires or ())
        for top in _top_level(distribution):
            provides.setdefault(top, set()).add(name)
    return Installed(requires, {top: frozenset(names) for top, names in provides.items()})


def _top_level(distribution: importlib.metadata.Distribution) -> set[str]:
    """Top-level names of what a distribution installs."""
    names = set()
    for file in distribution.files or ():
        first = file.parts[0]
        if len(file.parts) == 1:
            first = first.partition(".")[0]
        if first.isidentifier() and first != "__pycache__":
            names.add(first)
    return names


def closure(
    environment: Installed, roots: Iterable[str], markers: Mapping[str, str]
) -> frozenset[str]:
    """Follow requirements from some distributions, with the extras that are asked for. Pure.

    Args:
        environment: What is installed.
        roots: Names to start from; they are part of the closure.
        markers: Values of environment markers (PEP 508).
    """
    found: dict[str, set[str]] = {}
    todo = [(canonicalize_name(root), frozenset[str]()) for root in roots]
    while todo:
        name, extras = todo.pop()
        fresh = ({""} | extras) - found.setdefault(name, set())
        found[name] |= fresh
        for requirement in environment.requires.get(name, ()):
            marker = requirement.marker
            if any(
                marker is None or marker.evaluate({**markers, "extra": extra}) for extra in fresh
            ):
                todo.append((canonicalize_name(requirement.name), frozenset(requirement.extras)))
    return frozenset(found)


def marker_environment(version: str) -> dict[str, str]:
    """Values of environment markers for a CPython of this version on this machine."""
    values: dict[str, Any] = {**default_environment()}
    values["python_full_version"] = values["implementation_version"] = version
    values["python_version"] = ".".join(version.split(".")[:2])
    return values
