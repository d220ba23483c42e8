"""What a checkout calls its cases and experiments."""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from duetbench.app import case_names
from duetbench.app.case_names import CaseName
from duetbench.core.errors import DuetbenchError
from duetbench.host import paths
from observatory.matrix import declared_interpreters
from observatory.matrix.experiments import load_experiments, load_stacks

_PYTHON: Final = re.compile(r"(?<=/py)\d\.\d+(t?)[\w-]*(?=/|$)")


class _Titles(NamedTuple):
    """What a checkout calls its cases and experiments, by their ids."""

    cases: Mapping[str, CaseName] = {}
    experiments: Mapping[str, str] = {}


def name(case: str) -> CaseName | None:
    """Return the name of a case, as the checkout declares it, if only for another Python."""
    cases = _current().cases
    if case in cases or (own := _PYTHON.search(case)) is None:
        return cases.get(case)
    like = re.compile(f"{re.escape(case[: own.start()])}[^/]+{re.escape(case[own.end() :])}")
    known = next((title for other, title in cases.items() if like.fullmatch(other)), None)
    python = f"Python {own[0]}{' (free-threaded)' * bool(own[1])}"
    return replace(known, id=case, python=python) if known else None


def experiment(folder: str) -> str:
    """Return the title of an experiment, or its folder's name if no title is declared."""
    return _current().experiments.get(folder) or folder


def _current() -> _Titles:
    with suppress(DuetbenchError):
        return _read(paths.project_root())
    return _Titles()


@cache
def _read(root: Path) -> _Titles:
    # Code that needs the declarations themselves reports what is wrong with them.
    with suppress(DuetbenchError):
        stacks = load_stacks(root)
        experiments = load_experiments(root, declared_interpreters.load().interpreters, stacks)
        cases = {
            case.id: case_names.build(case, f"{title} with {stack}" if stack else title)
            for e in experiments
            for group in e.cases.values()
            for case in group
            if (title := e.titles[case.id])
            for stack in [stacks[case.stack].title]
        }
        return _Titles(cases, {e.name: e.declaration.title for e in experiments})
    return _Titles()


case_names.declared.append(name)
