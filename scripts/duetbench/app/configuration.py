"""The harness's own part of `[tool.duetbench]`, as types."""

import functools
import hashlib
import re
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Final, TypeVar

from pydantic import BaseModel, BeforeValidator, Field

from duetbench.app.pyproject import read_table
from duetbench.app.schema import Digest, InterpreterSpec, OhaSpec, validate
from duetbench.app.target import KEYS
from duetbench.core.errors import DeclarationError
from duetbench.core.metrics import Concern
from duetbench.core.model import EffectKind, Frozen, InterpreterRecord
from duetbench.core.units import read_share
from duetbench.host import paths

_Model = TypeVar("_Model", bound=BaseModel)


ORIGINS: Final = ("prebuilt", "source")
"""Of the interpreters that set-up installs."""


class SourceBuild(Frozen):
    """How to build an interpreter if no prebuilt one is available."""

    archive: str = Field(description="Path of the source archive below a Debian mirror's base.")
    sha256: Digest
    cflags: str
    configure: tuple[str, ...] = Field(description="Options of configure, the same for all builds.")
    llvm: tuple[str, ...] = Field(
        default=(), description="Versions of LLVM that can build its JIT, the best one first."
    )


class Configuration(Frozen):
    """The harness's own `[tool.duetbench]`, without the keys of a target."""

    interpreters: dict[str, InterpreterSpec] = Field(min_length=1, title="A table for each.")
    source_build: dict[str, SourceBuild] = Field(
        default_factory=dict, alias="source-build", title="A table for each version."
    )
    oha: OhaSpec = Field(title="The load generator.")
    material: dict[Concern, Annotated[float, BeforeValidator(read_share)]] = Field(
        default_factory=dict, description="Sizes from which a change is material: memory = '5%'."
    )
    limits: dict[EffectKind, Annotated[float, Field(ge=0)]] = Field(
        default_factory=dict,
        description="Most that a request of head may do, or the comparison fails: sql = 10.",
    )

    @property
    def usual(self) -> dict[str, InterpreterSpec]:
        """The interpreters that set-up installs: all but the optional ones."""
        return {name: spec for name, spec in self.interpreters.items() if not spec.optional}

    def adding(self, names: Collection[str]) -> "Configuration":
        """Return a copy in which these optional interpreters are installed like the others."""
        specs = {
            name: spec.model_copy(update={"optional": spec.optional and name not in names})
            for name, spec in self.interpreters.items()
        }
        return self.model_copy(update={"interpreters": specs})


class Interpreter(InterpreterRecord):
    """An installed interpreter; the name is that in `pyproject.toml`: 3.14, 3.14t, ….

    In a free-threaded prefix, `bin/python3.14` also runs without the GIL. So only the absolute path
    of the executable is started, never a name on PATH.
    """

    executable: Path

    @property
    def identity(self) -> str:
        """The key of its environments and wheels."""
        build = self.version, str(self.free_threaded), self.origin, self.build, str(self.executable)
        return hashlib.sha256("\0".join(build).encode()).hexdigest()[:12]

    def record(self) -> InterpreterRecord:
        return InterpreterRecord.model_validate(self.model_dump(exclude={"executable"}))


@functools.cache
def load(root: Path) -> Configuration:
    """Read and validate a repository's settings; raises DeclarationError if they are invalid."""
    file, table = read_table(root)
    table = {key: value for key, value in table.items() if key not in KEYS}
    table = {**read_table(paths.PINS)[1], **table}
    keys = "only the keys that CONTRIBUTING.md names"
    settings = validate(Configuration, table, str(file), table="tool.duetbench", keys=keys)
    for name, spec in settings.interpreters.items():
        key, base = f"tool.duetbench.interpreters.{name}", re.sub("(-jit|t)$", "", name)
        for field, end in (("free_threaded", "t"), ("jit", "-jit")):
            if (name == base + end) != (value := getattr(spec, field)):
                allowed = f"true where the interpreter's name ends in {end}, and false elsewhere"
                raise DeclarationError(str(file), f"{key}.{field}", value, allowed)
        if not f"{spec.version}.".startswith(f"{base}."):
            allowed = f"a version of {base}, as its name says"
            raise DeclarationError(str(file), f"{key}.version", spec.version, allowed)
    return settings
