"""Issues that open, change and close by themselves, one for each thing.

An issue is known again by its hidden first line and its author. The line says what servebench did
last: an issue that somebody has closed stays closed until there is news.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from servebench.automation.github import client, marker, text
from servebench.automation.github.repository import Issue, Repository
from servebench.core.text import short

KIND: Final = "issue"
PAUSE: Final = 1.0
"""Between two writes, s, as GitHub asks."""

_TITLE: Final = 200  # characters; GitHub takes 256
IssueAction = Literal["opened", "updated", "closed", "reopened", "unchanged", "left", "nothing"]


@dataclass(frozen=True, slots=True)
class IssueDraft:
    """An issue as it should be.

    Attributes:
        key: What it is about: the same thing always has the same one.
        title: Plain text.
        body: Markdown.
        is_open: Whether there is something to look at.
        labels: For an issue that is opened.
    """

    key: str
    title: str
    body: str
    is_open: bool
    labels: tuple[str, ...] = ("servebench",)

    def written(self) -> tuple[str, str]:
        """Title and body, with the hidden first line."""
        title, body = short(self.title, _TITLE), self.body.rstrip()
        digest = hashlib.sha256(f"{title}\n{body}".encode()).hexdigest()[:16]
        state = "open" if self.is_open else "closed"
        line = marker.line(KIND, {"key": self.key, "state": state, "digest": digest})
        return title, text.bounded(f"{line}\n{body}")


@dataclass(frozen=True, slots=True)
class IssueOutcome:
    """What became of one wanted issue."""

    key: str
    done: IssueAction
    url: str = ""


def keep(
    repository: Repository,
    wanted: Sequence[IssueDraft],
    author: str,
    *,
    most: int,
    dry: bool = False,
) -> list[IssueOutcome]:
    """Let the repository's issues be as wanted; raises ServiceError."""
    there = _by_key(repository, author)
    kept: list[IssueOutcome] = []
    for one in wanted:
        ours = there.get(one.key, [])
        if ours:
            kept.append(_change(repository, one, ours[0], dry=dry))
        elif not one.is_open:
            kept.append(IssueOutcome(one.key, "nothing"))
        elif sum(found.done == "opened" for found in kept) >= most:
            kept.append(IssueOutcome(one.key, "left"))
        elif dry:
            kept.append(IssueOutcome(one.key, "opened"))
        else:
            title, body = one.written()
            url = repository.open_issue(title, body, one.labels).html_url
            client.WAIT(PAUSE)
            kept.append(IssueOutcome(one.key, "opened", url))
            ours = _by_key(repository, author).get(one.key, [])
        for double in ours[1:]:  # what a lost answer may have left: all but the oldest
            if double.state == "open" and not dry:
                closed = {"state": "closed", "state_reason": "not_planned"}
                repository.edit_issue(double.number, closed)
                client.WAIT(PAUSE)
    return kept


def _change(repository: Repository, one: IssueDraft, issue: Issue, *, dry: bool) -> IssueOutcome:
    title, body = one.written()
    before = marker.values(KIND, issue.body) or {}
    after = marker.values(KIND, body) or {}
    if before == after:
        return IssueOutcome(one.key, "unchanged", issue.html_url)
    changes: dict[str, Any] = {"title": title, "body": body}
    done: IssueAction = "updated"
    if before.get("state") != after["state"]:
        changes["state"] = after["state"]
        changes["state_reason"] = "reopened" if one.is_open else "completed"
        done = "reopened" if one.is_open else "closed"
    if not dry:
        repository.edit_issue(issue.number, changes)
        client.WAIT(PAUSE)
    return IssueOutcome(one.key, done, issue.html_url)


def _by_key(repository: Repository, author: str) -> dict[str, list[Issue]]:
    """Our issues, oldest first."""
    found: dict[str, list[Issue]] = {}
    for issue in sorted(repository.issues(author), key=lambda issue: issue.number):
        read = marker.values(KIND, issue.body)
        if read is not None and isinstance(key := read.get("key"), str):
            found.setdefault(key, []).append(issue)
    return found
