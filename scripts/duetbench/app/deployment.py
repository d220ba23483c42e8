"""Prepares a target in a copy of its repository: interpreter, packages, application and cases.

Head decides interface, server and interpreter for both sides; packages and code are each side's
own.
"""

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from duetbench.app import interpreters, revisions, stacks, target_locks, tools
from duetbench.app.declarations import project_name, read_pyproject
from duetbench.app.interpreters import Environment, Interpreter, find_environment
from duetbench.app.servers import SERVERS, loop_taken
from duetbench.app.stacks import Stack
from duetbench.app.subject import Subject
from duetbench.app.target import AS_DECLARED, FOLDER, NOWHERE, STACK, Setting, Target
from duetbench.app.target_locks import LockFile
from duetbench.app.testbed import SideCase, assemble
from duetbench.app.workspace import find_interface
from duetbench.core.errors import LaunchError, SetupError, UsageError
from duetbench.core.model import Interface
from duetbench.core.text import some
from duetbench.host import cache, command
from duetbench.host.console import Narrator

_SHOWN: Final = 4  # names of uncommitted files

SITE: Final = f"{FOLDER}/site"
"""Folder of a copy with the installed parts of the project itself."""

_NO_SOURCES: Final = {"tests", "test", "docs", "examples", "build", "dist", "node_modules"}
"""Folders that are not searched for an application."""


def add_uncommitted(project: Subject, places: Sequence[Path], narrator: Narrator) -> None:
    """Add files that git does not have to copies of a target's repository, and say which."""
    copied = [revisions.add_uncommitted(project.root, place) for place in places]
    added, (_, large) = [name for names, _ in copied for name in names], copied[0]
    for names, text in (
        (added, "with uncommitted files: {}"),
        (large, "note: without {}: too large to copy; make what it needs with --before"),
    ):
        if names:
            narrator.say(text.format(some([*dict.fromkeys(names)], _SHOWN)))


def environment_of(
    project: Subject, places: Sequence[Path], narrator: Narrator
) -> Environment | None:
    """Find the environment in which a target runs, for copies of its repository.

    None if it has none, or needs another one: its packages or its interpreter are chosen, the
    copies have different locks, or the environment lacks a package. Says why.
    """
    target = project.target
    if target.build or target.packages or target.python or target.groups or target.extras:
        return None
    environment, lacking = _running(project)
    if environment is None:
        return None
    reason = ""
    if file := target_locks.differing(
        places, revisions.within(project.root), target, environment.executable
    ):
        reason = f"{file} differs"
    elif lacking:
        reason = f"{environment.label} lacks {', '.join(lacking[:3])}{', …' * (len(lacking) > 3)}"
    elif environment.compiled:
        reason = f"{environment.label} has compiled modules of the project"
    if reason and environment.chosen:
        narrator.say(f"{reason}, so that an environment is built for each side")
    return None if reason else environment


def _running(project: Subject) -> tuple[Environment | None, Sequence[str]]:
    """Find the environment in which a project runs, and list the packages that it lacks.

    One that nobody has chosen lacks none.
    """
    root = project.root
    environment = find_environment(root.resolve(), revisions.top(root) or root.resolve())
    if environment is None:
        return None, ()
    asked = target_locks.direct(root, revisions.within(root), project.target)
    lacking = environment.lacking(asked)
    if not environment.chosen and (lacking or not asked):
        return None, ()
    return environment, lacking


def deploy_all(
    project: Subject,
    places: Sequence[Path],
    narrator: Narrator,
    settings: Sequence[Setting] = (AS_DECLARED,),
    locks: Sequence[LockFile | None] = (None,),
) -> list[Subject]:
    """Prepare a target in copies of its repository, each under a setting.

    `locks` are read instead of their own. The last copy decides how all are served.

    Raises:
        DeclarationError: The project's lock or metadata are invalid.
        UsageError: The target is invalid: it is no application, its server cannot serve it, …
        SetupError: The interpreter, a package or the environment cannot be made.
    """
    add_uncommitted(project, places, narrator)
    environment = None
    if not any(side.packages for side in settings):
        environment = environment_of(project, places, narrator)
    pythons = _interpreters(project, places[-1], narrator, environment)
    python = next(iter(pythons.values()))
    if environment is not None:  # the import already finds compiled code
        with ThreadPoolExecutor() as pool:
            [*pool.map(lambda place: stacks.compile_code(place, python), places)]
    sides = [
        _lay_out(project, place, lock, environment, pythons, narrator)
        for place, lock in zip(places, locks, strict=True)
    ]
    interface, server, ways = _choose_way(*sides[-1], settings, narrator)
    deployed: list[Subject] = []
    like: tuple[Stack, Stack] | None = None
    served = ((SERVERS[way.server or server], way.loop) for way in ways)
    needs = {name for by, loop in served for name in by.needs(loop)}
    for bare, own in reversed(sides):
        stack = target_locks.add_packages(bare.root, own, needs, python, narrator, like)
        like = own, stack
        deployed.insert(0, replace(bare, target=ways[-1], interface=interface, server=server))
    for setting in settings if any(side.served for side in settings) else settings[-1:]:
        narrator.say(describe(deployed[-1], setting))
    return deployed


def _choose_way(
    head: Subject, own: Stack, settings: Sequence[Setting], narrator: Narrator
) -> tuple[Interface, str, Sequence[Target]]:
    """Choose how head is served, after an import if its interface is not declared.

    Return the interface; the server where a way names none, as locked; and the ways to serve it,
    one for each setting and last the usual one.
    """
    # What one does not name is found as declared, with head's variables.
    named = all("server" in side.values for side in settings)
    usual = {"server": settings[-1].values["server"]} if named else {}
    values = (*(side.values for side in settings), usual)
    ways = [head.target.model_copy(update=one) for one in values]
    interface, factory, choice = head.target.interface, head.target.factory, ways[-1]
    if interface is None:
        env = {**head.target.env, **settings[-1].env}
        trial = replace(head, target=choice.model_copy(update={"env": env}))
        interface, factory = _import(trial, narrator)
    fitting = [name for name in SERVERS if interface in SERVERS[name].interfaces]
    server = choice.server or next((n for n in fitting if n in own.packages), fitting[0])
    loops = [way.loop for way in ways]
    if len({*loops}) > 1:  # what one side names is installed for both
        loops = [loop_taken(server, name, own.packages) for name in loops]
    taken = [
        way.model_copy(update={"factory": factory, "loop": name})
        for way, name in zip(ways, loops, strict=True)
    ]
    return interface, server, taken


def working(project: Subject, narrator: Narrator, copies: Path) -> Subject:
    """Copy the repository as it is, prepare its target there, and describe it."""
    place = revisions.copy(project.root, copies)
    return deploy_all(project, [place], narrator)[0]


@contextmanager
def deployed(project: Subject, narrator: Narrator) -> Iterator[Subject]:
    """Provide `working` for a while, with a load generator."""
    tools.ensure_oha(project.configuration.oha, narrator)
    with revisions.copies() as copies:
        yield working(project, narrator, copies)


def describe(deployed: Subject, setting: Setting = AS_DECLARED) -> str:
    """Describe a prepared target on one line."""
    case = deployed.cases(setting)[0]
    rate = f" at {case.load.rate:g} requests/s" if case.load.rate is not None else ""
    more = f", {shlex.join(case.server_args)}" if case.server_args else ""
    pythons = (f"{found.version}{found.suffix}" for found in deployed.interpreters.values())
    packages = deployed.lock(STACK).packages
    version, loop = packages.get(case.server, ""), loop_taken(case.server, case.loop, packages)
    app = f"{case.endpoint.app}{'()' * case.endpoint.factory}"
    return (
        f"{app} by {case.server} {version}, workers: {case.workers}, "
        f"{f'threads: {case.threads}' if case.threads else loop}, "
        f"{case.load.connections} connections{rate}{more}, Python {' and '.join(pythons)}, "
        f"packages from {deployed.source}"
    )


def _lay_out(
    project: Subject,
    place: Path,
    lock: LockFile | None,
    environment: Environment | None,
    pythons: Mapping[str, Interpreter],
    narrator: Narrator,
) -> tuple[Subject, Stack]:
    """Read a copy's packages, from `lock` if it is given, and install what belongs to its code."""
    choice, within = project.target, revisions.within(project.root)
    module, python = choice.app.partition(":")[0], next(iter(pythons.values()))
    if environment is not None:
        stack, source = target_locks.put(place, environment.lock, (), python), environment.label
        folders = (os.path.relpath(folder, within) for folder in environment.folders)
        search = tuple(dict.fromkeys((*source_folders(place, module), *folders)))
    else:
        places: Sequence[Path] = ()
        if lock := lock or target_locks.lock_of(place, within, choice.packages):
            stack, places = target_locks.read(place, lock, choice, python, narrator)
        else:
            stack = target_locks.put(place, "", (), python)
        source = lock.label if lock else NOWHERE
        search = install(place, module, places, python, narrator)
    side = Subject(
        place,
        target=choice,
        origin=project.root,
        inside=within,
        interpreters=pythons,
        search=search,
        source=source,
    )
    return side, stack


def _interpreters(
    project: Subject, place: Path, narrator: Narrator, environment: Environment | None
) -> Mapping[str, Interpreter]:
    """Choose the interpreters that are asked for, by name; or that of the environment.

    That of one whose packages are not used comes before others. One that lacks a package may be for
    something else.
    """
    asked: Sequence[str | None] = project.target.python
    if environment is not None:
        pythons = [interpreters.identify(environment.executable)]
    else:
        running, lacking = (None, ()) if asked else _running(project)
        usual = running.executable if running and not lacking else None
        pythons = [interpreters.choose(place, one, narrator, usual) for one in asked or (None,)]
    return {python.name: python for python in pythons}


def _import(trial: Subject, narrator: Narrator) -> tuple[Interface, bool]:
    """Import the application as a launch would, after the commands before it, without a server."""
    case = trial.declared_cases()[0]
    log = command.new_log("import", cache.digest(str(trial.repository)))
    testbed = assemble(trial, [case], log.parent, narrator, generator=Path())  # nothing is loaded
    try:
        with narrator.step(f"importing {trial.target.app}", "to see how it is served"):
            return find_interface(SideCase(case, testbed), log)
    except LaunchError as error:
        raise UsageError(error.detail) from error


def install(
    root: Path, module: str, places: Sequence[Path], python: Interpreter, narrator: Narrator
) -> tuple[str, ...]:
    """Lay out what a project installs of itself in a copy; return the import folders, in order.

    Code is imported from its source folder, where a build leaves compiled modules. The project's
    metadata, and the packages that are folders or archives, come first.

    Raises SetupError if one of these cannot be installed.
    """
    (root / SITE).mkdir(parents=True, exist_ok=True)
    for place in places:
        _install(root, [place], python, narrator)
    document = read_pyproject(root)
    tools = document.get("tool", {})
    modes = tools.get("poetry", {}).get("package-mode"), tools.get("uv", {}).get("package")
    if "build-system" in document and False not in modes:
        try:
            _install(root, ["--editable", root], python, narrator)
        except SetupError as error:
            narrator.say(f"note: measured from source, without metadata: {error}")
    named = (file.read_text("utf-8").splitlines() for file in (root / SITE).glob("*.pth"))
    places = [Path(line) for lines in named for line in lines if Path(line).is_dir()]
    own = (os.path.relpath(place, root) for place in places if place.is_absolute())
    return tuple(dict.fromkeys((SITE, *source_folders(root, module), *own)))


def _install(
    root: Path, what: Sequence[str | Path], python: Interpreter, narrator: Narrator
) -> None:
    # The folder name of a copy means nothing to the user.
    place = Path(what[-1])
    name = project_name(place) if place.is_dir() else place.name
    argv: list[str | Path] = [command.uv(), "pip", "install", "--no-deps", "--target", root / SITE]
    argv += ["--python", python.executable, *what]
    log = command.new_log("build", name, cache.digest(str(place)))
    # What is imported is compiled for both sides in one way.
    env = {**stacks.unversioned(place), "PYTHONDONTWRITEBYTECODE": "1"}
    with narrator.step(name, "building it") as tick:
        command.run(argv, what=f"building {name}", log=log, tick=tick, cwd=root, env=env)


def module_files(module: str) -> tuple[Path, Path]:
    """Return the two files that a dotted module may be, from its import folder."""
    name = Path(*module.split("."))
    return name.with_suffix(".py"), name / "__init__.py"


def source_folders(root: Path, module: str) -> tuple[str, ...]:
    """List the folders to import a project's code from: `src/`, the top, and perhaps another.

    The other comes first: the only folder that contains the module, if the first two do not.
    """
    usual = tuple(name for name in ("src", ".") if (root / name).is_dir())
    names = module_files(module)
    if any((root / folder / name).is_file() for folder in usual for name in names):
        return usual
    places = {
        file.relative_to(root).parents[len(name.parts) - 1]
        for name in names
        for file in root.rglob(str(name))
    }
    homes = [
        place.as_posix()
        for place in places
        if not any(part in _NO_SOURCES or part.startswith(".") for part in place.parts)
    ]
    return (*homes, *usual) if len(homes) == 1 else usual
