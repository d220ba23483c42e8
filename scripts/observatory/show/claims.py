"""What each statement says here: one verdict, by pairs of figures of one machine. Pure.

A comparison of both sides answers a statement by its finding, as its page shows it. Of several,
that with most samples answers, or the newest of these: no result chooses its evidence. Without a
comparison the launches of a machine's runs do. A run's launches take turns, so those of one round
are a pair, whose sides its day affects alike; the interval is Student's over the pairs. Fewer
than four pairs also scatter as their kin do: the other cases of one endpoint and interpreter.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np

from duetbench.app import setting
from duetbench.app.setting import OPTIONS
from duetbench.core.comparison import CaseComparison, Comparison
from duetbench.core.metrics import METRICS
from duetbench.core.model import Case, Machine
from duetbench.core.units import Formatter, Interval, significant, student
from duetbench.load.summary import ENOUGH_LAUNCHES, RunSummary, estimate
from duetbench.report import formats
from observatory.matrix.published import CaseShape, Published, Shape

_OWN: Final = 4  # pairs from which on only their own scatter counts

StatementVerdict = Literal[
    "holds", "does not hold here", "cannot be asked here", "not decided", "not measured"
]
DECIDED: Final = ("holds", "does not hold here")
ANSWERED: Final = (*DECIDED, "cannot be asked here")


def ratio(value: float | None) -> str:
    """Format a ratio with at least three significant digits; a dash if there is none."""
    return formats.MISSING if value is None else significant(value)


def _figure(ours: Interval | None) -> str:
    if ours is None:
        return formats.MISSING
    within = f" ({'…'.join(map(ratio, ours.ends))})" if ours.ends else ""
    return f"{ratio(ours.estimate)}{within}"


@dataclass(frozen=True, slots=True)
class Answer:
    """A statement, its figure here, whether it holds, and a sentence about that.

    `comparison`: id of the one that answers it; empty if launches or samples do.
    """

    statement: str
    least: float | None
    most: float | None
    published: float | None
    ours: Interval | None
    verdict: StatementVerdict
    reason: str
    comparison: str = ""

    @property
    def expected(self) -> str:
        """The range that the statement expects: `≥ 1.5`."""
        if self.least is not None and self.most is not None:
            return f"{self.least:g} to {self.most:g}"
        return f"≥ {self.least:g}" if self.least is not None else f"≤ {self.most:g}"

    @property
    def figure(self) -> str:
        return _figure(self.ours)

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
    """Figures of one side of a statement; those of one key make a pair with the other side's.

    A key is a run and a round, or a commit that asv measured and a sample. `kin` are figures of
    cases with the same scatter.
    """

    name: str
    format: Formatter
    figures: Mapping[Any, float]
    kin: tuple[Sequence[float], ...] = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """The ratio of both sides, or the figure of one, on a machine.

    Attributes:
        ours: None: no figures, for which `words` is the reason.
        samples: What they are: `duets`.
        rank: Those of a comparison before launches, then by number, then by date.
    """

    ours: Interval | None
    words: str
    samples: str
    rank: tuple[bool, int, str]
    machine: Machine | None = None
    comparison: str = ""


def pairs(sides: Sequence[Side], samples: str, machine: Machine | None = None) -> Evidence:
    """Return the ratio of the first side's figures to the second's; of one side, its figure."""
    keys = [key for key in sides[0].figures if all(key in side.figures for side in sides)]
    logs = np.log([[side.figures[key] for side in sides] for key in keys if _positive(sides, key)])
    if not len(logs):
        missing = [side.name for side in sides if not side.figures]
        words = f"no figures of {', '.join(missing)}" if missing else "never in one run"
        return Evidence(None, words, samples, (False, 0, ""), machine)
    values, few = logs[:, 0] - logs[:, 1:].sum(axis=1), len(logs) < _OWN
    kin = [np.log(f) for side in sides for f in side.kin if few and min(f, default=0) > 0]
    mean, number = float(values.mean()), len(values)
    squares = float(((values - mean) ** 2).sum())
    squares += len(sides) * sum(float(((log - log.mean()) ** 2).sum()) for log in kin)
    freedom = number - 1 + sum(len(log) - 1 for log in kin)
    ours = Interval(math.exp(mean), n=number)
    if freedom:
        half = student(freedom) * math.sqrt(squares / freedom / number)
        ours = Interval(math.exp(mean), math.exp(mean - half), math.exp(mean + half), number)
    means = zip(sides, logs.mean(axis=0), strict=True)
    figures = " against ".join(side.format(math.exp(log)) for side, log in means)
    often = f"over {number} {samples}" if number > 1 else "measured once"
    words = f"{figures}, {often}{', with the scatter of its kin' * bool(kin)}"
    return Evidence(ours, words, samples, (False, number, ""), machine)


def _positive(sides: Sequence[Side], key: Hashable) -> bool:
    return all(side.figures[key] > 0 for side in sides)


def inverse(ours: Interval) -> Interval:
    """Return one over a ratio."""
    low, high = ours.ends or (None, None)
    return Interval(1 / ours.estimate, 1 / high if high else None, 1 / low if low else None, ours.n)


def over(base: Interval, head: Interval) -> Interval:
    """Return one ratio over another, whose errors are independent."""
    ours = Interval(head.estimate / base.estimate, n=min(base.n, head.n))
    if not base.ends or not head.ends:
        return ours
    half = math.hypot(*(math.log(high / low) / 2 for low, high in (base.ends, head.ends)))
    return replace(ours, low=ours.estimate / math.exp(half), high=ours.estimate * math.exp(half))


def served(
    runs: Iterable[RunSummary], published: Published, names: Sequence[str], metric: str
) -> Iterator[Evidence]:
    """Return what the launches of each machine say of cases, by their names or ids."""
    machines: defaultdict[str, list[RunSummary]] = defaultdict(list)
    for run in runs:
        machines[run.run.machine.id].append(run)
    for of in machines.values():
        cases = {case.id: case.case for run in of for case in run.cases.values() if case.measured}
        sides = [_side(of, cases, published.case_id(name, cases), metric) for name in names]
        yield pairs(sides, "launches", of[0].run.machine)


def _side(runs: Sequence[RunSummary], cases: Mapping[str, Case], id_: str, metric: str) -> Side:
    figures = {
        case: {
            (summary.run.id, launch.round): launch.metrics[metric]
            for summary in runs
            for result in summary.run.results
            if result.case.id == case
            for launch in result.usable
            if metric in launch.metrics
        }
        for case in cases
        if case == id_ or (id_ in cases and _akin(cases[case], cases[id_]))
    }
    own = figures.pop(id_, {})
    kin = tuple(list(of.values()) for of in figures.values())
    return Side(id_.partition("/")[2], METRICS[metric].format, own, kin)


def _akin(case: Case, other: Case) -> bool:
    keys = [(of.experiment, of.endpoint.name, of.python) for of in (case, other)]
    return keys[0] == keys[1]


def compared(
    comparisons: Iterable[Comparison], above: Case, below: Case, metric: str
) -> Iterator[Evidence]:
    """Return what comparisons of two interpreters or settings say of two cases."""
    sides = [_cell(above), _cell(below)]
    rows = (
        (record, row)
        for record in comparisons
        if record.base.kind in {"interpreter", "setting"}
        for row in record.cases
        if row.case.experiment == above.experiment
    )
    for record, row in rows:
        cells = [_cell(row.case), _cell(_as_base(record, row.case))]
        ours, samples = _judged(record, row, metric)
        if sides in (cells, cells[::-1]) and ours and ours.ends and ours.n >= ENOUGH_LAUNCHES:
            ours = ours if sides == cells else inverse(ours)
            words = f"by {ours.n} {samples} on {record.machine.id}, {record.started[:10]}"
            rank = (True, ours.n, record.started)
            yield Evidence(ours, words, samples, rank, record.machine, record.id)


def _cell(case: Case) -> Hashable:
    """Return a key, equal for cases that are served alike."""
    load, own = case.load, (case.experiment, case.endpoint.name, case.python, case.stack)
    server = (case.server, case.server_args, case.loop, case.workers, case.threads, case.cores)
    return (*own, server, load.connections, load.rate, frozenset(case.env.items()))


def _as_base(comparison: Comparison, case: Case) -> Case:
    """Return a comparison's case, which is as head serves it, as base does."""
    known = [word for word in comparison.base.words if word.partition("=")[0] in OPTIONS]
    fields = dict(setting.read(known).values)
    load = {"connections": fields.pop("connections", case.load.connections)}
    if comparison.base.kind == "interpreter":
        fields["python"] = next((python.name for python in comparison.base.interpreters), "")
    return case.model_copy(update={**fields, "load": case.load.model_copy(update=load)})


def _judged(record: Comparison, row: CaseComparison, metric: str) -> tuple[Interval | None, str]:
    """Return head's figure over base's, and what its samples are."""
    turns = "pairs of launches by turns"
    if finding := record.of(row.case.id, metric):
        return finding.interval, turns if finding.alone else "duets"
    # What was not judged is only known of sides that were launched alone.
    alone = (duet for duet in row.duets if duet.usable and duet.alone)
    figures = [(duet.base.get(metric, 0), duet.head.get(metric, 0)) for duet in alone]
    ratios = [head / base for base, head in figures if base > 0 and head > 0]
    return estimate(ratios) if ratios else None, turns


def check(
    published: Published, runs: Sequence[RunSummary], comparisons: Sequence[Comparison] = ()
) -> tuple[Answer, ...]:
    """Answer every statement of an experiment."""
    return tuple(_check(published, shape, runs, comparisons) for shape in published.shapes)


def _check(
    published: Published,
    shape: CaseShape,
    runs: Sequence[RunSummary],
    comparisons: Sequence[Comparison],
) -> Answer:
    names = [name for name in (shape.numerator, shape.denominator) if name is not None]
    known = [*served(runs, published, names, shape.metric)]
    cases = {case.id: case.case for run in runs for case in run.cases.values()}
    ids = [published.case_id(name, cases) for name in names]
    if len(ids) > 1 and all(case in cases for case in ids):
        known += compared(comparisons, cases[ids[0]], cases[ids[1]], shape.metric)
    first, *rest = [published.figures_of(published.ids(n)[0]).get(shape.metric) for n in names]
    source = first if not rest else first / rest[0] if first is not None and rest[0] else None
    return answer(shape, known, source)


def answer(shape: Shape, known: Iterable[Evidence], published: float | None) -> Answer:
    """Answer a statement by the best evidence, and name machines that answer otherwise."""
    ranked = sorted(known, key=lambda e: (not _cannot(shape, e), e.rank), reverse=True)
    first = next(iter(ranked), Evidence(None, "no figures", "launches", (False, 0, "")))
    verdict, words = _verdict(shape, first), [first.words]
    if verdict == "cannot be asked here":
        words = [shape.cannot or ""]
    elif verdict == "does not hold here":
        words.append(shape.if_not or "no reason is known")
    elif verdict == "not decided":
        words.append(f"more {first.samples} would decide")
    by_machine: dict[str, Evidence] = {}
    for evidence in ranked if verdict != "cannot be asked here" else ():
        by_machine.setdefault(evidence.machine.id if evidence.machine else "", evidence)
    for name, other in by_machine.items():
        contrary = _verdict(shape, other)
        if contrary in DECIDED and contrary != verdict:
            words.append(f"on {name}: {contrary}, {_figure(other.ours)}")
    return Answer(
        statement=shape.statement,
        least=shape.least,
        most=shape.most,
        published=published if shape.published is None else shape.published,
        ours=first.ours,
        verdict=verdict,
        reason="; ".join(words),
        comparison=first.comparison,
    )


def _cannot(shape: Shape, evidence: Evidence) -> bool:
    """Whether a machine has too few cores for a statement."""
    cores = evidence.machine.cores if evidence.machine else 0
    return shape.cannot is not None and cores < (shape.needs or math.inf)


def _verdict(shape: Shape, evidence: Evidence) -> StatementVerdict:
    """Decide a statement if the whole interval lies on one side of its limits.

    Without an interval nothing is decided: the scatter of a single launch is unknown.
    """
    if _cannot(shape, evidence):
        return "cannot be asked here"
    if evidence.ours is None:
        return "not measured"
    low, high = evidence.ours.ends or (-math.inf, math.inf)
    floor = -math.inf if shape.least is None else shape.least
    top = math.inf if shape.most is None else shape.most
    if evidence.ours.ends and floor <= low and high <= top:
        return "holds"
    return "does not hold here" if high < floor or low > top else "not decided"
