"""A project: a repository, or a copy of one, with what it declares to be measured, and how."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from duetbench.core.errors import UsageError
from duetbench.core.model import Case, Profile
from duetbench.host import paths
from duetbench.project import experiments, interpreters, settings, stacks
from duetbench.project.experiments import Experiment
from duetbench.project.servers import SERVERS
from duetbench.project.settings import FOLDER, STACK, Target
from duetbench.project.types import Interpreter, InterpreterSpec, Settings, Stack


@dataclass(frozen=True, slots=True)
class Deployment:
    """How a target is served in a copy of its repository.

    Attributes:
        repository: What it is a copy of.
        imports: Folders, from the copy's root, on the search path of the application.
        packages: Where its packages come from, for people: `uv.lock`.
    """

    repository: Path
    interpreters: Mapping[str, InterpreterSpec]
    imports: tuple[str, ...]
    packages: str
    cases: Mapping[Profile, tuple[Case, ...]]


@dataclass(frozen=True)
class Project:
    """What is measured and with what; made once by a verb, and passed.

    Attributes:
        root: The repository, or a copy of it.
        target: What is measured of it, if not its experiments.
        deployment: How that is served; None: `root` is no copy that was prepared for it.
    """

    root: Path
    target: Target | None = None
    deployment: Deployment | None = None

    @classmethod
    def here(cls, *, stand_in: bool = True) -> "Project":
        """The repository around us; see `paths.project_root`."""
        return cls(paths.project_root(stand_in=stand_in))

    @cached_property
    def settings(self) -> Settings:
        """DeclarationError: they are wrong."""
        if self.deployment is None:
            return settings.load(self.root)
        declared = settings.load(self.deployment.repository)
        return declared.model_copy(update={"interpreters": dict(self.deployment.interpreters)})

    @cached_property
    def experiments(self) -> tuple[Experiment, ...]:
        """Its experiments, by name; errors as `experiments.load_experiments`."""
        registry = experiments.Registry(
            settings.load(self.root).interpreters, settings.stacks(self.root), SERVERS
        )
        return experiments.load_experiments(self.root, registry)

    @cached_property
    def stacks(self) -> Mapping[str, tuple[str, ...]]:
        """Stack → the interpreters that it is made for; errors as `settings.stacks`."""
        if self.deployment is not None:
            return {STACK: tuple(self.deployment.interpreters)}
        return settings.stacks(self.root)

    @property
    def known_stacks(self) -> Mapping[str, tuple[str, ...]]:
        """Its stacks; none where it declares nothing to measure."""
        try:
            return self.stacks
        except UsageError:
            return {}

    @property
    def imports(self) -> tuple[str, ...]:
        """Folders that a target is imported from; none of experiments."""
        return self.deployment.imports if self.deployment else ()

    @property
    def private(self) -> Mapping[str, str]:
        """Variables of a target, whose values are recorded nowhere."""
        return self.target.env if self.target else {}

    @property
    def repository(self) -> Path:
        """What it is, or is a copy of."""
        return self.deployment.repository if self.deployment else self.root

    @property
    def results(self) -> Path:
        return paths.results_dir(self.repository)

    def cases(self, profile: Profile) -> tuple[Case, ...]:
        """All cases of a profile; errors as `experiments`."""
        if self.deployment is not None:
            return self.deployment.cases[profile]
        return experiments.expand_all(self.experiments, profile)

    def pythons(self, stack: str) -> tuple[str, ...]:
        """The interpreters that a stack is made for; UsageError: no such stack."""
        if stack not in self.stacks:
            raise UsageError(
                f"no stack {stack!r}: the dependency groups of apps/pyproject.toml are "
                f"{', '.join(self.stacks) or 'none'}"
            )
        return self.stacks[stack]

    def lock_file(self, stack: str) -> Path:
        if self.deployment is not None:
            return self.root / FOLDER / f"{stack}.txt"
        return stacks.lock_file(stack, self.root)

    def lock(self, stack: str) -> Stack:
        """Read a declared stack's lock.

        Raises:
            UsageError: No such stack.
            SetupError: It was never locked.
            DeclarationError: The lock has lines that are not pinned packages.
        """
        self.pythons(stack)
        return self.read_lock(stack, self.lock_file(stack))

    def read_lock(self, stack: str, file: Path) -> Stack:
        """Read a lock, wherever it is; errors as in `lock`."""
        home = self.root if self.deployment else None
        return stacks.read_lock(stack, file, self.version, home)

    @property
    def version(self) -> str:
        """The version of Python that locks are read for: of its first interpreter."""
        return next(iter(self.settings.interpreters.values())).version

    def interpreter(self, name: str) -> Interpreter:
        """Find an interpreter that set-up made; errors as `interpreters.locate`."""
        return interpreters.locate(name, self.settings_for(name))

    def settings_for(self, python: str) -> Settings:
        """The settings by which an interpreter is made; those of a target may differ in origin."""
        if self.deployment is None:
            return self.settings
        only = {python: self.settings.interpreters[python]}
        return self.settings.model_copy(update={"interpreters": only})
