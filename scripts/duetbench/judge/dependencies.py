"""Dependencies of a case: files of the applications, and packages of its environment.

The packages are the closure of *Requires-Dist* from the server, what its arguments make it load,
and what the application imports. Modules are parsed, not executed, so that a package which another
one picks up without declaring it (``try: import orjson``) is missed. Where that would be the
answer, `Reader.watch` has both sides serve the case, and asks what they have loaded.

In another repository than ours an application may load the code around `apps/` as well; a target's
is all around. Frameworks load by name and by convention (Django's settings and what they list), so
there a package is reached as a whole, also by a text that names it.
"""

from __future__ import annotations

import ast
import functools
import importlib.metadata
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from duetbench.core.errors import LaunchError
from duetbench.core.model import Case
from duetbench.measure.entry import duetbench_entry as entry
from duetbench.measure.server import Serving
from duetbench.measure.testbed import Testbed
from duetbench.project.servers import SERVERS

_DYNAMIC: Final = frozenset({"__import__", "import_module", "exec", "eval"})
"""Calls that load what no parser sees."""

_LONGEST: Final = 200
"""Letters of a dotted name: no module has a longer one, and no folder a file of such a name."""

_NAMED: Final = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?::\w+)?")
"""A text that may name a module, or an attribute of one: `shop.settings`, `shop.main:app`."""

SOURCES: Final = ("src", "")
"""Folders of a repository, beside `apps/`, in which its code is searched."""

_FOLDERS: Final = frozenset({"apps", *SOURCES})
"""Texts that name a folder of the search path, and no package in one."""


@dataclass(frozen=True, slots=True)
class Dependencies:
    """Files and packages that a case loads."""

    files: frozenset[str] = frozenset()  # modules of its application, from the checkout's root
    packages: frozenset[str] = frozenset()
    unknown: str = ""  # why this is not all; empty: it is
    direct: frozenset[str] = frozenset()  # those of the packages that it asks for by itself

    def __or__(self, other: Dependencies) -> Dependencies:
        return Dependencies(
            self.files | other.files,
            self.packages | other.packages,
            self.unknown or other.unknown,
            self.direct | other.direct,
        )


@dataclass(slots=True)
class Imports:
    """Files and packages that a module imports, through the local modules that it imports.

    `around` are those of the names that are found around the applications; their files are among
    `files`. A package of the same name may be installed.
    """

    files: set[Path] = field(default_factory=set)
    names: set[str] = field(default_factory=set)  # top-level ones of all but the standard library
    unknown: str = ""
    around: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Installed:
    """The distributions of an environment.

    `provides`: by top-level import name. `owner`: of each file, by its path in one of `folders`.
    """

    requires: Mapping[str, tuple[Requirement, ...]]
    provides: Mapping[str, Collection[str]]
    owner: Mapping[str, str] = field(default_factory=dict)
    folders: tuple[Path, ...] = ()

    def owners(self, files: Iterable[Path]) -> frozenset[str]:
        """The distributions that files belong to; of a file that none has noted, all it may be."""
        found: set[str] = set()
        for file in files:
            if (place := _within(file, self.folders)) is not None:
                if "__pycache__" in file.parts:
                    place = place.parents[1] / f"{place.name.partition('.')[0]}.py"
                owner, top = self.owner.get(place.as_posix()), place.parts[0]
                found |= {owner} if owner else {*self.provides.get(top.partition(".")[0], ())}
        return frozenset(found)


@dataclass(slots=True)
class Reader:
    """Reads what cases of one side load, each file and environment once."""

    root: Path
    testbed: Testbed
    around: tuple[Path, ...] = ()
    _installed: dict[Path, Installed] = field(default_factory=dict)
    _imports: dict[tuple[str, str], Imports] = field(default_factory=dict)

    def read(self, case: Case) -> Dependencies:
        """Find what a case of this side loads."""
        module = case.endpoint.app.partition(":")[0]
        if (case.experiment, module) not in self._imports:
            folders: tuple[Path, ...] = (self.testbed.folder(case), self.testbed.apps)
            around = self.around
            if self.testbed.imports:
                folders, around = (), tuple(self.root / name for name in self.testbed.imports)
            self._imports[case.experiment, module] = imports(module, folders, around)
        imported = self._imports[case.experiment, module]
        environment = self.environment(case)
        strange = sorted(imported.names - environment.provides.keys() - imported.around)
        doubts = (
            imported.unknown,
            "what its PYTHONPATH brings is not known" if "PYTHONPATH" in case.env else "",
            f"what its import of {strange[0]} loads is not known" if strange else "",
        )
        server = SERVERS[case.server]
        roots = {server.name, *server.loads(case)}
        roots |= set().union(*(environment.provides.get(name, ()) for name in imported.names))
        markers = marker_environment(self.testbed.interpreters[case.python].version)
        return Dependencies(
            files=frozenset(path.relative_to(self.root).as_posix() for path in imported.files),
            packages=closure(environment, roots, markers),
            unknown=next(filter(None, doubts), ""),
            direct=frozenset(map(canonicalize_name, roots)),
        )

    def environment(self, case: Case) -> Installed:
        """The distributions of a case's environment."""
        python = self.testbed.pythons[case.stack, case.python]
        if python not in self._installed:
            self._installed[python] = installed(python)
        return self._installed[python]

    def watch(self, cases: Sequence[Case]) -> Dependencies:
        """Find what cases of one server load by letting it answer them, once each."""
        log = self.testbed.logs / f"watch-{uuid4().hex}.log"
        try:
            used, folder = used_files(cases, self.testbed, log)
        except LaunchError as error:
            return Dependencies(unknown=f"what it loads could not be seen ({error.flag})")
        folders = (folder,) if self.testbed.target else (self.root,)
        own = (_within(file, folders) for file in used)
        return Dependencies(
            files=frozenset(file.as_posix() for file in own if file is not None),
            packages=self.environment(cases[0]).owners(used),
        )


def used_files(cases: Sequence[Case], testbed: Testbed, log: Path) -> tuple[frozenset[Path], Path]:
    """Give the files that a process uses that has answered each of these cases, and its folder.

    The cases are served by one command; one worker does. LaunchError: they are not served.
    """
    alone = [
        case.model_copy(update={"workers": 1, "env": {**case.env, entry.WATCHED: "1"}})
        for case in cases
    ]
    serving = Serving(alone[0], testbed, log)
    try:
        serving.start()
        serving.await_ready()
        serving.meet()
        for case in alone:
            serving.take(case)
            serving.verify(repeats=1)
        workers = serving.identify()
    except LaunchError:
        with suppress(LaunchError):  # of two failures the first explains the second
            serving.kill()
        raise
    except BaseException:
        serving.abandon()
        raise
    serving.kill()
    found = {Path(name) for worker in workers for name in worker.files}
    return frozenset(found), serving.workspace.folder


def _within(file: Path, folders: Iterable[Path]) -> Path | None:
    """A file's path in the first of some folders that it is in, links followed or not."""
    places = (place for folder in folders for place in (folder, folder.resolve()))
    return next((file.relative_to(one) for one in places if file.is_relative_to(one)), None)


def imports(module: str, folders: Sequence[Path], around: tuple[Path, ...] = ()) -> Imports:
    """Parse an application module, and the local ones that it imports, wherever they do it.

    `folders` are searched in this order, then `around`, whose packages are reached as a whole.
    """
    result, searched = Imports(), ""
    todo, visited = [module], set[str]()
    while todo:
        name = todo.pop()
        top, modules = name.partition(".")[0], _local(name, folders)
        if not modules and top not in {*sys.stdlib_module_names, *result.around}:
            result.names.add(top)
            modules = _packages(top, around)
            result.around |= {top} if modules else set()
        for path in [path for path in modules if path not in result.files]:
            result.files.add(path)
            read = _imported(path, modules[path])
            # Any text may look like a module's name: only that of code around is taken for one.
            texts = [text for text in read.texts if _packages(text.partition(".")[0], around)]
            named = (*read.names, *(text for text in texts if text not in _FOLDERS))
            todo += [one for one in named if one not in visited]
            visited.update(named)
            result.unknown = result.unknown or read.doubt
            searched = searched or read.searched
    if around and searched and not result.around and not result.unknown:
        result.unknown = f"{searched}, and what it loads from there is not known"
    return result


@functools.cache
def _packages(top: str, around: tuple[Path, ...]) -> Mapping[Path, str]:
    """All modules around of a top-level package, or the one module, with their dotted names."""
    files = {}
    for folder in around:
        for path in (folder / f"{top}.py", *sorted((folder / top).rglob("*.py"))):
            if path.is_file():
                parts = path.relative_to(folder).with_suffix("").parts
                files[path] = ".".join(part for part in parts if part != "__init__")
    return files


def _local(name: str, folders: Iterable[Path]) -> Mapping[Path, str]:
    """The files that importing a dotted name executes, with their own; none if it is not local."""
    parts = name.split(".")
    for folder in folders:
        files = {
            path: ".".join(parts[:depth])
            for depth in range(1, len(parts) + 1)
            for place in [folder.joinpath(*parts[:depth])]
            for path in (place.with_suffix(".py"), place / "__init__.py")
            if path.is_file()
        }
        if files:
            return files
    return {}


@dataclass(slots=True)
class _Read:
    """Names that a file imports; `doubt`: why they may not be all."""

    names: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    doubt: str = ""
    searched: str = ""


def _imported(path: Path, name: str) -> _Read:
    """Read the imports of the module of this dotted name."""
    try:
        tree = ast.parse(path.read_text("utf-8"))
    except (OSError, SyntaxError, ValueError) as problem:
        return _Read(doubt=f"{path.name} cannot be read: {problem}")
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    read = _Read()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            read.names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) - node.level + 1]
            around = ".".join(parents) if node.level else ""
            source = ".".join(part for part in (around, node.module) if part)
            # `from package import module` may import a module as well.
            named = (source, *(f"{source}.{alias.name}" for alias in node.names))
            read.names += filter(None, named)
        elif isinstance(node, ast.Call):
            function = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if function in _DYNAMIC:
                read.doubt = f"{path.name} loads code with {function}"
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if match := _NAMED.fullmatch(node.value):
                read.texts.append(match[1])
        elif isinstance(node, ast.Attribute | ast.Name):
            owner = getattr(getattr(node, "value", None), "id", "")
            name = node.id if isinstance(node, ast.Name) else node.attr
            if name == "addsitedir" or (owner, name) == ("sys", "path"):
                read.searched = f"{path.name} changes the search path"
    for words in (read.names, read.texts):
        words[:] = [word for word in words if len(word.encode()) <= _LONGEST]
    return read


def installed(python: Path) -> Installed:
    """Read the metadata of the distributions of an environment, whose executable is not started."""
    folders = sorted(python.parent.parent.glob("lib/python*/site-packages"))
    requires: dict[str, tuple[Requirement, ...]] = {}
    provides: dict[str, set[str]] = {}
    owner: dict[str, str] = {}
    for distribution in importlib.metadata.distributions(path=[str(path) for path in folders]):
        name = canonicalize_name(distribution.metadata["Name"])
        requires[name] = tuple(Requirement(text) for text in distribution.requires or ())
        for file in distribution.files or ():
            owner[file.as_posix()] = name
            top = file.parts[0] if len(file.parts) > 1 else file.parts[0].partition(".")[0]
            if top.isidentifier() and top != "__pycache__":
                provides.setdefault(top, set()).add(name)
    return Installed(requires, provides, owner, tuple(folders))


def closure(
    environment: Installed, roots: Iterable[str], markers: Mapping[str, str]
) -> frozenset[str]:
    """Follow requirements from some distributions, with the extras that are asked for. Pure."""
    needs: dict[str, set[str]] = {}
    todo = [(canonicalize_name(root), frozenset[str]()) for root in roots]
    while todo:
        name, extras = todo.pop()
        fresh = ({""} | extras) - needs.setdefault(name, set())
        needs[name] |= fresh
        for requirement in environment.requires.get(name, ()):
            marker = requirement.marker
            if any(
                marker is None or marker.evaluate({**markers, "extra": extra}) for extra in fresh
            ):
                todo.append((canonicalize_name(requirement.name), frozenset(requirement.extras)))
    return frozenset(needs)


def marker_environment(version: str) -> dict[str, str]:
    """Values of environment markers for a CPython of this version on this machine."""
    full = dict.fromkeys(("python_full_version", "implementation_version"), version)
    values: dict[str, Any] = {**default_environment(), **full}
    return {**values, "python_version": ".".join(version.split(".")[:2])}
