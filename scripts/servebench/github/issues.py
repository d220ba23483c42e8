"""Issues that open, change and close by themselves: one for each thing, and never a second.

An issue is known again by its hidden first line and its author. The line says what servebench did
last, so that what people do counts: an issue that somebody has closed stays closed until there is
news.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from servebench.github import marker, text
from servebench.github.answers import Issue
from servebench.github.repository import Repository
from servebench.text import short

KIND: Final = "issue"
PAUSE: Final = 1.0
"""Between two writes, s, as GitHub asks."""

_TITLE: Final = 200  # characters; GitHub takes 256
Done = Literal["opened", "updated", "closed", "reopened", "unchanged", "left", "nothing"]


@dataclass(frozen=True, slots=True)
class Wanted:
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
class Kept:
    """What became of one wanted issue."""

    key: str
    done: Done
    url: str = ""


def keep(
    repository: Repository, wanted: Sequence[Wanted], author: str, *, most: int, dry: bool = False
) -> list[Kept]:
    """Let the repository's issues be as wanted.

    Args:
        repository: Where.
        wanted: In the order in which they are opened; keys that are not among them are left alone.
        author: The account that writes; issues of others are never touched.
        most: Issues that are opened at once; further ones are `left` for the next time.
        dry: Only say what would be done.

    Raises:
        ServiceError: GitHub refuses. What was done is done, and is not done again.
    """
    there = _by_key(repository, author)
    kept: list[Kept] = []
    for one in wanted:
        opened = sum(found.done == "opened" for found in kept)
        ours = there.get(one.key, [])
        if not ours:
            kept.append(_open(repository, one, author, room=opened < most, dry=dry))
        else:
            kept.append(_change(repository, one, ours[0], dry=dry))
            _close_doubles(repository, ours, dry=dry)
    return kept


def _open(
    repository: Repository, one: Wanted, author: str, *, room: bool, dry: bool
) -> Kept:  # fmt: skip
    if not one.is_open:
        return Kept(one.key, "nothing")
    if not room:
        return Kept(one.key, "left")
    if dry:
        return Kept(one.key, "opened")
    title, body = one.written()
    issue = repository.client.once(
        lambda: next(iter(_by_key(repository, author).get(one.key, ())), None),
        lambda: repository.open_issue(title, body, one.labels),
    )
    repository.client.pause(PAUSE)
    return Kept(one.key, "opened", issue.html_url)


def _change(repository: Repository, one: Wanted, issue: Issue, *, dry: bool) -> Kept:
    title, body = one.written()
    before = marker.values(KIND, issue.body) or {}
    after = marker.values(KIND, body) or {}
    if before == after:
        return Kept(one.key, "unchanged", issue.html_url)
    changes: dict[str, Any] = {"title": title, "body": body}
    done: Done = "updated"
    if before.get("state") != after["state"]:
        changes["state"] = after["state"]
        changes["state_reason"] = "reopened" if one.is_open else "completed"
        done = "reopened" if one.is_open else "closed"
    if not dry:
        repository.edit_issue(issue.number, changes)
        repository.client.pause(PAUSE)
    return Kept(one.key, done, issue.html_url)


def _close_doubles(repository: Repository, ours: Iterable[Issue], *, dry: bool) -> None:
    """Close what a lost answer may have left twice: all but the oldest."""
    for double in list(ours)[1:]:
        if double.state == "open" and not dry:
            repository.edit_issue(double.number, {"state": "closed", "state_reason": "not_planned"})
            repository.client.pause(PAUSE)


def _by_key(repository: Repository, author: str) -> dict[str, list[Issue]]:
    """Our issues, oldest first."""
    found: dict[str, list[Issue]] = {}
    for issue in sorted(repository.issues(author), key=lambda issue: issue.number):
        read = marker.values(KIND, issue.body)
        if read is not None and isinstance(key := read.get("key"), str):
            found.setdefault(key, []).append(issue)
    return found
