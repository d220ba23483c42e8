"""Benchmarks inside the process, judged by the instructions that both sides execute.

A count repeats to 0.03 %, so one of each side is enough, and the answer has a fixed resolution. A
comparison counts what `benchmarks/_counted.py` can, with the counter and the benchmarks of this
checkout on both sides. asv times all other benchmarks (`duetbench inprocess`) and finds their
steps.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Final

from duetbench.core.errors import CountError
from duetbench.core.metrics import METRICS
from duetbench.core.model import Verdict
from duetbench.judge.pairs import Pair
from duetbench.judge.sides import Side
from duetbench.measure.testbed import SideCase
from duetbench.store.change import INPROCESS
from duetbench.store.comparison import Instructions, Judgement, MicroComparison
from duetbench.store.points import INSTRUCTIONS

RESOLUTION: Final = 0.001
"""Relative half width of a ratio's interval: twice what two counts of one program differ by."""

FLOOR: Final = METRICS["server_cpu_per_request"].floor
"""Relevance floor of instructions: that of the time they take."""

_VALIDATION: Final = "instructions.Pydantic.track_validation(document=valid, size=20, source={})"

UNITS: Final = {
    "pydantic-v1-v2": {
        "pydantic/valid/20/python": _VALIDATION.format("python"),
        "pydantic/valid/20/json": _VALIDATION.format("json"),
        "pydantic/written/20/json": (
            "instructions.Written.track_serialisation(size=20, target=json)"
        ),
    }
}
"""Units of work of `benchmarks/_counted.py` that are judged with an experiment's cases, and the
benchmark of each with its parameters, as in names of series."""


@dataclass(frozen=True, slots=True)
class Job:
    """A unit of work, counted in the environments of a pair of cases without their servers."""

    unit: str
    benchmark: str
    pair: Pair

    @property
    def name(self) -> str:
        """As asv shows it: `instructions.Pydantic.track_validation('valid', 20, 'json')`."""
        benchmark, _, parameters = self.benchmark.rstrip(")").partition("(")
        values = (parameter.partition("=")[2] for parameter in parameters.split(", "))
        arguments = (value if value.isdigit() else repr(value) for value in values)
        return f"{benchmark}({', '.join(arguments)})"

    @property
    def series(self) -> str:
        """Its name among the cases of trends."""
        case = self.pair.head
        return f"{INPROCESS}{self.benchmark}/py{case.python}/{case.stack}"

    @property
    def python(self) -> str:
        """The interpreter, or both: `3.14 → 3.14t`."""
        return " → ".join(dict.fromkeys((self.pair.base.python, self.pair.head.python)))

    def sides(self, base: Side, head: Side) -> tuple[SideCase, SideCase]:
        """Both sides, ready to be counted."""
        return (
            SideCase(self.pair.base, base.testbed, self.unit),
            SideCase(self.pair.head, head.testbed, self.unit),
        )


def jobs(pairs: Iterable[Pair]) -> tuple[Job, ...]:
    """The units of work that go with pairs of cases, each once per environment."""
    by_series: dict[str, Job] = {}
    for pair in pairs:
        for unit, benchmark in UNITS.get(pair.head.experiment, {}).items():
            job = Job(unit, benchmark, pair)
            by_series.setdefault(job.series, job)
    return tuple(by_series.values())


def unit_of(series: str) -> str:
    """The unit of work of a series; empty: it is a case whose requests are counted.

    CountError: It is a benchmark that asv alone measures.
    """
    if not series.startswith(INPROCESS):
        return ""
    for unit, benchmark in chain.from_iterable(units.items() for units in UNITS.values()):
        if series.startswith(f"{INPROCESS}{benchmark}/"):
            return unit
    raise CountError(
        f"{series}: expected a benchmark whose instructions are counted; asv measures this one "
        "(duetbench inprocess)"
    )


def judged(job: Job, counts: Instructions) -> MicroComparison:
    """Judge both sides' counts: a change beyond the floor, or none."""
    ratio = counts.head / counts.base
    verdict = Verdict.NO_CHANGE
    if abs(math.log(ratio)) > math.log1p(FLOOR) + math.log1p(RESOLUTION):
        verdict = Verdict.SLOWER if ratio > 1 else Verdict.FASTER
    return MicroComparison(
        benchmark=job.name,
        python=job.python,
        stack=job.pair.head.stack,
        series=job.series,
        unit=INSTRUCTIONS,
        judgement=Judgement(
            metric="",
            verdict=verdict,
            ratio=ratio,
            low=ratio / (1 + RESOLUTION),
            high=ratio * (1 + RESOLUTION),
            detectable=FLOOR + RESOLUTION,
            duets=1,
        ),
        base=(counts.base,),
        head=(counts.head,),
    )
