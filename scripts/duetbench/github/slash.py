"""`/bench <commit>` in a comment on a pull request: who may ask, for what, and what then happens.

Other people's code will run on our machine, so somebody with write permission has to name the very
commit that they have looked at. The name of a branch would do for whatever is pushed next.
"""

import re
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from duetbench.core.errors import ServiceError
from duetbench.github import comments
from duetbench.github.actions import Context
from duetbench.github.comments import Note
from duetbench.github.repository import Comment, Payload, Pull, Repository, Sha, User, read

WORKFLOW: Final = "bench.yml"
"""The workflow that compares; it is started on the default branch, never on a pull request's."""

ENVIRONMENT: Final = "bench"
"""In which a comparison waits for its approval."""

_COMMAND: Final = re.compile(r"/bench(?:[ \t]+(?P<words>.*))?")
_SHA: Final = re.compile(r"[0-9a-f]{40}")
_LOGIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_RUN_NAME: Final = re.compile(r"Bench #(?P<pull>\d{1,9}) at (?P<head>[0-9a-f]{40})")
_MAY_ASK: Final = frozenset({"admin", "write"})


class _Thread(Payload):
    number: int
    pull_request: dict[str, Any] | None = None


class _Home(Payload):
    default_branch: str


class CommentEvent(Payload):
    """What GitHub tells about a comment."""

    action: str
    comment: Comment
    issue: _Thread
    repository: _Home
    sender: User


@dataclass(frozen=True, slots=True)
class Decision:
    """What became of a comment."""

    # `ignored`: nothing was asked; `refused`: asked, and not granted.
    outcome: Literal["ignored", "refused", "dispatched"]
    reason: str  # why, in a sentence; nothing in it is from the comment
    pull: int | None = None  # number of the pull request, where it is about one
    head: Sha | None = None
    base: Sha | None = None


def run_name(pull: int, head: Sha) -> str:
    """The name of a comparison's run, as `run-name` in the workflow makes it."""
    return f"Bench #{pull} at {head}"


def read_run_name(title: str) -> tuple[int, Sha] | None:
    """Pull request and commit of a run; None: it is not one of ours."""
    found = _RUN_NAME.fullmatch(title)
    return (int(found["pull"]), found["head"]) if found else None


def asked_for(body: str | None) -> str | None:
    """What follows `/bench` at the start of a comment's first line; None: it is no command."""
    lines = (body or "").splitlines()
    found = _COMMAND.fullmatch(lines[0].rstrip()) if lines else None
    return (found["words"] or "").strip() if found else None


def handle(
    repository: Repository, event: dict[str, Any], context: Context, author: str
) -> Decision:
    """Decide about a comment, and do what follows from it; raises ServiceError."""
    given = read(CommentEvent, event, "the event")
    number, words = given.issue.number, asked_for(given.comment.body)
    why = _not_for_us(given)
    if why is not None or words is None:
        return Decision("ignored", why or "the comment does not begin with /bench")
    login = given.sender.login
    if repository.permission(login) not in _MAY_ASK:
        # No answer: whoever comments could let us write as much as they like.
        repository.react(given.comment.id, "-1")
        return Decision("refused", "only people with write permission may ask", number)
    pull = repository.pull(number)
    reason = _objection(words, pull) or unguarded(repository)
    if reason is not None:
        repository.react(given.comment.id, "confused")
        head = pull.head.sha if pull.state == "open" else None
        comments.answer(repository, number, comments.refused(reason, head), author)
        return Decision("refused", reason, number)
    head, url = pull.head.sha, context.run_url
    base = repository.merge_base(pull.base.ref, head)
    if base == head:
        reason = "The commit is in the base branch already: there is nothing to compare."
        comments.answer(repository, number, comments.refused(reason, None), author)
        return Decision("refused", reason, number)
    comments.answer(repository, number, None, author)
    note = Note(head, context.run_id, context.attempt, "queued")
    comments.publish(repository, number, note, comments.queued(head, url), author)
    try:
        for older in repository.runs(WORKFLOW, event="workflow_dispatch"):
            named = read_run_name(older.display_title)
            if named is not None and named[0] == number and older.status != "completed":
                repository.cancel(older.id)
        inputs = {"pr": str(number), "head": head, "base": base}
        repository.dispatch(WORKFLOW, given.repository.default_branch, inputs)
    except ServiceError:
        said = comments.failed(head, url, "it could not be started")
        comments.publish(repository, number, replace(note, stage="failed"), said, author)
        raise
    repository.react(given.comment.id, "rocket")
    return Decision("dispatched", "the comparison was started", number, head, base)


def _not_for_us(given: CommentEvent) -> str | None:
    """Why a comment is no request, whatever it says; None: it may be one."""
    if given.action != "created":
        # Who edits a comment need not be who wrote it; only what was said at first counts.
        return "the comment was not created just now, but changed"
    if given.issue.pull_request is None:
        return "the comment is not on a pull request"
    user = given.comment.user
    if user is None or user.type != "User" or not _LOGIN.fullmatch(user.login):
        return "no person wrote the comment"
    if given.sender.login != user.login:
        return "the comment is not by the person who sent it"
    return None


def _objection(words: str, pull: Pull) -> str | None:
    """Why a person who may ask does not get it; None: it is granted."""
    if not _SHA.fullmatch(words):
        return "What was asked for is not a full commit: 40 hexadecimal digits in lower case."
    if pull.state != "open":
        return "The pull request is not open."
    if words != pull.head.sha:
        return (
            f"`{words[: comments.SHOWN]}` is not the head of this pull request; commits may have "
            "been added since it was looked at. Look at them, and name the last one."
        )
    return None


def unguarded(repository: Repository) -> str | None:
    """Why no comparison may start in a repository that asks nobody to approve it; None: it asks."""
    if repository.has_reviewers(ENVIRONMENT):
        return None
    return (
        f"The environment `{ENVIRONMENT}` has no required reviewers, so that nobody would approve "
        f"the comparison: name some in the repository's settings (Environments, `{ENVIRONMENT}`)."
    )
