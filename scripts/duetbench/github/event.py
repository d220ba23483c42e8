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
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from duetbench.core.errors import ServiceError, UsageError
from duetbench.github.api import GitHub
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
_COMMAND: Final = re.compile(r"/bench(?:[ \t]+(?P<words>.*))?")
_SHA: Final = re.compile(r"[0-9a-f]{40}")
_LOGIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_MAY_ASK: Final = frozenset({"admin", "write"})
_UNGUARDED: Final = (
    f"The environment `{ENVIRONMENT}` has no required reviewers, so nobody would approve the "
    f"comparison: add some in the repository's settings (Environments, `{ENVIRONMENT}`)."
)


def field(event: Mapping[str, Any], *keys: str) -> Any:
    """Return a value nested in an event; raises ServiceError if there is none."""
    value: Any = event
    for key in keys:
        if not isinstance(value, dict) or key not in value:
            raise ServiceError(f"the event: expected {'.'.join(keys)}, found no {key}")
        value = value[key]
    return value


def merge_base(github: GitHub, branch: str, head: str) -> str:
    """Return the commit at which a commit has left a branch, or another commit."""
    span = f"{quote(branch, safe='')}...{head}"
    return str(github.get(f"/compare/{span}", per_page=1)["merge_base_commit"]["sha"])


class Pull(NamedTuple):
    """A pull request, and the commits that are compared for it."""

    number: int
    base: str
    head: str


def measured_pulls(github: GitHub, run: Mapping[str, Any], base: str = "") -> list[Pull]:
    """Return the open pull requests whose head a run measured, as GitHub has them.

    An event from a fork names no pull request, and the run's own statements prove nothing.
    `base`: compare their heads with it instead of their own bases. Raises ServiceError.
    """
    if run["event"] != "pull_request" or not (run["head_repository"] and run["head_branch"]):
        return []  # of a fork or a branch that has been removed
    head, owner = run["head_sha"], run["head_repository"]["owner"]["login"]
    return [
        Pull(pull["number"], merge_base(github, base or pull["base"]["ref"], head), head)
        for pull in github.get_all("/pulls", state="open", head=f"{owner}:{run['head_branch']}")
        if pull["head"]["sha"] == head
    ]


def has_reviewers(github: GitHub) -> bool:
    """Whether somebody has to approve before a job in the environment starts.

    A missing environment has no reviewers: GitHub creates it, open to all, for the first job.
    """
    place = github.get(f"/environments/{ENVIRONMENT}", absent={404}) or {}
    return any(rule["type"] == "required_reviewers" for rule in place.get("protection_rules", ()))


def sides(
    name: str, event: Mapping[str, Any], sha: str, github: GitHub, base: str = ""
) -> tuple[str | None, str]:
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
        head = field(event, "pull_request", "head", "sha")
        default = field(event, "pull_request", "base", "ref")
    elif name == "push":
        head, before = field(event, "after"), field(event, "before")
        default = "" if before == NONE else before
    start = base or default or field(event, "repository", "default_branch")
    left = merge_base(github, start, head)
    return None if left == head else left, head


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
    event = github.context.event()
    lines = (field(event, "comment", "body") or "").splitlines()
    match = _COMMAND.fullmatch(lines[0].rstrip()) if lines else None
    if match is None:
        return "ignored: the comment does not begin with /bench"
    sender = field(event, "sender", "login")
    if (reason := _ignored(event, sender)) is not None:
        return f"ignored: {reason}"
    access = github.get(f"/collaborators/{sender}/permission", absent={404})
    if access is None or access["permission"] not in _MAY_ASK:
        return "refused: only people with write permission may ask"
    number, url = field(event, "issue", "number"), github.context.run_url
    pull = github.get(f"/pulls/{number}")
    head, base = pull["head"]["sha"], None
    reason = _objection((match["words"] or "").strip(), pull["state"], head)
    if reason is None and not has_reviewers(github):
        reason = _UNGUARDED
    if reason is None and (base := merge_base(github, pull["base"]["ref"], head)) == head:
        reason = "The commit is in the base branch already: there is nothing to compare."
    if reason is not None:
        hint = head if pull["state"] == "open" and base is None else None
        publish(github, number, ANSWER, refused(reason, hint))
        return f"refused: {reason}"
    withdraw(github, number, ANSWER)
    publish(github, number, KIND, queued(head, url))
    inputs = {"pr": str(number), "head": head, "base": base}
    branch = field(event, "repository", "default_branch")
    try:
        github.send("POST", f"/actions/workflows/{WORKFLOW}/dispatches", ref=branch, inputs=inputs)
    except ServiceError:
        publish(github, number, KIND, failed(head, url, "it could not start"))
        raise
    return "dispatched: the comparison was started"


def _ignored(event: Mapping[str, Any], sender: str) -> str | None:
    """Return why a comment is no request, whatever it says; None: it may be one."""
    author = field(event, "comment", "user") or {}
    if field(event, "action") != "created":
        # The editor of a comment need not be its author, so only its first version counts.
        return "the comment was edited, not created"
    if not field(event, "issue").get("pull_request"):
        return "the comment is not on a pull request"
    if author.get("type") != "User" or not _LOGIN.fullmatch(author["login"]):
        return "the author of the comment is not a person"
    if sender != author["login"]:
        return "the sender of the comment is not its author"
    return None


def _objection(words: str, state: str, head: str) -> str | None:
    """Return why a permitted person's request is refused; None: it is granted."""
    if not _SHA.fullmatch(words):
        return "The request does not name a full commit: 40 hexadecimal digits in lower case."
    if state != "open":
        return "The pull request is not open."
    if words != head:
        return (
            f"`{words[:12]}` is not the head of this pull request; commits may have "
            "been added since the review. Review them, and name the last one."
        )
    return None
