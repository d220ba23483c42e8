"""Assembles testbeds: the locks, interpreters, environments and variables of some cases."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from packaging.utils import canonicalize_name

from duetbench.core.errors import DeclarationError, SetupError, UsageError
from duetbench.core.model import Case
from duetbench.host import machine, paths
from duetbench.host.console import Narrator
from duetbench.measure.testbed import Testbed, inherited_variables
from duetbench.project import interpreters, stacks, target_cases, tools
from duetbench.project.configuration import Configuration, Interpreter
from duetbench.project.deployed_target import DeployedTarget
from duetbench.project.servers import SERVERS
from duetbench.project.stacks import Stack
from duetbench.project.subject import Subject


def assemble(
    subject: Subject,
    cases: Sequence[Case],
    logs: Path,
    narrator: Narrator | None = None,
    *,
    generator: Path | None = None,
    lock: Callable[[str], Stack] | None = None,
    interpreter: Callable[[str], Interpreter] | None = None,
) -> Testbed:
    """Collect what cases of a subject need; with a narrator, missing environments are made.

    `generator` is the load generator, and `lock` and `interpreter` find those of a name; by default
    those of the subject. A private variable that a target does not set comes from our environment.

    Raises:
        SetupError: A lock, an interpreter, an environment or a tool is missing, or cannot be made.
        UsageError: A private variable is set nowhere.
    """
    lock, interpreter = lock or subject.lock, interpreter or subject.interpreter
    pythons = {name: interpreter(name) for name in sorted({case.python for case in cases})}
    locks = {name: lock(name) for name in sorted({case.stack for case in cases})}
    environments = sorted({(case.stack, case.python) for case in cases})
    if narrator is not None:
        for stack, python in environments:
            stacks.make_environment(locks[stack], pythons[python], narrator)
    target = subject if isinstance(subject, DeployedTarget) else None
    private = dict(target.target.env) if target else {}
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
        apps=subject.root / "apps",
        oha=generator or tools.find_oha(subject.configuration.oha),
        machine=machine.fingerprint(),
        pythons={(s, p): stacks.executable(locks[s], pythons[p]) for s, p in environments},
        interpreters=pythons,
        stacks=locks,
        logs=logs,
        inherited=inherited_variables(shell=target is not None),
        private=private,
        imports=target.imports if target else (),
        within=target.within if target else Path(),
        origin=subject.repository,
        source=target.packages if target else "",
        login=target_cases.login(target.target, subject.repository) if target else None,
        token=(target.target.token if target else None) or "",
        database=(target.target.copy_database if target else None) or "",
    )


def unattainable(
    cases: Sequence[Case],
    configured: Callable[[str], Configuration],
    lock: Callable[[str], Stack],
    narrator: Narrator,
) -> dict[str, str]:
    """Make the optional interpreters of cases and their environments, as far as possible.

    Returns case → reason why it cannot be measured here. `configured` returns the settings that an
    interpreter is made by.
    """
    reasons: dict[tuple[str, str], str] = {}
    for python, stack in sorted({(case.python, case.stack) for case in cases}):
        settings = configured(python)
        if python in settings.usual:
            continue
        try:
            interpreters.ensure(settings.adding({python}), narrator)
            stacks.make_environment(lock(stack), interpreters.locate(python, settings), narrator)
        except SetupError as error:
            reasons[python, stack] = f"no {python}: {error}"
            narrator.say(f"not measured: {reasons[python, stack]}")
    by_case = {case.id: reasons.get((case.python, case.stack)) for case in cases}
    return {case: reason for case, reason in by_case.items() if reason}


def require_packages(cases: Sequence[Case], lock: Callable[[str], Stack]) -> None:
    """Check that locks have what the servers of the cases import; DeclarationError if not."""
    locks = {name: lock(name) for name in sorted({case.stack for case in cases})}
    for case in cases:
        server, stack = SERVERS[case.server], locks[case.stack]
        names = {server.name, *server.loads(case)}
        if absent := sorted(names - {canonicalize_name(name) for name in stack.packages}):
            raise DeclarationError(
                str(stack.lock),
                "packages",
                f"no {' and no '.join(absent)}",
                f"what {case.id} needs, served by {server.name} on the loop {case.loop}: "
                f"{', '.join(sorted(names))}; add it to the dependency group {case.stack} of "
                f"apps/pyproject.toml, then `observatory stack lock {case.stack}`",
            )
