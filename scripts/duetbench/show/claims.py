"""What each statement says here: one verdict, from all valid launches of one machine.

Sides are compared within the runs that have both, whatever their profile, on the logarithmic
scale, with Welch's interval over launches. How far launches of a case scatter is told by all of
them; where these are few, by those of its kin as well: the same endpoint on the same interpreter.
Warnings that half of the launches measured something else, too, make an interval twice as wide:
what disturbs all of them is not in their scatter.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final, Literal, Self

import numpy as np
from numpy.typing import NDArray

from duetbench.core.errors import DISTURBING, FlagName
from duetbench.core.metrics import METRICS
from duetbench.core.units import Formatter, Interval, student
from duetbench.project.published import CaseShape, Published, Shape
from duetbench.show import formats
from duetbench.trend.summary import CaseSummary, RunSummary, values

Logs = NDArray[np.float64]
_OWN: Final = 4  # launches from which on a case's scatter is its own
_WIDER: Final = 2.0  # an interval of disturbed launches, in multiples of itself

Verdict = Literal[
    "holds", "does not hold here", "cannot be asked here", "not decided", "not measured"
]
ANSWERED: Final = ("holds", "does not hold here", "cannot be asked here")


@dataclass(frozen=True, slots=True)
class Answer:
    """A statement, its figure here, whether it holds, and a sentence about that."""

    statement: str
    expected: str
    published: float | None
    ours: Interval | None
    verdict: Verdict
    reason: str

    @property
    def figure(self) -> str:
        if self.ours is None:
            return formats.MISSING
        within = f" ({'…'.join(map(formats.ratio, self.ours.ends))})" if self.ours.ends else ""
        return f"{formats.ratio(self.ours.estimate)}{within}"

    @property
    def sentence(self) -> str:
        """The statement with its verdict and figure."""
        figure = f", {self.figure}" if self.ours else ""
        return f"{self.statement} — {self.verdict}{figure}"


def tally(answers: Sequence[Answer]) -> str:
    """How many statements have which verdict; empty without any."""
    counts = Counter(answer.verdict for answer in answers).most_common()
    verdicts = ", ".join(f"{verdict} {number}" for verdict, number in counts)
    return f"{formats.quantity(len(answers), 'statement')}: {verdicts}" if answers else ""


@dataclass(frozen=True, slots=True)
class Side:
    """Figures of one side of a statement.

    Attributes:
        runs: By run, or by commit that asv measured.
        kin: Those of each case that scatters alike.
        disturbed: Flags of at least half of the launches.
    """

    name: str
    format: Formatter
    runs: Mapping[str, Sequence[float]]
    kin: tuple[Sequence[float], ...] = ()
    disturbed: tuple[str, ...] = ()

    def scatter(self) -> tuple[float, int]:
        """Variance of the logarithm of a launch's figure, and its degrees of freedom."""
        own = [value for many in self.runs.values() for value in many]
        kin = [many for many in self.kin if min(many, default=0) > 0] if len(own) < _OWN else []
        groups = [np.log(many) for many in (own, *kin)]
        freedom = sum(len(group) - 1 for group in groups)
        squares = sum(float(((group - group.mean()) ** 2).sum()) for group in groups)
        return (squares / freedom if freedom else math.nan), freedom


@dataclass(frozen=True, slots=True)
class Evidence:
    """All runs of one machine, the newest first, and of each case the one with most launches."""

    runs: tuple[RunSummary, ...] = ()
    cases: Mapping[str, CaseSummary] = field(default_factory=dict)

    @classmethod
    def of(cls, runs: Iterable[RunSummary], experiment: str) -> Self:
        """Take what the machine that has most launches of an experiment knows of it."""
        runs_of: defaultdict[str, list[RunSummary]] = defaultdict(list)
        cases_of: defaultdict[str, list[CaseSummary]] = defaultdict(list)
        for summary in sorted(runs, key=lambda summary: summary.run.started, reverse=True):
            there = [case for case in summary.cases.values() if case.case.experiment == experiment]
            if there:
                runs_of[summary.run.machine.id].append(summary)
                cases_of[summary.run.machine.id] += there
        if not cases_of:
            return cls()
        most = max(cases_of, key=lambda name: sum(case.measured for case in cases_of[name]))
        cases: dict[str, CaseSummary] = {}
        for case in cases_of[most]:
            if case.measured > cases.setdefault(case.id, case).measured:
                cases[case.id] = case
        return cls(tuple(runs_of[most]), cases)

    def side(self, case: str, metric: str) -> Side:
        """The figures of a case, by run."""
        there = [run.cases[case] for run in self.runs if case in run.cases]
        disturbing = DISTURBING
        if METRICS[metric].unit == "B":  # whatever takes time from a process takes no memory
            disturbing &= {FlagName.MEMORY_GROWS, FlagName.ENV_CHANGED}
        raised: Counter[str] = Counter()
        for flag in (flag for summary in there for flag in summary.warnings):
            raised[flag.name] += flag.launches * (flag.name in disturbing)
        half = sum(summary.measured for summary in there) / 2
        kin = (other.id for other in self.cases.values() if there and _akin(other, there[0]))
        return Side(
            case.partition("/")[2],
            METRICS[metric].format,
            self._figures(case, metric),
            tuple(list(chain(*self._figures(other, metric).values())) for other in kin),
            tuple(str(flag) for flag, launches in raised.items() if launches >= max(half, 1)),
        )

    def _figures(self, case: str, metric: str) -> dict[str, list[float]]:
        by_run = {run.run.id: values(run.run, case, metric) for run in self.runs}
        return {run: many for run, many in by_run.items() if many}


def _akin(case: CaseSummary, other: CaseSummary) -> bool:
    both = [(one.case.endpoint.name, one.case.python) for one in (case, other)]
    return case.id != other.id and case.measured > 0 and both[0] == both[1]


def together(sides: Sequence[Side]) -> list[Logs]:
    """Logarithms of the figures of each side, of runs that have all; empty where there are none."""
    runs = [run for run in sides[0].runs if all(run in side.runs for side in sides)]
    figures = [list(chain(*(side.runs[run] for run in runs))) for side in sides]
    return [np.log(many) for many in figures] if runs and min(chain(*figures)) > 0 else []


def compare(sides: Sequence[Side]) -> Interval | None:
    """How many times the second side's figures the first one's are; of one side its figure.

    None: no run has all sides, or a figure is not positive. Without ends where nothing is known of
    the scatter.
    """
    if not (logs := together(sides)):
        return None
    mean, count = float(logs[0].mean() - sum(log.mean() for log in logs[1:])), min(map(len, logs))
    scatter = [side.scatter() for side in sides]
    if not all(freedom for _, freedom in scatter):
        return Interval(math.exp(mean), n=count)
    parts = [
        (variance / len(log), freedom)
        for (variance, freedom), log in zip(scatter, logs, strict=True)
    ]
    variance, half = sum(part for part, _ in parts), 0.0
    if variance > 0:
        freedom = variance**2 / sum(part**2 / free for part, free in parts)
        half = student(freedom) * math.sqrt(variance)
    if any(side.disturbed for side in sides):
        half *= _WIDER
    low, high = math.exp(mean - half), math.exp(mean + half)
    return Interval(math.exp(mean), low, high, count)


def check(
    evidence: Evidence, published: Published, reference: Evidence | None = None
) -> tuple[Answer, ...]:
    """Answer every statement of an experiment; an open one adds what the `reference` answers."""
    answers = []
    for shape in published.shapes:
        ours = _check(evidence, published, shape)
        theirs = _check(reference, published, shape) if reference else ours
        if ours.verdict not in ANSWERED and theirs.verdict in ANSWERED:
            text = f"the reference runs say: {theirs.verdict}, {theirs.figure}"
            ours = replace(ours, reason=f"{ours.reason}; {text}")
        answers.append(ours)
    return tuple(answers)


def _check(evidence: Evidence, published: Published, shape: CaseShape) -> Answer:
    if evidence.runs and evidence.runs[0].run.machine.cores >= (shape.needs or math.inf):
        shape = shape.model_copy(update={"cannot": None})
    names = [name for name in (shape.numerator, shape.denominator) if name is not None]
    measured = {case.id for case in evidence.cases.values() if case.measured}
    sides = [evidence.side(published.case_id(name, measured), shape.metric) for name in names]
    theirs = [published.figures_of(published.ids(name)[0]).get(shape.metric) for name in names]
    first, *rest = theirs
    ratio = first
    if rest:
        ratio = first / rest[0] if first is not None and rest[0] else None
    return answer(shape, sides, ratio, compare(sides))


def answer(
    shape: Shape,
    sides: Sequence[Side],
    published: float | None,
    ours: Interval | None,
    what: str = "launches",
    note: str = "",
) -> Answer:
    """Answer a statement from its sides, figures of `what`, and how they compare."""
    verdict = judge(ours, shape)
    words = [note] if note else []
    if logs := together(sides):
        pairs = zip(sides, logs, strict=True)
        figures = " against ".join(side.format(math.exp(log.mean())) for side, log in pairs)
        count = min(map(len, logs))
        over = f"{count} {what}" if count > 1 else "one launch, which scatters as its kin do"
        words.append(f"{figures}, over {over}")
    if disturbed := dict.fromkeys(flag for side in sides for flag in side.disturbed):
        words.append(f"twice as wide for {', '.join(disturbed)}")
    names = " and ".join(side.name for side in sides)
    if verdict == "cannot be asked here":
        words = [shape.cannot or ""]
    elif verdict == "does not hold here":
        words.append(shape.if_not or "no reason is known")
    elif ours is None:
        missing = [side.name for side in sides if not side.runs]
        words = [f"no figures of {', '.join(missing)}" if missing else "never in one run"]
    elif ours.ends is None:
        words = ["one launch" if what == "launches" else "one sample"]
    elif verdict == "not decided":
        words.append(f"more {what} of {names} would decide")
    return Answer(
        statement=shape.statement,
        expected=formats.limits(shape.least, shape.most),
        published=published if shape.published is None else shape.published,
        ours=ours,
        verdict=verdict,
        reason="; ".join(filter(None, words)),
    )


def judge(ours: Interval | None, shape: Shape) -> Verdict:
    """Decide a statement if the whole interval lies on one side of its limits.

    Without an interval nothing is decided: a single launch may lie anywhere within the scatter.
    """
    if shape.cannot:
        return "cannot be asked here"
    if ours is None:
        return "not measured"
    low, high = ours.ends or (-math.inf, math.inf)
    floor = -math.inf if shape.least is None else shape.least
    top = math.inf if shape.most is None else shape.most
    if ours.ends and floor <= low and high <= top:
        return "holds"
    return "does not hold here" if high < floor or low > top else "not decided"
