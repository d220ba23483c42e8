"""`observatory doctor`: which settings nights need on GitHub, and what this runner lacks."""

import os
import re
from collections.abc import Iterator
from functools import partial
from typing import Final, Literal

from duetbench.cli.doctor import Diagnosis, Item, Look, diagnose, report
from duetbench.cli.options import JsonOption
from duetbench.core.errors import DuetbenchError, ServiceError
from duetbench.github.actions import Context
from duetbench.github.api import GitHub
from duetbench.host import git
from duetbench.host.console import errors
from duetbench.project import interpreters, stacks
from observatory.github import readiness
from observatory.matrix.checkout import Checkout

_PATIENCE_S: Final = 10.0  # with GitHub: a person is waiting


def doctor_command(as_json: JsonOption = False) -> None:
    """Show what `duetbench doctor` does, and which settings nights and /bench need on GitHub.

    $ GITHUB_TOKEN=$(gh auth token) observatory doctor

    These are labels of runners, Pages, permissions, and schedules and issues, which are off in a
    fork. The repository is that of origin, or GITHUB_REPOSITORY. Some are shown to administrators
    only.

    Exit code 0: everything needed is here. 1: something is missing or wrong, with advice.
    """
    project = Checkout.here()
    remote = tuple(_findings(project))  # first: it may lack a token
    diagnosis = diagnosis_of(project)
    diagnosis = diagnosis.model_copy(update={"findings": diagnosis.findings + remote})
    report(diagnosis, "see above", as_json=as_json)


def diagnosis_of(checkout: Checkout) -> Diagnosis:
    """Check all that the experiments need on this machine."""
    settings, looks = checkout.configuration, dict[str, Look]()
    for name in settings.interpreters:
        looks[f"CPython {name}"] = partial(_interpreter, checkout, name)
    for stack, pythons in checkout.stacks.items():
        for python in pythons:
            looks[f"{stack} for {python}"] = partial(_environment, checkout, stack, python)
    optional = {f"CPython {name}" for name in settings.interpreters.keys() - settings.usual}
    return diagnose(settings, looks, optional)


def _findings(project: Checkout) -> Iterator[Item]:
    """Check the repository on GitHub, and this machine as its runner."""
    origin = git.ask_or_none(project.root, "remote", "get-url", "origin") or ""
    named = re.search(r"[:/]([\w-]+/[\w.-]+?)(\.git)?/?$", origin)
    known = {"GITHUB_REPOSITORY": named[1]} if named else {}
    workflows = {path.name for path in project.root.glob(".github/workflows/*.yml")}
    context = Context.of({**known, **os.environ})
    errors().say(f"asking GitHub about {context.repository}")
    with GitHub(context, patience=_PATIENCE_S) as github:
        checks = readiness.checks(github, workflows, sorted(project.settings.fleet))
        try:
            for what, right, detail in checks:
                state: Literal["ok", "missing", "absent"] = "ok" if right else "missing"
                text = "as required" if right else detail
                if right is None:
                    state, text = "absent", f"the token may not see it; check it yourself: {detail}"
                yield Item(what=f"GitHub: {what}", state=state, detail=text)
        except ServiceError as error:  # the rest of the table needs no network
            yield Item(what="GitHub", state="missing", detail=str(error))
    for _, text in readiness.machine():
        detail = f"{text}; only a runner needs it: scripts/prepare-runner.sh (docs/runners.md)"
        yield Item(what="runner", state="absent", detail=detail)


def _interpreter(checkout: Checkout, name: str) -> str:
    interpreter = checkout.interpreter(name)
    proof = interpreters.prove(interpreter.executable)
    if different := interpreters.mismatch(checkout.configuration.interpreters[name], proof):
        raise DuetbenchError(different)
    gil = "on" if proof["gil"] else "off"
    return f"{proof['version']}, GIL {gil}, {interpreter.origin}; {interpreter.executable}"


def _environment(checkout: Checkout, stack_name: str, python_name: str) -> str:
    stack, python = checkout.lock(stack_name), checkout.interpreter(python_name)
    stacks.executable(stack, python)
    if fault := stacks.environment_fault(stack, stacks.place(stack, python)):
        raise DuetbenchError(fault)
    return f"{len(stack.packages)} packages, lock {stack.digest[:12]}"
