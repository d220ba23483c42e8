"""`observatory doctor`: what this machine lacks to measure the experiments."""

from functools import partial

from duetbench.app import interpreters, stacks
from duetbench.cli.doctor import Diagnosis, diagnose, look, report
from duetbench.cli.options import JsonOption
from duetbench.core.errors import DuetbenchError
from observatory.matrix import declared_interpreters
from observatory.matrix.checkout import Checkout


def doctor_command(as_json: JsonOption = False) -> None:
    """Say whether this machine is ready to measure the experiments, and what is missing.

    $ observatory doctor

    docs/nights.md lists the settings that nights need on GitHub.

    Exit code 0: everything needed is here. 1: something is missing or wrong, with advice.
    """
    report(diagnosis_of(Checkout.here()), "run `observatory setup`", as_json=as_json)


def diagnosis_of(checkout: Checkout) -> Diagnosis:
    """Check all that the experiments need on this machine."""
    declared = checkout.declared
    items = [
        look(
            f"CPython {name}",
            partial(_interpreter, checkout, name),
            optional=name not in declared.usual,
        )
        for name in declared.interpreters
    ]
    for stack, pythons in checkout.stacks.items():
        for python in pythons:
            check = partial(_environment, checkout, stack, python)
            items.append(look(f"{stack} for {python}", check))
    return diagnose(checkout.configuration, items)


def _interpreter(checkout: Checkout, name: str) -> str:
    interpreter = checkout.interpreter(name)
    proof = interpreters.prove(interpreter.executable)
    if different := declared_interpreters.mismatch(checkout.declared.interpreters[name], proof):
        raise DuetbenchError(different)
    gil = "on" if proof["gil"] else "off"
    return f"{proof['version']}, GIL {gil}, {interpreter.origin}; {interpreter.executable}"


def _environment(checkout: Checkout, stack_name: str, python_name: str) -> str:
    stack, python = checkout.lock(stack_name), checkout.interpreter(python_name)
    stacks.executable(stack, python)
    if fault := stacks.environment_fault(stack, stacks.place(stack, python)):
        raise DuetbenchError(fault)
    return f"{len(stack.packages)} packages, lock {stack.digest[:12]}"
