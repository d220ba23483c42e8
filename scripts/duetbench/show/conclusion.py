"""What a comparison says: its rows, the largest change first, its headline, its exit code. Pure."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from duetbench.core.metrics import CPU, INSTRUCTIONS, TAILS, WORK
from duetbench.core.metrics import row as row_of
from duetbench.core.model import Verdict
from duetbench.core.text import some
from duetbench.core.units import Interval
from duetbench.project import case_names
from duetbench.show import effects, formats
from duetbench.store.comparison import (
    SAME,
    CaseComparison,
    Comparison,
    Course,
    Coverage,
    Event,
    Judgement,
    MicroComparison,
    acted_on,
    executes,
    weight,
)

UNDECIDED: Final = 3
"""Something was not judged or not decided; see `errors.EXIT_CODES`."""

Group = Literal[
    "worse", "better", "slight", "broken", "undecided", "unjudged", "unchanged", "unawaited"
]
"""What a verdict means to readers, the most important first.

Slight: moved, by less than a size to act on. Broken: a side failed, or lacks the metric. Undecided:
measured, and neither a change nor its absence is shown. Unjudged: too few samples for one look.
Unawaited: an undecided tail, for which no more duets run.
"""

TITLES: Final[dict[Group, str]] = {
    "worse": "Worse",
    "better": "Better",
    "slight": "Shown, but below what you would act on",
    "broken": "Not comparable",
    "undecided": "Not decided",
    "unjudged": "Not judged",
    "unchanged": "No change",
    "unawaited": "Not decided, and not waited for",
}

_GROUPS: Final = tuple(TITLES)

_VAGUE: Final = 0.5
"""Relative half width of an interval from which an undecided figure is not shown."""

MOVED: Final[tuple[Group, ...]] = ("worse", "better")

OPEN: Final[tuple[Group, ...]] = ("broken", "undecided", "unjudged")

_GROUP_OF: Final[dict[Verdict, Group]] = {
    Verdict.SLOWER: "worse",
    Verdict.FASTER: "better",
    Verdict.NOT_COMPARABLE: "broken",
    Verdict.NO_CHANGE: "unchanged",
}


@dataclass(frozen=True, slots=True)
class ViewRow:
    """One case, or in-process benchmark (which has a unit and no metric), and metric.

    `figures` are base's mean, and that times the ratio, so that they agree with `change`. `name` is
    the case in words. `weight` is the change over the size to act on. `awaited`: duets go on until
    the row is decided. `work` is the ratio of work in it.
    """

    case: str
    metric: str
    judgement: Judgement
    name: str = ""
    figures: str = ""
    unit: str = ""
    weight: float = 0.0
    awaited: bool = True
    work: float | None = None

    @property
    def vague(self) -> bool:
        """Whether its interval includes no change, and is so wide that its size says nothing."""
        interval = self.judgement.interval
        if self.judgement.verdict is not Verdict.INCONCLUSIVE or not (interval and interval.ends):
            return False
        low, high = interval.ends
        if interval.excludes(1):
            return False
        return max(high / interval.estimate, interval.estimate / low) >= 1 + _VAGUE

    @property
    def group(self) -> Group:
        if self.judgement.moved and self.weight < 1:
            return "slight"
        if self.judgement.verdict is Verdict.INCONCLUSIVE:
            if not self.awaited:
                return "unawaited"
            return "unjudged" if self.judgement.ratio is None or self.vague else "undecided"
        return _GROUP_OF[self.judgement.verdict]

    @property
    def label(self) -> str:
        if self.metric:
            return formats.title(self.metric)
        return "instructions in process" if self.unit == INSTRUCTIONS else "time in process"

    @property
    def effect(self) -> str:
        """The effect in plain words: `needs 2.13 % more CPU per request (1.61…2.65 %)`."""
        text = formats.effect(self.metric or self.unit, self.judgement.interval or Interval(1.0))
        if self.figures and row_of(self.metric).concern == "latency":
            return f"{text}, {self.figures}"
        work = f"; work alone: {formats.percent(self.work)})" if self.work else ""
        return text.removesuffix(")") + work if work else text

    @property
    def worse(self) -> bool:
        return self.judgement.verdict is Verdict.SLOWER

    @property
    def verdict(self) -> str:
        return formats.verdict(self.metric, self.judgement.verdict)

    @property
    def change(self) -> str:
        return formats.percent(None if self.vague else self.judgement.ratio)

    @property
    def interval(self) -> str:
        return "" if self.vague else formats.ends(self.judgement.interval)

    @property
    def floor(self) -> float:
        """The relevance threshold of its metric."""
        return row_of(CPU if self.unit == INSTRUCTIONS else self.metric).floor

    @property
    def why(self) -> str:
        if self.judgement.reason:
            return self.judgement.reason
        if self.judgement.ratio is None:
            kind = "process pair" if not self.metric else "turn" if self.judgement.alone else "duet"
            count = formats.quantity(self.judgement.duets, kind)
            return f"only {count} usable: too few for a look"
        if self.vague:
            return f"its {self.judgement.duets} samples scatter too much: ±{_VAGUE:.0%} or more"
        if not self.awaited:
            return "not decided by these duets; it gets no more"
        return "neither a change nor its absence is shown yet"


def rows_of(comparison: Comparison) -> tuple[ViewRow, ...]:
    """Make all rows, group by group; within a group the largest weight first."""
    rows = [
        ViewRow(
            case.case.id,
            judgement.metric,
            judgement,
            str(case_names.of(case.case)),
            figures_of(case, judgement),
            weight=weight(judgement, comparison.method),
            awaited=_awaited(judgement, comparison),
            work=_work(case) if judgement.metric == CPU else None,
        )
        for case in comparison.cases
        for judgement in _judgements(case)
    ]
    rows = [row for row in rows if row.awaited or not row.vague]
    for micro in comparison.micro:
        name = benchmark_name(micro)
        heavy = weight(micro.judgement, comparison.method)
        rows.append(ViewRow(name, "", micro.judgement, name, unit=micro.unit, weight=heavy))
    return tuple(sorted(rows, key=lambda row: (_GROUPS.index(row.group), -row.weight)))


def _judgements(case: CaseComparison) -> tuple[Judgement, ...]:
    """Return a case's judgements, and its work, if that moved and CPU per request did not.

    Work scatters less than CPU per request, which batching moves as well.
    """
    if any(judgement.metric == CPU and judgement.moved for judgement in case.judgements):
        return case.judgements
    work = (witness for witness in case.witnesses if witness.metric == WORK and witness.moved)
    return *case.judgements, *work


def _awaited(judgement: Judgement, comparison: Comparison) -> bool:
    imports = row_of(judgement.metric).concern == "start" and not comparison.start
    return judgement.metric not in TAILS and not imports


def _work(case: CaseComparison) -> float | None:
    return next((witness.ratio for witness in case.witnesses if witness.metric == WORK), None)


def benchmark_name(micro: MicroComparison) -> str:
    """Return the name of an in-process benchmark: `b.One [current, 3.14]`."""
    return f"{micro.benchmark} [{micro.stack}, {micro.python}]"


def figures_of(case: CaseComparison, judgement: Judgement) -> str:
    """Return base's mean figure, and that times the change; empty if there is none."""
    base, ratio = case.absolute_base.get(judgement.metric), judgement.ratio
    if base is None or ratio is None:
        return ""
    # Head's own launches scatter more than the ratio, and would often contradict it.
    return " → ".join(formats.figure(judgement.metric, end) for end in (base, base * ratio))


def of_groups(rows: Iterable[ViewRow], *groups: Group) -> list[ViewRow]:
    """Return the rows of some groups."""
    return [row for row in rows if row.group in groups]


def joint_event(comparison: Comparison) -> Event | None:
    """Return what all cases did together, if its size is one to act on."""
    if (event := comparison.event) is None:
        return None
    size = math.log1p(acted_on(event.metric, comparison.method))
    return event if abs(math.log(event.ratio)) >= size else None


def exit_code(
    comparison: Comparison,
    *,
    lenient: bool = False,
    counts: bool = False,
    same: bool = False,
    sql: bool = False,
) -> int:
    """Return the exit code of a comparison: 0, 1 or 3 of `errors.EXIT_CODES`.

    1: something got slower by a size to act on, or head breaks it; a choice of two interpreters
    never counts as slower. 3: something was not judged; with `lenient`, only if nothing was.
    In-process benchmarks without time do not count beside cases, whose duets judge the same change;
    nor does a tail. With `counts`, or without duets, only instructions and failures decide. An
    answer with another status or content type is broken; with `same`, any other answer. A request
    that does more than a declared limit always fails. With `sql`, beside answers and that, only SQL
    statements decide: more than base sends.
    """
    if (code := _code_of_effects(comparison, same=same, sql=sql)) is not None:
        return code
    cases = [judgement for case in comparison.cases for judgement in _judgements(case)]
    has_judgement = [bool(case.judgements) for case in comparison.cases]
    joint = joint_event(comparison)
    if counts or comparison.counts_only:
        failures = [j for j in cases if j.verdict is Verdict.NOT_COMPARABLE]
        cases = [*(case.count for case in comparison.cases if case.count), *failures]
        has_judgement = [case.count is not None for case in comparison.cases]
        joint = None  # it is about CPU per request
    judgements = (*cases, *(micro.judgement for micro in comparison.micro))
    for judgement in judgements:
        # The change is not the reason if base fails as well (see `CaseDuets.void`).
        broken = judgement.reason.startswith("head: ") and "; base: " not in judgement.reason
        slower = judgement.verdict is Verdict.SLOWER and not comparison.cross
        if slower and weight(judgement, comparison.method) >= 1:
            return 1
        if judgement.verdict is Verdict.NOT_COMPARABLE and broken:
            return 1
    if joint is not None and joint.verdict is Verdict.SLOWER and not comparison.cross:
        return 1
    undecided = {Verdict.INCONCLUSIVE, Verdict.NOT_COMPARABLE}
    awaited = (judgement for judgement in cases if _awaited(judgement, comparison))
    doubtful = any(judgement.verdict in undecided for judgement in awaited) or any(
        micro.judgement.verdict in undecided and (micro.base or not comparison.planned)
        for micro in comparison.micro
    )
    unjudged = comparison.planned > sum(has_judgement)
    expected = comparison.planned or comparison.micro or comparison.untouched
    # Cases of one side only do not show that nothing changed.
    apart = bool(comparison.missing) and not expected
    if not (doubtful or unjudged or apart or comparison.status == "partial"):
        return 0
    decided = any(judgement.verdict not in undecided for judgement in judgements)
    return 0 if lenient and decided else UNDECIDED


def _code_of_effects(comparison: Comparison, *, same: bool, sql: bool) -> int | None:
    """Return the exit code if what a request does decides it."""
    observed = [case.effects for case in comparison.cases if case.effects]
    answers = [answer for found in observed for answer in found.answers]
    if any(effects.excess(comparison)) or any(answer.broken or same for answer in answers):
        return 1
    if not sql:
        return None
    sent = [(found.figure("sql", 0), found.figure("sql", 1)) for found in observed]
    known = [(base, head) for base, head in sent if base is not None and head is not None]
    if any(head > base for base, head in known):
        return 1
    return 0 if len(known) == len(comparison.cases) else UNDECIDED


_NOTHING: Final = "Nothing to judge"

_LABELS: Final = 3  # metrics named

_ELSEWHERE: Final = (
    "CPU time also has what these instructions have not: the server, the kernel, memory, and how "
    "many requests one wake-up serves"
)

_PART: Final = "these instructions are a part of the CPU time; server and kernel have the rest"


def headline(comparison: Comparison, rows: Sequence[ViewRow]) -> str:
    """Write the sentence above a comparison: this function decides what it says, in which order."""
    if not (comparison.planned or comparison.micro):
        notes = (note for note in comparison.notes if note.startswith(_NOTHING))
        return next(notes, f"{_NOTHING}: the change cannot have touched any measured case.")
    parts = [
        *effects.excess(comparison),
        *effects.news(comparison),
        *_leaks(comparison),
        *_news(comparison, rows),
        *_executed(comparison),
    ]
    if broken := of_groups(rows, "broken"):
        parts.append(f"not comparable in {number_of(broken, comparison)}")
    # A case with one open metric is not 'no change'.
    doubtful = {row.case for row in of_groups(rows, *OPEN)}
    clean = [row for row in of_groups(rows, "unchanged") if row.case not in doubtful]
    if clean and not of_groups(rows, *MOVED, "slight"):
        parts.append(f"no change in {number_of(clean, comparison)}{_could_see(clean)}")
    if undecided := of_groups(rows, "undecided"):
        labels = some(tuple(dict.fromkeys(row.label for row in undecided)), _LABELS)
        parts.append(f"not decided in {number_of(undecided, comparison)} ({labels})")
    # Cases that should have been judged and have no row at all.
    lost = max(0, comparison.planned - len({row.case for row in rows if row.metric}))
    if comparison.counts_only:  # without duets
        lost = sum(case.count is None for case in comparison.cases)
    if (unjudged := of_groups(rows, "unjudged")) or lost:
        parts.append(f"not judged in {number_of(unjudged, comparison, more=lost)}")
    sentence = "; ".join(parts)
    if comparison.cross:
        sentence = f"{comparison.head.label} against {comparison.base.label}: {sentence}"
    partial = "Partial: " if comparison.status == "partial" else ""
    before = f"{covers(comparison.coverage)}. " if comparison.coverage else ""
    return f"{before}{partial}{sentence[0].upper()}{sentence[1:]}."


def covers(coverage: Coverage) -> str:
    """Say whether the requests run changed code: how many functions differ, how many they enter."""
    files = formats.quantity(coverage.outside, "file")
    outside = f"; code outside functions differs in {files}" if coverage.outside else ""
    if not coverage.differ:
        return f"No function differs{outside}"
    verb = "differs" if coverage.differ == 1 else "differ"
    differ = f"{formats.quantity(coverage.differ, 'function')} {verb}"
    if coverage.entered:
        return f"{differ}, and these requests enter {coverage.entered} of them{outside}"
    missed = some(coverage.missed, _LABELS)
    proof = ": 'no change' proves nothing about them" if coverage.alone else ""
    return f"{differ}, and these requests enter none of them ({missed}){proof}{outside}"


def _executed(comparison: Comparison) -> Iterator[str]:
    """Describe the counts: the largest change, or that there is none; and conflicts with duets."""
    planned, method = comparison.planned, comparison.method
    counts = [(case, count) for case in comparison.cases if (count := case.count) is not None]
    sure = [pair for pair in counts if pair[1].verdict is not Verdict.INCONCLUSIVE]
    moved = [pair for pair in sure if weight(pair[1], method) >= 1]
    if moved or len(sure) == 1:
        case, top = max(moved or sure, key=lambda pair: weight(pair[1], method))
        others = f"; {len(moved)} of {planned} cases moved so" if len(moved) > 1 else ""
        yield f"{case_names.of(case.case).what} {executes(top)}{others}"
    elif sure:
        most = max(abs((count.ratio or 1.0) - 1) for _, count in sure)
        size = f"moved by at most {formats.size(most)}" if most > SAME else "are the same"
        yield f"instructions per request {size} in {len(sure)} of {planned} cases"
    if disputes := sum(is_news for is_news, *_ in disagreements(comparison)):
        yield f"instructions and CPU/request disagree in {disputes} of {planned} cases"


def disagreements(comparison: Comparison) -> Iterator[tuple[bool, str, str]]:
    """Yield cases whose counts and CPU per request disagree, if both are sure: is it news, why.

    If a part of the time moved by less than all of it, that is no news.
    """
    for case in comparison.cases:
        cpu = next((judgement for judgement in case.judgements if judgement.metric == CPU), None)
        if (count := case.count) is None or cpu is None:
            continue
        both = count, cpu
        least, most = (judgement.interval or Interval(1.0) for judgement in both)
        if (
            any(not (j.moved or j.verdict is Verdict.NO_CHANGE) for j in both)
            or max(weight(judgement, comparison.method) for judgement in both) < 1
            or least.ends is None
            or most.ends is None
            or max(least.ends[0], most.ends[0]) <= min(least.ends[1], most.ends[1])
        ):
            continue
        of_all = math.log(most.estimate) / (math.log(least.estimate) or math.inf)
        part = cpu.moved and 0 < of_all < 1
        time = formats.percent(most.estimate) if cpu.moved else "unchanged"
        words = f"instructions {formats.percent(least.estimate)}, CPU/request {time}"
        reason = _PART if part else _ELSEWHERE
        yield not part, case.case.id, f"{words} ({formats.ends(most)}): {reason}"


def _leaks(comparison: Comparison) -> Iterator[str]:
    """Name a side that keeps memory for every request, whatever else moved."""
    leaking = [
        (max(sizes), case)
        for case in comparison.cases
        if (sizes := [side.estimate for side in case.growth.values() if side.course == "constant"])
    ]
    if leaking:
        _, worst = max(leaking, key=lambda leak: leak[0])
        several = f"memory leaks in {len(leaking)} of {comparison.planned} cases, most of all in "
        yield f"{several}{worst.case.id}: " * (len(leaking) > 1) + memory_of(worst)


def memory_of(case: CaseComparison) -> str:
    """Describe how much memory sides keep for every request, a side that leaks first.

    The other side is no contrast unless it was loaded alone as well.
    """
    leaks_last = sorted(case.growth.items(), key=lambda side: side[1].course != "constant")
    equal = len({growth.curve is None for growth in case.growth.values()}) == 1
    shown = [(name, growth) for name, growth in leaks_last if equal or growth.curve]
    words = [(name, _COURSES[growth.course].format(growth.words)) for name, growth in shown]
    return ", ".join(f"{name} {course}" for name, course in words)


_COURSES: Final[dict[Course, str]] = {
    "constant": "keeps {} for every request",
    "decaying": "takes less and less",
    "saw-tooth": "gives back what it takes",
    "none": "{}",
    "undecided": "is not decided",
}


def _news(comparison: Comparison, rows: Sequence[ViewRow]) -> Iterator[str]:
    """Describe changes of a size to act on: the largest first, and a trade as one."""
    material = of_groups(rows, *MOVED)
    sides = {group: {row.case for row in material if row.group == group} for group in MOVED}
    trades = sides["worse"] & sides["better"]
    parts: dict[str, list[ViewRow]] = {}
    for row in material:
        parts.setdefault("a trade" if row.case in trades else row.group, []).append(row)
    leads = [(_lead(moved), name, moved) for name, moved in parts.items()]
    for top, name, moved in sorted(leads, key=lambda lead: _rank(lead[0]), reverse=True):
        others = [row for row in of_groups(rows, *MOVED, "slight") if row.case == top.case]
        against = [row for row in others if row.worse != top.worse]
        price = ""
        if against:
            verb, _, rest = _lead(against).effect.partition(" ")
            price = f", and {rest}" if top.effect.startswith(f"{verb} ") else f", and {verb} {rest}"
        several = len({row.case for row in moved}) > 1
        most = ", most of all {}, which {}" if several else ": {} {}"
        yield f"{name} in {number_of(moved, comparison)}{most.format(top.name, top.effect + price)}"
    joint = joint_event(comparison)
    if joint is not None and not material:
        group = "worse" if joint.verdict is Verdict.SLOWER else "better"
        amount = formats.effect(joint.metric, joint.interval)
        yield f"{group} in {len(joint.cases)} cases tested as one: head {amount}"
    elif (slight := of_groups(rows, "slight")) and not material:
        where = number_of(slight, comparison)
        yield f"nothing that you would act on; smaller changes are shown in {where}"


def _lead(rows: Sequence[ViewRow]) -> ViewRow:
    """Return the largest of these changes, but CPU per request if its throughput follows from it.

    It follows if the requests per second moved as the inverse of the CPU that each needs.
    """
    top = max(rows, key=_rank)
    cpu = [row for row in rows if (row.case, row.metric, row.worse) == (top.case, CPU, top.worse)]
    return cpu[0] if cpu and top.metric == "throughput" and _follows(top, cpu[0]) else top


def _follows(throughput: ViewRow, cpu: ViewRow) -> bool:
    """Whether a throughput moved by no more than the CPU per request explains."""
    ends = [row.judgement.interval and row.judgement.interval.ends for row in (throughput, cpu)]
    served, needed = ([abs(math.log(end)) for end in pair or (0.0, 0.0)] for pair in ends)
    return None in ends or min(served) <= max(needed)


def _rank(row: ViewRow) -> tuple[bool, float]:
    """Rank cases above in-process benchmarks, which time only a part of what a request does."""
    return bool(row.metric), row.weight


def _could_see(rows: Sequence[ViewRow]) -> str:
    """Name the smallest change that all these rows would have shown, in the metric of all cases."""
    leading = [row for row in rows if row.metric == CPU] or rows
    sizes = [row.judgement.detectable for row in leading if row.judgement.detectable is not None]
    if not sizes:
        return ""
    return (
        f"; changes of {leading[0].label} from {formats.size(max(sizes))} on could have been seen"
    )


def number_of(rows: Sequence[ViewRow], comparison: Comparison, *, more: int = 0) -> str:
    """Count cases and benchmarks: `2 of 34 cases and 1 of 3 in-process benchmarks`."""
    cases = len({row.case for row in rows if row.metric}) + more
    inside = len({row.case for row in rows if not row.metric})
    parts = [f"{cases} of {comparison.planned} cases"] if cases else []
    if inside:
        parts.append(f"{inside} of {len(comparison.micro)} in-process benchmarks")
    return " and ".join(parts)
