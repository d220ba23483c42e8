"""A target in a copy of its repository that is prepared for it; `judge.deployment` makes them."""

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from duetbench.core.model import Case, Endpoint
from duetbench.project import configuration, target_cases
from duetbench.project.configuration import Configuration, Interpreter
from duetbench.project.pyproject import FILE
from duetbench.project.setting import AS_DECLARED, Setting
from duetbench.project.subject import Subject
from duetbench.project.target import FOLDER, Target
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
    interpreters: Mapping[str, Interpreter]
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

    @property
    def configuration(self) -> Configuration:
        return configuration.load(self.origin)

    @property
    def version(self) -> str:
        return next(iter(self.interpreters.values())).version

    def interpreter(self, name: str) -> Interpreter:
        return self.interpreters[name]

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

    def sources(self, stack: str) -> tuple[str | Path, ...]:
        return (self.lock_file(stack).with_suffix(".in"),)
