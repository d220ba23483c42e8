"""What events ask for: which commits to compare, whether only locks differ, and who may ask.

A pull request's head is compared with the commit where it left its base, which GitHub is asked for:
a shallow clone does not know it, and what the event calls the base may be an older one.

`/bench <commit>` in a comment on a pull request lets other people's code run on our machine, so
somebody with write permission has to name the very commit that they have looked at. The name of a
branch would do for whatever is pushed next.
"""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

from duetbench.core.errors import ServiceError, UsageError
from duetbench.github.api import GitHub, Payload, Pull, Sha, nested, read
from duetbench.github.comments import ANSWER, KIND, failed, publish, queued, refused, withdraw
from duetbench.host import git

ENVIRONMENT: Final = "bench"
"""In which a comparison waits for its approval."""

NONE: Final = "0" * 40
"""What a push found where there was no such branch."""

WORKFLOW: Final = "bench.yml"
"""The workflow that compares; it is started on the default branch, never on a pull request's.

Asking again ends the older run, by its `concurrency`."""

_LOCKS: Final = re.compile(
    r"(.*/)?((uv|poetry|pdm)\.lock|pylock(\.[^/]+)?\.toml|Pipfile(\.lock)?"
    r"|[^/]*(requirements|constraints)[^/]*\.(txt|in)|requirements/[^/]+\.(txt|in))"
)
"""Files that say which packages there are, and nothing else."""

_PROJECT: Final = "pyproject.toml"
_OPEN: Final = frozenset({"issue_comment", "pull_request_target", "workflow_run"})
_EVENT: Final = "the event"
_COMMAND: Final = re.compile(r"/bench(?:[ \t]+(?P<words>.*))?")
_SHA: Final = re.compile(r"[0-9a-f]{40}")
_LOGIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_MAY_ASK: Final = frozenset({"admin", "write"})
_UNGUARDED: Final = (
    f"The environment `{ENVIRONMENT}` has no required reviewers, so that nobody would approve the "
    f"comparison: name some in the repository's settings (Environments, `{ENVIRONMENT}`)."
)


class _PullEvent(Payload):
    pull: Pull = nested("pull_request")


class _PushEvent(Payload):
    before: Sha
    after: Sha


class _RepositoryEvent(Payload):
    default_branch: str = nested("repository", "default_branch", min_length=1)


class _CommentEvent(_RepositoryEvent):
    action: str
    body: str | None = nested("comment", "body", default=None)
    author: str = nested("comment", "user", "login", default="")
    author_type: str = nested("comment", "user", "type", default="User")
    sender: str = nested("sender", "login")
    number: int = nested("issue", "number")
    pull_request: dict[str, Any] | None = nested("issue", "pull_request", default=None)


class MeasuringRun(Payload):
    """The run of a workflow that another one was started by, when it had ended."""

    id: int = nested("workflow_run", "id")
    event: str = nested("workflow_run", "event")
    head: Sha = nested("workflow_run", "head_sha")
    branch: str | None = nested("workflow_run", "head_branch", default=None)
    owner: str = nested("workflow_run", "head_repository", "owner", "login", default="")

    @classmethod
    def of(cls, event: Mapping[str, Any]) -> "MeasuringRun":
        """Read the event; raises ServiceError."""
        return read(cls, event, _EVENT)

    def pulls(self, github: GitHub, base: str = "") -> list[tuple[int, Sha]]:
        """The open pull requests whose head it has measured, as GitHub knows them, and their bases.

        The event names none where they come from a fork, and what the run itself says proves
        nothing. `base`: what their heads are compared with in place of their own. ServiceError.
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
    """Find base and head of what an event `name` is about; no base: nothing stands before it.

    `base`: another branch or commit.
    UsageError: others start such an event, and it has this repository's rights. ServiceError: the
    event or GitHub's answer is none, or GitHub knows no common commit.
    """
    if name in _OPEN:
        raise UsageError(
            f"GITHUB_EVENT_NAME={name!r}: expected pull_request or push; {name} has the rights of "
            "this repository, and here others' code would run"
        )
    head, default = sha, ""
    if name == "pull_request":
        proposed = read(_PullEvent, event, _EVENT).pull
        head, default = proposed.head, proposed.base
    elif name == "push":
        pushed = read(_PushEvent, event, _EVENT)
        head = pushed.after
        default = "" if pushed.before == NONE else pushed.before
    start = base or default or read(_RepositoryEvent, event, _EVENT).default_branch
    left = github.merge_base(start, head)
    return None if left == head else left, head


def is_upgrade(root: Path, base: str, head: str, lock: str = "") -> bool:
    """Whether two commits differ in locks alone, and in what `pyproject.toml` requires.

    `lock` is the only file that counts as one, from the repository's root; none: the usual names.
    GitError: a commit is not there.
    """
    listed = git.ask(root, "diff-tree", "-r", "-z", "--no-renames", "--name-only", base, head)
    files = [path for path in listed.split("\0") if path]
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
    """Answer the comment of the event, if it asks for a comparison, and start that: what was done.

    Nothing of the comment is repeated. A stranger gets no answer: whoever comments could let us
    write as much as they like. Raises ServiceError.
    """
    about = read(_CommentEvent, github.context.event(), _EVENT)
    lines = (about.body or "").splitlines()
    match = _COMMAND.fullmatch(lines[0].rstrip()) if lines else None
    if match is None:
        return "ignored: the comment does not begin with /bench"
    if (why := _not_for_us(about)) is not None:
        return f"ignored: {why}"
    if github.permission(about.sender) not in _MAY_ASK:
        return "refused: only people with write permission may ask"
    number, pull, url = about.number, github.pull(about.number), github.context.run_url
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
        github.dispatch(WORKFLOW, about.default_branch, inputs)
    except ServiceError:
        publish(github, number, KIND, failed(pull.head, url, "it could not be started"))
        raise
    return "dispatched: the comparison was started"


def _not_for_us(about: _CommentEvent) -> str | None:
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
            f"`{words[:12]}` is not the head of this pull request; commits may have "
            "been added since it was looked at. Look at them, and name the last one."
        )
    return None
