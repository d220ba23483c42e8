"""The one-way street: each stage reads only the artefact before it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import servebench

_PACKAGE = Path(servebench.__file__).parent

DECLARING = {"experiments", "declarations", "expansion", "plan"}
MEASURING = {
    *("launch", "serving", "observation", "load", "process", "warmup", "probe"),
    *("verify", "sampler", "runner", "ports"),
}
READING = {"summary", "published", "report", "site", "github"}
NIGHTLY = {"night", "history", "detect"}

FORBIDDEN = {
    "declaring starts nothing": (DECLARING, MEASURING | READING),
    "measuring reads no declaration and no history": (
        MEASURING | {"rig", "header"},
        DECLARING | READING | NIGHTLY,
    ),
    "showing starts nothing": (READING, MEASURING),
    "recording knows neither": ({"codec", "store"}, DECLARING | MEASURING | READING),
}


def _modules(name: str) -> Iterator[Path]:
    single, package = _PACKAGE / f"{name}.py", _PACKAGE / name
    if single.exists():
        yield single
    else:
        assert package.is_dir(), f"{name}: the street's map names a module that is gone"
        yield from package.rglob("*.py")


def _imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            parts = node.module.split(".")
            if parts == ["servebench"]:
                found |= {alias.name for alias in node.names}
            elif parts[0] == "servebench":
                found.add(parts[1])
    return found


def _of_comparisons(path: Path) -> set[str]:
    """Modules of the comparison that a file imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            parts = node.module.split(".")
            if parts[:2] == ["servebench", "compare"]:
                found |= set(parts[2:3]) or {alias.name for alias in node.names}
    return found


def test_reports_read_the_comparison_and_measure_nothing() -> None:
    """A report is made from the stored comparison alone, on any machine."""
    allowed = {"again", "model", "scores", "trials"}
    wrong = {
        f"{path.relative_to(_PACKAGE)} imports {name}"
        for path in _modules("report")
        for name in _of_comparisons(path) - allowed
    }
    assert not wrong


@pytest.mark.parametrize("rule", FORBIDDEN)
def test_no_stage_reaches_back_or_ahead(rule: str) -> None:
    """A stage that imported another could do its work, and nobody would see it in the artefact."""
    stages, forbidden = FORBIDDEN[rule]
    wrong = {
        f"{path.relative_to(_PACKAGE)} imports {name}"
        for stage in stages
        for path in _modules(stage)
        for name in _imports(path) & forbidden - stages
    }
    assert not wrong
