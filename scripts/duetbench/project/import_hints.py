"""What to do if an application cannot be imported: variables, packages, or another Python."""

import re
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from packaging.utils import canonicalize_name
from packaging.version import Version

from duetbench.core.python_versions import OLDEST, removed
from duetbench.host.command import last_exception
from duetbench.project import service_hints, variable_hints
from duetbench.project.target import NOWHERE

_NO_MODULE: Final = re.compile(r"No module named '([\w.]+)'")
_NO_NAME: Final = re.compile(r"cannot import name '\w+' from '([\w.]+)'|module '([\w.]+)' has no a")
_TOO_OLD: Final = re.compile(r"no current event loop|unable to infer type for attribute")
"""Errors under Python 3.14 of packages that are older: of asyncio's users, and of Pydantic 1."""

_NO_APPLICATION: Final = {
    r"expected an ASGI or WSGI application, .* takes no arguments": "Add --factory if it makes the "
    "application",
    r"expected an ASGI or WSGI application": "If one of its methods makes the application, write a "
    "starter file, such as serve.py with `app = …`, and name that: --app serve:app",
    r"AttributeError: module '{module}' has no attribute": "`duetbench init` finds applications; "
    "with --factory, --app names a function that makes one",
}
"""Pattern of the error if an attribute is no application → what to name instead."""

_USUAL: Final = (
    "If it needs variables, set them with --env and --env-file; if it needs files or a database, "
    "make them with --before; --interface asgi or wsgi skips this import"
)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What an application was imported with.

    Attributes:
        root: Its project; `above` are the folders of the repository above that.
        folders: Those that it is imported from.
        variables: Names of those that were set.
        python: Version of the interpreter.
        source: The file that the packages were read from, for people.
        packages: Name → version of what is installed.
    """

    root: Path
    above: Sequence[Path]
    folders: Sequence[Path]
    variables: Collection[str]
    python: str
    source: str
    packages: Mapping[str, str]


def advise(output: str, module: str, around: Surroundings) -> str:
    """Say in a sentence what to do about an import of a module that failed with this output."""
    error, root = last_exception(output), around.root
    for pattern, advice in _NO_APPLICATION.items():
        if re.search(pattern.format(module=re.escape(module)), error):
            return advice
    version = Version(".".join(around.python.split(".")[:2]))
    lacking, renamed = _NO_MODULE.search(error), _NO_NAME.search(error)
    name = lacking[1] if lacking else (renamed[1] or renamed[2]) if renamed else ""
    top = name.partition(".")[0]
    if lacking and (advice := _of_module(name, module, version, root)):
        return advice
    if top != "pkg_resources" and (_TOO_OLD.search(error) or top in sys.stdlib_module_names):
        minor = min(version.minor - 1, 11)
        way = (
            f"try an older one, as with --python 3.{minor}" if minor >= OLDEST else "pin newer ones"
        )
        return f"The code, or packages of {around.source}, are too old for Python {version}: {way}"
    if lacking or canonicalize_name(top) in around.packages:
        return _of_package(top, around.source, around.packages)
    reads = variable_hints.read(around.folders, module)
    advice = variable_hints.advise(output, reads, around.variables, root, around.above)
    if not advice:
        advice = service_hints.advise(error, root)
    return f"{advice[:1].upper()}{advice[1:]}" if advice else _USUAL


def _of_module(name: str, module: str, version: Version, root: Path) -> str:
    """Say why a module is missing that is no package's; empty if it may be one's."""
    top = name.partition(".")[0]
    if advice := removed(top, version):
        return advice
    if f"{module}.".startswith(f"{name}."):
        return "Name it as it is imported from the top folder or src/; `duetbench init` finds it"
    for place in sorted((*root.glob(f"*/{top}.py"), *root.glob(f"*/{top}/*.py"))):
        folder = place.relative_to(root).parts[0]
        own = f"{module}.".startswith(f"{folder}.{top}.")  # the application's own package
        if folder[0] != "." and folder not in ("tests", "docs") and not own:
            return f"{folder}/ has {top}: work in that folder, or add --env PYTHONPATH={folder}"
    return ""


def _of_package(top: str, label: str, packages: Mapping[str, str]) -> str:
    """Say that a module is not in the packages, which come from the file `label`."""
    another = "name another file with --packages"
    if top == "pkg_resources":
        return (
            "It is a part of setuptools before 82, which is not among the packages of "
            f"{label}: add 'setuptools<82' there, or {another}"
        )
    if version := packages.get(canonicalize_name(top)):
        return (
            f"{label} gives {top} {version}, and the code expects another version: pin it there, "
            f"or {another}"
        )
    if label == NOWHERE:
        return "No file lists its packages, such as requirements.txt: name one with --packages"
    groups = "" if label.endswith(".txt") else ", or its group or extra with --groups or --extras"
    return f"{label} has no package with {top}: {another}{groups}"
