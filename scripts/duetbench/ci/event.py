"""Decides which commits an event asks to compare.

A pull request's head is compared with the commit where it left its base. GitHub finds that commit:
a shallow clone may not have it, and the event's base may be older.
"""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from duetbench.ci.api import GitHub
from duetbench.core.errors import UsageError

NONE: Final = "0" * 40
"""The commit before a push that created the branch."""

_OPEN: Final = frozenset({"issue_comment", "pull_request_target", "workflow_run"})


def merge_base(github: GitHub, branch: str, head: str) -> str:
    """Return the commit at which a commit has left a branch, or another commit."""
    span = f"{quote(branch, safe='')}...{head}"
    return str(github.get(f"/compare/{span}", per_page=1)["merge_base_commit"]["sha"])


def measured_pulls(github: GitHub, run: Mapping[str, Any]) -> list[tuple[int, str, str]]:
    """Return number, base and head of the open pull requests whose head a run measured.

    An event from a fork names no pull request, and the run's own statements prove nothing.
    Raises ServiceError.
    """
    if run["event"] != "pull_request" or not (run["head_repository"] and run["head_branch"]):
        return []  # of a fork or a branch that has been removed
    head, owner = run["head_sha"], run["head_repository"]["owner"]["login"]
    return [
        (pull["number"], merge_base(github, pull["base"]["ref"], head), head)
        for pull in github.get_all("/pulls", state="open", head=f"{owner}:{run['head_branch']}")
        if pull["head"]["sha"] == head
    ]


def sides(name: str, event: Mapping[str, Any], sha: str, github: GitHub) -> tuple[str | None, str]:
    """Return base and head of an event `name`; no base: the head has nothing to compare with.

    Raises UsageError for events that others can start and that have this repository's rights, and
    ServiceError if GitHub knows no common commit.
    """
    if name in _OPEN:
        raise UsageError(
            f"GITHUB_EVENT_NAME={name!r}: expected pull_request or push; {name} has the rights of "
            "this repository, and untrusted code would run with them"
        )
    head, default = sha, ""
    if name == "pull_request":
        pull = event["pull_request"]
        head, default = pull["head"]["sha"], pull["base"]["ref"]
    elif name == "push":
        head, before = event["after"], event["before"]
        default = "" if before == NONE else before
    start = default or event["repository"]["default_branch"]
    left = merge_base(github, start, head)
    return None if left == head else left, head
