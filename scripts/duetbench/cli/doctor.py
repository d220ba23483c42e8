"""`duetbench doctor`: what this machine has, and how that affects figures."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Annotated, Final, Literal

from rich.table import Table
from rich.text import Text
from typer import Exit, Option

from duetbench.cli.options import JsonOption
from duetbench.core import units
from duetbench.core.errors import DuetbenchError, SetupError
from duetbench.core.model import Frozen, Machine
from duetbench.host import command, machine, paths
from duetbench.host.console import Console, print_json
from duetbench.project import interpreters, stacks, tools
from duetbench.project.project import Project

_PATIENCE_S: Final = 10.0  # with GitHub: a person is waiting
_STYLES: Final = {"ok": "green", "absent": "dim", "missing": "bold red", "wrong": "bold red"}


class Item(Frozen):
    """One thing that measuring needs; `absent` if it is not needed, or cannot be checked."""

    what: str
    state: Literal["ok", "missing", "wrong", "absent"]
    detail: str


class Diagnosis(Frozen):
    """Everything that `duetbench doctor` shows; `conditions` describe the machine."""

    machine: Machine
    conditions: dict[str, str]
    findings: tuple[Item, ...]

    @property
    def lacking(self) -> tuple[str, ...]:
        """Requirements of measuring that are missing or wrong."""
        return tuple(f.what for f in self.findings if f.state in {"missing", "wrong"})


def doctor_command(
    as_json: JsonOption = False,
    details: Annotated[bool, Option("--details", help="Print all facts of this machine.")] = False,
) -> None:
    """Say whether this machine is ready to measure, and what is missing.

    With --details, show interpreters, tools, stacks, cores, and what else affects figures.

    $ duetbench doctor
    $ duetbench doctor --details
    $ duetbench doctor --json

    Exit code 0: everything needed is here. 1: something is missing or wrong, with advice.
    """
    project = Project.here()
    report(diagnose(project), "run `duetbench setup`", as_json=as_json, details=details)


def report(diagnosis: Diagnosis, remedy: str, *, as_json: bool, details: bool = True) -> None:
    """Print a diagnosis, whether it is ready first; raises Exit if something is lacking."""
    console = Console()
    if as_json:
        print_json(diagnosis.model_dump(mode="json"))
    else:
        not_ready = f"Not ready to measure: {', '.join(diagnosis.lacking)}; {remedy}"
        console.say(not_ready if diagnosis.lacking else "Ready to measure")
    if details and not as_json:
        tables: dict[str, list[tuple[str, ...]]] = {
            f"Machine {diagnosis.machine.id}": [(), *diagnosis.conditions.items()],
            "What measuring needs": [
                ("what", "state", "detail"),
                *((finding.what, finding.state, finding.detail) for finding in diagnosis.findings),
            ],
        }
        for title, (head, *rows) in tables.items():
            table = Table(*head, title=title, title_justify="left", show_header=bool(head))
            for row in rows:  # as plain text: no mark-up, and checksums and paths are not cut
                table.add_row(*(Text(cell, _STYLES.get(cell, ""), overflow="fold") for cell in row))
            console.print(table)
    elif not as_json:
        lacking = [finding for finding in diagnosis.findings if finding.what in diagnosis.lacking]
        for finding in lacking:
            console.say(f"  {finding.what}: {finding.state}: {finding.detail}")
        conditions = diagnosis.conditions
        console.say(f"  {conditions['CPU']}, cores {conditions['cores']}; more: --details")
        console.say(f"  {conditions['load']}")
    if diagnosis.lacking:
        raise Exit(1)


def diagnose(project: Project) -> Diagnosis:
    """Check everything; a missing requirement becomes a finding, never an error."""
    first = machine.core_times()
    findings = tuple(_findings(project))
    noise = machine.disturbance()  # after the checks, which take core time themselves
    last = machine.core_times()
    fingerprint = machine.fingerprint()
    conditions = _conditions(fingerprint, last.since(first).steal_share, last.steal_share)
    conditions["load"] = f"busy now: {noise}" if noise else "quiet now"
    return Diagnosis(machine=fingerprint, conditions=conditions, findings=findings)


def _list(cores: Sequence[int]) -> str:
    return ", ".join(map(str, cores))


def _conditions(facts: Machine, steal: float, since_boot: float) -> dict[str, str]:
    server, client = _list(facts.server_cores), _list(facts.client_cores)
    shared = list(machine.siblings_split(machine.allocate()))
    time_limit, memory_limit = machine.limits()
    cores = "unlimited" if time_limit is None else units.cores(time_limit)
    memory = "unlimited" if memory_limit is None else units.size(memory_limit)
    return {
        "CPU": facts.cpu,
        "cores": f"{facts.cores}: server {server}, generator {client}"
        + (f"; hyper-threads of one core: {shared}" if shared else ""),
        "pinning": "each on its own cores" if facts.pinned else "impossible: one core for both",
        "memory": units.size(facts.memory),
        "system": f"{facts.os}, kernel {facts.kernel}",
        "hypervisor": facts.virtual or "none seen",
        "frequency governor": facts.governor or "none shown",
        "steal": f"{units.share(steal)} now, {units.share(since_boot)} since boot",
        "control groups": f"cores {cores}, memory {memory}",
        "cache": f"{paths.cache_dir()} ({command.free_gb(paths.cache_dir()):.1f} GB free)",
    }


def _findings(project: Project) -> Iterator[Item]:
    declared = project.known_stacks
    looks: dict[str, Callable[[], str]] = {"oha": partial(_oha, project)}
    for name in project.configuration.interpreters if declared else ():
        looks[f"CPython {name}"] = partial(_interpreter, project, name)
    settings = project.configuration
    optional = {f"CPython {name}" for name in settings.interpreters.keys() - settings.usual}
    for name, pythons in declared.items():
        for python in pythons:
            looks[f"{name} for {python}"] = partial(_environment, project, name, python)
    for what, look in looks.items():
        try:
            yield Item(what=what, state="ok", detail=look())
        except SetupError as error:
            if what in optional:
                yield Item(what=what, state="absent", detail=f"not required; {error}")
            else:
                yield Item(what=what, state="missing", detail=str(error))
        except DuetbenchError as error:
            yield Item(what=what, state="wrong", detail=str(error))
    if place := shutil.which(tools.VALGRIND):
        yield Item(what=tools.VALGRIND, state="ok", detail=place)
    else:
        detail = f"not required; {tools.WHY_VALGRIND}: {tools.VALGRIND_REMEDY}"
        yield Item(what=tools.VALGRIND, state="absent", detail=detail)


def _interpreter(project: Project, name: str) -> str:
    interpreter = project.interpreter(name)
    proof = interpreters.prove(interpreter.executable)
    if different := interpreters.mismatch(project.configuration.interpreters[name], proof):
        raise DuetbenchError(different)
    gil = "on" if proof["gil"] else "off"
    return f"{proof['version']}, GIL {gil}, {interpreter.origin}; {interpreter.executable}"


def _environment(project: Project, stack_name: str, python_name: str) -> str:
    stack, python = project.lock(stack_name), project.interpreter(python_name)
    stacks.executable(stack, python)
    if fault := stacks.environment_fault(stack, stacks.place(stack, python)):
        raise DuetbenchError(fault)
    return f"{len(stack.packages)} packages, lock {stack.digest[:12]}"


def _oha(project: Project) -> str:
    spec = project.configuration.oha
    program = tools.find_oha(spec)
    if fault := tools.oha_fault(spec, tools.oha_place(spec)):
        raise DuetbenchError(fault)
    return f"{spec.version}, {tools.oha_origin(program)}; {program}"
