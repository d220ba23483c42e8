"""What of the in-process benchmarks a comparison looks at: a few, and only what can have changed.

asv's suites in `benchmarks/` time far more than a pull request can wait for. Of them are compared:

- `handlers.Cpu`: the CPU time of one request without a socket, for each endpoint that the change
  can have touched, on the interpreter and stack of its cases,
- `pydantic_models`: the CPU time to validate 20 services from Python objects and from JSON, and to
  write them, where the cases of that experiment are touched.

A server is no part of these: what only a server loads touches none of them.

Each side runs the suites of its own checkout. A benchmark whose `version` is another one measures
something else, and is not compared. One that keeps its version while its code changes promises the
same figure: that is what a change in `benchmarks/` is judged for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from servebench.compare import closure, wording
from servebench.compare.pairing import Pair

LONGEST: Final = 0.05
"""Endpoints that compute for longer, s, are left out: it is no longer the serving that is timed."""

BASELINES: Final = ("driver/asgi", "driver/wsgi")
"""Applications of the suite `handlers` that do nothing: what its own driver costs."""

PYDANTIC: Final = "pydantic-v1-v2"
"""The experiment whose models the suite `pydantic_models` measures."""

FLOOR: Final = 0.01
TOLERANCE: Final = 0.03
"""Relevance floor, and what counts as no change; `family` says why they are so wide."""

SECONDS: Final = "seconds"
"""asv's unit of a time: what a series of these benchmarks has for a metric."""

Parameters = tuple[int | str, ...]
Key = tuple[str, str, str]
"""A benchmark as a comparison names it, with its parameters; its stack; its interpreter."""

_HANDLER: Final = "handlers.Cpu.time_request"
_MODELS: Final[tuple[tuple[str, tuple[str, ...], Parameters], ...]] = (
    ("pydantic_models.Validate.time_valid", ("size", "source"), (20, "python")),
    ("pydantic_models.Validate.time_valid", ("size", "source"), (20, "json")),
    ("pydantic_models.Serialise.time_serialised", ("size", "target"), (20, "json")),
)
"""Benchmarks with the names of their parameters, and with the values that are compared."""

_SUITES: Final = ("handlers", "pydantic_models")
_SERIES: Final = re.compile(
    r"inprocess/(?P<benchmark>[A-Za-z0-9_.]+)\((?P<parameters>[A-Za-z0-9_.+=/, -]+)\)"
    r"/py(?P<python>[0-9]+\.[0-9]+t?)/(?P<stack>[A-Za-z0-9][A-Za-z0-9._-]*)"
)
_ENDPOINT: Final = re.compile(r"endpoint=([A-Za-z0-9][A-Za-z0-9_.+-]*/[A-Za-z0-9][A-Za-z0-9_.+-]*)")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a benchmark runs: a stack's environment for an interpreter."""

    stack: str
    python: str


@dataclass(frozen=True, slots=True)
class Target:
    """One benchmark to be compared.

    Attributes:
        benchmark: As asv names it: `handlers.Cpu.time_request`.
        parameters: One value per axis.
        base: Where it runs on base.
        head: Where it runs on head; another interpreter in a cross comparison.
        because: Why the change can have touched it.
    """

    benchmark: str
    parameters: Parameters
    base: Place
    head: Place
    because: str

    @property
    def name(self) -> str:
        """As asv shows it: `handlers.Cpu.time_request('asgi-wsgi/asgi-json')`."""
        return _shown(self.benchmark, self.parameters)

    @property
    def python(self) -> str:
        """The interpreter, or both: `3.14 → 3.14t`."""
        same = self.base.python == self.head.python
        return self.head.python if same else f"{self.base.python} → {self.head.python}"

    @property
    def key(self) -> Key:
        """What it is known by in the comparison's record."""
        return self.name, self.head.stack, self.python


def key(series: str) -> Key | None:
    """Tell which benchmark of a comparison a series of the history is.

    Args:
        series: Its case, as `inprocess.readings.Reading.case` names it:
            `inprocess/handlers.Cpu.time_request(endpoint=asgi-wsgi/asgi-json)/py3.14/current`.

    Returns:
        None if no comparison plays it, or if it is no benchmark.
    """
    found = _SERIES.fullmatch(series)
    if found is None:
        return None
    benchmark, parameters = found["benchmark"], found["parameters"]
    place = found["stack"], found["python"]
    if benchmark == _HANDLER:
        endpoint = _ENDPOINT.fullmatch(parameters)
        return None if endpoint is None else (_shown(_HANDLER, (endpoint[1],)), *place)
    for model, names, values in _MODELS:
        told = ", ".join(f"{name}={value}" for name, value in zip(names, values, strict=True))
        if (model, told) == (benchmark, parameters):
            return _shown(model, values), *place
    return None


def changed_suites(roots: Iterable[Path], changed: Sequence[str]) -> dict[str, str]:
    """Tell which suites import a changed file of `benchmarks/`: name → which, in words.

    Args:
        roots: Checkouts of both sides.
        changed: Paths from the checkout's root of the files that differ.
    """
    roots = tuple(roots)
    found = {}
    for suite in _SUITES:
        read = {
            path.relative_to(root).as_posix()
            for root in roots
            for path in closure.imports(f"benchmarks.{suite}", (root,)).files
        }
        own = [path for path in changed if path in read]
        if own:
            found[suite] = wording.some(own, 3, "file")
    return found


def available(roots: Iterable[Path]) -> frozenset[str]:
    """The suites that all checkouts have."""
    roots = tuple(roots)
    return frozenset(
        suite
        for suite in _SUITES
        if all((root / "benchmarks" / f"{suite}.py").is_file() for root in roots)
    )


def targets(
    common: Sequence[Pair],
    reason: Callable[[Pair], str],
    suites: Iterable[str],
    changed: Mapping[str, str],
) -> tuple[Target, ...]:
    """Choose what is compared. Pure.

    Args:
        common: Cases that both sides have.
        reason: Why the change can have touched what a case's application does without a server;
            empty if it cannot.
        suites: Those that both sides have.
        changed: Those that the change touches by themselves, with the reason.

    Returns:
        Each benchmark and place once, in the order of the cases.
    """
    found: dict[tuple[str, Place, Place], Target] = {}

    def add(pair: Pair, benchmark: str, parameters: Parameters, because: str) -> None:
        suite = benchmark.partition(".")[0]
        because = because or changed.get(suite, "")
        if suite not in suites or not because:
            return
        base, head = (Place(case.stack, case.python) for case in (pair.base, pair.head))
        target = Target(benchmark, parameters, base, head, because)
        found.setdefault((target.name, base, head), target)

    for pair in common if "handlers" in changed else ():
        for baseline in BASELINES:
            add(pair, _HANDLER, (baseline,), "")
    for pair in common:
        case, because = pair.head, reason(pair)
        if case.endpoint.takes <= LONGEST:
            add(pair, _HANDLER, (f"{case.experiment}/{case.endpoint.name}",), because)
        if case.experiment == PYDANTIC:
            for benchmark, _, parameters in _MODELS:
                add(pair, benchmark, parameters, because)
    return tuple(found.values())


def _shown(benchmark: str, parameters: Parameters) -> str:
    return f"{benchmark}({', '.join(map(repr, parameters))})"
