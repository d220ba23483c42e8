"""`duetbench init`: record how an application is measured."""

import ast
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final

from typer import Context, Option

from duetbench.cli.options import clean_up, repository
from duetbench.cli.target_options import Options, with_options, with_target
from duetbench.core.errors import UsageError
from duetbench.host.console import Console, Narrator
from duetbench.judge import deployment, revisions, trial
from duetbench.project import hints, pyproject, start_command, target
from duetbench.project.project import Project
from duetbench.project.pyproject import FILE, read_toml
from duetbench.project.target_locks import module_files, source_folders
from duetbench.store import files

FRAMEWORKS: Final = {
    "FastAPI": "FastAPI",
    "Starlette": "Starlette",
    "Litestar": "Litestar",
    "Quart": "Quart",
    "BlackSheep": "BlackSheep",
    "Flask": "Flask",
    "Bottle": "Bottle",
    "falcon.App": "Falcon",
    "falcon.asgi.App": "Falcon",
    "get_asgi_application": "Django",
    "get_wsgi_application": "Django",
    "FastHTML": "FastHTML",
    "fast_app": "FastHTML",
}
"""Callables that return an application, with their framework."""

_HEADER: Final = "[tool.duetbench]"
_USUAL: Final = ("app", "application", "api", "main", "asgi", "wsgi", "server", "web")
"""Names of modules and attributes, the most common first."""

_TESTS: Final = {"tests", "test", "benchmarks"}
_SKIPPED: Final = _TESTS | {"docs", "examples", "node_modules", "build", "dist", "migrations"}
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
_FACTORIES: Final = ("create_", "make_", "build_", "get_")
_TRIES: Final = 5
"""Most applications served until one answers."""

_SHOWN: Final = 3
"""Most wrong answers that a message quotes."""


@dataclass(frozen=True, slots=True)
class Application:
    """An application in a repository.

    Attributes:
        name: module:attribute, as it is imported.
        framework: Empty if it is not known.
    """

    name: str
    framework: str


@with_target
def init_command(
    context: Context,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Show what would be written, and write nothing.")
    ] = False,
    *,
    options: Options,
) -> None:
    """Write into this repository's pyproject.toml how its application is measured.

    $ duetbench init
    $ duetbench init --app shop.main:app --path /items/7 --env-file .env.example --dry-run

    Application, framework, lock and interpreter are detected, and the options are written as keys.
    The application is served once, without load: what is written has answered with the expected
    status. Without --path, these are paths that its framework lists. The rest of the file stays as
    it is; without such a file, a duetbench.toml is written.
    """
    console = Console()
    project = repository(console)
    root = project.root
    file, table = pyproject.read_table(root)
    if table or any((root / "apps").glob("*/experiment.toml")):
        raise UsageError(
            f"{file} already declares what is measured: change it there, or remove its {_HEADER} "
            "first"
        )
    clean_up(console)
    candidates, app = applications(root), options["app"]
    if app is not None:
        candidates = (Application(app, ""),)
    given = dict(options)
    chosen, requests = _first(candidates, project, given, console)
    # A value that was not typed may be private.
    typed = {text.partition("=")[0] for text in context.params["env"] or () if "=" in text}
    given["env"] = {name: text for name, text in options["env"].items() if name in typed}
    keys = {"app": chosen.name, "factory": options["factory"], "requests": requests}
    keys |= {key: value for key, value in given.items() if key not in keys}
    lines = [f"{key} = {_toml(value)}" for key, value in keys.items() if target.was_given(value)]
    place, before = root / FILE, ""
    if (own := root / "pyproject.toml").is_file():
        read_toml(own)  # a file that cannot be read is not changed
        place, before = own, own.read_bytes().decode()
        lines = [_HEADER, *lines]
    # With the file's line ends, after an empty line.
    end = "\r\n" if "\r\n" in before else "\n"
    gap = 0 if not before or before.endswith(2 * end) else 1 if before.endswith(end) else 2
    text = before + gap * end + "".join(f"{line}{end}" for line in lines)
    tomllib.loads(text)  # raises before anything is written
    console.say(f"{'would write' if dry_run else 'wrote'} into {place}:")
    for line in lines:
        console.say(f"  {line}")
    if not requests:
        console.say("add the key requests, e.g. requests = ['POST /orders @order.json']")
    if given["env"] or given["headers"]:
        console.say("note: env and headers are committed as they are: name secrets by --env-file")
    for name in sorted(options["env"].keys() - typed):
        console.say(f"not written: the value of {name}: add --env {name} to each command")
    if dry_run:
        return
    files.replace(place, text.encode())
    console.say(
        "next: duetbench run (how fast is it?), then duetbench compare HEAD~1 (what did the last "
        "commit do?)"
    )


def _first(
    candidates: Sequence[Application], project: Project, options: Options, console: Console
) -> tuple[Application, Sequence[str]]:
    """Return the first application that answers, as it is measured, with its requests.

    Raises UsageError if none does, or one lacks only variables.
    """
    for number, candidate in enumerate(candidates[:_TRIES], start=1):
        how = f" ({candidate.framework})" * bool(candidate.framework)
        try:
            requests = _answered(candidate, project, options, Narrator(console))
        except UsageError as error:
            if len(candidates) == 1 or hints.LACKING in str(error):
                raise
            console.say(
                f"not {candidate.name}{how}: {str(error).removeprefix(f'{candidate.name}: ')}"
            )
            continue
        console.say(f"application: {candidate.name}{how}")
        if others := ", ".join(other.name for other in candidates[number:][:_TRIES]):
            console.say(f"not tried: {others}; choose with --app")
        return candidate, requests
    if candidates:
        raise UsageError(
            "no application answers, for the reasons above: add what they lack, or name another "
            "with --app module:attribute"
        )
    raise UsageError(
        f"{project.root}: expected an application of {', '.join(sorted({*FRAMEWORKS.values()}))} "
        "that answers, found none: name it with --app module:attribute"
    )


def _answered(
    candidate: Application, project: Project, options: Options, narrator: Narrator
) -> Sequence[str]:
    """Serve an application once; return the requests to measure; UsageError if one is wrong."""
    declared = with_options(project, {**options, "app": candidate.name})
    with revisions.copies() as copies:
        copy = deployment.working(declared, narrator, copies)
        requests: Sequence[str] = options["requests"]
        tried = trial.serve_once(copy, narrator, find=not requests)
    if requests and tried.wrong:
        raise UsageError(tried.wrong[0])
    if not tried.right:
        narrator.say("none of its paths is right to measure:")
        for problem in tried.wrong[:_SHOWN]:
            narrator.say(f"  {problem}")
    return requests or tried.right


def _toml(value: Any) -> str:
    """Write a value in TOML."""
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{key} = {_toml(item)}' for key, item in value.items())} }}"
    if isinstance(value, str):
        return _text(value)
    return (
        f"[{', '.join(map(_toml, value))}]"
        if isinstance(value, tuple | list)
        else json.dumps(value)
    )


def _text(value: str) -> str:
    """Write a string in TOML: JSON escapes all that TOML does except DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def applications(root: Path) -> tuple[Application, ...]:
    """Find the applications of a repository, the likeliest first, and execute none.

    Those that it starts in production come first, then plain uses of frameworks: a module's
    attribute that one of their classes creates, or a function that returns one.
    """
    started = dict.fromkeys(command.app for command in start_command.find(root, ""))
    found: list[Application] = []
    for file in sorted(root.rglob("*.py")):
        parts = file.relative_to(root).parts
        hidden = any(part in _SKIPPED or part[0] == "." for part in parts)
        folders = (root.joinpath(*parts[:n]) for n in range(1, len(parts)))
        if not hidden and not any((folder / "pyvenv.cfg").exists() for folder in folders):
            made = list(_of(file))
            module = _module(file, root) if made else ""
            found += [replace(app, name=f"{module}:{app.name}") for app in made]
    known = {app.name: app for app in sorted(found, key=_unlikely)}
    first = {app: known.get(app, Application(app, "")) for app in started if _exists(app, root)}
    return tuple({**first, **known}.values())


def _exists(app: str, root: Path) -> bool:
    module = app.partition(":")[0]
    names = module_files(module)
    places = (root / folder / name for folder in source_folders(root, module) for name in names)
    return any(place.is_file() for place in places)


def _module(file: Path, root: Path) -> str:
    """Name a module from the folder of its package; without one, from the top folder or `src`.

    If what it imports lies beside it, from its own folder.
    """
    top = file.parent
    while top != root and (top / "__init__.py").is_file():
        top = top.parent
    beside = re.findall(r"^(?:from|import) (\w+)", file.read_text("utf-8"), re.MULTILINE)
    if top == file.parent and not any((top / f"{name}.py").is_file() for name in beside):
        top = next(home for home in (root / "src", root) if file.is_relative_to(home))
    return ".".join(file.relative_to(top).with_suffix("").parts).removesuffix(".__init__")


def _unlikely(application: Application) -> tuple[bool, int, int, str]:
    module, _, attribute = application.name.partition(":")
    last = module.rpartition(".")[2]
    place = sum(_USUAL.index(n) if n in _USUAL else len(_USUAL) for n in (attribute, last))
    makes = attribute.startswith(_FACTORIES)
    return makes, place, module.count("."), application.name


def _of(file: Path) -> Iterator[Application]:
    """Find the applications of a module, named by their attributes alone."""
    try:
        tree = ast.parse(file.read_text("utf-8"))
    except (OSError, SyntaxError, ValueError):
        return
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and (framework := _framework(node.value)):
            for whole in node.targets if isinstance(node, ast.Assign) else [node.target]:
                first = whole.elts[0] if isinstance(whole, ast.Tuple) and whole.elts else whole
                if isinstance(first, ast.Name):
                    yield Application(first.id, framework)
        elif isinstance(node, _FUNCTIONS) and (protocol := _protocol(node)):
            yield Application(node.name, protocol)
        elif isinstance(node, ast.FunctionDef) and node.name.startswith(_FACTORIES):
            if len(node.args.args) > len(node.args.defaults):
                continue
            inside = (n for n in ast.walk(node) if isinstance(n, ast.Assign | ast.Return))
            if framework := next(filter(None, (_framework(n.value) for n in inside)), ""):
                yield Application(node.name, framework)


def _framework(value: ast.expr | None) -> str:
    """Return the framework whose application a call returns; empty: none."""
    if not isinstance(value, ast.Call):
        return ""
    name = ast.unparse(value.func)
    last = name.rpartition(".")[2]
    factory = f"made by {last}" if last.startswith(_FACTORIES) and "app" in last else ""
    return FRAMEWORKS.get(name) or FRAMEWORKS.get(last, factory)


def _protocol(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Return the protocol of a function that is an application without a framework, or nothing."""
    names = tuple(argument.arg for argument in node.args.args)
    plain = {("environ", "start_response"): "WSGI", ("scope", "receive", "send"): "ASGI"}
    return plain.get(names, "")
