"""Assembles testbeds: the locks, interpreters, environments and variables of some cases."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from duetbench.core.errors import UsageError
from duetbench.core.model import Case
from duetbench.host import machine, paths
from duetbench.host.console import Narrator
from duetbench.measure.testbed import Testbed, inherited_variables
from duetbench.project import stacks, tools
from duetbench.project.configuration import Interpreter
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
    private = dict(subject.target.env)
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
        subject=subject,
        oha=generator or tools.find_oha(subject.configuration.oha),
        machine=machine.fingerprint(),
        pythons={(s, p): stacks.executable(locks[s], pythons[p]) for s, p in environments},
        interpreters=pythons,
        stacks=locks,
        logs=logs,
        inherited=inherited_variables(shell=not subject.fixed),
        private=private,
    )
