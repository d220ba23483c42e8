"""A target in a copy of its repository that is prepared for it; `judge.deployment` makes them."""

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement

from duetbench.core.model import Case, Endpoint
from duetbench.project import configuration, target_cases
from duetbench.project.configuration import Configuration
from duetbench.project.pyproject import FILE
from duetbench.project.schema import InterpreterSpec
from duetbench.project.setting import AS_DECLARED, Setting
from duetbench.project.subject import Subject
from duetbench.project.target import FOLDER, STACK, Target
from duetbench.project.target_locks import LOCKS

_COMPARED: Final = (
    FILE, ".python-version", "pylock.toml", "pylock.*.toml", "requirements*.txt", *LOCKS
)  # fmt: skip
"""Files that show in packages and interpreters, or hold for both sides."""


@dataclass(frozen=True)
class DeployedTarget(Subject):
    """An application to measure, with its packages locked and installed in a copy of its files.

    Attributes:
        origin: The repository that was copied.
        imports: Folders, from the copy's root, on the search path of the application.
        packages: The source of its packages, for people: `uv.lock`.
        declared: Its cases.
        within: The copied folder's path in the repository; `.` for all of it.
    """

    target: Target
    origin: Path
    interpreters: Mapping[str, InterpreterSpec]
    imports: tuple[str, ...]
    packages: str
    declared: tuple[Case, ...]
    within: Path = Path()

    @property
    def repository(self) -> Path:
        return self.origin

    @property
    def home(self) -> Path:
        return self.root

    @property
    def code(self) -> Path:
        return self.root

    @cached_property
    def configuration(self) -> Configuration:
        declared = configuration.load(self.origin)
        return declared.model_copy(update={"interpreters": dict(self.interpreters)})

    def configuration_for(self, python: str) -> Configuration:
        # One interpreter may be prebuilt and another one not.
        only = {python: self.interpreters[python]}
        return self.configuration.model_copy(update={"interpreters": only})

    @property
    def stacks(self) -> Mapping[str, tuple[str, ...]]:
        return {STACK: tuple(self.interpreters)}

    def folder(self, case: Case) -> Path:  # noqa: ARG002
        return self.root

    def original(self, case: Case) -> Path:  # noqa: ARG002
        return self.origin

    @property
    def depth(self) -> int:
        return len(self.within.parts)

    @property
    def search(self) -> tuple[str, ...]:
        return self.imports

    @property
    def inside(self) -> Path:
        return self.within

    @property
    def variables(self) -> Mapping[str, str]:
        return self.target.env

    @property
    def source(self) -> str:
        return self.packages

    @property
    def login(self) -> Endpoint | None:
        return target_cases.login(self.target, self.origin)

    @property
    def token(self) -> str:
        return self.target.token or ""

    @property
    def database(self) -> str:
        return self.target.copy_database or ""

    def is_compared(self, path: str) -> bool:
        return any(fnmatchcase(path.replace("../", ""), glob) for glob in _COMPARED)

    def cases(self, setting: Setting = AS_DECLARED) -> tuple[Case, ...]:
        if not setting.served:
            return self.declared
        case = self.declared[0]
        cases = target_cases.cases(
            self.target.model_copy(update=setting.values),
            self.origin,
            interface=case.endpoint.interface,
            server=str(setting.values.get("server", case.server)),
            pythons=tuple(self.interpreters),
        )
        return tuple(map(setting.apply, cases))

    def lock_file(self, stack: str) -> Path:
        return self.root / FOLDER / f"{stack}.txt"

    def _requirements_file(self, stack: str) -> Path:
        return self.lock_file(stack).with_suffix(".in")

    def sources(self, stack: str) -> tuple[str | Path, ...]:
        return (self._requirements_file(stack),)

    def requirements(self, stack: str) -> list[Requirement]:
        lines = self._requirements_file(stack).read_text("utf-8").splitlines()
        return [Requirement(line) for line in lines if not line.startswith("-")]
