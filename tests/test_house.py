"""The house: folders that are the street, sizes, what a verb reaches, and names that resolve."""

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Final

import grimp
import pytest

import duetbench

_ROOT: Final = Path(duetbench.__file__).parents[2]
_PACKAGES: Final = ("duetbench", "observatory")
_HOMES: Final = tuple(_ROOT / "scripts" / package for package in _PACKAGES)
_MODULES: Final = sorted(
    path for package in _PACKAGES for path in (_ROOT / "scripts" / package).rglob("*.py")
)

STATEMENTS: Final = 29_038
"""Upper bound of all statements, tests among them: one in lines would reward packing. It only
falls: whoever adds a capability says which one it replaces, and who removes more lowers it."""
PAGES: Final = 1_616
"""Upper bound of lines of the pages' scripts, styles and templates."""
MODULES: Final = {"duetbench": 130, "observatory": 54}
REACH: Final = {"run": (47, 5_245), "compare": (68, 8_514)}
"""Modules and statements that a verb's module imports, directly or not."""
CHAIN: Final = 17
"""Modules in the longest chain of imports."""

CAPABILITIES: Final = {
    "why": "judge.attribute counts.ranking counts.profiling cli.why",
    "bisect": "judge.bisection judge.causes cli.bisect",
    "backfill": "trend.backfill cli.anchor",
    "asv": "measure.asv_plugin cli.inprocess",
}
"""Modules that could be deleted, and their verb's."""


@cache
def _graph() -> grimp.ImportGraph:
    return grimp.build_graph(*_PACKAGES, cache_dir=None)


@cache
def _size(path: Path) -> int:
    """Count the statements of a file."""
    return sum(isinstance(node, ast.stmt) for node in ast.walk(ast.parse(path.read_bytes())))


def test_nothing_lies_loose_at_the_root() -> None:
    loose = {path.name for name in _PACKAGES for path in (_ROOT / "scripts" / name).glob("*.py")}
    assert loose == {"__init__.py", "__main__.py", "api.py"}


def test_every_folder_says_in_one_sentence_what_it_is_for() -> None:
    folders = {path.parent for path in _MODULES}
    for folder in folders:
        text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text("utf-8")))
        assert text, folder
        assert "\n" not in text, folder


def test_a_class_name_means_one_thing() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for path in _MODULES:
        for name in re.findall(r"^ *class (\w+)", path.read_text("utf-8"), re.MULTILINE):
            homes[name].append(str(path))
    assert len(homes) > 150
    doubled = {name: places for name, places in homes.items() if len(places) > 1}
    assert len(doubled) <= 5, doubled


def test_the_sources_stay_within_their_budget() -> None:
    folders = ("scripts", "benchmarks", "tests", "tools")
    files = (path for name in folders for path in (_ROOT / name).rglob("*.py"))
    assert sum(map(_size, files)) <= STATEMENTS


def test_the_pages_stay_within_their_budget() -> None:
    kinds = {".js", ".css", ".j2"}
    listed = (p for name in _PACKAGES for p in (_ROOT / "scripts" / name).rglob("*"))
    texts = [path.read_text("utf-8") for path in listed if path.suffix in kinds]
    assert 1_000 < sum(len(text.splitlines()) for text in texts) <= PAGES


@pytest.mark.parametrize("package", MODULES)
def test_the_modules_stay_within_their_budget(package: str) -> None:
    assert len(list((_ROOT / "scripts" / package).rglob("*.py"))) <= MODULES[package]


@pytest.mark.parametrize("verb", REACH)
def test_a_verb_reaches_no_more_than_a_reader_can_follow(verb: str) -> None:
    modules, statements = REACH[verb]
    module = f"duetbench.cli.{verb}"
    reach = {module, *_graph().find_upstream_modules(module)}
    assert len(reach) <= modules
    places = (_ROOT.joinpath("scripts", *name.split(".")) for name in reach)
    files = (p / "__init__.py" if p.is_dir() else p.with_suffix(".py") for p in places)
    assert sum(map(_size, files)) <= statements


def test_no_chain_of_imports_is_longer_than_a_reader_can_follow() -> None:
    depth: dict[str, int] = {}

    def measure(module: str) -> int:
        if module not in depth:
            depth[module] = 0  # of a cycle, which a layer may have within itself
            imported = _graph().find_modules_directly_imported_by(module)
            depth[module] = 1 + max(map(measure, imported), default=0)
        return depth[module]

    longest = max(_graph().modules, key=measure)
    assert depth[longest] <= CHAIN, longest


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_a_capability_can_be_deleted(capability: str) -> None:
    """Only its own modules and the Python API import them: the verb's row goes with them."""
    names = CAPABILITIES[capability].split()
    gone = {f"{package}.{name}" for package in _PACKAGES for name in names} & _graph().modules
    users = {user for item in gone for user in _graph().find_modules_that_directly_import(item)}
    assert (len(gone), users - {"duetbench.api"} <= gone) == (len(names), True)


_QUOTED: Final = re.compile(r"(?<!`)`{1,2}([A-Za-z_][\w./]*)(?:\(\))?`{1,2}(?!`)")
"""A name in quotes, which sources have in comments, docstrings, and texts for people only."""
_EXAMPLES: Final = {"APIRoute.handle", "fastapi/routing.py"}


@cache
def _texts() -> dict[Path, str]:
    return {path: path.read_text("utf-8") for path in _MODULES}


@cache
def _names() -> frozenset[str]:
    """Words that the sources use outside of quotes."""
    files = [*(_ROOT / ".github").rglob("*.yml"), _ROOT / "action.yml"]
    files += [path for name in ("apps", "benchmarks") for path in (_ROOT / name).rglob("*.py")]
    texts = [path.read_text("utf-8") for path in files]
    texts += [_QUOTED.sub("", text) for text in _texts().values()]
    words = {word for text in texts for word in re.findall(r"\w+", text)}
    return frozenset(words | {path.stem for path in _MODULES})


def test_names_in_comments_and_docstrings_resolve() -> None:
    """A back-quoted file is there, and a back-quoted name is one of the sources."""
    stale = []
    for path, text in _texts().items():
        for name in _QUOTED.findall(text):
            if name.endswith(".py") and "/" in name:
                known = any((place / name).exists() for place in (*_HOMES, _ROOT))
            else:
                known = all(part in _names() for part in re.split(r"[./]", name) if part)
            if not known and name not in _EXAMPLES:
                stale.append(f"{path.relative_to(_ROOT)}: {name}")
    assert not stale, "\n".join(stale)
