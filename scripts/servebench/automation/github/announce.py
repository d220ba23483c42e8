"""Confirmed changes as issues: what moved, since when, because of what, and how sure it is. Pure.

The record is the truth; an issue says what it says, and closes when the record is closed. Nobody
has to remember what was announced: the issues themselves tell (`issues.keep`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC
from typing import Final

from servebench.automation.github.issues import IssueDraft
from servebench.automation.github.text import plain
from servebench.record.change import ChangeRecord, SeriesName
from servebench.record.comparison import Verdict
from servebench.report.change import commands, told
from servebench.report.change import title as measured
from servebench.report.formats import MISSING
from servebench.report.markdown import grid
from servebench.site.pages import addresses

MOST: Final = 10
"""Issues that one night opens at most. More at once have one cause, which is not in a package."""

_ROWS: Final = 40
_SLOWER: Final = ("servebench", "slower")
_FASTER: Final = ("servebench", "faster")


def wanted(records: Iterable[ChangeRecord], site: str) -> list[IssueDraft]:
    """One issue per change, the newest change first."""
    newest = sorted(records, key=lambda record: (record.when, record.id), reverse=True)
    return [
        IssueDraft(
            key=f"change/{record.id}",
            title=title(record),
            body=body(record, site),
            is_open=record.status == "open",
            labels=_SLOWER if record.verdict is Verdict.SLOWER else _FASTER,
        )
        for record in newest
    ]


def title(record: ChangeRecord) -> str:
    """`granian 2.7.8 → 2.8.7: CPU/request of asgi-wsgi/… slower by +2.13 % (and 3 more)`."""
    said = told(record)
    moved = f"{said.title} of {record.series.case} {said.word} by {said.change}"
    more = f" (and {len(record.others)} more)" if record.others else ""
    return f"{said.cause or 'Unknown cause'}: {moved}{more}"


def body(record: ChangeRecord, site: str) -> str:
    """The issue's text, in Markdown; everything in it is of the record."""
    said = told(record)
    facts = [
        ("change", f"{said.change} ({said.interval}, 95 % interval): {said.word}"),
        ("since", f"{record.when.astimezone(UTC):%Y-%m-%d %H:%M} UTC"),
        ("runs", f"{record.before_run or MISSING} → {record.after_run or MISSING}"),
        ("machine", record.series.machine),
        ("caused by", said.cause or "not known yet; this issue will say when it is"),
        ("found", record.method),
    ]
    facts += [("note", record.note)] if record.note else []
    parts = [
        f"**{plain(said.title)}** of **{plain(record.series.case)}** moved for good.",
        "\n".join(f"- **{name}**: {plain(value)}" for name, value in facts),
        f"[The evidence]({site}{addresses.change(record.id)}) · [all]({site}{addresses.CHANGES})",
    ]
    if record.packages:
        rows = [
            (change.stack, change.package, change.base or MISSING, change.head or MISSING)
            for change in record.packages
        ]
        parts.append(_folded("Packages that differ", ("stack", "package", "before", "after"), rows))
    for name, many in (
        ("Moved with it", record.others),
        ("Stepped at the same time, not played: not known to have moved", record.unplayed),
    ):
        if many:
            rows = [_name(series) for series in many]
            parts.append(_folded(name, ("machine", "case", "metric", ""), rows))
    again = commands(record, None, None)
    if again:
        # Indented, not fenced: no text can close an indented block.
        parts.append("To see for yourself:")
        parts.append("\n".join(f"    {' '.join(command.split())}" for _, command in again))
    parts.append(
        "<sub>This issue changes and closes by itself. Closed by hand it stays closed until there "
        "is news.</sub>"
    )
    return "\n\n".join(parts)


def _folded(
    name: str, head: Sequence[str], rows: Sequence[tuple[str, str, str, str]]
) -> str:  # fmt: skip
    shown = grid(head, ["---"] * len(head), [])
    lines = [f"| {' | '.join(plain(cell) for cell in row)} |" for row in rows[:_ROWS]]
    more = f"\n\n… and {len(rows) - _ROWS} more" if len(rows) > _ROWS else ""
    table = "\n".join([shown, *lines])
    return f"<details><summary>{name}: {len(rows)}</summary>\n\n{table}{more}\n\n</details>"


def _name(series: SeriesName) -> tuple[str, str, str, str]:
    return series.machine, series.case, measured(series.metric), ""
