"""What to do about an application that does not work: a table of what it prints or answers.

A row is a pattern, and the sentence that helps or a function that writes it. The first row with a
sentence wins. Of variables only names are told.
"""

import os
import re
import shlex
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from packaging.utils import canonicalize_name
from packaging.version import Version

from duetbench.core.errors import UsageError
from duetbench.core.python_versions import removed
from duetbench.host.command import last_exception
from duetbench.project.target import NOWHERE, read_variables

LACKING: Final = "not set: add"
"""Stands in every advice about variables."""

USUAL: Final = (
    "If it needs variables, set them with --env and --env-file; if it needs files or a database, "
    "make them with --before; --interface asgi or wsgi skips this import"
)
"""The advice about an import that no row explains."""

_MIGRATIONS: Final = {
    "manage.py": " 'python manage.py migrate'",
    "alembic.ini": " 'python -m alembic upgrade head'",
    "migrations/env.py": " 'python -m flask db upgrade'",
}
"""File of a project → the command that makes its tables: Django's, Alembic's, Flask-Migrate's."""

_ENV_FILE: Final = re.compile(r"\.?env([._-].+)?|.+\.env([._-].+)?")
_NOT_OURS: Final = re.compile(r"prod|\blocal$")
_SYSTEM: Final = re.compile(r"/(etc|usr|var|run|proc|dev|sys|opt)/")

_TOO_OLD: Final = (
    "The code, or packages of {source}, are too old for Python {python}: try an older one, as with "
    "--python 3.11"
)
_COMMITTED: Final = "Launches have only what git would commit:"
_NO_SERVER: Final = (
    r"It needs a server at \1:\2, and none answers: start it before, or name another with --env"
)


@dataclass(frozen=True, slots=True)
class Symptoms:
    """An application that failed, and what it was started with.

    Attributes:
        printed: All that it printed, or a wrong answer in our words.
        module: The module that it is imported from.
        root: Its project; `above` are the folders of the repository above that.
        variables: Names of those that were set.
        python: Version of the interpreter.
        source: The file that the packages were read from, for people.
        packages: Name → version of what is installed.
    """

    printed: str
    module: str
    root: Path
    above: Sequence[Path]
    variables: Collection[str]
    python: str
    source: str
    packages: Mapping[str, str]


def advise(symptoms: Symptoms) -> str:
    """Say in a sentence what to do about a failure; empty if that is unknown."""
    error = last_exception(symptoms.printed) or symptoms.printed
    migrate = (text for file, text in _MIGRATIONS.items() if (symptoms.root / file).is_file())
    fields = {"source": symptoms.source, "python": symptoms.python, "migrate": next(migrate, "")}
    for pattern, row in _TABLE.items():
        own = pattern.replace("{module}", re.escape(symptoms.module))
        if match := re.search(own, error, re.MULTILINE):
            sentence = match.expand(row) if isinstance(row, str) else row(match, symptoms)
            for name, text in fields.items():
                sentence = sentence.replace(f"{{{name}}}", text)
            if sentence:
                return sentence
    return ""


def _module(match: re.Match[str], symptoms: Symptoms) -> str:
    """Of a module that is missing; of a part of the application's own, its build may write it."""
    name, module, root = match[1], symptoms.module, symptoms.root
    top = name.partition(".")[0]
    if advice := removed(top, Version(symptoms.python)) or _version(match, symptoms):
        return advice
    if f"{module}.".startswith(f"{name}."):
        return "Name it as it is imported from the top folder or src/; `duetbench init` finds it"
    if top == module.partition(".")[0]:
        return ""
    for place in sorted((*root.glob(f"*/{top}.py"), *root.glob(f"*/{top}/*.py"))):
        folder = place.relative_to(root).parts[0]
        own = f"{module}.".startswith(f"{folder}.{top}.")  # the application's own package
        if folder[0] != "." and folder not in ("tests", "docs") and not own:
            return f"{folder}/ has {top}: work in that folder, or add --env PYTHONPATH={folder}"
    if symptoms.source == NOWHERE:
        return "No file lists its packages, such as requirements.txt: name one with --packages"
    groups = ", or its group or extra with --groups or --extras"
    groups = "" if symptoms.source.endswith(".txt") else groups
    return f"{{source}} has no package with {top}: name another file with --packages{groups}"


def _version(match: re.Match[str], symptoms: Symptoms) -> str:
    """Of a part that a module of another version lacks."""
    top = match[1].partition(".")[0]
    if top in sys.stdlib_module_names:
        return _TOO_OLD
    if version := symptoms.packages.get(canonicalize_name(top)):
        return (
            f"{{source}} gives {top} {version}, and the code expects another version: pin it "
            "there, or name another file with --packages"
        )
    return ""


def _variable(match: re.Match[str], symptoms: Symptoms) -> str:
    """Of a variable, or of a key that another mapping than the environment may lack."""
    sure = "KeyError" not in match[0] or "environ" in symptoms.printed
    return _not_set([match[match.lastindex or 0]], symptoms, sure=sure)


def _fields(match: re.Match[str], symptoms: Symptoms) -> str:
    """Of Pydantic's settings, without the prefix of their variables, which it does not tell."""
    places = re.findall(r"^([\w.]+)\n +[Ff]ield required", match.string, re.MULTILINE)
    return _not_set([place.upper().replace(".", "__") for place in places], symptoms)


def _words(match: re.Match[str], symptoms: Symptoms) -> str:
    """Of all words that are variables of a file."""
    listed = {name for own in _env_files(symptoms).values() for name in own}
    words = re.findall(match.re, match.string)
    return _not_set([word for word in words if word in listed], symptoms)


def _not_set(names: Sequence[str], symptoms: Symptoms, *, sure: bool = True) -> str:
    """Name a file that sets variables, maybe with a prefix, and options for others, if `sure`."""
    if not (names := [name for name in names if name not in symptoms.variables]):
        return ""
    files = _env_files(symptoms)
    file = max(files, key=lambda file: len(files[file].intersection(names)), default="")
    options = [f"--env-file {shlex.quote(file)}"] if file else []
    own = files.get(file, ())
    lacking = [name for name in names if not any(f"_{o}".endswith(f"_{name}") for o in own)]
    options += [f"--env {name}=VALUE" for name in lacking if sure]
    are = "is" if len(names) == 1 else "are"
    return f"{', '.join(names)} {are} {LACKING} {' '.join(options)}" if options else ""


def _env_files(symptoms: Symptoms) -> dict[str, set[str]]:
    """Map files with variables that are not set to their names; the developer's own comes first."""
    folders = (symptoms.root, *symptoms.above)
    found = (file for folder in folders for file in sorted(folder.glob("*env*")))
    files = [file for file in found if _ENV_FILE.fullmatch(file.name) and file.is_file()]
    names: dict[str, set[str]] = {}
    for file in sorted(files, key=lambda f: (bool(_NOT_OURS.search(f.name)), f.name != ".env")):
        with suppress(UsageError):
            values = read_variables(file)
            own = {name for name in values if values[name]} - {*symptoms.variables}
            names |= {os.path.relpath(file, symptoms.root): own} if own else {}
    return names


def _file(match: re.Match[str], symptoms: Symptoms) -> str:
    """Of a path below the project, whose launches have other folders."""
    parts = Path(match[1]).parts
    places = (Path(*parts[start:]) for start in range(len(parts)) if parts[start] != "/")
    path = next((place for place in places if (symptoms.root / place.parent).is_dir()), None)
    if path is None or _SYSTEM.match(match[1]):
        return ""
    if (symptoms.root / path).is_file():
        return f"{_COMMITTED} copy {path} with --before"
    how = "--before" if "." in path.name else f"--before 'mkdir -p {path}'"
    return f"{_COMMITTED} make {path} with {how}"


_TABLE: Final[Mapping[str, str | Callable[[re.Match[str], Symptoms], str]]] = {
    # Answers.
    r"found (?:\{.*\b)?404\b": "If your application has no such path, or answers WebSockets there, "
    "name another one with --path",
    r"found 426\b": "It answers WebSockets there, which are not measured; name another path with "
    "--path",
    r"found (?:\{.*\b)?429\b": "To a rate limiter, all connections of a generator are one client, "
    "and the warm-up goes as fast as it can, whatever --rate is; switch the limiter off for the "
    "measurement",
    r"found 421\b": "It wants its port in the name of its host: --header 'Host: localhost:{port}'",
    r"(?i)found 400\b.*(invalid (http_)?host|disallowedhost|is not trusted|bad request \(400\))": (
        "If it serves only hosts that it knows, name one of them with --header 'Host: NAME'"
    ),
    r"found 30[1278] to https:": "It wants https: say that a proxy has it with --header "
    "'X-Forwarded-Proto: https', or switch that redirect off",
    r"found (30[12378]) to (/\S*)": r"Measure that path with --path '\2', or the redirect with "
    r"--expect-status \1",
    r"found 30[12378] to http://([^/\s]+)": r"It has another name: --header 'Host: \1'",
    # Applications, modules and packages.
    r"expected an ASGI or WSGI application, .* takes no arguments": "Add --factory if it makes the "
    "application",
    r"expected an ASGI or WSGI application": "If one of its methods makes the application, write a "
    "starter file, such as serve.py with `app = …`, and name that: --app serve:app",
    r"No module named 'pkg_resources'": "It is a part of setuptools before 82, which is not among "
    "the packages of {source}: add 'setuptools<82' there, or name another file with --packages",
    r"No module named '([\w.]+)'": _module,
    r"module '{module}' has no attribute": "`duetbench init` finds applications; with --factory, "
    "--app names a function that makes one",
    r"(?:cannot import name '\w+' from|module) '([\w.]+)'": _version,
    # Under Python 3.14: older users of asyncio, and Pydantic 1.
    r"no current event loop|unable to infer type for attribute": _TOO_OLD,
    # Variables, as Starlette, decouple, environs, Django, os and Pydantic print them.
    r"Config '(\w+)' is missing|(\w+) not found\. Declare it as envvar"
    r"|nvironment variable \"?'?(\w+)|[Ss]et the (\w+) environment variable"
    r"|KeyError: '([A-Z][A-Z0-9_]+)'$": _variable,
    r"for \w*(?:Settings|Config|Env)\w*\n[\s\S]*[Ff]ield required": _fields,
    # Tables, files and servers; of the latter asyncio's, libpq's and redis' words.
    r"no such table|relation \S+ does not exist|Table \S+ doesn't exist": "Its database lacks "
    "tables: make them with --before{migrate}",
    r"unable to open database file": f"{_COMMITTED} make the folder of its database with --before "
    "'mkdir -p FOLDER', and its tables with --before{migrate}",
    r"(?:No such file or directory: |[Dd]irectory )'([^']+)'": _file,
    r"Connect call failed \('([^']+)', (\d+)": _NO_SERVER,
    r"server at \"([^\"]+)\".{0,80}port (\d+) failed": _NO_SERVER,
    r"connecting to ([\w.-]+):(\d+)": _NO_SERVER,
    # Perhaps a variable.
    r"\b[A-Z][A-Z0-9_]+\b": _words,
    r"\bNone(?:Type)?\b": lambda _, symptoms: _not_set(
        ["Perhaps a variable"], symptoms, sure=False
    ),
}
