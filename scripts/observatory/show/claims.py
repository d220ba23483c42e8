"""What each statement says here: one verdict, by pairs of figures of one machine. Pure.

A statement compares two sides by one metric, within bounds. A comparison of both sides answers it
by its finding, as its page shows it. Of several, that with most samples answers, or the newest of
these: no result chooses its evidence. Without a comparison the launches of a machine's runs do. A
run's launches take turns, so those of one round are a pair, whose sides its day affects alike; the
interval is Student's over the pairs. Fewer than four pairs also scatter as their kin do: the other
cases of one endpoint and interpreter.
"""

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from duetbench.app import setting
from duetbench.app.setting import OPTIONS
from duetbench.core.comparison import Comparison
from duetbench.core.metrics import METRICS
from duetbench.core.model import Case, Machine
from duetbench.core.units import Formatter, Interval, significant, student
from duetbench.load.summary import ENOUGH_LAUNCHES, RunSummary
from duetbench.report import formats
from observatory.matrix.published import Published, Shape
from observatory.store.points import interval

_OWN: Final = 4  # pairs from which on only their own scatter counts

StatementVerdict = Literal[
    "holds", "does not hold here", "cannot be asked here", "not decided", "not measured"
]
_DECIDED: Final = ("holds", "does not hold here")
_CANNOT: Final = "cannot be asked here"  # by a machine with too few cores
ANSWERED: Final = (*_DECIDED, _CANNOT)


def ratio(value: float | None) -> str:
    """Format a ratio with at least three significant digits; a dash if there is none."""
    return formats.MISSING if value is None else significant(value)


def figure(ours: Interval | None) -> str:
    """Format a ratio with its interval, if it has one."""
    if ours is None or ours.ends is None:
        return ratio(ours.estimate if ours else None)
    return f"{ratio(ours.estimate)} ({'…'.join(map(ratio, ours.ends))})"


@dataclass(frozen=True, slots=True)
class Answer:
    """A statement, its figure here, whether it holds, and a sentence about that.

    `comparison`: id of the one that answers it; empty if launches or samples do.
    """

    shape: Shape
    published: float | None
    ours: Interval | None
    verdict: StatementVerdict
    reason: str
    comparison: str = ""

    @property
    def expected(self) -> str:
        """The range that the statement expects: `≥ 1.5`."""
        least, most = self.shape.least, self.shape.most
        if least is not None and most is not None:
            return f"{least:g} to {most:g}"
        return f"≥ {least:g}" if least is not None else f"≤ {most:g}"


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
        comparison: Its record, unless launches or samples are the evidence.
    """

    ours: Interval | None
    words: str
    samples: str
    machine: Machine | None = None
    comparison: Comparison | None = None

    @property
    def rank(self) -> tuple[int, str]:
        """Sorts by the number of samples, then by date."""
        return self.ours.n if self.ours else 0, self.comparison.started if self.comparison else ""


def pairs(sides: Sequence[Side], samples: str, machine: Machine | None = None) -> Evidence:
    """Return the ratio of the first side's figures to the second's; of one side, its figure."""
    keys = [key for key in sides[0].figures if all(s.figures.get(key, 0) > 0 for s in sides)]
    if not keys:
        missing = ", ".join(side.name for side in sides if not side.figures)
        words = f"no figures of {missing}" if missing else "never in one run"
        return Evidence(None, words, samples, machine)
    logs = np.log([[side.figures[key] for side in sides] for key in keys])
    values, number = logs[:, 0] - logs[:, 1:].sum(axis=1), len(keys)
    kin = [np.log(figures) for side in sides for figures in side.kin if number < _OWN and figures]
    freedom = number - 1 + sum(len(log) - 1 for log in kin)
    ours = Interval(math.exp(values.mean()), n=number)
    if freedom:
        squares = number * values.var() + len(sides) * sum(len(log) * log.var() for log in kin)
        half = student(freedom) * math.sqrt(squares / freedom / number)
        ours = interval(values.mean(), half, number)
    means = zip(sides, logs.mean(axis=0), strict=True)
    figures = " against ".join(side.format(math.exp(log)) for side, log in means)
    often = f"over {number} {samples}" if number > 1 else "measured once"
    words = f"{figures}, {often}{', with the scatter of its kin' * bool(kin)}"
    return Evidence(ours, words, samples, machine)


def over(base: Interval, head: Interval) -> Interval:
    """Return one ratio over another, whose errors are independent."""
    ratio, number = head.estimate / base.estimate, min(base.n, head.n)
    if not base.ends or not head.ends:
        return Interval(ratio, n=number)
    halves = (math.log(high / low) / 2 for low, high in (base.ends, head.ends))
    return interval(math.log(ratio), math.hypot(*halves), number)


def served(
    runs: Iterable[RunSummary], published: Published, names: Sequence[str], metric: str
) -> Iterator[Evidence]:
    """Return what the launches of each machine say of cases, by their names or ids."""
    machines = defaultdict[str, list[RunSummary]](list)
    for run in runs:
        machines[run.run.machine.id].append(run)
    for own in machines.values():
        cases, figures = dict[str, Case](), defaultdict[str, dict[Hashable, float]](dict)
        for summary, case in ((run, case) for run in own for case in run.cases.values()):
            if case.measured:
                cases[case.id] = case.case
            for launch in case.usable:
                if metric in launch.metrics:
                    figures[case.id][summary.run.id, launch.round] = launch.metrics[metric]
        sides = []
        for id_ in (published.case_id(name, cases) for name in names):
            kin = tuple(
                [*figures[other].values()]
                for other in cases
                if id_ in cases and other != id_ and _kin(cases[other]) == _kin(cases[id_])
            )
            format_ = METRICS[metric].format
            sides.append(Side(id_.partition("/")[2], format_, figures[id_], kin))
        yield pairs(sides, "launches", own[0].run.machine)


def _kin(case: Case) -> Hashable:
    """Return a key, equal for cases that scatter alike."""
    return case.experiment, case.endpoint.name, case.python


def compared(
    comparisons: Iterable[Comparison], above: Case, below: Case, metric: str
) -> Iterator[Evidence]:
    """Return what comparisons of two interpreters or settings say of two cases."""
    sides = [_cell(above), _cell(below)]
    of_two = (
        comparison
        for comparison in comparisons
        if comparison.base.kind in {"interpreter", "setting"}
    )
    for record, case in (
        (comparison, row.case) for comparison in of_two for row in comparison.cases
    ):
        finding = record.of(case.id, metric)
        cells = [_cell(case), _cell(_as_base(record, case))]
        if finding is None or sides not in (cells, cells[::-1]):
            continue
        ours, samples = finding.interval, "pairs of launches by turns" if finding.alone else "duets"
        if ours and ours.ends and ours.n >= ENOUGH_LAUNCHES:
            words = f"by {ours.n} {samples} on {record.machine.id}, {record.started[:10]}"
            if sides != cells:
                low, high = ours.ends
                ours = Interval(1 / ours.estimate, 1 / high, 1 / low, ours.n)
            yield Evidence(ours, words, samples, record.machine, record)


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


def check(
    published: Published, runs: Sequence[RunSummary], comparisons: Sequence[Comparison] = ()
) -> tuple[Answer, ...]:
    """Answer every statement of an experiment."""
    cases = {case.id: case.case for run in runs for case in run.cases.values()}

    def check_one(shape: Shape) -> Answer:
        names = [name for name in (shape.numerator, shape.denominator) if name is not None]
        known = [*served(runs, published, names, shape.metric)]
        both = [cases.get(published.case_id(name, cases)) for name in names]
        if len(both) == 2 and both[0] and both[1]:
            known += compared(comparisons, both[0], both[1], shape.metric)
        figures = [published.figures_of(published.ids(n)[0]).get(shape.metric) for n in names]
        first, below = figures[0], figures[1] if len(figures) == 2 else 1.0
        return answer(shape, known, first / below if first is not None and below else None)

    return tuple(map(check_one, published.shapes))


def answer(shape: Shape, known: Iterable[Evidence], published: float | None) -> Answer:
    """Answer a statement by the best evidence, and name machines that answer otherwise.

    A machine that can answer it comes first, then comparisons before launches.
    """
    ranked = sorted(
        known,
        key=lambda e: (_verdict(shape, e) != _CANNOT, bool(e.comparison), e.rank),
        reverse=True,
    )
    first = ranked[0] if ranked else Evidence(None, "no figures", "launches")
    verdict, words = _verdict(shape, first), [first.words]
    if verdict == _CANNOT:
        ranked, words = [], [shape.cannot or ""]
    elif verdict == "does not hold here":
        words.append(shape.if_not or "no reason is known")
    elif verdict == "not decided":
        words.append(f"more {first.samples} would decide")
    by_machine: dict[str, Evidence] = {}
    for evidence in ranked:
        by_machine.setdefault(evidence.machine.id if evidence.machine else "", evidence)
    for name, other in by_machine.items():
        contrary = _verdict(shape, other)
        if contrary in _DECIDED and contrary != verdict:
            words.append(f"on {name}: {contrary}, {figure(other.ours)}")
    return Answer(
        shape,
        published if shape.published is None else shape.published,
        first.ours,
        verdict,
        "; ".join(words),
        first.comparison.id if first.comparison else "",
    )


def _verdict(shape: Shape, evidence: Evidence) -> StatementVerdict:
    """Return the verdict: whether the interval lies within the limits.

    Without an interval nothing is decided: the scatter of a single launch is unknown.
    """
    cores = evidence.machine.cores if evidence.machine else 0
    if shape.cannot is not None and cores < (shape.needs or math.inf):
        return _CANNOT
    if evidence.ours is None:
        return "not measured"
    low, high = evidence.ours.ends or (-math.inf, math.inf)
    floor = -math.inf if shape.least is None else shape.least
    top = math.inf if shape.most is None else shape.most
    if evidence.ours.ends and floor <= low and high <= top:
        return "holds"
    return "does not hold here" if high < floor or low > top else "not decided"
