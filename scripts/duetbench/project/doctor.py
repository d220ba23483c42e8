"""The diagnosis: what this machine has, what is missing, and what that does to figures."""

import contextlib
import shutil
import time
from collections.abc import Callable
from functools import partial
from typing import Final, Literal

from duetbench.core.errors import DuetbenchError, SetupError
from duetbench.core.flags import Flag
from duetbench.core.model import Frozen, Machine
from duetbench.host import cache as artefact
from duetbench.host import command, machine, paths
from duetbench.project import interpreters, oha, prune, stacks, tools
from duetbench.project.project import Project
from duetbench.project.settings import Settings

_STEAL_WINDOW_S: Final = 0.5

State = Literal["ok", "missing", "wrong", "absent"]
"""`missing` and `wrong` need a remedy; `absent` is not there and not needed now."""


class Finding(Frozen):
    """One thing that measuring needs; `build`, how it was compiled, is for programs to read."""

    what: str
    state: State
    detail: str
    remedy: str | None = None
    build: str | None = None


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
    def healthy(self) -> bool:
        findings = (*self.interpreters, *self.tools, *self.stacks)
        return all(finding.state in {"ok", "absent"} for finding in findings)


def diagnose(project: Project) -> Diagnosis:
    """Look at everything; what is missing becomes a finding, never an error."""
    first = machine.core_times()
    started = time.monotonic()
    configured, declared = project.settings, project.known_stacks
    pythons = tuple(
        _finding(f"CPython {name}", partial(_interpreter, project, name), _build(project, name))
        for name in configured.interpreters
        if declared
    )
    brought = _tools(configured, pythons=any(python.state != "ok" for python in pythons))
    environments = tuple(
        _finding(f"{name} for {python}", partial(_environment, project, name, python))
        for name, pythons_of in declared.items()
        for python in pythons_of
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
        tools=brought,
        stacks=environments,
        flags=machine.expected_flags(here, limits, steal),
        cache=str(paths.cache_dir()),
        cache_free_gb=round(command.free_gb(paths.cache_dir()), 1),
        cache_unused=len(prune.unused(project)),
    )


def _finding(what: str, look: Callable[[], str], build: str | None = None) -> Finding:
    try:
        return Finding(what=what, state="ok", detail=look(), build=build)
    except DuetbenchError as error:
        state: State = "missing" if isinstance(error, SetupError) else "wrong"
        detail = str(error)
        remedy = "duetbench setup"
        return Finding(what=what, state=state, detail=detail, remedy=remedy, build=build)


def _interpreter(project: Project, name: str) -> str:
    found = project.interpreter(name)
    proof = interpreters.prove(found.executable)
    different = interpreters.mismatch(project.settings.interpreters[name], proof)
    if different:
        raise DuetbenchError(different)
    gil = "on" if proof["gil"] else "off"
    return f"{proof['version']}, GIL {gil}, {found.origin}; {found.executable}"


def _build(project: Project, name: str) -> str | None:
    with contextlib.suppress(SetupError):
        return project.interpreter(name).build
    return None


def _environment(project: Project, stack_name: str, python_name: str) -> str:
    stack, python = project.lock(stack_name), project.interpreter(python_name)
    stacks.executable(stack, python)
    fault = stacks.environment_fault(stack, stacks.place(stack, python))
    if fault:
        raise DuetbenchError(fault)
    return f"{len(stack.packages)} packages, lock {stack.digest[:12]}"


def _tools(configured: Settings, *, pythons: bool) -> tuple[Finding, ...]:
    findings = [_finding("oha", partial(_oha, configured)), _finding("uv", _uv)]
    generator = findings[0].state != "ok"
    for name, why, needed in (
        ("git", "says what is measured", True),
        ("cargo", "builds oha where no prebuilt one can be had", generator),
        ("cc", "builds oha and CPython where they cannot be had prebuilt", generator or pythons),
        ("make", "builds CPython where it cannot be had prebuilt", pythons),
    ):
        # Where what it would build is there, nothing is wrong.
        state: State = "missing" if needed else "absent"
        detail = f"not on PATH; {why}"
        remedy = f"install {name}" if needed else None
        if found := shutil.which(name):
            version = tools.version(found)
            detail = f"{version or 'version unknown'}; {found}"
            checked = name == "cargo" and needed
            remedy = oha.rust_fault(configured.oha, found, version) if checked else None
            state = "wrong" if remedy else "ok"
        findings.append(Finding(what=name, state=state, detail=detail, remedy=remedy))
    for package in tools.PACKAGES:
        state, remedy = "absent", package.remedy
        detail = f"not on PATH, not required; {package.why}"
        if program := package.find():
            state, remedy, detail = "ok", None, f"{package.version()}; {program}"
        findings.append(Finding(what=package.name, state=state, detail=detail, remedy=remedy))
    return tuple(findings)


def _oha(configured: Settings) -> str:
    program = oha.find(configured.oha)
    fault = oha.fault(configured.oha, oha.place(configured.oha))
    if fault:
        raise DuetbenchError(fault)
    made = f"{configured.oha.version}, {oha.origin(program)}"
    return f"{made}, SHA-256 {artefact.sha256(program)}; {program}"


def _uv() -> str:
    program = tools.uv()
    return f"{tools.version(program)}, SHA-256 {artefact.sha256(program)}; {program}"
