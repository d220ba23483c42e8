"""Names of cases for people; the id stays beside them, or is the name if nothing is declared."""

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from duetbench.core.errors import DuetbenchError
from duetbench.core.model import Case, Endpoint, LoadModel
from duetbench.core.text import short
from duetbench.core.units import count
from duetbench.host import paths
from duetbench.project import configuration
from duetbench.project.experiments import load_experiments
from duetbench.project.target import STACK

_USUAL_LOOPS = frozenset({"auto", "asyncio", "none"})
_LONGEST: Final = 60  # characters of a request
_AGAIN: Final = re.compile(r"--\d+$")  # ends the name of a request's second endpoint
_WORD: Final = "[A-Za-z0-9][A-Za-z0-9._+-]*"
_PARAMETER: Final = rf"\w+={_WORD}(?:/{_WORD})?"
INSIDE: Final = re.compile(
    rf"inprocess/(?P<benchmark>[\w.]+)(?P<values>\({_PARAMETER}(?:, {_PARAMETER})*\))?"
    rf"/py(?P<python>[\d.]+t?)/(?P<stack>{_WORD})",
    re.ASCII,
)
"""Ids of benchmarks inside the process: `inprocess/<benchmark>(a=1, b=x)/py3.14/current`."""
_VALUES: Final = re.compile(r"(\w+)=([^,)]+)")


class SuiteTitles(Protocol):
    """What a suite of in-process benchmarks calls its benchmarks and their parameters' values."""

    @property
    def titles(self) -> Mapping[str, str]: ...
    @property
    def words(self) -> Mapping[str, str]: ...


read_titles: list[Callable[[Path], Iterable[SuiteTitles]]] = []
"""Readers of a checkout's suites; without any, benchmarks keep their ids."""


@dataclass(frozen=True, slots=True)
class CaseName:
    """A case for people: `A JSON response from Flask` on Granian, `Python 3.14`, `128 users`.

    Attributes:
        what: What is served; the id of a case that is not declared.
        server: With its event loop, if that is unusual; empty if the case is in process or not
            declared.
        python: `Python 3.14`.
        rest: The number of workers and threads, and the load; or that it is in process.
    """

    id: str
    what: str
    server: str = ""
    python: str = ""
    rest: str = ""

    @property
    def known(self) -> bool:
        """Whether the name says more than the id."""
        return bool(self.python)

    @property
    def variant(self) -> str:
        """The name without what is served, for headed tables: `Granian, Python 3.14, …`."""
        return ", ".join(filter(None, (self.server, self.python, self.rest))) or self.id

    def __str__(self) -> str:
        return f"{self.what} on {self.variant}" if self.known else self.id


def name(case: str) -> CaseName:
    """Return the name of a case, as the current checkout declares it."""
    titles = _current()
    return titles.cases.get(case) or _inside(titles, case) or CaseName(case, case)


def of(case: Case) -> CaseName:
    """Return the name of a recorded case: as declared, or for a target as recorded.

    A target is declared only by options, or by commits whose declarations have changed since. A
    comparison of interpreters serves cases on some for which they are not declared.
    """
    case_name = name(case.id)
    if case_name.known or case.stack != STACK:
        return case_name if case_name.known else _elsewhere(case) or case_name
    python = f"{case.python} (free-threaded)" if case.free_threaded else case.python
    return _build(case, _request(case.endpoint), {}, {case.python: python})


def _elsewhere(case: Case) -> CaseName | None:
    """Name a case as it is declared for another interpreter; None: for no other."""
    titles, own = _current(), f"py{case.python}"
    for other in titles.pythons:
        parts = (f"py{other}" if part == own else part for part in case.id.split("/"))
        if declared := titles.cases.get("/".join(parts)):
            python = titles.pythons.get(case.python, case.python)
            return replace(declared, id=case.id, python=f"Python {python}")
    return None


def requests(cases: Iterable[Case]) -> Mapping[str, str]:
    """Map the id of each of a target's cases to its request, `GET /items/7`.

    Empty if requests alone do not distinguish the cases, or some belong to no target.
    """
    by_id = {case.id: case for case in cases}
    texts = {id_: _request(case.endpoint) for id_, case in by_id.items() if case.stack == STACK}
    return texts if len(set(texts.values())) == len(by_id) else {}


def _request(endpoint: Endpoint) -> str:
    more = len({*endpoint.paths} - {endpoint.path})
    others = f" and {count(more)} other path{'s' * (more > 1)}" if more else ""
    again = _AGAIN.search(endpoint.name)
    which = f" ({again[0].strip('-')})" if again else ""
    return short(f"{endpoint.method} {endpoint.path}", _LONGEST) + others + which


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
    interpreters, specs = configuration.load(root).interpreters, configuration.stacks(root)
    stacks = {name: spec.title for name, spec in specs.items() if spec.title}
    pythons = {
        name: f"{name} (free-threaded)" if spec.free_threaded else name
        for name, spec in interpreters.items()
    }
    suites = [suite for read in read_titles for suite in read(root)]
    experiments = load_experiments(root, interpreters, specs)
    endpoints = {  # as the suites name endpoints: `asgi-wsgi/asgi-json`
        f"{e.name}/{name}": endpoint.title
        for e in experiments
        for name, endpoint in e.declaration.endpoints.items()
        if endpoint.title and "{" not in endpoint.title  # a template depends on the case
    }
    return _Titles(
        {
            case.id: _build(case, e.titles[case.id], stacks, pythons)
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


def _build(
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
