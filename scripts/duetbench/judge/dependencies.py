"""Dependencies of a case: files of the applications, and packages of its environment.

The packages are the closure of *Requires-Dist* from the server, what its arguments make it load,
and what the application imports. Modules are parsed, not executed, so a package that another one
uses without declaring it (``try: import orjson``) is missed. Where that would decide the answer,
`Reader.watch` lets both sides serve the case and asks the servers what they have loaded.

In another repository than ours, an application may also load the code around `apps/`; a target's
code is all around. Frameworks load by name and by convention (Django's settings and what they
list), so all of a package around counts as loaded, even if only a text names it.
"""

from __future__ import annotations

import ast
import functools
import importlib.metadata
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from packaging.markers import default_environment
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from duetbench.core.errors import LaunchError
from duetbench.core.model import Case
from duetbench.measure.entry import duetbench_entry as entry
from duetbench.measure.server import Serving
from duetbench.measure.testbed import Testbed
from duetbench.project.servers import SERVERS

_DYNAMIC: Final = frozenset({"__import__", "import_module", "exec", "eval"})
"""Calls that load code which no parser sees."""

_LONGEST: Final = 200
"""Longest dotted name in bytes: no module has a longer one, and no folder such a file."""

_NAMED: Final = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?::\w+)?")
"""A text that may name a module, or an attribute of one: `shop.settings`, `shop.main:app`."""

_REQUIRED: Final = re.compile(r"^([\w.-]+\s*(?:\[[^]]*\])?).*", re.S)
"""A requirement, of which the name and the extras are caught."""

SOURCES: Final = ("src", "")
"""Folders of a repository, beside `apps/`, that contain its code."""

_FOLDERS: Final = frozenset({"apps", *SOURCES})
"""Texts that name a folder of the search path, not a package."""


@dataclass(frozen=True, slots=True)
class Dependencies:
    """The files and packages that a case loads."""

    files: frozenset[str] = frozenset()  # modules of its application, from the checkout's root
    packages: frozenset[str] = frozenset()
    unknown: str = ""  # why this is not complete; empty if it is
    direct: frozenset[str] = frozenset()  # packages that the case itself asks for

    def __or__(self, other: Dependencies) -> Dependencies:
        return Dependencies(
            self.files | other.files,
            self.packages | other.packages,
            self.unknown or other.unknown,
            self.direct | other.direct,
        )


@dataclass(slots=True)
class Imports:
    """The files and packages that a module imports, directly or through local modules.

    `around` are the names that exist around the applications; their files are among `files`. A
    package of the same name may also be installed.
    """

    files: set[Path] = field(default_factory=set)
    names: set[str] = field(default_factory=set)  # top-level names outside the standard library
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
        """Find the distributions of files; a file that none lists may belong to several."""
        names: set[str] = set()
        for file in files:
            if (place := _within(file, self.folders)) is not None:
                if "__pycache__" in file.parts:
                    place = place.parents[1] / f"{place.name.partition('.')[0]}.py"
                owner, top = self.owner.get(place.as_posix()), place.parts[0]
                names |= {owner} if owner else {*self.provides.get(top.partition(".")[0], ())}
        return frozenset(names)


@dataclass(slots=True)
class Reader:
    """Reads what cases of one side load, each file and environment once."""

    root: Path
    testbed: Testbed
    around: tuple[Path, ...] = ()
    _installed: dict[Path, Installed] = field(default_factory=dict)
    _imports: dict[tuple[str, str], Imports] = field(default_factory=dict)

    def read(self, case: Case) -> Dependencies:
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
            "what its PYTHONPATH adds is not known" if "PYTHONPATH" in case.env else "",
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
        """Return the distributions of a case's environment, read once."""
        python = self.testbed.pythons[case.stack, case.python]
        if python not in self._installed:
            self._installed[python] = read_installed(python)
        return self._installed[python]

    def watch(self, cases: Sequence[Case]) -> Dependencies:
        """Find what cases of one server load: serve each of them one request."""
        log = self.testbed.logs / f"watch-{uuid4().hex}.log"
        try:
            files, folder = used_files(cases, self.testbed, log)
        except LaunchError as error:
            return Dependencies(unknown=f"what it loads could not be observed ({error.flag})")
        folders = (folder,) if self.testbed.target else (self.root,)
        places = (_within(file, folders) for file in files)
        return Dependencies(
            files=frozenset(file.as_posix() for file in places if file is not None),
            packages=self.environment(cases[0]).owners(files),
        )


def used_files(cases: Sequence[Case], testbed: Testbed, log: Path) -> tuple[frozenset[Path], Path]:
    """Find the files that a server process uses after a request to each case, and its folder.

    All cases share one command. Raises LaunchError if that fails.
    """
    with watched(cases[0], testbed, log) as serving:
        for case in cases:
            serving.take(case.model_copy(update={"workers": 1}))
            serving.verify(repeats=1)
        workers = serving.identify()
    files = {Path(name) for worker in workers for name in worker.files}
    return frozenset(files), serving.workspace.folder


@contextmanager
def watched(case: Case, testbed: Testbed, log: Path) -> Iterator[Serving]:
    """Serve a case with one worker that lists its files and routes, and end it at once.

    Raises LaunchError if the server does not start.
    """
    environment = {**case.env, entry.WATCHED: "1"}
    serving = Serving(case.model_copy(update={"workers": 1, "env": environment}), testbed, log)
    try:
        serving.start()
        serving.meet()
        yield serving
    except LaunchError as error:
        with suppress(LaunchError):  # the first failure explains the second
            serving.kill()
        raise LaunchError(error.flag, serving.workspace.hide(error.detail)) from error
    except BaseException:
        serving.abandon()
        raise
    serving.kill()


def _within(file: Path, folders: Iterable[Path]) -> Path | None:
    """Return a file's path in the first of the folders that contains it, links followed or not."""
    places = (place for folder in folders for place in (folder, folder.resolve()))
    return next((file.relative_to(place) for place in places if file.is_relative_to(place)), None)


def imports(module: str, folders: Sequence[Path], around: tuple[Path, ...] = ()) -> Imports:
    """Parse an application module and the local modules that it imports anywhere.

    `folders` are searched in this order, then `around`, whose packages count as a whole.
    """
    result, search = Imports(), ""
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
            read = _read_imports(path, modules[path])
            # Any text may look like a module's name, so only names of the code around count.
            texts = [text for text in read.texts if _packages(text.partition(".")[0], around)]
            names = (*read.names, *(text for text in texts if text not in _FOLDERS))
            todo += [word for word in names if word not in visited]
            visited.update(names)
            result.unknown = result.unknown or read.doubt
            search = search or read.search
    if around and search and not result.around and not result.unknown:
        result.unknown = f"{search}, and what it loads from there is not known"
    return result


@functools.cache
def _packages(top: str, around: tuple[Path, ...]) -> Mapping[Path, str]:
    """Find all modules of a top-level package around, or its one module, with dotted names."""
    files = {}
    for folder in around:
        for path in (folder / f"{top}.py", *sorted((folder / top).rglob("*.py"))):
            if path.is_file():
                parts = path.relative_to(folder).with_suffix("").parts
                files[path] = ".".join(part for part in parts if part != "__init__")
    return files


def _local(name: str, folders: Iterable[Path]) -> Mapping[Path, str]:
    """Map the local files that importing a dotted name executes to their names; may be empty."""
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
    """The names that a file imports; `doubt`: why they may be incomplete."""

    names: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    doubt: str = ""
    search: str = ""


def _read_imports(path: Path, name: str) -> _Read:
    """Read the imports of the module with this dotted name."""
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
            modules = (source, *(f"{source}.{alias.name}" for alias in node.names))
            read.names += filter(None, modules)
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
                read.search = f"{path.name} changes the search path"
    for words in (read.names, read.texts):
        words[:] = [word for word in words if len(word.encode()) <= _LONGEST]
    return read


def read_installed(python: Path) -> Installed:
    """Read the metadata of an environment's distributions without starting its interpreter."""
    folders = sorted(python.parent.parent.glob("lib/python*/site-packages"))
    requires: dict[str, tuple[Requirement, ...]] = {}
    provides: dict[str, set[str]] = {}
    owner: dict[str, str] = {}
    for distribution in importlib.metadata.distributions(path=[str(path) for path in folders]):
        name = canonicalize_name(distribution.metadata["Name"])
        requires[name] = tuple(map(_requirement, distribution.requires or ()))
        for file in distribution.files or ():
            owner[file.as_posix()] = name
            top = file.parts[0] if len(file.parts) > 1 else file.parts[0].partition(".")[0]
            if top.isidentifier() and top != "__pycache__":
                provides.setdefault(top, set()).add(name)
    return Installed(requires, provides, owner, tuple(folders))


def _requirement(text: str) -> Requirement:
    """Parse a requirement; one with a version that is no longer valid (`>=7.*`) without it."""
    try:
        return Requirement(text)
    except InvalidRequirement:
        return Requirement(_REQUIRED.sub(r"\1", text))


def closure(
    environment: Installed, roots: Iterable[str], markers: Mapping[str, str]
) -> frozenset[str]:
    """Follow the requirements of some distributions, with the extras that they ask for. Pure."""
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
    """Return the environment markers of a CPython of this version on this machine."""
    full = dict.fromkeys(("python_full_version", "implementation_version"), version)
    values: dict[str, Any] = {**default_environment(), **full}
    return {**values, "python_version": ".".join(version.split(".")[:2])}
