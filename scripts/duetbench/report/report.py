"""The report of a comparison, for every medium: a headline, five rows, why, how sure, what next.

It is the sorted list of findings: the first one leads. All other figures are in its sections.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from duetbench.app import case_names
from duetbench.core.comparison import FAILURE, INSTRUCTIONS, TESTS, Comparison, Finding, SideRecord
from duetbench.core.comparison import row as row_of
from duetbench.core.effects import KEPT
from duetbench.core.errors import EXIT_CODES
from duetbench.core.model import Verdict
from duetbench.core.text import some
from duetbench.host.console import duration
from duetbench.judge.findings import longer_budget
from duetbench.judge.repetition import rebuilt, why_command
from duetbench.report import findings as words
from duetbench.report import formats
from duetbench.report.attribution import AttributionText
from duetbench.report.formats import WORDY, Section

MOST: Final = 5
"""Rows of a report above its sections."""

_NAMED: Final = 3  # metrics, functions or packages that a line names


@dataclass(frozen=True, slots=True)
class Report:
    """What a reader sees, in this order."""

    headline: str  # one line that says no more than the intervals
    head: Sequence[str]  # a case if there are several, and `words.HEAD`
    rows: Sequence[Sequence[str]]  # the first findings
    findings: Sequence[Finding]  # those of the rows
    more: int  # how many others there are
    lines: Sequence[str]  # what differs, how it was measured, and what to do next
    command: str  # finds the functions, or would decide
    sections: Sequence[Section]  # all figures, the method, and how to repeat it


def make_report(comparison: Comparison) -> Report:
    """Arrange a comparison for reading."""
    names, findings = words.titles(comparison), comparison.findings
    several = len(names) > 1
    head = [*["case"] * several, *words.HEAD]
    rows = [(*[names[f.case]] * several, *words.row(f)) for f in findings]
    places = [n for n, finding in enumerate(findings) if _is_shown(finding, comparison)][:MOST]
    every = [
        (*row, f"{last}: {finding.why}" if finding.why and finding.why not in last else last)
        for finding, (*row, last) in zip(findings, rows, strict=True)
    ]
    seen, (advice, command) = words.seen(findings), _next(comparison)
    advice = "; ".join(comparison.to_repeat) if command else advice
    sections = (
        Section("", [*_facts(comparison, seen)]),
        Section("All findings", (), head, every),
        *_functions(comparison),
        Section("What one request does", words.details(comparison, names)),
        *_circumstances(comparison),
    )
    return Report(
        headline=words.headline(comparison, names),
        head=head,
        rows=[rows[place] for place in places],
        findings=[findings[place] for place in places],
        more=len(rows) - len(places),
        lines=[*filter(None, (*_causes(comparison), "; ".join(_sure(comparison, seen)), advice))],
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


def check_line(code: int) -> str:
    """Say in Markdown with which exit code a comparison ends, and what that means."""
    return f"**Exit code {code}**: {EXIT_CODES[str(code)]}."


# What did it, how sure it is, and what to do.


def _causes(comparison: Comparison) -> Iterator[str]:
    """Say which code it is, and what differs: functions that requests enter, and packages."""
    if comparison.why:
        yield AttributionText(comparison.why).cause
    moved, covered = any(f.moved for f in comparison.findings), comparison.coverage
    if covered and (moved or covered.entered or not covered.differ):
        yield words.covers(covered)
    if packages := tuple(dict.fromkeys(map(str, comparison.packages))):
        yield f"{'packages' if len(packages) > 1 else 'package'}: {some(packages, _NAMED)}"


def _sure(comparison: Comparison, seen: str) -> Iterator[str]:
    """Say how it was measured, what would have been seen, and what disturbed it."""
    duets = [duet for case in comparison.cases for duet in case.duets]
    if comparison.counts_only:
        if any(case.case.server == TESTS for case in comparison.cases):
            yield comparison.notes[-1]
            return
        only = not any(finding.subject == INSTRUCTIONS for finding in comparison.findings)
        what = "what one request does only, seen" if only else "instructions only, counted"
        yield f"{what} without a server"
        return
    if not comparison.cases:
        return
    alone = bool(duets) and all(duet.alone for duet in duets)
    how = "each side alone, by turns" if alone else "both sides at the same time"
    usable = sum(duet.usable for duet in duets)
    name = case_names.of(comparison.cases[0].case)
    where = f" on {name.variant}" if len(comparison.cases) == 1 and name.known else ""
    spent = duration(comparison.wall_seconds)
    yield f"{formats.quantity(usable, 'pair')} ({how}) in {spent}{where}"
    if unused := len(duets) - usable:
        yield f"{unused} more not used: disturbed or failed"
    if any(duet.usable and duet.disturbed for duet in duets):
        yield "other programs took time, so intervals are wider"
    if seen and not any(finding.moved for finding in comparison.findings):
        yield f"{seen} would have been seen"


def _next(comparison: Comparison) -> tuple[str, str]:
    """Say what to do next, and with which command."""
    moved = [finding for finding in comparison.findings if finding.moved]
    if moved:
        # Counts of a request's instructions may say which code it is.
        measured = (f for f in moved if not f.exact and f.subject not in {KEPT, FAILURE})
        explained = any(row_of(finding.subject).executes for finding in measured)
        return "", (explained and why_command(comparison)) or ""
    if seconds := longer_budget(comparison):
        about = words.write_time(seconds)
        longer = rebuilt(comparison, budget=about) or ""
        return f"about {about} may decide" * (not longer), longer
    if any(finding.lack == "samples" for finding in comparison.findings):
        return "Any change is too small or too unsteady for this machine; more time won't help.", ""
    return "", ""


# All figures.


def _functions(comparison: Comparison) -> Sequence[Section]:
    """Show the functions behind the clearest change, if they were asked for."""
    return [AttributionText(comparison.why).section] if comparison.why else []


def _circumstances(comparison: Comparison) -> Iterator[Section]:
    """Say what the sides hold, what was unusual, and how to repeat it."""
    missing = formats.MISSING
    head = ["stack", "package", "base", "head"]
    packages = [(p.stack, p.package, p.base or missing, p.head or missing)
                for p in comparison.packages]  # fmt: skip
    yield Section("Packages that differ", (), head, packages)
    yield Section("What was unusual", [*_flags(comparison)])
    notes = [("", note) for note in comparison.notes]
    absent = [(missing.case, missing.reason) for missing in comparison.missing]
    yield Section("Notes", [*notes, *absent])
    if comparison.planned or comparison.findings:
        lacks = [("", text) for text in comparison.to_repeat]
        yield Section("Repeat it", lacks, command=rebuilt(comparison) or "")


def side_text(side: SideRecord) -> str:
    """Name a side for readers, with its commit."""
    commit = side.commit[:12] if side.commit and side.commit[:8] not in side.label else ""
    dirty = " with uncommitted changes" if side.dirty else ""
    return f"{side.label}{f' ({commit})' if commit else ''}{dirty}"


def _facts(comparison: Comparison, seen: str) -> Iterator[tuple[str, str]]:
    sides = (comparison.base, comparison.head)
    yield from zip(("base", "head"), map(side_text, sides), strict=True)
    pythons = [", ".join(python.text for python in side.interpreters) for side in sides]
    if any(pythons):
        yield "interpreters", " → ".join(versions or "none" for versions in dict.fromkeys(pythons))
    if comparison.untouched:
        yield "cases", f"{comparison.planned}; {comparison.untouched} others cannot have changed"
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


# The media. On a terminal all text is made a `Text`: rich reads a plain string as markup.


GLOSSARY: Final = Text("\nwhat the words mean: duetbench explain WORD", style="dim")
_STYLES: Final = {
    Verdict.WORSE.sign: "bold dark_orange",
    Verdict.BETTER.sign: "bold dodger_blue1",
    Verdict.DIFFERENT.sign: "bold",
}


def style_of(text: str) -> str:
    """Return the terminal's style of a text that begins with a verdict's sign."""
    return _STYLES.get(text[:1], "")


def print_rows(console: Console, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows in aligned columns; only the first of rows with the same first cell prints it.

    Words wrap, and figures never do.
    """
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("", width=0)  # the indent
    for name in head:
        wordy = name in WORDY or name == head[-1]
        table.add_column(
            Text(name), justify="left" if wordy else "right", no_wrap=not wordy, overflow="fold"
        )
    above = ""
    for row in rows:
        cells = [Text(cell, style=style_of(cell)) for cell in row]
        table.add_row("", "" if row[0] == above and len(row) > 1 else cells[0], *cells[1:])
        above = row[0]
    console.print(table)


def print_section(console: Console, section: Section) -> None:
    """Print a section of a report."""
    if section.title:
        console.print(Text(section.title, style="bold underline"))
    for name, line in section.lines:
        print_line(console, f"{name}: {line}" if name else line)
    if section.rows:
        print_rows(console, section.head, section.rows)
    if section.command:
        console.print(Text(f"  {section.command}"), soft_wrap=True)


def print_line(console: Console, line: str) -> None:
    """Print a sentence, on a terminal broken between words."""
    wraps = console.is_terminal
    text = Padding(Text(line), (0, 0, 0, 2), expand=False) if wraps else Text(f"  {line}")
    console.print(text, soft_wrap=not wraps)


def print_comparison(console: Console, comparison: Comparison, *, details: bool = True) -> None:
    """Print the report, with the functions behind it; with details, all its sections."""
    report = make_report(comparison)
    console.print(Text(report.headline, style=f"bold {style_of(report.headline)}"))
    if report.rows:
        console.print()
        print_rows(console, report.head, report.rows)
    console.print()
    for line in report.lines:
        print_line(console, line)
    if report.command:
        console.print(Text(f"  next: {report.command}"), soft_wrap=True)
    for section in report.sections if details else _functions(comparison):
        console.print()
        print_section(console, section)
    if details:
        console.print(GLOSSARY)


def as_markdown(comparison: Comparison, *, lead: Sequence[str] = ()) -> str:
    """Write a comparison as Markdown: what people need fits a dozen lines, the rest is folded.

    `lead` are paragraphs above the table.
    """
    report = make_report(comparison)
    more = f" ({report.more} more)" if report.more else ""
    parts = (
        f"### {formats.escape(report.headline)}",
        *lead,
        formats.markdown(formats.Section("", (), report.head, report.rows)),
        *map(formats.escape, report.lines),
        f"<details><summary>All figures{more} · method · repeat it</summary>",
        *map(formats.markdown, report.sections),
        "</details>",
    )
    return "\n\n".join(filter(None, parts)) + "\n"
