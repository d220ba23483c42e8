"""`duetbench init`: record how an application is measured."""

import ast
import json
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Final

from typer import Option

from duetbench.cli.options import repository
from duetbench.core.errors import UsageError
from duetbench.host.console import Console, Narrator
from duetbench.judge import revisions, targets
from duetbench.project import settings, target
from duetbench.project.project import Project
from duetbench.project.schema import read_toml
from duetbench.project.settings import FILE
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
"""Most applications imported until one succeeds."""


@dataclass(frozen=True, slots=True)
class Application:
    """An application in a repository.

    Attributes:
        name: module:attribute, from `src/` or the top.
        factory: Whether the attribute is called to get the application.
        paths: Paths that it answers to GET without parameters, in order.
    """

    name: str
    framework: str
    factory: bool
    paths: tuple[str, ...]


def init_command(
    app: Annotated[
        str | None,
        Option(
            "--app",
            metavar="MODULE:ATTRIBUTE",
            help="The application, e.g. shop.main:app; default: the likeliest one found that can "
            "be imported.",
        ),
    ] = None,
    path: Annotated[
        list[str] | None,
        Option("--path", metavar="PATH", help="Path to GET, e.g. /items/7; repeatable."),
    ] = None,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Show what would be written, and write nothing.")
    ] = False,
) -> None:
    """Write into this repository's pyproject.toml how its application is measured.

    $ duetbench init
    $ duetbench init --app shop.main:app --path /items/7 --dry-run

    Application, framework, lock and interpreter are detected, and the application is imported with
    them. The rest of the file stays as it is; without such a file, a duetbench.toml is written.
    """
    console = Console()
    project = repository(console)
    root = project.root
    file, table = settings.read_table(root)
    if table or any((root / "apps").glob("*/experiment.toml")):
        raise UsageError(
            f"{file} already declares what is measured: change it there, or remove its {_HEADER} "
            "first"
        )
    candidates = applications(root)
    if app is None:
        chosen = _first(candidates, project, console)
    else:
        named = (candidate for candidate in candidates if candidate.name == app)
        chosen = next(named, Application(app, "", factory=False, paths=()))
    lines = [f"app = {_text(chosen.name)}", *(["factory = true"] if chosen.factory else [])]
    requests = (_text(f"GET {request}") for request in path or chosen.paths[:2] or ("/",))
    lines.append(f"requests = [{', '.join(requests)}]")
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
    if not (path or chosen.paths):
        console.say("found no path without parameters: if there is no GET /, change requests")
    if dry_run:
        return
    files.replace(place, text.encode())
    console.say(
        "next: duetbench run (how fast is it?), then duetbench compare HEAD~1 (what did the last "
        "commit do?)"
    )


def _first(candidates: Sequence[Application], project: Project, console: Console) -> Application:
    """Return the first application that can be imported as it is measured; UsageError if none."""
    with revisions.copies() as copies:
        for number, candidate in enumerate(candidates[:_TRIES], start=1):
            how = f"{' makes it' * candidate.factory} ({candidate.framework})"
            tried = target.of(project.root, {"app": candidate.name, "factory": candidate.factory})
            try:
                targets.working(replace(project, target=tried), Narrator(console), copies)
            except UsageError as error:
                # Without the advice about options of other commands.
                reason = str(error.__cause__ or error).removeprefix(f"{candidate.name}: ")
                console.say(f"not {candidate.name}{how}: {reason}")
                continue
            console.say(f"application: {candidate.name}{how}")
            if others := ", ".join(other.name for other in candidates[number:][:_TRIES]):
                console.say(f"not tried: {others}; choose with --app")
            return candidate
    raise UsageError(
        f"{project.root}: expected an application of {', '.join(sorted({*FRAMEWORKS.values()}))} "
        "that can be imported, found none: name it with --app module:attribute"
    )


def _text(value: str) -> str:
    """Write a string in TOML: JSON escapes all that TOML does except DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def applications(root: Path) -> tuple[Application, ...]:
    """Find the applications of a repository's modules, the likeliest first, and execute none.

    It finds plain uses of frameworks: a module's attribute that one of their classes creates, or a
    function that returns one.
    """
    # Modules of src/ are not imported from the top as well.
    tops = [root / "src", root] if (root / "src").is_dir() else [root]
    by_file: dict[Path, list[Application]] = {}
    for top in tops:
        for file in sorted(top.rglob("*.py")):
            parts = file.relative_to(top).parts
            hidden = any(part in _SKIPPED or part[0] == "." for part in parts)
            folders = (top.joinpath(*parts[:n]) for n in range(1, len(parts)))
            environment = any((folder / "pyvenv.cfg").exists() for folder in folders)
            if file not in by_file and not hidden and not environment:
                below = _outermost(file, top)
                by_file[file] = list(_of(file, ".".join(below.with_suffix("").parts)))
    return tuple(sorted((app for group in by_file.values() for app in group), key=_unlikely))


def _outermost(file: Path, top: Path) -> Path:
    """Return a module's path from the folder of its package: it is imported from there."""
    packages = [folder for folder in file.parents if folder.is_relative_to(top) and folder != top]
    plain = [folder for folder in packages if not (folder / "__init__.py").is_file()]
    inside = bool(packages) and packages[0] not in plain
    return file.relative_to(plain[0] if inside and plain else top)


def _unlikely(application: Application) -> tuple[bool, int, int, str]:
    module, _, attribute = application.name.partition(":")
    last = module.rpartition(".")[2]
    place = sum(_USUAL.index(n) if n in _USUAL else len(_USUAL) for n in (attribute, last))
    return application.factory, place, module.count("."), application.name


def _of(file: Path, module: str) -> Iterator[Application]:
    try:
        tree = ast.parse(file.read_text("utf-8"))
    except (OSError, SyntaxError, ValueError):
        return
    module, paths = module.removesuffix(".__init__"), _paths(tree)
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and (framework := _framework(node.value)):
            for whole in node.targets if isinstance(node, ast.Assign) else [node.target]:
                first = whole.elts[0] if isinstance(whole, ast.Tuple) and whole.elts else whole
                if isinstance(first, ast.Name):
                    name = f"{module}:{first.id}"
                    yield Application(name, framework, factory=False, paths=paths)
        elif isinstance(node, _FUNCTIONS) and (protocol := _protocol(node)):
            yield Application(f"{module}:{node.name}", protocol, factory=False, paths=paths)
        elif isinstance(node, ast.FunctionDef) and node.name.startswith(_FACTORIES):
            if len(node.args.args) > len(node.args.defaults):
                continue
            inside = (n for n in ast.walk(node) if isinstance(n, ast.Assign | ast.Return))
            if framework := next(filter(None, (_framework(n.value) for n in inside)), ""):
                yield Application(f"{module}:{node.name}", framework, factory=True, paths=paths)


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


def _paths(tree: ast.AST) -> tuple[str, ...]:
    """Return the paths of decorators such as `@app.get("/items")`, without parameters."""
    paths: list[str] = []
    for node in ast.walk(tree):
        for call in getattr(node, "decorator_list", ()):
            if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
                continue
            methods = next((k.value for k in call.keywords if k.arg == "methods"), None)
            got = call.func.attr in {"get", "route"} and (not methods or "GET" in ast.dump(methods))
            text = getattr(call.args[0], "value", None) if got and call.args else None
            if isinstance(text, str) and text.startswith("/") and not set(text) & set("{}<>: "):
                paths.append(text)
    return tuple(dict.fromkeys(paths))
