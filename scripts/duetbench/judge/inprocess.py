"""What of the in-process benchmarks a comparison looks at: a few, and only what can have changed.

asv's suites in `benchmarks/` time far more than a pull request can wait for. Of them are compared:

- `handlers.Cpu`: the CPU time of one request without a socket, for each endpoint that the change
  can affect, on the interpreter and stack of its cases,
- `pydantic_models`: the CPU time to validate 20 services from Python objects and from JSON, and to
  write them, where the cases of that experiment are affected.

A server is no part of these: what only a server loads affects none of them.

Each side runs the suites of its own checkout. A benchmark whose `version` is another one measures
something else, and is not compared. One that keeps its version while its code changes promises the
same figure: that is what a change in `benchmarks/` is judged for.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from duetbench.core.errors import CountError
from duetbench.judge import dependencies
from duetbench.judge.pairs import Pair, some
from duetbench.store.asv_results import Reading

LONGEST: Final = 0.05
"""Endpoints that compute for longer, s, are left out: it is no longer the serving that is timed."""

BASELINES: Final = ("driver/asgi", "driver/wsgi")
"""Applications of the suite `handlers` that do nothing: what its own driver costs."""

PYDANTIC: Final = "pydantic-v1-v2"
"""The experiment whose models the suite `pydantic_models` measures."""

THRESHOLD: Final = 0.01
"""Relevance threshold: five times that of the duets, because the process is the sample. Where its
memory comes to lie and how its hashes fall moves a figure by as much, on the same code."""

TOLERANCE: Final = 0.03
"""What is within it counts as no change."""

SECONDS: Final = "seconds"
"""asv's unit of a time: what a series of these benchmarks has for a metric."""

Parameters = tuple[tuple[str, int | str], ...]
"""Names and values."""

_HANDLER: Final = "handlers.Cpu.time_request"
_MODELS: Final[tuple[tuple[str, Parameters], ...]] = (
    ("pydantic_models.Validate.time_valid", (("size", 20), ("source", "python"))),
    ("pydantic_models.Validate.time_valid", (("size", 20), ("source", "json"))),
    ("pydantic_models.Serialise.time_serialised", (("size", 20), ("target", "json"))),
)
"""Benchmarks with what is compared of them."""

_JOB: Final = re.compile(
    r"inprocess/pydantic_models\.Validate\.time_(valid|refused)\(size=(\d+), source=(\w+)\)/"
)
_SUITES: Final = ("handlers", "pydantic_models")
_WORD: Final = "[A-Za-z0-9][A-Za-z0-9._+-]*"
_PARAMETER: Final = f"[a-z_]+={_WORD}(?:/{_WORD})?"
SERIES: Final = re.compile(
    rf"inprocess/[A-Za-z0-9_.]+\({_PARAMETER}(?:, {_PARAMETER})*\)/py[0-9]+\.[0-9]+t?/{_WORD}"
)
"""Names that series of benchmarks may have."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a benchmark runs: a stack's environment for an interpreter."""

    stack: str
    python: str


@dataclass(frozen=True, slots=True)
class Target:
    """One benchmark to be compared, on base and head, and why the change can affect it."""

    benchmark: str
    parameters: Parameters
    base: Place
    head: Place
    reason: str

    @property
    def name(self) -> str:
        """As asv shows it: `handlers.Cpu.time_request('asgi-wsgi/asgi-json')`."""
        return f"{self.benchmark}({', '.join(repr(value) for _, value in self.parameters)})"

    @property
    def python(self) -> str:
        """The interpreter, or both: `3.14 → 3.14t`."""
        same = self.base.python == self.head.python
        return self.head.python if same else f"{self.base.python} → {self.head.python}"

    @property
    def series(self) -> str:
        """The case of the history that head's figures would continue."""
        params = tuple((name, str(value)) for name, value in self.parameters)
        place = self.head
        return Reading(self.benchmark, params, place.python, place.stack, SECONDS, "measured").case


def job(series: str) -> str | None:
    """The unit of work of a series whose benchmark is no request; None: it is one.

    CountError: instructions of it are not counted.
    """
    if not series.startswith("inprocess/pydantic_models."):
        return None
    found = _JOB.match(series)
    if found is None:
        raise CountError(f"{series}: of Pydantic's jobs validation alone is counted")
    what, size, source = found.groups()
    return f"pydantic/{what}/{size}/{source}"


def changed_suites(roots: Sequence[Path], changed: Sequence[str]) -> dict[str, str]:
    """Tell which suites import a changed file of `benchmarks/`: name → which, in words."""
    read = {
        suite: {
            path.relative_to(root).as_posix()
            for root in roots
            for path in dependencies.imports(f"benchmarks.{suite}", (root,)).files
        }
        for suite in _SUITES
    }
    own = {suite: [path for path in changed if path in files] for suite, files in read.items()}
    return {suite: some(paths, 3, "file") for suite, paths in own.items() if paths}


def available(roots: Sequence[Path]) -> frozenset[str]:
    """The suites that all checkouts have."""
    files = {suite: [root / "benchmarks" / f"{suite}.py" for root in roots] for suite in _SUITES}
    return frozenset(suite for suite in files if all(path.is_file() for path in files[suite]))


def targets(
    common: Sequence[Pair],
    reason: Callable[[Pair], str],
    suites: Iterable[str],
    changed: Mapping[str, str],
) -> tuple[Target, ...]:
    """Choose what is compared, each benchmark and place once, in the order of the cases. Pure.

    `reason` says why the change can affect what a case's application does without a server,
    `changed` which suites it affects by themselves.
    """

    def possible() -> Iterator[tuple[Pair, str, Parameters, str]]:
        for pair in common if "handlers" in changed else ():
            for baseline in BASELINES:
                yield pair, _HANDLER, (("endpoint", baseline),), ""
        for pair in common:
            case, why = pair.head, reason(pair)
            if case.endpoint.takes <= LONGEST:
                endpoint = f"{case.experiment}/{case.endpoint.name}"
                yield pair, _HANDLER, (("endpoint", endpoint),), why
            for benchmark, parameters in _MODELS if case.experiment == PYDANTIC else ():
                yield pair, benchmark, parameters, why

    found: dict[tuple[str, Place, Place], Target] = {}
    for pair, benchmark, parameters, why in possible():
        suite = benchmark.partition(".")[0]
        if suite in suites and (why := why or changed.get(suite, "")):
            base, head = (Place(case.stack, case.python) for case in (pair.base, pair.head))
            target = Target(benchmark, parameters, base, head, why)
            found.setdefault((target.name, base, head), target)
    return tuple(found.values())
