"""A target in a copy of its repository: its interpreter, its packages, itself, and what says so.

What is found out (interface, server, interpreter) is found out of head, and holds for both sides;
packages and code are each side's own.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from packaging.version import Version

from duetbench.core.errors import DeclarationError, UsageError
from duetbench.core.model import Case, Endpoint, Interface
from duetbench.host.progress import Narrator
from duetbench.judge import revisions
from duetbench.measure import testbed
from duetbench.project import interpreters, projects, pythons, settings, stacks, target
from duetbench.project.experiments import load_experiments
from duetbench.project.interpreters import Interpreter
from duetbench.project.servers import SERVERS
from duetbench.project.stacks import Stack
from duetbench.project.target import LaidOut, Target

_GUNICORN_ASGI: Final = Version("25")
"""The first gunicorn that serves ASGI by itself."""


@dataclass(frozen=True, slots=True)
class Told:
    """A target, the values of its private variables, and the repository that it is in.

    `pythons` are two where two interpreters are compared, base and head; else none.
    """

    target: Target
    private: Mapping[str, str]
    repository: Path
    pythons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SideLock:
    """A file that packages are to be read from, in a state of the project around it."""

    root: Path
    file: Path
    label: str


def lay_out(
    place: Path,
    told: Told,
    narrator: Narrator,
    *,
    like: Path | None = None,
    lock: SideLock | None = None,
) -> tuple[str, ...]:
    """Make a copy of the repository one that declares its target: what is worth saying of it.

    Args:
        place: The copy, of any revision.
        told: What is to be measured.
        narrator: Says what takes its time.
        like: The other side, laid out before, which has the same target.
        lock: Where the packages come from, if not from the copy.

    Raises:
        DeclarationError: The project's lock or metadata are wrong.
        UsageError: The target is: its application is none, its server cannot serve it, …
        SetupError: Interpreter, packages or environment cannot be had.
    """
    wanted = told.target
    if like is None:
        asked = [pythons.wanted(place, name) for name in told.pythons or (wanted.python,)]
        specs = [pythons.choose(one, narrator) for one in asked]
        declared = {pythons.name_of(spec): spec for spec in specs}
    else:
        declared = settings.load(like).interpreters
    target.lay_out(place, {name: spec.model_dump() for name, spec in declared.items()})
    here = [interpreters.located_alone(name, place) for name in declared]
    python, *_ = here
    notes = _otherwise(place, told, python) if like is not None else _built(here)
    source = lock or _own(place)
    given = projects.read(source.root, source.file, wanted, python, narrator) if source else None
    given = given or projects.NOTHING
    imports = projects.install(place, wanted.app.partition(":")[0], python, narrator)
    made = _Copy(place, told, given, imports, python, narrator)
    found = made.find_out() if like is None else made.take_over(like)
    label = source.label if source else given.label
    found = found.model_copy(update={"packages": label})
    target.lay_out(place, {name: spec.model_dump() for name, spec in declared.items()}, found)
    try:
        load_experiments(place)
    except DeclarationError as error:
        raise UsageError(
            f"{wanted.app}: {error.key}: found {error.found!r}; allowed: {error.allowed}"
        ) from error
    # Who asks for the cause of a change finds it by its digest.
    revisions.kept(place, target.STACK, text_of(place))
    return (*given.notes, *notes)


def working(told: Told, narrator: Narrator, copies: Path, lock: str | None = None) -> Path:
    """Copy the repository as it is, lay its target out there, and say what it is.

    `lock` names where the packages come from, as in `lock_at`. Errors as `lay_out`.
    """
    place = revisions.copy(told.repository, copies)
    source = lock_at(told, lock, copies) if lock is not None else None
    for note in lay_out(place, told, narrator, lock=source):
        narrator.say(f"note: {note}")
    narrator.say(describe(place))
    return place


def text_of(place: Path) -> str:
    """The lock of a copy that was laid out."""
    return stacks.lock_file(target.STACK, place).read_text("utf-8")


def other_text(
    told: Told,
    head: Path,
    narrator: Narrator,
    copies: Path,
    *,
    lock: str | None = None,
    revision: str | None = None,
) -> str:
    """The lock of another file, or of another revision, for what was laid out as `head`.

    Errors as `lay_out`.
    """
    if revision is not None:
        found = revisions.resolve(told.repository, revision)
        place = revisions.lay_out(told.repository, found, copies)
    else:
        place = revisions.copy(told.repository, copies)
    source = lock_at(told, lock, copies) if lock is not None else None
    lay_out(place, told, narrator, like=head, lock=source)
    return text_of(place)


def lock_at(told: Told, named: str, copies: Path) -> SideLock:
    """Find a file that packages are read from: FILE, or FILE@REV of any revision.

    UsageError: there is none.
    """
    root, name = told.repository, named
    here = next((p for p in (Path(named), root / named) if p.is_file()), None)
    if here is not None:
        place = revisions.copy(root, copies)
        inside = here.resolve().is_relative_to(root)
        file = place / here.resolve().relative_to(root) if inside else here.resolve()
    else:
        name, sign, revision = named.rpartition("@")
        if not sign:
            raise UsageError(
                f"--lock {named}: expected a file, or FILE@REV such as uv.lock@main; found neither "
                f"here nor in {root}"
            )
        place = revisions.lay_out(root, revisions.resolve(root, revision), copies)
        file = place / name
        if not file.is_file():
            raise UsageError(f"--lock {named}: {revision} has no file {name}")
    if file.suffix == ".lock" and file != place / projects.UV:
        # uv reads it where the project is.
        (place / projects.UV).unlink(missing_ok=True)
        file = Path(shutil.copy(file, place / projects.UV))
    return SideLock(place, file, named)


def describe(place: Path) -> str:
    """What is measured of a copy that was laid out, on one line."""
    (experiment,) = load_experiments(place)
    case, stack = experiment.cases["quick"][0], stacks.read(target.STACK, place)
    found = target.laid_out(place)
    load = case.load
    workers = f"{case.workers} worker{'s' * (case.workers > 1)}"
    rate = f" at {load.rate:g} requests/s" if load.rate is not None else ""
    versions = (spec.version + "t" * spec.free_threaded
                for spec in interpreters.declared(place).values())  # fmt: skip
    return ", ".join(
        (
            f"{case.endpoint.app} by {case.server} {stack.packages.get(case.server, '')}",
            workers,
            f"{case.threads} threads" if case.threads else case.loop,
            f"{load.connections} connections{rate}",
            f"Python {' and '.join(versions)}",
            f"packages from {found.packages if found else 'nowhere'}",
        )
    )


def imports(root: Path) -> tuple[str, ...]:
    """The folders of a copy that its application is imported from; none where it has no target."""
    found = target.laid_out(root)
    return found.imports if found else ()


def _own(place: Path) -> SideLock | None:
    file = projects.lock_of(place)
    return SideLock(place, file, file.name) if file else None


def _built(here: Sequence[Interpreter]) -> tuple[str, ...]:
    """What to say of interpreters that were made in different ways."""
    if len({one.origin for one in here}) < 2:
        return ()
    made = " and ".join(f"{one.version} ({one.origin})" for one in here)
    return (f"{made} come from different builders: their compilers are compared as well",)


def _otherwise(place: Path, told: Told, python: Interpreter) -> tuple[str, ...]:
    """What to say of a side that asks for another interpreter than the other one."""
    if told.pythons or told.target.python is not None:
        return ()
    asked = pythons.wanted(place)
    if asked.fits(Version(python.version), free_threaded=python.free_threaded):
        return ()
    note = (
        f"base asks for Python {asked.text} ({asked.source}): head's {python.version} is used on "
        "both sides; compare interpreters with --python BASE HEAD"
    )
    return (note,)


@dataclass(frozen=True, slots=True)
class _Copy:
    """A copy under way: its packages and itself are there, and what it serves is not known yet."""

    place: Path
    told: Told
    given: projects.Given
    imports: tuple[str, ...]
    python: Interpreter
    narrator: Narrator

    def find_out(self) -> LaidOut:
        """Find interface and server, and lock what they need; UsageError: they do not fit."""
        told, wanted = self.told, self.told.target
        interface = wanted.interface
        server = wanted.server or _server(self.given.packages, interface)
        needs = _needs(server, wanted, interface or "asgi")
        stack = self._lock(needs)
        if interface is None:
            interface = self._interface(stack)
            if wanted.server is None:
                server = _server(self.given.packages, interface)
            if (other := _needs(server, wanted, interface)) != needs:
                self._lock(other)
        if interface not in SERVERS[server].interfaces:
            fit = ", ".join(name for name, one in SERVERS.items() if interface in one.interfaces)
            raise UsageError(
                f"--server {server}: {wanted.app} is a {interface.upper()} application, which "
                f"{fit} can serve"
            )
        table = target.experiment(
            wanted, told.repository, interface=interface, server=server,
            pythons=tuple(interpreters.declared(self.place)), names=sorted(told.private),
        )  # fmt: skip
        name = target.project_name(told.repository)
        return LaidOut(name=name, imports=self.imports, packages="", experiment=table)

    def take_over(self, like: Path) -> LaidOut:
        """Serve what another copy does, from packages of this one's own."""
        found = target.laid_out(like)
        assert found is not None  # noqa: S101 - it was laid out before
        (case, *_) = load_experiments(like)[0].cases["quick"]
        needs = _needs(case.server, self.told.target, case.endpoint.interface)
        self._lock(needs, stacks.read(target.STACK, like))
        return found.model_copy(update={"imports": self.imports})

    def _lock(self, needs: frozenset[str], like: Stack | None = None) -> Stack:
        return projects.locked(self.place, self.given, needs, self.python, self.narrator, like)

    def _interface(self, stack: Stack) -> Interface:
        stacks.make_environment(stack, self.python, self.narrator)
        wanted = self.told.target
        try:
            return testbed.find_interface(
                stacks.executable(stack, self.python), wanted.app, factory=wanted.factory,
                root=self.place, imports=self.imports, env=self.told.private,
            )  # fmt: skip
        except UsageError as error:
            raise UsageError(
                f"{error}. What it needs of its surroundings comes with --env and --env-file; "
                "where the import alone cannot tell, say --interface asgi or wsgi"
            ) from error


def _server(packages: Mapping[str, str], interface: Interface | None) -> str:
    """The first server of the lock that speaks an interface; None: any."""
    for name in SERVERS:
        speaks = interface is None or interface in SERVERS[name].interfaces
        if name == "gunicorn" and interface == "asgi" and name in packages:
            speaks = Version(packages[name]) >= _GUNICORN_ASGI
        if name in packages and speaks:
            return name
    return next(iter(SERVERS))


def _needs(server: str, wanted: Target, interface: Interface) -> frozenset[str]:
    """The distributions without which a server cannot serve the target."""
    # What a server loads depends on nothing else of a case.
    asked: dict[str, Any] = {"interface": interface}
    known: dict[str, Any] = {"loop": wanted.loop, "endpoint": Endpoint.model_construct(**asked)}
    case = Case.model_construct(**known)
    return frozenset({server, *SERVERS[server].loads(case)})
