"""Finds what may be an application in the files of a repository, and executes none of them."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_APPLICATION: Final = re.compile(
    r"^(?:(\w+)(?:, *\w+)?(?: *:[^=\n]+)? *= *(?:(?:\w+\.)*(?:FastAPI|Starlette|Litestar|Quart"
    r"|BlackSheep|Flask|Bottle|FastHTML|fast_app|get_[aw]sgi_application|create_app\w*)\("
    r"|falcon\.(?:asgi\.)?App\()|def ((?:create|make|build|get)_app\w*)\()",
    re.MULTILINE,
)
"""What an application is in a module: made by a framework, or a function that makes one."""

_USUAL: Final = ("app", "application", "api", "main", "asgi", "wsgi", "server", "web")
"""Names of modules and attributes, the most common first."""

_SKIPPED: Final = {
    *("tests", "test", "benchmarks", "docs", "examples", "migrations"),
    *("node_modules", "site-packages", "build", "dist"),
}


def applications(root: Path) -> Sequence[str]:
    """Find what may be an application of a repository, the likeliest first."""
    names: set[str] = set()
    for file in root.rglob("*.py"):
        parts = file.relative_to(root).parts
        if not any(part in _SKIPPED or part[0] == "." for part in parts):
            for groups in _APPLICATION.findall(file.read_text("utf-8", "replace")):
                names.add(f"{_module(file, root)}:{''.join(groups)}")
    return sorted(names, key=_unlikely)


def _module(file: Path, root: Path) -> str:
    """Name a module from the folder of its package; without one, from the top folder or `src`."""
    top = file.parent
    while top != root and (top / "__init__.py").is_file():
        top = top.parent
    if top == file.parent:
        top = next(home for home in (root / "src", root) if file.is_relative_to(home))
    return ".".join(file.relative_to(top).with_suffix("").parts).removesuffix(".__init__")


def _unlikely(application: str) -> tuple[bool, int, int, str]:
    module, _, attribute = application.partition(":")
    last = module.rpartition(".")[2]
    place = sum(_USUAL.index(n) if n in _USUAL else len(_USUAL) for n in (attribute, last))
    return "_app" in attribute, place, module.count("."), application
