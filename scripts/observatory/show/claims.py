"""What each statement says here: one verdict, from one machine's comparisons or valid launches.

If `compare` has compared both sides of a statement, its duets or launches by turns decide: what the
day does to the machine, it does to both. Comparisons of one machine and day count together: each
ends when it has detected a change, so its interval may be too wide for a statement. Of several days
or machines, the one with most samples answers, or else the newest: no result chooses its evidence.

Without a comparison, all valid launches of one machine decide. Sides are compared within the runs
that have both, whatever their profile, on the logarithmic scale. So what a run's day does to both
sides is no scatter (two-way analysis of variance without interaction; for one run this is Student's
interval). If a case has few launches, its scatter also comes from its kin: the same endpoint on the
same interpreter. If half of the launches have warnings of a disturbance, the interval is doubled:
their scatter does not show what disturbs all of them.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import attrgetter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from duetbench.app import setting
from duetbench.app.setting import OPTIONS
from duetbench.core.comparison import CaseComparison, Comparison
from duetbench.core.errors import DISTURBING, FlagName
from duetbench.core.metrics import METRICS
from duetbench.core.model import Case, Machine, Run
from duetbench.core.units import Formatter, Interval, student
from duetbench.load.summary import ENOUGH_LAUNCHES, CaseSummary, RunSummary, estimate
from duetbench.report import formats
from observatory.matrix.published import CaseShape, Published, Shape
from observatory.show.run_view import ANSWERED, DECIDED, Answer, StatementVerdict

Logs = NDArray[np.float64]
_OWN: Final = 4  # launches from which on a case's own scatter is used
_WIDER: Final = 2.0  # factor of the interval of disturbed launches


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
class Compared:
    """The logarithm of a ratio with its interval, by comparisons of one day.

    `kind` is what the samples are: duets, or pairs of launches by turns.
    """

    low: float
    mean: float
    high: float
    samples: int
    kind: str
    comparisons: tuple[Comparison, ...]

    @property
    def ratio(self) -> Interval:
        mean, low, high = map(math.exp, (self.mean, self.low, self.high))
        return Interval(mean, low, high, self.samples)

    @property
    def note(self) -> str:
        newest = self.comparisons[0]
        return f"by {self.samples} {self.kind} on {newest.machine.id}, {newest.started[:10]}"


@dataclass(frozen=True, slots=True)
class Evidence:
    """All runs of one machine, the newest first, and for each case the one with most launches.

    Attributes:
        comparisons: Of two interpreters or settings, by the same machine, the newest first.
        cells: What each case serves, as a key, by its id; also of cases that only others measured.
        others: Evidence of other machines.
    """

    runs: tuple[RunSummary, ...] = ()
    cases: Mapping[str, CaseSummary] = field(default_factory=dict)
    comparisons: tuple[Comparison, ...] = ()
    cells: Mapping[str, Hashable] = field(default_factory=dict)
    others: "tuple[Evidence, ...]" = ()

    @classmethod
    def of(
        cls,
        runs: Iterable[RunSummary],
        experiment: str,
        published: Mapping[str, Published] | None = None,
        comparisons: Iterable[Comparison] = (),
    ) -> "Evidence":
        """Collect all machines' evidence of an experiment.

        First comes the machine whose least measured statement, of all `published`, has most
        launches; of several such, the one with most launches of the experiment.
        """
        by_machine: defaultdict[str, list[RunSummary]] = defaultdict(list)
        for summary in sorted(runs, key=lambda summary: summary.run.started, reverse=True):
            by_machine[summary.run.machine.id].append(summary)
        crossed: defaultdict[str, list[Comparison]] = defaultdict(list)
        for record in sorted(comparisons, key=lambda record: record.started, reverse=True):
            own = any(row.case.experiment == experiment for row in record.cases)
            if own and record.base.kind in {"interpreter", "setting"}:
                crossed[record.machine.id].append(record)
        cells: dict[str, Hashable] = {}
        ranked: list[tuple[tuple[int, int], Evidence]] = []
        for machine in dict.fromkeys((*by_machine, *crossed)):
            summaries = by_machine[machine]
            measured = tuple(run for run in summaries if any(_of(run, experiment)))
            cases: dict[str, CaseSummary] = {}
            for case in chain(*(_of(run, experiment) for run in measured)):
                cells[case.id] = _cell(case.case)
                if case.measured > cases.setdefault(case.id, case).measured:
                    cases[case.id] = case
            total = sum(case.measured for run in measured for case in _of(run, experiment))
            known = tuple(crossed[machine])
            if measured or known:
                rank = _least(summaries, (published or {}).values()), total
                ranked.append((rank, cls(measured, cases, known, cells)))
        ranked.sort(key=lambda entry: entry[0], reverse=True)
        first, *others = [evidence for _, evidence in ranked] or [cls()]
        return replace(first, others=tuple(others))

    @property
    def machine(self) -> Machine | None:
        """The machine that all of it is of; None without any."""
        machines = [summary.run.machine for summary in self.runs[:1]]
        machines += [comparison.machine for comparison in self.comparisons[:1]]
        return next(iter(machines), None)

    def compared(self, above: str, below: str, metric: str) -> Compared | None:
        """Return the ratio of two cases by comparisons; None: this machine has not compared them.

        Of several days, the one with most samples counts, or the newest of those. Fewer than three
        samples say too little.
        """
        sides = [self.cells.get(case) for case in (above, below)]
        days: defaultdict[str, list[Compared]] = defaultdict(list)
        for comparison in self.comparisons:
            for row in comparison.cases:
                cells = [_cell(_as_base(comparison, row.case)), _cell(row.case)]
                ratio, kind = _ratio(comparison, row, metric)
                if ratio is None or ratio.ends is None or sides not in (cells, cells[::-1]):
                    continue
                mean, low, high = map(math.log, (ratio.estimate, *ratio.ends))
                if sides == cells:  # base over head
                    mean, low, high = -mean, -high, -low
                known = Compared(low, mean, high, ratio.n, kind, (comparison,))
                days[comparison.started[:10]].append(known)
        pooled = [known for known in map(_pool, days.values()) if known.samples >= ENOUGH_LAUNCHES]
        return max(pooled, key=lambda known: known.samples, default=None)

    def side(self, case: str, metric: str) -> Side:
        """Return the figures of a case, by run."""
        summaries = [run.cases[case] for run in self.runs if case in run.cases]
        disturbing = DISTURBING
        if METRICS[metric].unit == "B":  # a disturbance takes time from a process, not memory
            disturbing &= {FlagName.MEMORY_GROWS}
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
        by_run = {run.run.id: _values(run.run, case, metric) for run in self.runs}
        return {run: figures for run, figures in by_run.items() if figures}


def _pool(known: Sequence[Compared]) -> Compared:
    """Average comparisons of one day, by their samples; a single one stays as it is."""
    total = sum(part.samples for part in known)
    mean = sum(part.samples * part.mean for part in known) / total
    below, above = (
        math.hypot(*(part.samples * (end(part) - part.mean) for part in known)) / total
        for end in (attrgetter("low"), attrgetter("high"))
    )
    sources = tuple(chain(*(part.comparisons for part in known)))
    return Compared(mean - below, mean, mean + above, total, known[0].kind, sources)


def _cell(case: Case) -> Hashable:
    """Return a key, equal for cases of one interpreter that are set alike."""
    load = case.load
    threads = (case.workers, case.threads, case.cores)
    server = (case.stack, case.server, case.server_args, case.loop, *threads)
    offer = (load.connections, load.rate)
    own = (case.experiment, case.endpoint.name, server, offer, frozenset(case.env.items()))
    return case.python, own


def _as_base(comparison: Comparison, case: Case) -> Case:
    """Return a comparison's case, which is as head serves it, as base does."""
    known = [word for word in comparison.base.words if word.partition("=")[0] in OPTIONS]
    fields = dict(setting.read(known).values)
    load = {"connections": fields.pop("connections", case.load.connections)}
    if comparison.base.kind == "interpreter":
        fields["python"] = next((python.name for python in comparison.base.interpreters), "")
    return case.model_copy(update={**fields, "load": case.load.model_copy(update=load)})


def _ratio(comparison: Comparison, row: CaseComparison, metric: str) -> tuple[Interval | None, str]:
    """Return head's figure over base's, and what its samples are."""
    turns = "pairs of launches by turns"
    judged = comparison.of(row.case.id, metric)
    if judged is not None:
        return judged.interval, turns if judged.alone else "duets"
    # What was not judged is only known of sides that were launched alone.
    alone = (duet for duet in row.duets if duet.usable and duet.alone)
    pairs = [(duet.base.get(metric, 0), duet.head.get(metric, 0)) for duet in alone]
    ratios = [head / base for base, head in pairs if base > 0 and head > 0]
    return estimate(ratios) if ratios else None, turns


def _values(run: Run, case: str, metric: str) -> list[float]:
    """Return the figures of one metric, one per good launch of a case; empty if there are none."""
    return [
        launch.metrics[metric]
        for result in run.results
        if result.case.id == case
        for launch in result.usable
        if metric in launch.metrics
    ]


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
        known = [(_check(of, published, shape), of.machine) for of in (evidence, *evidence.others)]
        known.sort(key=lambda entry: _samples(entry[0]), reverse=True)
        (ours, _), *rest = known
        others = [(f"on {machine.id}", contrary) for contrary, machine in rest if machine]
        if reference is not None and ours.verdict not in ANSWERED:
            others.append(("the reference runs say", _check(reference, published, shape)))
        for where, contrary in others if ours.verdict != "cannot be asked here" else ():
            if contrary.verdict in DECIDED and contrary.verdict != ours.verdict:
                text = f"{where}: {contrary.verdict}, {contrary.figure}"
                ours = replace(ours, reason="; ".join(filter(None, (ours.reason, text))))
        answers.append(ours)
    return tuple(answers)


def _samples(answer: Answer) -> tuple[int, str]:
    """Rank an answer by the samples of its comparisons, then by their time; last without any."""
    if not answer.comparisons or answer.ours is None or answer.verdict == "cannot be asked here":
        return 0, ""
    return answer.ours.n, answer.comparisons[0]


def _check(evidence: Evidence, published: Published, shape: CaseShape) -> Answer:
    if evidence.machine and evidence.machine.cores >= (shape.needs or math.inf):
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
    if len(ids) > 1 and (known := evidence.compared(ids[0], ids[1], shape.metric)):
        sides = [replace(side, runs={}, disturbed=()) for side in sides]
        by_comparison = answer(shape, sides, ratio, known.ratio, known.kind, known.note)
        return replace(by_comparison, comparisons=tuple(by.id for by in known.comparisons))
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
        least=shape.least,
        most=shape.most,
        published=published if shape.published is None else shape.published,
        ours=ours,
        verdict=verdict,
        reason="; ".join(filter(None, words)),
    )


def judge(ours: Interval | None, shape: Shape) -> StatementVerdict:
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
