"""What is said of an application that cannot be imported: what to do, of what a command takes."""

from pathlib import Path

import mypy
import pytest

from duetbench.core import python_versions
from duetbench.project import import_hints
from duetbench.project.import_hints import Surroundings
from repos import write


def test_the_modules_that_python_removed_are_those_that_type_checkers_know() -> None:
    text = (Path(mypy.__file__).parent / "typeshed/stdlib/VERSIONS").read_text()
    removed: dict[str, set[str]] = {}
    for line in text.splitlines():
        name, _, versions = line.partition("#")[0].partition(":")
        last = versions.rpartition("-")[2].strip()
        if last and "." not in name and name[0] != "_":
            removed.setdefault(f"3.{int(last.partition('.')[2]) + 1}", set()).add(name)
    known = {version: {*modules.split()} for version, modules in python_versions.REMOVED.items()}
    assert known == removed


@pytest.mark.parametrize(
    ("error", "python", "label", "words"),
    [
        ("ModuleNotFoundError: No module named 'distutils'", "3.14.7", "x",
         "Python 3.12 and newer have no distutils: try --python 3.11"),
        ("ModuleNotFoundError: No module named 'cgi'", "3.13.0", "x",
         "Python 3.13 and newer have no cgi: try --python 3.12"),
        ("ModuleNotFoundError: No module named 'six'", "3.14.7", "uv.lock",
         ("uv.lock has no package with six: name another file with --packages, or its group or "
         "extra with --groups or --extras")),
        ("ModuleNotFoundError: No module named 'six'", "3.14.7", "requirements.txt",
         "requirements.txt has no package with six: name another file with --packages"),
        ("ModuleNotFoundError: No module named 'six'", "3.14.7", "nowhere",
         "No file lists its packages, such as requirements.txt: name one with --packages"),
        ("ModuleNotFoundError: No module named 'pkg_resources'", "3.14.7", "poetry.lock",
         ("It is a part of setuptools before 82, which is not among the packages of poetry.lock: "
         "add 'setuptools<82' there, or name another file with --packages")),
        ("ImportError: cannot import name 'Group' from 'their_kit.common' (/x)", "3.14.7",
         "pyproject.toml", ("pyproject.toml gives their_kit 2.0, and the code expects another "
         "version: pin it there, or name another file with --packages")),
        ("AttributeError: module 'ast' has no attribute 'Str'", "3.14.7", "x",
         ("The code, or packages of x, are too old for Python 3.14: try an older one, as with "
         "--python 3.11")),
        ("ModuleNotFoundError: No module named 'shop'", "3.14.7", "x",
         "Name it as it is imported from the top folder or src/; `duetbench init` finds it"),
        ("ModuleNotFoundError: No module named 'core'", "3.14.7", "x",
         "backend/ has core: work in that folder, or add --env PYTHONPATH=backend"),
        # The application's own package backend.fastapi is not the missing one.
        ("ModuleNotFoundError: No module named 'fastapi'", "3.14.7", "requirements.txt",
         "requirements.txt has no package with fastapi: name another file with --packages"),
        ("RuntimeError: URL is missing", "3.14.7", "x", "URL is not set: add --env URL=VALUE"),
        ("ValueError: 7", "3.14.7", "x",
         ("If it needs variables, set them with --env and --env-file; if it needs files or a "
         "database, make them with --before; --interface asgi or wsgi skips this import")),
    ],
)  # fmt: skip
def test_an_import_that_fails_says_what_to_do(
    error: str, python: str, label: str, words: str, tmp_path: Path
) -> None:
    write(tmp_path, "backend/core/a.py", "")
    write(tmp_path, "src/shop/main.py", "import os\nos.getenv('URL', '')\n")
    output = f'Traceback (most recent call last):\n  File "/srv/a.py", line 1, in f\n{error}\n'
    packages = {"their-kit": "2.0", "setuptools": "84.0"}
    folders = [tmp_path / "src", tmp_path]
    around = Surroundings(tmp_path, (), folders, (), python, label, packages)
    assert import_hints.advise(output, "shop.main", around) == words
