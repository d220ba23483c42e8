"""The harness's own part of `[tool.duetbench]`, as types."""

import functools
import hashlib
import re
from pathlib import Path
from typing import Annotated, Final, get_args

from pydantic import BeforeValidator, Field

from duetbench.app.declarations import read_table
from duetbench.app.declarations import OhaSpec, validate
from duetbench.app.target import KEYS
from duetbench.core.metrics import MATERIAL, Concern
from duetbench.core.model import EffectKind, Frozen, InterpreterRecord
from duetbench.core.units import read_share
from duetbench.host import paths


def _read_limits(table: object) -> object:
    if not isinstance(table, dict):
        return table
    return {key: read_share(v) if key in MATERIAL else v for key, v in table.items()}


class Configuration(Frozen):
    """The harness's own `[tool.duetbench]`, without the keys of a target."""

    oha: OhaSpec = Field(title="The load generator.")
    limits: Annotated[
        dict[Concern | EffectKind, Annotated[float, Field(ge=0)]], BeforeValidator(_read_limits)
    ] = Field(
        default_factory=dict,
        description="What is worse: a change by a share, memory = '5%', or a request of head that "
        "does more than so many of a kind, sql = 10.",
    )

    @property
    def material(self) -> dict[Concern, float]:
        """Smallest relative changes that are worse."""
        return {name: self.limits[name] for name in MATERIAL if name in self.limits}

    @property
    def most(self) -> dict[EffectKind, float]:
        """How often a request of head may do something."""
        kinds: tuple[EffectKind, ...] = get_args(EffectKind)
        return {kind: self.limits[kind] for kind in kinds if kind in self.limits}


class Interpreter(InterpreterRecord):
    """An installed interpreter; the name is that in `pyproject.toml`: 3.14, 3.14t, ….

    In a free-threaded prefix, `bin/python3.14` also runs without the GIL. So only the absolute path
    of the executable is started, never a name on PATH.
    """

    executable: Path

    @property
    def identity(self) -> str:
        """The key of its environments."""
        build = self.version, str(self.free_threaded), self.origin, self.build, str(self.executable)
        return hashlib.sha256("\0".join(build).encode()).hexdigest()[:12]

    def record(self) -> InterpreterRecord:
        return InterpreterRecord.model_validate(self.model_dump(exclude={"executable"}))


REMOVED: Final = re.compile(
    "asynchat|asyncore|distutils|imp|smtpd|aifc|audioop|cgi|cgitb|chunk|crypt|imghdr|lib2to3|"
    "mailcap|msilib|nis|nntplib|ossaudiodev|pipes|sndhdr|spwd|sunau|telnetlib|uu|xdrlib"
)
"""Modules that Python 3.11 had, and newer ones lack."""


@functools.cache
def load(root: Path) -> Configuration:
    """Read and validate a repository's settings; raises DeclarationError if they are invalid."""
    file, table = read_table(root)
    table = {key: value for key, value in table.items() if key not in KEYS}
    table = {**read_table(paths.PINS)[1], **table}
    keys = "only the keys that CONTRIBUTING.md names"
    return validate(Configuration, table, str(file), table="tool.duetbench", keys=keys)
