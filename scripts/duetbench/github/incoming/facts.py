"""What our own checkout says, against which foreign results are held."""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, TypeVar

from packaging.utils import canonicalize_name

from duetbench.core import __version__
from duetbench.core.errors import ArtifactError, RecordError
from duetbench.core.model import Case, Commands, InterpreterRecord, Machine, StackRecord
from duetbench.core.text import require_plain, shown
from duetbench.host import git, paths
from duetbench.host.machine import slug
from duetbench.measure.inprocess import suite_runs
from duetbench.measure.testbed import Rig
from duetbench.project import settings, stacks
from duetbench.project.project import Project
from duetbench.project.servers import SERVERS
from duetbench.project.settings import InterpreterSpec
from duetbench.project.suites import read_suites

T = TypeVar("T")

CLOCKS: Final = timedelta(days=1)
"""How far a machine's clock may be off. A run from the future would stay the latest one until then;
one night's error is worth less than the night."""

_PIN: Final = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)", re.MULTILINE)
_FOLDER: Final = r"(?:\.|(?:\.?[\w-][\w.-]*/)*\.?[\w-][\w.-]*)"
_SEARCH: Final = re.compile(rf"env PYTHONPATH=({_FOLDER}(?::{_FOLDER})*) ", re.ASCII)
_NOWHERE: Final = Path("nowhere")
_REASON: Final = 400


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock as it stands in the checkout: its SHA-256, and all its pins, whatever the platform."""

    digest: str
    pins: frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Checkout:
    """The checkout's own facts."""

    duetbench: str
    oha: str
    interpreters: Mapping[str, InterpreterSpec]
    locks: Mapping[str, Lock]
    suites: frozenset[str] = frozenset()  # names of the suites inside the process
    # Commit → its date as asv counts (the author's, ms since 1970): the one checked out.
    dates: Mapping[str, int] = field(default_factory=dict)

    def require_tools(self, duetbench: str, oha: str) -> None:
        """Refuse results of other tools; raises ArtifactError."""
        require("duetbench", self.duetbench, duetbench)
        require("oha", self.oha, oha)

    def require_stacks(self, records: Iterable[StackRecord]) -> None:
        """Refuse other locks than the checkout's, and packages that no lock names.

        ArtifactError: a stack is not what the checkout has locked.
        """
        for record in records:
            lock = self.lock(record.name)
            require(f"lock of stack {record.name}", lock.digest, record.digest)
            foreign = {(canonicalize_name(n), v) for n, v in record.packages.items()} - lock.pins
            if foreign:
                package = shown("==".join(min(foreign)))
                raise ArtifactError(f"{package} in stack {record.name}, whose lock has no such pin")

    def require_interpreters(self, records: Iterable[InterpreterRecord]) -> None:
        """Refuse other interpreters than the checkout's; raises ArtifactError."""
        for one in records:
            self.require_declared(one.name)
            declared = self.interpreters[one.name]
            require(f"version of interpreter {one.name}", declared.version, one.version)
            require(f"build of {one.name}", declared.free_threaded, one.free_threaded)

    def require_declared(self, interpreter: str) -> None:
        """Refuse an interpreter that is not declared, by its name; raises ArtifactError."""
        if interpreter not in self.interpreters:
            raise ArtifactError(f"interpreter {shown(interpreter)}, which is not declared")

    def lock(self, stack: str) -> Lock:
        """The lock of a stack; raises ArtifactError if it is not declared."""
        if stack not in self.locks:
            raise ArtifactError(f"the stack {shown(stack)}, which is not declared")
        return self.locks[stack]


def of_checkout(root: Path) -> Checkout:
    """Read what a checkout says; raises DeclarationError."""
    locks = {}
    for name in Project(root).stacks:
        file = stacks.lock_file(name, root)
        if file.is_file():
            content = file.read_bytes()
            pins = _PIN.findall(content.decode())
            named = frozenset((canonicalize_name(package), version) for package, version in pins)
            locks[name] = Lock(hashlib.sha256(content).hexdigest(), named)
    said = git.ask_or_none(root, "log", "--max-count=1", "--format=%H %at")
    commit, _, seconds = (said or "").partition(" ")  # nothing outside a repository
    return Checkout(
        duetbench=__version__,
        oha=settings.load(root).oha.version,
        interpreters=Project(root).settings.interpreters,
        locks=locks,
        suites=frozenset({suite_runs.GUARD, *(suite.suite for suite in read_suites(root))}),
        dates={commit: 1000 * int(seconds)} if commit else {},
    )


def of_tools() -> Checkout:
    """What holds of results of any repository: the duetbench that runs, and its load generator."""
    oha = settings.load(paths.OWN).oha.version
    return Checkout(duetbench=__version__, oha=oha, interpreters={}, locks={})


def problem(error: Exception | str) -> str:
    """What went wrong with foreign data, as one line that is fit for a log."""
    return shown(" ".join(str(error).split()), _REASON)


def decoded(read: Callable[[bytes, str], T], data: bytes) -> T:
    """Read a file of ours whose texts are plain; raises ArtifactError."""
    try:
        found = read(data, "the file")
    except RecordError as error:
        raise ArtifactError(problem(error)) from error
    require_plain(json.loads(data))
    return found


def require(what: str, expected: object, found: object) -> None:
    """Refuse what is not as it should be; raises ArtifactError."""
    if expected != found:
        raise ArtifactError(f"{what}: expected {expected}, found {shown(str(found))}")


def require_machine(machine: Machine) -> None:
    """Refuse a machine whose id is not that of its own description; raises ArtifactError.

    The id's last letters stand for what the description does not hold, so they prove nothing.
    """
    start = f"{slug(machine.cpu)}-{machine.cores}c-"
    if not re.fullmatch(re.escape(start) + r"[0-9a-f]{6}", machine.id):
        raise ArtifactError(
            f"machine {shown(machine.id)}: expected an id as {start}123abc for its processor"
        )


def rig_of(machine: Machine, imports: tuple[str, ...] = ()) -> Rig:
    """What a case needs of a machine, for what is worked out from it, not for launches."""
    return Rig(
        apps=_NOWHERE, oha=_NOWHERE, machine=machine, pythons={}, interpreters={}, stacks={},
        logs=_NOWHERE, inherited={}, imports=imports,
    )  # fmt: skip


def require_commands(given: Commands | None, case: Case, machine: Machine) -> None:
    """Refuse command lines that are not the case's own: people copy and run them.

    ArtifactError: they differ from what this duetbench writes for the case and machine.
    """
    if given is None:
        return
    if case.server not in SERVERS:
        raise ArtifactError(f"the server {shown(case.server)}, which is none of ours")
    # Which folders of its repository a target is imported from, only its own record says.
    found = _SEARCH.match(given.server)
    folders = tuple(found[1].split(":")) if found else ()
    ours, name = rig_of(machine, folders).commands(case), shown(case.id)
    require(f"server's command line of {name}", ours.server, given.server)
    require(f"load's command line of {name}", ours.load, given.load)


def require_time(what: str, text: str, earliest: datetime | None, now: datetime) -> None:
    """Refuse a time (ISO 8601) before `earliest` or after `now`, give or take `CLOCKS`.

    ArtifactError: it is no time, or an impossible one.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise ArtifactError(f"{what}: expected a time with an offset, found {shown(text)}")
    moment = moment.astimezone(UTC)
    if moment > now + CLOCKS or (earliest is not None and moment < earliest - CLOCKS):
        since = f"{earliest:%Y-%m-%d %H:%M} and " if earliest is not None else ""
        raise ArtifactError(
            f"{what}: expected a time between {since}{now:%Y-%m-%d %H:%M} UTC, found "
            f"{shown(text)}: is the machine's clock right?"
        )
