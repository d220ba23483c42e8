"""A project: a repository, or a copy of one, with its declarations of what to measure, and how."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from packaging.requirements import Requirement

from duetbench.core.errors import UsageError
from duetbench.core.model import Case, Profile
from duetbench.host import paths
from duetbench.project import configuration, experiments
from duetbench.project.configuration import Configuration
from duetbench.project.experiments import Experiment
from duetbench.project.pyproject import read_toml
from duetbench.project.setting import AS_DECLARED, Setting
from duetbench.project.subject import Subject
from duetbench.project.target import Target


@dataclass(frozen=True)
class Project(Subject):
    """A repository with its settings, experiments and locks; a command creates one.

    Attributes:
        target: The application to measure instead of experiments, once it is deployed.
        extra_pythons: Optional interpreters to treat like the others.
    """

    target: Target | None = None
    extra_pythons: tuple[str, ...] = ()

    @classmethod
    def here(cls, *, stand_in: bool = True) -> "Project":
        """Create the project of the current repository; see `paths.project_root`."""
        return cls(paths.project_root(stand_in=stand_in))

    @cached_property
    def configuration(self) -> Configuration:
        return configuration.load(self.root).adding(self.extra_pythons)

    @cached_property
    def experiments(self) -> tuple[Experiment, ...]:
        """Its experiments, by name; raises like `experiments.load_experiments`."""
        declared = configuration.load(self.root).interpreters
        specs = configuration.stacks(self.root)
        return experiments.load_experiments(self.root, declared, specs, self.extra_pythons)

    @cached_property
    def stacks(self) -> Mapping[str, tuple[str, ...]]:
        return {
            name: tuple(
                python for python in spec.interpreters if python in self.configuration.usual
            )
            for name, spec in configuration.stacks(self.root).items()
        }

    @property
    def known_stacks(self) -> Mapping[str, tuple[str, ...]]:
        """Its stacks; none if it declares nothing to measure."""
        try:
            return self.stacks
        except UsageError:
            return {}

    def cases(self, profile: Profile, setting: Setting = AS_DECLARED) -> tuple[Case, ...]:
        values = setting.values
        return tuple(
            setting.apply(case)
            for e in self.experiments
            for case in (e.cases_with(profile, values) if values else e.cases[profile])
        )

    @property
    def code(self) -> Path:
        return self.root / "apps"

    def lock_file(self, stack: str) -> Path:
        return self.code / "stacks" / f"{stack}.txt"

    def sources(self, stack: str) -> tuple[str | Path, ...]:
        return "--group", f"{self.code / 'pyproject.toml'}:{stack}"

    def requirements(self, stack: str) -> list[Requirement]:
        groups = read_toml(self.code / "pyproject.toml").get("dependency-groups", {})
        # A group includes another one by a table.
        return [Requirement(text) for text in groups.get(stack, ()) if isinstance(text, str)]
