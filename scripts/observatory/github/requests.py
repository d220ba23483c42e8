"""Answers `/bench <commit>` in a comment on a pull request, by starting a workflow.

That runs untrusted code on a measuring machine. So somebody with write permission has to name the
exact commit that they have reviewed. The name of a branch would also allow every later push.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from duetbench.ci.api import GitHub, ServiceError
from duetbench.ci.comments import DIGITS, KIND, own, plain, publish, remove

ENVIRONMENT: Final = "bench"
"""The environment whose reviewers approve a comparison."""

WORKFLOW: Final = "bench.yml"
"""The workflow that compares; it is started on the default branch, never on a pull request's.

A new request cancels the older run, by the workflow's `concurrency`."""

ANSWER: Final = "answer"
"""The kind of the comment that says why a request is refused."""

_COMMAND: Final = re.compile(r"/bench(?:[ \t]+(?P<words>.*))?")
_SHA: Final = re.compile(r"[0-9a-f]{40}")
_LOGIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


def answer(github: GitHub) -> str:
    """Answer the event's comment: start the comparison that it asks for; return what was done.

    The answer quotes nothing of the comment. Strangers get no answer: otherwise anybody could make
    the bot write as much as they like. Raises ServiceError.
    """
    event = github.event()
    lines = (event["comment"]["body"] or "").splitlines()
    match = _COMMAND.fullmatch(lines[0].rstrip()) if lines else None
    if match is None:
        return "ignored: the comment does not begin with /bench"
    if not _is_request(event):
        return "ignored: it is not a person's new comment on a pull request"
    sender = event["sender"]["login"]
    access = github.get(f"/collaborators/{sender}/permission", absent={404}) or {}
    if access.get("permission") not in {"admin", "write"}:
        return "refused: only people with write permission may ask"
    number, url = event["issue"]["number"], github.run_url(github.run_id)
    pull = github.get(f"/pulls/{number}")
    head, is_open = pull["head"]["sha"], pull["state"] == "open"
    base = github.merge_base(pull["base"]["ref"], head) if is_open else None
    if reason := _fault(github, (match["words"] or "").strip(), base, head):
        hint = None if base in {None, head} else head
        publish(github, number, ANSWER, refused(reason, hint))
        return f"refused: {reason}"
    remove(github, own(github, number, ANSWER))
    publish(github, number, KIND, queued(head, url))
    inputs = {"pr": str(number), "head": head, "base": base}
    branch = event["repository"]["default_branch"]
    try:
        github.send("POST", f"/actions/workflows/{WORKFLOW}/dispatches", ref=branch, inputs=inputs)
    except ServiceError:
        publish(github, number, KIND, failed(head, url, "it could not start"))
        raise
    return "dispatched: the comparison was started"


def _fault(github: GitHub, words: str, base: str | None, head: str) -> str:
    """Say why a comparison may not start, empty if it may; base: None of one that is not open.

    A missing environment has no reviewers: GitHub creates it, open to all, for the first job.
    """
    if _SHA.fullmatch(words) is None:
        return "The request does not name a full commit: 40 hexadecimal digits in lower case."
    if base is None:
        return "The pull request is not open."
    if words != head:
        return (
            f"`{words[:12]}` is not the head of this pull request; commits may have been added "
            "since the review. Review them, and name the last one."
        )
    place = github.get(f"/environments/{ENVIRONMENT}", absent={404}) or {}
    if "required_reviewers" not in [rule["type"] for rule in place.get("protection_rules", ())]:
        return (
            f"The environment `{ENVIRONMENT}` has no required reviewers, so nobody would approve "
            "the comparison: add some in the repository's settings (Environments, "
            f"`{ENVIRONMENT}`)."
        )
    return "The commit is in the base branch already." if base == head else ""


def _is_request(event: Mapping[str, Any]) -> bool:
    """Whether a comment may be a request: its first version, which nobody else can have edited."""
    author = event["comment"]["user"] or {}
    return (
        event["action"] == "created"
        and bool(event["issue"].get("pull_request"))
        and author.get("type") == "User"
        and _LOGIN.fullmatch(author["login"]) is not None
        and event["sender"]["login"] == author["login"]
    )


def queued(head: str, url: str) -> str:
    """Return the placeholder: requested, not yet measured."""
    return (
        f"### duetbench: queued\n\nThe comparison of `{head[:DIGITS]}` with the commit where it "
        "left its base waits for an approval and for the measuring machine. This comment becomes "
        f"the report. [Follow it]({url})\n"
    )


def failed(head: str, url: str, reason: str) -> str:
    """Return the comment for a comparison without a result, and the reason."""
    return (
        f"### duetbench: no result\n\nThe comparison of `{head[:DIGITS]}` failed, which says "
        f"nothing about the change. The reason: {plain(reason).rstrip('.')}. [The log]({url}) has "
        f"the details. To ask again:\n\n```\n/bench {head}\n```\n"
    )


def refused(reason: str, head: str | None) -> str:
    """Return the answer to a refused request; head: the commit that may be requested."""
    hint = (
        "\nSomebody with write permission reviews the newest commit, and requests it on the first "
        f"line of a comment:\n\n```\n/bench {head}\n```\n"
    )
    return f"### duetbench: not started\n\n{reason}\n{hint if head else ''}"
