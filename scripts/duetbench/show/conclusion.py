"""What a comparison says: its rows, the largest change first, and its exit code. Pure."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from duetbench.core.metrics import CPU, INSTRUCTIONS, TAILS
from duetbench.core.metrics import row as row_of
from duetbench.core.model import Verdict
from duetbench.core.text import short, some
from duetbench.core.units import Interval
from duetbench.project import case_names
from duetbench.show import effects, formats
from duetbench.store.comparison import (
    CaseComparison,
    Comparison,
    Course,
    Coverage,
    Event,
    Judgement,
    MicroComparison,
    acted_on,
    weight,
)

UNDECIDED: Final = 3
"""Something was not judged or not decided; see `errors.EXIT_CODES`."""

_UNSEEN: Final = "statements of "  # what of `Effects.unseen` a request may send as SQL

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
    "slight": "Too small to matter",
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
    the case in words, `title` only what is served, if no other case serves it. `weight` is the
    change over the size to act on. `awaited`: duets go on until the row is decided.
    """

    case: str
    metric: str
    judgement: Judgement
    name: str = ""
    title: str = ""
    figures: str = ""
    unit: str = ""
    weight: float = 0.0
    awaited: bool = True

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
    def noun(self) -> str:
        """What was measured, in words: `CPU per request`."""
        if self.metric:
            return formats.noun(self.metric)
        return "instructions in process" if self.unit == INSTRUCTIONS else "time in process"

    @property
    def movement(self) -> str:
        """The change in plain words: `needs 2.1 % more CPU per request`, `needs 2.3× the CPU …`."""
        ratio = self.judgement.interval or Interval(1.0)
        return formats.movement(self.metric or self.unit, ratio).replace(" times the ", "× the ", 1)

    @property
    def explained(self) -> bool:
        """Whether counts of a request's instructions may say which code it is."""
        row = row_of(self.metric)
        return bool(self.metric) and row.unit != "B" and row.concern not in {"start", "idle"}

    def surely_small(self, size: float) -> bool:
        """Whether its whole interval is within a relative size."""
        interval = self.judgement.interval
        ends = (interval and interval.ends) or (math.inf, math.inf)
        return max(abs(math.log(end)) for end in ends) <= math.log1p(size) + 1e-9

    @property
    def bounded(self) -> bool:
        """Whether it did not change, and its interval is within the limit."""
        no_change = self.judgement.verdict is Verdict.NO_CHANGE
        return no_change and self.surely_small(self._margin)

    @property
    def _margin(self) -> float:
        return row_of(CPU if self.unit == INSTRUCTIONS else self.metric).limit

    @property
    def worse(self) -> bool:
        return self.judgement.verdict is Verdict.SLOWER

    @property
    def verdict(self) -> str:
        """The verdict with its mark; for no change, what its interval excludes."""
        if self.bounded:
            return f"{formats.MARKS[Verdict.NO_CHANGE]} below {100 * self._margin:g} %"
        return formats.verdict(self.metric, self.judgement.verdict)

    @property
    def change(self) -> str:
        return self._amount[0]

    @property
    def interval(self) -> str:
        return self._amount[1]

    @property
    def _amount(self) -> tuple[str, str]:
        judgement = self.judgement
        if self.vague or judgement.interval is None:
            return formats.MISSING, ""
        metric = self.metric or self.unit
        return formats.amount(metric, judgement.interval, moved=judgement.moved)

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
    titles = case_titles(comparison)
    rows = [
        ViewRow(
            case.case.id,
            judgement.metric,
            judgement,
            str(case_names.of(case.case)),
            titles[case.case.id],
            figures_of(case, judgement),
            weight=weight(judgement, comparison.method),
            awaited=_awaited(judgement, comparison),
        )
        for case in comparison.cases
        for judgement in case.judgements
    ]
    rows = [row for row in rows if row.awaited or not row.vague]
    for micro in comparison.micro:
        name = benchmark_name(micro)
        heavy = weight(micro.judgement, comparison.method)
        rows.append(ViewRow(name, "", micro.judgement, name, name, unit=micro.unit, weight=heavy))
    return tuple(sorted(rows, key=lambda row: (_GROUPS.index(row.group), -row.weight)))


def _awaited(judgement: Judgement, comparison: Comparison) -> bool:
    concern = row_of(judgement.metric).concern
    imports = concern == "start" and not comparison.start
    return judgement.metric not in TAILS and concern != "idle" and not imports


def case_titles(comparison: Comparison) -> dict[str, str]:
    """Name each case by what is served, and in full if another case serves the same."""
    cases = {case.case.id: case_names.of(case.case) for case in comparison.cases}
    served = Counter(name.what for name in cases.values())
    return {id_: n.what if served[n.what] == 1 else str(n) for id_, n in cases.items()}


def benchmark_name(micro: MicroComparison) -> str:
    """Return the name of an in-process benchmark: its title, or `b.One [current, 3.14]`."""
    name = case_names.name(micro.series)
    return (
        f"{name.what}, Python {micro.python}"
        if name.known
        else f"{micro.benchmark} [{micro.stack}, {micro.python}]"
    )


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


def request_of(case: CaseComparison) -> Judgement | None:
    """Return the verdict on the whole request from counts, unless duets decide or contradict it."""
    cpu = next((judgement for judgement in case.judgements if judgement.metric == CPU), None)
    request = case.request
    if cpu is None or request is None or request.ratio is None:
        return request
    against = request.verdict is Verdict.SLOWER and (cpu.high or math.inf) < request.ratio
    against |= request.verdict is Verdict.FASTER and (cpu.low or 0.0) > request.ratio
    decided = cpu.moved or cpu.verdict is Verdict.NO_CHANGE
    return None if decided or against else request


def exit_code(
    comparison: Comparison,
    *,
    lenient: bool = False,
    counts: bool = False,
    same: bool = False,
    sql: bool = False,
) -> int:
    """Return the exit code of a comparison: 0, 1 or 3 of `errors.EXIT_CODES`.

    1: something got slower by a size to act on, by duets or surely by counts, or head breaks it; a
    choice of two interpreters never counts as slower. 3: something was not judged; with `lenient`,
    only if nothing was. In-process benchmarks without time do not count beside cases, whose duets
    judge the same change; nor does a tail. With `counts`, or without duets, only instructions and
    failures decide. An answer with another status or content type is broken; with `same`, any other
    answer. A request that does more than a declared limit always fails. With `sql`, beside answers
    and that, only SQL statements decide: more than base sends; not if some were not seen.
    """
    if (code := _code_of_effects(comparison, same=same, sql=sql)) is not None:
        return code
    cases = [judgement for case in comparison.cases for judgement in case.judgements]
    has_judgement = [bool(case.judgements) for case in comparison.cases]
    requests = [request for case in comparison.cases if (request := request_of(case))]
    joint = joint_event(comparison)
    if counts or comparison.counts_only:
        failures = [j for j in cases if j.verdict is Verdict.NOT_COMPARABLE]
        cases = [*(case.count for case in comparison.cases if case.count), *failures]
        has_judgement = [case.count is not None for case in comparison.cases]
        joint = None  # it is about CPU per request
        requests = []
    judgements = (*cases, *requests, *(micro.judgement for micro in comparison.micro))
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
    unseen = any(text.startswith(_UNSEEN) for found in observed for text in found.unseen)
    return UNDECIDED if unseen or len(known) < len(comparison.cases) else 0


_LABELS: Final = 3  # functions named
_DOUBT: Final = 100  # characters of why it is not known what a server runs


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A case whose counts and CPU per request moved by surely different amounts, in words.

    It is no news if a part of the time moved by less than all of it.
    """

    case: str
    is_news: bool
    words: str
    ends: str
    reason: str


_ELSEWHERE: Final = (
    "CPU time also has what these instructions have not: the server, the kernel, memory, and how "
    "many requests one wake-up serves"
)

_PART: Final = "these instructions are a part of the CPU time; server and kernel have the rest"


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
    if coverage.server:
        run = some(coverage.server, _LABELS)
        return f"{differ}; run by the server, not in a request: {run}"
    missed = some(coverage.missed, _LABELS)
    proof = ": 'no change' proves nothing about them" if coverage.alone else ""
    who = "these requests enter none of them"
    if coverage.idle:
        who, proof = "neither these requests nor their servers enter any of them", ""
    reason = short(coverage.doubt, _DOUBT)
    doubt = f"; perhaps the server does: {reason}" if reason else ""
    reach = f"; {some(coverage.paths, _LABELS)} would" if coverage.paths else ""
    return f"{differ}, and {who} ({missed}){proof}{doubt}{reach}{outside}"


def disagreements(comparison: Comparison) -> Iterator[Disagreement]:
    """Yield cases whose counts and CPU per request disagree, if both are sure."""
    for case in comparison.cases:
        cpu = next((judgement for judgement in case.judgements if judgement.metric == CPU), None)
        if (count := case.count) is None or cpu is None:
            continue
        both = count, cpu
        least, most = (judgement.interval or Interval(1.0) for judgement in both)
        if (
            any(not (j.moved or j.verdict is Verdict.NO_CHANGE) for j in both)
            or count.verdict is cpu.verdict is Verdict.NO_CHANGE
            or max(weight(judgement, comparison.method) for judgement in both) < 1
            or least.ends is None
            or most.ends is None
            or max(least.ends[0], most.ends[0]) <= min(least.ends[1], most.ends[1])
        ):
            continue
        # Instructions are a part of the CPU time: other sizes in the same direction are no news.
        part = count.verdict is cpu.verdict
        time, counted = (
            formats.change(judgement.interval) if judgement.moved else "unchanged"
            for judgement in (cpu, count)
        )
        words = f"instructions {counted}, {'and' if part else 'but'} {formats.noun(CPU)} {time}"
        reason = _PART if part else _ELSEWHERE
        yield Disagreement(case.case.id, not part, words, formats.ends(most), reason)


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


def number_of(rows: Sequence[ViewRow], comparison: Comparison, *, more: int = 0) -> str:
    """Count cases and benchmarks: `2 of 34 cases and 1 of 3 in-process benchmarks`."""
    cases = len({row.case for row in rows if row.metric}) + more
    inside = len({row.case for row in rows if not row.metric})
    parts = [f"{cases} of {comparison.planned} cases"] if cases else []
    if inside:
        parts.append(f"{inside} of {len(comparison.micro)} in-process benchmarks")
    return " and ".join(parts)
