"""Names of cases for people, beside their ids, or by their requests; and cases by their ids."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from duetbench.app.target import STACK
from duetbench.core.errors import UsageError
from duetbench.core.model import Case, Endpoint
from duetbench.core.text import short, some
from duetbench.core.units import count

_USUAL_LOOPS = frozenset({"auto", "asyncio", "none"})
_LONGEST: Final = 60  # characters of a request
_SHOWN: Final = 3  # cases that an error names
_AGAIN: Final = re.compile(r"--\d+$")  # ends the name of a request's second endpoint

declared: list[Callable[[str], "CaseName | None"]] = []
"""Where names of cases are declared, by id; without any, cases keep their ids."""


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
    """Return the name of a case, as it is declared."""
    return next(filter(None, (of_id(case) for of_id in declared)), CaseName(case, case))


def of(case: Case) -> CaseName:
    """Return the name of a recorded case: as declared, or by its request if options declared it."""
    case_name = name(case.id)
    if case_name.known or case.stack != STACK:
        return case_name
    return build(case, _request(case.endpoint))


def _request(endpoint: Endpoint) -> str:
    more = len({*endpoint.paths} - {endpoint.path})
    others = f" and {count(more)} other path{'s' * (more > 1)}" if more else ""
    again = _AGAIN.search(endpoint.name)
    which = f" ({again[0].strip('-')})" if again else ""
    return short(f"{endpoint.method} {endpoint.path}", _LONGEST) + others + which


def build(case: Case, subject: str) -> CaseName:
    """Name a case by what is served, and by how."""
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
        f"Python {case.python}{' (free-threaded)' * case.free_threaded}",
        ", ".join([*rest, _load(case)]),
    )


def _load(case: Case) -> str:
    load = case.load
    if load.rate is None:
        return f"{count(load.connections)} connections"
    if load.rate == load.connections:
        return f"{count(load.connections)} users"
    schedule = ", each on schedule" if load.open else ""
    return f"{load.rate:g} requests/s{schedule}"


def select(cases: Sequence[Case], globs: Sequence[str]) -> tuple[Case, ...]:
    """Choose the cases whose id matches a glob, or all; UsageError for a glob that matches none."""
    for glob in globs:
        if not any(fnmatchcase(case.id, glob) for case in cases):
            ids = some([case.id for case in cases], _SHOWN)
            raise UsageError(f"--select {glob!r} selects nothing of {ids or 'no cases'}")
    return tuple(c for c in cases if not globs or any(fnmatchcase(c.id, glob) for glob in globs))
