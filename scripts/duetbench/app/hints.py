"""What to do about an application that does not work: a table of what it prints or answers.

A row has the sentence that helps, or what writes it; the first one wins. No value is told.
"""

import os
import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import product
from pathlib import Path
from typing import Final

from duetbench.app.target import NOWHERE, read_variables
from duetbench.core.errors import UsageError
from duetbench.host.command import last_exception

LACKING: Final = "not set: add"  # in every advice about variables

USUAL: Final = (  # of an import that no row explains
    "If it needs variables, set them in this shell, or with --env and --env-file; if it needs "
    "files or a database, make them with --before; --with interface=asgi or =wsgi skips this import"
)

_CHAIN: Final = re.compile("The above exception was the direct|During handling of the above")


@dataclass(frozen=True, slots=True)
class Symptoms:
    """An application that failed, and what it was started with.

    Attributes:
        printed: All that it printed, or a wrong answer in our words.
        module: The module that it is imported from.
        path: The one that was requested; `routes` are those that its framework lists.
        folders: That of its project, and those of the repository above it.
        variables: Names of those that were set.
        python: Version of the interpreter.
        source: The file that the packages were read from, for people.
    """

    printed: str
    module: str
    path: str
    routes: Sequence[str]
    folders: Sequence[Path]
    variables: Collection[str]
    python: str
    source: str


def advise(symptoms: Symptoms) -> str:
    """Say in a sentence what to do about a failure; empty if that is unknown."""
    parts = _CHAIN.split(symptoms.printed)[::-1]  # the cause comes last
    for part, (pattern, row) in product(parts, _TABLE.items()):
        if match := re.search(pattern, last_exception(part) or part, re.MULTILINE):
            sentence = match.expand(row) if isinstance(row, str) else row(match, symptoms)
            if sentence:
                sentence = sentence.replace("{source}", symptoms.source)
                return sentence.replace("{python}", symptoms.python)
    return ""


def _path(_match: re.Match[str], symptoms: Symptoms) -> str:
    """Of a path that is none: those that are most like it."""
    path = symptoms.path.partition("?")[0]
    if near := get_close_matches(path, symptoms.routes, cutoff=0):
        return f"It has {', '.join(near)}: name one with --path"
    return "If it has no such path, or answers WebSockets there, name another one with --path"


def _missing(match: re.Match[str], symptoms: Symptoms) -> str:
    """Of a module: of the application's own, its build may write it."""
    name, own = match[1], symptoms.module
    top = name.partition(".")[0]
    if f"{own}.".startswith(f"{name}."):
        return "Name it as it is imported from the top folder or src/; `duetbench init` finds it"
    if top == own.partition(".")[0]:
        return ""
    if symptoms.source == NOWHERE:
        return "No file lists its packages, such as requirements.txt: name one with --packages"
    return (
        f"{{source}} has no package with {top}: install it, or name a group, an extra or another "
        "file by --with groups=, extras= or packages=, or an older Python than {python}"
    )


def _fields(match: re.Match[str], symptoms: Symptoms) -> str:
    """Of Pydantic's settings, without the prefix of their variables, which it does not tell."""
    places = re.findall(r"^([\w.]+)\n +[Ff]ield required", match.string, re.MULTILINE)
    return _not_set([place.upper().replace(".", "__") for place in places], symptoms)


def _not_set(names: Sequence[str], symptoms: Symptoms) -> str:
    """Name a file that sets variables, maybe with a prefix, and options for others."""
    own, options = find_files(symptoms.folders), dict[str, None]()
    if not (names := [name for name in names if name not in symptoms.variables]):
        return ""
    for name in names:
        file = next((own[key] for key in own if key.endswith(name)), "")
        options[f"--env-file {file}" if file else f"--env {name}=VALUE"] = None
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} {LACKING} {' '.join(options)}"


def find_files(folders: Sequence[Path]) -> dict[str, str]:
    """Find files of variables in some folders: variable → file, as a path from the first folder."""
    own: dict[str, str] = {}
    for file in (file for folder in folders for file in sorted(folder.glob("*env*"))):
        with suppress(OSError, UsageError):
            place = shlex.quote(os.path.relpath(file, folders[0]))
            own = {key: place for key, text in read_variables(file).items() if text} | own
    return own


_TABLE: Final[Mapping[str, str | Callable[[re.Match[str], Symptoms], str]]] = {
    # Answers.
    r"found (?:\{.*\b)?(?:404|426)\b": _path,
    r"found (2\d\d) with": r"If that is right, add --with expect-status=\1",
    r"(?i)found 400\b.*(?:host\b|bad request \(400\))": "If it serves only hosts that it knows, "
    "name one of them with --header 'Host: NAME'",
    r"found 30[1278] to https:": "It wants https: say that a proxy has it with --header "
    "'X-Forwarded-Proto: https', or switch that redirect off",
    r"found (30[12378]) to (/\S*)": r"Measure that path with --path '\2', or the redirect with "
    r"--with expect-status=\1",
    # Modules and packages.
    r"AttributeError: (?:partially initialized )?module '[\w.]+' has no attribute": "Name what is "
    "the application in it, as MODULE:ATTRIBUTE; `duetbench init` finds it",
    r"No module named '([\w.]+)'": _missing,
    # Variables, as Starlette, decouple, environs, Django, os and Pydantic print them.
    r"Config '(\w+)' is missing|(\w+) not found\. Declare it as envvar"
    r"|nvironment variable \"?'?(\w+)|[Ss]et the (\w+) environment variable"
    r"|KeyError: '([A-Z][A-Z0-9_]+)'$": lambda match, symptoms: _not_set(
        [match[match.lastindex or 0]], symptoms
    ),
    r"for \w*(?:Settings|Config|Env)\w*\n[\s\S]*[Ff]ield required": _fields,
    # Tables, files and servers; of the latter asyncio's, libpq's and redis' words.
    r"no such table|relation \S+ does not exist|Table \S+ doesn't exist": "Its database lacks "
    "tables: make them with --before, such as 'python manage.py migrate' or 'python -m alembic "
    "upgrade head'",
    r"QueuePool limit of size": "Its pool of connections is smaller than the load, so requests "
    "wait until they fail: enlarge the pool, or add --with connections=8",
    r"(?:No such file or directory: |[Dd]irectory )'(?!/(?:etc|usr|var|opt))[^']+'": "Copies have "
    "the files that git has, and other small ones: make more with --before",
    r"(?:Connect call failed \('|connecting to |server at \")([\w.-]+)(?:', |:|\".{0,80}port )"
    r"(\d+)": r"It needs a server at \1:\2, and none answers: start it before, or name another "
    "with --env",
}
