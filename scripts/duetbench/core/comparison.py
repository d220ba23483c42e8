"""The types of a comparison. Pure.

Ratios are head over base: 1.02 means that head's figure is 2 % larger. The metric registry says
whether larger is better.
"""

import math
from collections.abc import Mapping
from typing import ClassVar, Final, Literal, Self

from pydantic import Field, model_validator

from duetbench.core import units
from duetbench.core.effects import EFFECTS, KEPT, Effects
from duetbench.core.errors import DISTURBING, FlagName
from duetbench.core.metrics import METRICS, Metric
from duetbench.core.model import (
    MOST,
    Amount,
    Artefact,
    Case,
    Figure,
    Figures,
    Flag,
    Frozen,
    InterpreterRecord,
    Machine,
    Many,
    Moment,
    OfCases,
    Ratio,
    ResultStatus,
    StackRecord,
    Verdict,
)
from duetbench.core.units import Interval

FORMAT_VERSION: Final = 4
"""Version of the comparison file. 4: one command, and no times of the method (2026-11)."""

TESTS: Final = "tests"
"""What stands in place of a server in a case whose requests tests make."""

FAILURE: Final = "failure"
"""Subject of a finding: a side failed, so that the case cannot be compared."""

ANSWER: Final = "answer"
"""Subject of a finding: what the request is answered."""

INSTRUCTIONS: Final = "instructions"
"""Instructions per request inside the process. No launch has this metric."""


_OTHERS: Final[dict[str, Metric]] = {
    INSTRUCTIONS: Metric(
        INSTRUCTIONS,
        units.count,
        "Instructions of a request inside the process.",
        noun="instructions per request",
        label=INSTRUCTIONS,
        verb="executes",
        floor=0.01,
    ),
    ANSWER: Metric(ANSWER, units.whole, "What a request is answered."),
    KEPT: Metric(KEPT, units.about, "Kept for every request.", noun="memory kept after it"),
    FAILURE: Metric(FAILURE, units.count, "A side failed.", noun="the request"),
}


def row(name: str) -> Metric:
    """The row of what a finding is about, which anybody may have written."""
    return {**METRICS, **EFFECTS, **_OTHERS}.get(name) or Metric(name, units.plain, "Unknown.")


RESOLUTION: Final = 0.001
"""Least relative half width of an interval of counts: twice the difference of two counts of one
program."""

NOISE: Final = DISTURBING - {FlagName.NOT_STEADY}
"""Flags of noise that may persist, and affects both sides. A side that still gets faster is not
among them: its ratio does not last."""

SideName = Literal["base", "head"]

SIDES: Final[tuple[SideName, SideName]] = ("base", "head")


class SideRecord(Frozen):
    """Description of base or head."""

    label: str = Field(description="Its name in reports: a branch, a date, `granian==2.7.8`.")
    kind: Literal["revision", "stack", "interpreter", "setting", "several"] = Field(
        description="In what the sides differ; several: in more than one of these."
    )
    commit: str | None = Field(description="40 hex digits of the applications' commit.")
    dirty: bool = False
    stacks: tuple[StackRecord, ...]
    interpreters: tuple[InterpreterRecord, ...]
    words: tuple[str, ...] = Field(
        default=(),
        description="What it has otherwise, as `--base` and `--head` say it: `server=granian`.",
    )


class Missing(Frozen):
    """A case of one side that the other does not have, or that is defined otherwise there."""

    case: str
    reason: str


class PackageChange(Frozen):
    """One package that differs between the locks of the two sides."""

    stack: str
    package: str
    base: str | None = Field(description="Version; null: not in this lock.")
    head: str | None = Field(description="Version; null: not in this lock.")

    def __str__(self) -> str:
        return f"{self.package} {self.base or 'new'} → {self.head or 'gone'}"


class Release(Frozen):
    """The release of a package that caused a change."""

    package: str
    version: str
    previous: str | None = Field(description="The version before it; null: the package was new.")

    def __str__(self) -> str:
        return f"{self.package} {self.previous or 'new'} → {self.version}"


def differences(
    stack: str, before: Mapping[str, str], after: Mapping[str, str]
) -> tuple[PackageChange, ...]:
    """The packages that differ between two states of a stack, by name."""
    return tuple(
        PackageChange(stack=stack, package=name, base=before.get(name), head=after.get(name))
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    )


class Duet(Frozen):
    """Two launches of one case, alive together under the same kind of load: the sample."""

    case: str
    order: int = Field(ge=0, description="Number in the comparison, from 0.")
    head_first: bool = Field(description="Whether head was started, and loaded, first.")
    seconds: Amount = Field(description="Wall time of the whole duet.")
    flags_base: tuple[Flag, ...] = ()
    flags_head: tuple[Flag, ...] = ()
    connections: int | None = Field(
        default=None,
        gt=0,
        description="Connections of the load, if fewer than declared: with more, requests that "
        "compute for long would not be answered in time.",
    )
    wait: Amount | None = Field(
        default=None,
        description="Seconds that a single request waits, if the load leaves cores idle so that "
        "response times show this wait; null: the handlers compute.",
    )
    alone: bool = Field(default=False, description="From launches of each side alone, in turns.")
    base: Figures = Field(default_factory=dict, description="Metrics; empty if void.")
    head: Figures = Field(default_factory=dict, description="Metrics; empty if void.")

    def flags(self, side: SideName) -> tuple[Flag, ...]:
        return self.flags_base if side == "base" else self.flags_head

    def metrics(self, side: SideName) -> dict[str, float]:
        """The figures of a side; none if the duet is void."""
        return self.base if side == "base" else self.head

    @property
    def failed(self) -> tuple[SideName, ...]:
        """The sides with a failure of their own."""
        return tuple(side for side in SIDES if self.failures(side))

    def failures(self, side: SideName) -> list[str]:
        """A side's own failures, as text."""
        return [f.detail for f in self.flags(side) if f.kind == "void"]

    @property
    def usable(self) -> bool:
        """Whether verdicts may use it: both sides have figures, and nothing else rules it out.

        Noise affects both sides: ratios of such duets scatter 1.2 times as far as others (in eleven
        comparisons with both kinds), and no quieter machine or time may be available.
        """
        return self.disturbed <= NOISE and bool(self.base) and bool(self.head)

    @property
    def disturbed(self) -> frozenset[FlagName]:
        """Flags of either side that rule it out; not growing memory, which affects nothing else."""
        flags = (*self.flags_base, *self.flags_head)
        bad = frozenset(f.name for f in flags if f.kind != "note")
        return bad - {FlagName.MEMORY_GROWS}

    @property
    def grows(self) -> bool:
        """Whether the memory of a side grows with every request."""
        flags = (*self.flags_base, *self.flags_head)
        return FlagName.MEMORY_GROWS in {flag.name for flag in flags}

    @model_validator(mode="after")
    def _a_failure_is_never_a_ratio(self) -> Self:
        if self.failed and (self.base or self.head):
            raise ValueError("a duet with a failed side has no metrics on either side")
        return self


class Finding(Frozen):
    """What an instrument shows of one subject in one case: judged, sorted, printed and gated.

    The figures of both sides are in SI units, or in times per request; `ratio` is head over base.
    """

    case: str = Field(description="Its id; empty: all cases together.")
    subject: str = Field(
        description="A metric, `instructions`, a kind of effect, `answer`, `memory kept`, or "
        "`failure`."
    )
    verdict: Verdict
    exact: bool = Field(default=False, description="Seen in single requests, so without interval.")
    base: Figure | None = None
    head: Figure | None = None
    ratio: Ratio | None = None
    low: float | None = Field(default=None, ge=1e-300, description="End of the 95 % interval.")
    high: float | None = Field(default=None, le=1e300, description="Upper end of the same.")
    limit: Amount = Field(default=0.0, description="The relative change that somebody acts on.")
    detectable: float | None = Field(
        default=None,
        ge=0,
        le=1e300,
        description="The least relative change that would have been seen, in 4 of 5 comparisons.",
    )
    n: int = Field(default=0, ge=0, description="Samples behind it: duets, or turns.")
    agreeing: int = Field(default=0, ge=0, description="Those of them that moved the same way.")
    alone: bool = Field(default=False, description="From launches of each side alone, in turns.")
    text: str = Field(default="", description="What it is about: a statement, a part of an answer.")
    place: str = Field(default="", description="The application's line: `authors, main.py:41`.")
    details: tuple[str, ...] = Field(default=(), description="What makes it up, the most first.")
    why: str = Field(default="", description="Why this verdict, if it does not explain itself.")
    lack: Literal["", "time", "quiet", "samples"] = Field(
        default="",
        description="What unknown lacks: time, a quiet machine, or more samples than are taken.",
    )

    @property
    def interval(self) -> Interval | None:
        """The ratio with its interval; None without a ratio."""
        if self.ratio is None:
            return None
        return Interval(self.ratio, self.low, self.high, self.n)

    @property
    def moved(self) -> bool:
        return self.verdict in {Verdict.WORSE, Verdict.BETTER, Verdict.DIFFERENT}

    @property
    def weight(self) -> float:
        """The size of a change in multiples of its limit, by logarithms; 0 if nothing moved.

        It uses the ratio that reports show. The interval's near end would let a loss of 5 %
        (1.4…8.6 %) pass.
        """
        if not self.moved:
            return 0.0
        if not (self.ratio and self.limit):
            return math.inf
        return abs(math.log(self.ratio)) / math.log1p(self.limit)

    @model_validator(mode="after")
    def _the_interval_holds_the_ratio(self) -> Self:
        values = [value for value in (self.low, self.ratio, self.high) if value is not None]
        if values != sorted(values) or (values and values[0] <= 0):
            raise ValueError(f"0 < {self.low} ≤ {self.ratio} ≤ {self.high} does not hold")
        return self


class Instructions(Frozen):
    """Instructions per request of both sides, counted by callgrind."""

    base: Amount
    head: Amount
    spread: Amount = Field(description="Relative spread of the repetitions, of the larger side.")
    scatter: Amount = Field(
        default=0.0,
        description="Half width of the ratio's 95 % interval, relative, from the repetitions of "
        "both sides.",
    )

    @property
    def error(self) -> float:
        """Half the ratio's 95 % interval, relative."""
        return max(RESOLUTION, self.scatter)


PYTHON: Final = "python"
"""Replaces a package's name for code of the interpreter or the standard library."""

APPLICATION: Final = "application"
"""Replaces a package's name for code of the measured application."""


class FunctionChange(Frozen):
    """What a function executes on both sides, with the compiled code that it calls directly.

    A function of only one side includes everything below it that the other side does not do.
    """

    name: str = Field(description="Qualified, as `APIRoute.handle`; for compiled code its symbol.")
    file: str = Field(description="Below the folder of packages, as `fastapi/routing.py`.")
    line: int | None = Field(
        default=None, ge=1, description="Its first line, on the newer side; null: compiled code."
    )
    package: str = Field(description="Distribution, or `python`, or `application`.")
    caller: str | None = Field(default=None, description="The caller of most of it.")
    state: Literal["both", "came", "went"] = Field(description="The sides that have it.")
    base: Amount = Field(description="Instructions per request, trampolined.")
    head: Amount = Field(description="Instructions per request, trampolined.")
    entries: tuple[Amount, Amount] | None = Field(default=None, description="Per request.")


class Attribution(Frozen):
    """The functions behind a case's change of instructions: it explains, and is never a verdict.

    Totals come from plain counts, which are exact. Figures of functions come from counts with a
    trampoline below every Python function, which costs some hundred instructions per entry, so they
    only rank functions (docs/why.md).
    """

    case: str
    asked: str | None = Field(default=None, description="The request of an --app: GET /items/7.")
    python: str = Field(description="Version and build, as 3.14.7t.")
    packages: Many[PackageChange] = ()
    instructions: Instructions = Field(description="Totals, from plain counts.")
    counted: Amount = Field(gt=0, description="Trampolined, of base: the sum of all functions.")
    threshold: float = Field(ge=0, description="Share of the total by which equal sides differ.")
    seconds: Amount = Field(description="Time that it took.")
    rows: Many[FunctionChange] = Field(description="The largest change first; empty: no change.")


class CaseComparison(Frozen):
    """One case on both sides."""

    case: Case = Field(description="As head defines it.")
    because: str = Field(description="Why the change can affect it.")
    duets: Many[Duet] = ()
    effects: Effects | None = Field(None, description="What one request does; null: not observed.")


class Coverage(Frozen):
    """Functions that differ between two revisions, and those of them that the requests enter."""

    differ: int = Field(ge=0)
    entered: int = Field(ge=0, description="Functions that requests of any case enter.")
    missed: tuple[str, ...] = Field(default=(), description="Some that no request enters.")
    functions: tuple[str, ...] = Field((), description="Some entered: `item, shop/main.py:17`.")
    outside: int = Field(0, ge=0, description="Files whose code outside functions differs.")
    alone: bool = Field(default=False, description="Whether nothing else differs.")


class Comparison(Artefact):
    """The whole comparison: the artefact that reports read."""

    noun: ClassVar[str] = "a comparison"
    place: ClassVar[str] = "comparisons/{0.id}.json"

    format: Literal[4] = FORMAT_VERSION
    id: str
    status: ResultStatus
    started: Moment
    wall_seconds: Amount = 0.0
    budget_seconds: Amount | None = None
    duetbench: str
    machine: Machine
    cross: bool = Field(False, description="Whether it compares two interpreters, or two settings.")
    start: bool = Field(False, description="Whether a duet starts each server alone, in turns.")
    counts_only: bool = Field(default=False, description="Whether the user asked for no duets.")
    base: SideRecord
    head: SideRecord
    packages: Many[PackageChange] = ()
    planned: int = Field(description="Cases that the change can affect.")
    untouched: int = Field(description="Cases of the plan that it cannot affect.")
    coverage: Coverage | None = Field(None, description="Whether requests enter what differs.")
    missing: Many[Missing] = ()
    cases: OfCases[CaseComparison] = ()
    findings: tuple[Finding, ...] = Field(
        default=(),
        max_length=10 * MOST,
        description="All that was found, the most important first.",
    )
    reproduce: str = Field(default="", description="A command for a terminal.")
    to_repeat: tuple[str, ...] = Field((), description="Options that no report may have.")
    why: Attribution | None = Field(None, description="The functions behind the clearest change.")
    nothing: str = Field("", description="Why there is nothing to judge; empty if there is.")
    notes: Many[str] = ()

    def of(self, case: str, subject: str) -> Finding | None:
        """The finding on a subject in a case; None if there is none."""
        findings = (f for f in self.findings if (f.case, f.subject) == (case, subject))
        return next(findings, None)
