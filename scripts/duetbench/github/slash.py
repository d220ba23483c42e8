"""`/bench <commit>` in a comment on a pull request: who may ask, for what, and what then happens.

Other people's code will run on our machine, so somebody with write permission has to name the very
commit that they have looked at. The name of a branch would do for whatever is pushed next.
"""

import re
from dataclasses import dataclass
from typing import Any, Final, Literal

from duetbench.core.errors import ServiceError
from duetbench.github import comment
from duetbench.github.actions import Context
from duetbench.github.api import GitHub, Payload, Pull, Sha, nested, read

WORKFLOW: Final = "bench.yml"
"""The workflow that compares; it is started on the default branch, never on a pull request's.

Asking again ends the older run, by its `concurrency`."""

ENVIRONMENT: Final = "bench"
"""In which a comparison waits for its approval."""

_COMMAND: Final = re.compile(r"/bench(?:[ \t]+(?P<words>.*))?")
_SHA: Final = re.compile(r"[0-9a-f]{40}")
_LOGIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_MAY_ASK: Final = frozenset({"admin", "write"})
_UNGUARDED: Final = (
    f"The environment `{ENVIRONMENT}` has no required reviewers, so that nobody would approve the "
    f"comparison: name some in the repository's settings (Environments, `{ENVIRONMENT}`)."
)


class CommentEvent(Payload):
    """What GitHub tells about a comment."""

    action: str
    comment: int = nested("comment", "id")
    body: str | None = nested("comment", "body", default=None)
    author: str = nested("comment", "user", "login", default="")
    author_type: str = nested("comment", "user", "type", default="User")
    sender: str = nested("sender", "login")
    number: int = nested("issue", "number")
    pull_request: dict[str, Any] | None = nested("issue", "pull_request", default=None)
    default_branch: str = nested("repository", "default_branch")


@dataclass(frozen=True, slots=True)
class Decision:
    """What became of a comment."""

    # `ignored`: nothing was asked; `refused`: asked, and not granted.
    outcome: Literal["ignored", "refused", "dispatched"]
    reason: str  # why, in a sentence; nothing in it is from the comment
    pull: int | None = None  # number of the pull request, where it is about one
    head: Sha | None = None
    base: Sha | None = None


def command(body: str | None) -> str | None:
    """What follows `/bench` at the start of a comment's first line; None: it is no command."""
    lines = (body or "").splitlines()
    match = _COMMAND.fullmatch(lines[0].rstrip()) if lines else None
    return (match["words"] or "").strip() if match else None


def handle(github: GitHub, event: dict[str, Any], context: Context) -> Decision:
    """Decide about a comment, and do what follows from it; raises ServiceError."""
    about = read(CommentEvent, event, "the event")
    number, words = about.number, command(about.body)
    why = _not_for_us(about)
    if why is not None or words is None:
        return Decision("ignored", why or "the comment does not begin with /bench")
    if github.permission(about.sender) not in _MAY_ASK:
        # No answer: whoever comments could let us write as much as they like.
        github.react(about.comment, "-1")
        return Decision("refused", "only people with write permission may ask", number)
    pull = github.pull(number)
    head = pull.head
    reason = _objection(words, pull)
    if reason is None and not github.has_reviewers(ENVIRONMENT):
        reason = _UNGUARDED
    base = github.merge_base(pull.base, head) if reason is None else None
    if base == head:
        reason = "The commit is in the base branch already: there is nothing to compare."
    if reason is not None or base is None:
        hint = head if pull.state == "open" and base is None else None
        github.react(about.comment, "confused")
        comment.publish(github, number, comment.ANSWER, comment.refused(str(reason), hint))
        return Decision("refused", str(reason), number)
    inputs = {"pr": str(number), "head": head, "base": base}
    comment.withdraw(github, number, comment.ANSWER)
    comment.publish(github, number, comment.KIND, comment.queued(head, context.run_url))
    try:
        github.dispatch(WORKFLOW, about.default_branch, inputs)
    except ServiceError:
        body = comment.failed(head, context.run_url, "it could not be started")
        comment.publish(github, number, comment.KIND, body)
        raise
    github.react(about.comment, "rocket")
    return Decision("dispatched", "the comparison was started", number, head, base)


def _not_for_us(about: CommentEvent) -> str | None:
    """Why a comment is no request, whatever it says; None: it may be one."""
    if about.action != "created":
        # Who edits a comment need not be who wrote it; only what was said at first counts.
        return "the comment was not created just now, but changed"
    if about.pull_request is None:
        return "the comment is not on a pull request"
    if about.author_type != "User" or not _LOGIN.fullmatch(about.author):
        return "no person wrote the comment"
    if about.sender != about.author:
        return "the comment is not by the person who sent it"
    return None


def _objection(words: str, pull: Pull) -> str | None:
    """Why a person who may ask does not get it; None: it is granted."""
    if not _SHA.fullmatch(words):
        return "What was asked for is not a full commit: 40 hexadecimal digits in lower case."
    if pull.state != "open":
        return "The pull request is not open."
    if words != pull.head:
        return (
            f"`{words[: comment.DIGITS]}` is not the head of this pull request; commits may have "
            "been added since it was looked at. Look at them, and name the last one."
        )
    return None
