"""A target in a copy of its repository that is prepared for it; `judge.deployment` makes them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from packaging.requirements import Requirement

from duetbench.core.model import Case, Profile
from duetbench.project import configuration, target_cases
from duetbench.project.configuration import Configuration
from duetbench.project.schema import InterpreterSpec
from duetbench.project.setting import AS_DECLARED, Setting
from duetbench.project.subject import Subject
from duetbench.project.target import FOLDER, STACK, Target


@dataclass(frozen=True)
class DeployedTarget(Subject):
    """An application to measure, with its packages locked and installed in a copy of its files.

    Attributes:
        origin: The repository that was copied.
        imports: Folders, from the copy's root, on the search path of the application.
        packages: The source of its packages, for people: `uv.lock`.
        by_profile: Its cases as declared.
        within: The copied folder's path in the repository; `.` for all of it.
    """

    target: Target
    origin: Path
    interpreters: Mapping[str, InterpreterSpec]
    imports: tuple[str, ...]
    packages: str
    by_profile: Mapping[Profile, tuple[Case, ...]]
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

    def cases(self, profile: Profile, setting: Setting = AS_DECLARED) -> tuple[Case, ...]:
        if not setting.served:
            return self.by_profile[profile]
        case = self.by_profile[profile][0]
        cases = target_cases.cases(
            self.target.model_copy(update=setting.values),
            self.origin,
            interface=case.endpoint.interface,
            server=str(setting.values.get("server", case.server)),
            pythons=tuple(self.interpreters),
        )
        return tuple(setting.apply(case) for case in cases[profile])

    def lock_file(self, stack: str) -> Path:
        return self.root / FOLDER / f"{stack}.txt"

    def _requirements_file(self, stack: str) -> Path:
        return self.lock_file(stack).with_suffix(".in")

    def sources(self, stack: str) -> tuple[str | Path, ...]:
        return (self._requirements_file(stack),)

    def requirements(self, stack: str) -> list[Requirement]:
        lines = self._requirements_file(stack).read_text("utf-8").splitlines()
        return [Requirement(line) for line in lines if not line.startswith("-")]
