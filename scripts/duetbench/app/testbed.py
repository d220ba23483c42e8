"""What launches need from the machine and the checkout, and the surroundings of a single launch.

The first is a `Testbed`, the second a `Workspace`: scratch folder, working copy, variables, and
commands. An application finds everything unchanged at each start: a target starts in a fresh copy
of its files, of `{tmp}` and of its database, as the commands `before` left them, which run once per
side. No process of a command outlives it.
"""

import json
import math
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from threading import Lock
from typing import Final, Self, get_args
from urllib.parse import quote, unquote

from duetbench.app import databases, hints, stacks, tools
from duetbench.app.configuration import Interpreter
from duetbench.app.entry import duetbench_entry as entry
from duetbench.app.inside.request import identified, private_parts
from duetbench.app.interpreters import JIT
from duetbench.app.servers import SERVERS
from duetbench.app.stacks import Stack
from duetbench.app.subject import Subject
from duetbench.core.errors import FlagName, LaunchError, UsageError
from duetbench.core.model import READY_SECONDS, Case, Endpoint, Interface, Load, Machine
from duetbench.core.text import HIDDEN, hider
from duetbench.host import machine, paths, ports, proc
from duetbench.host.command import AT, last_exception, last_words, read_log
from duetbench.host.console import Narrator
from duetbench.host.process_session import Session

INHERITED: Final = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ")
"""Variables of our environment that servers and benchmarks get. Any other (PYTHON_GIL,
UVICORN_WORKERS, a proxy) could change the measurement without a trace in the record."""

_NOT_THEIRS: Final = (
    r"PYTHON(?!PATH$)|VIRTUAL_ENV|WEB_CONCURRENCY$|GUNICORN_|UVICORN_|GRANIAN_|HYPERCORN_|DUETBENCH_"
    r"|COVERAGE_|PYTEST_|_$"
)
_OF_CI: Final = r"GITHUB_|ACTIONS_|RUNNER_|INPUT_|CI_|.*(TOKEN|SECRET|PASSWORD|CREDENTIAL)"
_SECRET_NAME: Final = re.compile(r"PASS|SECRET|TOKEN|KEY|CREDENTIAL|AUTH|COOKIE", re.IGNORECASE)

ENTRY: Final = Path(entry.__file__).parent
"""The folder of the module that servers serve, and that wraps the application."""


COMMAND_SECONDS: Final = 300.0  # for a command before or after a server: it may fill a database
PREFIX: Final = "duetbench-launch"

_OF_SERVERS: Final = attrgetter(
    *("experiment", "stack", "python", "server", "loop", "workers", "threads", "cores"),
    *("server_args", "endpoint.app", "endpoint.interface", "endpoint.factory"),
    *("env_names", "before", "after"),
)
_IMPORT_SECONDS: Final = 120.0
_ANSWER: Final = re.compile(
    rf"^{entry.INTERFACE}=({'|'.join(get_args(Interface))})(\(\))?$", re.MULTILINE
)
_KEYS: Final = re.compile(
    r"(?i)//(?:[^/@:\s]*:)?([^/\s]+)@"
    r"|(?:pass|pwd|secret|token|key|sig|auth)\w*(?:=([^&;#\s]+)|\"\s*:\s*\"([^\"]+))"
)
"""The password in a URL, or else its user; and what the names of settings call secret."""
_NO_APPLICATION: Final = "TypeError: expected an ASGI or WSGI application, found "


def fill(text: str, values: Mapping[str, str]) -> str:
    """Replace each `{name}` by its value; all other braces stay."""
    names = "|".join(map(re.escape, values))
    return re.sub(rf"\{{({names})\}}", lambda match: values[match[1]], text) if names else text


def secrets(values: Mapping[str, str]) -> dict[str, str]:
    """Map all texts that tell private values to `{NAME}`: each, its lines, and the keys in it.

    Also as JSON and URLs spell them. A password that is the user's name as well is no secret.
    """
    found: dict[str, str] = {}
    for name, value in values.items():
        keys = [key for pair in _KEYS.findall(value) for key in pair if value.count(key) == 1]
        for text in (value, *value.splitlines(), *keys, *map(unquote, keys)):
            escaped = (json.dumps(text, ensure_ascii=plain)[1:-1] for plain in (True, False))
            if len(text) >= HIDDEN:
                found |= dict.fromkeys((text, quote(text, safe=""), *escaped), f"{{{name}}}")
    return found


def _variables(case: Case, values: Mapping[str, str]) -> dict[str, str]:
    """The variables that a case adds to its server's environment."""
    variables = {name: fill(text, values) for name, text in case.env.items()}
    return {**variables, **{name: values[name] for name in case.env_names}}


def _fill_in(endpoint: Endpoint, values: Mapping[str, str]) -> Endpoint:
    headers = {name.lower(): fill(text, values) for name, text in endpoint.headers.items()}
    # An answer may repeat it, so all clients send the same.
    headers.setdefault("user-agent", "duetbench")
    return endpoint.model_copy(update={"headers": headers, "body": fill(endpoint.body, values)})


@dataclass(frozen=True, slots=True)
class Testbed:
    """Tools, interpreters, stacks and cores for all launches of a run."""

    subject: Subject  # what is served
    oha: Path
    machine: Machine
    pythons: Mapping[tuple[str, str], Path]  # executables of each (stack, interpreter)
    interpreters: Mapping[str, Interpreter]
    stacks: Mapping[str, Stack]
    logs: Path
    inherited: Mapping[str, str]  # environment of servers
    private: Mapping[str, str] = field(default_factory=dict)
    """Variables recorded by name only; `{tmp}` and `{port}` are filled in their values."""
    patience: float = math.inf
    """Most seconds for an answer of an idle server, beside the load's own limit."""
    loads: dict[str, tuple[Load, bool]] = field(default_factory=dict, compare=False)
    """Load of the duets of a case, and whether it leaves cores idle: the first one chooses it."""

    def server_cores(self, case: Case) -> tuple[int, ...]:
        server, client = self.machine.server_cores, self.machine.client_cores
        return tuple(sorted({*server, *client})) if case.cores == "shared" else server

    def client_cores(self, case: Case) -> tuple[int, ...]:
        return self.machine.client_cores if case.cores == "split" else self.server_cores(case)

    def top(self, folder: Path) -> Path:
        """What is copied around an application's folder."""
        return paths.above(folder, self.subject.depth)

    def environment(
        self, case: Case, folder: Path | None = None, values: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """The variables of a case's server, in a copy of its folder if there is one.

        `values` fill the placeholders: those of all private variables, and the launch's own. What
        is inherited names the copy where it names the repository.
        """
        values = self.private if values is None else values
        place = folder or self.subject.folder(case)
        search = [os.path.normpath(place / name) for name in self.subject.search]
        original, copied = (str(self.top(path)) for path in (self.subject.original(case), place))
        inherited = {
            name: text if name == "PATH" else text.replace(original, copied)
            for name, text in self.inherited.items()
        }
        variables = _variables(case, values)
        theirs = variables.pop("PYTHONPATH", inherited.pop("PYTHONPATH", ""))
        wrapped = case.endpoint
        return {
            **inherited,
            "PYTHONPATH": os.pathsep.join(filter(None, map(str, (ENTRY, theirs, *search)))),
            "PYTHONUNBUFFERED": "1",
            entry.APP: wrapped.app,
            entry.FACTORY: "1" if wrapped.factory else "",
            entry.INTERFACE: wrapped.interface,
            entry.LOOP: case.loop,
            **({JIT: "1"} if self.interpreters[case.python].jit else {}),
            **variables,
        }

    def server_argv(self, case: Case, port: int) -> list[str]:
        """The command that starts a case's server with our module, which wraps the application."""
        server, python = SERVERS[case.server], self.pythons[case.stack, case.python]
        # The last option wins. A file of settings is ours, which reads the user's.
        return [
            *(str(python), "-m", server.module or server.name),
            *(*server.arguments(case, port).split(), *case.server_args, *server.settings),
        ]

    def folders(self, case: Case) -> tuple[Path, ...]:
        """The original folder of a case's application, and those of the repository above it."""
        folder = self.subject.original(case)
        return folder, *folder.parents[: self.subject.depth]

    def advise(self, case: Case, printed: str, routes: Sequence[str] = ()) -> str:
        """Say what to do about a failure; empty if that is unknown. See `hints`."""
        version = self.interpreters[case.python].version
        symptoms = hints.Symptoms(
            printed=printed,
            module=case.endpoint.app.partition(":")[0],
            path=case.endpoint.path,
            routes=routes,
            folders=self.folders(case),
            variables=self.environment(case),
            python=".".join(version.split(".")[:2]),
            source=self.subject.source,
        )
        return hints.advise(symptoms)


def assemble(
    subject: Subject,
    cases: Sequence[Case],
    logs: Path,
    narrator: Narrator | None = None,
    *,
    generator: Path | None = None,
    lock: Callable[[str], Stack] | None = None,
    interpreter: Callable[[str], Interpreter] | None = None,
) -> Testbed:
    """Collect what cases of a subject need; with a narrator, missing environments are made.

    `generator` is the load generator, and `lock` and `interpreter` find those of a name; by default
    those of the subject. A private variable that a target does not set comes from our environment.

    Raises:
        SetupError: A lock, an interpreter, an environment or a tool is missing, or cannot be made.
        UsageError: A private variable is set nowhere.
    """
    lock, interpreter = lock or subject.lock, interpreter or subject.interpreter
    pythons = {name: interpreter(name) for name in sorted({case.python for case in cases})}
    locks = {name: lock(name) for name in sorted({case.stack for case in cases})}
    environments = sorted({(case.stack, case.python) for case in cases})
    if narrator is not None:
        for stack, python in environments:
            stacks.make_environment(locks[stack], pythons[python], narrator)
    private = dict(subject.target.env)
    for case in cases:
        for name in case.env_names:
            if name not in private and name not in os.environ:
                raise UsageError(
                    f"{case.id} needs the variable {name}: set it, or give it with --env "
                    f"{name}=… or --env-file"
                )
            private.setdefault(name, os.environ.get(name, ""))
    paths.make_logs(logs)
    return Testbed(
        subject=subject,
        oha=generator or tools.find_oha(subject.configuration.oha),
        machine=machine.fingerprint(),
        pythons={(s, p): stacks.executable(locks[s], pythons[p]) for s, p in environments},
        interpreters=pythons,
        stacks=locks,
        logs=logs,
        inherited=inherited_variables(shell=not subject.fixed),
        private=private,
    )


class Workspace:
    """The surroundings of one launch; `open` before its server starts, `close` after it stopped.

    What `prepare` keeps is a workspace as well.
    """

    def __init__(self, testbed: Testbed, case: Case, port: int, log: Path) -> None:
        """Make an empty folder; `close` removes it. Cases that share a server share a workspace."""
        self._testbed, self._case, self._log = testbed, case, log
        self._original = _find_database(testbed, case)
        self._database: databases.Database | None = None
        self._place = proc.make_scratch(PREFIX)
        self.request = self._place / "request.json"  # for a program that makes requests
        self._tmp = self._place / "tmp"
        self._tmp.mkdir()
        places = {"tmp": str(self._tmp), "port": str(port)}
        private = {name: fill(text, places) for name, text in testbed.private.items()}
        self._values = {**private, **places}
        self.login = (login := testbed.subject.login) and _fill_in(login, self._values)
        self.identity: Mapping[str, str] = {}  # headers that the login gave
        self.secrets = dict[str, str]()
        body = self.login.body if self.login else ""
        self._keep({**secret_variables(testbed.inherited), **private, "login": body})
        folder = testbed.subject.folder(case)
        root, top = testbed.subject.root, testbed.top(folder)
        self.root = self._place / "copy"
        self._copy = self.root / top.relative_to(root) if top.is_relative_to(root) else self.root
        # Where the server and the commands are started.
        self.folder = self._copy / folder.relative_to(top)
        if folder == root:
            self.root = self.folder
        self._opened = self._closed = False

    def environment(self) -> dict[str, str]:
        variables = self._testbed.environment(self._case, self.folder, self._values)
        return {**variables, **(self._database.variables if self._database else {})}

    def fill_in(self, endpoint: Endpoint) -> Endpoint:
        """Return an endpoint as the generator requests it, with all values filled in."""
        filled = _fill_in(endpoint, self._values)
        headers = identified(filled.headers, self.identity)
        return filled.model_copy(update={"headers": headers})

    def identify(self, given: Mapping[str, str]) -> None:
        """Send these headers with all further requests, and hide what they tell."""
        self.identity = given
        for text in private_parts(given):
            self._keep({"login": text})

    def _keep(self, private: Mapping[str, str]) -> None:
        """Hide these values as well."""
        self.secrets |= secrets(private)
        self.hide_values = hider(self.secrets)

    def hide(self, text: str) -> str:
        """Remove private values, and the names of this workspace's folders, from a text."""
        text = self.hide_values(text)
        return text.replace(str(self._tmp), "{tmp}").replace(str(self._place / "copy"), ".")

    def open(self) -> None:
        """Copy what was prepared, or run the commands `before` here; LaunchError not_ready."""
        prepared = prepare(self._testbed, self._case, self._log)
        self.fill(prepared)
        self._opened = True
        if prepared is None:
            self.run(self._case.before, "before")

    def fill(self, source: "Workspace | None") -> None:
        """Copy files and database of another workspace; None: the originals."""
        self._copy.parent.mkdir(parents=True, exist_ok=True)
        top = self._testbed.top(self._testbed.subject.folder(self._case))
        _copy_files(source._copy if source else top, self._copy)
        if source:
            _copy_files(source._tmp, self._tmp)
        original = source._database if source else self._original
        if original:
            if not source:
                original.sweep()
            self._database = original.fresh(self._place)
            self._database.fill(original)
            self._values |= self._database.variables
            self._keep(self._database.variables)

    @property
    def movable(self) -> bool:
        """Whether no file names its place, which would name this one when it is copied."""
        words = ("grep", "-rqsF", "--exclude=*.pyc", str(self._place), str(self._place))
        return bool(subprocess.run(words, check=False).returncode)

    def close(self) -> None:
        """Run the commands `after`, and remove all files.

        LaunchError not_ready, or stray_process. A second call does nothing. As a context manager
        it raises nothing in place of an exception of the block.
        """
        if self._closed:
            return
        self._closed = True
        with ExitStack() as stack:
            stack.callback(shutil.rmtree, self._place, ignore_errors=True)
            if self._database:
                stack.callback(self._database.drop)
            if self._opened:
                self.run(self._case.after, "after")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        with suppress(LaunchError) if error else nullcontext():
            self.close()

    def run(self, commands: Sequence[str], when: str) -> None:
        """Run commands, each to its end, which is that of all its processes."""
        # `python` is the application's; the server's own PATH stays as it is.
        programs = self._testbed.pythons[self._case.stack, self._case.python].parent
        variables = self.environment()
        variables["PATH"] = os.pathsep.join((str(programs), variables.get("PATH", os.defpath)))
        for number, command in enumerate(commands):
            log = self._log.with_suffix(f".{when}-{number}.log")
            with Session.start(
                ("sh", "-c", fill(command, self._values)),
                recorded=("sh", "-c", command),
                role="command",
                cores=None,
                env=variables,
                cwd=self.folder,
                log=log,
            ) as session:
                code = session.wait(COMMAND_SECONDS)
            if code != 0:
                running = f"it still running after {COMMAND_SECONDS:.0f} s"
                outcome = running if code is None else f"exit code {code}"
                words = last_words(self.hide_values(read_log(log)))
                raise LaunchError(
                    FlagName.NOT_READY,
                    f"{when} {command!r}: expected exit code 0, found {outcome}; "
                    f"it said: {words}{AT}{log}",
                )


@dataclass(frozen=True, slots=True)
class SideCase:
    """A case as one side defines it, with the testbed that it is launched on."""

    case: Case
    testbed: Testbed


BothSides = tuple[SideCase, SideCase]
"""A case as base and as head have it."""


def server_of(case: Case) -> Hashable:
    """The key of a case's server; cases with equal keys can share one."""
    return *_OF_SERVERS(case), tuple(sorted(case.env.items()))


_PREPARED: Final[dict[tuple[Path, Hashable], tuple[Lock, list[Workspace | None]]]] = {}


def prepare(testbed: Testbed, case: Case, log: Path) -> Workspace | None:
    """Run the commands `before` once, and keep what the launches of a side then begin with.

    None: there is nothing to keep, or it would not be the same in another place or at another port.
    LaunchError not_ready.
    """
    packages = frozenset(testbed.stacks[case.stack].packages.items())
    env = {name: text for name, text in case.env.items() if name != entry.WATCHED}
    commands = case.before, tuple(sorted(env.items())), case.python, packages
    key = testbed.subject.folder(case), (*commands, tuple(sorted(testbed.private.items())))
    lock, made = _PREPARED.setdefault(key, (Lock(), []))
    with lock:
        if not made:
            made.append(_prepare(testbed, case, log.with_suffix(".before.log")))
        return made[0]


def _prepare(testbed: Testbed, case: Case, log: Path) -> Workspace | None:
    texts = *case.before, *case.env.values(), *testbed.private.values()
    wanted = case.before or testbed.subject.target.copy_database
    if not wanted or any("{port}" in text for text in texts):
        return None
    part = case.model_copy(update={"after": ()})
    with ExitStack() as stack:
        made = stack.enter_context(Workspace(testbed, part, ports.free_port(), log))
        made.fill(None)
        made.run(case.before, "before")
        if case.before and not made.movable:
            return None
        stack.pop_all()
        return made


def prepare_all(sides: Iterable[SideCase]) -> None:
    """Prepare sides until one fails, which its launches report."""
    with suppress(LaunchError):
        for number, side in enumerate(sides):
            prepare(side.testbed, side.case, side.testbed.logs / f"side-{number}.log")


def forget(folder: Path) -> None:
    """Remove what was prepared from copies in a folder."""
    for key in [key for key in _PREPARED if key[0].is_relative_to(folder)]:
        for workspace in filter(None, _PREPARED.pop(key)[1]):
            with suppress(LaunchError):
                workspace.close()


def find_interface(testbed: Testbed, case: Case, log: Path) -> tuple[Interface, bool]:
    """Import a case's application in the surroundings of a launch.

    Return its interface, and whether it is what the named attribute makes.

    No side of a comparison contains what that leaves (compiled modules, a database). Raises
    UsageError if the application cannot be imported, or has neither interface; LaunchError
    not_ready if a command fails.
    """
    limit = case.ready_timeout if case.ready_timeout != READY_SECONDS else _IMPORT_SECONDS
    problem = f"{case.endpoint.app}: expected an application, found"
    with Workspace(testbed, case, ports.free_port(), log) as workspace:
        workspace.open()
        argv = testbed.pythons[case.stack, case.python], "-m", entry.__name__.rpartition(".")[2]
        with Session.start(
            tuple(map(str, argv)),
            role="command",
            cores=None,
            env=workspace.environment(),
            cwd=workspace.folder,
            log=log,
        ) as session:
            code = session.wait(limit)
            session.stop(0)
        output = workspace.hide(read_log(log))
        if code is None:
            raise UsageError(
                f"{problem} an import that goes on after {limit:g} s (--with ready-timeout=); "
                f"it said: {last_words(output)}"
            )
        if code == 0 and (answers := _ANSWER.findall(output)):
            interface, called = answers[-1]
            return interface, bool(called)
        words = last_words(output).removeprefix(_NO_APPLICATION)
        if not last_exception(output):
            words = f"an import that ends the process with exit code {code}; it said: {words}"
        raise UsageError(f"{problem}: {words}. {testbed.advise(case, output) or hints.USUAL}")


def _find_database(testbed: Testbed, case: Case) -> databases.Database | None:
    """Find the database to copy, if there is one; UsageError as `databases.find`."""
    if (named := testbed.subject.target.copy_database) is None:
        return None
    values = {**testbed.inherited, **testbed.private, **_variables(case, testbed.private)}
    return databases.find(
        named, values, testbed.folders(case),
        testbed.pythons[case.stack, case.python],
    )  # fmt: skip


def _copy_files(folder: Path, place: Path) -> None:
    """Copy all files of a folder as they are, which takes no room where the disk can share it."""
    command = ("cp", "-a", f"{folder}/.", str(place))
    done = subprocess.run(
        command, check=False, capture_output=True, encoding="utf-8", errors="replace"
    )
    if done.returncode:
        raise LaunchError(FlagName.NOT_READY, f"cp {folder}: {last_words(done.stderr)}")


def inherited_variables(*, shell: bool = False) -> dict[str, str]:
    """The variables of our environment that servers get.

    Of a `shell` all but those that would change the interpreter or the server, or that a CI system
    sets for its own programs.
    """
    if not shell:
        return {name: os.environ[name] for name in INHERITED if name in os.environ}
    ours = re.compile(f"{_NOT_THEIRS}|{_OF_CI}" if os.environ.get("CI") else _NOT_THEIRS)
    return {name: text for name, text in os.environ.items() if not ours.match(name)}


def secret_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Return those whose names or values look like secrets, which no output may repeat."""
    return {
        name: text
        for name, text in variables.items()
        if _SECRET_NAME.search(name) or re.search(r"://[^/@\s]+@", text)
    }
