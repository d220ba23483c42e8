"""A project's own tests, in the environment in which they run here, and in copies of its files."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from duetbench.app import declarations, interpreters, revisions
from duetbench.app.in_process import packages_folder
from duetbench.app.testbed import inherited_variables
from duetbench.app.workspace import secret_variables, secrets
from duetbench.core.errors import UsageError

_HAS_PYTEST: Final = "import importlib.util as u, sys; sys.exit(u.find_spec('pytest') is None)"
_OF_TESTS: Final = re.compile(r"[/_.-]tests?(?=[/_.-])|/conftest\.py$")


@dataclass(frozen=True, slots=True)
class Suite:
    """Tests or functions of a project as they run here, in its own environment.

    Attributes:
        tests: Files and folders, or tests in them.
        pytest: Whether pytest runs them; else Django's runner.
        own: Folders of the repository that the environment imports from.
        calls: Functions to call in place of tests: `shop.tasks:send_invoice`.
        env: Variables beside those of our environment; private, as its own that look so.
    """

    root: Path
    tests: Sequence[str]
    python: Path
    pytest: bool
    own: Sequence[str]
    calls: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def find(
        cls,
        root: Path,
        tests: Sequence[str],
        calls: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
    ) -> "Suite":
        """Find the environment and the runner of some tests; raises UsageError without them."""
        for name in calls:
            if not re.fullmatch(declarations.APPLICATION, name):
                raise UsageError(f"--call {name}: expected MODULE:FUNCTION")
        tests = [_inside(root, name) for name in tests]
        top = revisions.top(root) or root.resolve()
        here = interpreters.find_environment(root.resolve(), top)
        manage = (root / "manage.py").is_file()
        has = (
            here is not None
            and not subprocess.run(
                [here.executable, "-c", _HAS_PYTEST], capture_output=True, check=False
            ).returncode
        )
        if here is None or not (has or manage or calls):
            raise UsageError(
                "--tests: expected an environment with pytest, such as .venv, or one that is "
                "active: install what the tests need, as your README says"
            )
        folders = tuple(os.path.relpath(folder, revisions.within(root)) for folder in here.folders)
        return cls(root, tests, here.executable, has, folders, calls, env or {})

    def add_tests(self, source: Path, place: Path) -> None:
        """Put the tests of one copy in the place of another copy's, and what configures them."""
        for name in self.tests:
            path = Path(name.partition("::")[0])
            above = [folder / "conftest.py" for folder in path.parents]
            for each in (path, *above):
                for old in _files(place, each):
                    old.unlink()
                for new in _files(source, each):
                    target = place / new.relative_to(source)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(new, target, follow_symlinks=False)

    @property
    def variables(self) -> dict[str, str]:
        """Those that the project's processes get: our environment's, and its own."""
        return {**inherited_variables(shell=True), **self.env}  # noqa: S604 - no shell

    def private(self) -> dict[str, str]:
        """Return texts that nobody may see, and their names."""
        return secrets({**secret_variables(self.variables), **self.env})

    def environment(self, place: Path) -> dict[str, str]:
        """Return the variables of a process in a copy, which imports from that."""
        variables = self.variables
        search = (packages_folder(), *(place / name for name in ("src", ".", *self.own)))
        paths = [*map(str, search), variables.get("PYTHONPATH", "")]
        commands = [str(self.python.parent), variables.get("PATH", "")]  # as if it were active
        return {
            **variables,
            "PATH": os.pathsep.join(filter(None, commands)),
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "PYTHONHASHSEED": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
        }


def _inside(root: Path, name: str) -> str:
    """Return the name of a test, file or folder by its path from the root; raises UsageError."""
    path, *inner = name.split("::")
    place = Path(os.path.relpath(root / path, root))
    if not (root / place).exists() or place.parts[:1] == ("..",):
        raise UsageError(f"--tests {name}: expected a file or folder of {root}")
    return "::".join((str(place), *inner))


def _files(copy: Path, path: Path) -> list[Path]:
    """List the files of tests at a path; beside the application's own only those that look so."""
    place = copy / path
    files = [file for file in (place, *place.rglob("*")) if file.is_file() or file.is_symlink()]
    tests = [file for file in files if _OF_TESTS.search(f"/{file.relative_to(copy)}")]
    return tests or files
