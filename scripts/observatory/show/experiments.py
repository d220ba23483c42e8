"""What an experiment found: its question, its answers and its tables, of servers and of asv.

Runs, comparisons and asv's results stand beside what experiments and suites declare.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from duetbench.core import units
from duetbench.core.comparison import Comparison
from duetbench.load.summary import CaseSummary, RunSummary
from observatory.matrix.published import InProcess, Published, Shape
from observatory.show import claims, tables
from observatory.show.claims import ANSWERED, Answer, Side, ratio
from observatory.show.tables import FigureTable
from observatory.store.asv_results import Snapshot

_ONE_BY_ONE: Final = (
    "asv measures one environment after the other, so changes of the machine in the meantime are "
    "in the differences: a few per cent between interpreters or stacks decide nothing here"
)


@dataclass(frozen=True, slots=True)
class Section:
    """One experiment: of a run, or of everything that is stored.

    Attributes:
        measured: When and where asv measured a suite.
        runs: Those that measured the experiment, newest first.
    """

    experiment: str
    topic: str = ""
    question: str = ""
    source: str = ""
    answers: tuple[Answer, ...] = ()
    tables: tuple[FigureTable, ...] = ()
    notes: tuple[str, ...] = ()
    measured: str = ""
    runs: tuple[RunSummary, ...] = ()

    @property
    def first(self) -> Answer | None:
        """Its first statement that holds here, or else the first with an answer."""
        answered = [answer for answer in self.answers if answer.verdict in ANSWERED]
        return min(answered, key=lambda answer: answer.verdict != "holds", default=None)

    @property
    def title(self) -> str:
        """The statement that holds here, or else what it is about."""
        if self.first and self.first.verdict == "holds":
            return self.first.shape.statement[:1].upper() + self.first.shape.statement[1:]
        return self.topic or self.question or self.experiment


def experiment(
    name: str,
    runs: Sequence[RunSummary],
    published: Mapping[str, Published],
    snapshots: Sequence[Snapshot],
    comparisons: Sequence[Comparison],
) -> Section:
    """Return what runs and comparisons say of an experiment, then what its benchmarks do.

    Tables are of the machine with most launches, and have the run with most of each case. Those of
    a suite show the newest commit that has a figure. Its statements use all; some also use figures
    of servers.
    """
    about, launches = published.get(name, Published()), Counter[str]()
    measured = [
        (run, case)
        for run in sorted(runs, key=lambda summary: summary.run.started, reverse=True)
        for case in run.cases.values()
        if case.case.experiment == name
    ]
    for run, case in measured:
        launches[run.run.machine.id] += case.measured
    own = tuple({run.run.id: run for run, _ in measured}.values())
    best: dict[str, CaseSummary] = {}
    for run, case in measured:
        if run.run.machine.id == launches.most_common(1)[0][0]:
            best[case.id] = max(best.get(case.id, case), case, key=lambda summary: summary.measured)
    suite, source = about.suite, ". ".join(filter(None, (about.source, about.setting)))
    inside = _most(snapshots, suite)
    place = _where(inside[0]) if inside else ""
    notes = (f"measured {place}", _ONE_BY_ONE, *_different(suite.deviations)) if inside else ()
    return Section(
        name,
        about.title,
        about.question or suite.question,
        source or suite.source,
        (
            *claims.check(about, own, comparisons),
            *(_answer(inside, suite, shape, own) for shape in suite.shapes if inside),
        ),
        (
            *tables.of_cases([*best.values()], about),
            *(table for known in inside[:1] for table in tables.of_suite(known, suite)),
        ),
        (*about.notes, *_different(about.deviations), *notes),
        measured=place,
        runs=own,
    )


def _different(deviations: Iterable[str]) -> list[str]:
    return [f"Different from the source: {text}" for text in deviations]


def _most(snapshots: Sequence[Snapshot], suite: InProcess) -> list[Snapshot]:
    """Return the snapshots with figures of a suite, of the machine that measured it most often."""
    benchmarks = {table.benchmark for table in suite.tables}
    measured = [s for s in snapshots if any(r.value is not None for r in s.of(*benchmarks))]
    most = Counter(snapshot.machine for snapshot in measured).most_common(1)
    return [snapshot for snapshot in measured if snapshot.machine == most[0][0]]


def _where(snapshot: Snapshot) -> str:
    """Describe when, on what and at which commit asv measured."""
    moment = datetime.fromtimestamp(snapshot.started / 1000, UTC)
    described = f" ({snapshot.described})" if snapshot.described else ""
    machine = f"{snapshot.machine}{described}"
    return f"{moment:%Y-%m-%d %H:%M} UTC by asv on {machine}, commit {snapshot.commit[:12]}"


def _answer(
    snapshots: Sequence[Snapshot], suite: InProcess, shape: Shape, runs: Sequence[RunSummary]
) -> Answer:
    above, below = shape.numerator, str(shape.denominator)
    alone = claims.pairs([_side(snapshots, name) for name in (above, below)], "samples")
    if shape.per:  # over the ratio of the servers, of the machine with most launches
        metric, *cases = shape.per
        known = claims.served(runs, Published(), cases, metric)
        whole = max(known, key=lambda each: each.rank, default=None)
        if alone.ours and whole and whole.ours:
            note = f"{ratio(alone.ours.estimate)} alone, {ratio(whole.ours.estimate)} served"
            ours, words = claims.over(whole.ours, alone.ours), f"{note}; {alone.words}"
            alone = replace(alone, ours=ours, words=words)
        else:
            alone = replace(alone, ours=None, words="never in one run")
    sources = (run[above] / run[below] for run in suite.published if {above, below} <= run.keys())
    return claims.answer(shape, [alone], next(sources, None))


def _side(snapshots: Sequence[Snapshot], name: str) -> Side:
    """Collect the samples of a reading, of every commit."""
    figures = {
        (snapshot.commit, number): sample
        for snapshot in snapshots
        for reading in snapshot.readings
        if reading.id == name and reading.value is not None
        for number, sample in enumerate(reading.samples or (reading.value,))
    }
    return Side(name, units.seconds, figures)
