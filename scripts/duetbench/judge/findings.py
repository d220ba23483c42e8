"""What is known of two sides without a rule, as findings: the most important first. Pure.

Two instruments speak here: `effects` of what one request does, exactly, and `counts` of the
instructions that it executes; `rule` adds what duets measure. Where several of them see the same,
such as memory that requests keep, whichever saw more decides, and one finding says so.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from duetbench.core import units
from duetbench.core.comparison import (
    ANSWER,
    FAILURE,
    INSTRUCTIONS,
    RESOLUTION,
    Comparison,
    Finding,
    Instructions,
)
from duetbench.core.effects import KEPT, TELLING, EffectKind, Effects, RequestEffect
from duetbench.core.metrics import CPU, HEADLINES, METRICS
from duetbench.core.model import Case, Verdict
from duetbench.core.text import short

LONGEST: Final = 76
"""Characters of a statement in a table."""
_COLUMNS: Final = re.compile(r"(?i)(select (?:distinct )?)(?!.*\bselect\b).{13,}?( from )")

LEAST_SECONDS: Final = 60.0  # of a proposed budget
UNDECIDED: Final = 3
"""Exit code: something was not judged or not decided; see `errors.EXIT_CODES`."""

INSIDE: Final[frozenset[str]] = frozenset({"library exception", "function"})
"""Kinds that explain what was measured, rather than say what a request does."""

_SHOWN: Final = 3  # details of one kind
_ORDER: Final = (Verdict.UNKNOWN, Verdict.SAME)  # after what moved


def within_limit(finding: Finding) -> Finding:
    """Call a change that is smaller than its limit the same, as nobody acts on it."""
    small = finding.moved and finding.weight < 1
    return finding.model_copy(update={"verdict": Verdict.SAME}) if small else finding


def of_instructions(case: str, counts: Instructions, limit: float) -> Finding:
    """Judge the instructions of a request by themselves; `limit` is that of CPU."""
    ratio, half = counts.head / counts.base, counts.error
    size, why = abs(math.log(ratio)), ""
    if size > math.log1p(METRICS[CPU].floor) + math.log1p(half):
        verdict = Verdict.WORSE if ratio > 1 else Verdict.BETTER
    elif half <= RESOLUTION or size + math.log1p(half) <= math.log1p(METRICS[CPU].limit):
        verdict = Verdict.SAME
    else:
        verdict = Verdict.UNKNOWN
        why = f"its rounds differ by {counts.spread:.1%}: each round does something else"
    return within_limit(
        Finding(
            case=case,
            subject=INSTRUCTIONS,
            verdict=verdict,
            base=counts.base,
            head=counts.head,
            ratio=ratio,
            low=ratio / (1 + half),
            high=ratio * (1 + half),
            limit=limit,
            detectable=METRICS[CPU].floor + half,
            n=1,
            why=why,
        )
    )


# What one request does.


def of_effects(case: Case, effects: Effects) -> tuple[Finding, ...]:
    """Judge what one request does, and what it keeps."""
    return sort(_of_request(case.id, effects))


def _of_request(case: str, effects: Effects) -> Iterator[Finding]:
    for kind in (*effects.totals, *effects.unsteady):
        yield _of_kind(case, effects, kind)
    memories = {"base": effects.kept_base, "head": effects.kept_head}
    update = _of_memory(effects)
    if update or any(memory and memory.course == "constant" for memory in memories.values()):
        fields = {"case": case, "subject": KEPT, "verdict": Verdict.SAME, **update}
        fields["exact"] = not any(memory and memory.loaded for memory in memories.values())
        for side, memory in memories.items():
            if memory is not None:
                fields[side] = memory.bytes if memory.course == "constant" else 0.0
                fields["place"] = memory.place or fields.get("place", "")
        yield Finding.model_validate(fields)
    for answer in effects.answers:
        yield Finding(
            case=case,
            subject=ANSWER,
            verdict=Verdict.WORSE if answer.broken else Verdict.DIFFERENT,
            exact=True,
            text=f"{answer.path}: {answer.what}" if answer.path else answer.what,
        )
    if not effects.answers:
        yield Finding(
            case=case, subject=ANSWER, verdict=Verdict.SAME, exact=True, head=effects.length
        )


def _of_kind(case: str, effects: Effects, kind: EffectKind) -> Finding:
    finding = Finding(case=case, subject=kind, verdict=Verdict.SAME, exact=True)
    if kind in effects.unsteady:
        why = f"varies within a side: {effects.unsteady[kind]}"
        return finding.model_copy(update={"verdict": Verdict.UNKNOWN, "why": why})
    base, head = effects.totals[kind]
    effects_of_kind = [effect for effect in effects.differ if effect.kind == kind]
    update: dict[str, Any] = {} if kind == "plan" else {"base": base, "head": head}
    if effects_of_kind:
        update |= {"verdict": Verdict.DIFFERENT, **_details(effects_of_kind)}
    return finding.model_copy(update=update)


def _details(effects: Sequence[RequestEffect]) -> dict[str, Any]:
    """Describe what makes up a difference: the first in full, the others as lines."""
    texts = shorten_alike([effect.text for effect in effects], sql=effects[0].kind == "sql")
    lines = []
    for effect, text in zip(effects, texts, strict=True):
        size = units.signed(effect.head - effect.base, "g")
        counted = effect.kind not in {"function", "plan"}
        lines.append(" × ".join(filter(None, (size * counted, text))))
    others = [
        f"{line}   {effect.place}".rstrip() for line, effect in zip(lines, effects, strict=True)
    ]
    more = [f"and {len(effects) - _SHOWN} more"] if effects[_SHOWN:] else []
    details = (*others[1:_SHOWN], *more)
    return {"text": lines[0], "place": effects[0].place, "details": details}


def _of_memory(effects: Effects) -> dict[str, Any]:
    """Judge the memory that requests keep; empty if that is nothing new."""
    base, head = effects.kept_base, effects.kept_head
    if (base is None) != (head is None):
        leaks = any(memory and memory.course == "constant" for memory in (base, head))
        why = "there was no time to measure the other side"
        return {"verdict": Verdict.UNKNOWN, "why": why} if leaks else {}
    if effects.leaks and head:
        if head.loaded:
            return {"verdict": Verdict.WORSE}
        why = f"seen in the first {head.requests:,} requests, not in a load"
        return {"verdict": Verdict.DIFFERENT, "why": why}
    if effects.repairs:
        return {"verdict": Verdict.BETTER}
    fills = head and head.course == "fills" and head.place and not (base and base.course == "fills")
    return {"verdict": Verdict.DIFFERENT, "text": "fills a cache"} if fills else {}


# What is more important.


def sort(findings: Sequence[Finding] | Iterator[Finding]) -> tuple[Finding, ...]:
    """Sort findings: what people feel first, the largest change first; then unknown, then same."""
    findings = tuple(findings)
    cpus = {finding.case: finding for finding in findings if finding.subject == CPU}
    return tuple(sorted(findings, key=lambda finding: _place(finding, cpus.get(finding.case))))


def clearest(comparison: Comparison, wanted: Callable[[Finding], bool]) -> Finding | None:
    """Find what moved most surely of what is wanted, by the near end of its interval.

    Of counts alone that is also a change which nobody acts on.
    """

    def least(finding: Finding) -> float:
        return min(abs(math.log(end or 1.0)) for end in (finding.low, finding.high))

    def moved(finding: Finding) -> bool:
        counted = comparison.counts_only and finding.subject == INSTRUCTIONS
        surely = finding.interval is not None and finding.interval.excludes(1.0)
        return surely and (finding.moved or counted)

    findings = (f for f in comparison.findings if f.case and moved(f) and wanted(f))
    return max(findings, key=least, default=None)


def _place(finding: Finding, cpu: Finding | None) -> tuple[float, ...]:
    state = 0 if finding.moved else 1 + _ORDER.index(finding.verdict)
    weight = finding.weight
    if finding.subject == "throughput" and cpu is not None and _follows(finding, cpu):
        weight = min(weight, cpu.weight * (1 - 1e-9))
    judged = HEADLINES.index(finding.subject) if finding.subject in HEADLINES else 0
    size = -weight if finding.moved else judged
    return state, _tier(finding), size, bool(finding.case)


def _follows(throughput: Finding, cpu: Finding) -> bool:
    """Whether a throughput moved by no more than the CPU that each request needs explains."""
    if throughput.verdict is not cpu.verdict or not cpu.moved:
        return False
    ends = [finding.interval and finding.interval.ends for finding in (throughput, cpu)]
    served, needed = ([abs(math.log(end)) for end in pair or (0.0, 0.0)] for pair in ends)
    return min(served) <= max(needed)


def _tier(finding: Finding) -> float:
    """Say how much people feel a finding: 0 the most."""
    subject = finding.subject
    own = {
        FAILURE: 0,
        # What is answered alike is said last.
        ANSWER: 1 if finding.moved else 7,
        KEPT: 2 if finding.verdict is Verdict.WORSE else 5,
        INSTRUCTIONS: 5 if finding.verdict is Verdict.DIFFERENT else 2,
        **dict.fromkeys(INSIDE - {"function"}, 7),
    }
    places = {str(kind): place for place, kind in enumerate(TELLING)}
    place = 2 if subject in METRICS else 3 + places.get(subject, len(TELLING)) / (1 + len(TELLING))
    return own.get(subject, place)


# What a check does with it.


def awaited(comparison: Comparison) -> list[Finding]:
    """List the findings whose answer the comparison was to give."""
    counts = comparison.counts_only
    return [
        finding
        for finding in comparison.findings
        if not finding.exact and (counts or finding.subject != INSTRUCTIONS)
    ]


def longer_budget(comparison: Comparison) -> float | None:
    """Propose a budget for what lacks time, s; None if nothing does."""
    if all(finding.lack != "time" for finding in comparison.findings):
        return None
    return max(LEAST_SECONDS, 2 * comparison.wall_seconds, 2 * (comparison.budget_seconds or 0.0))


def exit_code(
    comparison: Comparison,
    *,
    effects: bool = False,
    answers: bool = False,
    statements: float | None = None,
) -> int:
    """Return the exit code of a comparison: 0, 1 or 3 of `errors.EXIT_CODES`.

    1: something is worse; with `answers`, any other answer is, and with `statements`, that many
    more SQL statements than base sends. A choice of two interpreters or settings is worse only if
    head fails. 3: something was not judged; with `effects`, what a request does was not seen.
    """
    findings, partial = comparison.findings, comparison.status == "partial"
    wrong = any(finding.verdict is Verdict.WORSE and finding.exact for finding in findings)
    other = any(finding.moved for finding in findings if finding.subject == ANSWER)
    more, unseen = _statements(comparison, statements)
    if wrong or more or (answers and other):
        return 1
    if effects:
        nothing = not (comparison.planned or comparison.untouched)
        unseen = unseen or nothing or any(case.effects is None for case in comparison.cases)
        return UNDECIDED if unseen or partial else 0
    # Of a choice only what is broken is worse.
    worse = (finding for finding in findings if finding.verdict is Verdict.WORSE)
    if any(not comparison.cross or finding.subject in {FAILURE, KEPT} for finding in worse):
        return 1
    decisive = awaited(comparison)
    expected = comparison.planned or findings or comparison.untouched
    # Cases of one side only do not show that nothing changed.
    apart = bool(comparison.missing) and not expected
    judged = {finding.case for finding in decisive}
    lost = comparison.planned > len(judged - {""})
    unknown = any(finding.verdict is Verdict.UNKNOWN for finding in decisive)
    return UNDECIDED if unknown or lost or apart or unseen or partial else 0


def _statements(comparison: Comparison, allowed: float | None) -> tuple[bool, bool]:
    """Say whether head sends more SQL statements than base and those, or some were not seen."""
    if allowed is None:
        return False, False
    effects = [case.effects for case in comparison.cases if case.effects]
    sent = [(seen.figure("sql", 0), seen.figure("sql", 1)) for seen in effects]
    known = [(base, head) for base, head in sent if base is not None and head is not None]
    unseen = any(text.startswith("statements of ") for seen in effects for text in seen.unseen)
    more = any(head > base + allowed for base, head in known)
    return more, unseen or len(known) < len(comparison.cases)


def shorten_alike(texts: Sequence[str], *, sql: bool = False) -> list[str]:
    """Shorten texts to `LONGEST` characters, so that each still differs from the others.

    Of a SQL statement, the columns are left out first.
    """

    def brief(text: str) -> str:
        return short(_COLUMNS.sub(r"\1…\2", text, count=1) if sql else text, LONGEST)

    def shorten(text: str, others: Sequence[str]) -> str:
        alike = [other for other in others if brief(other) == brief(text)]
        if not alike:
            return brief(text)
        if all(short(other, LONGEST) != short(text, LONGEST) for other in alike):
            return short(text, LONGEST)
        letters = enumerate(zip(text, *alike, strict=False))
        shared = next((at for at, some in letters if len({*some}) > 1), len(text))
        return short(f"… {text[text.rfind(' ', 0, shared) + 1 :]}", LONGEST)

    return [shorten(text, [other for other in texts if other != text]) for text in texts]
