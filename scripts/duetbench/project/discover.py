"""What a repository's own code says of its application: where it is, and what it can be asked.

Modules are parsed, never executed. Found is what frameworks are used for plainly: an attribute of a
module that is made by one of their classes, or a function that returns one.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FRAMEWORKS: Final = {
    "FastAPI": "FastAPI",
    "Starlette": "Starlette",
    "Litestar": "Litestar",
    "Quart": "Quart",
    "BlackSheep": "BlackSheep",
    "Flask": "Flask",
    "Bottle": "Bottle",
    "get_asgi_application": "Django",
    "get_wsgi_application": "Django",
}
"""Callables that give an application, with the framework they are of."""

_FALCON: Final = "falcon"
_USUAL: Final = ("app", "application", "api", "main", "asgi", "wsgi", "server", "web")
"""Names of modules and attributes, the most usual first."""

_TESTS: Final = {"tests", "test", "benchmarks"}
_SKIPPED: Final = _TESTS | {"docs", "examples", "node_modules", "build", "dist", "migrations"}
_METHODS: Final = frozenset({"get", "route"})
_FACTORIES: Final = ("create_", "make_", "build_", "get_")
_MOST: Final = 5_000  # files


@dataclass(frozen=True, slots=True)
class Application:
    """An application in a repository.

    Attributes:
        name: module:attribute, from `src/` or the top.
        factory: Whether the attribute is called for it.
        paths: What it answers to GET without being told more, by order.
    """

    name: str
    framework: str
    factory: bool
    paths: tuple[str, ...]


def applications(root: Path) -> tuple[Application, ...]:
    """Find the applications of a repository, the likeliest first."""
    applications = [application for file in _modules(root) for application in _of(file, root)]
    return tuple(sorted(applications, key=_unlikely))


def _unlikely(application: Application) -> tuple[bool, int, int, str]:
    module, _, attribute = application.name.partition(":")
    last = module.rpartition(".")[2]
    place = sum(_USUAL.index(n) if n in _USUAL else len(_USUAL) for n in (attribute, last))
    return application.factory, place, module.count("."), application.name


def _modules(root: Path) -> Iterator[Path]:
    # What is imported from src/ is not imported from the top as well.
    tops = [root / "src"] if (root / "src").is_dir() else []
    number = 0
    for top in (*tops, root):
        for path in sorted(top.rglob("*.py")):
            parts = path.relative_to(top).parts
            if any(part in _SKIPPED or part[0] == "." for part in parts):
                continue
            if (top == root and tops and parts[0] == "src") or any("-" in p for p in parts[:-1]):
                continue
            if any((parent / "pyvenv.cfg").exists() for parent in path.parents if parent != root):
                continue
            number += 1
            if number > _MOST:
                return
            yield path


def _of(file: Path, root: Path) -> Iterator[Application]:
    try:
        tree = ast.parse(file.read_text("utf-8"))
    except (OSError, SyntaxError, ValueError):
        return
    top = root / "src" if file.is_relative_to(root / "src") else root
    parts = list(file.relative_to(top).with_suffix("").parts)
    if parts[-1] == "__init__":
        parts.pop()
    module = ".".join(parts)
    if not module:
        return
    paths = _paths(tree)
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and (framework := _framework(node.value)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Name):
                    yield Application(
                        f"{module}:{target.id}", framework, factory=False, paths=paths
                    )
        elif isinstance(node, ast.FunctionDef) and node.name.startswith(_FACTORIES):
            inside = [
                _framework(n.value)
                for n in ast.walk(node)
                if isinstance(n, ast.Assign | ast.Return)
            ]
            needed = len(node.args.args) - len(node.args.defaults)
            if (framework := next(filter(None, inside), "")) and not needed:
                yield Application(f"{module}:{node.name}", framework, factory=True, paths=paths)


def _framework(value: ast.expr | None) -> str:
    """The framework whose application a call gives; empty: of none."""
    if not isinstance(value, ast.Call):
        return ""
    function = value.func
    if isinstance(function, ast.Attribute):
        owner = getattr(function.value, "id", "")
        if owner in {_FALCON, f"{_FALCON}.asgi"} and function.attr == "App":
            return "Falcon"
        return FRAMEWORKS.get(function.attr, "")
    return FRAMEWORKS.get(getattr(function, "id", ""), "")


def _paths(tree: ast.AST) -> tuple[str, ...]:
    """What decorators such as `@app.get("/items")` of a module answer, without parameters."""
    paths: list[str] = []
    for node in ast.walk(tree):
        for call in getattr(node, "decorator_list", ()):
            if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
                continue
            if call.func.attr not in _METHODS or not call.args:
                continue
            methods = next((k.value for k in call.keywords if k.arg == "methods"), None)
            if methods is not None and "GET" not in ast.dump(methods):
                continue
            text = getattr(call.args[0], "value", None)
            if isinstance(text, str) and text.startswith("/") and not set(text) & set("{}<>: "):
                paths.append(text)
    return tuple(dict.fromkeys(paths))
