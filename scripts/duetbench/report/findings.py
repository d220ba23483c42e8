"""Findings in words: what, from how much to how much, and how sure that is. Pure."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from duetbench.app import case_names
from duetbench.core import units
from duetbench.core.comparison import ANSWER, FAILURE, INSTRUCTIONS, Comparison, Coverage, Finding
from duetbench.core.comparison import row as row_of
from duetbench.core.effects import EFFECTS, KEPT, Effects
from duetbench.core.metrics import CPU, Metric
from duetbench.core.model import Case, Verdict
from duetbench.core.text import short, some
from duetbench.core.units import Interval
from duetbench.judge.findings import INSIDE, awaited, longer_budget, of_effects
from duetbench.report import changes

HEAD: Final = ("", "before → after", "change")
"""Columns of a finding, after its case."""

_NAMED: Final = 3  # metrics or functions that a line names

_DETAIL: Final = 40  # characters of what an effect is about
_REASON: Final = 120  # characters of the reason why a side failed


def titles(comparison: Comparison) -> dict[str, str]:
    """Name each case by what is served, and in full if another case serves the same."""
    cases = {case.case.id: case_names.of(case.case) for case in comparison.cases}
    served = Counter(name.what for name in cases.values())
    names = {id_: n.what if served[n.what] == 1 else str(n) for id_, n in cases.items()}
    others = {finding.case for finding in comparison.findings} - names.keys()
    return names | {case: case or "all cases, tested as one," for case in others}


def noun(finding: Finding) -> str:
    """Return what was seen, in words: `CPU per request`, `SQL statements`."""
    return row_of(finding.subject).noun


def figures(finding: Finding) -> str:
    """Write what it was before and after; empty if that is not known."""
    write = row_of(finding.subject).format
    if finding.base is None or finding.head is None:
        return "" if finding.head is None else write(finding.head)
    both = [write(value) for value in (finding.base, finding.head)]
    unit = both[1].rpartition(" ")[2]
    if both[0].endswith(f" {unit}"):
        both[0] = both[0].removesuffix(f" {unit}")  # `126 → 159 µs`
    return " → ".join(both)


def row(finding: Finding) -> tuple[str, str, str]:
    """Write a finding below `HEAD`."""
    test = finding.subject == FAILURE and finding.exact
    label = "the test" if test else row_of(finding.subject).label
    return label, figures(finding), f"{finding.verdict.sign} {_change(finding)}"


def _change(finding: Finding) -> str:
    """Write what a finding says behind its sign, with the 95 % interval of what was measured."""
    verdict = str(finding.verdict)
    if finding.subject == FAILURE:
        return short(finding.why, _REASON) or verdict
    if finding.exact or finding.subject == KEPT:
        both = (finding.base, finding.head)
        counted = finding.moved and None not in both and finding.subject in EFFECTS
        more = (finding.head or 0) - (finding.base or 0)
        size = (units.signed(more, ",.6g") if more else "others:") if counted else ""
        text = finding.text.partition(" × ")[2] or finding.text or finding.why
        detail = "" if text == size else short(text, _DETAIL)
        return f"{size} {finding.place or detail}".strip() or verdict
    if finding.interval is None:
        return verdict
    if finding.verdict is Verdict.SAME:
        below = "below" if excludes_limit(finding) else "probably below"
        return f"{below} {limit(finding)} ({changes.ends(finding.interval)})"
    metric = CPU if finding.subject == INSTRUCTIONS else finding.subject
    change, ends = changes.amount(metric, finding.interval, moved=finding.moved)
    agreeing = f"{finding.agreeing or finding.n} of {finding.n} pairs"
    sure = ", ".join(filter(None, (ends, agreeing * (finding.moved and finding.n > 1))))
    return f"{change} ({sure})" if sure else change


def limit(finding: Finding) -> str:
    """Write the size that somebody acts on."""
    return f"{100 * finding.limit:g} %"


def excludes_limit(finding: Finding) -> bool:
    """Whether the whole interval is within the limit."""
    ends = finding.interval and finding.interval.ends
    if not ends:
        return finding.exact
    return max(abs(math.log(end)) for end in ends) <= math.log1p(finding.limit) + 1e-9


def sentence(finding: Finding) -> str:
    """Say what a request does otherwise: `needs 26 % more CPU per request`."""
    if finding.subject == FAILURE:
        return short(finding.why, _REASON)
    if finding.subject == ANSWER:
        return f"does different work: {finding.text}"
    if finding.subject == KEPT:
        return _keeps(finding)
    if kind := EFFECTS.get(finding.subject):
        return _does(finding, kind)
    ratio = finding.interval or Interval(1.0)
    text = changes.movement(finding.subject, ratio).replace(" times the ", "× the ", 1)
    counted = finding.subject == INSTRUCTIONS and ratio.ends
    return f"{text} ({changes.within(ratio)})" if counted else text


def _does(finding: Finding, kind: Metric) -> str:
    """Say how often a request does something."""
    old, new = finding.base or 0.0, finding.head or 0.0
    if old == new:
        return f"{kind.verb} other {kind.many}: {finding.text} {finding.place}".rstrip()
    return f"{kind.verb} {kind.count(new)} instead of {kind.format(old)}"


def _keeps(finding: Finding) -> str:
    """Say what memory each request keeps."""
    where = f" ({finding.place})" if finding.place else ""
    if finding.verdict is Verdict.DIFFERENT and finding.text:
        return finding.text + where
    head, base = (row_of(KEPT).format(value or 0.0) for value in (finding.head, finding.base))
    before = f", before {base}" if finding.base else ""
    doubt = f", {finding.why}" if finding.why else ""
    return f"keeps {head} for every request{before}{where}{doubt}"


def seen(findings: Iterable[Finding]) -> str:
    """Name the smallest change that would have been seen: `a change of 2 % or more in …`."""
    measured = [finding for finding in findings if finding.detectable is not None and finding.n]
    leading = [finding for finding in measured if finding.subject == CPU] or measured
    if not leading:
        return ""
    size = changes.size(max(finding.detectable or 0.0 for finding in leading))
    least = size if size.startswith("over") else f"{size} or more"
    return f"a change of {least} in {noun(leading[0])}"


def alike(findings: Sequence[Finding]) -> str:
    """Say what both sides do alike: `the same answer (1,204 bytes), 2 SQL statements`."""
    parts = []
    for finding in findings:
        if not (finding.exact and finding.verdict is Verdict.SAME and finding.head):
            continue
        if finding.subject == ANSWER:
            parts.append(f"the same answer ({figures(finding)})")
        elif finding.subject in EFFECTS and finding.subject != "first import":
            parts.append(EFFECTS[finding.subject].count(finding.head))
    return ", ".join(parts)


# The headline: a sign with a word, and a sentence.


def headline(comparison: Comparison, names: Mapping[str, str]) -> str:
    """Write the verdict: what moved, the most important first, or that nothing did."""
    text = "; ".join(_parts(comparison, names)) or f"? {Verdict.UNKNOWN}: nothing was measured"
    return f"Partial: {text}" if comparison.status == "partial" else text


def _parts(comparison: Comparison, names: Mapping[str, str]) -> Iterator[str]:
    if not (comparison.planned or comparison.findings):
        reason = comparison.nothing or "the change cannot have touched any measured case."
        yield f"Nothing to judge: {reason}"
        return
    place = ""
    if comparison.cross:
        place = f"{comparison.head.label} in place of {comparison.base.label}: "
    moved = [finding for finding in comparison.findings if finding.moved]
    title_before = ""
    for verdict in dict.fromkeys(finding.verdict for finding in moved):
        of_verdict = [finding for finding in moved if finding.verdict is verdict]
        title, sentence = names[of_verdict[0].case], _sentence(of_verdict, moved, comparison)
        if verdict is Verdict.DIFFERENT and title_before and comparison.planned == 1:
            continue  # it stands with the first
        most = "most of all " if len({finding.case for finding in of_verdict}) > 1 else ""
        subject = "" if title == title_before else f"{place}{most}{title} "
        sentence += _tests(of_verdict[0], comparison)
        yield f"{verdict.sign} {verdict}{_where(of_verdict, comparison)}: {subject}{sentence}"
        title_before, place = title, ""
    expected, seconds = awaited(comparison), longer_budget(comparison)
    unknown = [finding for finding in expected if finding.verdict is Verdict.UNKNOWN]
    if unknown:
        yield _open(unknown, comparison, names, seconds)
    elif not moved and (comparison.findings or any(case.effects for case in comparison.cases)):
        yield f"= {Verdict.SAME}: {place}{_same(comparison, names)}"


def _sentence(findings: Sequence[Finding], moved: Sequence[Finding], comparison: Comparison) -> str:
    """Say what leads; of a single case, what its requests do otherwise stands beside it."""
    first, text = findings[0], sentence(findings[0])
    others = (f for f in moved if f.exact and f.subject not in {*INSIDE, first.subject})
    beside = next((f for f in others if f.verdict is Verdict.DIFFERENT), None)
    if comparison.planned == 1 and first is moved[0] and beside is not None and text:
        return f"{text} and {sentence(beside)}"
    return text


def _tests(finding: Finding, comparison: Comparison) -> str:
    """Say which tests show what differs: ` (8 tests, most of all test_api.py::test_list)`."""
    seen = (case.effects for case in comparison.cases if case.case.id == finding.case)
    tests = next((effects.tests for effects in seen if effects), ())
    if not tests:
        return ""
    return f" ({f'{len(tests):,} tests, most of all ' * (len(tests) > 1)}{tests[0]})"


def _where(findings: Sequence[Finding], comparison: Comparison) -> str:
    """Count cases: ` in 2 of 34 cases`; empty if there is only one."""
    cases = {finding.case for finding in findings} - {""}
    if comparison.planned <= 1 or not cases:
        return ""
    return f" in {len(cases)} of {comparison.planned} cases"


def _open(
    unknown: Sequence[Finding],
    comparison: Comparison,
    names: Mapping[str, str],
    seconds: float | None,
) -> str:
    """Say what is unknown, why if it is one thing, and that `seconds` may decide it."""
    first, what = unknown[0], some(tuple(dict.fromkeys(map(noun, unknown))), _NAMED)
    if comparison.planned <= 1 and not any(finding.moved for finding in comparison.findings):
        why = first.why or f"{what} {changes.ends(first.interval)}"
        what = f"{names[first.case]}: {short(why, _REASON)}"
    elif comparison.planned > 1 and first.why and len({f.why for f in unknown}) == 1:
        what = short(first.why, _REASON)
    after = f"; about {write_time(seconds)} may decide" if seconds else ""
    return f"? {Verdict.UNKNOWN}{_where(unknown, comparison)}: {what}{after}"


def write_time(seconds: float) -> str:
    """Write a time of a command line, of whole minutes that is at least this long."""
    return f"{math.ceil(seconds / 60)}m"


def _same(comparison: Comparison, names: Mapping[str, str]) -> str:
    """Say what did not change, and by how much it can have at most."""
    measured = awaited(comparison)
    if not measured:
        return f"one request {_nothing(c.effects for c in comparison.cases if c.effects)}"
    cases = {finding.case for finding in measured}
    name = f"{names[measured[0].case]}: " if len(cases) == 1 else ""
    loud = next((finding for finding in measured if not excludes_limit(finding)), None)
    if loud:
        text = f"{sentence(loud)}, probably below {limit(loud)}"
    else:
        first = next((f for f in measured if f.subject == CPU), measured[0])
        text = f"any change of {noun(first)} is below {limit(first)}"
    covered = comparison.coverage
    if covered and covered.differ and not covered.entered:  # no change says nothing about it
        text += f", but {covers(covered)}"
    return name + text


def _nothing(seen: Iterable[Effects]) -> str:
    """Say that requests do nothing otherwise; no more than that if something was not seen."""
    doubtful = any(True for effects in seen for _ in doubts(effects))
    return "shows no difference" if doubtful else "does the same on both sides"


def covers(coverage: Coverage) -> str:
    """Say which functions that differ the requests enter, or that they enter none of them."""
    if not coverage.differ:
        return "no function differs, only code outside of functions"
    if coverage.entered:
        places = [text.partition(", ") for text in coverage.functions]
        names = some([f"{name} ({place})" for name, _, place in places], _NAMED)
        return (
            f"requests call {coverage.entered} of {coverage.differ} functions that differ: {names}"
        )
    proof = ": 'same' proves nothing about them" if coverage.alone else ""
    missed = some(coverage.missed, _NAMED)
    return f"requests call none of the functions that differ ({missed}){proof}"


def details(comparison: Comparison, names: Mapping[str, str]) -> list[tuple[str, str]]:
    """Say what one request does on either side, each line with its case if there are several."""
    several = len(names) > 1
    lines = [
        (names[finding.case] if several else "", line)
        for finding in comparison.findings
        for line in _lines(finding)
    ]
    for case in comparison.cases:
        name = names[case.case.id] if several else ""
        lines += [(name, text) for text in (doubts(case.effects) if case.effects else ())]
    return lines


def _lines(finding: Finding) -> tuple[str, ...]:
    """Say what makes up an effect, and where."""
    if not (finding.exact and finding.text):
        return ()
    return f"{finding.text}   {finding.place}".rstrip(), *finding.details


def announce(case: Case, seen: Effects) -> Iterator[str]:
    """Say before any load what differs, or that nothing does, and what makes it up."""
    findings = of_effects(case, seen)
    moved = [finding for finding in findings if finding.moved]
    summary = sentence(moved[0]) if moved else f"{_nothing([seen])}: {alike(findings)}"
    yield f"{case_names.of(case).what} {summary} (seen in {units.significant(seen.seconds, 2)} s)"
    lines = (line for finding in moved for line in _lines(finding) if line not in summary)
    yield from (f"  {text}" for text in (*lines, *doubts(seen)))


def doubts(seen: Effects) -> Iterator[str]:
    """Say what was not measured, and what is never seen."""
    for kind, spread in seen.unsteady.items():
        yield f"{EFFECTS[kind].noun}: not compared, since they vary within a side ({spread})"
    if seen.unmeasured:
        yield f"memory: not measured, {seen.unmeasured}"
    if seen.unseen:
        yield f"not seen: {', '.join(seen.unseen)}"
