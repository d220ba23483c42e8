"""A target in a copy of its repository: its interpreter, its packages, itself and its cases.

Interface, server and interpreter are those of head and hold for both sides; packages and code are
each side's own.
"""

import os
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
from duetbench.project import interpreters, stacks, target, target_locks, target_python
from duetbench.project.project import Deployment, Project
from duetbench.project.servers import SERVERS
from duetbench.project.setting import AS_DECLARED, Setting, values, variables
from duetbench.project.settings import FOLDER, STACK, Interpreter, Target
from duetbench.project.stacks import Stack

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
    pins: Sequence[str] = (),
    settings: Sequence[Setting] = (AS_DECLARED,),
) -> tuple[Project, tuple[str, ...]]:
    """Prepare a project's target in a copy of its repository; also returns notes for people.

    Args:
        project: The repository, and what is measured of it.
        place: The copy, of any revision.
        narrator: Says what takes its time.
        like: The other side, prepared before, which is served in the same way.
        lock: Where the packages come from, if not from the copy.
        pins: Versions that are measured in place of what is locked, which alone need not work.
        settings: Under which it is served, the last one as a rule; it gets what each needs.

    Raises:
        DeclarationError: The project's lock or metadata are wrong.
        UsageError: The target is: its application is none, its server cannot serve it, …
        SetupError: Interpreter, packages or environment cannot be had.
    """
    assert project.target is not None  # noqa: S101 - the verbs ask before they come here
    every = [project.target.model_copy(update=values(one)) for one in settings]
    wanted, within = every[-1], revisions.within(project.root)
    if like is None:
        requests = [target_python.request(place, name, within) for name in wanted.python or (None,)]
        specs = [target_python.choose(one, project.settings, narrator) for one in requests]
        declared = {target_python.name_of(spec): spec for spec in specs}
    else:
        declared = dict(like.settings.interpreters)
    here = [
        interpreters.locate(
            name, project.settings.model_copy(update={"interpreters": {name: spec}})
        )
        for name, spec in declared.items()
    ]
    python = here[0]
    notes = _builders(here) if like is None else _other_interpreter(place, wanted, python, within)
    (place / FOLDER).mkdir(exist_ok=True)
    if lock is None and (file := _lock_of(place, wanted)):
        lock = SideLock(place, file, os.path.relpath(file, place))
    packages = target_locks.NOTHING
    if lock is not None:
        packages = target_locks.read(lock.root, lock.file, wanted, python, narrator)
    imports = target_locks.install(place, wanted.app.partition(":")[0], python, narrator)

    def locked(needs: frozenset[str], other: Stack | None = None) -> Stack:
        return target_locks.locked(place, packages, needs, python, narrator, other)

    if like is None:
        interface = wanted.interface
        server = wanted.server or _server(packages.packages, interface)
        needs = _needs(server, every, interface or "asgi")
        stack = locked(needs)
        if interface is None:
            if pins:
                draft = Deployment(project.root, declared, imports, packages.label, {}, within)
                versions = [stacks.read_pin(text) for text in pins]
                drafted = Project(place, wanted, draft)
                stack = drafted.resolve_stack(STACK, narrator, pins=versions)
            stacks.make_environment(stack, python, narrator)
            env = {"env": {**wanted.env, **variables(settings[-1])}}
            interface = _interface(
                wanted.model_copy(update=env),
                stacks.executable(stack, python), place, imports, within,
            )  # fmt: skip
            server = wanted.server or _server(packages.packages, interface)
            if (other := _needs(server, every, interface)) != needs:
                locked(other)
        cases = target.cases(
            wanted, project.root, interface=interface, server=server, pythons=tuple(declared)
        )
    else:
        cases = dict(_deployment(like).cases)
        case = cases["quick"][0]
        locked(_needs(case.server, every, case.endpoint.interface), like.lock(STACK))
    label = lock.label if lock else packages.label
    deployment = Deployment(project.root, declared, imports, label, cases, within)
    return Project(place, wanted, deployment), notes


def working(
    project: Project,
    narrator: Narrator,
    copies: Path,
    lock: str | None = None,
    pins: Sequence[str] = (),
    settings: Sequence[Setting] = (AS_DECLARED,),
) -> Project:
    """Copy the repository as it is, prepare its target there, and say what it is.

    `lock` names where the packages come from, as in `lock_at`; all else: as in `deploy`.
    """
    place = revisions.copy(project.root, copies)
    source = lock_at(project.root, lock, copies) if lock is not None else None
    made, notes = deploy(project, place, narrator, lock=source, pins=pins, settings=settings)
    for note in notes:
        narrator.say(f"note: {note}")
    for setting in settings:
        narrator.say(describe(made, setting))
    return made


def text_of(project: Project) -> str:
    """The lock of a target that was prepared."""
    return project.lock_file(STACK).read_text("utf-8")


def other_text(
    project: Project, head: Project, narrator: Narrator, copies: Path, *, lock: str
) -> str:
    """The lock of another file, for what was prepared as `head`; errors as `deploy`."""
    place = revisions.copy(project.root, copies)
    source = lock_at(project.root, lock, copies)
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
        inside = here.resolve().is_relative_to(revisions.top(root) or root)
        file = place / os.path.relpath(here.resolve(), root) if inside else here.resolve()
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
    if file.suffix == ".lock" and file.name not in target_locks.LOCKS[1:]:
        # uv reads it where the project is, or its workspace.
        theirs = target_locks.workspace(place) / target_locks.UV
        if file.resolve() != theirs.resolve():
            theirs.unlink(missing_ok=True)
            shutil.copy(file, theirs)
        file = theirs
    return SideLock(place, file, text)


def describe(project: Project, setting: Setting = AS_DECLARED) -> str:
    """Describe a prepared target on one line."""
    deployment = _deployment(project)
    case = project.cases("quick", setting)[0]
    rate = f" at {case.load.rate:g} requests/s" if case.load.rate is not None else ""
    pythons = (f"{spec.version}{spec.suffix}" for spec in deployment.interpreters.values())
    version = project.lock(STACK).packages.get(case.server, "")
    return (
        f"{case.endpoint.app} by {case.server} {version}, workers: {case.workers}, "
        f"{f'threads: {case.threads}' if case.threads else case.loop}, "
        f"{case.load.connections} connections{rate}, Python {' and '.join(pythons)}, "
        f"packages from {deployment.packages}"
    )


def _deployment(project: Project) -> Deployment:
    assert project.deployment is not None  # noqa: S101 - `deploy` has made it
    return project.deployment


def _builders(here: Sequence[Interpreter]) -> tuple[str, ...]:
    """Note that interpreters were built in different ways."""
    if len({one.origin for one in here}) < 2:
        return ()
    versions = " and ".join(f"{one.version} ({one.origin})" for one in here)
    return (f"{versions} come from different builders: their compilers are compared as well",)


def _lock_of(place: Path, wanted: Target) -> Path | None:
    """The file of a copy that its packages come from; UsageError: it is not there."""
    if wanted.packages is None:
        return target_locks.lock_of(place)
    if (file := place / wanted.packages).is_file():
        return file
    raise UsageError(f"--packages {wanted.packages}: expected a file of the project, found none")


def _other_interpreter(
    place: Path, wanted: Target, python: Interpreter, within: Path
) -> tuple[str, ...]:
    """Note that a side asks for another interpreter than the other one."""
    if wanted.python:
        return ()
    request = target_python.request(place, within=within)
    if request.fits(python):
        return ()
    note = (
        f"base asks for Python {request.text} ({request.source}): head's {python.version} is used "
        "on both sides; compare interpreters with --python BASE HEAD"
    )
    return (note,)


def _interface(
    wanted: Target, python: Path, place: Path, imports: tuple[str, ...], within: Path
) -> Interface:
    """What the application speaks, found out by importing it."""
    try:
        return find_interface(
            python,
            wanted.app,
            factory=wanted.factory,
            root=place,
            imports=imports,
            env=wanted.env,
            within=within,
        )
    except UsageError as error:
        raise UsageError(
            f"{error}. What it needs of its surroundings comes with --env and --env-file; where "
            "the import alone cannot tell, say --interface asgi or wsgi"
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


def _needs(server: str, every: Sequence[Target], interface: Interface) -> frozenset[str]:
    """The distributions without which the target cannot be served in each of these ways.

    `server` serves what names none.
    """
    needs: set[str] = set()
    for wanted in every:
        name = wanted.server or server
        # What a server loads depends on nothing else of a case.
        asked: dict[str, Any] = {"interface": interface}
        known: dict[str, Any] = {"loop": wanted.loop, "endpoint": Endpoint.model_construct(**asked)}
        needs |= {name, *SERVERS[name].loads(Case.model_construct(**known))}
    return frozenset(needs)
