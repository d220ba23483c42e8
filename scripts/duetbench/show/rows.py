"""The rows of a comparison, its one sentence, and what to do next. Pure."""

import math
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from duetbench.core.metrics import METRICS, WORK
from duetbench.core.model import Verdict
from duetbench.core.units import Interval
from duetbench.project import names
from duetbench.project.names import CaseName
from duetbench.show import formats
from duetbench.store.comparison import CaseComparison, Comparison, Judgement, rebuilt
from duetbench.store.points import INSTRUCTIONS

CPU: Final = "server_cpu_per_request"
"""The metric that is judged for every case."""

_INPROCESS_FLOOR: Final = 0.01  # of times inside the process
_NOTHING: Final = "Nothing to judge"
_LABELS: Final = 3  # metrics that are named


@dataclass(frozen=True, slots=True)
class Grid:
    """Columns and rows of text; `words`: columns that are words and not figures."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: Sequence[str]

    @property
    def align(self) -> list[str]:
        return ["---" if name in self.words else "---:" for name in self.head]


@dataclass(frozen=True, slots=True)
class ViewRow:
    """One case, or in-process benchmark (which has no metric), and metric.

    `unit` is that of a benchmark. `figures` are base's from sequential launches, and that times the
    ratio, so that they agree with `change`. `grouped`: it belongs to an event.
    """

    case: str
    metric: str
    judged: Judgement
    figures: str = ""
    unit: str = ""
    grouped: bool = False
    recorded: CaseName | None = None
    titled: str = "time in process"

    @property
    def name(self) -> CaseName:
        """The case in words, from its record unless it is a benchmark."""
        return self.recorded or names.name(self.case)

    @property
    def label(self) -> str:
        return formats.title(self.metric) if self.metric else self.titled

    @property
    def moved(self) -> str:
        """By how much, in plain words: `needs 2.13 % more CPU per request (1.61…2.65 %)`."""
        return formats.moved(self.metric or self.unit, self.judged.interval or Interval(1.0))

    @property
    def verdict(self) -> str:
        return formats.verdict(self.metric, self.judged.verdict)

    @property
    def change(self) -> str:
        return formats.percent(self.judged.ratio)

    @property
    def interval(self) -> str:
        return formats.ends(self.judged.interval)

    @property
    def floor(self) -> float:
        """The relevance floor of its metric."""
        if not self.metric and self.unit != INSTRUCTIONS:
            return _INPROCESS_FLOOR
        return METRICS[self.metric or CPU].floor

    @property
    def why(self) -> str:
        if self.judged.reason:
            return self.judged.reason
        if self.judged.ratio is None:
            count = self.judged.duets
            s = "s" * (count != 1)
            noun = f"duet{s}" if self.metric else f"pair{s} of processes"
            return f"only {count} {noun} usable: too few to look at"
        return "neither a change nor its absence is shown yet"


_COLUMNS: Final[dict[str, Callable[[ViewRow], str]]] = {
    "case": lambda row: row.case,
    "metric": lambda row: row.label,
    "verdict": lambda row: row.verdict,
    "change": lambda row: row.change,
    "95 % interval": lambda row: row.interval,
    "could see": lambda row: formats.size(row.judged.detectable),
    "base → head": lambda row: row.figures or formats.MISSING,
    "samples": lambda row: str(row.judged.duets),
    "why": lambda row: row.why,
}
_WORDS: Final = ("case", "metric", "verdict", "why")


def table(rows: Iterable[ViewRow], *without: str) -> Grid:
    """Rows with all their columns but these."""
    head = [name for name in _COLUMNS if name not in without]
    return Grid(head, [[_COLUMNS[name](row) for name in head] for row in rows], _WORDS)


@dataclass(frozen=True, slots=True)
class Groups:
    """All rows by verdict; what moved furthest beyond its threshold first.

    Broken: a side failed, or lacks the metric. Undecided: measured, and neither a change nor its
    absence is shown. Unjudged: without the samples for one look.
    """

    worse: tuple[ViewRow, ...]
    better: tuple[ViewRow, ...]
    broken: tuple[ViewRow, ...]
    undecided: tuple[ViewRow, ...]
    unjudged: tuple[ViewRow, ...]
    unchanged: tuple[ViewRow, ...]

    @property
    def judged(self) -> tuple[ViewRow, ...]:
        return (*self.worse, *self.better, *self.unchanged)

    @property
    def all(self) -> tuple[ViewRow, ...]:
        """All of them, in the order in which people should read them."""
        open_ = (*self.broken, *self.undecided, *self.unjudged)
        return (*self.worse, *self.better, *open_, *self.unchanged)


def group_rows(comparison: Comparison) -> Groups:
    """Make the rows of a comparison, and group them."""
    in_events = {
        (case, event.metric, event.verdict) for event in comparison.events for case in event.cases
    }
    rows = [
        ViewRow(
            case=case.case.id,
            metric=judged.metric,
            judged=judged,
            figures=_figures(case, judged),
            grouped=(case.case.id, judged.metric, judged.verdict) in in_events,
            recorded=names.of(case.case),
        )
        for case in comparison.cases
        for judged in case.judgements
    ]
    rows += [
        ViewRow(
            f"{micro.benchmark} [{micro.stack}, {micro.python}]",
            "",
            micro.judgement,
            unit=micro.unit,
            titled="instructions in process" if micro.unit == INSTRUCTIONS else "time in process",
        )
        for micro in comparison.micro
    ]

    def having(verdict: Verdict) -> tuple[ViewRow, ...]:
        return tuple(row for row in rows if row.judged.verdict is verdict)

    waiting = having(Verdict.INCONCLUSIVE)

    def weight(row: ViewRow) -> float:
        return abs((row.judged.ratio or 1.0) - 1) / row.floor

    return Groups(
        worse=tuple(sorted(having(Verdict.SLOWER), key=weight, reverse=True)),
        better=tuple(sorted(having(Verdict.FASTER), key=weight, reverse=True)),
        broken=having(Verdict.NOT_COMPARABLE),
        undecided=tuple(row for row in waiting if row.judged.ratio is not None),
        unjudged=tuple(row for row in waiting if row.judged.ratio is None),
        unchanged=having(Verdict.NO_CHANGE),
    )


def _count(rows: Sequence[ViewRow], comparison: Comparison | None = None, *, more: int = 0) -> str:
    """Count cases and benchmarks: `2 cases and 1 in-process benchmark`, or `2 of 34 cases`."""
    cases = len({row.case for row in rows if row.metric}) + more
    inside = len({row.case for row in rows if not row.metric})
    every = (comparison.planned, len(comparison.micro)) if comparison else (None, None)
    return " and ".join(
        formats.quantity(count, noun) if of is None else f"{count} of {of} {noun}s"
        for count, of, noun in zip(
            (cases, inside), every, ("case", "in-process benchmark"), strict=True
        )
        if count
    )


def _figures(case: CaseComparison, judged: Judgement) -> str:
    base = case.absolute_base.get(judged.metric)
    if base is None or judged.ratio is None:
        return ""
    # Head's own launches scatter more than the ratio, and would often contradict it.
    return " → ".join(formats.figure(judged.metric, end) for end in (base, base * judged.ratio))


def headline(comparison: Comparison, groups: Groups) -> str:
    """Write the sentence above a comparison."""
    if not (comparison.planned or comparison.micro):
        notes = (note for note in comparison.notes if note.startswith(_NOTHING))
        return next(notes, f"{_NOTHING}: the change cannot have touched any measured case.")
    sentence = "; ".join(_parts(comparison, groups))
    if comparison.cross:
        sentence = f"{comparison.head.label} against {comparison.base.label}: {sentence}"
    partial = "Partial: " if comparison.status == "partial" else ""
    return f"{partial}{sentence[0].upper()}{sentence[1:]}."


def _parts(comparison: Comparison, groups: Groups) -> Iterator[str]:
    for word, rows in (("worse", groups.worse), ("better", groups.better)):
        if rows:
            top = rows[0]
            found_in = f"{word} in {_count(rows, comparison)}"
            if len(rows) == 1:
                yield f"{found_in}: {top.name} {top.moved}"
            else:
                yield f"{found_in}, most of all {top.name}, which {top.moved}"
    if groups.broken:
        yield f"not comparable in {_count(groups.broken, comparison)}"
    # A case with one open metric is not 'no change'.
    doubtful = {row.case for row in (*groups.broken, *groups.undecided, *groups.unjudged)}
    clean = [row for row in groups.unchanged if row.case not in doubtful]
    if clean and not groups.worse and not groups.better:
        yield f"no change in {_count(clean, comparison)}{_could(clean)}"
    if groups.undecided:
        labels = formats.some(tuple(dict.fromkeys(row.label for row in groups.undecided)), _LABELS)
        yield f"not decided in {_count(groups.undecided, comparison)} ({labels})"
    # Cases that should have been judged and have no row at all.
    lost = max(0, comparison.planned - len({row.case for row in groups.all if row.metric}))
    if groups.unjudged or lost:
        yield f"not judged in {_count(groups.unjudged, comparison, more=lost)}"


def _could(rows: Sequence[ViewRow]) -> str:
    """Name the smallest change that all of these would have shown, in the metric of all cases."""
    leading = [row for row in rows if row.metric == CPU] or list(rows)
    sizes = [row.judged.detectable for row in leading if row.judged.detectable is not None]
    if not sizes:
        return ""
    return (
        f"; changes of {leading[0].label} from {formats.size(max(sizes))} on could have been seen"
    )


def steps(comparison: Comparison, groups: Groups) -> Iterator[str]:
    """Say what to do next."""
    if groups.worse and not comparison.cross:
        again = ["the commands below measure it again."] if rebuilt(comparison) else []
        if sentences := [*again, *_explained(comparison, groups.worse[0])]:
            yield f"Worse: {' '.join(sentences)}"
    if groups.better and not groups.worse and comparison.head.kind == "revision":
        yield "Better: nothing to do; the trend shows it after the merge."
    if groups.broken:
        first = groups.broken[0]
        yield f"Not comparable: look at {first.case} first: {first.why}."
    yield from _more_time(comparison, groups)
    disturbed = [row for row in groups.unjudged if row.judged.excluded]
    if disturbed:
        yield (
            f"Not judged: in {_count(disturbed)} too few duets were usable; the reasons say what "
            "disturbed them. A quieter machine would tell."
        )
    unmeasured = [row for row in groups.unjudged if not row.judged.excluded]
    if unmeasured:
        yield (
            f"Not judged: there was no time for {_count(unmeasured)}: a larger --budget, or fewer "
            "cases with --select."
        )


def commands(comparison: Comparison, groups: Groups) -> tuple[tuple[str, str], ...]:
    """Commands for a terminal, each with what it does."""
    whole = rebuilt(comparison)
    if whole is None or not (comparison.planned or comparison.micro):
        return ()
    again = [("all of it", whole)]
    if groups.worse and groups.worse[0].metric and " --select " not in f" {whole} ":
        case = shlex.quote(groups.worse[0].case)
        again.append(("the first that got worse, alone", f"{whole} --select {case}"))
    if groups.broken and groups.broken[0].metric and comparison.head.kind == "revision":
        case = shlex.quote(groups.broken[0].case)
        again.append(
            ("the first that is not comparable, in a checkout", f"duetbench run --select {case}")
        )
    return tuple(again)


def _explained(comparison: Comparison, row: ViewRow) -> Iterator[str]:
    """Say from its instructions whether a row got worse by added work or something else."""
    counted = next((c.instructions for c in comparison.cases if c.case.id == row.case), None)
    ratio = counted.ratio if counted else None
    if ratio is None or row.metric not in WORK:
        return
    elsewhere = "look at the server, at waits, locks and memory."
    if abs(math.log(ratio)) <= math.log1p(METRICS[CPU].floor):
        count, so = "as many instructions per request as before", f": {elsewhere}"
    elif ratio > 1:
        count, so = "more instructions per request", ": there is more work."
    else:
        count, so = "fewer instructions per request", f", and got slower all the same: {elsewhere}"
    yield f"Its application executes {count} ({formats.percent(ratio)}){so}"


def _more_time(comparison: Comparison, groups: Groups) -> Iterator[str]:
    """Say what more time would decide; nothing where all samples were taken."""
    open_: dict[str, list[ViewRow]] = {"time": [], "quiet": [], "nothing": []}
    for row in groups.undecided:
        open_[_lacks(comparison, row)].append(row)
    if waiting := open_["time"]:
        names = {row.case for row in waiting}
        seconds = [
            case.seconds_to_decide
            for case in comparison.cases
            if case.case.id in names and case.seconds_to_decide
        ]
        sentence = f"Not decided, for lack of time: {_count(waiting)}."
        if seconds:
            which = "it" if len(seconds) == len(names) else f"{len(seconds)} of them"
            sentence += (
                f" About {formats.duration(sum(seconds))} more would probably decide {which}: "
                "a larger --budget."
            )
        yield sentence
    if loud := open_["quiet"]:
        yield (
            f"Not decided, because too few duets were usable: {_count(loud)}. A quieter machine "
            "would tell; more time on this one may not."
        )
    if spent := open_["nothing"]:
        yield (
            f"Not decided with all the samples that a comparison takes: {_count(spent)}. What is "
            "there, if anything, is too small or too unsteady for this machine; more time does "
            "not help."
        )


def _lacks(comparison: Comparison, row: ViewRow) -> Literal["time", "quiet", "nothing"]:
    """Tell what a row lacks for an answer."""
    # The last look, after which no more samples are taken; no end if it is not recorded.
    method = comparison.method
    looks = str(method.get("looks", method.get("screening_looks", "")))
    last = looks.rpartition(", ")[2].partition(" ")[0]
    most = int(last) if last.isdecimal() else math.inf
    unlimited = comparison.budget_seconds is None and comparison.status == "complete"
    if unlimited or row.judged.duets >= most:
        return "nothing"
    # A case is given up if most of so many duets could not be used.
    duets = next((case.duets for case in comparison.cases if case.case.id == row.case), ())
    return "quiet" if len(duets) >= most * float(method.get("patience", math.inf)) else "time"
