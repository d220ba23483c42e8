"""The report of a comparison, for every medium: a headline, five rows, why, how sure, what next.

It is the sorted list of findings: the first one leads. All other figures are in its sections.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from duetbench.app import case_names
from duetbench.core import units
from duetbench.core.comparison import (
    FAILURE,
    Attribution,
    Comparison,
    Finding,
    PackageChange,
    SideRecord,
)
from duetbench.core.metrics import INSTRUCTIONS
from duetbench.core.metrics import row as row_of
from duetbench.core.model import KEPT, Verdict
from duetbench.core.text import short, some
from duetbench.judge.findings import UNDECIDED, longer_budget
from duetbench.judge.repetition import rebuilt, why_command
from duetbench.report import findings as words
from duetbench.report import formats

MOST: Final = 5
"""Rows of a report above its sections."""

_NAMED: Final = 3  # metrics, functions or packages that a line names
_VERSIONS: Final = 2  # packages that name a side
_REASON: Final = 120  # characters of a reason

_ALONE: Final = (
    "from launches of each side alone, one right after the other, since two servers at once would "
    "not share cores or load equally"
)
_STARTS: Final = (
    "each side's server alone, one right after the other, to its first right answer; bytecode is "
    "compiled beforehand"
)


@dataclass(frozen=True, slots=True)
class Section:
    """Sentences, each with its subject or none, and below them a table or a command."""

    title: str
    lines: Sequence[tuple[str, str]] = ()
    head: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    command: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """What a reader sees, in this order."""

    headline: str  # one line that says no more than the intervals
    news: bool  # whether something moved
    head: Sequence[str]  # a case if there are several, what was seen, and `words.HEAD`
    rows: Sequence[Sequence[str]]  # the first findings
    more: int  # how many others there are
    causes: Sequence[str]  # what differs: functions that the requests enter, packages
    sure: str  # how it was measured, and what would have been seen
    advice: str  # what to do next, or what the command lacks
    command: str  # finds the functions, or would decide
    sections: Sequence[Section]  # all figures, the method, and how to repeat it

    @property
    def lines(self) -> Iterable[str]:
        """What follows the rows, a sentence a line, without the command."""
        return filter(None, (*self.causes, self.sure, self.advice))


def make_report(comparison: Comparison) -> Report:
    """Arrange a comparison for reading."""
    names = words.titles(comparison)
    rows = [(names[f.case], *words.row(f)) for f in comparison.findings]
    headline, seen = words.headline(comparison, names), words.seen(comparison.findings)
    listed = [*zip(comparison.findings, rows, strict=True)]
    shown = [(finding, row) for finding, row in listed if _is_shown(finding, comparison)]
    first = [row for _, row in shown[:MOST]]
    several = len({finding.case for finding, _ in shown}) > 1
    if several:  # the rows of a case are together
        order = [row[0] for row in first]
        first.sort(key=lambda row: order.index(row[0]))
    advice, command = _next(comparison)
    sections = (
        Section("", [*_facts(comparison, seen)]),
        _other_findings(listed, first, several=len(names) > 1),
        Section("What one request does", words.details(comparison, names)),
        *_circumstances(comparison),
    )
    return Report(
        headline=headline,
        news=any(finding.moved for finding in comparison.findings),
        head=["case", *words.HEAD] if several else words.HEAD,
        rows=first if several else [row[1:] for row in first],
        more=max(0, len(rows) - len(first)),
        causes=[*([code_line(comparison.why)] if comparison.why else []), *_causes(comparison)],
        sure="; ".join(_sure(comparison, seen)),
        advice="; ".join(comparison.to_repeat) if command else advice,
        command="" if comparison.why else command,
        sections=[part for part in sections if part.lines or part.rows or part.command],
    )


def _is_shown(finding: Finding, comparison: Comparison) -> bool:
    """Whether a finding may be among the first rows: what is alike in one request is a sentence."""
    if finding.moved:
        return True
    if finding.exact or (finding.verdict is Verdict.UNKNOWN and finding.interval is None):
        return False
    return comparison.counts_only or finding.subject != INSTRUCTIONS


def check_line(comparison: Comparison, code: int, fail_on: str = "") -> str:
    """Say in Markdown what a check does with an exit code, and why; without `fail_on`, the code.

    `fail_on` is `never` or `slower`.
    """
    worse = next((f for f in comparison.findings if f.verdict is Verdict.WORSE), None)
    why = {
        0: "nothing got worse by a size that fails it",
        UNDECIDED: "nothing is shown to be worse, and something is not known",
    }.get(code, "head does less, other or more than it may")
    if code == 1 and worse and worse.limit:
        why = f"{words.noun(worse)} got worse by {words.limit(worse)} or more"
    elif code == 1 and worse:
        why = words.sentence(worse)
    if not fail_on:
        return f"**Exit code {code}**: {formats.escape(why)}."
    if code == 1 and fail_on == "never":
        return f"**The check passes**, as `fail-on: never` asks, though {formats.escape(why)}."
    return f"**The check {'fails' if code == 1 else 'passes'}**: {formats.escape(why)}."


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
        elif not covered.differ or any(finding.moved for finding in comparison.findings):
            yield words.covers(covered)
    if packages := tuple(dict.fromkeys(map(str, comparison.packages))):
        yield f"{'packages' if len(packages) > 1 else 'package'}: {some(packages, _NAMED)}"


def code_line(code: Attribution) -> str:
    """Name the function that moved most, from an attribution."""
    from duetbench.report.attribution import AttributionText  # noqa: PLC0415 - only those who have one

    text = AttributionText(code)
    if not text.rows:
        return text.cause
    first = text.rows[0]
    state = {"came": "new, ", "went": "gone, ", "both": ""}[first.row.state]
    name, where = (short(text, _REASON) for text in (first.row.name, first.where))
    return f"code: `{name}` {first.effect} ({state}`{where}`)"


def _sure(comparison: Comparison, seen: str) -> Iterator[str]:
    """Say how it was measured, what would have been seen, and what disturbed it."""
    duets = [duet for case in comparison.cases for duet in case.duets]
    if comparison.counts_only:
        only = not any(finding.subject == INSTRUCTIONS for finding in comparison.findings)
        what = "what one request does only, seen" if only else "instructions only, counted"
        yield f"{what} without a server"
        return
    if not comparison.cases:
        return
    turns = bool(duets) and all(duet.alone for duet in duets)
    word, how = ("turn", "each side alone") if turns else ("pair", "both sides at the same time")
    usable = sum(duet.usable for duet in duets)
    name = case_names.of(comparison.cases[0].case)
    where = f" on {name.variant}" if len(comparison.cases) == 1 and name.known else ""
    spent = formats.duration(comparison.wall_seconds)
    yield f"{formats.quantity(usable, word)} ({how}) in {spent}{where}"
    if unused := len(duets) - usable:
        yield f"{unused} more not used: disturbed or failed"
    if any(duet.usable and duet.disturbed for duet in duets):
        yield "other programs took time, so intervals are wider"
    if seen and not any(finding.moved for finding in comparison.findings):
        yield f"{seen} would have been seen"
    yield from words.disagreements(comparison)


def _next(comparison: Comparison) -> tuple[str, str]:
    """Say what to do next, and with which command."""
    moved = [finding for finding in comparison.findings if finding.moved]
    if moved:
        # Counts of a request's instructions may say which code it is.
        measured = (f for f in moved if not f.exact and f.subject not in {KEPT, FAILURE})
        explained = next((f for f in measured if row_of(f.subject).executes), None)
        if explained is None:
            return "", ""
        case = explained.case if comparison.planned > 1 else ""
        return "", why_command(comparison, case) or ""
    if seconds := longer_budget(comparison):
        about = units.write_time(seconds)
        longer = rebuilt(comparison, budget=about) or ""
        return f"about {about} may decide" * (not longer), longer
    lacks = {finding.lack for finding in comparison.findings}
    if "quiet" in lacks:
        flags = sorted({f for case in comparison.cases for d in case.duets for f in d.disturbed})
        flagged = "; ".join(flag.meaning for flag in flags)
        return f"Too few pairs were usable: {flagged}. End that, and compare again.", ""
    if "samples" in lacks:
        return "Any change is too small or too unsteady for this machine; more time won't help.", ""
    return "", ""


# All figures.


def _other_findings(
    listed: Sequence[tuple[Finding, Sequence[str]]],
    first: Sequence[Sequence[str]],
    *,
    several: bool,
) -> Section:
    """Make the table of all other findings, the rows of a case together, each with its reason."""
    places = {finding.case: n for n, (finding, _) in reversed([*enumerate(listed)])}
    table = []
    for finding, row in sorted(listed, key=lambda pair: places[pair[0].case]):
        case, *cells, verdict = row
        lead = finding.verdict.sign if finding.subject == FAILURE else f"{verdict}:"
        reason = verdict if finding.why in verdict else f"{lead} {finding.why}"
        if row not in first or reason != verdict:
            table.append([*([case] if several else []), *cells, reason])
    return Section("Other findings", (), ["case", *words.HEAD] if several else words.HEAD, table)


def _circumstances(comparison: Comparison) -> Iterator[Section]:
    """Say what the sides hold, why these cases were judged, what was unusual, how to repeat it."""
    missing = formats.MISSING
    head = ["stack", "package", "base", "head"]
    packages = [(p.stack, p.package, p.base or missing, p.head or missing)
                for p in comparison.packages]  # fmt: skip
    yield Section("Packages that differ", (), head, packages)
    because = Counter(case.because for case in comparison.cases)
    counted = [(formats.quantity(n, "case"), reason) for reason, n in because.items()]
    yield Section("Why these were judged", counted)
    yield Section("What was unusual", [*_flags(comparison)])
    notes = [("", note) for note in comparison.notes]
    absent = [(missing.case, missing.reason) for missing in comparison.missing]
    yield Section("Notes", [*notes, *absent])
    if comparison.planned or comparison.findings:
        lacks = [("", text) for text in comparison.to_repeat]
        yield Section("Repeat it", lacks, command=rebuilt(comparison) or "")


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


def _facts(comparison: Comparison, seen: str) -> Iterator[tuple[str, str]]:
    sides = (comparison.base, comparison.head)
    yield from zip(("base", "head"), side_texts(*sides, comparison.packages), strict=True)
    if comparison.cross:
        kind = comparison.head.kind.replace("several", "side")
        yield "kind", f"two {kind}s against each other: a choice, not a change"
    pythons = [", ".join(python.text for python in side.interpreters) for side in sides]
    if any(pythons):
        yield "interpreters", " → ".join(versions or "none" for versions in dict.fromkeys(pythons))
    memory = [", ".join(dict.fromkeys(i.memory for i in side.interpreters)) for side in sides]
    if all(memory) and memory[0] != memory[1]:
        yield "allocators", " → ".join(memory)
    if comparison.untouched:
        yield "cases", f"{comparison.planned}; {comparison.untouched} others cannot have changed"
    if apart := dict.fromkeys(words.noun(f) for f in comparison.findings if f.alone):
        yield "by turns", _STARTS if comparison.start else f"{', '.join(apart)}: {_ALONE}"
    if seen:
        yield "would have been seen", f"{seen}, in 4 of 5 comparisons like this one"
    machine = comparison.machine
    virtual = f", virtual ({machine.virtual})" if machine.virtual else ""
    yield "machine", f"{machine.cpu}, {machine.cores} cores{virtual}"


def _flags(comparison: Comparison) -> Iterator[tuple[str, str]]:
    counts = Counter(
        name
        for case in comparison.cases
        for duet in case.duets
        for name in {flag.name: None for flag in (*duet.flags_base, *duet.flags_head)}
    )
    for name, times in counts.most_common():
        yield f"{name} in {formats.quantity(times, 'pair')}", name.meaning
