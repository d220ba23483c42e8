"""A comparison as every format shows it: a sentence, rows, sections; and its exit code. Pure."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Final, Literal, get_args

from duetbench.core import units
from duetbench.core.metrics import CPU, INSTRUCTIONS, METRICS, TAILS, WAKE_UPS, WORK
from duetbench.core.metrics import row as row_of
from duetbench.core.model import Verdict
from duetbench.core.text import TO_REPEAT, some
from duetbench.core.units import Interval
from duetbench.project import names
from duetbench.show import formats
from duetbench.store.comparison import (
    SAME,
    CaseComparison,
    Comparison,
    Course,
    Coverage,
    Event,
    Judgement,
    MicroComparison,
    SideName,
    SideRecord,
    acted_on,
    executes,
    rebuilt,
    weight,
)

UNDECIDED: Final = 3
"""Not all that was to be judged was judged; see `errors.EXIT_CODES`."""

Group = Literal[
    "worse", "better", "slight", "broken", "undecided", "unjudged", "unchanged", "unawaited"
]
"""What a verdict means to readers, in the order in which they want to know it.

Slight: moved, by less than a person acts on. Broken: a side failed, or lacks the metric. Undecided:
measured, and neither a change nor its absence is shown. Unjudged: without the samples for one look.
Unawaited: a tail without an answer, for which nobody measures longer.
"""

TITLES: Final[dict[Group, str]] = {
    "worse": "Worse",
    "better": "Better",
    "slight": "Shown, but below what you would act on",
    "broken": "Not comparable",
    "undecided": "Not decided",
    "unjudged": "Not judged",
    "unchanged": "No change",
    "unawaited": "Not waited for, without an answer",
}
_GROUPS: Final = tuple(TITLES)
_MOVED: Final[tuple[Group, ...]] = ("worse", "better")
_OPEN: Final[tuple[Group, ...]] = ("broken", "undecided", "unjudged")
_GROUP_OF: Final[dict[Verdict, Group]] = {
    Verdict.SLOWER: "worse",
    Verdict.FASTER: "better",
    Verdict.NOT_COMPARABLE: "broken",
    Verdict.NO_CHANGE: "unchanged",
}
_INPROCESS_FLOOR: Final = 0.01  # of times inside the process
_NOTHING: Final = "Nothing to judge"
BESIDE: Final = "Work and wake-ups"
_BESIDE: Final = (
    "a thread that waits is woken, for one request or for many: more often under another load, "
    "beside a slower neighbour, or on purpose (a thread, a queue, a flush). Work is CPU/request "
    "without that"
)
_LABELS: Final = 3  # metrics that are named
_NAMED: Final = 6  # cases that are named where all of them would be too many
_ROW: Final = (
    "change and interval are of {}; base → head is base's mean figure, and that times the change"
)
_COULD_SEE: Final = (
    "a change of one figure alone would have been called in 4 of 5 comparisons like this; smaller "
    "ones may be there"
)
COUNTS: Final = "Instructions per request, without a server"
_BLIND: Final = (
    "counted one request at a time: it sees no waiting, no contention, nothing that the server or "
    "the kernel does, and no memory"
)
_ELSEWHERE: Final = (
    "CPU time has what these instructions have not: the server, the kernel, memory, and how many "
    "requests one wake-up serves"
)
_PART: Final = "these instructions are a part of the CPU time; the server and kernel have theirs"
_APART: Final = (
    "from launches of each side alone, one right after the other, where two servers at once would "
    "keep each other from cores; all else is from duets"
)
_STARTS: Final = (
    "each side's server alone, one right after the other, to its first right answer; bytecode is "
    "compiled beforehand"
)
_UNEQUAL: Final = frozenset({"workers", "threads", "connections"})
"""Settings of which sides at once would not share cores, or a load, equally."""

_ALONE: Final = (
    "from launches of each side alone, one right after the other: with other {} the two would "
    "share neither cores nor load equally"
)


@dataclass(frozen=True, slots=True)
class ViewRow:
    """One case, or in-process benchmark (which has a unit and no metric), and metric.

    `figures` are base's mean, and that times the ratio, so that they agree with
    `change`. `name` is the case in words, `weight` how many times what a person acts on it moved,
    `awaited` whether duets go on until it is decided, `work` the ratio of the work in it.
    """

    case: str
    metric: str
    judged: Judgement
    name: str = ""
    figures: str = ""
    unit: str = ""
    weight: float = 0.0
    awaited: bool = True
    work: float | None = None

    @property
    def group(self) -> Group:
        if self.judged.moved and self.weight < 1:
            return "slight"
        if self.judged.verdict is Verdict.INCONCLUSIVE:
            if not self.awaited:
                return "unawaited"
            return "unjudged" if self.judged.ratio is None else "undecided"
        return _GROUP_OF[self.judged.verdict]

    @property
    def label(self) -> str:
        if self.metric:
            return formats.title(self.metric)
        return "instructions in process" if self.unit == INSTRUCTIONS else "time in process"

    @property
    def moved(self) -> str:
        """By how much, in plain words: `needs 2.13 % more CPU per request (1.61…2.65 %)`."""
        text = formats.moved(self.metric or self.unit, self.judged.interval or Interval(1.0))
        work = f"; work alone: {formats.percent(self.work)})" if self.work else ""
        return text.removesuffix(")") + work if work else text

    @property
    def worse(self) -> bool:
        return self.judged.verdict is Verdict.SLOWER

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
            count = formats.quantity(self.judged.duets, "duet" if self.metric else "process pair")
            return f"only {count} usable: too few to look at"
        if not self.awaited:
            return "not decided by these duets, which do not go on for it"
        return "neither a change nor its absence is shown yet"


@dataclass(frozen=True, slots=True)
class Section:
    """Sentences, each with what it is about or nothing, and below them a table or a command.

    A folded section is closed until somebody opens it.
    """

    title: str
    lines: Sequence[tuple[str, str]] = ()
    head: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    command: str = ""
    folded: bool = False


@dataclass(frozen=True, slots=True)
class View:
    """A comparison, ready to be written in any format: what matters most comes first."""

    headline: str
    rows: tuple[ViewRow, ...]
    sections: tuple[Section, ...]


def make_view(comparison: Comparison) -> View:
    """Arrange a comparison for reading, without empty sections."""
    rows = _rows(comparison)
    sentence = headline(comparison, rows)
    sections = _sections(comparison, rows, sentence)
    filled = (section for section in sections if section.lines or section.rows or section.command)
    return View(sentence, rows, tuple(filled))


def _rows(comparison: Comparison) -> tuple[ViewRow, ...]:
    """Make all rows, group by group; what moved by most of what a person acts on first."""
    rows = [
        ViewRow(
            case.case.id,
            judged.metric,
            judged,
            str(names.of(case.case)),
            _figures(case, judged),
            weight=weight(judged, comparison.method),
            awaited=_awaited(judged, comparison),
            work=_work(case) if judged.metric == CPU else None,
        )
        for case in comparison.cases
        for judged in _judgements(case)
    ]
    for micro in comparison.micro:
        name = benchmark_name(micro)
        heavy = weight(micro.judgement, comparison.method)
        rows.append(ViewRow(name, "", micro.judgement, name, unit=micro.unit, weight=heavy))
    return tuple(sorted(rows, key=lambda row: (_GROUPS.index(row.group), -row.weight)))


def _judgements(case: CaseComparison) -> tuple[Judgement, ...]:
    """What is judged of a case, and its work, if that moved and CPU per request does not show it.

    Work scatters less than CPU per request, which batching moves as well.
    """
    if any(one.metric == CPU and one.moved for one in case.judgements):
        return case.judgements
    return *case.judgements, *(one for one in case.witnesses if one.metric == WORK and one.moved)


def _awaited(judged: Judgement, comparison: Comparison) -> bool:
    imports = row_of(judged.metric).concern == "start" and not comparison.start
    return judged.metric not in TAILS and not imports


def _work(case: CaseComparison) -> float | None:
    return next((one.ratio for one in case.witnesses if one.metric == WORK), None)


def _beside(comparison: Comparison) -> list[ViewRow]:
    """Make the rows of what explains the others, what moved most first."""
    rows = [
        ViewRow(case.case.id, one.metric, one, str(names.of(case.case)), _figures(case, one))
        for case in comparison.cases
        for one in case.witnesses
    ]
    return sorted(rows, key=lambda row: -abs(math.log(row.judged.ratio or 1)))


def _parts(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """Say of a case whose CPU moved how much of that is work, and how much is batching."""
    for case in comparison.cases:
        judged = {one.metric: one for one in (*case.judgements, *case.witnesses)}
        cpu, wakes, work = (judged.get(name) for name in (CPU, WAKE_UPS, WORK))
        ratios = [one.ratio if one else None for one in (cpu, wakes, work)]
        price, moved = case.wake_up, any(one.moved for one in (cpu, wakes, work) if one)
        if moved and price and work and all(ratios):
            whole, often, own = (ratio or 1 for ratio in ratios)
            sizes = price.seconds, price.low, price.high
            seconds, *ends = (formats.figure(WORK, size) for size in sizes)
            base = case.absolute_base.get(CPU)
            size = f", {formats.figure(WORK, base * (own - 1))}" if base else ""
            parts = (
                f"of {formats.percent(whole)} CPU/request, {formats.percent(own)} is work "
                f"({formats.ends(work.interval)}{size}), and {formats.percent(whole / own)} is "
                f"{formats.percent(often)} wake-ups, at {seconds} each ({'…'.join(ends)})"
            )
            yield case.case.id, parts


def benchmark_name(micro: MicroComparison) -> str:
    """What an in-process benchmark is called: `b.One [current, 3.14]`."""
    return f"{micro.benchmark} [{micro.stack}, {micro.python}]"


def _figures(case: CaseComparison, judged: Judgement) -> str:
    base = case.absolute_base.get(judged.metric)
    if base is None or judged.ratio is None:
        return ""
    # Head's own launches scatter more than the ratio, and would often contradict it.
    return " → ".join(formats.figure(judged.metric, end) for end in (base, base * judged.ratio))


def _of(rows: Iterable[ViewRow], *groups: Group) -> list[ViewRow]:
    return [row for row in rows if row.group in groups]


def headline(comparison: Comparison, rows: Sequence[ViewRow]) -> str:
    """Write the sentence above a comparison: what it says, and in which order, is decided here."""
    if not (comparison.planned or comparison.micro):
        notes = (note for note in comparison.notes if note.startswith(_NOTHING))
        return next(notes, f"{_NOTHING}: the change cannot have touched any measured case.")
    parts = [*_leaks(comparison), *_news(comparison, rows), *_executed(comparison)]
    if broken := _of(rows, "broken"):
        parts.append(f"not comparable in {_count(broken, comparison)}")
    # A case with one open metric is not 'no change'.
    doubtful = {row.case for row in _of(rows, *_OPEN)}
    clean = [row for row in _of(rows, "unchanged") if row.case not in doubtful]
    if clean and not _of(rows, *_MOVED, "slight"):
        parts.append(f"no change in {_count(clean, comparison)}{_could_see(clean)}")
    if undecided := _of(rows, "undecided"):
        labels = some(tuple(dict.fromkeys(row.label for row in undecided)), _LABELS)
        parts.append(f"not decided in {_count(undecided, comparison)} ({labels})")
    # Cases that should have been judged and have no row at all.
    lost = max(0, comparison.planned - len({row.case for row in rows if row.metric}))
    if comparison.counts_only:  # nobody asked for duets
        lost = sum(case.count is None for case in comparison.cases)
    if (unjudged := _of(rows, "unjudged")) or lost:
        parts.append(f"not judged in {_count(unjudged, comparison, more=lost)}")
    sentence = "; ".join(parts)
    if comparison.cross:
        sentence = f"{comparison.head.label} against {comparison.base.label}: {sentence}"
    partial = "Partial: " if comparison.status == "partial" else ""
    before = f"{covers(comparison.coverage)}. " if comparison.coverage else ""
    return f"{before}{partial}{sentence[0].upper()}{sentence[1:]}."


def covers(coverage: Coverage) -> str:
    """Say whether the requests run what differs: how many functions, and how many they enter."""
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
    """Say what the counts say: the largest change, or that there is none; and against the duets."""
    planned, method = comparison.planned, comparison.method
    counts = [(case, one) for case in comparison.cases if (one := case.count) is not None]
    sure = [pair for pair in counts if pair[1].verdict is not Verdict.INCONCLUSIVE]
    moved = [pair for pair in sure if weight(pair[1], method) >= 1]
    if moved or len(sure) == 1:
        case, top = max(moved or sure, key=lambda pair: weight(pair[1], method))
        many = f"; {len(moved)} of {planned} cases moved so" if len(moved) > 1 else ""
        yield f"{names.of(case.case).what} {executes(top)}{many}"
    elif sure:
        most = max(abs((one.ratio or 1.0) - 1) for _, one in sure)
        size = f"moved by at most {formats.size(most)}" if most > SAME else "are the same"
        yield f"instructions per request {size} in {len(sure)} of {planned} cases"
    if disputes := sum(news for news, *_ in _disputes(comparison)):
        yield f"instructions and CPU/request disagree in {disputes} of {planned} cases"


def _disputes(comparison: Comparison) -> Iterator[tuple[bool, str, str]]:
    """Where counts and CPU per request are both sure and disagree: if it is news, case, sentence.

    That a part of the time moved by less than all of it is none.
    """
    for case in comparison.cases:
        cpu = next((one for one in case.judgements if one.metric == CPU), None)
        if (count := case.count) is None or cpu is None:
            continue
        both = count, cpu
        least, most = (one.interval or Interval(1.0) for one in both)
        if (
            any(not (one.moved or one.verdict is Verdict.NO_CHANGE) for one in both)
            or max(weight(one, comparison.method) for one in both) < 1
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
    """Name a side that keeps memory for every request, whatever else there is."""
    leaking = [
        (max(sizes), case)
        for case in comparison.cases
        if (sizes := [one.estimate for one in case.growth.values() if one.course == "constant"])
    ]
    if leaking:
        _, worst = max(leaking, key=lambda one: one[0])
        many = f"memory leaks in {len(leaking)} of {comparison.planned} cases, most of all in "
        yield f"{many}{worst.case.id}: {_memory(worst)}" if len(leaking) > 1 else _memory(worst)


def _memory(case: CaseComparison) -> str:
    """What each side keeps of every request, a side that leaks first."""
    leaks_last = sorted(case.growth.items(), key=lambda side: side[1].course != "constant")
    return ", ".join(f"{name} {_COURSES[one.course].format(one.words)}" for name, one in leaks_last)


_COURSES: Final[dict[Course, str]] = {
    "constant": "keeps {} for every request",
    "decaying": "takes less and less",
    "saw-tooth": "gives back what it takes",
    "none": "{}",
    "undecided": "perhaps keeps {} per request",
}


def _news(comparison: Comparison, rows: Sequence[ViewRow]) -> Iterator[str]:
    """Say what moved by as much as a person acts on: the largest first, and a trade as one."""
    material = _of(rows, *_MOVED)
    sides = {group: {row.case for row in material if row.group == group} for group in _MOVED}
    trades = sides["worse"] & sides["better"]
    parts: dict[str, list[ViewRow]] = {}
    for row in material:
        parts.setdefault("a trade" if row.case in trades else row.group, []).append(row)
    leads = [(_lead(moved), name, moved) for name, moved in parts.items()]
    for top, name, moved in sorted(leads, key=lambda lead: -lead[0].weight):
        others = [row for row in _of(rows, *_MOVED, "slight") if row.case == top.case]
        against = [row for row in others if row.worse != top.worse]
        price = ""
        if against:
            verb, _, rest = _lead(against).moved.partition(" ")
            price = f", and {rest}" if top.moved.startswith(f"{verb} ") else f", and {verb} {rest}"
        several = len({row.case for row in moved}) > 1
        most = ", most of all {}, which {}" if several else ": {} {}"
        yield f"{name} in {_count(moved, comparison)}{most.format(top.name, top.moved + price)}"
    joint = _joint(comparison)
    if joint is not None and not material:
        group = "worse" if joint.verdict is Verdict.SLOWER else "better"
        amount = formats.moved(joint.metric, joint.interval)
        yield f"{group} in {len(joint.cases)} cases tested as one: head {amount}"
    elif (slight := _of(rows, "slight")) and not material:
        where = _count(slight, comparison)
        yield f"nothing that you would act on; smaller changes are shown in {where}"


def _joint(comparison: Comparison) -> Event | None:
    """What all cases did together, if it is as much as a person acts on."""
    for event in comparison.events:
        size = math.log1p(acted_on(event.metric, comparison.method))
        if event.factor == "change" and abs(math.log(event.ratio)) >= size:
            return event
    return None


def _lead(rows: Sequence[ViewRow]) -> ViewRow:
    """The largest of these changes. Throughput is no second witness beside CPU per request."""
    top = max(rows, key=lambda row: row.weight)
    cpu = [row for row in rows if (row.case, row.metric, row.worse) == (top.case, CPU, top.worse)]
    return cpu[0] if cpu and top.metric == "throughput" else top


def _could_see(rows: Sequence[ViewRow]) -> str:
    """Name the smallest change that all of these would have shown, in the metric of all cases."""
    leading = [row for row in rows if row.metric == CPU] or rows
    sizes = [row.judged.detectable for row in leading if row.judged.detectable is not None]
    if not sizes:
        return ""
    return (
        f"; changes of {leading[0].label} from {formats.size(max(sizes))} on could have been seen"
    )


def _count(rows: Sequence[ViewRow], comparison: Comparison, *, more: int = 0) -> str:
    """Count cases and benchmarks: `2 of 34 cases and 1 of 3 in-process benchmarks`."""
    cases = len({row.case for row in rows if row.metric}) + more
    inside = len({row.case for row in rows if not row.metric})
    parts = [f"{cases} of {comparison.planned} cases"] if cases else []
    if inside:
        parts.append(f"{inside} of {len(comparison.micro)} in-process benchmarks")
    return " and ".join(parts)


_COLUMNS: Final[dict[str, Callable[[ViewRow], str]]] = {
    "case": lambda row: row.case,
    "metric": lambda row: row.label,
    "verdict": lambda row: row.verdict,
    "change": lambda row: row.change,
    "95 % interval": lambda row: row.interval,
    "could see": lambda row: formats.size(row.judged.detectable),
    "base → head": lambda row: row.figures or formats.MISSING,
    "samples": lambda row: f"{row.judged.duets}{' by turns' if row.judged.alone else ''}",
    "why": lambda row: row.why,
}


def _table(
    title: str, rows: Iterable[ViewRow], *without: str, note: str = "", folded: bool = False
) -> Section:
    """A section with rows and all their columns but these, below a note."""
    head = [name for name in _COLUMNS if name not in without]
    cells = [[_COLUMNS[name](row) for name in head] for row in rows]
    return Section(title, _plain([note] if note else []), head, cells, folded=folded)


def _plain(lines: Iterable[str]) -> list[tuple[str, str]]:
    return [("", line) for line in lines]


def _sections(comparison: Comparison, rows: Sequence[ViewRow], sentence: str) -> Iterator[Section]:
    samples = "pairs of launches" if _UNEQUAL & comparison.head.settings.keys() else "the duets"
    yield Section("", [*_facts(comparison, rows)])
    yield _counted(comparison)
    yield Section("Events", _plain(_events(comparison)))
    for group in (*_MOVED, "slight"):
        moved = _of(rows, group)
        note = _ROW.format(samples) if any(row.figures for row in moved) else ""
        yield _table(TITLES[group], moved, "why", note=note)
    beside = _beside(comparison)
    moved = [row for row in beside if row.judged.moved]
    table = _table(BESIDE, moved, "why")
    yield replace(table, lines=[*_parts(comparison), *_plain([_BESIDE] * bool(moved))])
    broken = dict.fromkeys((row.case, row.why) for row in _of(rows, "broken"))
    yield Section(TITLES["broken"], [*broken])
    yield _table(TITLES["undecided"], _of(rows, "undecided"), "verdict", "base → head")
    unjudged = ((row.why, row.case) for row in _of(rows, "unjudged"))
    yield Section(TITLES["unjudged"], _by_reason(unjudged))
    yield Section("Next", _plain(_steps(comparison, rows)))

    same = _of(rows, "unchanged")
    sizes = _sizes(comparison, same, "tolerance")
    excluded = f"Said where a change as large as this is excluded: {sizes}." if sizes else ""
    hidden = ("verdict", "base → head", "why")
    yield _table(TITLES["unchanged"], same, *hidden, note=excluded, folded=True)
    tails = _of(rows, "unawaited")
    yield _table(TITLES["unawaited"], tails, "verdict", "base → head", folded=True)
    calm = [row for row in beside if not row.judged.moved]
    yield _table(f"{BESIDE}, no change shown", calm, "base → head", "why", folded=True)
    grown = [
        (case.case.id, *(_cell(case, side) for side in get_args(SideName)))
        for case in comparison.cases
        if case.growth
    ]
    title = "Memory kept for every request"
    yield Section(title, (), ("case", *get_args(SideName)), grown, folded=True)
    packages = [
        (item.stack, item.package, item.base or formats.MISSING, item.head or formats.MISSING)
        for item in comparison.packages
    ]
    head = ("stack", "package", "base", "head")
    yield Section("Packages that differ", (), head, packages, folded=True)
    because = ((case.because, case.case.id) for case in comparison.cases)
    yield Section("Why these were judged", _by_reason(because), folded=True)
    yield Section("Validity flags", [*_flags(comparison)], folded=True)
    command = rebuilt(comparison) or ""
    left_out = [note for note in comparison.notes if note.startswith(TO_REPEAT)]
    notes = [note for note in comparison.notes if note not in (*left_out, sentence)]
    missing = [(missing.case, missing.reason) for missing in comparison.missing]
    yield Section("Notes", [*_plain(notes), *missing], folded=True)
    if comparison.planned or comparison.micro:
        yield Section("Reproduce", _plain(left_out), command=command, folded=True)


def side_text(side: SideRecord) -> str:
    """A side as people know it."""
    commit = f" ({side.commit[:12]})" if side.commit and side.commit not in side.label else ""
    return f"{side.label}{commit}{' with uncommitted changes' if side.dirty else ''}"


def _facts(comparison: Comparison, rows: Sequence[ViewRow]) -> Iterator[tuple[str, str]]:
    sides = (comparison.base, comparison.head)
    for name, side in zip(("base", "head"), sides, strict=True):
        yield name, side_text(side)
    if comparison.cross:
        yield "kind", f"two {comparison.head.kind}s against each other: a choice, not a change"
    pythons = [
        ", ".join(f"{i.version}{' free-threaded' if i.free_threaded else ''}" for i in interpreters)
        for interpreters in (side.interpreters for side in sides)
    ]
    if any(pythons):
        yield "interpreters", " → ".join(versions or "none" for versions in dict.fromkeys(pythons))
    yield "coverage", "; ".join(_coverage(comparison, rows))
    covered = comparison.coverage
    blind = [case for case, enters in covered.cases.items() if not enters] if covered else []
    if covered and covered.entered and blind:
        yield "requests", f"enter nothing that differs in {some(tuple(blind), _NAMED)}"
    every = [case.judgements for case in comparison.cases if case.judgements]
    if unused := sum(judgements[0].excluded for judgements in every):
        used = sum(max(judgement.duets for judgement in judgements) for judgements in every)
        yield "duets", f"{used} usable, {unused} not: disturbed or failed"
    if noisy := sum(duet.kept for case in comparison.cases for duet in case.duets):
        yield "noise", f"met both sides of {noisy} of the duets used: see the flags"
    if comparison.noise is not None:
        scatter = f"of base against itself scatters by {formats.size(comparison.noise)}"
        yield "noise", f"{formats.title(CPU)} {scatter} from duet to duet (standard deviation)"
    if apart := dict.fromkeys(row.label for row in rows if row.judged.alone):
        why = f"{', '.join(apart)}: {_APART}"
        if comparison.start:
            why = _STARTS
        elif unequal := sorted(_UNEQUAL & comparison.head.settings.keys()):
            alone = _ALONE.format(" and ".join(unequal)) + _cores(comparison)
            why = f"{', '.join(apart)}: {alone}"
        yield "by turns", why
    yield from _sight(comparison, rows)
    spent = formats.duration(comparison.wall_seconds)
    if comparison.budget_seconds is not None:
        spent += f" of {formats.duration(comparison.budget_seconds)}"
    yield "time", spent
    machine = comparison.machine
    virtual = f", virtual ({machine.virtual})" if machine.virtual else ""
    yield "machine", f"{machine.cpu}, {machine.cores} cores{virtual}"


def _cores(comparison: Comparison) -> str:
    """Say how many cores a server had, if that is the same in all cases."""
    machine = comparison.machine
    every = {
        machine.cores if case.case.cores == "shared" else len(machine.server_cores)
        for case in comparison.cases
    }
    if every == {1}:
        return "; the server had one core, on which several workers cannot compute at once"
    return f"; the server had {every.pop()} cores" if len(every) == 1 else ""


def _sight(comparison: Comparison, rows: Sequence[ViewRow]) -> Iterator[tuple[str, str]]:
    """Say how small a change could have been seen, and what limits the verdicts."""
    largest: dict[str, float] = {}
    for row in rows:
        if row.judged.detectable is not None:
            largest[row.label] = max(largest.get(row.label, 0.0), row.judged.detectable)
    if largest:
        sizes = ", ".join(f"{label} {formats.size(size)}" for label, size in largest.items())
        yield "could see", f"{sizes}: {_COULD_SEE}"
    judged = _of(rows, *_MOVED, "slight", "undecided", "unchanged")
    sizes_of = {row.label: acted_on(row.metric, comparison.method) for row in judged}
    if sizes_of:
        sizes = ", ".join(f"{label} {100 * size:g} %" for label, size in sizes_of.items())
        yield "acted on", f"{sizes}: smaller changes are shown, and are no news (--material)"
    if floors := _sizes(comparison, judged, "floor"):
        yield "relevance floor", f"{floors}: up to here changes are none, however surely seen"


def _coverage(comparison: Comparison, rows: Sequence[ViewRow]) -> Iterator[str]:
    shown = _of(rows, *_MOVED, "slight", "unchanged")
    answered = {(row.case, bool(row.metric)) for row in shown}
    judged = answered - {(row.case, bool(row.metric)) for row in _of(rows, *_OPEN)}
    cases = sum(is_case for _, is_case in judged)
    if comparison.planned or not comparison.micro:
        # A case whose memory did not move and whose CPU time is open is judged in part.
        partly = len(answered - judged)
        more = f", {partly} more in part" if partly else ""
        yield f"{cases} of {comparison.planned} cases judged{more}"
    if comparison.micro:
        yield f"{len(judged) - cases} of {len(comparison.micro)} in-process benchmarks judged"
    yield f"{comparison.untouched} others cannot have changed"
    if comparison.missing:
        yield f"{len(comparison.missing)} without counterpart"


def _events(comparison: Comparison) -> Iterator[str]:
    for event in comparison.events:
        verdict = formats.verdict(event.metric, event.verdict)
        if event.factor == "change":
            moved = formats.moved(event.metric, event.interval)
            yield f"All {len(event.cases)} cases, tested as one: head {moved}."
            continue
        shared = (
            "with nothing in common but the machine"
            if event.factor == "machine"
            else f"that share the {event.factor} {event.value}"
        )
        yield (
            f"{len(event.cases)} cases {shared} moved alike: {formats.title(event.metric)} "
            f"{verdict}, {formats.percent(event.ratio)} ({formats.ends(event.interval)})."
        )


def _by_reason(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Count names by their reason, and name some of them."""
    names_of: dict[str, dict[str, None]] = {}
    for reason, name in pairs:
        names_of.setdefault(reason, {})[name] = None
    return [
        (f"{len(names)} × {reason}", some(tuple(names), _NAMED))
        for reason, names in names_of.items()
    ]


def _steps(comparison: Comparison, rows: Sequence[ViewRow]) -> Iterator[str]:
    """Say what to do next."""
    yield from _growing(comparison)
    lacking: dict[str, list[ViewRow]] = {"time": [], "quiet": [], "nothing": []}
    for row in _of(rows, "undecided", "unjudged"):
        lacking[_lacks(comparison, row)].append(row)
    if waiting := lacking["time"]:
        cases, more = {row.case for row in waiting}, ""
        estimates = [case.seconds_to_decide for case in comparison.cases if case.case.id in cases]
        if seconds := [seconds for seconds in estimates if seconds]:
            time = formats.duration(sum(seconds))
            more = f" About {time} more would probably decide {len(seconds)} of them."
        yield (
            f"Too little time for {_count(waiting, comparison)}: a larger --budget, or fewer cases "
            f"with --select, would tell.{more}"
        )
    if loud := lacking["quiet"]:
        cases = {row.case for row in loud}
        duets = (duet for case in comparison.cases if case.case.id in cases for duet in case.duets)
        flags = sorted({flag for duet in duets for flag in duet.disturbed})
        yield (
            f"Too few duets were usable in {_count(loud, comparison)}: {', '.join(flags)}. What "
            "the flags say, once it is mended, would tell; more time on this machine may not."
        )
    if spent := lacking["nothing"]:
        yield (
            "Not decided with all the samples that a comparison takes: "
            f"{_count(spent, comparison)}. What is there, if anything, is too small or too "
            "unsteady for this machine; more time does not help."
        )


def _cell(case: CaseComparison, side: SideName) -> str:
    one = case.growth.get(side)
    if one is None:
        return formats.MISSING
    seen = f"{one.course} in a soak of" if one.curve else "in the second halves of"
    return f"{one.words}; {seen} {units.count(one.requests)} requests"


def _growing(comparison: Comparison) -> Iterator[str]:
    """Say which side may keep memory for every request, and how much, where no soak has told."""
    for case in comparison.cases:
        if any(one.curve for one in case.growth.values()):
            continue
        if any(one.course == "undecided" for one in case.growth.values()):
            yield (
                f"{case.case.id}: {_memory(case)}. There was no time to load a side alone and see, "
                "as duetbench soak does."
            )
        words = []
        for side in get_args(SideName):
            growing = [duet.metrics(side) for duet in case.duets if duet.growth(side)]
            sizes = [metrics.get("memory_per_request", 0.0) for metrics in growing]
            kept = f"{units.count(fmean(sizes))} bytes" if sizes else "nothing"
            words.append(f"{side} keeps {kept} of every request")
        if any(duet.growth(side) for duet in case.duets for side in get_args(SideName)):
            yield (
                f"{case.case.id}: {', '.join(words)}. Such memory has no lasting figure to be "
                "judged, and time may grow with it; requests that leave the application as it was "
                "have one."
            )


def _lacks(comparison: Comparison, row: ViewRow) -> Literal["time", "quiet", "nothing"]:
    """Tell what a row lacks for an answer."""
    if row.group == "unjudged":
        return "quiet" if row.judged.excluded else "time"
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


def _sizes(
    comparison: Comparison, judged: Sequence[ViewRow], kind: Literal["floor", "tolerance"]
) -> str:
    """`CPU/request 0.2 %, time in process 1 %`: each metric's size once, if it is known."""
    inside = comparison.method.get(f"inprocess_{kind}")
    sizes = {
        row.label: size
        for row in judged
        if isinstance(size := getattr(METRICS[row.metric], kind) if row.metric else inside, float)
    }
    return ", ".join(f"{label} {100 * size:g} %" for label, size in sizes.items())


def _counted(comparison: Comparison) -> Section:
    """Instructions per request, the largest change first; many that did not move are one line."""
    every = sorted(
        ((case, one) for case in comparison.cases if (one := case.instructions) and one.ratio),
        key=lambda pair: -abs(math.log(pair[1].ratio or 1.0)),
    )
    same = [case for case, _ in every if case.count and case.count.verdict is Verdict.NO_CHANGE]
    hidden = same if len(same) > _NAMED else []
    rows = [
        (
            case.case.id,
            formats.percent(one.ratio),
            f"{units.count(one.base)} → {units.count(one.head)}",
            *_verdict(case.count),
        )
        for case, one in every
        if case not in hidden
    ]
    lines = [("", _BLIND)] if every else []
    lines += [(case, sentence) for _, case, sentence in _disputes(comparison)]
    if hidden:
        lines.append(("", f"{len(hidden)} cases without change are not listed"))
    lines += _by_reason((case.no_count, case.case.id) for case in comparison.cases if case.no_count)
    older = not any(case.count or case.no_count for case in comparison.cases)
    head = ("case", "change", "base → head", *([] if older else ["95 % interval", "verdict"]))
    return Section(COUNTS, lines, head, rows, folded=older)


def _verdict(count: Judgement | None) -> tuple[str, ...]:
    if count is None:
        return ()
    return formats.ends(count.interval), formats.verdict(INSTRUCTIONS, count.verdict)


def _flags(comparison: Comparison) -> Iterator[tuple[str, str]]:
    counted = Counter(
        name
        for case in comparison.cases
        for duet in case.duets
        for name in {flag.name: None for flag in (*duet.flags_base, *duet.flags_head)}
    )
    for name, times in counted.most_common():
        yield f"{name} in {formats.quantity(times, 'duet')}", name.meaning


def exit_code(comparison: Comparison, *, lenient: bool = False, counts: bool = False) -> int:
    """Say how a comparison ended: 0, 1 or 3 of `errors.EXIT_CODES`.

    1: something got slower by as much as a person acts on, or head breaks it; of two interpreters
    none counts as slower. 3: something that was to be judged was not; if `lenient`, only where
    nothing was judged. In-process benchmarks without time do not count beside cases, whose duets
    judge the same change, nor does a tail. With `counts`, or without duets, instructions decide,
    and what does not work any more.
    """
    cases = [judgement for case in comparison.cases for judgement in _judgements(case)]
    heard = [bool(case.judgements) for case in comparison.cases]
    if counts or comparison.counts_only:
        broken_ones = [one for one in cases if one.verdict is Verdict.NOT_COMPARABLE]
        cases = [*(case.count for case in comparison.cases if case.count), *broken_ones]
        heard = [case.count is not None for case in comparison.cases]
    every = (*cases, *(micro.judgement for micro in comparison.micro))
    for judgement in every:
        # The change is not to blame where base fails as well (see `CaseDuets.void`).
        broken = judgement.reason.startswith("head: ") and "; base: " not in judgement.reason
        slower = judgement.verdict is Verdict.SLOWER and not comparison.cross
        if slower and weight(judgement, comparison.method) >= 1:
            return 1
        if judgement.verdict is Verdict.NOT_COMPARABLE and broken:
            return 1
    joint = _joint(comparison)
    if joint is not None and joint.verdict is Verdict.SLOWER and not comparison.cross:
        return 1
    undecided = {Verdict.INCONCLUSIVE, Verdict.NOT_COMPARABLE}
    awaited = (judgement for judgement in cases if _awaited(judgement, comparison))
    doubtful = any(judgement.verdict in undecided for judgement in awaited) or any(
        micro.judgement.verdict in undecided and (micro.base or not comparison.planned)
        for micro in comparison.micro
    )
    unheard = comparison.planned > sum(heard)
    expected = comparison.planned or comparison.micro or comparison.untouched
    # Cases that only one side has do not show that nothing changed.
    apart = bool(comparison.missing) and not expected
    if not (doubtful or unheard or apart or comparison.status == "partial"):
        return 0
    judged = any(judgement.verdict not in undecided for judgement in every)
    return 0 if lenient and judged else UNDECIDED
