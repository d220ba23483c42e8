"""Issues that open, change and close by themselves, one for each thing.

An issue is known again by its hidden first line and its author. The line says what duetbench did
last: an issue that somebody has closed stays closed until there is news. Of a confirmed change the
record is the truth: its issue says what the record says, and closes when the record is closed.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Final, Literal

from duetbench.core.text import short
from duetbench.github import api, text
from duetbench.github.api import GitHub, Issue
from duetbench.show import attribution
from duetbench.show.change import commands, describe
from duetbench.show.change import title as metric_title
from duetbench.show.formats import MISSING
from duetbench.show.markdown import grid
from duetbench.show.site.pages import addresses
from duetbench.store.attribution import Attribution
from duetbench.store.change import ChangeRecord
from duetbench.store.comparison import Verdict

KIND: Final = "issue"
PAUSE: Final = 1.0
"""Between two writes, s, as GitHub asks."""

_TITLE: Final = 200  # characters; GitHub takes 256
IssueAction = Literal["opened", "updated", "closed", "reopened", "unchanged", "left", "nothing"]


@dataclass(frozen=True, slots=True)
class IssueDraft:
    """An issue as it should be."""

    key: str  # what it is about: the same thing always has the same one
    title: str
    body: str  # markdown
    is_open: bool  # whether there is something to look at
    labels: tuple[str, ...] = ("duetbench",)  # for an issue that is opened

    def render(self) -> tuple[str, str]:
        """Title and body, with the hidden first line."""
        title, body = short(self.title, _TITLE), self.body.rstrip()
        digest = hashlib.sha256(f"{title}\n{body}".encode()).hexdigest()[:16]
        state = "open" if self.is_open else "closed"
        line = text.marker(KIND, {"key": self.key, "state": state, "digest": digest})
        return title, text.bounded(f"{line}\n{body}")


@dataclass(frozen=True, slots=True)
class IssueOutcome:
    """What became of one wanted issue."""

    key: str
    action: IssueAction
    url: str = ""


def keep(
    github: GitHub, wanted: Sequence[IssueDraft], *, most: int, dry: bool = False
) -> list[IssueOutcome]:
    """Let the repository's issues be as wanted; raises ServiceError."""
    there = _by_key(github)
    kept: list[IssueOutcome] = []
    for one in wanted:
        ours = there.get(one.key, [])
        if ours:
            kept.append(_change(github, one, ours[0], dry=dry))
        elif not one.is_open:
            kept.append(IssueOutcome(one.key, "nothing"))
        elif sum(outcome.action == "opened" for outcome in kept) >= most:
            kept.append(IssueOutcome(one.key, "left"))
        elif dry:
            kept.append(IssueOutcome(one.key, "opened"))
        else:
            title, body = one.render()
            url = github.open_issue(title, body, one.labels).html_url
            api.WAIT(PAUSE)
            kept.append(IssueOutcome(one.key, "opened", url))
            ours = _by_key(github).get(one.key, [])
        for double in ours[1:]:  # what a lost answer may have left: all but the oldest
            if double.state == "open" and not dry:
                _edit(github, double, state="closed", state_reason="not_planned")
    return kept


def _change(github: GitHub, one: IssueDraft, issue: Issue, *, dry: bool) -> IssueOutcome:
    title, body = one.render()
    before = text.marker_values(KIND, issue.body) or {}
    after = text.marker_values(KIND, body) or {}
    if before == after:
        return IssueOutcome(one.key, "unchanged", issue.html_url)
    changes = {"title": title, "body": body}
    action: IssueAction = "updated"
    if before.get("state") != after["state"]:
        changes["state"] = "open" if one.is_open else "closed"
        changes["state_reason"] = "reopened" if one.is_open else "completed"
        action = "reopened" if one.is_open else "closed"
    if not dry:
        _edit(github, issue, **changes)
    return IssueOutcome(one.key, action, issue.html_url)


def _edit(github: GitHub, issue: Issue, **changes: str) -> None:
    github.edit_issue(issue.number, **changes)
    api.WAIT(PAUSE)


def _by_key(github: GitHub) -> dict[str, list[Issue]]:
    """Our issues, oldest first."""
    found: dict[str, list[Issue]] = {}
    for issue in github.issues():
        values = text.marker_values(KIND, issue.body)
        if values is not None and isinstance(key := values.get("key"), str):
            found.setdefault(key, []).append(issue)
    return found


_ROWS: Final = 40
_SLOWER: Final = ("duetbench", "slower")
_FASTER: Final = ("duetbench", "faster")


def of_changes(
    records: Iterable[ChangeRecord], site: str, explained: Iterable[Attribution] = ()
) -> list[IssueDraft]:
    """One issue per change, the newest change first; `explained`: which code changes are."""
    why = {one.change: one for one in sorted(explained, key=lambda one: (one.when, one.id))}
    newest = sorted(records, key=lambda record: (record.when, record.id), reverse=True)
    return [
        IssueDraft(
            key=f"change/{record.id}",
            title=change_title(record),
            body=change_body(record, site, why.get(record.id)),
            is_open=record.status == "open",
            labels=_SLOWER if record.verdict is Verdict.SLOWER else _FASTER,
        )
        for record in newest
    ]


def change_title(record: ChangeRecord) -> str:
    """`granian 2.8.7: FastAPI's JSON needs 2.1 % more memory (1.6…2.6 %), and 3 more`."""
    said = describe(record)
    more = f", and {len(record.others)} more" if record.others else ""
    return f"{said.releases or 'Unknown cause'}: {said.sentence}{more}"


def change_body(record: ChangeRecord, site: str, why: Attribution | None = None) -> str:
    """The issue's text, in Markdown; everything in it is of the record."""
    said = describe(record)
    facts = [
        ("change", f"{said.change} ({said.interval}, 95 % interval): {said.word}"),
        *([("what", str(said.name))] if said.name.known else []),
        ("case", record.series.case),
        ("metric", said.title),
        ("since", f"{record.when.astimezone(UTC):%Y-%m-%d %H:%M} UTC"),
        ("runs", f"{record.before_run or MISSING} → {record.after_run or MISSING}"),
        ("machine", record.series.machine),
        ("caused by", said.cause or "not known yet; this issue will say when it is"),
        ("found", record.method),
    ]
    facts += [("note", record.note)] if record.note else []
    links = [("The evidence", addresses.change(record.id)), ("all", addresses.CHANGES)]
    if record.evidence:
        links.insert(1, ("duet by duet", addresses.comparison(record.evidence)))
    parts = [
        f"**{text.plain(said.sentence)}**, for good.",
        "\n".join(f"- **{name}**: {text.plain(value)}" for name, value in facts),
        " · ".join(f"[{name}]({site}{address})" for name, address in links),
    ]
    if why is not None:
        parts.append(text.report(attribution.brief(why)))
        parts.append(f"[All rows and the flame graph]({site}{addresses.attribution(why.id)})")
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
            rows = [(one.machine, one.case, metric_title(one.metric), "") for one in many]
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
    lines = [f"| {' | '.join(text.plain(cell) for cell in row)} |" for row in rows[:_ROWS]]
    more = f"\n\n… and {len(rows) - _ROWS} more" if len(rows) > _ROWS else ""
    table = "\n".join([grid(head, ["---"] * len(head), []), *lines])
    return f"<details><summary>{name}: {len(rows)}</summary>\n\n{table}{more}\n\n</details>"
