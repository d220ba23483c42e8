"""The subject of a measurement: applications with cases, environments and a folder of code."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import ClassVar

from duetbench.core.model import Case, Endpoint
from duetbench.project import pyproject, stacks
from duetbench.project.configuration import Configuration, Interpreter
from duetbench.project.setting import AS_DECLARED, Setting
from duetbench.project.stacks import Stack


@dataclass(frozen=True)
class Subject(ABC):
    """What is measured, and with what; such as a `DeployedTarget`.

    Attributes:
        root: The repository, or a copy of it.
    """

    root: Path

    fixed: ClassVar[bool] = False
    """Whether loads and variables are just as declared, and do not follow the application and the
    shell."""

    @property
    @abstractmethod
    def configuration(self) -> Configuration:
        """The settings of the repository; raises DeclarationError if they are invalid."""

    @abstractmethod
    def cases(self, setting: Setting = AS_DECLARED) -> tuple[Case, ...]:
        """List all cases; raises UsageError or DeclarationError.

        With a setting, only cases that can be served like that.
        """

    @abstractmethod
    def lock_file(self, stack: str) -> Path:
        """Return the place of a stack's lock."""

    @abstractmethod
    def sources(self, stack: str) -> tuple[str | Path, ...]:
        """Return the arguments by which uv finds what a stack requires."""

    @property
    def code(self) -> Path:
        """The folder of the applications."""
        return self.root

    def folder(self, case: Case) -> Path:  # noqa: ARG002
        """Return the folder of a case's application."""
        return self.code

    def original(self, case: Case) -> Path:
        """Return that folder as its user has it."""
        return self.folder(case)

    @property
    @abstractmethod
    def depth(self) -> int:
        """Levels of that folder below what each launch gets a copy of."""

    @property
    @abstractmethod
    def search(self) -> tuple[str, ...]:
        """Folders that applications are imported from, as paths from their own."""

    @property
    def inside(self) -> Path | None:
        """The path of `root` in the copy of a repository that it is; None: it is the repository."""
        return None

    @property
    def variables(self) -> Mapping[str, str]:
        """Private variables of its servers."""
        return {}

    @property
    def source(self) -> str:
        """The file that its packages were read from."""
        return ""

    @property
    def login(self) -> Endpoint | None:
        """The request that identifies the client of all others."""
        return None

    @property
    def token(self) -> str:
        """The field of its answer with a token; empty: it sets a cookie."""
        return ""

    @property
    def database(self) -> str:
        """What names the database that each launch gets a copy of; see `databases.find`."""
        return ""

    def reads(self, path: str, case: Case) -> bool:  # noqa: ARG002 - of other subjects
        """Whether a case's application may read a file of the repository.

        Not if a change of it shows in cases, packages or interpreters.
        """
        return True

    @property
    def repository(self) -> Path:
        """The repository that this is, or is a copy of."""
        return self.root

    @property
    def home(self) -> Path | None:
        """The folder to which locks name files of the project itself; None: they name none."""
        return None if self.fixed else self.root

    @property
    def results(self) -> Path:
        return pyproject.results_dir(self.repository)

    def lock(self, stack: str) -> Stack:
        """Read a declared stack's lock.

        Raises UsageError if there is no such stack, SetupError if it was never locked, and
        DeclarationError if the lock has lines other than pinned packages.
        """
        return self.read_lock(stack, self.lock_file(stack))

    def find_lock(self, stack: str, digest: str, commit: str | None) -> str | None:
        """Find the text of a lock by its digest; None if it is nowhere.

        `commit` is where it was read.
        """
        places = (self.lock_file(stack), stacks.kept_place(digest[:12], stack))
        here = (place.read_bytes() for place in places if place.is_file())
        for text in chain(here, self.older_locks(stack, commit)):
            if hashlib.sha256(text).hexdigest() == digest:
                return text.decode()
        return None

    def older_locks(self, stack: str, commit: str | None) -> Iterable[bytes]:  # noqa: ARG002
        """Read a stack's lock at a commit, and at any other."""
        return ()

    def read_lock(self, stack: str, file: Path) -> Stack:
        """Read a lock from any file; raises like `lock`."""
        return stacks.read_lock(stack, file, self.version, self.home)

    @property
    @abstractmethod
    def version(self) -> str:
        """The version of Python that locks are read for: that of the first interpreter."""

    def find_interpreters(self, names: Iterable[str]) -> dict[str, Interpreter]:
        """Find interpreters by name; raises like `interpreter`."""
        return {name: self.interpreter(name) for name in names}

    @abstractmethod
    def interpreter(self, name: str) -> Interpreter:
        """Find an interpreter; UsageError: it is unknown, SetupError: it is not installed."""
