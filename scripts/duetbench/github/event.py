"""Which commits an event asks to be compared, and which pull requests a measured commit belongs to.

A pull request's head is compared with the commit where it left its base, which GitHub is asked for:
a shallow clone does not know it, and what the event calls the base may be an older one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import Field

from duetbench.core.errors import UsageError
from duetbench.github.api import GitHub, Payload, Pull, Sha, User, read

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
    pull_request: Pull


class _PushEvent(Payload):
    before: Sha
    after: Sha


class _Fork(Payload):
    owner: User


class MeasuringRun(Payload):
    """The run of a workflow that another one was started by, when it had ended."""

    id: int
    event: str
    head_sha: Sha
    head_branch: str | None = None
    head_repository: _Fork | None = None


class _EndedEvent(Payload):
    workflow_run: MeasuringRun


class _Defaults(Payload):
    default_branch: str = Field(min_length=1)


class _RepositoryEvent(Payload):
    repository: _Defaults


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
        proposed = read(_PullEvent, event, _EVENT).pull_request
        head, pull, default = proposed.head.sha, proposed.number, proposed.base.ref
    elif name == "push":
        pushed = read(_PushEvent, event, _EVENT)
        head = pushed.after
        default = "" if pushed.before == NONE else pushed.before
    start = base or default or read(_RepositoryEvent, event, _EVENT).repository.default_branch
    found = github.merge_base(start, head)
    return Sides(head, None if found == head else found, pull)


def measuring_run(event: Mapping[str, Any]) -> MeasuringRun:
    """The run that has ended; raises ServiceError."""
    return read(_EndedEvent, event, _EVENT).workflow_run


def sides_of(run: MeasuringRun, github: GitHub, base: str = "") -> tuple[Sides, ...]:
    """The open pull requests whose head a run has measured, as GitHub knows them.

    Its event names none where they come from a fork, and what the run itself says proves nothing.
    `base`: what their bases are compared with in place of their own. Raises ServiceError.
    """
    if run.event != "pull_request" or run.head_repository is None or not run.head_branch:
        return ()
    pulls = github.open_pulls(run.head_branch, run.head_repository.owner.login)
    return tuple(
        Sides(run.head_sha, github.merge_base(base or one.base.ref, run.head_sha), one.number)
        for one in pulls
        if one.head.sha == run.head_sha
    )
