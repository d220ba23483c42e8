"""What people call a case; its id stays beside it, and stands alone where nothing is declared."""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from duetbench.core.errors import DuetbenchError
from duetbench.core.model import Case, Endpoint, LoadModel
from duetbench.core.text import short
from duetbench.core.units import count
from duetbench.host import paths
from duetbench.project import settings
from duetbench.project.experiments import load_experiments
from duetbench.project.published import read_suites
from duetbench.project.settings import STACK

_USUAL_LOOPS = frozenset({"asyncio", "none"})
_LONGEST: Final = 60  # letters of a request
_AGAIN: Final = re.compile(r"--\d+$")  # ends the name of the second endpoint of one request
_WORD: Final = "[A-Za-z0-9][A-Za-z0-9._+-]*"
_PARAMETER: Final = rf"\w+={_WORD}(?:/{_WORD})?"
INSIDE: Final = re.compile(
    rf"inprocess/(?P<benchmark>[\w.]+)(?P<values>\({_PARAMETER}(?:, {_PARAMETER})*\))?"
    rf"/py(?P<python>[\d.]+t?)/(?P<stack>{_WORD})",
    re.ASCII,
)
"""Ids of benchmarks inside the process: `inprocess/<benchmark>(a=1, b=x)/py3.14/current`."""
_VALUES: Final = re.compile(r"(\w+)=([^,)]+)")


@dataclass(frozen=True, slots=True)
class CaseName:
    """A case for people: `FastAPI's JSON` on `Granian`, `Python 3.14`, `128 connections`.

    Attributes:
        what: What is served; of a case that is not declared, its id.
        server: With its event loop, if that is an unusual one; empty: inside the process, or not
            declared.
        python: `Python 3.14`.
        rest: How many workers and threads, and the load; or that it is in process.
    """

    id: str
    what: str
    server: str = ""
    python: str = ""
    rest: str = ""

    @property
    def known(self) -> bool:
        """Whether it is more than the id."""
        return bool(self.python)

    @property
    def variant(self) -> str:
        """Without what is served, for where that is said once: `Granian, Python 3.14, …`."""
        return ", ".join(filter(None, (self.server, self.python, self.rest))) or self.id

    def __str__(self) -> str:
        """All of it."""
        return f"{self.what} on {self.variant}" if self.known else self.id


def name(case: str) -> CaseName:
    """The name of a case, by what the checkout around us declares now."""
    declared = _around()
    return declared.cases.get(case) or _inside(declared, case) or CaseName(case, case)


def of(case: Case) -> CaseName:
    """The name of a recorded case: as declared, or, of a target, as the record itself says.

    A target is declared by options alone, or by commits whose declarations have changed since.
    """
    declared = name(case.id)
    if declared.known or case.stack != STACK:
        return declared
    free = case.python.removesuffix("-jit").endswith("t")
    python = f"{case.python} (free-threaded)" if free else case.python
    return _named(case, _request(case.endpoint), {}, {case.python: python})


def requests(cases: Iterable[Case]) -> Mapping[str, str]:
    """What each case of a target asks for, `GET /items/7`, by its id.

    Empty where that alone does not tell all of them apart, or some are no target's.
    """
    every = {case.id: case for case in cases}
    texts = {id_: _request(case.endpoint) for id_, case in every.items() if case.stack == STACK}
    return texts if len(set(texts.values())) == len(every) else {}


def _request(endpoint: Endpoint) -> str:
    more = len({*endpoint.paths} - {endpoint.path})
    others = f" and {count(more)} other path{'s' * (more > 1)}" if more else ""
    again = _AGAIN.search(endpoint.name)
    which = f" ({again[0].strip('-')})" if again else ""
    return short(f"{endpoint.method} {endpoint.path}", _LONGEST) + others + which


def experiment(folder: str) -> str:
    """The title of an experiment; its folder's name where it has none, or is not declared."""
    return _around().experiments.get(folder, folder)


class _Declared(NamedTuple):
    """What a checkout calls its cases, experiments, benchmarks, stacks and interpreters."""

    cases: Mapping[str, CaseName] = {}
    experiments: Mapping[str, str] = {}
    benchmarks: Mapping[str, str] = {}
    values: Mapping[str, Mapping[str, str]] = {}  # what a benchmark says for its parameters'
    stacks: Mapping[str, str] = {}
    pythons: Mapping[str, str] = {}


def _around() -> _Declared:
    with suppress(DuetbenchError):
        return _declared(paths.project_root())
    return _Declared()


@cache
def _declared(root: Path) -> _Declared:
    # Whoever needs the declarations themselves is told what is wrong with them.
    with suppress(DuetbenchError):
        return _read(root)
    return _Declared()


def _read(root: Path) -> _Declared:
    declared, made_for = settings.load(root).interpreters, settings.stacks(root)
    stacks = {name: spec.title for name, spec in made_for.items() if spec.title}
    pythons = {
        name: f"{name} (free-threaded)" if spec.free_threaded else name
        for name, spec in declared.items()
    }
    suites, experiments = read_suites(root), load_experiments(root, declared, made_for)
    served = {  # as the suites name endpoints: `asgi-wsgi/asgi-json`
        f"{one.name}/{name}": endpoint.title
        for one in experiments
        for name, endpoint in one.declared.endpoints.items()
        if endpoint.title and "{" not in endpoint.title  # that is filled in case by case
    }
    return _Declared(
        {
            case.id: _named(case, one.titles[case.id], stacks, pythons)
            for one in experiments
            for cases in one.cases.values()
            for case in cases
            if one.titles.get(case.id)
        },
        {one.name: one.declared.title for one in experiments if one.declared.title},
        {benchmark: title for suite in suites for benchmark, title in suite.titles.items()},
        {benchmark: {**suite.words, **served} for suite in suites for benchmark in suite.titles},
        stacks,
        pythons,
    )


def _inside(declared: _Declared, case: str) -> CaseName | None:
    """The name of a benchmark inside the process; None: its suite declares no title for it."""
    match = INSIDE.fullmatch(case)
    if match is None or (title := declared.benchmarks.get(match["benchmark"])) is None:
        return None
    words, stack = declared.values[match["benchmark"]], declared.stacks.get(match["stack"])
    values = {key: words.get(value, value) for key, value in _VALUES.findall(match["values"] or "")}
    with suppress(KeyError):  # of parameters that the benchmark had once
        subject = title.format(**values) + (f" with {stack}" if stack else "")
        python = declared.pythons[match["python"]]
        return CaseName(case, subject, python=f"Python {python}", rest="in process")
    return None


def _named(
    case: Case, title: str, stacks: Mapping[str, str], pythons: Mapping[str, str]
) -> CaseName:
    subject = f"{title} with {stacks[case.stack]}" if case.stack in stacks else title
    loop = "" if case.loop in _USUAL_LOOPS else f" with {case.loop}"
    rest = [
        f"{count(number)} {noun}{'s' * (number > 1)}"
        for number, noun in ((case.workers, "worker"), (case.threads, "thread"))
        if number and (number > 1 or noun == "thread")
    ]
    return CaseName(
        case.id,
        subject,
        f"{case.server.capitalize()}{loop}",
        f"Python {pythons[case.python]}",
        ", ".join([*rest, _load(case)]),
    )


def _load(case: Case) -> str:
    load = case.load
    if load.rate is None:
        return f"{count(load.connections)} connections"
    if load.model is LoadModel.PACED and load.rate == load.connections:
        return f"{count(load.connections)} users"
    schedule = ", each on schedule" if load.model is LoadModel.OPEN else ""
    return f"{load.rate:g} requests/s{schedule}"
