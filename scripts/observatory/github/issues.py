"""Issues: one for each confirmed change, with its record's text; it closes with the record.

The hidden first line of an issue (`comments.marker`) records duetbench's last action. So an issue
that somebody has closed stays closed until there is news.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Any, Final

from duetbench.ci import api
from duetbench.ci.actions import BOT
from duetbench.ci.api import GitHub
from duetbench.ci.comments import cut, is_ours, marker, marker_values, plain
from duetbench.core.metrics import row
from duetbench.core.text import short, some
from duetbench.report import formats
from observatory.show import addresses
from observatory.show.quoting import cause, finding_of
from observatory.store.change import Change
from observatory.trend.quotes import Key, Quote, quote_of

PAUSE: Final = 1.0
"""Seconds between two writes of issues, as GitHub asks."""

MOST: Final = 10
"""Most issues opened at once: more have one common cause, probably not a package."""

_ISSUE: Final = "issue"
_TITLE: Final = 200  # characters of an issue's; GitHub takes 256
_NAMED: Final = 8  # packages and series that a sentence names


@dataclass(frozen=True, slots=True)
class IssueDraft:
    """The required state of an issue."""

    key: str  # its subject, always the same for one subject
    title: str
    body: str  # markdown
    is_open: bool  # whether there is something to look at
    labels: tuple[str, ...] = ("duetbench",)  # for a new issue

    def render(self) -> tuple[str, str]:
        """Title and body, with the hidden first line."""
        heading, body = short(self.title, _TITLE), self.body.rstrip()
        digest = hashlib.sha256(f"{heading}\n{body}".encode()).hexdigest()[:16]
        state = "open" if self.is_open else "closed"
        line = marker(_ISSUE, {"key": self.key, "state": state, "digest": digest})
        return heading, cut(f"{line}\n{body}")


def keep(github: GitHub, drafts: Sequence[IssueDraft]) -> tuple[list[str], int]:
    """Bring the repository's issues to the drafts' state; return a sentence on each change.

    Also returns how many issues the next call has to open. Raises ServiceError.
    """
    issues, sentences, opened, left = _by_key(github), [], 0, 0
    for draft in drafts:
        existing, action = issues.get(draft.key, []), ""
        if existing:
            action = _change(github, draft, existing[0])
        elif draft.is_open and opened < MOST:
            action, opened = "opened", opened + 1
            title, body = draft.render()
            new = github.send("POST", "/issues", title=title, body=body, labels=draft.labels)
            existing = [new]
            api.WAIT(PAUSE)
            existing = _by_key(github).get(draft.key, []) or existing
        elif draft.is_open:
            left += 1
        if action:
            subject = draft.key.partition("/")[2]
            sentences.append(f"{subject}: {action} {existing[0]['html_url']}")
        for double in existing[1:]:  # a lost answer may have left several: the oldest stays
            if double["state"] == "open":
                _edit(github, double, state="closed", state_reason="not_planned")
    return sentences, left


def _change(github: GitHub, draft: IssueDraft, issue: Mapping[str, Any]) -> str:
    """Bring an issue up to date; return the action taken, or an empty text."""
    heading, body = draft.render()
    before = marker_values(_ISSUE, issue["body"]) or {}
    after = marker_values(_ISSUE, body) or {}
    if before == after:
        return ""
    changes = {"title": heading, "body": body}
    action = "updated"
    if before.get("state") != after["state"]:
        changes["state"] = "open" if draft.is_open else "closed"
        changes["state_reason"] = "reopened" if draft.is_open else "completed"
        action = "opened again" if draft.is_open else "closed"
    _edit(github, issue, **changes)
    return action


def _edit(github: GitHub, issue: Mapping[str, Any], **changes: Any) -> None:
    github.send("PATCH", f"/issues/{issue['number']}", **changes)
    api.WAIT(PAUSE)


def _by_key(github: GitHub) -> dict[str, list[dict[str, Any]]]:
    """Return the bot's issues by their key, open and closed, oldest first."""
    by_key: dict[str, list[dict[str, Any]]] = {}
    listed = github.get_all("/issues", state="all", creator=BOT)
    for issue in sorted(listed, key=lambda issue: issue["number"]):
        values = marker_values(_ISSUE, issue["body"])
        # Pull requests are listed among them.
        if values is not None and is_ours(issue) and "pull_request" not in issue:
            by_key.setdefault(values["key"], []).append(issue)
    return by_key


def of_changes(
    records: Iterable[Change],
    site: str,
    quotes: Mapping[Key, Quote] | None = None,
) -> list[IssueDraft]:
    """Draft one issue per change, the newest change first.

    `quotes`: The size of each release, which the title has.
    """
    quotes = quotes or {}
    newest = sorted(records, key=lambda record: (record.when, record.id), reverse=True)
    return [
        IssueDraft(
            key=f"change/{record.id}",
            title=change_title(record, quotes),
            body=change_body(record, site, quotes),
            is_open=record.status == "open",
            labels=("duetbench", str(record.verdict)),
        )
        for record in newest
    ]


def change_title(record: Change, quotes: Mapping[Key, Quote]) -> str:
    """`granian 2.8.7 needs 2.1 % more memory (1.6…2.6 %) for a JSON response, and 3 more`."""
    more = f", and {len(record.others)} more" if record.others else ""
    causes = ", ".join(map(str, record.releases)) or "Unknown cause"
    cause = "" if quote_of(record, quotes) else f"{causes}: "
    return f"{cause}{finding_of(record, quotes)}{more}"


def change_body(
    record: Change,
    site: str,
    quotes: Mapping[Key, Quote] | None = None,
) -> str:
    """Return the issue's text, in Markdown: the finding, its facts, and where the rest is."""
    change, ends = formats.change(record.interval), formats.ends(record.interval)
    packages = [f"{package} ({package.stack})" for package in record.packages]
    others = [f"{series.case} {row(series.metric).title}" for series in record.others]
    facts = {
        "seen as": f"{change} ({ends}, 95 % interval): {record.verdict}",
        "case": record.series.case,
        "metric": row(record.series.metric).title,
        "since": f"{record.when.astimezone(UTC):%Y-%m-%d %H:%M} UTC",
        "machine": record.series.machine,
        "caused by": cause(record) or "not known yet; this issue will name it",
        "packages that differ": some(packages, _NAMED),
        "moved with it": some(others, _NAMED),
        "note": record.remarks,
    }
    links = {
        "The evidence": addresses.change(record.id),
        "duet by duet": addresses.comparison(record.evidence) if record.evidence else "",
        "all": addresses.PACKAGES,
    }
    closing = (
        "<sub>This issue changes and closes by itself. If you close it, it stays closed until "
        "there is news.</sub>"
    )
    parts = [
        f"**{plain(finding_of(record, quotes or {}))}**, for good.",
        "\n".join(f"- **{name}**: {plain(fact)}" for name, fact in facts.items() if fact),
        " · ".join(f"[{name}]({site}{address})" for name, address in links.items() if address),
        closing,
    ]
    return "\n\n".join(parts)
