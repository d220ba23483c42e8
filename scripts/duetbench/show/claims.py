"""What each statement says here: one verdict, from all valid launches of one machine.

Sides are compared within the runs that have both, whatever their profile, on the logarithmic
scale. So what a run's day does to both sides is no scatter (two-way analysis of variance without
interaction; for one run this is Student's interval). If a case has few launches, its scatter also
comes from its kin: the same endpoint on the same interpreter. If half of the launches have warnings
of a disturbance, the interval is doubled: their scatter does not show what disturbs all of them.
If the machine has compared two interpreters (`compare --python`), the ratio is that of its duets,
or of its launches by turns.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from duetbench.core.errors import DISTURBING, FlagName
from duetbench.core.metrics import METRICS
from duetbench.core.units import Formatter, Interval, student
from duetbench.project.published import CaseShape, Published, Shape
from duetbench.show import formats
from duetbench.store.comparison import Comparison
from duetbench.trend.summary import CaseSummary, RunSummary, values

Logs = NDArray[np.float64]
_OWN: Final = 4  # launches from which on a case's own scatter is used
_WIDER: Final = 2.0  # factor of the interval of disturbed launches

Verdict = Literal[
    "holds", "does not hold here", "cannot be asked here", "not decided", "not measured"
]
DECIDED: Final = ("holds", "does not hold here")
ANSWERED: Final = (*DECIDED, "cannot be asked here")


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
        figure = f", {self.figure}" if self.ours else ""
        return f"{self.statement} — {self.verdict}{figure}"


def tally(answers: Sequence[Answer]) -> str:
    """Count the statements by verdict; empty without any."""
    counts = Counter(answer.verdict for answer in answers).most_common()
    verdicts = ", ".join(f"{verdict} {number}" for verdict, number in counts)
    return f"{formats.quantity(len(answers), 'statement')}: {verdicts}" if answers else ""


@dataclass(frozen=True, slots=True)
class Side:
    """Figures of one side of a statement.

    Attributes:
        runs: Figures by run, or by commit that asv measured.
        kin: Those of each case with the same scatter.
        disturbed: Flags of at least half of the launches.
    """

    name: str
    format: Formatter
    runs: Mapping[str, Sequence[float]]
    kin: tuple[Sequence[float], ...] = ()
    disturbed: tuple[str, ...] = ()

    def kin_logs(self) -> list[Logs]:
        """Return logarithms of the figures of its kin, if its own are few."""
        few = sum(map(len, self.runs.values())) < _OWN
        return [np.log(figures) for figures in self.kin if few and min(figures, default=0) > 0]


@dataclass(frozen=True, slots=True)
class Evidence:
    """All runs of one machine, the newest first, and for each case the one with most launches.

    Attributes:
        comparisons: Of two interpreters, by the same machine, the newest first.
        others: Evidence of other machines.
    """

    runs: tuple[RunSummary, ...] = ()
    cases: Mapping[str, CaseSummary] = field(default_factory=dict)
    comparisons: tuple[Comparison, ...] = ()
    others: "tuple[Evidence, ...]" = ()

    @classmethod
    def of(
        cls,
        runs: Iterable[RunSummary],
        experiment: str,
        published: Mapping[str, Published] | None = None,
        comparisons: Iterable[Comparison] = (),
    ) -> "Evidence":
        """Collect one machine's evidence of an experiment.

        The machine whose least measured statement, of all `published`, has most launches; of
        several such, the one with most launches of the experiment.
        """
        by_machine: defaultdict[str, list[RunSummary]] = defaultdict(list)
        for summary in sorted(runs, key=lambda summary: summary.run.started, reverse=True):
            by_machine[summary.run.machine.id].append(summary)
        crossed = [record for record in comparisons if record.base.kind == "interpreter"]
        crossed.sort(key=lambda record: record.started)
        ranked: list[tuple[tuple[int, int], Evidence]] = []
        for machine, summaries in by_machine.items():
            own = [run for run in summaries if any(_of(run, experiment))]
            cases: dict[str, CaseSummary] = {}
            for case in chain(*(_of(run, experiment) for run in own)):
                if case.measured > cases.setdefault(case.id, case).measured:
                    cases[case.id] = case
            total = sum(case.measured for run in own for case in _of(run, experiment))
            known = tuple(c for c in reversed(crossed) if c.machine.id == machine)
            if own:
                rank = _least(summaries, (published or {}).values()), total
                ranked.append((rank, cls(tuple(own), cases, known)))
        ranked.sort(key=lambda entry: entry[0], reverse=True)
        first, *others = [evidence for _, evidence in ranked] or [cls()]
        return replace(first, others=tuple(others))

    def compared(self, above: str, below: str, metric: str) -> tuple[Interval, str] | None:
        """Return the ratio of two cases that differ only in their interpreter, and its source.

        None: this machine has not compared them.
        """
        for comparison in self.comparisons:
            pythons = {python.name for python in comparison.base.interpreters}
            for row in comparison.cases:
                other = self.cases.get(below if row.case.id == above else above)
                if row.case.id not in {above, below} or other is None:
                    continue
                if other.case.python not in pythons or other.case.setting != row.case.setting:
                    continue
                judgement = next((j for j in row.judgements if j.metric == metric), None)
                interval = None if judgement is None else judgement.interval
                if judgement is None or interval is None or interval.ends is None:
                    continue
                ratio, (low, high) = interval.estimate, interval.ends
                if row.case.id == below:
                    ratio, low, high = 1 / ratio, 1 / high, 1 / low
                kind = "pairs of launches by turns" if judgement.alone else "duets"
                note = f"by {judgement.duets} {kind}, {comparison.started[:10]}"
                return Interval(ratio, low, high, judgement.duets), note
        return None

    def side(self, case: str, metric: str) -> Side:
        """Return the figures of a case, by run."""
        summaries = [run.cases[case] for run in self.runs if case in run.cases]
        disturbing = DISTURBING
        if METRICS[metric].unit == "B":  # a disturbance takes time from a process, not memory
            disturbing &= {FlagName.MEMORY_GROWS, FlagName.ENV_CHANGED}
        raised: Counter[str] = Counter()
        for flag in (flag for summary in summaries for flag in summary.warnings):
            raised[flag.name] += flag.launches * (flag.name in disturbing)
        half = sum(summary.measured for summary in summaries) / 2
        kin = (c.id for c in self.cases.values() if summaries and _akin(c, summaries[0]))
        return Side(
            case.partition("/")[2],
            METRICS[metric].format,
            self._figures(case, metric),
            tuple(list(chain(*self._figures(other, metric).values())) for other in kin),
            tuple(str(flag) for flag, launches in raised.items() if launches >= max(half, 1)),
        )

    def _figures(self, case: str, metric: str) -> dict[str, list[float]]:
        by_run = {run.run.id: values(run.run, case, metric) for run in self.runs}
        return {run: figures for run, figures in by_run.items() if figures}


def _of(run: RunSummary, experiment: str) -> list[CaseSummary]:
    return [case for case in run.cases.values() if case.case.experiment == experiment]


def _least(runs: Iterable[RunSummary], published: Iterable[Published]) -> int:
    """Count launches of the least measured side of all statements that can be asked anywhere."""
    launches = Counter[str]()
    for case in chain(*(run.cases.values() for run in runs)):
        launches[case.id] += case.measured
    measured = {name for name, number in launches.items() if number}
    sides = (
        launches[figures.case_id(name, measured)]
        for figures in published
        for shape in figures.shapes
        for name in (shape.numerator, shape.denominator)
        if name and not shape.cannot
    )
    return min(sides, default=0)


def _akin(case: CaseSummary, other: CaseSummary) -> bool:
    both = [(summary.case.endpoint.name, summary.case.python) for summary in (case, other)]
    return case.id != other.id and case.measured > 0 and both[0] == both[1]


def together(sides: Sequence[Side]) -> list[Logs]:
    """Return logarithms of each side's figures, of runs that have all sides; or an empty list."""
    runs = [run for run in sides[0].runs if all(run in side.runs for side in sides)]
    figures = [list(chain(*(side.runs[run] for run in runs))) for side in sides]
    return [np.log(values) for values in figures] if runs and min(chain(*figures)) > 0 else []


def compare(sides: Sequence[Side]) -> Interval | None:
    """Return the ratio of the first side's figures to the second's; of one side, its figure.

    None: no run has all sides, or a figure is not positive. The ratio has no ends if its scatter is
    unknown.
    """
    if not (logs := together(sides)):
        return None
    blocks = [
        [np.log(side.runs[run]) for side in sides]
        for run in sides[0].runs
        if all(run in side.runs for side in sides)
    ]
    gaps = [float(first.mean() - sum(log.mean() for log in rest)) for first, *rest in blocks]
    weights = [1 / sum(1 / len(log) for log in block) for block in blocks]
    mean, count = float(np.average(gaps, weights=weights)), min(map(len, logs))
    groups = [*chain(*blocks), *chain(*(side.kin_logs() for side in sides))]
    freedom = sum(len(group) - 1 for group in groups) + len(blocks) - 1
    if not freedom:
        return Interval(math.exp(mean), n=count)
    squares = sum(float(((group - group.mean()) ** 2).sum()) for group in groups)
    squares += sum(w * (gap - mean) ** 2 for w, gap in zip(weights, gaps, strict=True))
    half = student(freedom) * math.sqrt(squares / freedom / sum(weights))
    if any(side.disturbed for side in sides):
        half *= _WIDER
    low, high = math.exp(mean - half), math.exp(mean + half)
    return Interval(math.exp(mean), low, high, count)


def check(
    evidence: Evidence, published: Published, reference: Evidence | None = None
) -> tuple[Answer, ...]:
    """Answer every statement of an experiment, and name machines that answer otherwise.

    An open statement adds the answer of the `reference`.
    """
    answers = []
    for shape in published.shapes:
        ours = _check(evidence, published, shape)
        others = [(f"on {other.runs[0].run.machine.id}", other) for other in evidence.others]
        if reference is not None and ours.verdict not in ANSWERED:
            others.append(("the reference runs say", reference))
        for where, other in others if ours.verdict != "cannot be asked here" else ():
            contrary = _check(other, published, shape)
            if contrary.verdict in DECIDED and contrary.verdict != ours.verdict:
                text = f"{where}: {contrary.verdict}, {contrary.figure}"
                ours = replace(ours, reason="; ".join(filter(None, (ours.reason, text))))
        answers.append(ours)
    return tuple(answers)


def _check(evidence: Evidence, published: Published, shape: CaseShape) -> Answer:
    if evidence.runs and evidence.runs[0].run.machine.cores >= (shape.needs or math.inf):
        shape = shape.model_copy(update={"cannot": None})
    names = [name for name in (shape.numerator, shape.denominator) if name is not None]
    measured = {case.id for case in evidence.cases.values() if case.measured}
    ids = [published.case_id(name, measured) for name in names]
    sides = [evidence.side(name, shape.metric) for name in ids]
    figures = [published.figures_of(published.ids(name)[0]).get(shape.metric) for name in names]
    first, *rest = figures
    ratio = first
    if rest:
        ratio = first / rest[0] if first is not None and rest[0] else None
    if len(ids) > 1 and (duets := evidence.compared(ids[0], ids[1], shape.metric)):
        sides = [replace(side, runs={}, disturbed=()) for side in sides]
        return answer(shape, sides, ratio, duets[0], "duets", duets[1])
    return answer(shape, sides, ratio, compare(sides))


def answer(
    shape: Shape,
    sides: Sequence[Side],
    published: float | None,
    ours: Interval | None,
    what: str = "launches",
    note: str = "",
) -> Answer:
    """Answer a statement from its sides, figures of `what`, and their ratio."""
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

    Without an interval nothing is decided: the scatter of a single launch is unknown.
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
