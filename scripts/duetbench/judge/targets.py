"""A target in a copy of its repository: its interpreter, its packages, itself and its cases.

Interface, server and interpreter are those of head and hold for both sides; packages and code are
each side's own.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from packaging.version import Version

from duetbench.core.errors import UsageError
from duetbench.core.model import Case, Endpoint, Interface
from duetbench.host.console import Narrator
from duetbench.judge import revisions
from duetbench.measure.testbed import find_interface
from duetbench.project import interpreters, settings, stacks, target, target_locks, target_python
from duetbench.project.project import Deployment, Project
from duetbench.project.servers import SERVERS
from duetbench.project.settings import STACK, Target
from duetbench.project.types import Interpreter, Stack

_GUNICORN_ASGI: Final = Version("25")
"""The first gunicorn that serves ASGI by itself."""


@dataclass(frozen=True, slots=True)
class SideLock:
    """A file that packages are to be read from, in a state of the project around it."""

    root: Path
    file: Path
    label: str


def deploy(
    project: Project,
    place: Path,
    narrator: Narrator,
    *,
    like: Project | None = None,
    lock: SideLock | None = None,
) -> tuple[Project, tuple[str, ...]]:
    """Prepare a project's target in a copy of its repository; also returns notes for people.

    Args:
        project: The repository, and what is measured of it.
        place: The copy, of any revision.
        narrator: Says what takes its time.
        like: The other side, prepared before, which is served in the same way.
        lock: Where the packages come from, if not from the copy.

    Raises:
        DeclarationError: The project's lock or metadata are wrong.
        UsageError: The target is: its application is none, its server cannot serve it, …
        SetupError: Interpreter, packages or environment cannot be had.
    """
    application = _target(project)
    if like is None:
        requests = [target_python.request(place, name) for name in application.python or (None,)]
        specs = [target_python.choose(one, project.settings, narrator) for one in requests]
        declared = {target_python.name_of(spec): spec for spec in specs}
    else:
        declared = like.settings.interpreters
    here = [
        interpreters.locate(
            name, project.settings.model_copy(update={"interpreters": {name: spec}})
        )
        for name, spec in declared.items()
    ]
    python, *_ = here
    notes = _builders(here) if like is None else _other_interpreter(place, application, python)
    (place / settings.FOLDER).mkdir(exist_ok=True)
    source = lock or _own(place)
    locked = target_locks.NOTHING
    if source is not None:
        locked = target_locks.read(source.root, source.file, application, python, narrator)
    imports = target_locks.install(place, application.app.partition(":")[0], python, narrator)
    making = _Deploying(project, place, locked, imports, python, narrator)
    if like is None:
        interface, server = making.find_out()
        cases = target.cases(
            application, project.root, interface=interface, server=server, pythons=tuple(declared)
        )
    else:
        cases = dict(_deployment(like).cases)
        case = cases["quick"][0]
        making.lock(_needs(case.server, application, case.endpoint.interface), like.lock(STACK))
    packages = source.label if source else locked.label
    deployment = Deployment(project.root, declared, imports, packages, cases)
    made = Project(place, application, deployment)
    # Who asks for the cause of a change finds it by its digest.
    revisions.kept(made, STACK, text_of(made))
    return made, (*locked.notes, *notes)


def working(project: Project, narrator: Narrator, copies: Path, lock: str | None = None) -> Project:
    """Copy the repository as it is, prepare its target there, and say what it is.

    `lock` names where the packages come from, as in `lock_at`. Errors as `deploy`.
    """
    place = revisions.copy(project.root, copies)
    source = lock_at(project.root, lock, copies) if lock is not None else None
    made, notes = deploy(project, place, narrator, lock=source)
    for note in notes:
        narrator.say(f"note: {note}")
    narrator.say(describe(made))
    return made


def text_of(project: Project) -> str:
    """The lock of a target that was prepared."""
    return project.lock_file(STACK).read_text("utf-8")


def other_text(
    project: Project,
    head: Project,
    narrator: Narrator,
    copies: Path,
    *,
    lock: str | None = None,
    revision: str | None = None,
) -> str:
    """The lock of another file, or of another revision, for what was prepared as `head`.

    Errors as `deploy`.
    """
    if revision is not None:
        state = revisions.resolve(project.root, revision)
        place = revisions.lay_out(project.root, state, copies)
    else:
        place = revisions.copy(project.root, copies)
    source = lock_at(project.root, lock, copies) if lock is not None else None
    made, _ = deploy(project, place, narrator, like=head, lock=source)
    return text_of(made)


def lock_at(root: Path, text: str, copies: Path) -> SideLock:
    """Find a file that packages are read from: FILE, or FILE@REV of any revision.

    UsageError: there is none.
    """
    name = text
    here = next((p for p in (Path(text), root / text) if p.is_file()), None)
    if here is not None:
        place = revisions.copy(root, copies)
        inside = here.resolve().is_relative_to(root)
        file = place / here.resolve().relative_to(root) if inside else here.resolve()
    else:
        name, sign, revision = text.rpartition("@")
        if not sign:
            raise UsageError(
                f"--lock {text}: expected a file, or FILE@REV such as uv.lock@main; found neither "
                f"here nor in {root}"
            )
        place = revisions.lay_out(root, revisions.resolve(root, revision), copies)
        file = place / name
        if not file.is_file():
            raise UsageError(f"--lock {text}: {revision} has no file {name}")
    if file.suffix == ".lock" and file != place / target_locks.UV:
        # uv reads it where the project is.
        (place / target_locks.UV).unlink(missing_ok=True)
        file = Path(shutil.copy(file, place / target_locks.UV))
    return SideLock(place, file, text)


def describe(project: Project) -> str:
    """Describe a prepared target on one line."""
    deployment = _deployment(project)
    case = deployment.cases["quick"][0]
    load = case.load
    workers = f"{case.workers} worker{'s' if case.workers > 1 else ''}"
    rate = f" at {load.rate:g} requests/s" if load.rate is not None else ""
    interpreters_ = (
        f"{spec.version}{'t' if spec.free_threaded else ''}"
        for spec in deployment.interpreters.values()
    )
    version = project.lock(STACK).packages.get(case.server, "")
    return ", ".join(
        (
            f"{case.endpoint.app} by {case.server} {version}",
            workers,
            f"{case.threads} threads" if case.threads else case.loop,
            f"{load.connections} connections{rate}",
            f"Python {' and '.join(interpreters_)}",
            f"packages from {deployment.packages}",
        )
    )


def _target(project: Project) -> Target:
    assert project.target is not None  # noqa: S101 - the verbs ask before they come here
    return project.target


def _deployment(project: Project) -> Deployment:
    assert project.deployment is not None  # noqa: S101 - `deploy` has made it
    return project.deployment


def _own(place: Path) -> SideLock | None:
    file = target_locks.lock_of(place)
    return SideLock(place, file, file.name) if file else None


def _builders(here: Sequence[Interpreter]) -> tuple[str, ...]:
    """Note that interpreters were built in different ways."""
    if len({one.origin for one in here}) < 2:
        return ()
    versions = " and ".join(f"{one.version} ({one.origin})" for one in here)
    return (f"{versions} come from different builders: their compilers are compared as well",)


def _other_interpreter(place: Path, wanted: Target, python: Interpreter) -> tuple[str, ...]:
    """Note that a side asks for another interpreter than the other one."""
    if wanted.python:
        return ()
    request = target_python.request(place)
    if request.fits(Version(python.version), free_threaded=python.free_threaded):
        return ()
    note = (
        f"base asks for Python {request.text} ({request.source}): head's {python.version} is used "
        "on both sides; compare interpreters with --python BASE HEAD"
    )
    return (note,)


@dataclass(frozen=True, slots=True)
class _Deploying:
    """A copy under way: its packages and itself are there, and what it serves is not known yet."""

    project: Project
    place: Path
    given: target_locks.ProjectPackages
    imports: tuple[str, ...]
    python: Interpreter
    narrator: Narrator

    def find_out(self) -> tuple[Interface, str]:
        """Find interface and server, and lock what they need; UsageError: they do not fit."""
        wanted = _target(self.project)
        interface = wanted.interface
        server = wanted.server or _server(self.given.packages, interface)
        needs = _needs(server, wanted, interface or "asgi")
        stack = self.lock(needs)
        if interface is None:
            interface = self._interface(wanted, stack)
            if wanted.server is None:
                server = _server(self.given.packages, interface)
            if (other := _needs(server, wanted, interface)) != needs:
                self.lock(other)
        return interface, server

    def lock(self, needs: frozenset[str], like: Stack | None = None) -> Stack:
        return target_locks.locked(self.place, self.given, needs, self.python, self.narrator, like)

    def _interface(self, wanted: Target, stack: Stack) -> Interface:
        stacks.make_environment(stack, self.python, self.narrator)
        try:
            return find_interface(
                stacks.executable(stack, self.python),
                wanted.app,
                factory=wanted.factory,
                root=self.place,
                imports=self.imports,
                env=wanted.env,
            )
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
