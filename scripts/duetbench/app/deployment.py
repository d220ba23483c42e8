"""Prepares a target in a copy of its repository: interpreter, packages, application and cases.

Head decides interface, server and interpreter for both sides; packages and code are each side's
own.
"""

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Final, get_args

from duetbench.app import hints, interpreters, revisions, stacks, target_locks, tools
from duetbench.app.declarations import project_name, read_pyproject
from duetbench.app.entry.duetbench_names import INTERFACE, PROGRAM
from duetbench.app.interpreters import Environment, Interpreter, find_environment
from duetbench.app.servers import SERVERS, loop_taken
from duetbench.app.stacks import Stack
from duetbench.app.subject import Subject
from duetbench.app.target import AS_DECLARED, FOLDER, NOWHERE, STACK, Setting
from duetbench.app.target_locks import LockFile
from duetbench.app.testbed import SideCase, assemble
from duetbench.app.workspace import Workspace
from duetbench.core.errors import LaunchError, SetupError, UsageError
from duetbench.core.model import READY_SECONDS, Interface
from duetbench.core.text import some
from duetbench.host import cache, command, ports
from duetbench.host.console import Narrator

_SHOWN: Final = 4  # names in a sentence
_IMPORT_SECONDS: Final = 120.0
_ANSWER: Final = re.compile(
    rf"^{INTERFACE}=({'|'.join(get_args(Interface))})(\(\))?$", re.MULTILINE
)
_NO_APPLICATION: Final = "TypeError: expected an ASGI or WSGI application, found "

SITE: Final = f"{FOLDER}/site"
"""Folder of a copy with the installed parts of the project itself."""


def add_uncommitted(project: Subject, places: Sequence[Path], narrator: Narrator) -> None:
    """Add files that git does not have to copies of a target's repository, and say which."""
    copied = [revisions.add_uncommitted(project.root, place) for place in places]
    if added := dict.fromkeys(name for names, _ in copied for name in names):
        narrator.say(f"with uncommitted files: {some([*added], _SHOWN)}")
    if large := copied[0][1]:
        narrator.say(f"note: without {some(large, _SHOWN)}: too large to copy")


def find_running(project: Subject, narrator: Narrator) -> Environment | None:
    """Find the environment in which a project runs: one that has what its files ask for.

    Says what a chosen one lacks. A Python that only is on PATH may be for something else.
    """
    root = project.root
    lock = target_locks.lock_of(root, revisions.within(root), project.target.packages)
    requirements = target_locks.requirements_of(lock) if lock else ()
    environment = find_environment(root.resolve(), revisions.top(root) or root.resolve())
    if environment is None or not (requirements or environment.chosen):
        return None
    lacking = environment.lacking(requirements)
    if lacking and environment.chosen:
        narrator.say(
            f"{environment.label} lacks {some(lacking, _SHOWN)}, so that an environment is built"
        )
    return None if lacking else environment


def can_share(
    environment: Environment, project: Subject, places: Sequence[Path], narrator: Narrator
) -> bool:
    """Whether copies of a project can all use its environment; says which locks differ.

    Not if packages are chosen.
    """
    target = project.target
    if target.packages or target.groups or target.extras:
        return False
    within = revisions.within(project.root)
    if file := target_locks.differing(places, within, environment.executable):
        narrator.say(f"{file} differs, so that an environment is built for each side")
    return not file


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
    versions = project.target.python or (None,)
    running = find_running(project, narrator) if None in versions else None
    environment = None
    if running and not (project.target.python or any(side.packages for side in settings)):
        environment = running if can_share(running, project, places, narrator) else None
    usual = running.executable if running else None  # also if its packages are not used
    if environment:
        choices = [interpreters.identify(environment.executable)]
    else:
        choices = [interpreters.choose(places[-1], name, narrator, usual) for name in versions]
    pythons = {python.name: python for python in choices}
    sides = [
        _lay_out(project, place, lock, environment, pythons, narrator)
        for place, lock in zip(places, locks, strict=True)
    ]
    stacks.compile_code(product(places, choices))  # before the first import
    head = _choose_way(sides[-1], settings, narrator)
    needs = {
        name
        for side in settings
        for name in SERVERS[str(side.values.get("server", head.server))].needs(
            str(side.values.get("loop", head.target.loop))
        )
    }
    like: tuple[Stack, Stack] | None = None
    for side in reversed(sides):
        own = side.lock(STACK)
        like = own, target_locks.add_packages(side.root, own, needs, choices[0], narrator, like)
    deployed = [
        replace(side, target=head.target, interface=head.interface, server=head.server)
        for side in sides
    ]
    for setting in settings if any(side.served for side in settings) else settings[-1:]:
        narrator.say(describe(deployed[-1], setting))
    return deployed


def _choose_way(head: Subject, settings: Sequence[Setting], narrator: Narrator) -> Subject:
    """Choose how head is served where a setting does not say it.

    It is imported if its interface is not declared. The server is the one that is locked.
    """
    target, packages = head.target, head.lock(STACK).packages
    servers_named = [side.values.get("server") for side in settings]
    if all(servers_named):
        target = target.model_copy(update={"server": servers_named[-1]})
    interface, factory = target.interface, target.factory
    if interface is None:
        env = {**target.env, **settings[-1].env}
        trial = replace(head, target=target.model_copy(update={"env": env}))
        interface, factory = _import(trial, narrator)
    fitting = [name for name in SERVERS if interface in SERVERS[name].interfaces]
    server = target.server or next((n for n in fitting if n in packages), fitting[0])
    loop = target.loop
    if any(side.values.get("loop", loop) != loop for side in settings):
        # What one side names is installed for both.
        loop = loop_taken(server, loop, packages)
    way = {"factory": factory, "loop": loop}
    return replace(head, target=target.model_copy(update=way), interface=interface, server=server)


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
    pythons = (f"{python.version}{python.suffix}" for python in deployed.interpreters.values())
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
) -> Subject:
    """Read a copy's packages, from `lock` if it is given, and install what belongs to its code."""
    choice, within = project.target, revisions.within(project.root)
    python = next(iter(pythons.values()))
    if environment is not None:
        target_locks.put(place, environment.lock, (), python)
        source = environment.label
        folders = (os.path.relpath(folder, within) for folder in environment.folders)
        search = tuple(dict.fromkeys((*source_folders(place), *folders)))
    else:
        if lock := lock or target_locks.lock_of(place, within, choice.packages):
            target_locks.read(place, lock, choice, python, narrator)
        else:
            target_locks.put(place, "", (), python)
        source = lock.label if lock else NOWHERE
        search = install(place, python, narrator)
    return Subject(
        place,
        target=choice,
        origin=project.root,
        inside=within,
        interpreters=pythons,
        search=search,
        source=source,
    )


def _import(trial: Subject, narrator: Narrator) -> tuple[Interface, bool]:
    """Import the application as a launch would, after the commands before it, without a server."""
    case = trial.declared_cases()[0]
    log = command.new_log("import", cache.digest(str(trial.repository)))
    testbed = assemble(trial, [case], log.parent, narrator, loaded=False)
    with narrator.step(f"importing {trial.target.app}", "to see how it is served"):
        return find_interface(SideCase(case, testbed), log)


def find_interface(side: SideCase, log: Path) -> tuple[Interface, bool]:
    """Import a case's application in the surroundings of a launch.

    Return its interface, and whether it is what the named attribute makes. No side of a comparison
    contains what that leaves (compiled modules, a database). Raises UsageError if the application
    cannot be imported, or has neither interface, or if a command fails.
    """
    case, argv = side.case, (str(side.python), "-m", PROGRAM)
    limit = case.ready_timeout if case.ready_timeout != READY_SECONDS else _IMPORT_SECONDS
    try:
        with Workspace(side, ports.free_port(), log) as workspace:
            workspace.open()
            code = workspace.execute(argv, limit, log)
            return _read_answer(side, code, workspace.hide(command.read_log(log)), limit)
    except LaunchError as error:
        raise UsageError(error.detail) from error


def _read_answer(
    side: SideCase, code: int | None, output: str, limit: float
) -> tuple[Interface, bool]:
    if code == 0 and (answers := _ANSWER.findall(output)):
        interface, called = answers[-1]
        return interface, bool(called)
    message, advice = command.last_words(output), f". {hints.advise(side, output) or hints.USUAL}"
    if code is None:
        actual, advice = f"an import that goes on after {limit:g} s (--with ready-timeout=)", ""
    elif command.last_exception(output):
        actual, message = message.removeprefix(_NO_APPLICATION), ""
    else:
        actual = f"an import that ends the process with exit code {code}"
    words = f"; it said: {message}" if message else ""
    raise UsageError(
        f"{side.case.endpoint.app}: expected an application, found: {actual}{words}{advice}"
    )


def install(root: Path, python: Interpreter, narrator: Narrator) -> tuple[str, ...]:
    """Lay out what a project installs of itself in a copy; return the import folders, in order.

    Code is imported from its source folder, where a build leaves compiled modules. The project's
    metadata, and the packages that are folders or archives, come first.

    Raises SetupError if one of these cannot be installed.
    """
    site, places = root / SITE, root / target_locks.PLACES
    site.mkdir(parents=True, exist_ok=True)
    if places.is_file() and places.read_text("utf-8"):
        _install(root, ["--requirements", places], "packages of this repository", python, narrator)
    document = read_pyproject(root)
    tools = document.get("tool", {})
    modes = tools.get("poetry", {}).get("package-mode"), tools.get("uv", {}).get("package")
    if "build-system" in document and False not in modes:
        try:
            _install(root, ["--editable", root], project_name(root), python, narrator)
        except SetupError as error:
            narrator.say(f"note: measured from source, without metadata: {error}")
    texts = (file.read_text("utf-8").splitlines() for file in site.glob("*.pth"))
    folders = [Path(line) for lines in texts for line in lines if Path(line).is_dir()]
    own = (os.path.relpath(folder, root) for folder in folders if folder.is_absolute())
    return tuple(dict.fromkeys((SITE, *source_folders(root), *own)))


def _install(
    root: Path, what: Sequence[str | Path], name: str, python: Interpreter, narrator: Narrator
) -> None:
    argv: list[str | Path] = [command.uv(), "pip", "install", "--no-deps", "--target", root / SITE]
    argv += ["--python", python.executable, *what]
    log = command.new_log("build", cache.digest(name, str(root)))
    # What is imported is compiled for both sides in one way.
    env = {**stacks.UNVERSIONED, "PYTHONDONTWRITEBYTECODE": "1"}
    with narrator.step(name, "building it") as tick:
        command.run(argv, what=f"building {name}", log=log, tick=tick, cwd=root, env=env)


def module_files(module: str) -> tuple[Path, Path]:
    """Return the two files that a dotted module may be, from its import folder."""
    name = Path(*module.split("."))
    return name.with_suffix(".py"), name / "__init__.py"


def source_folders(root: Path) -> tuple[str, ...]:
    """List the folders to import a project's code from: `src/`, if there is one, and the top."""
    return tuple(name for name in ("src", ".") if (root / name).is_dir())
