"""Issues: one for each confirmed change, with its record's text; it closes with the record.

The hidden first line of an issue (`comments.marker`) records duetbench's last action. So an issue
that somebody has closed stays closed until there is news.
"""

import hashlib
from collections.abc import Iterable, Mapping
from datetime import UTC
from types import MappingProxyType
from typing import Any, Final

from duetbench.ci import api
from duetbench.ci.actions import BOT
from duetbench.ci.api import GitHub
from duetbench.ci.comments import cut, is_ours, marker, marker_values, plain
from duetbench.core.metrics import row
from duetbench.core.text import short
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


def keep(
    github: GitHub, records: Iterable[Change], site: str, quotes: Mapping[Key, Quote]
) -> tuple[list[str], int]:
    """Bring the repository's issues to the state of confirmed changes, the newest change first.

    `quotes`: the size of each release. Returns a sentence on each change of an issue, and how many
    issues the next call has to open. Raises ServiceError.
    """
    issues, sentences, opened, left = _by_key(github), [], 0, 0
    for record in sorted(records, key=lambda record: (record.when, record.id), reverse=True):
        title, body = text(record, site, quotes)
        issue, action = issues.get(_key(record)), ""
        if issue is not None:
            action = _change(github, title, body, issue)
        elif record.status == "open" and opened < MOST:
            action, opened = "opened", opened + 1
            labels = ("duetbench", str(record.verdict))
            issue = github.send("POST", "/issues", title=title, body=body, labels=labels)
            api.WAIT(PAUSE)
        else:
            left += record.status == "open"
        if issue is not None and action:
            sentences.append(f"{record.id}: {action} {issue['html_url']}")
    return sentences, left


def _key(record: Change) -> str:
    return f"change/{record.id}"


def text(
    record: Change, site: str, quotes: Mapping[Key, Quote] = MappingProxyType({})
) -> tuple[str, str]:
    """Return the title and body of a change's issue, with the hidden first line."""
    heading, body = short(_title(record, quotes), _TITLE), _body(record, site, quotes)
    digest = hashlib.sha256(f"{heading}\n{body}".encode()).hexdigest()[:16]
    state = "open" if record.status == "open" else "closed"
    line = marker(_ISSUE, {"key": _key(record), "state": state, "digest": digest})
    return heading, cut(f"{line}\n{body}")


def _change(github: GitHub, title: str, body: str, issue: Mapping[str, Any]) -> str:
    """Bring an issue up to date; return the action taken, or an empty text."""
    before, after = (marker_values(_ISSUE, one) or {} for one in (issue["body"], body))
    if before == after:
        return ""
    changes, action = {"title": title, "body": body}, "updated"
    if before.get("state") != (state := after["state"]):
        changes["state"] = state
        changes["state_reason"] = "reopened" if state == "open" else "completed"
        action = "opened again" if state == "open" else "closed"
    _edit(github, issue, **changes)
    return action


def _edit(github: GitHub, issue: Mapping[str, Any], **changes: Any) -> None:
    github.send("PATCH", f"/issues/{issue['number']}", **changes)
    api.WAIT(PAUSE)


def _by_key(github: GitHub) -> dict[str, dict[str, Any]]:
    """Return the bot's issues by their key; close doubles, which a lost answer may have left."""
    by_key: dict[str, dict[str, Any]] = {}
    listed = github.get_all("/issues", state="all", creator=BOT)
    for issue in sorted(listed, key=lambda issue: issue["number"]):
        values = marker_values(_ISSUE, issue["body"])
        if values is None or not is_ours(issue) or "pull_request" in issue:
            continue  # pull requests are listed, too
        if by_key.setdefault(values["key"], issue) is not issue and issue["state"] == "open":
            _edit(github, issue, state="closed", state_reason="not_planned")
    return by_key


def _title(record: Change, quotes: Mapping[Key, Quote]) -> str:
    """`granian 2.8.7 needs 2.1 % more memory (1.6…2.6 %) for a JSON response, and 3 more`."""
    more = f", and {len(record.others)} more" if record.others else ""
    causes = ", ".join(map(str, record.releases)) or "Unknown cause"
    cause = "" if quote_of(record, quotes) else f"{causes}: "
    return f"{cause}{finding_of(record, quotes)}{more}"


def _body(record: Change, site: str, quotes: Mapping[Key, Quote]) -> str:
    """Return the issue's text, in Markdown: the finding, its facts, and where the rest is."""
    change, ends = formats.change(record.interval), formats.ends(record.interval)
    facts = {
        "seen as": f"{change} ({ends}, 95 % interval) {row(record.series.metric).title}",
        "case": record.series.case,
        "since": f"{record.when.astimezone(UTC):%Y-%m-%d %H:%M} UTC",
        "machine": record.series.machine,
        "caused by": cause(record) or "not known yet; this issue will name it",
        "note": record.remarks,
    }
    links = [f"[The evidence]({site}{addresses.change(record.id)})"]
    if record.evidence:
        links.append(f"[duet by duet]({site}{addresses.comparison(record.evidence)})")
    parts = [
        f"**{plain(finding_of(record, quotes))}**, for good.",
        "\n".join(f"- **{name}**: {plain(fact)}" for name, fact in facts.items() if fact),
        " · ".join(links),
        "<sub>It changes and closes by itself. If you close it, it opens only with news.</sub>",
    ]
    return "\n\n".join(parts)
