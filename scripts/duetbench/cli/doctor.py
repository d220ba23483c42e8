"""`duetbench doctor`: what this machine has, and what that does to figures."""

from collections.abc import Iterable

from rich.table import Table
from rich.text import Text
from typer import Exit

from duetbench.cli.options import JsonOption
from duetbench.core import units
from duetbench.host.console import Console, print_json
from duetbench.project import doctor, prune
from duetbench.project.doctor import Diagnosis, Finding
from duetbench.project.project import Project

_STYLES = {"ok": "green", "absent": "dim", "missing": "bold red", "wrong": "bold red"}


def doctor_command(as_json: JsonOption = False) -> None:
    """Show interpreters, tools, stacks, cores, and the warnings this machine will raise.

    Exit code 0: all that measuring needs is there. 1: something is missing or wrong, with what to
    do; warnings alone are none.
    """
    diagnosis = doctor.diagnose(Project.here())
    console = Console()
    if as_json:
        print_json(diagnosis.model_dump(mode="json"))
    else:
        for table in tables(diagnosis):
            console.print(table)
        unused = f"{diagnosis.cache_unused} parts unused for {prune.DAYS} days"
        unused = f"; {unused}: duetbench setup --prune" if diagnosis.cache_unused else ""
        console.say(f"Cache: {diagnosis.cache} ({diagnosis.cache_free_gb:g} GB free{unused})")
        console.say(summary(diagnosis))
    if not diagnosis.healthy:
        raise Exit(1)


def summary(diagnosis: Diagnosis) -> str:
    """What it comes to, in a line."""
    wrong = [finding for finding in diagnosis.findings if finding.state in {"missing", "wrong"}]
    if wrong:
        names = ", ".join(finding.what for finding in wrong)
        return f"Not ready to measure: {names}; the remedies are above"
    if diagnosis.flags:
        return f"Ready to measure; warnings: {', '.join(flag.name for flag in diagnosis.flags)}"
    return "Ready to measure"


def tables(diagnosis: Diagnosis) -> tuple[Table, ...]:
    """The diagnosis as tables for people."""
    kinds = ("Interpreters", "Tools", "Stacks")
    groups = ((kind, getattr(diagnosis, kind.lower())) for kind in kinds)
    findings = (findings_table(kind, findings) for kind, findings in groups if findings)
    title = "Warnings that launches here will get"
    flags = Table("flag", "because", title=title, title_justify="left")
    for flag in diagnosis.flags:
        flags.add_row(flag.name, flag.detail)
    return (_machine(diagnosis), *findings, flags)


def _machine(diagnosis: Diagnosis) -> Table:
    machine = diagnosis.machine
    table = Table(title=f"Machine {machine.id}", title_justify="left", show_header=False)
    quota, limit = diagnosis.cores_quota, diagnosis.memory_limit
    split = machine.server_cores, machine.client_cores
    server, client = (", ".join(map(str, cores)) for cores in split)
    shared = list(diagnosis.hyper_threads_shared)
    rows = {
        "CPU": machine.cpu,
        "cores": f"{machine.cores}: server {server}, generator {client}"
        + (f"; hyper-threads of one core: {shared}" if shared else ""),
        "pinning": "each on its own cores" if machine.pinned else "impossible: one core for both",
        "memory": units.size(machine.memory),
        "system": f"{machine.os}, kernel {machine.kernel}",
        "hypervisor": machine.virtual or "none seen",
        "frequency governor": machine.governor or "none shown",
        "steal": f"{units.share(diagnosis.steal_now)} now, "
        f"{units.share(diagnosis.steal_since_boot)} since boot",
        "control groups": "no limits"
        if quota is None and limit is None
        else f"cores {'unlimited' if quota is None else units.cores(quota)}, "
        f"memory {'unlimited' if limit is None else units.size(limit)}",
    }
    for name, value in rows.items():
        table.add_row(name, Text(value))
    return table


def findings_table(title: str, findings: Iterable[Finding]) -> Table:
    """Findings with their remedies as a table."""
    table = Table("what", "state", title=title, title_justify="left")
    table.add_column("detail", overflow="fold")  # checksums and paths are shown whole
    for finding in findings:
        remedy = f"\nremedy: {finding.remedy}" if finding.remedy else ""
        state = Text(finding.state, style=_STYLES[finding.state])
        table.add_row(finding.what, state, Text(finding.detail + remedy))  # no mark-up in it
    return table
