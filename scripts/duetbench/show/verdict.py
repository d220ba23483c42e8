"""The answer to a comparison: a verdict, at most five rows, the code, how sure, what next. Pure.

Two ideas are for people, with the same words in all reports: a change can be *too small to matter*,
and one of a certain size *would have been seen* (in 4 of 5 comparisons like this one).
"""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from duetbench.core import units
from duetbench.core.metrics import CPU, INSTRUCTIONS
from duetbench.core.metrics import row as row_of
from duetbench.core.model import Verdict
from duetbench.core.text import AT_START, TO_REPEAT, short, some
from duetbench.core.units import Interval
from duetbench.judge.repetition import rebuilt, why_command
from duetbench.project import case_names
from duetbench.show import effects, formats
from duetbench.show.conclusion import (
    MOVED,
    OPEN,
    UNDECIDED,
    Group,
    ViewRow,
    case_titles,
    covers,
    disagreements,
    joint_event,
    memory_of,
    of_groups,
    request_of,
    rows_of,
)
from duetbench.show.next_steps import next_steps, sufficient_budget, with_too_little_time
from duetbench.store.attribution import Attribution
from duetbench.store.comparison import (
    CaseComparison,
    Comparison,
    Judgement,
    acted_on,
    executes,
    weight,
)

MOST: Final = 5
"""Rows of an answer."""

HEAD: Final = ("before → after", "change", "95 % interval", "verdict")

NOTHING: Final = "Nothing to judge"

_CALM: Final = (formats.MARKS[Verdict.NO_CHANGE], formats.MARKS[Verdict.INCONCLUSIVE])
_EXACT: Final = 2  # effects of a case
_DETAIL: Final = 40  # characters of an effect's detail
_LABELS: Final = 2  # metrics that a verdict names
_NAMED: Final = 3  # metrics, functions or packages that a line names
_OFTEN: Final = "in 4 of 5 such comparisons"
_UNEVEN: Final = 3.0  # ratio of what the cases would have shown from which both ends are named
_REASON: Final = 120  # characters of the reason why a side failed
_WORST: Final[tuple[Group, ...]] = ("broken", *MOVED)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a reader sees first, in this order; the sections of a report follow.

    Attributes:
        verdict: One line that says no more than the intervals.
        open: What stayed undecided, if something else is decided; or else `verdict` says it.
        news: Whether something changed, broke, or is over a limit.
        head: Columns of the rows: a case if there are several, what was measured, and `HEAD`.
        rows: Exact counts first, then what was measured; the most important first.
        more: How many rows the report has beside these.
        causes: What differs: functions that the requests enter, packages.
        sure: How it was measured, what would have been seen, what disturbed it.
        advice: What to do next, or what the command lacks.
        command: The command that finds the functions, or that would decide.
    """

    verdict: str
    open: str
    news: bool
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    more: int
    causes: Sequence[str]
    sure: str
    advice: str
    command: str


def make_answer(comparison: Comparison, rows: Sequence[ViewRow]) -> Answer:
    """Choose what a reader sees first."""
    several = len({case.case.id for case in comparison.cases}) > 1
    titles = case_titles(comparison)
    exact: list[Sequence[str]] = []
    inside: list[Sequence[str]] = []
    for case in comparison.cases:
        title = titles[case.case.id]
        exact += [*_effects(case, title), *_counts(comparison, case, rows, title)]
        inside += _effects(case, title, inside=True)
    sized = [
        row
        for row in _by_importance(rows)
        if row.change != formats.MISSING or row.group == "broken"
    ]
    measured = [[row.title, row.noun, *_cells(row, comparison)] for row in sized]
    shown = [*exact, *measured, *inside][:MOST]
    if several:  # the rows of a case are together
        places = {cells[0]: place for place, cells in reversed([*enumerate(shown)])}
        shown.sort(key=lambda cells: places[cells[0]])
    label = ("case", "metric") if several else ("metric",)
    advice, command = _next(comparison, rows)
    if command:
        advice = "; ".join(note for note in comparison.notes if note.startswith(TO_REPEAT))
    return Answer(
        *headline(comparison, rows),
        (*label, *HEAD),
        [cells if several else cells[1:] for cells in shown],
        len(exact) + len(rows) + len(inside) - len(shown),
        tuple(_causes(comparison)),
        _sure(comparison, rows),
        advice,
        command,
    )


def _by_importance(rows: Sequence[ViewRow]) -> list[ViewRow]:
    """Put what moved first, of each case its first row before the others.

    Benchmarks in process time only a part of what a request does, so they come last.
    """
    first = {row.case: row for row in reversed(rows)}

    def place(row: ViewRow) -> tuple[bool, bool, bool]:
        return not row.metric, row.group not in _WORST, first[row.case] is not row

    return sorted(rows, key=place)


def _cells(row: ViewRow, comparison: Comparison) -> tuple[str, ...]:
    """Write a row; of a figure that did not change, what is excluded is its size."""
    small = row.group == "slight" and row.surely_small(acted_on(row.metric, comparison.method))
    verdict = f"{row.verdict}, {formats.SMALL}" if small else row.verdict
    return row.figures, "" if row.bounded else row.change, row.interval, verdict


def _effects(case: CaseComparison, title: str, *, inside: bool = False) -> Iterator[list[str]]:
    """Show the most telling of what one request does differently, or what explains it: `inside`."""
    kinds: dict[str, list[Sequence[str]]] = {}
    for row in effects.rows(case.effects) if case.effects else ():
        if (row[0] in effects.INSIDE) is inside:
            kinds.setdefault(row[0], []).append(row)
    for (name, old, new, text), *others in [*kinds.values()][:_EXACT]:
        figures = f"{old} → {new}" if old or new else ""
        # The first detail alone would not add up to the figures.
        more = f"; {effects.beside(case.effects, name)}" if others and case.effects else ""
        yield [title, name, figures, "", "", f"≠ {short(text, _DETAIL) or 'differs'}{more}"]


def _counts(
    comparison: Comparison, case: CaseComparison, rows: Sequence[ViewRow], title: str
) -> Iterator[list[str]]:
    """Show a case's instructions if its CPU time says nothing."""
    counts, judged = case.instructions, case.count
    if judged and counts and _only_counted(comparison, case, rows):
        figures = f"{units.count(counts.base)} → {units.count(counts.head)}"
        interval = judged.interval or Interval(1.0)
        words = formats.amount(INSTRUCTIONS, interval, moved=judged.moved)
        verdict = formats.verdict(INSTRUCTIONS, judged.verdict)
        yield [title, "instructions per request", figures, *words, verdict]
        if (request := request_of(case)) and request.moved:
            least, _ = formats.amount(CPU, request.interval or Interval(1.0), moved=True)
            verdict = formats.verdict(CPU, request.verdict)
            yield [title, "whole request, at least", "", least, "", verdict]


def _only_counted(comparison: Comparison, case: CaseComparison, rows: Sequence[ViewRow]) -> bool:
    if comparison.counts_only:
        return True
    cpu = [row for row in rows if (row.case, row.metric) == (case.case.id, CPU)]
    return not cpu or cpu[0].group in OPEN


def _only_observed(case: CaseComparison) -> bool:
    """Whether what one request does is all that was asked: nothing was to be counted."""
    return bool(case.effects) and not (case.count or case.no_count or case.duets)


# The verdict line. A part has a mark with a word, and a sentence.

_Part = tuple[str, str]


def headline(comparison: Comparison, rows: Sequence[ViewRow]) -> tuple[str, str, bool]:
    """Write the verdict, the worst first, what stayed open, and whether it is news.

    What stayed open is a part of the verdict unless something moved: "no change" would be too much.
    """
    if not (comparison.planned or comparison.micro):
        notes = (note for note in comparison.notes if note.startswith(NOTHING))
        return (
            next(notes, f"{NOTHING}: the change cannot have touched any measured case."),
            "",
            False,
        )
    requests, inside = ([row for row in rows if bool(row.metric) is kind] for kind in (True, False))
    exact = [*effects.news(comparison)]
    first = [part for part in exact if part[0] not in {effects.BETTER, effects.LEAST}]
    leaks = [] if any(mark == effects.LEAKS for mark, _ in first) else _leaks(comparison)
    measured = [*leaks, *_broken(comparison, rows), *_moves(comparison, requests)]
    if any(mark[0] != "▲" for mark, _ in measured):  # base's leak is no news above what got worse
        measured.sort(key=lambda part: part[0] == "▲ leaks")
    measured += _executed(comparison, rows)
    # Benchmarks in process time a part of what requests do.
    if not of_groups(requests, *MOVED):
        measured += [*_moves(comparison, inside)] or [*_joint(comparison)]
    parts = [*first, *_together(comparison, measured, exact[len(first) :])]
    if not measured:
        parts += [*_slight(comparison, rows)] or [*_same(comparison, rows)]
    left = [*_open(comparison, rows, brief=bool(measured))]
    moved = any(not mark.startswith("=") for mark, _ in parts)
    below = _join(left) if moved and any(text for _, text in left) else ""
    parts += left * (not below)
    if not parts and comparison.cases and all(map(_only_observed, comparison.cases)):
        what = effects.alike(*(case.effects for case in comparison.cases))
        parts = [(formats.SAME, f"one request {what}")]
    (mark, sentence), *others = parts or [("?", "not judged")]
    if comparison.cross:
        sentence = f"{comparison.head.label} in place of {comparison.base.label}: {sentence}"
    text = _join([(mark, sentence), *others])
    news = any(sign[0] not in _CALM for sign in (mark, *dict(others)))
    return f"Partial: {text}" if comparison.status == "partial" else text, below, news


def _join(parts: Iterable[_Part]) -> str:
    return "; ".join(": ".join(filter(None, part)) for part in parts)


def _together(
    comparison: Comparison, measured: Sequence[tuple[str, str]], exact: Sequence[tuple[str, str]]
) -> list[tuple[str, str]]:
    """Say of a single case in one sentence what it costs more, and what it does differently."""
    parts = [*measured, *exact]
    if comparison.planned != 1 or len(parts) < 2 or not measured or not comparison.cases:
        return parts
    name = f"{case_names.of(comparison.cases[0].case).what} "
    if not all(sentence.startswith(name) for _, sentence in (measured[0], *exact)):
        return parts
    (mark, sentence), *others = measured
    more = [does.removeprefix(name) for _, does in exact]
    return [(mark, " and ".join([sentence, *more])), *others]


def _where(rows: Sequence[ViewRow], comparison: Comparison) -> str:
    """Count cases: ` in 2 of 34 cases`; empty if there is only one."""
    cases = len({row.case for row in rows if row.metric})
    if cases:
        return f" in {cases} of {comparison.planned} cases" if comparison.planned > 1 else ""
    inside = len({row.case for row in rows})
    return f" in {inside} of {len(comparison.micro)} benchmarks in process"


def _leaks(comparison: Comparison) -> Iterator[_Part]:
    """Name a side that keeps memory for every request, whatever else moved."""
    leaking = [
        (max(sizes), place)
        for place, case in enumerate(comparison.cases)
        if (sizes := [side.estimate for side in case.growth.values() if side.course == "constant"])
    ]
    if leaking:
        worst = comparison.cases[max(leaking)[1]]
        head = worst.growth.get("head")
        mark = "▼ leaks" if head and head.course == "constant" else "▲ leaks"
        many = f"{len(leaking)} of {comparison.planned} cases, most of all "
        where = f"{many}{case_names.of(worst.case)}: " * (len(leaking) > 1)
        yield mark, f"{where}{memory_of(worst)}"


def _broken(comparison: Comparison, rows: Sequence[ViewRow]) -> Iterator[_Part]:
    leaks = {c.case.id for c in comparison.cases if any(g.curve for g in c.growth.values())}
    broken = [row for row in of_groups(rows, "broken") if row.case not in leaks]
    if broken:
        first = broken[0]
        mark = f"✕ not comparable{_where(broken, comparison)}"
        yield mark, f"{first.title}: {short(first.why, _REASON)}"


def _moves(comparison: Comparison, rows: Sequence[ViewRow]) -> Iterator[_Part]:
    """Describe changes of a size to act on: the largest first, and a trade as one."""
    material = of_groups(rows, *MOVED)
    sides = {group: {row.case for row in material if row.group == group} for group in MOVED}
    trades = sides["worse"] & sides["better"]
    parts: dict[str, list[ViewRow]] = {}
    for row in material:
        parts.setdefault("▼▲ a trade" if row.case in trades else row.group, []).append(row)
    leads = [(_lead(moved), name, moved) for name, moved in parts.items()]
    for top, name, moved in sorted(leads, key=lambda lead: _rank(lead[0]), reverse=True):
        mark = name if top.case in trades else top.verdict
        against = [row for row in material if row.case == top.case and row.worse != top.worse]
        price = ""
        if against:
            verb, _, rest = _lead(against).movement.partition(" ")
            price = f" and {rest}" if top.movement.startswith(f"{verb} ") else f" and {verb} {rest}"
        most = "most of all " if len({row.case for row in moved}) > 1 else ""
        sentence = f"{most}{top.title} {top.movement}{price}"
        yield f"{mark}{_where(moved, comparison)}", sentence


def _joint(comparison: Comparison) -> Iterator[_Part]:
    """Describe what all cases did together."""
    if joint := joint_event(comparison):
        amount = formats.effect(joint.metric, joint.interval)
        mark = formats.verdict(joint.metric, joint.verdict)
        yield mark, f"{len(joint.cases)} cases, tested as one: head {amount}"


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


def _executed(comparison: Comparison, rows: Sequence[ViewRow]) -> Iterator[_Part]:
    """Describe the counts of cases whose CPU time says nothing: the largest change, or none."""
    counts = [
        (case, count)
        for case in comparison.cases
        if (count := case.count) and _only_counted(comparison, case, rows)
        if count.verdict is not Verdict.INCONCLUSIVE
    ]
    moved = [pair for pair in counts if weight(pair[1], comparison.method) >= 1]
    # What counts show of the whole request is a verdict, and of the application alone a fact.
    sure = [pair for pair in moved if _request_weight(comparison, pair[0]) >= 1]
    moved = sure or moved
    shown = moved or (counts if comparison.counts_only or comparison.planned == 1 else [])
    if shown:
        titles = case_titles(comparison)

        def size(pair: tuple[CaseComparison, Judgement]) -> float:
            return weight(pair[1], comparison.method)

        case, top = max(shown, key=size)
        many = f" in {len(moved)} of {comparison.planned} cases" if len(moved) > 1 else ""
        mark = formats.verdict(CPU if sure else INSTRUCTIONS, top.verdict)
        if not moved:
            mark = f"= {formats.SMALL}" if top.moved else formats.SAME
        yield f"{mark}{many}", f"{titles[case.case.id]} {executes(top)}{_whole(case)}"


def _request_weight(comparison: Comparison, case: CaseComparison) -> float:
    request = None if comparison.counts_only else request_of(case)
    return weight(request, comparison.method) if request else 0.0


def _whole(case: CaseComparison) -> str:
    """Say what counts show: `, at least 13 % more CPU for the whole request`."""
    request = request_of(case)
    if request is None or not request.moved:
        return ""
    size = formats.movement(CPU, request.interval or Interval(1.0)).removeprefix("needs ")
    return f", at least {size.removesuffix(' per request')} for the whole request"


def _slight(comparison: Comparison, rows: Sequence[ViewRow]) -> Iterator[_Part]:
    """Say that all that moved is too small to matter, as far as its interval allows that."""
    slight = of_groups(rows, "slight")
    if slight:
        lead = _lead(slight)
        surely = all(row.surely_small(acted_on(row.metric, comparison.method)) for row in slight)
        word = formats.SMALL if surely else f"probably {formats.SMALL}"
        mark = f"= {word}{_where(slight, comparison)}"
        yield mark, f"{lead.title} {lead.movement}{_unproven(comparison)}"


def _same(comparison: Comparison, rows: Sequence[ViewRow]) -> Iterator[_Part]:
    # A case with one open metric is not 'no change'.
    doubtful = {row.case for row in of_groups(rows, *OPEN)}
    clean = [row for row in of_groups(rows, "unchanged") if row.case not in doubtful]
    if clean:
        name = clean[0].title if len({row.case for row in clean}) == 1 else ""
        unproven = _unproven(comparison)
        parts = [name, "" if unproven else would_have_been_seen(clean)]
        sentence = "; ".join(filter(None, parts)) + unproven
        yield f"{formats.SAME}{_where(clean, comparison)}", sentence.removeprefix(", ")


def _unproven(comparison: Comparison) -> str:
    """Say that the requests run nothing of what differs: no change says nothing about it."""
    covered = comparison.coverage
    unproven = covered and covered.differ and not (covered.entered or covered.server)
    return f", but {covers(covered)}" if covered and unproven else ""


def would_have_been_seen(rows: Sequence[ViewRow]) -> str:
    """Name the smallest change that these rows would have shown, in the metric of all cases."""
    leading = [row for row in rows if row.metric == CPU] or list(rows)
    sizes = [row.judgement.detectable for row in leading if row.judgement.detectable is not None]
    if not sizes:
        return ""
    size = formats.size(max(sizes))
    least = size if size.startswith("over") else f"{size} or more"
    if max(sizes) > _UNEVEN * min(sizes):
        least = f"{formats.size(min(sizes))} to {size}, depending on the case,"
    return f"a change of {least} in {leading[0].noun} {formats.SEEN} {_OFTEN}"


def _open(comparison: Comparison, rows: Sequence[ViewRow], *, brief: bool) -> Iterator[_Part]:
    """Say what stayed open, and how much time would decide it; without reasons if `brief`."""
    undecided, unjudged = of_groups(rows, "undecided"), of_groups(rows, "unjudged")
    cases = {row.case for row in (*undecided, *unjudged) if row.metric}
    # Cases that should have been judged and have no row at all.
    lost = max(0, comparison.planned - len({row.case for row in rows if row.metric}))
    if comparison.counts_only:  # without duets
        lost = sum(not (case.count or _only_observed(case)) for case in comparison.cases)
    if not (undecided or unjudged or lost):
        return
    number = len(cases) + lost
    where = f" in {number} of {comparison.planned} cases" if comparison.planned > 1 else ""
    if not number:
        where = _where([*undecided, *unjudged], comparison)
    after = _decided_after(comparison, rows)
    labels = some(tuple(dict.fromkeys(row.noun for row in undecided or unjudged)), _LABELS)
    if undecided:
        yield f"? not decided{where}", f"{labels}{after}"
    else:
        reasons = tuple(dict.fromkeys(row.why for row in unjudged))
        why = labels if brief and labels else short(some(reasons, 1), _REASON)
        yield f"? not judged{where}", f"{why}{after}".lstrip("; ")


def _decided_after(comparison: Comparison, rows: Sequence[ViewRow]) -> str:
    seconds = sufficient_budget(comparison, with_too_little_time(comparison, rows))
    return f"; about {units.write_time(seconds)} would decide" if seconds else ""


def check_line(comparison: Comparison, code: int, fail_on: str = "") -> str:
    """Say in Markdown what a check does with an exit code, and why; without `fail_on`, the code.

    `fail_on` is `never`, or as for `duetbench compare`.
    """
    rows = [row for row in rows_of(comparison) if row.group == "worse"]
    excess = next(effects.excess(comparison), "")
    why = {
        0: "nothing got worse by a size that fails it",
        UNDECIDED: "nothing is shown to be worse, and something is not decided",
    }.get(code, excess or "head does less, other or more than it may")
    if code == 1 and not excess:
        if fail_on == "sql":
            why = "a request sends more SQL statements, or answers otherwise"
        elif fail_on == "instructions":
            why = f"instructions grew by {_limit(CPU, comparison)} or more"
        elif rows:
            top = max(rows, key=_rank)
            why = f"{top.noun} got worse by {_limit(top.metric, comparison)} or more"
    if not fail_on:
        return f"**Exit code {code}**: {formats.escape(why)}."
    if code == 1 and fail_on == "never":
        return f"**The check passes**, as `fail-on: never` asks, though {formats.escape(why)}."
    does = "fails" if code == 1 else "passes"
    return f"**The check {does}**: {formats.escape(why)}."


def _limit(metric: str, comparison: Comparison) -> str:
    return f"{100 * acted_on(metric, comparison.method):g} %"


# What did it, how sure it is, and what to do.


def _causes(comparison: Comparison) -> Iterator[str]:
    """Say what differs: functions that requests enter, by name and line, and packages."""
    if covered := comparison.coverage:
        if covered.functions:
            more = "" if covered.entered == covered.differ else f" of {covered.differ}"
            verb = "differs and is" if covered.entered == 1 and not more else "that differ are"
            count = formats.quantity(covered.entered, "function")
            text = f"{count}{more} {verb} called: {some(covered.functions, _NAMED)}"
            outside = formats.quantity(covered.outside, "file")
            yield text + f"; code outside functions differs in {outside}" * bool(covered.outside)
        else:
            yield covers(covered)
    if packages := tuple(dict.fromkeys(map(str, comparison.packages))):
        yield f"{'packages' if len(packages) > 1 else 'package'}: {some(packages, _NAMED)}"
    yield from (note for note in comparison.notes if note.startswith(AT_START))


def code_line(code: Attribution) -> str:
    """Name the function with the largest share of a change, from its attribution."""
    from duetbench.show.change import AttributionText  # noqa: PLC0415 - only those who have one

    text = AttributionText(code)
    if not text.rows:
        return text.cause
    first = text.rows[0]
    share = first.of_all if first.share == formats.MISSING else f"{first.share} of it"
    state = {"came": "new, ", "went": "gone, ", "both": ""}[first.row.state]
    name, where = (short(text, _REASON) for text in (first.row.function.name, first.where))
    return f"code: {share} is `{name}` ({state}`{where}`)"


def _sure(comparison: Comparison, rows: Sequence[ViewRow]) -> str:
    """Say how it was measured, what would have been seen, and what disturbed it."""
    used = [max((j.duets for j in c.judgements), default=0) for c in comparison.cases]
    unused = sum(max((j.excluded for j in c.judgements), default=0) for c in comparison.cases)
    alone = {row.judgement.alone for row in rows if row.metric} == {True}
    parts = []
    if comparison.counts_only:
        only = all(map(_only_observed, comparison.cases))
        what = "what one request does only, seen" if only else "instructions only, counted"
        parts.append(f"{what} without a server")
    elif comparison.cases:
        word, how = (
            ("turn", "each side alone") if alone else ("duet", "both sides at the same time")
        )
        spent = formats.duration(comparison.wall_seconds)
        name = case_names.of(comparison.cases[0].case)
        where = f" on {name.variant}" if len(comparison.cases) == 1 and name.known else ""
        more = f", and {unused} not used: disturbed or failed" if unused else ""
        parts.append(f"{formats.quantity(sum(used), word)} ({how}) in {spent}{where}{more}")
    # Of a change, its interval says how sure it is; of "no change" the headline does.
    slight = of_groups(rows, "slight")
    quiet = not of_groups(rows, *MOVED) and (slight or not [*_same(comparison, rows)])
    judged = of_groups(rows, "slight", "unchanged", "undecided")
    if quiet and (seen := would_have_been_seen(judged)):
        parts.append(seen)
    disputes = [dispute for dispute in disagreements(comparison) if dispute.is_news]
    if disputes:
        where = f" in {len(disputes)} cases" if comparison.planned > 1 else ""
        parts.append(f"{disputes[0].words}{where}: --details")
    return "; ".join(parts)


_BUDGET: Final = re.compile(r" --budget \S+")


def _next(comparison: Comparison, rows: Sequence[ViewRow]) -> tuple[str, str]:
    """Say what to do next, and with which command."""
    again = rebuilt(comparison)
    if moved := of_groups(rows, *MOVED):
        lead = max(moved, key=_rank)
        case, concern = lead.case if comparison.planned > 1 else "", row_of(lead.metric).concern
        explained = any(row.explained for row in moved)
        if not (explained or concern == "start"):
            return "", ""
        return "", why_command(comparison, case, start=concern == "start") or ""
    short_of_time = with_too_little_time(comparison, rows)
    if seconds := sufficient_budget(comparison, short_of_time):
        about = units.write_time(seconds)
        longer = f"{_BUDGET.sub('', again)} --budget {about}" if again else ""
        return f"about {about} would decide" * (not longer), longer
    return next(iter(next_steps(comparison, rows)), ""), ""


def with_code(answer: Answer, code: Attribution | None) -> Answer:
    """Name the functions of an attribution first among what differs."""
    if code is None:
        return answer
    return replace(answer, causes=(code_line(code), *answer.causes), command="")


def lines(answer: Answer) -> Iterable[str]:
    """Write what follows the rows, a sentence a line, without the command."""
    more = f"{formats.quantity(answer.more, 'more row')}: --details" if answer.more > 0 else ""
    return filter(None, (answer.open, more, *answer.causes, answer.sure, answer.advice))
