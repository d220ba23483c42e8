"""What to do about an application that does not work: a table of what it prints or answers.

A row has the sentence that helps, or what writes it; the first one wins. No value is told.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from itertools import product
from typing import Final

from duetbench.app.target import NOWHERE, find_variables
from duetbench.app.testbed import SideCase
from duetbench.host.command import last_exception

LACKING: Final = "not set: add"  # in every advice about variables

USUAL: Final = (  # of an import that no row explains
    "If it needs variables, set them in this shell, or with --env and --env-file; if it needs "
    "files or a database, make them with --before; --with interface=asgi or =wsgi skips this import"
)

_CHAIN: Final = re.compile("The above exception was the direct|During handling of the above")


def advise(side: SideCase, printed: str, routes: Sequence[str] = ()) -> str:
    """Say in a sentence what to do about a failure of an application; empty if that is unknown.

    `printed` is all that it printed, or a wrong answer in our words, and `routes` are the paths
    that its framework lists.
    """
    parts = _CHAIN.split(printed)[::-1]  # the cause comes last
    for part, (pattern, row) in product(parts, _TABLE.items()):
        if match := re.search(pattern, last_exception(part) or part, re.MULTILINE):
            sentence = match.expand(row) if isinstance(row, str) else row(match, side, routes)
            if sentence:
                python = ".".join(side.interpreter.version.split(".")[:2])
                sentence = sentence.replace("{source}", side.testbed.subject.source)
                return sentence.replace("{python}", python)
    return ""


def _path(_match: re.Match[str], side: SideCase, routes: Sequence[str]) -> str:
    """Of a path that is none: those that are most like it."""
    path = side.case.endpoint.path.partition("?")[0]
    if near := get_close_matches(path, routes, cutoff=0):
        return f"It has {', '.join(near)}: name one with --path"
    return "If it has no such path, or answers WebSockets there, name another one with --path"


def _missing(match: re.Match[str], side: SideCase, _routes: Sequence[str]) -> str:
    """Of a module: of the application's own, its build may write it."""
    name, own = match[1], side.case.endpoint.app.partition(":")[0]
    top = name.partition(".")[0]
    if f"{own}.".startswith(f"{name}."):
        return "Name it as it is imported from the top folder or src/; `duetbench init` finds it"
    if top == own.partition(".")[0]:
        return ""
    if side.testbed.subject.source == NOWHERE:
        return "No file lists its packages, such as requirements.txt: name one by --with packages="
    return (
        f"{{source}} has no package with {top}: install it, or name a group, an extra or another "
        "file by --with groups=, extras= or packages=, or an older Python than {python}"
    )


def _fields(match: re.Match[str], side: SideCase, _routes: Sequence[str]) -> str:
    """Of Pydantic's settings, without the prefix of their variables, which it does not tell."""
    places = re.findall(r"^([\w.]+)\n +[Ff]ield required", match.string, re.MULTILINE)
    return _not_set([place.upper().replace(".", "__") for place in places], side)


def _not_set(names: Sequence[str], side: SideCase) -> str:
    """Name a file that sets variables, maybe with a prefix, and options for others."""
    own, options, variables = find_variables(side.folders), dict[str, None](), side.environment()
    if not (names := [name for name in names if name not in variables]):
        return ""
    for name in names:
        file = next((own[key] for key in own if key.endswith(name)), "")
        options[f"--env-file {file}" if file else f"--env {name}=VALUE"] = None
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} {LACKING} {' '.join(options)}"


_TABLE: Final[Mapping[str, str | Callable[[re.Match[str], SideCase, Sequence[str]], str]]] = {
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
    r"|KeyError: '([A-Z][A-Z0-9_]+)'$": lambda match, side, _: _not_set(
        [match[match.lastindex or 0]], side
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
