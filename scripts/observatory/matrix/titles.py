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
from duetbench.core.model import Case
from duetbench.host import paths
from observatory.matrix import declared_interpreters
from observatory.matrix.experiments import load_experiments, load_stacks

_PYTHON: Final = re.compile(r"py(\d\.\d+[\w-]*)")


def name(case: str) -> CaseName | None:
    """Return the name of a case, as the current checkout declares it."""
    titles = _current()
    return titles.cases.get(case) or _elsewhere(titles, case)


def _elsewhere(titles: "_Titles", case: str) -> CaseName | None:
    """Name a case as it is declared for another interpreter; None: for no other."""
    parts = case.split("/")
    for place, own in enumerate(map(_PYTHON.fullmatch, parts)):
        for other in titles.pythons if own else ():
            known = titles.cases.get("/".join((*parts[:place], f"py{other}", *parts[place + 1 :])))
            if own and known:
                python = titles.pythons.get(own[1], own[1])
                return replace(known, id=case, python=f"Python {python}")
    return None


def _named(case: Case, title: str, stacks: Mapping[str, str]) -> CaseName:
    stack = stacks.get(case.stack)
    return case_names.build(case, f"{title} with {stack}" if stack else title)


def experiment(folder: str) -> str:
    """Return the title of an experiment, or its folder's name if no title is declared."""
    return _current().experiments.get(folder, folder)


class _Titles(NamedTuple):
    """What a checkout calls its cases, experiments and interpreters."""

    cases: Mapping[str, CaseName] = {}
    experiments: Mapping[str, str] = {}
    pythons: Mapping[str, str] = {}


def _current() -> _Titles:
    with suppress(DuetbenchError):
        return _read_once(paths.project_root())
    return _Titles()


@cache
def _read_once(root: Path) -> _Titles:
    # Code that needs the declarations themselves reports what is wrong with them.
    with suppress(DuetbenchError):
        return _read(root)
    return _Titles()


def _read(root: Path) -> _Titles:
    interpreters, specs = declared_interpreters.load(root).interpreters, load_stacks(root)
    stacks = {name: spec.title for name, spec in specs.items() if spec.title}
    pythons = {
        name: f"{name} (free-threaded)" if spec.free_threaded else name
        for name, spec in interpreters.items()
    }
    experiments = load_experiments(root, interpreters, specs)
    return _Titles(
        {
            case.id: _named(case, e.titles[case.id], stacks)
            for e in experiments
            for cases in e.cases.values()
            for case in cases
            if e.titles.get(case.id)
        },
        {e.name: e.declaration.title for e in experiments if e.declaration.title},
        pythons,
    )


case_names.declared.append(name)
