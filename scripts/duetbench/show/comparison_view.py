"""A comparison as every format shows it: an answer, all rows, and sections. Pure."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from duetbench.core import units
from duetbench.core.metrics import INSTRUCTIONS
from duetbench.core.model import Verdict
from duetbench.core.text import TO_REPEAT, some
from duetbench.judge.repetition import rebuilt
from duetbench.show import effects, formats
from duetbench.show.conclusion import (
    MOVED,
    OPEN,
    TITLES,
    ViewRow,
    disagreements,
    of_groups,
    request_of,
    rows_of,
)
from duetbench.show.next_steps import next_steps, sample_of
from duetbench.show.verdict import Answer, make_answer
from duetbench.store.comparison import (
    SIDES,
    CaseComparison,
    Collector,
    Comparison,
    Instructions,
    Judgement,
    PackageChange,
    SideName,
    SideRecord,
    acted_on,
)

_VERSIONS: Final = 2  # packages that name a side
_NAMED: Final = 6  # cases named in place of a longer list

_ROW: Final = (
    "change and interval are of {}; base → head is base's mean figure, and that times the change"
)

_SEEN: Final = "in 4 of 5 such comparisons, a change from this size on"

COUNTS: Final = "Instructions per request, without a server"

_BLIND: Final = (
    "counted one request at a time: no waiting, no contention, no memory, and no work of server "
    "and kernel"
)

_COLLECTED: Final = (
    "full collections of garbage under a steady load, which the instructions contain: each walks "
    "all objects of the application"
)

_COLLECTING: Final = 0.01
"""Share of a request's instructions from which the full collections are in the report."""

_APART: Final = (
    "from launches of each side alone, one right after the other, because two servers at once "
    "would compete for cores; rows without 'by turns' are from duets"
)

_STARTS: Final = (
    "each side's server alone, one right after the other, to its first right answer; bytecode is "
    "compiled beforehand"
)

_UNEQUAL: Final = frozenset({"workers", "threads", "connections"})
"""Settings that keep sides from sharing cores or load equally, if both run at once."""

_ALONE: Final = (
    "from launches of each side alone, one right after the other: with other {} the two would "
    "share neither cores nor load equally"
)


@dataclass(frozen=True, slots=True)
class Section:
    """Sentences, each with its subject or none, and below them a table or a command.

    A folded section is closed until a reader opens it.
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

    answer: Answer
    rows: tuple[ViewRow, ...]
    sections: tuple[Section, ...]

    @property
    def headline(self) -> str:
        return self.answer.verdict


def make_view(comparison: Comparison) -> View:
    """Arrange a comparison for reading, without empty sections."""
    rows = rows_of(comparison)
    answer = make_answer(comparison, rows)
    sections = _sections(comparison, rows, answer.verdict)
    filled = (section for section in sections if section.lines or section.rows or section.command)
    return View(answer, rows, tuple(filled))


_COLUMNS: Final[dict[str, Callable[[ViewRow], str]]] = {
    "case": lambda row: row.case,
    "metric": lambda row: row.noun,
    "verdict": lambda row: row.verdict,
    "change": lambda row: row.change,
    "95 % interval": lambda row: row.interval,
    formats.SEEN: lambda row: formats.size(row.judgement.detectable),
    "base → head": lambda row: row.figures or formats.MISSING,
    "samples": lambda row: f"{row.judgement.duets}{' by turns' if row.judgement.alone else ''}",
    "why": lambda row: row.why,
}


def _table(
    title: str, rows: Iterable[ViewRow], *without: str, note: str = "", folded: bool = False
) -> Section:
    """Return a section with rows and all their columns except these, below a note."""
    head = [name for name in _COLUMNS if name not in without]
    cells = [[_COLUMNS[name](row) for name in head] for row in rows]
    return Section(title, _plain([note] if note else []), head, cells, folded=folded)


def _plain(lines: Iterable[str]) -> list[tuple[str, str]]:
    return [("", line) for line in lines]


def _sections(comparison: Comparison, rows: Sequence[ViewRow], sentence: str) -> Iterator[Section]:
    yield Section("", [*_facts(comparison, rows)])
    yield _effects(comparison)
    yield _counted(comparison)
    if event := comparison.event:
        effect = formats.effect(event.metric, event.interval)
        text = f"All {len(event.cases)} cases, tested as one: head {effect}."
        yield Section("Event", [("", text)])
    for group in (*MOVED, "slight"):
        moved = of_groups(rows, group)
        note = _ROW.format(f"the {sample_of(moved)}s") if any(row.figures for row in moved) else ""
        yield _table(TITLES[group], moved, "why", note=note)
    broken = dict.fromkeys((row.case, row.why) for row in of_groups(rows, "broken"))
    yield Section(TITLES["broken"], [*broken])
    yield _table(TITLES["undecided"], of_groups(rows, "undecided"), "verdict", "base → head")
    unjudged = ((row.why, row.case) for row in of_groups(rows, "unjudged"))
    yield Section(TITLES["unjudged"], _by_reason(unjudged))
    yield Section("Next", _plain(next_steps(comparison, rows)))

    same = of_groups(rows, "unchanged")
    yield _table(TITLES["unchanged"], same, "base → head", "why", folded=True)
    tails = of_groups(rows, "unawaited")
    yield _table(TITLES["unawaited"], tails, "verdict", "base → head", folded=True)
    grown = [
        (case.case.id, *(_cell(case, side) for side in SIDES))
        for case in comparison.cases
        if case.growth
    ]
    title = "Memory kept for every request"
    yield Section(title, (), ("case", *SIDES), grown, folded=True)
    collected = [
        (case.case.id, *texts.values())
        for case in comparison.cases
        if case.instructions and (texts := _collections(case.instructions))
    ]
    explained = [("", _COLLECTED)] if collected else []
    yield Section("Garbage collector", explained, ("case", *SIDES), collected, folded=True)
    packages = [
        (item.stack, item.package, item.base or formats.MISSING, item.head or formats.MISSING)
        for item in comparison.packages
    ]
    head = ("stack", "package", "base", "head")
    yield Section("Packages that differ", (), head, packages, folded=True)
    because = ((case.because, case.case.id) for case in comparison.cases)
    yield Section("Why these were judged", _by_reason(because), folded=True)
    yield Section("Validity flags", [*_flags(comparison, rows)], folded=True)
    command = rebuilt(comparison) or ""
    left_out = [note for note in comparison.notes if note.startswith(TO_REPEAT)]
    notes = [note for note in comparison.notes if note not in (*left_out, sentence)]
    missing = [(missing.case, missing.reason) for missing in comparison.missing]
    yield Section("Notes", [*_plain(notes), *missing], folded=True)
    if comparison.planned or comparison.micro:
        yield Section("Reproduce", _plain(left_out), command=command, folded=True)


def side_texts(
    base: SideRecord, head: SideRecord, packages: Sequence[PackageChange]
) -> tuple[str, str]:
    """Name both sides for readers: by their commits, or of one commit by packages that differ."""
    texts = []
    for side, name in ((base, "base"), (head, "head")):
        versions = dict.fromkeys(
            f"{move.package} {getattr(move, name)}"
            for move in packages
            if getattr(move, name) and move.base != move.head
        )
        detail = side.commit[:12] if side.commit and side.commit not in side.label else ""
        if side.kind == "stack":
            detail = some(tuple(versions), _VERSIONS) if "==" not in side.label else ""
        dirty = " with uncommitted changes" if side.dirty else ""
        texts.append(f"{side.label}{f' ({detail})' if detail else ''}{dirty}")
    return texts[0], texts[1]


def _facts(comparison: Comparison, rows: Sequence[ViewRow]) -> Iterator[tuple[str, str]]:
    sides = (comparison.base, comparison.head)
    yield from zip(("base", "head"), side_texts(*sides, comparison.packages), strict=True)
    if comparison.cross:
        yield "kind", f"two {comparison.head.kind}s against each other: a choice, not a change"
    pythons = [", ".join(python.text for python in side.interpreters) for side in sides]
    if any(pythons):
        yield "interpreters", " → ".join(versions or "none" for versions in dict.fromkeys(pythons))
    memory = [", ".join(dict.fromkeys(i.memory for i in side.interpreters)) for side in sides]
    if all(memory) and memory[0] != memory[1]:
        yield "allocators", " → ".join(memory)
    yield "coverage", "; ".join(_coverage(comparison, rows))
    covered = comparison.coverage
    blind = [case for case, enters in covered.cases.items() if not enters] if covered else []
    if covered and covered.entered and blind:
        named = some(tuple(blind), _NAMED)
        yield "not covered", f"the requests of {named} enter nothing that differs"
    judged = [case.judgements for case in comparison.cases if case.judgements]
    if unused := sum(judgements[0].excluded for judgements in judged):
        used = sum(max(judgement.duets for judgement in judgements) for judgements in judged)
        yield f"{sample_of(rows)}s", f"{used} usable, {unused} not: disturbed or failed"
    if noisy := sum(duet.kept for case in comparison.cases for duet in case.duets):
        pairs = f"{noisy} of the {sample_of(rows)}s used"
        yield "noise", f"other programs took time from both sides alike in {pairs}"
    if apart := dict.fromkeys(row.noun for row in rows if row.judgement.alone):
        reason = f"{', '.join(apart)}: {_APART}"
        if comparison.start:
            reason = _STARTS
        elif unequal := sorted(_UNEQUAL & comparison.head.settings.keys()):
            alone = _ALONE.format(" and ".join(unequal)) + _cores(comparison)
            reason = f"{', '.join(apart)}: {alone}"
        yield "by turns", reason
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
    counts = {
        machine.cores if case.case.cores == "shared" else len(machine.server_cores)
        for case in comparison.cases
    }
    if counts == {1}:
        return "; the server had one core, on which several workers cannot compute at once"
    return f"; the server had {counts.pop()} cores" if len(counts) == 1 else ""


def _sight(comparison: Comparison, rows: Sequence[ViewRow]) -> Iterator[tuple[str, str]]:
    """Say how small a change could have been seen, and what limits the verdicts."""
    largest: dict[str, float] = {}
    for row in rows:
        if row.judgement.detectable is not None:
            largest[row.noun] = max(largest.get(row.noun, 0.0), row.judgement.detectable)
    if largest:
        sizes = ", ".join(f"{formats.size(size)} in {noun}" for noun, size in largest.items())
        yield formats.SEEN, f"{_SEEN}: {sizes}"
    judged = of_groups(rows, *MOVED, "slight", "undecided", "unchanged")
    sizes_of = {row.noun: acted_on(row.metric, comparison.method) for row in judged}
    if sizes_of:
        sizes = ", ".join(f"{100 * size:g} % in {noun}" for noun, size in sizes_of.items())
        yield formats.SMALL, f"a change below this fails nothing: {sizes} (--material)"


def _coverage(comparison: Comparison, rows: Sequence[ViewRow]) -> Iterator[str]:
    shown = of_groups(rows, *MOVED, "slight", "unchanged")
    answered = {(row.case, bool(row.metric)) for row in shown}
    judged = answered - {(row.case, bool(row.metric)) for row in of_groups(rows, *OPEN)}
    cases = sum(is_case for _, is_case in judged)
    if comparison.planned or not comparison.micro:
        # A case with a decided metric and an open one is judged in part.
        partly = len(answered - judged)
        more = f", some in {partly}" if partly else ""
        what = "all metrics decided in " if partly else ""
        verb = "" if partly else " judged"
        yield f"{what}{cases} of {comparison.planned} cases{verb}{more}"
    if comparison.micro:
        yield f"{len(judged) - cases} of {len(comparison.micro)} in-process benchmarks judged"
    if comparison.untouched:
        yield f"{comparison.untouched} others cannot have changed"
    if comparison.missing:
        yield f"{len(comparison.missing)} without counterpart"


def _by_reason(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Count names by their reason, and name some of them."""
    names_of: dict[str, dict[str, None]] = {}
    for reason, name in pairs:
        names_of.setdefault(reason, {})[name] = None
    return [
        (f"{len(names)} × {reason}", some(tuple(names), _NAMED))
        for reason, names in names_of.items()
    ]


def _cell(case: CaseComparison, side: SideName) -> str:
    growth = case.growth.get(side)
    if growth is None:
        return formats.MISSING
    source = f"{growth.course} in a soak of" if growth.curve else "in the second halves of"
    return f"{growth.words}; {source} {units.count(growth.requests)} requests"


def _effects(comparison: Comparison) -> Section:
    """List what one request does differently on both sides, and what it does alike."""
    cases = [(case.case, case.effects) for case in comparison.cases if case.effects]
    table: list[Sequence[str]] = []
    lines: list[tuple[str, str]] = []
    for case, found in cases:
        several = [case.id] if cases[1:] else []
        table += [[*several, *row] for row in effects.rows(found)]
        name = case.id if cases[1:] else ""
        if not found.same or not cases[1:]:
            lines.append((name, f"the same on both sides: {effects.same(found)}"))
            lines += [(name, text) for text in effects.doubts(found)]
    if cases[1:] and (alike := sum(found.same for _, found in cases)):
        lines.append(("", f"nothing differs in {alike} of {len(cases)} cases"))
        doubts = Counter(text for _, found in cases if found.same for text in effects.doubts(found))
        lines += [("", f"{text} ({number} of these)") for text, number in doubts.most_common()]
    head = [*(["case"] if cases[1:] else []), *effects.HEAD]
    return Section(effects.TITLE, lines, head, table)


def _counted(comparison: Comparison) -> Section:
    """List instructions per request, the largest change first; unchanged cases may be one line."""
    counted = sorted(
        ((case, pair) for case in comparison.cases if (pair := case.instructions) and pair.ratio),
        key=lambda entry: -abs(math.log(entry[1].ratio or 1.0)),
    )
    same = [case for case, _ in counted if case.count and case.count.verdict is Verdict.NO_CHANGE]
    hidden = same if len(same) > _NAMED else []
    rows = [
        (
            case.case.id,
            formats.change(case.count.interval) if case.count else formats.percent(pair.ratio),
            f"{units.count(pair.base)} → {units.count(pair.head)}",
            *_verdict(case.count),
        )
        for case, pair in counted
        if case not in hidden
    ]
    lines = [("", _BLIND)] if counted else []
    lines += [(d.case, f"{d.words} ({d.ends}): {d.reason}") for d in disagreements(comparison)]
    for case, _ in counted:
        if (request := request_of(case)) and request.moved:
            text = f"the CPU of the whole request: {formats.percent(request.ratio)} at least"
            lines.append((case.case.id, text))
    for case, pair in counted:
        shares = [collector.share for collector in _collectors(pair).values()]
        least = min(pair.base, pair.head)
        if shares and max(*shares, 5 * abs(shares[1] - shares[0])) >= _COLLECTING * least:
            words = "; ".join(f"{name} {text}" for name, text in _collections(pair).items())
            lines.append((case.case.id, f"{_COLLECTED}; {words}"))
    if hidden:
        lines.append(("", f"{len(hidden)} cases without change are not listed"))
    without = (case for case in comparison.cases if case.no_count)
    lines += _by_reason((f"not counted: {case.no_count}", case.case.id) for case in without)
    older = not any(case.count or case.no_count for case in comparison.cases)
    head = ("case", "change", "base → head", *([] if older else ["95 % interval", "verdict"]))
    return Section(COUNTS, lines, head, rows, folded=older)


def _collectors(counts: Instructions) -> dict[SideName, Collector]:
    base, head = counts.collector_base, counts.collector_head
    return {"base": base, "head": head} if base and head else {}


def _collections(counts: Instructions) -> dict[SideName, str]:
    """Say of each side how many full collections there are, and what they cost a request."""
    return {
        side: f"{units.significant(1000 * c.full, 2)} per 1,000 requests, of "
        f"{units.count(c.objects)} objects and {c.instructions / 1e6:.0f} million instructions: "
        f"{100 * c.share / getattr(counts, side):.2f} % of a request"
        for side, c in _collectors(counts).items()
    }


def _verdict(count: Judgement | None) -> tuple[str, ...]:
    if count is None:
        return ()
    return formats.ends(count.interval), formats.verdict(INSTRUCTIONS, count.verdict)


def _flags(comparison: Comparison, rows: Sequence[ViewRow]) -> Iterator[tuple[str, str]]:
    counts = Counter(
        name
        for case in comparison.cases
        for duet in case.duets
        for name in {flag.name: None for flag in (*duet.flags_base, *duet.flags_head)}
    )
    for name, times in counts.most_common():
        yield f"{name} in {formats.quantity(times, sample_of(rows))}", name.meaning
