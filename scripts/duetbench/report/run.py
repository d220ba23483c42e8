"""A run, on a terminal and in Markdown: what requests need, and what that is worth."""

from collections.abc import Callable, Collection, Iterator

from rich.console import Console
from rich.text import Text

from duetbench.app import case_names
from duetbench.app.target import STACK
from duetbench.core import units
from duetbench.core.errors import DISTURBING, FlagName
from duetbench.core.metrics import COLUMNS, CPU, METRICS
from duetbench.core.model import Flag, Machine, Run
from duetbench.host import files
from duetbench.host.console import duration
from duetbench.load.summary import CaseSummary, RunSummary, summarise
from duetbench.report import formats
from duetbench.report.formats import Section


def print_cases(console: Console, run: Run) -> None:
    """Print what a request of each case needs, a line for each figure."""
    cases = [*summarise(run).cases.values()]
    for case in cases:
        if len(cases) > 1:
            own = case.case.stack == STACK
            console.print(Text(case_names.of(case.case).what if own else case.id, style="bold"))
        for what, figure, remark in _figures(case):
            console.print(Text(f"  {what:<28}  {figure:<16}  {remark}".rstrip()), soft_wrap=True)


def _figures(case: CaseSummary) -> Iterator[tuple[str, str, str]]:
    """Say what a request needs and how many are served: what, the figure, and a remark."""
    times = case.case.load.times
    cpu, tail = case.metrics.get(CPU), case.metrics.get(f"{times}_p99")
    core = float(f"{1 / cpu.estimate:.1e}") if cpu and cpu.estimate else 0.0
    remarks = {
        CPU: f"so one core serves {units.significant(core, 2)} a second at most" if core else "",
        "throughput": "; ".join(_doubt(f) for f in case.warnings if f.name in DISTURBING),
        f"{times}_p50": f"p99 {units.seconds(tail.estimate)}" if tail else "",
        "pss_steady": "",
    }
    for name, remark in remarks.items():
        if figure := case.metrics.get(name):
            yield METRICS[name].label, " ".join(formats.cells(name, figure)).rstrip(), remark
    for flag in case.warnings:
        if flag.name not in {*DISTURBING, FlagName.FEW_LAUNCHES}:
            yield "", "", flag.name.meaning
    if case.failures:
        yield "", "", _failed_launches(case)


def _doubt(flag: Flag) -> str:
    """Say why figures are not those of the server alone."""
    if flag.name is FlagName.HOST_NOISE:
        return f"{flag.detail}: repeat when idle"
    return f"{flag.name.meaning}: do not quote this"


def texts_of(run: Run) -> dict[str, Callable[[], str]]:
    """Return how a run is written, by the suffix."""
    return {".json": lambda: files.encode(run).decode(), ".md": lambda: as_markdown(run)}


def as_markdown(run: Run) -> str:
    """Write a run with all figures of its cases as Markdown."""
    return "\n\n".join(filter(None, map(formats.markdown, sections(summarise(run)))))


def sections(summary: RunSummary) -> Iterator[Section]:
    """Arrange all figures of a run for reading, with how they were measured."""
    run = summary.run
    partial = " (partial)" if run.status == "partial" else ""
    yield Section(f"Run {run.id}{partial}", facts(summary))
    yield Section("", (), ["case", "metric", "figure", "95 %"], [*_rows(summary)])
    yield Section("", [("", note) for note in notes(summary.cases.values())])


def _rows(summary: RunSummary) -> Iterator[list[str]]:
    for case in summary.cases.values():
        if not case.metrics:
            yield [case.id, case.status, "", ""]
        for name in COLUMNS:
            if name in case.metrics:
                yield [case.id, METRICS[name].title, *formats.cells(name, case.metrics[name])]


def notes(cases: Collection[CaseSummary]) -> Iterator[str]:
    """Explain each flag with an example, then why cases failed or were not launched."""
    for name, detail in {flag.name: flag.detail for c in cases for flag in c.warnings}.items():
        yield f"{name} — {name.meaning} (for example: {detail})"
    for case in cases:
        if case.failures:
            yield f"{case.id}: {_failed_launches(case)}"
        if case.missing:
            yield f"{case.id}: not measured: {case.missing}"


def _failed_launches(case: CaseSummary) -> str:
    """Say how many launches of a case failed, and why."""
    reasons = " | ".join(dict.fromkeys(case.failures))
    return f"{len(case.failures)} of {case.expected} launches failed: {reasons}"


def facts(summary: RunSummary) -> tuple[tuple[str, str], ...]:
    """Say what was measured, when, where and with what."""
    run, (measured, expected) = summary.run, summary.coverage
    started = run.started[:16].replace("T", " ")
    commit = f"{run.commit[:12]}{' with uncommitted changes' * run.dirty}" if run.commit else "none"
    pythons = ", ".join(dict.fromkeys(python.text for python in run.interpreters))
    return (
        ("measured", f"{started} UTC, in {duration(run.wall_seconds)}"),
        ("launches", f"{measured} of {expected}"),
        ("machine", describe_machine(run.machine)),
        ("commit", commit),
        ("with", f"Python {pythons}, duetbench {run.duetbench}, oha {run.oha}"),
        *(("note", note) for note in run.notes),
    )


def describe_machine(machine: Machine) -> str:
    """Describe a machine in one line."""
    virtual = f", {machine.virtual}" if machine.virtual else ""
    return (
        f"{machine.id}: {machine.cpu}, {machine.cores} cores, {machine.memory / 2**30:.1f} GiB, "
        f"{machine.os}, Linux {machine.kernel}{virtual}"
    )
