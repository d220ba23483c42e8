"""What is measured with, as data: interpreters, stacks, tools and the settings that declare them.

How these come to be is no matter of this module: it imports nothing that reads or makes them.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from packaging.utils import canonicalize_name
from pydantic import Field, StringConstraints

from duetbench.core.model import Frozen, InterpreterRecord, StackRecord
from duetbench.host import cache

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
PatchVersion = Annotated[str, StringConstraints(pattern=r"^\d+\.\d+\.\d+([abrc]+\d+)?$")]
Origin = Literal["prebuilt", "source", "found"]
ORIGINS: Final[tuple[Origin, ...]] = ("prebuilt", "source", "found")


class InterpreterSpec(Frozen):
    """One interpreter to measure with."""

    version: PatchVersion
    free_threaded: bool


class SourceBuild(Frozen):
    """How an interpreter is built where no prebuilt one can be reached."""

    archive: str = Field(description="Path of the source archive below a Debian mirror's base.")
    sha256: Digest
    cflags: str
    configure: tuple[str, ...] = Field(description="Options of configure, the same for all builds.")


class OhaSpec(Frozen):
    """The load generator."""

    version: PatchVersion
    sha256: Digest = Field(description="SHA-256 of the crate.")
    prebuilt: dict[str, Digest] = Field(
        default_factory=dict, description="File of the release → its SHA-256."
    )


class GoToolSpec(Frozen):
    """A program that Go builds, which checks its module against Go's checksum database."""

    package: str
    version: PatchVersion


class SetupSpec(Frozen):
    """What set-up asks of the machine."""

    disk_gb: float = Field(default=3.0, gt=0, description="Free space (10⁹ bytes) to build in.")


class Settings(Frozen):
    """The harness's own `[tool.duetbench]`, without the keys of a target."""

    interpreters: dict[str, InterpreterSpec] = Field(min_length=1)
    source_build: dict[str, SourceBuild] = Field(default_factory=dict, alias="source-build")
    oha: OhaSpec
    setup: SetupSpec = SetupSpec()
    go_tools: dict[str, GoToolSpec] = Field(default_factory=dict, alias="go-tools")
    fleet: dict[str, tuple[str, ...]] = Field(
        default_factory=dict, description="Machine's id → globs of the cases that it measures."
    )
    cooldown_days: int = Field(
        default=3,
        ge=0,
        alias="cooldown-days",
        description="Days that a release has to be out before nights lock it.",
    )
    cooldown_exempt: tuple[str, ...] = Field(
        default=(),
        alias="cooldown-exempt",
        description="Packages that nights lock at once: one's own.",
    )

    @property
    def gil(self) -> str | None:
        """The interpreter with the GIL that is measured where only one is: the first of them."""
        return next((n for n, spec in self.interpreters.items() if not spec.free_threaded), None)

    @property
    def free_threaded(self) -> str | None:
        """The interpreter without the GIL that is held against it: the first of them."""
        return next((n for n, spec in self.interpreters.items() if spec.free_threaded), None)


@dataclass(frozen=True, slots=True)
class Interpreter:
    """An interpreter that is there; the name is that in `pyproject.toml`: 3.14 or 3.14t.

    In a free-threaded prefix `bin/python3.14` runs without the GIL too, so the executable's
    absolute path, never a name on PATH, is what is started.
    """

    name: str
    version: str
    free_threaded: bool
    executable: Path
    origin: Origin
    build: str  # compiler and build flags that matter

    @property
    def identity(self) -> str:
        return cache.digest(
            self.version, str(self.free_threaded), self.origin, self.build, str(self.executable)
        )

    def record(self) -> InterpreterRecord:
        return InterpreterRecord.model_validate(
            {key: value for key, value in asdict(self).items() if key != "executable"}
        )


@dataclass(frozen=True, slots=True)
class Stack:
    """A locked set of packages: a dependency group and its lock file.

    Attributes:
        digest: SHA-256 of the lock file, 64 hex digits.
        packages: Normalised name → version, of the packages that this platform gets.
        home: Folder by whose settings of uv (its index) they are had; None: uv's own.
    """

    name: str
    lock: Path
    digest: str
    packages: dict[str, str]
    home: Path | None = None

    def record(self) -> StackRecord:
        return StackRecord(name=self.name, digest=self.digest, packages=self.packages)

    def files(self) -> dict[str, frozenset[str]]:
        """Read the hashes of the files that each package may be installed from, by its name."""
        text = self.lock.read_text("utf-8").replace("\\\n", " ")
        pinned = (line.split() for line in text.splitlines())
        return {
            canonicalize_name(words[0].partition("==")[0]): frozenset(
                word for word in words if word.startswith("--hash=")
            )
            for words in pinned
            if words and not words[0].startswith("#")
        }
