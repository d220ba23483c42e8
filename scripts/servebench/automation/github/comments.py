"""The comment on a pull request: one, ours, always about the newest request.

It is found again by its hidden first line *and* by its author, since anybody can write the line.
Runs of a repository are numbered in the order in which they start: what an overtaken one still has
to say is dropped.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Final, Literal, cast, get_args

from servebench.automation.github import text, wording
from servebench.automation.github.repository import Comment, Repository
from servebench.core.errors import ServiceError

KIND: Final = "comparison"
ANSWER: Final = "answer"
_BRIEF: Final = 4_000  # characters that GitHub takes for certain
_INVALID: Final = 422

Stage = Literal["queued", "running", "final", "failed"]
CommentAction = Literal["created", "updated", "unchanged", "superseded", "nothing"]


@dataclass(frozen=True, slots=True)
class Note:
    """What our comment says about itself."""

    head: str  # the commit that it is about, 40 hex digits
    run: int  # the workflow run that wrote it
    attempt: int  # of that run, from 1
    stage: Stage
    outdated: bool = False  # whether the head has moved since

    def line(self) -> str:
        """Its hidden first line."""
        return text.marker(KIND, {**asdict(self), "outdated": int(self.outdated)})


@dataclass(frozen=True, slots=True)
class CommentOutcome:
    """What became of a comment."""

    outcome: CommentAction  # `superseded`: a newer run has spoken; `nothing`: there is no comment
    url: str = ""
    note: Note | None = None


def read_note(body: str | None) -> Note | None:
    """What a comment says about itself; None: it is not of this kind."""
    found = text.marker_values(KIND, body) or {}
    head, run, attempt, stage = (found.get(key) for key in ("head", "run", "attempt", "stage"))
    if not isinstance(head, str) or not isinstance(run, int) or not isinstance(attempt, int):
        return None
    if stage not in get_args(Stage):
        return None
    return Note(head, run, attempt, cast(Stage, stage), bool(found.get("outdated")))


def publish(
    repository: Repository, pull: int, note: Note, said: str, author: str
) -> CommentOutcome:
    """Write the comment, in place of what it said before; raises ServiceError."""
    mine = _only(repository, pull, KIND, author)
    before = read_note(mine.body) if mine is not None else None
    if mine is not None and before is not None:
        if (before.run, before.attempt) > (note.run, note.attempt):
            return CommentOutcome("superseded", mine.html_url, before)
        # A step that only adds that something failed has nothing to say after result or reason.
        told = before.stage in {"final", "failed"} and note.stage == "failed"
        if told and replace(before, stage="failed", outdated=note.outdated) == note:
            return CommentOutcome("unchanged", mine.html_url, before)
    now = repository.pull(pull).head.sha
    if now != note.head:
        note, said = replace(note, outdated=True), wording.outdated(note.head, now) + said
    body = text.bounded(f"{note.line()}\n{said.rstrip()}")
    try:
        outcome, url = _put(repository, pull, mine, KIND, body, author)
    except ServiceError as error:
        brief = text.bounded(body, _BRIEF)
        if error.status != _INVALID or brief == body:
            raise
        # GitHub does not take the text. The news is at its top, and must not be lost with the rest.
        outcome, url = _put(repository, pull, mine, KIND, brief, author)
    return CommentOutcome(outcome, url, note)


def mark_outdated(repository: Repository, pull: int, author: str) -> CommentOutcome:
    """Put a banner above our comment if it is about a commit that is not the head any more."""
    mine = _only(repository, pull, KIND, author)
    note = read_note(mine.body) if mine is not None else None
    if mine is None or note is None:
        return CommentOutcome("nothing")
    now = repository.pull(pull).head.sha
    if now == note.head or note.outdated:
        return CommentOutcome("unchanged", mine.html_url, note)
    note = replace(note, outdated=True)
    said = wording.outdated(note.head, now) + text.without_marker(mine.body)
    body = text.bounded(f"{note.line()}\n{said.rstrip()}")
    return CommentOutcome("updated", repository.edit_comment(mine.id, body).html_url, note)


def answer(repository: Repository, pull: int, said: str | None, author: str) -> None:
    """Answer a request that was not granted; None: it was, and an old answer goes."""
    old = _only(repository, pull, ANSWER, author)
    if said is not None:
        body = f"{text.marker(ANSWER, {})}\n{said.rstrip()}"
        _put(repository, pull, old, ANSWER, body, author)
    elif old is not None:
        repository.delete_comment(old.id)


def _put(
    repository: Repository, pull: int, mine: Comment | None, kind: str, body: str, author: str
) -> tuple[CommentAction, str]:
    if mine is None:
        made = repository.add_comment(pull, body)
        _only(repository, pull, kind, author)  # the first answer may have been lost
        return "created", made.html_url
    if mine.body == body:
        return "unchanged", mine.html_url
    return "updated", repository.edit_comment(mine.id, body).html_url


def _only(repository: Repository, pull: int, kind: str, author: str) -> Comment | None:
    """Our comment of a kind; should there be several, the oldest stays and the others go."""
    ours = [
        one
        for one in repository.comments(pull)
        if one.is_by(author) and text.marker_values(kind, one.body) is not None
    ]
    for double in ours[1:]:
        repository.delete_comment(double.id)
    return ours[0] if ours else None
