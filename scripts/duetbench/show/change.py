"""The causes of a change in words: releases, commits, and the code behind it."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from rich.console import Console
from rich.text import Text

from duetbench.core import units
from duetbench.core.metrics import INSTRUCTIONS
from duetbench.core.text import short, some
from duetbench.core.units import Interval
from duetbench.project import case_names
from duetbench.show import findings, formats
from duetbench.store.attribution import APPLICATION, PYTHON, Attribution, Row
from duetbench.store.change import Cause, Share
from duetbench.store.comparison import Finding

_SUSPECTS: Final = 20  # named


def cause_lines(cause: Cause) -> tuple[str, ...]:
    """Describe the result of a search among packages, one sentence per line."""
    lines = [share_effect(share) for share in cause.shares]
    if cause.whole:
        lines.append(f"all packages that moved, together: {_change(cause.whole)}")
    if cause.rest:
        lines.append(f"all others together: {_change(cause.rest)}")
    return (*lines, *_suspects(cause))


def commit_lines(cause: Cause, good: str, bad: str, options: Sequence[str] = ()) -> tuple[str, ...]:
    """Describe the result of a search among commits; `options` are the search's own."""
    if not (cause.shares or cause.whole):
        return (f"between {good} and {bad} nothing was detected that a commit could have done",)
    lines = [*(line for share in cause.shares for line in _commits(share)), *_suspects(cause)]
    if cause.shares:
        commits, words = cause.shares[0].commits, shlex.join(options)
        last = commits[-1].id[:10]
        if len(commits) == 1 and commits[0].merge:
            again = f"duetbench bisect {last}^1 {last}^2 {words}".rstrip()
            lines.append(f"it merges a branch; its commits: {again}")
        lines.append(f"next: duetbench why {last}~1 {last} {words}".rstrip())
    return tuple(lines)


def _suspects(cause: Cause) -> Iterator[str]:
    if cause.reason:
        subject = "the rest of the cause is" if cause.shares else "the cause is"
        yield f"{subject} among {some(cause.suspects, _SUSPECTS)}: {cause.reason}"


def _commits(share: Share) -> Iterator[str]:
    """Name commits, with what they changed, and why they were not told apart."""
    changes = ", ".join(
        _change(finding)
        if finding.exact
        else f"{formats.change(finding.ratio or 1.0)} {formats.title(finding.subject)}"
        for finding in share.findings
    )
    what = f"{share.findings[0].case}: {changes}"
    if len(share.commits) == 1:
        yield f"{share.commits[0].name}: {what}"
    else:
        yield f"one of {len(share.commits)} commits: {what}"
        yield from (f"  {commit.name}" for commit in share.commits)
    for commit, reason in zip(share.commits, share.skipped, strict=False):
        yield f"skipped: {commit.id[:10]}: {reason}"


def share_effect(share: Share) -> str:
    """Describe the effect of releases that moved together."""
    return f"{share.names}: {', '.join(map(_change, share.findings))} alone"


def _change(finding: Finding) -> str:
    """Describe what changed; of duets, how much."""
    if finding.exact:
        return findings.effect_change(finding.subject, finding.base or 0.0, finding.head or 0.0)
    size = formats.change(finding.interval or Interval(1.0))
    if finding.subject == INSTRUCTIONS:
        return f"{size} {formats.title(finding.subject)}"
    return f"{size} ({formats.ends(finding.interval)}, {finding.n} duets)"


_FIRST: Final = 3
"""Rows shown in narrow places."""

_LONGEST: Final = 150  # characters of a cell in issues and comments
_HEAD: Final = ("of a request", "entries", "function", "where", "package", "called by")
_ALIGN: Final = ("---:", "---:", "---", "---", "---", "---")


class RowText(NamedTuple):
    """A row in words: `+8.0 %` of the instructions of a request of the base."""

    moved: str
    entries: str
    function: str
    where: str
    package: str
    caller: str
    row: Row

    @property
    def effect(self) -> str:
        """What it does to a request: `adds 8.0 % of a request`."""
        part = f"{self.moved.lstrip('+−')} of a request"
        if self.row.state == "both":
            return f"itself does {part} {'more' if self.row.head > self.row.base else 'less'}"
        return f"{'adds' if self.row.state == 'came' else 'saves'} {part}"


@dataclass(frozen=True, slots=True)
class AttributionText:
    """An attribution in words that claim no more than its counts show."""

    record: Attribution

    @property
    def headline(self) -> str:
        record, totals, spread = self.record, self.record.totals, self.record.spread
        name = record.asked or case_names.name(record.case).what
        ratio = totals.head / totals.base
        if abs(ratio - 1) <= spread:
            repeat = formats.size(spread)
            return f"{name}: instructions per request did not move (counts repeat within {repeat})."
        scatter = Interval(ratio, ratio * (1 - spread), ratio * (1 + spread))
        return (
            f"{name} executes {formats.change(scatter).lstrip('+−')} "
            f"{'more' if ratio > 1 else 'fewer'} instructions per request "
            f"({formats.within(scatter)}, as far as counts repeat): "
            f"{units.count(totals.base)} → {units.count(totals.head)}."
        )

    @property
    def cause(self) -> str:
        """The function that moved most, or none."""
        if not (rows := self.rows):
            least = formats.size(self.record.threshold)
            return f"No function is named: none moved by {least} of a request or more."
        first = rows[0]
        return f"{first.function} {first.effect}: {first.where}, {first.package}."

    @property
    def scatter(self) -> str:
        """How precise the figures of rows are."""
        least = formats.size(self.record.threshold)
        return (
            f"Equal sides differed by up to {least} of a request: rows are no more precise than "
            "that."
        )

    @property
    def rows(self) -> tuple[RowText, ...]:
        return tuple(map(self._row, self.record.rows))

    def _row(self, row: Row) -> RowText:
        function = row.function
        return RowText(
            self._part(row),
            " → ".join(map(_entries, row.entries)) if row.entries else "",
            function.name + {"came": " (new)", "went": " (gone)", "both": ""}[row.state],
            f"{function.file}:{function.line}" if function.line else function.file,
            self._package(function.package),
            row.caller or "",
            row,
        )

    def _part(self, figures: Row) -> str:
        """Return a change as a signed share of a request of the base: `+8.0 %`."""
        change = 100 * (figures.head - figures.base) / self.record.counted.base
        return f"{'+' if change > 0 else '−'}{units.significant(abs(change), 2)} %"

    def _package(self, package: str) -> str:
        if package == PYTHON:
            return f"Python {self.record.python}"
        moves = (str(move) for move in self.record.packages if move.package == package)
        return package if package == APPLICATION else next(moves, package)


def _entries(figure: float) -> str:
    return units.count(figure) if figure == round(figure) else units.significant(figure)


def brief(text: AttributionText, more: str = "") -> str:
    """Write an attribution's sentences and first rows as Markdown for issues and comments."""
    sentences = f"{text.headline} {text.cause} {more}".rstrip()
    parts = [f"**Which code it is**: {formats.escape(short(sentences, _LONGEST * len(_HEAD)))}"]
    if rows := text.rows[:_FIRST]:
        cells = ([short(str(cell), _LONGEST) for cell in row[: len(_HEAD)]] for row in rows)
        parts.append(formats.grid(_HEAD, _ALIGN, cells))
        parts.append(f"{text.scatter} It explains, and is never a verdict.")
    return "\n\n".join(parts)


def print_attribution(console: Console, record: Attribution) -> None:
    """Print an attribution: a line per row."""
    text = AttributionText(record)
    console.print(Text(text.headline, style="bold"), soft_wrap=True)
    took = f"{record.case}, Python {record.python}, in {formats.duration(record.seconds)}"
    console.print(Text(f"  {took}\n  {text.cause}"), soft_wrap=True)
    if rows := text.rows:
        cells = [
            (
                "",
                *row[:2],
                f"{row.function}  {row.where} ({row.package}), called by {row.caller or '—'}",
            )
            for row in rows
        ]
        console.print()
        formats.print_rows(console, ("", *_HEAD[:3]), cells)
        console.print(Text(f"  {text.scatter}", style="dim"), soft_wrap=True)
