"""The house: folders that are the street, and names that mean one thing."""

import ast
from collections import defaultdict
from pathlib import Path

import duetbench

_PACKAGE = Path(duetbench.__file__).parent
_MODULES = sorted(_PACKAGE.rglob("*.py"))


def test_nothing_lies_loose_at_the_root() -> None:
    assert {path.name for path in _PACKAGE.glob("*.py")} == {"__init__.py", "api.py"}


def test_every_folder_says_in_one_sentence_what_it_is_for() -> None:
    folders = {path.parent for path in _MODULES}
    for folder in folders:
        text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text("utf-8")))
        assert text, folder
        assert "\n" not in text, folder


def test_a_class_name_means_one_thing() -> None:
    """A few names denote two classes."""
    homes: dict[str, list[str]] = defaultdict(list)
    for path in _MODULES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(path.relative_to(_PACKAGE).parts[0])
    doubled = {name: places for name, places in homes.items() if len(places) > 1}
    assert len(doubled) <= 5, doubled
