"""Which variables an application lacks if it cannot start, and the options that set them.

An error often names one of them. The sources name the others: required fields of settings, and
variables that they read without a default. The values come from what the repository has for that:
examples such as `.env.example`, compose files and workflows. Of a real `.env` only the name is
shown.
"""

import ast
import os
import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from duetbench.core.errors import UsageError
from duetbench.host.command import last_exception
from duetbench.project.target import read_variables

_VARIABLE: Final = re.compile(r"\b[A-Z][A-Z0-9_]+\b")
_UNSET: Final = re.compile(
    r"Config '(\w+)' is missing|(\w+) not found\. Declare it as envvar"
    r"|nvironment variable \"?'?(\w+)|[Ss]et the (\w+) environment variable"
)
"""What Starlette, decouple, environs and Django print of a variable that is not set."""

_KEY: Final = re.compile(r"KeyError: '(\w+)'$")
_FIELD: Final = re.compile(r"^([\w.]+)\n +field required", re.MULTILINE | re.IGNORECASE)
_MODEL: Final = re.compile(r"validation errors? for (\w+)")
_SETTINGS: Final = re.compile(r"pydantic_settings|env_settings|for \w*(Settings|Config|Env)\b")
_FEW: Final = 3
"""Most variables that may explain an end without an exception."""

_READERS: Final = {"config", "env", "environ"}
"""Functions that read a variable, or objects with such methods, in those libraries."""

LACKING: Final = "not set: add"
"""Stands in every advice about variables."""

_DJANGO: Final = "DJANGO_SETTINGS_MODULE"
_NOT_SERVED: Final = {"tests", "test", "docs", "examples", "node_modules", "migrations"}
_FILE: Final = re.compile(r"\.?env([._-].+)?|.+\.env([._-].+)?")
_REAL: Final = re.compile(r"^\.env$|prod|\blocal$")
"""Names of files with real values: the last to suggest."""

_FILLED_IN: Final = re.compile(r"[$]|^[|>&*{\[]")
"""Values in YAML that something else fills in, or that are no plain text."""


@dataclass(slots=True)
class Reads:
    """The variables that sources read.

    Attributes:
        needed: Those without a default.
        optional: Those that are None unless they are set.
        others: Those with a default.
        fields: Class of settings → required field → its variable.
        created: Names that the sources call without arguments.
    """

    needed: dict[str, None] = field(default_factory=dict)
    optional: dict[str, None] = field(default_factory=dict)
    others: dict[str, None] = field(default_factory=dict)
    fields: dict[str, dict[str, str]] = field(default_factory=dict)
    created: set[str] = field(default_factory=set)


def advise(
    output: str, reads: Reads, given: Collection[str], root: Path, above: Sequence[Path] = ()
) -> str:
    """Name all variables that an application lacks, with options; empty if that is not the cause.

    `output` is what it printed, and `given` are the variables that are set. The values come from
    files in the project and in the folders of its repository `above`.
    """
    names = missing(output, reads, given)
    are = "is" if len(names) == 1 else "are"
    listed = ", ".join(names)
    return f"{listed} {are} {LACKING} {options(names, root, above)}" if names else ""


def missing(output: str, reads: Reads, given: Collection[str]) -> tuple[str, ...]:
    """List the variables that an application lacks, if its last exception is about one."""
    error = last_exception(output)
    known = {*reads.needed, *reads.optional, *reads.others}
    named = [name for groups in _UNSET.findall(error) for name in groups if name]
    named += [name for name in _VARIABLE.findall(error) if name in known]
    named += [name for name in _KEY.findall(error) if "environ" in output]
    if (model := _MODEL.search(error)) and (model[1] in reads.fields or _SETTINGS.search(output)):
        own = reads.fields.get(model[1], {})
        places = (place.lower().replace(".", "__") for place in _FIELD.findall(error))
        named += [own.get(name, name.upper()) for name in places]
    if re.search(r"\bNone(Type)?\b", error) or (not error and len(reads.optional) <= _FEW):
        named += reads.optional
    if not named:
        return ()
    of_models = (own for model, own in reads.fields.items() if model in reads.created)
    names = [*named, *reads.needed, *(name for own in of_models for name in own.values())]
    present = {name.upper() for name in given}
    return tuple(name for name in dict.fromkeys(names) if name.upper() not in present)


def options(names: Sequence[str], root: Path, above: Sequence[Path] = ()) -> str:
    """Spell the options that set variables, with the values that the repository's files have."""
    folders = (root, *above)
    file, best = "", dict[str, str]()
    for example in _examples(folders):
        values: Mapping[str, str] = {}
        with suppress(UsageError):
            values = read_variables(example)
        known = {name: values[name] for name in names if values.get(name)}
        if len(known) > len(best):
            file, best = os.path.relpath(example, root), known
    words = [f"--env-file {shlex.quote(file)}"] if file else []
    rest = (f"{name}={_value(name, folders)}" for name in names if name not in best)
    return " ".join([*words, *(f"--env {shlex.quote(text)}" for text in rest)])


def _examples(folders: Iterable[Path]) -> list[Path]:
    """List the files with variables, the real ones last."""
    files = (file for folder in folders for file in sorted(folder.glob("*env*")))
    plain = [file for file in files if _FILE.fullmatch(file.name) and file.is_file()]
    return sorted(plain, key=lambda file: _REAL.search(file.name) is not None)


def _value(name: str, folders: Sequence[Path]) -> str:
    """Find a variable's value in compose files and workflows; Django's module where it is set."""
    in_yaml = rf"""^[ \t]*(?:- )?["']?{name}["']?[ \t]*[:=][ \t]*(\S.*?)[ \t]*$"""
    in_code = rf"""["']{name}["'],\s*["']([\w.]+)["']"""
    places = [(glob, in_yaml) for glob in ("*compose*.y*ml", ".github/workflows/*.y*ml")]
    places += [(glob, in_code) for glob in ("*.py", "*/*.py") if name == _DJANGO]
    for folder in folders:
        for glob, pattern in places:
            for file in sorted(folder.glob(glob)):
                for value in re.findall(pattern, file.read_text("utf-8", "replace"), re.MULTILINE):
                    plain = value.partition(" #")[0].strip().strip("\"'")
                    plain = re.sub(r"^\$\{\w+:?-([^}]*)\}$", r"\1", plain)  # its default
                    if plain and not _FILLED_IN.search(plain):
                        return plain
    return "VALUE"


def read(folders: Sequence[Path], module: str) -> Reads:
    """Read the sources of an application and of the packages beside it that it imports.

    `folders` are those that it is imported from; other packages are not read.
    """
    reads, classes = Reads(), dict[str, ast.ClassDef]()
    todo, visited = [module], set[str]()
    while todo:
        if (top := todo.pop().partition(".")[0]) in visited:
            continue
        visited.add(top)
        for folder in folders:
            for file in (folder / f"{top}.py", *sorted((folder / top).rglob("*.py"))):
                if _NOT_SERVED & {*file.relative_to(folder).parts}:
                    continue
                with suppress(OSError, SyntaxError, ValueError):
                    text = file.read_text("utf-8")
                    plain = re.search(r"^\s*from os import .*\benviron\b", text, re.MULTILINE)
                    for node in ast.walk(ast.parse(text)):
                        if isinstance(node, ast.Import):
                            todo += [alias.name for alias in node.names]
                        elif isinstance(node, ast.ImportFrom):
                            todo += [node.module] if node.module and not node.level else []
                        elif isinstance(node, ast.ClassDef):
                            classes[node.name] = node
                        else:
                            _note(node, reads, plain=plain is not None)
    reads.fields = {name: own for name in classes if (own := _required(name, classes))}
    for name in reads.others:
        reads.needed.pop(name, None)
    return reads


def _note(node: ast.AST, reads: Reads, *, plain: bool) -> None:
    """Note the variable that an expression reads, if it does; `plain`: `environ` is that of `os`.

    In other modules it is a request's.
    """
    if isinstance(node, ast.Subscript):
        ours = plain or _last(getattr(node.value, "value", node)) == "os"
        if ours and _last(node.value) == "environ" and isinstance(node.ctx, ast.Load):
            reads.needed |= _names(node.slice)
        return
    if not isinstance(node, ast.Call):
        return
    name, owner = _last(node.func), _last(getattr(node.func, "value", node))
    if not (node.args or node.keywords):
        reads.created.add(name)
    elif name == "Env":  # django-environ's defaults
        reads.others |= {keyword.arg: None for keyword in node.keywords if keyword.arg}
    elif node.args and (names := _names(node.args[0])):
        default = len(node.args) > 1 or any(keyword.arg == "default" for keyword in node.keywords)
        if name == "getenv" or (owner, name) == ("environ", "get"):
            kind = reads.others if default else reads.optional
        elif name in _READERS or (owner in _READERS and name not in {"get", "setdefault", "pop"}):
            kind = reads.others if default else reads.needed
        elif "env" in f"{owner}.{name}".lower():
            kind = reads.others
        else:
            return
        kind |= names  # in place: it is one of the sets of `reads`


def _last(node: ast.AST) -> str:
    """Return the last name of an expression: `environ` of `os.environ`."""
    return str(getattr(node, "attr", getattr(node, "id", "")))


def _names(node: ast.AST) -> dict[str, None]:
    value = getattr(node, "value", None)
    return {value: None} if isinstance(value, str) and _VARIABLE.fullmatch(value) else {}


def _required(name: str, classes: Mapping[str, ast.ClassDef]) -> dict[str, str]:
    """Map the required fields of a class of settings to their variables; empty if it is none."""
    lineage = [name]
    for base in lineage:  # which grows meanwhile, nearest first
        bases = map(_last, classes[base].bases if base in classes else ())
        lineage += [text for text in bases if text not in lineage]
    if "BaseSettings" not in lineage:
        return {}
    bodies = [classes[base].body for base in lineage if base in classes]
    prefix = next((text for body in bodies if (text := _prefix(body))), "")
    fields: dict[str, str] = {}
    for body in reversed(bodies):
        for node in body:
            places: list[ast.AST] = getattr(node, "targets", [getattr(node, "target", node)])
            own = _last(places[0]) or "_"
            fields.pop(own.lower(), None)
            if isinstance(node, ast.AnnAssign) and own[0] != "_":
                alias = _alias(node)
                if alias is not None and "ClassVar" not in ast.dump(node.annotation):
                    fields[(alias or own).lower()] = alias or f"{prefix}{own}".upper()
    return fields


def _prefix(body: Sequence[ast.stmt]) -> str:
    """Return the prefix of the variables of a class, from `model_config` or a class `Config`."""
    for node in ast.walk(ast.Module([*body], [])):
        names = [_last(place) for place in getattr(node, "targets", ())]
        if "env_prefix" in {*names, getattr(node, "arg", "")}:
            return str(getattr(getattr(node, "value", None), "value", ""))
    return ""


def _alias(node: ast.AnnAssign) -> str | None:
    """Return the alias of a required field, or an empty text; None if it has a default."""
    if node.value is None:
        return ""
    if not (isinstance(node.value, ast.Call) and _last(node.value.func) == "Field"):
        return None
    keywords = {keyword.arg: keyword.value for keyword in node.value.keywords}
    ellipsis = all(getattr(argument, "value", None) is ... for argument in node.value.args)
    if not ellipsis or {"default", "default_factory"} & keywords.keys():
        return None
    names = ("validation_alias", "alias", "env")
    texts = (getattr(keywords.get(name), "value", None) for name in names)
    return next((text for text in texts if isinstance(text, str)), "")
