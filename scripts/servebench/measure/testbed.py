"""What launches need from the machine and the checkout, resolved once per run."""

import os
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from packaging.utils import canonicalize_name

from servebench.core.errors import DeclarationError
from servebench.core.model import Case, Commands, Machine
from servebench.declare.servers import SERVERS
from servebench.host import machine, paths
from servebench.measure import oha as load
from servebench.plan.duration import ceiling
from servebench.toolchain import interpreters, stacks, tools
from servebench.toolchain.interpreters import Interpreter

INHERITED: Final = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ")
"""What servers and benchmarks get of our environment. Anything else (PYTHON_GIL, UVICORN_WORKERS, a
proxy) could change what is measured without anybody seeing it in the record."""

_PLACEHOLDER: Final = re.compile(r"(\$(?:PORT|PYTHON)\b)")


@dataclass(frozen=True, slots=True)
class Rig:
    """Tools, interpreters, stacks and cores for all launches of a run.

    `pythons` are the executables of each (stack, interpreter), `inherited` the
    environment that servers inherit.
    """

    apps: Path
    oha: Path
    machine: Machine
    pythons: Mapping[tuple[str, str], Path]
    interpreters: Mapping[str, Interpreter]
    stacks: Mapping[str, stacks.Stack]
    logs: Path
    inherited: Mapping[str, str]

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

    def environment(self, case: Case) -> dict[str, str]:
        search = os.pathsep.join((str(self.folder(case)), str(self.apps)))
        return {**self.inherited, "PYTHONPATH": search, "PYTHONUNBUFFERED": "1", **case.env}

    def folder(self, case: Case) -> Path:
        return self.apps / case.experiment

    def server_argv(self, case: Case, port: int, metrics_port: int | None = None) -> list[str]:
        server = SERVERS[case.server]
        python = self.pythons[case.stack, case.python]
        return [str(python), "-m", server.name, *server.arguments(case, port, metrics_port)]

    def commands(self, case: Case) -> Commands:
        """The case's command lines for people, with names in place of this machine's paths."""
        variables = {"PYTHONPATH": f"apps/{case.experiment}:apps", **case.env}
        server, port = SERVERS[case.server], 65_000
        arguments = [a.replace(str(port), "$PORT") for a in server.arguments(case, port, None)]
        clients = self.client_cores(case)
        generator = load.command(
            load.Client(
                Path("oha"), case.load, f"http://127.0.0.1:$PORT{case.endpoint.path}", clients
            )
        )
        serve = ["env", *(f"{name}={value}" for name, value in variables.items())]
        serve += ["taskset", "-c", _list(self.server_cores(case)), "$PYTHON", "-m", server.name]
        return Commands(
            server=" ".join(map(_word, [*serve, *arguments])),
            load=" ".join(map(_word, ["taskset", "-c", _list(clients), *generator])),
        )


def _word(text: str) -> str:
    """Quote for a shell, but let it fill in the placeholders: a declaration is anybody's."""
    parts = [part for part in _PLACEHOLDER.split(text) if part]
    quoted = (part if _PLACEHOLDER.fullmatch(part) else shlex.quote(part) for part in parts)
    return "".join(quoted) or "''"


def _list(cores: Iterable[int]) -> str:
    return ",".join(map(str, cores))


def require_packages(cases: Iterable[Case], locked: Mapping[str, stacks.Stack]) -> None:
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
                f"apps/pyproject.toml, then `servebench stack lock {case.stack}`",
            )


def assemble(cases: Iterable[Case], logs: Path) -> Rig:
    """Resolve everything that the cases need, from this checkout; errors as `equip`."""
    cases = tuple(cases)
    locked = {name: stacks.read(name) for name in sorted({case.stack for case in cases})}
    require_packages(cases, locked)
    return equip(
        cases,
        logs,
        apps=paths.project_root() / "apps",
        locked=locked,
        found={n: interpreters.locate(n) for n in sorted({case.python for case in cases})},
    )


def equip(
    cases: Iterable[Case],
    logs: Path,
    *,
    apps: Path,
    locked: Mapping[str, stacks.Stack],
    found: Mapping[str, Interpreter],
) -> Rig:
    """Put together what the cases need; SetupError names a missing environment or tool."""
    pairs = sorted({(case.stack, case.python) for case in cases})
    logs.mkdir(parents=True, exist_ok=True)
    return Rig(
        apps=apps,
        oha=tools.oha(),
        machine=machine.fingerprint(),
        pythons={
            (stack, python): stacks.executable(locked[stack], found[python])
            for stack, python in pairs
        },
        interpreters=found,
        stacks=dict(locked),
        logs=logs,
        inherited={name: os.environ[name] for name in INHERITED if name in os.environ},
    )
