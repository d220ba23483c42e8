"""What launches need from the machine and the checkout: a `Testbed`, and a case on it."""

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from duetbench.app import stacks, tools
from duetbench.app.entry.duetbench_names import APP, FACTORY, INTERFACE, LOOP
from duetbench.app.interpreters import JIT, Interpreter
from duetbench.app.servers import SERVERS
from duetbench.app.stacks import Stack
from duetbench.app.subject import Subject
from duetbench.core.errors import UsageError
from duetbench.core.model import Case, Load, Machine
from duetbench.host import machine, paths
from duetbench.host.console import Narrator

INHERITED: Final = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ")
"""Variables of our environment that servers and benchmarks get. Any other (PYTHON_GIL,
UVICORN_WORKERS, a proxy) could change the measurement without a trace in the record."""

_NOT_THEIRS: Final = (
    r"PYTHON(?!PATH$)|VIRTUAL_ENV|WEB_CONCURRENCY$|GUNICORN_|UVICORN_|GRANIAN_|HYPERCORN_|DUETBENCH_"
    r"|COVERAGE_|PYTEST_|_$"
)
_OF_CI: Final = r"GITHUB_|ACTIONS_|RUNNER_|INPUT_|CI_|.*(TOKEN|SECRET|PASSWORD|CREDENTIAL)"

ENTRY: Final = Path(__file__).with_name("entry")
"""The folder of the module that servers serve, and that wraps the application."""


def fill(text: str, values: Mapping[str, str]) -> str:
    """Replace each `{name}` by its value; all other braces stay."""
    names = "|".join(map(re.escape, values))
    return re.sub(rf"\{{({names})\}}", lambda match: values[match[1]], text) if names else text


def variables_of(case: Case, values: Mapping[str, str]) -> dict[str, str]:
    """The variables that a case adds to its server's environment."""
    variables = {name: fill(text, values) for name, text in case.env.items()}
    return {**variables, **{name: values[name] for name in case.env_names}}


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


@dataclass(frozen=True, slots=True)
class SideCase:
    """A case as one side defines it, with the testbed that it is launched on."""

    case: Case
    testbed: Testbed

    @property
    def python(self) -> Path:
        """The Python of its environment."""
        return self.testbed.pythons[self.case.stack, self.case.python]

    @property
    def interpreter(self) -> Interpreter:
        return self.testbed.interpreters[self.case.python]

    @property
    def stack(self) -> Stack:
        return self.testbed.stacks[self.case.stack]

    @property
    def folder(self) -> Path:
        """The folder of its application."""
        return self.testbed.subject.folder(self.case)

    @property
    def folders(self) -> tuple[Path, ...]:
        """That folder as its user has it, and those of the repository above it."""
        folder = self.testbed.subject.original(self.case)
        return folder, *folder.parents[: self.testbed.subject.depth]

    @property
    def server_cores(self) -> tuple[int, ...]:
        machine = self.testbed.machine
        shared = tuple(sorted({*machine.server_cores, *machine.client_cores}))
        return shared if self.case.cores == "shared" else machine.server_cores

    @property
    def client_cores(self) -> tuple[int, ...]:
        split = self.case.cores == "split"
        return self.testbed.machine.client_cores if split else self.server_cores

    def top(self, folder: Path) -> Path:
        """What is copied around the application's folder, of the original or of a copy."""
        return paths.above(folder, self.testbed.subject.depth)

    def environment(
        self, folder: Path | None = None, values: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """The variables of its server, in a copy of its folder if there is one.

        `values` fill the placeholders: those of all private variables, and the launch's own. What
        is inherited names the copy where it names the repository.
        """
        case, subject = self.case, self.testbed.subject
        place = folder or self.folder
        search = [os.path.normpath(place / name) for name in subject.search]
        original, copied = (str(self.top(path)) for path in (subject.original(case), place))
        inherited = {
            name: text if name == "PATH" else text.replace(original, copied)
            for name, text in self.testbed.inherited.items()
        }
        variables = variables_of(case, self.testbed.private if values is None else values)
        theirs = variables.pop("PYTHONPATH", inherited.pop("PYTHONPATH", ""))
        return {
            **inherited,
            "PYTHONPATH": os.pathsep.join(filter(None, map(str, (ENTRY, theirs, *search)))),
            "PYTHONUNBUFFERED": "1",
            APP: case.endpoint.app,
            FACTORY: "1" if case.endpoint.factory else "",
            INTERFACE: case.endpoint.interface,
            LOOP: case.loop,
            **({JIT: "1"} if self.interpreter.jit else {}),
            **variables,
        }

    def server_argv(self, port: int) -> list[str]:
        """The command that starts its server with our module, which wraps the application."""
        case, server = self.case, SERVERS[self.case.server]
        # The last option wins. A file of settings is ours, which reads the user's.
        return [
            *(str(self.python), "-m", server.name),
            *(*server.arguments(case, port).split(), *case.server_args, *server.settings),
        ]


BothSides = tuple[SideCase, SideCase]
"""A case as base and as head have it."""


def assemble(
    subject: Subject,
    cases: Sequence[Case],
    logs: Path,
    narrator: Narrator | None = None,
    *,
    loaded: bool = True,
    lock: Callable[[str], Stack] | None = None,
) -> Testbed:
    """Collect what cases of a subject need; with a narrator, missing environments are made.

    Without `loaded` there is no load generator. `lock` finds the lock of a name, by default that of
    the subject. A private variable that a target does not set comes from our environment.

    Raises:
        SetupError: A lock, an interpreter, an environment or a tool is missing, or cannot be made.
        UsageError: A private variable is set nowhere.
    """
    pairs = sorted({(case.stack, case.python) for case in cases})
    pythons = {name: subject.interpreter(name) for name in sorted({name for _, name in pairs})}
    locks = {name: (lock or subject.lock)(name) for name in sorted({name for name, _ in pairs})}
    if narrator is not None:
        for stack, python in pairs:
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
        oha=tools.find_oha(subject.configuration.oha) if loaded else Path("oha"),
        machine=machine.fingerprint(),
        pythons={(s, p): stacks.executable(locks[s], pythons[p]) for s, p in pairs},
        interpreters=pythons,
        stacks=locks,
        logs=logs,
        inherited=inherited_variables(shell=not subject.fixed),
        private=private,
    )


def inherited_variables(*, shell: bool = False) -> dict[str, str]:
    """The variables of our environment that servers get.

    Of a `shell` all but those that would change the interpreter or the server, or that a CI system
    sets for its own programs.
    """
    if not shell:
        return {name: os.environ[name] for name in INHERITED if name in os.environ}
    ours = re.compile(f"{_NOT_THEIRS}|{_OF_CI}" if os.environ.get("CI") else _NOT_THEIRS)
    return {name: text for name, text in os.environ.items() if not ours.match(name)}
