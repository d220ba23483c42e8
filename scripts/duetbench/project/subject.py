"""The subject of a measurement: its cases, stacks and interpreters, whatever declares them."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement

from duetbench.core.errors import UsageError
from duetbench.core.model import Case, Profile
from duetbench.host import paths
from duetbench.project import interpreters, stacks
from duetbench.project.configuration import Configuration, Interpreter
from duetbench.project.setting import AS_DECLARED, Setting
from duetbench.project.stacks import Stack


@dataclass(frozen=True)
class Subject(ABC):
    """What is measured and with what: a `Project` with experiments, or a `DeployedTarget`.

    Attributes:
        root: The repository, or a copy of it.
    """

    root: Path

    @property
    @abstractmethod
    def configuration(self) -> Configuration:
        """The settings of the repository; raises DeclarationError if they are invalid."""

    @property
    @abstractmethod
    def stacks(self) -> Mapping[str, tuple[str, ...]]:
        """Stack → the usual interpreters it is made for; raises like `configuration.stacks`."""

    @abstractmethod
    def cases(self, profile: Profile, setting: Setting = AS_DECLARED) -> tuple[Case, ...]:
        """List all cases of a profile; raises UsageError or DeclarationError.

        With a setting, only cases that can be served like that.
        """

    @abstractmethod
    def lock_file(self, stack: str) -> Path:
        """Return the place of a stack's lock."""

    @abstractmethod
    def sources(self, stack: str) -> tuple[str | Path, ...]:
        """Return the arguments by which uv finds what a stack requires."""

    @abstractmethod
    def requirements(self, stack: str) -> list[Requirement]:
        """Read the requirements that a stack declares itself, without those of other stacks."""

    @property
    @abstractmethod
    def code(self) -> Path:
        """The folder of the applications."""

    @property
    def repository(self) -> Path:
        """The repository that this is, or is a copy of."""
        return self.root

    @property
    def home(self) -> Path | None:
        """The folder to which locks name files of the project itself; None: they name none."""
        return None

    @property
    def results(self) -> Path:
        return paths.results_dir(self.repository)

    def pythons(self, stack: str) -> tuple[str, ...]:
        """List the usual interpreters of a stack; raises UsageError if there is no such stack."""
        if stack not in self.stacks:
            raise UsageError(
                f"no stack {stack!r}: the dependency groups of apps/pyproject.toml are "
                f"{', '.join(self.stacks) or 'none'}"
            )
        return self.stacks[stack]

    def lock(self, stack: str) -> Stack:
        """Read a declared stack's lock.

        Raises UsageError if there is no such stack, SetupError if it was never locked, and
        DeclarationError if the lock has lines other than pinned packages.
        """
        self.pythons(stack)
        return self.read_lock(stack, self.lock_file(stack))

    def read_lock(self, stack: str, file: Path) -> Stack:
        """Read a lock from any file; raises like `lock`."""
        return stacks.read_lock(stack, file, self.version, self.home)

    @property
    def version(self) -> str:
        """The version of Python that locks are read for: that of the first interpreter."""
        return next(iter(self.configuration.interpreters.values())).version

    def configuration_for(self, python: str) -> Configuration:  # noqa: ARG002 - of a target they differ
        """Return the settings to install an interpreter."""
        return self.configuration

    def interpreter(self, name: str) -> Interpreter:
        """Find an interpreter that set-up installed; raises like `interpreters.locate`."""
        return interpreters.locate(name, self.configuration_for(name))
