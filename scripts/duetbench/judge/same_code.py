"""Tells whether a file that differs between the sides means the same to whatever executes it.

Comments, layout and the version that a project states of itself are no part of what is executed.
Functions that differ are never the same, be they entered or not: what a single request enters says
nothing of what many at once do (a queue, a retry, a pool that is exhausted). What cannot be read,
or is no Python, differs.
"""

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from packaging.version import InvalidVersion, Version

from duetbench.host import paths

METADATA: Final = "pyproject.toml"


def same(path: str, base: Path, head: Path) -> bool:
    """Whether a file, as a path from the root of both sides, is executed as the same code."""
    if path == METADATA:
        before, after = (paths.others(root) for root in (base, head))
        return "project" in before and _unversioned(before) == _unversioned(after)
    if not path.endswith(".py"):
        return False
    try:
        trees = [_meaning((root / path).read_bytes()) for root in (base, head)]
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return trees[0] == trees[1]


def _meaning(source: bytes) -> str:
    """What a module executes: its syntax tree, with one version in place of each."""
    tree = ast.parse(source)
    for node in tree.body:
        if (
            isinstance(node, ast.Assign)
            and [getattr(target, "id", "") for target in node.targets] == ["__version__"]
            and isinstance(node.value, ast.Constant)
            and _is_version(node.value.value)
        ):
            node.value.value = "0"
    return ast.dump(tree)


def _is_version(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(Version(value))
    except InvalidVersion:
        return False


def _unversioned(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    project = {k: v for k, v in metadata.get("project", {}).items() if k != "version"}
    return {**metadata, "project": project}
