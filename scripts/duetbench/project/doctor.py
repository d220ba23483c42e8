"""The diagnosis: what this machine has, what is missing, and what that does to figures."""

import shutil
import time
from collections.abc import Callable
from functools import partial
from typing import Final, Literal

from duetbench.core.errors import DuetbenchError, SetupError
from duetbench.core.model import Flag, Frozen, Machine
from duetbench.host import command, machine, paths
from duetbench.project import interpreters, oha, prune, stacks, tools
from duetbench.project.project import Project
from duetbench.project.types import OhaSpec

_STEAL_WINDOW_S: Final = 0.5

State = Literal["ok", "missing", "wrong", "absent"]
"""`missing` and `wrong` need a remedy; `absent` is not there and not needed now."""


class Finding(Frozen):
    """One thing that measuring needs."""

    what: str
    state: State
    detail: str
    remedy: str | None = None


class Diagnosis(Frozen):
    """Everything that `duetbench doctor` shows."""

    machine: Machine
    cores_quota: float | None
    memory_limit: int | None
    steal_now: float
    steal_since_boot: float
    hyper_threads_shared: tuple[int, ...]
    interpreters: tuple[Finding, ...]
    tools: tuple[Finding, ...]
    stacks: tuple[Finding, ...]
    flags: tuple[Flag, ...]
    cache: str
    cache_free_gb: float
    cache_unused: int = 0

    @property
    def findings(self) -> tuple[Finding, ...]:
        return (*self.interpreters, *self.tools, *self.stacks)

    @property
    def healthy(self) -> bool:
        return all(finding.state in {"ok", "absent"} for finding in self.findings)


def diagnose(project: Project) -> Diagnosis:
    """Look at everything; what is missing becomes a finding, never an error."""
    first = machine.core_times()
    started = time.monotonic()
    stacks_of = project.known_stacks
    pythons = tuple(
        _finding(f"CPython {name}", partial(_interpreter, project, name))
        for name in project.settings.interpreters
        if stacks_of
    )
    programs = _tools(
        project.settings.oha, pythons=any(finding.state != "ok" for finding in pythons)
    )
    environments = tuple(
        _finding(f"{name} for {python}", partial(_environment, project, name, python))
        for name, made_for in stacks_of.items()
        for python in made_for
    )
    # A reading of steal needs some time between its ends; the looking above may have been it.
    time.sleep(max(0.0, _STEAL_WINDOW_S - (time.monotonic() - started)))
    last = machine.core_times()
    cores, limits, here = machine.allocate(), machine.limits(), machine.fingerprint()
    steal = last.steal_share(first)
    return Diagnosis(
        machine=here,
        cores_quota=limits.cores,
        memory_limit=limits.memory,
        steal_now=steal,
        steal_since_boot=last.steal / last.total if last.total else 0.0,
        hyper_threads_shared=machine.siblings_split(cores),
        interpreters=pythons,
        tools=programs,
        stacks=environments,
        flags=machine.expected_flags(here, limits, steal),
        cache=str(paths.cache_dir()),
        cache_free_gb=round(command.free_gb(paths.cache_dir()), 1),
        cache_unused=len(prune.unused(project)),
    )


def _finding(what: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(what=what, state="ok", detail=look())
    except DuetbenchError as error:
        state: State = "missing" if isinstance(error, SetupError) else "wrong"
        return Finding(what=what, state=state, detail=str(error), remedy="duetbench setup")


def _interpreter(project: Project, name: str) -> str:
    interpreter = project.interpreter(name)
    proof = interpreters.prove(interpreter.executable)
    if different := interpreters.mismatch(project.settings.interpreters[name], proof):
        raise DuetbenchError(different)
    gil = "on" if proof["gil"] else "off"
    return f"{proof['version']}, GIL {gil}, {interpreter.origin}; {interpreter.executable}"


def _environment(project: Project, stack_name: str, python_name: str) -> str:
    stack, python = project.lock(stack_name), project.interpreter(python_name)
    stacks.executable(stack, python)
    if fault := stacks.environment_fault(stack, stacks.place(stack, python)):
        raise DuetbenchError(fault)
    return f"{len(stack.packages)} packages, lock {stack.digest[:12]}"


def _tools(spec: OhaSpec, *, pythons: bool) -> tuple[Finding, ...]:
    """Find programs; `pythons`: interpreters have to be made."""
    generator = _finding("oha", partial(_oha, spec))
    missing = generator.state != "ok"
    findings = [generator, _finding("uv", lambda: f"{tools.version(tools.uv())}; {tools.uv()}")]
    for name, why, needed in (
        ("git", "says what is measured", True),
        ("cargo", "builds oha where no prebuilt one can be had", missing),
        ("cc", "builds oha and CPython where they cannot be had prebuilt", missing or pythons),
        ("make", "builds CPython where it cannot be had prebuilt", pythons),
    ):
        findings.append(_program(name, why, spec, needed=needed))
    for package in tools.PACKAGES:
        if program := package.find():
            detail = f"{package.version()}; {program}"
            findings.append(Finding(what=package.name, state="ok", detail=detail))
        else:
            detail = f"not on PATH, not required; {package.why}"
            findings.append(
                Finding(what=package.name, state="absent", detail=detail, remedy=package.remedy)
            )
    return tuple(findings)


def _program(name: str, why: str, spec: OhaSpec, *, needed: bool) -> Finding:
    """Find a program of the system; where what it would build is there, nothing is wrong."""
    program = shutil.which(name)
    if program is None:
        state: State = "missing" if needed else "absent"
        remedy = f"install {name}" if needed else None
        return Finding(what=name, state=state, detail=f"not on PATH; {why}", remedy=remedy)
    version = tools.version(program)
    remedy = oha.rust_fault(spec, program, version) if name == "cargo" and needed else None
    detail = f"{version or 'version unknown'}; {program}"
    return Finding(what=name, state="wrong" if remedy else "ok", detail=detail, remedy=remedy)


def _oha(spec: OhaSpec) -> str:
    program = oha.find(spec)
    if fault := oha.fault(spec, oha.place(spec)):
        raise DuetbenchError(fault)
    return f"{spec.version}, {oha.origin(program)}; {program}"
