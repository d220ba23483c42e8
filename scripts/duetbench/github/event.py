"""Which commits an event asks to be compared, and which pull requests a measured commit belongs to.

A pull request's head is compared with the commit where it left its base, which GitHub is asked for:
a shallow clone does not know it, and what the event calls the base may be an older one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from duetbench.core.errors import UsageError
from duetbench.github.api import GitHub, Payload, Pull, Sha, nested, read

NONE: Final = "0" * 40
"""What a push found where there was no such branch."""

_OPEN: Final = frozenset({"issue_comment", "pull_request_target", "workflow_run"})
_EVENT: Final = "the event"


@dataclass(frozen=True, slots=True)
class Sides:
    """A commit, the one to compare it with (None: nothing stands before it), its pull request."""

    head: Sha
    base: Sha | None
    pull: int | None = None


class _PullEvent(Payload):
    pull: Pull = nested("pull_request")


class _PushEvent(Payload):
    before: Sha
    after: Sha


class MeasuringRun(Payload):
    """The run of a workflow that another one was started by, when it had ended."""

    id: int = nested("workflow_run", "id")
    event: str = nested("workflow_run", "event")
    head: Sha = nested("workflow_run", "head_sha")
    branch: str | None = nested("workflow_run", "head_branch", default=None)
    owner: str = nested("workflow_run", "head_repository", "owner", "login", default="")


class _RepositoryEvent(Payload):
    default_branch: str = nested("repository", "default_branch", min_length=1)


def sides(name: str, event: Mapping[str, Any], sha: Sha, github: GitHub, base: str = "") -> Sides:
    """Find both sides of what an event `name` is about; `base`: another branch or commit.

    Raises:
        UsageError: Others start such an event, and it has this repository's rights.
        ServiceError: The event or GitHub's answer is none, or GitHub knows no common commit.
    """
    if name in _OPEN:
        raise UsageError(
            f"GITHUB_EVENT_NAME={name!r}: expected pull_request or push; {name} has the rights of "
            "this repository, and here others' code would run"
        )
    head, pull, default = sha, None, ""
    if name == "pull_request":
        proposed = read(_PullEvent, event, _EVENT).pull
        head, pull, default = proposed.head, proposed.number, proposed.base
    elif name == "push":
        pushed = read(_PushEvent, event, _EVENT)
        head = pushed.after
        default = "" if pushed.before == NONE else pushed.before
    start = base or default or read(_RepositoryEvent, event, _EVENT).default_branch
    left = github.merge_base(start, head)
    return Sides(head, None if left == head else left, pull)


def measuring_run(event: Mapping[str, Any]) -> MeasuringRun:
    """The run that has ended; raises ServiceError."""
    return read(MeasuringRun, event, _EVENT)


def sides_of(run: MeasuringRun, github: GitHub, base: str = "") -> tuple[Sides, ...]:
    """The open pull requests whose head a run has measured, as GitHub knows them.

    Its event names none where they come from a fork, and what the run itself says proves nothing.
    `base`: what their bases are compared with in place of their own. Raises ServiceError.
    """
    if run.event != "pull_request" or not run.owner or not run.branch:
        return ()
    return tuple(
        Sides(run.head, github.merge_base(base or pull.base, run.head), pull.number)
        for pull in github.open_pulls(run.branch, run.owner)
        if pull.head == run.head
    )
