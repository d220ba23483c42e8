"""What a checkout calls its cases, experiments and benchmarks."""

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
from observatory.matrix.published import read_suites

_WORD: Final = "[A-Za-z0-9][A-Za-z0-9._+-]*"
_PARAMETER: Final = rf"\w+={_WORD}(?:/{_WORD})?"
INSIDE: Final = re.compile(
    rf"inprocess/(?P<benchmark>[\w.]+)(?P<values>\({_PARAMETER}(?:, {_PARAMETER})*\))?"
    rf"/py(?P<python>[\d.]+t?)/(?P<stack>{_WORD})",
    re.ASCII,
)
"""Ids of benchmarks inside the process: `inprocess/<benchmark>(a=1, b=x)/py3.14/current`."""
_VALUES: Final = re.compile(r"(\w+)=([^,)]+)")
_PYTHON: Final = re.compile(r"py(\d\.\d+[\w-]*)")


def name(case: str) -> CaseName | None:
    """Return the name of a case or benchmark, as the current checkout declares it."""
    titles = _current()
    return titles.cases.get(case) or _elsewhere(titles, case) or _inside(titles, case)


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
    """What a checkout calls its cases, experiments, benchmarks, stacks and interpreters."""

    cases: Mapping[str, CaseName] = {}
    experiments: Mapping[str, str] = {}
    benchmarks: Mapping[str, str] = {}
    values: Mapping[str, Mapping[str, str]] = {}  # benchmark → texts for values of parameters
    stacks: Mapping[str, str] = {}
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
    suites = read_suites(root)
    experiments = load_experiments(root, interpreters, specs)
    endpoints = {  # as the suites name endpoints: `asgi-wsgi/asgi-json`
        f"{e.name}/{name}": endpoint.title
        for e in experiments
        for name, endpoint in e.declaration.endpoints.items()
        if endpoint.title and "{" not in endpoint.title  # a template depends on the case
    }
    return _Titles(
        {
            case.id: _named(case, e.titles[case.id], stacks)
            for e in experiments
            for cases in e.cases.values()
            for case in cases
            if e.titles.get(case.id)
        },
        {e.name: e.declaration.title for e in experiments if e.declaration.title},
        {benchmark: title for suite in suites for benchmark, title in suite.titles.items()},
        {benchmark: {**suite.words, **endpoints} for suite in suites for benchmark in suite.titles},
        stacks,
        pythons,
    )


def _inside(titles: _Titles, case: str) -> CaseName | None:
    """Return the name of an in-process benchmark; None if its suite declares no title for it."""
    match = INSIDE.fullmatch(case)
    if match is None or (title := titles.benchmarks.get(match["benchmark"])) is None:
        return None
    words, stack = titles.values[match["benchmark"]], titles.stacks.get(match["stack"])
    values = {key: words.get(value, value) for key, value in _VALUES.findall(match["values"] or "")}
    with suppress(KeyError):  # parameters that the benchmark no longer has
        subject = title.format(**values) + (f" with {stack}" if stack else "")
        python = titles.pythons[match["python"]]
        return CaseName(case, subject, python=f"Python {python}", rest="in process")
    return None


case_names.declared.append(name)
