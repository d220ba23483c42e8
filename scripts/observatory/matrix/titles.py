"""What a checkout calls its cases and experiments."""

from collections.abc import Mapping
from functools import cache
from itertools import chain
from pathlib import Path

from duetbench.app import case_names
from duetbench.app.case_names import CaseName
from duetbench.core.errors import DuetbenchError
from duetbench.host import paths
from observatory.matrix import declared_interpreters
from observatory.matrix.experiments import load_experiments, load_stacks


def name(case: str) -> CaseName | None:
    """Return the name of a case, as the checkout declares it."""
    return _titles()[0].get(case)


def experiment(folder: str) -> str:
    """Return the title of an experiment, or its folder's name if no title is declared."""
    return _titles()[1].get(folder) or folder


def _titles() -> tuple[Mapping[str, CaseName], Mapping[str, str]]:
    """Return what the checkout calls its cases and experiments, by their ids."""
    try:
        return _read(paths.project_root())
    except DuetbenchError:  # code that needs the declarations themselves reports what is wrong
        return {}, {}


@cache
def _read(root: Path) -> tuple[Mapping[str, CaseName], Mapping[str, str]]:
    stacks = load_stacks(root)
    experiments = load_experiments(root, declared_interpreters.load().interpreters, stacks)
    cases = {}
    for experiment in experiments:
        for case in chain.from_iterable(experiment.cases.values()):
            if title := experiment.titles[case.id]:
                stack = stacks[case.stack].title
                cases[case.id] = case_names.build(case, f"{title} with {stack}" if stack else title)
    return cases, {experiment.name: experiment.declaration.title for experiment in experiments}


case_names.declared.append(name)
