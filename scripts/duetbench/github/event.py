"""Decides what an event asks for: the commits to compare, whether only locks differ, who may ask.

A pull request's head is compared with the commit where it left its base. GitHub finds that commit:
a shallow clone may not have it, and the event's base may be older.

`/bench <commit>` in a comment on a pull request runs untrusted code on a measuring machine. So
somebody with write permission has to name the exact commit that they have reviewed. The name of a
branch would also allow every later push.
"""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

from duetbench.core.errors import ServiceError, UsageError
from duetbench.github.api import GitHub, Payload, Pull, Sha, nested_field, read
from duetbench.github.comments import ANSWER, KIND, failed, publish, queued, refused, withdraw
from duetbench.host import git

ENVIRONMENT: Final = "bench"
"""The environment whose reviewers approve a comparison."""

NONE: Final = "0" * 40
"""The commit before a push that created the branch."""

WORKFLOW: Final = "bench.yml"
"""The workflow that compares; it is started on the default branch, never on a pull request's.

A new request cancels the older run, by the workflow's `concurrency`."""

_LOCKS: Final = re.compile(
    r"(.*/)?((uv|poetry|pdm)\.lock|pylock(\.[^/]+)?\.toml|Pipfile(\.lock)?"
    r"|[^/]*(requirements|constraints)[^/]*\.(txt|in)|requirements/[^/]+\.(txt|in))"
)
"""Files that select packages and do nothing else."""

_PROJECT: Final = "pyproject.toml"
_OPEN: Final = frozenset({"issue_comment", "pull_request_target", "workflow_run"})
_EVENT: Final = "the event"
_COMMAND: Final = re.compile(r"/bench(?:[ \t]+(?P<words>.*))?")
_SHA: Final = re.compile(r"[0-9a-f]{40}")
_LOGIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_MAY_ASK: Final = frozenset({"admin", "write"})
_UNGUARDED: Final = (
    f"The environment `{ENVIRONMENT}` has no required reviewers, so nobody would approve the "
    f"comparison: add some in the repository's settings (Environments, `{ENVIRONMENT}`)."
)


class _PullEvent(Payload):
    pull: Pull = nested_field("pull_request")


class _PushEvent(Payload):
    before: Sha
    after: Sha


class _RepositoryEvent(Payload):
    default_branch: str = nested_field("repository", "default_branch", min_length=1)


class _CommentEvent(_RepositoryEvent):
    action: str
    body: str | None = nested_field("comment", "body", default=None)
    author: str = nested_field("comment", "user", "login", default="")
    author_type: str = nested_field("comment", "user", "type", default="User")
    sender: str = nested_field("sender", "login")
    number: int = nested_field("issue", "number")
    pull_request: dict[str, Any] | None = nested_field("issue", "pull_request", default=None)


class MeasuringRun(Payload):
    """The run of a workflow whose end started another workflow."""

    id: int = nested_field("workflow_run", "id")
    event: str = nested_field("workflow_run", "event")
    head: Sha = nested_field("workflow_run", "head_sha")
    branch: str | None = nested_field("workflow_run", "head_branch", default=None)
    owner: str = nested_field("workflow_run", "head_repository", "owner", "login", default="")

    @classmethod
    def of(cls, event: Mapping[str, Any]) -> "MeasuringRun":
        """Read the event; raises ServiceError."""
        return read(cls, event, _EVENT)

    def pulls(self, github: GitHub, base: str = "") -> list[tuple[int, Sha]]:
        """Return the open pull requests whose head it measured, and the bases, as GitHub has them.

        An event from a fork names no pull request, and the run's own statements prove nothing.
        `base`: compare their heads with it instead of their own bases. Raises ServiceError.
        """
        if self.event != "pull_request" or not self.owner or not self.branch:
            return []
        return [
            (pull.number, github.merge_base(base or pull.base, self.head))
            for pull in github.open_pulls(self.branch, self.owner)
            if pull.head == self.head
        ]


def sides(
    name: str, event: Mapping[str, Any], sha: Sha, github: GitHub, base: str = ""
) -> tuple[Sha | None, Sha]:
    """Return base and head of an event `name`; no base: the head has nothing to compare with.

    `base`: another branch or commit. Raises UsageError for events that others can start and that
    have this repository's rights. Raises ServiceError if the event or GitHub's answer is invalid,
    or GitHub knows no common commit.
    """
    if name in _OPEN:
        raise UsageError(
            f"GITHUB_EVENT_NAME={name!r}: expected pull_request or push; {name} has the rights of "
            "this repository, and untrusted code would run with them"
        )
    head, default = sha, ""
    if name == "pull_request":
        pull = read(_PullEvent, event, _EVENT).pull
        head, default = pull.head, pull.base
    elif name == "push":
        push = read(_PushEvent, event, _EVENT)
        head = push.after
        default = "" if push.before == NONE else push.before
    start = base or default or read(_RepositoryEvent, event, _EVENT).default_branch
    merge_base = github.merge_base(start, head)
    return None if merge_base == head else merge_base, head


def is_upgrade(root: Path, base: str, head: str, lock: str = "") -> bool:
    """Whether two commits differ in locks alone, and in what `pyproject.toml` requires.

    `lock` is the only file that counts as one, from the repository's root; none: the usual names.
    Raises GitError if a commit is missing.
    """
    paths = git.ask(root, "diff-tree", "-r", "-z", "--no-renames", "--name-only", base, head)
    files = [path for path in paths.split("\0") if path]
    others = [path for path in files if not (path == lock if lock else _LOCKS.fullmatch(path))]
    return len(others) < len(files) and all(
        PurePosixPath(path).name == _PROJECT
        and _without_requirements(root, base, path) == _without_requirements(root, head, path)
        for path in others
    )


def _without_requirements(root: Path, commit: str, path: str) -> Mapping[str, Any]:
    text = git.ask_or_none(root, "show", f"{commit}:{path}")
    try:
        project = tomllib.loads(text or "")
    except tomllib.TOMLDecodeError:
        return {"unreadable": text, "commit": commit}
    project.pop("dependency-groups", None)
    for key in ("dependencies", "optional-dependencies"):
        project.get("project", {}).pop(key, None)
    return project


def answer(github: GitHub) -> str:
    """Answer the event's comment: start the comparison that it asks for; return what was done.

    The answer quotes nothing of the comment. Strangers get no answer: otherwise anybody could make
    the bot write as much as they like. Raises ServiceError.
    """
    event = read(_CommentEvent, github.context.event(), _EVENT)
    lines = (event.body or "").splitlines()
    match = _COMMAND.fullmatch(lines[0].rstrip()) if lines else None
    if match is None:
        return "ignored: the comment does not begin with /bench"
    if (reason := _ignored(event)) is not None:
        return f"ignored: {reason}"
    if github.permission(event.sender) not in _MAY_ASK:
        return "refused: only people with write permission may ask"
    number, pull, url = event.number, github.pull(event.number), github.context.run_url
    base: Sha | None = None
    reason = _objection((match["words"] or "").strip(), pull)
    if reason is None and not github.has_reviewers(ENVIRONMENT):
        reason = _UNGUARDED
    if reason is None and (base := github.merge_base(pull.base, pull.head)) == pull.head:
        reason = "The commit is in the base branch already: there is nothing to compare."
    if reason is not None or base is None:
        hint = pull.head if pull.state == "open" and base is None else None
        publish(github, number, ANSWER, refused(str(reason), hint))
        return f"refused: {reason}"
    withdraw(github, number, ANSWER)
    publish(github, number, KIND, queued(pull.head, url))
    inputs = {"pr": str(number), "head": pull.head, "base": base}
    try:
        github.dispatch(WORKFLOW, event.default_branch, inputs)
    except ServiceError:
        publish(github, number, KIND, failed(pull.head, url, "it could not start"))
        raise
    return "dispatched: the comparison was started"


def _ignored(event: _CommentEvent) -> str | None:
    """Return why a comment is no request, whatever it says; None: it may be one."""
    if event.action != "created":
        # The editor of a comment need not be its author, so only its first version counts.
        return "the comment was edited, not created"
    if event.pull_request is None:
        return "the comment is not on a pull request"
    if event.author_type != "User" or not _LOGIN.fullmatch(event.author):
        return "the author of the comment is not a person"
    if event.sender != event.author:
        return "the sender of the comment is not its author"
    return None


def _objection(words: str, pull: Pull) -> str | None:
    """Return why a permitted person's request is refused; None: it is granted."""
    if not _SHA.fullmatch(words):
        return "The request does not name a full commit: 40 hexadecimal digits in lower case."
    if pull.state != "open":
        return "The pull request is not open."
    if words != pull.head:
        return (
            f"`{words[:12]}` is not the head of this pull request; commits may have "
            "been added since the review. Review them, and name the last one."
        )
    return None
