"""What launches need from the machine and the checkout, resolved once per run."""

import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, get_args

from packaging.utils import canonicalize_name

from duetbench.core.errors import DeclarationError, UsageError
from duetbench.core.model import Case, Commands, Interface, Machine
from duetbench.host import machine
from duetbench.measure import oha as load
from duetbench.measure.entry import duetbench_entry as entry
from duetbench.project import stacks
from duetbench.project.plan import ceiling
from duetbench.project.servers import SERVERS
from duetbench.project.types import Interpreter, Stack

INHERITED: Final = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ")
"""What servers and benchmarks get of our environment. Anything else (PYTHON_GIL, UVICORN_WORKERS, a
proxy) could change what is measured without anybody seeing it in the record."""

ENTRY: Final = Path(entry.__file__).parent
"""The folder with the module that servers serve, which has the application; see there."""

_OF_LAUNCHES: Final = ("tmp", "port")
_IMPORT_SECONDS: Final = 120.0


def fill(text: str, values: Mapping[str, str]) -> str:
    """Put values in the places of their `{names}`; all other braces stay as they are."""
    names = "|".join(map(re.escape, values))
    return re.sub(rf"\{{({names})\}}", lambda match: values[match[1]], text) if names else text


@dataclass(frozen=True, slots=True)
class Testbed:
    """Tools, interpreters, stacks and cores for all launches of a run.

    Attributes:
        apps: The applications of a checkout, or a copy of it; of a target it need not exist.
        pythons: The executables of each (stack, interpreter).
        inherited: The environment that servers inherit.
        private: Variables that are recorded by their names only. Their values may have the places
            `{tmp}` and `{port}`, which each launch fills.
        imports: Folders that a target is imported from, relative to the root of its copy; empty:
            there are only experiments here.
    """

    apps: Path
    oha: Path
    machine: Machine
    pythons: Mapping[tuple[str, str], Path]
    interpreters: Mapping[str, Interpreter]
    stacks: Mapping[str, Stack]
    logs: Path
    inherited: Mapping[str, str]
    private: Mapping[str, str] = field(default_factory=dict)
    imports: tuple[str, ...] = ()

    def server_cores(self, case: Case) -> tuple[int, ...]:
        cores = self.machine.server_cores
        if case.cores == "shared":
            cores = tuple(sorted({*cores, *self.machine.client_cores}))
        return cores

    def client_cores(self, case: Case) -> tuple[int, ...]:
        return self.machine.client_cores if case.cores == "split" else self.server_cores(case)

    def ceiling(self, case: Case, unit: float) -> float | None:
        """Requests/s that arithmetic allows with single requests of `unit` s; None: undeclared."""
        cores = len(self.server_cores(case))
        return ceiling(case, unit=unit, cores=cores, rate=case.load.rate)

    @property
    def target(self) -> bool:
        """Whether what is served is the project itself, and no experiment of `apps/`."""
        return bool(self.imports)

    def folder(self, case: Case) -> Path:
        """Where the application is, and where its server is started."""
        return self.apps.parent if self.target else self.apps / case.experiment

    def environment(
        self, case: Case, folder: Path | None = None, values: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """The variables of a case's server, in a copy of its folder if there is one.

        `values` are those of the placeholders: of all private variables, and of the launch's own.
        """
        values = self.private if values is None else values
        place = folder or self.folder(case)
        search = [place / name for name in self.imports]
        if not self.target:
            search = [place, self.apps]
        variables = {name: fill(text, values) for name, text in case.env.items()}
        variables |= {name: values[name] for name in case.env_names}
        theirs = variables.pop("PYTHONPATH", "")
        wrapped = case.endpoint
        return {
            **self.inherited,
            "PYTHONPATH": os.pathsep.join(filter(None, map(str, (ENTRY, theirs, *search)))),
            "PYTHONUNBUFFERED": "1",
            entry.APP: wrapped.app,
            entry.FACTORY: "1" if wrapped.factory else "",
            entry.INTERFACE: wrapped.interface,
            **variables,
        }

    def server_argv(self, case: Case, port: int, metrics_port: int | None = None) -> list[str]:
        """What starts a case's server, told to serve our module, which has the application."""
        server = SERVERS[case.server]
        served = {"app": f"{entry.__name__.rpartition('.')[2]}:app", "factory": False}
        wrapped = case.model_copy(update={"endpoint": case.endpoint.model_copy(update=served)})
        python = self.pythons[case.stack, case.python]
        arguments = server.arguments(wrapped, port, metrics_port)
        return [str(python), "-m", server.name, *server.settings, *arguments]

    def commands(self, case: Case) -> Commands:
        """The case's command lines for people: the bare application, without what is ours.

        Names stand in place of this machine's paths, and of what is private.
        """
        server, port = SERVERS[case.server], 65_000
        names = {name: f"${name}" for name in case.env_names}
        names |= {name: f"${name.upper()}" for name in _OF_LAUNCHES}
        search = self.imports or (f"apps/{case.experiment}", "apps")
        variables = {"PYTHONPATH": ":".join(search)}
        variables |= {name: fill(text, names) for name, text in case.env.items()}
        variables |= {name: f"${name}" for name in case.env_names}
        arguments = [a.replace(str(port), "$PORT") for a in server.arguments(case, port, None)]
        endpoint = case.endpoint
        clients = self.client_cores(case)
        generator = load.command(
            load.Client(
                Path("oha"),
                case.load,
                f"http://127.0.0.1:$PORT{endpoint.path}",
                clients,
                method=endpoint.method,
                body=fill(endpoint.body, names),
                urls=endpoint.paths,
                headers={name: fill(text, names) for name, text in endpoint.headers.items()},
            ),
            inline=True,
        )
        serve = ["env", *(f"{name}={value}" for name, value in variables.items())]
        serve += ["taskset", "-c", _list(self.server_cores(case)), "$PYTHON", "-m", server.name]
        pinned = ["taskset", "-c", _list(clients), *generator]
        return Commands(
            server=" ".join(_word(text, case.env_names) for text in [*serve, *arguments]),
            load=" ".join(_word(text, case.env_names) for text in pinned),
        )


@dataclass(frozen=True, slots=True)
class SideCase:
    """A case as one side defines it, with the testbed that it is launched on.

    `job`: a unit of work in its environment whose instructions are counted, in place of a request.
    """

    case: Case
    testbed: Testbed
    job: str = ""


def server_of(case: Case) -> Hashable:
    """What the case's server is started with; cases for which it is equal can share one."""
    app, variables = case.endpoint, tuple(sorted(case.env.items()))
    return (
        case.experiment,
        case.stack,
        case.python,
        case.server,
        app.app,
        app.interface,
        app.factory,
        case.loop,
        case.workers,
        case.threads,
        case.cores,
        variables,
        case.env_names,
        case.before,
        case.after,
    )


def find_interface(
    python: Path,
    app: str,
    *,
    factory: bool,
    root: Path,
    imports: tuple[str, ...],
    env: Mapping[str, str],
) -> Interface:
    """Import an application where it is to be served, and tell what it speaks.

    `env` is added to what servers inherit, its places filled as a launch does. UsageError: it
    cannot be imported, or is neither.
    """
    search = os.pathsep.join(map(str, (ENTRY, *(root / name for name in imports))))
    with tempfile.TemporaryDirectory() as folder:
        variables = {name: fill(text, {"tmp": folder, "port": "0"}) for name, text in env.items()}
        done = subprocess.run(
            [python, "-m", entry.__name__.rpartition(".")[2]],
            cwd=root,
            capture_output=True,
            text=True,
            check=False,
            timeout=_IMPORT_SECONDS,
            env={
                **_inherited(),
                **variables,
                "PYTHONPATH": search,
                entry.APP: app,
                entry.FACTORY: "1" if factory else "",
            },
        )
    answer = done.stdout.strip().rpartition("\n")[2]
    for interface in get_args(Interface):
        if done.returncode == 0 and answer == interface:
            return interface  # type: ignore[no-any-return]
    words = done.stderr.strip().rpartition("\n")[2] or answer or "nothing"
    raise UsageError(f"{app}: expected an application, found: {words}")


def _inherited() -> dict[str, str]:
    return {name: os.environ[name] for name in INHERITED if name in os.environ}


def _word(text: str, private: Iterable[str]) -> str:
    """Quote for a shell, but let it fill in the placeholders: a declaration is anybody's."""
    names = "|".join(("PORT", "PYTHON", "TMP", *sorted(private)))
    parts = [part for part in re.split(rf"(\$(?:{names})\b)", text) if part]
    plain = {"$PORT", "$PYTHON", "$TMP"}
    placeholders = {*plain, *(f"${name}" for name in private)}
    quoted = (
        shlex.quote(p) if p not in placeholders else p if p in plain else f'"{p}"' for p in parts
    )
    return "".join(quoted) or "''"


def _list(cores: Iterable[int]) -> str:
    return ",".join(map(str, cores))


def require_packages(cases: Iterable[Case], locked: Mapping[str, Stack]) -> None:
    """Prove that the stacks have what the servers of the cases import; DeclarationError if not."""
    for case in cases:
        server, stack = SERVERS[case.server], locked[case.stack]
        needed = {server.name, *server.loads(case)}
        if lacking := sorted(needed - {canonicalize_name(name) for name in stack.packages}):
            raise DeclarationError(
                str(stack.lock),
                "packages",
                f"no {' and no '.join(lacking)}",
                f"what {case.id} needs, served by {server.name} on the loop {case.loop}: "
                f"{', '.join(sorted(needed))}; add it to the dependency group {case.stack} of "
                f"apps/pyproject.toml, then `duetbench stack lock {case.stack}`",
            )


def equip(
    cases: Iterable[Case],
    logs: Path,
    *,
    apps: Path,
    locked: Mapping[str, Stack],
    interpreters: Mapping[str, Interpreter],
    private: Mapping[str, str] | None = None,
    generator: Path,
    imports: tuple[str, ...] = (),
) -> Testbed:
    """Put together what the cases need, with `private` variables and `imports` as in `Testbed`.

    A private variable that is not given is taken from our environment.

    Raises:
        SetupError: An environment or tool is missing.
        UsageError: Nobody gives a private variable.
    """
    cases = tuple(cases)
    pairs = sorted({(case.stack, case.python) for case in cases})
    hidden = dict(private or {})
    for case in cases:
        for name in case.env_names:
            if name not in hidden and name not in os.environ:
                raise UsageError(
                    f"{case.id} wants the variable {name}: set it, or give it with --env "
                    f"{name}=… or --env-file"
                )
            hidden.setdefault(name, os.environ.get(name, ""))
    logs.mkdir(parents=True, exist_ok=True)
    return Testbed(
        apps=apps,
        oha=generator,
        machine=machine.fingerprint(),
        pythons={
            (stack, python): stacks.executable(locked[stack], interpreters[python])
            for stack, python in pairs
        },
        interpreters=interpreters,
        stacks=dict(locked),
        logs=logs,
        inherited=_inherited(),
        private=hidden,
        imports=imports,
    )
