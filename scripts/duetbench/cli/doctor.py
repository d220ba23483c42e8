"""`duetbench doctor`: what this machine has, and how that affects figures."""

import shutil
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Annotated, Any, Final, Literal

from rich.table import Table
from rich.text import Text
from typer import Exit, Option

from duetbench.app import tools
from duetbench.app.configuration import Configuration, load
from duetbench.app.schema import OhaSpec
from duetbench.cli.options import JsonOption
from duetbench.core import units
from duetbench.core.errors import DuetbenchError, SetupError
from duetbench.core.model import Frozen, Machine
from duetbench.host import command, machine, paths
from duetbench.host.console import Console, print_json

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

    With --details, show tools, cores, and what else affects figures.

    $ duetbench doctor
    $ duetbench doctor --details
    $ duetbench doctor --json

    Exit code 0: everything needed is here. 1: something is missing or wrong, with advice.
    """
    configured = load(paths.project_root())
    report(diagnose(configured), "run `duetbench setup`", as_json=as_json, details=details)


def report(diagnosis: Diagnosis, remedy: str, *, as_json: bool, details: bool = True) -> None:
    """Print a diagnosis, whether it is ready first; raises Exit if something is lacking."""
    console, conditions, lacking = Console(), diagnosis.conditions, diagnosis.lacking
    if as_json:
        print_json(diagnosis.model_dump(mode="json"))
    else:
        not_ready = f"Not ready to measure: {', '.join(lacking)}; {remedy}"
        console.say(not_ready if lacking else "Ready to measure")
        rows = [(finding.what, finding.state, finding.detail) for finding in diagnosis.findings]
        if details:
            title = f"Machine {diagnosis.machine.id}"
            console.print(_table(conditions.items(), title=title, show_header=False))
            console.print(_table(rows, "what", "state", "detail", title="What measuring needs"))
        else:
            for row in rows:
                if row[0] in lacking:
                    console.say(f"  {': '.join(row)}")
            console.say(f"  {conditions['CPU']}, cores {conditions['cores']}; more: --details")
            console.say(f"  {conditions['load']}")
    if lacking:
        raise Exit(1)


def _table(rows: Iterable[tuple[str, ...]], *head: str, **settings: Any) -> Table:
    """Make a table of plain texts: without mark-up, and checksums and paths are not cut."""
    table = Table(*head, title_justify="left", **settings)
    for row in rows:
        table.add_row(*(Text(cell, _STYLES.get(cell, ""), overflow="fold") for cell in row))
    return table


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
    shared = machine.siblings_split(facts.server_cores, facts.client_cores)
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


def _oha(spec: OhaSpec) -> str:
    program = tools.find_oha(spec)
    if fault := tools.oha_fault(spec):
        raise DuetbenchError(fault)
    return f"{spec.version}, {tools.oha_origin(program)}; {program}"


def _valgrind() -> str:
    if place := shutil.which(tools.VALGRIND):
        return place
    raise SetupError(f"{tools.WHY_VALGRIND}: {tools.VALGRIND_REMEDY}")
