"""`duetbench doctor`: what this machine has, and how that affects figures."""

import shutil
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

from typer import Exit

from duetbench.app import tools
from duetbench.app.configuration import Configuration, load
from duetbench.app.schema import OhaSpec
from duetbench.cli.options import JsonOption
from duetbench.core import units
from duetbench.core.errors import DuetbenchError, SetupError
from duetbench.core.model import Frozen, Machine
from duetbench.host import command, machine, paths
from duetbench.host.console import Console, print_json


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


def doctor_command(as_json: JsonOption = False) -> None:
    """Say whether this machine is ready to measure, what is missing, and what affects figures.

    $ duetbench doctor
    $ duetbench doctor --json

    Exit code 0: everything needed is here. 1: something is missing or wrong, with advice.
    """
    report(diagnose(load(paths.project_root())), "run `duetbench setup`", as_json=as_json)


def report(diagnosis: Diagnosis, remedy: str, *, as_json: bool) -> None:
    """Print a diagnosis, whether it is ready first; raises Exit if something is lacking."""
    console, lacking = Console(), diagnosis.lacking
    if as_json:
        print_json(diagnosis.model_dump(mode="json"))
    else:
        not_ready = f"Not ready to measure: {', '.join(lacking)}; {remedy}"
        console.say(not_ready if lacking else "Ready to measure")
        for finding in diagnosis.findings:
            console.say(f"  {finding.what}: {finding.state}; {finding.detail}")
        for name, text in diagnosis.conditions.items():
            console.say(f"  {name}: {text}")
    if lacking:
        raise Exit(1)


def look(what: str, check: Callable[[], str], *, optional: bool = False) -> Item:
    """Check one thing, by a function that returns a detail; its DuetbenchError says what lacks."""
    try:
        return Item(what=what, state="ok", detail=check())
    except SetupError as error:
        if optional:
            return Item(what=what, state="absent", detail=f"not required; {error}")
        return Item(what=what, state="missing", detail=str(error))
    except DuetbenchError as error:
        return Item(what=what, state="wrong", detail=str(error))


def diagnose(configured: Configuration, others: Sequence[Item] = ()) -> Diagnosis:
    """Check what any measurement needs, beside `others`; a fault becomes a finding, no error."""
    first = machine.core_times()
    oha = look("oha", partial(_oha, configured.oha))
    valgrind = look(tools.VALGRIND, _valgrind, optional=True)
    noise = machine.disturbance()  # after the checks, which take core time themselves
    last = machine.core_times()
    fingerprint = machine.fingerprint()
    conditions = _conditions(fingerprint, last.since(first).steal_share, last.steal_share)
    conditions["load"] = f"busy now: {noise}" if noise else "quiet now"
    findings = (oha, *others, valgrind)
    return Diagnosis(machine=fingerprint, conditions=conditions, findings=findings)


def _conditions(facts: Machine, steal: float, since_boot: float) -> dict[str, str]:
    server, client = (", ".join(map(str, c)) for c in (facts.server_cores, facts.client_cores))
    time_limit, memory_limit = machine.limits()
    cores = "unlimited" if time_limit is None else units.cores(time_limit)
    memory = "unlimited" if memory_limit is None else units.size(memory_limit)
    return {
        "CPU": facts.cpu,
        "cores": f"{facts.cores}: server {server}, generator {client}",
        "pinning": "each on its own cores" if facts.pinned else "impossible: one core for both",
        "memory": units.size(facts.memory),
        "system": f"{facts.os}, kernel {facts.kernel}",
        "hypervisor": facts.virtual or "none seen",
        "frequency governor": facts.governor or "none shown",
        "steal": f"{units.share(steal)} now, {units.share(since_boot)} since boot",
        "control groups": f"cores {cores}, memory {memory}",
        "cache": f"{paths.cache_dir()} ({command.free_gb(paths.cache_dir()):.1f} GB free)",
    }


def _oha(spec: OhaSpec) -> str:
    program = tools.find_oha(spec)
    if fault := tools.oha_fault(spec):
        raise DuetbenchError(fault)
    return f"{spec.version}, {tools.oha_origin(program)}; {program}"


def _valgrind() -> str:
    if place := shutil.which(tools.VALGRIND):
        return place
    raise SetupError(tools.NO_VALGRIND)
