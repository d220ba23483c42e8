"""A project: a repository, or a copy of one, with its declarations of what to measure, and how."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from duetbench.core.errors import UsageError
from duetbench.core.model import Case, Profile
from duetbench.host import paths
from duetbench.project import experiments, interpreters, settings, stacks, target
from duetbench.project.experiments import Experiment
from duetbench.project.schema import InterpreterSpec
from duetbench.project.setting import AS_DECLARED, Setting
from duetbench.project.settings import FOLDER, STACK, Interpreter, Settings, Target
from duetbench.project.stacks import Stack


@dataclass(frozen=True, slots=True)
class Deployment:
    """How a target is served in a copy of its repository.

    Attributes:
        repository: The repository that was copied.
        imports: Folders, from the copy's root, on the search path of the application.
        packages: The source of its packages, for people: `uv.lock`.
        within: The copied folder's path in the repository; `.` for all of it.
    """

    repository: Path
    interpreters: Mapping[str, InterpreterSpec]
    imports: tuple[str, ...]
    packages: str
    cases: Mapping[Profile, tuple[Case, ...]]
    within: Path = Path()


@dataclass(frozen=True)
class Project:
    """What is measured and with what; a command creates one and passes it on.

    Attributes:
        root: The repository, or a copy of it.
        target: The application to measure instead of experiments.
        deployment: How the target is served; None if `root` is no copy prepared for it.
        extra_pythons: Optional interpreters to treat like the others.
    """

    root: Path
    target: Target | None = None
    deployment: Deployment | None = None
    extra_pythons: tuple[str, ...] = ()

    @classmethod
    def here(cls, *, stand_in: bool = True) -> "Project":
        """Create the project of the current repository; see `paths.project_root`."""
        return cls(paths.project_root(stand_in=stand_in))

    @cached_property
    def settings(self) -> Settings:
        """The settings of the repository; raises DeclarationError if they are invalid."""
        if self.deployment is None:
            return settings.load(self.root).adding(self.extra_pythons)
        declared = settings.load(self.deployment.repository)
        return declared.model_copy(update={"interpreters": dict(self.deployment.interpreters)})

    @cached_property
    def experiments(self) -> tuple[Experiment, ...]:
        """Its experiments, by name; raises like `experiments.load_experiments`."""
        declared = settings.load(self.root).interpreters
        specs = settings.stacks(self.root)
        return experiments.load_experiments(self.root, declared, specs, self.extra_pythons)

    @cached_property
    def units(self) -> Mapping[str, Mapping[str, str]]:
        """The units of work that go with each experiment's cases, by benchmark; raises likewise."""
        if self.deployment is not None or not (self.root / "apps").is_dir():
            return {}
        return {e.name: e.declaration.units for e in self.experiments}

    @cached_property
    def stacks(self) -> Mapping[str, tuple[str, ...]]:
        """Stack → the usual interpreters that it is made for; raises like `settings.stacks`."""
        if self.deployment is not None:
            return {STACK: tuple(self.deployment.interpreters)}
        return {
            name: tuple(python for python in spec.interpreters if python in self.settings.usual)
            for name, spec in settings.stacks(self.root).items()
        }

    @property
    def known_stacks(self) -> Mapping[str, tuple[str, ...]]:
        """Its stacks; none if it declares nothing to measure."""
        try:
            return self.stacks
        except UsageError:
            return {}

    @property
    def repository(self) -> Path:
        """The repository that this is, or is a copy of."""
        return self.deployment.repository if self.deployment else self.root

    @property
    def results(self) -> Path:
        return paths.results_dir(self.repository)

    def cases(self, profile: Profile, setting: Setting = AS_DECLARED) -> tuple[Case, ...]:
        """List all cases of a profile, of the target or the experiments; raises like `experiments`.

        With a setting, only cases that can be served like that; raises UsageError if a target
        cannot.
        """
        if not setting:
            if self.deployment is not None:
                return self.deployment.cases[profile]
            return tuple(case for e in self.experiments for case in e.cases[profile])
        changes = setting.values
        if self.deployment is None or self.target is None:
            cases = tuple(c for e in self.experiments for c in e.cases_with(profile, changes))
        else:
            case = self.deployment.cases[profile][0]
            cases = target.cases(
                self.target.model_copy(update=changes),
                self.repository,
                interface=case.endpoint.interface,
                server=str(changes.get("server", case.server)),
                pythons=tuple(self.deployment.interpreters),
            )[profile]
        return tuple(setting.apply(case) for case in cases)

    def pythons(self, stack: str) -> tuple[str, ...]:
        """List the usual interpreters of a stack; raises UsageError if there is no such stack."""
        if stack not in self.stacks:
            raise UsageError(
                f"no stack {stack!r}: the dependency groups of apps/pyproject.toml are "
                f"{', '.join(self.stacks) or 'none'}"
            )
        return self.stacks[stack]

    def lock_file(self, stack: str) -> Path:
        folder = FOLDER if self.deployment is not None else "apps/stacks"
        return self.root / folder / f"{stack}.txt"

    def lock(self, stack: str) -> Stack:
        """Read a declared stack's lock.

        Raises UsageError if there is no such stack, SetupError if it was never locked, and
        DeclarationError if the lock has lines other than pinned packages.
        """
        self.pythons(stack)
        return self.read_lock(stack, self.lock_file(stack))

    def read_lock(self, stack: str, file: Path) -> Stack:
        """Read a lock from any file; raises like `lock`."""
        home = self.root if self.deployment else None
        return stacks.read_lock(stack, file, self.version, home)

    @property
    def version(self) -> str:
        """The version of Python that locks are read for: that of the first interpreter."""
        return next(iter(self.settings.interpreters.values())).version

    def interpreter(self, name: str) -> Interpreter:
        """Find an interpreter that set-up installed; raises like `interpreters.locate`."""
        return interpreters.locate(name, self.settings_for(name))

    def settings_for(self, python: str) -> Settings:
        """Return the settings to install an interpreter; a target's may differ in origin."""
        if self.deployment is None:
            return self.settings
        only = {python: self.settings.interpreters[python]}
        return self.settings.model_copy(update={"interpreters": only})
