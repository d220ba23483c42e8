"""What comments on a pull request and the status of a commit say. Pure."""

from __future__ import annotations

from typing import Final

from servebench.automation.github import text
from servebench.automation.github.repository import StatusState
from servebench.core.errors import RecordError
from servebench.core.text import one_line, short
from servebench.record.comparison import Comparison
from servebench.report import markdown
from servebench.report.comparison import UNDECIDED, exit_code, make_view

CONTEXT: Final = "servebench"
"""The status's name. Advisory: it should not be among the required ones."""

DESCRIPTION: Final = 140
"""Characters of a status that GitHub takes."""

MEANINGS: Final[dict[StatusState, str]] = {
    "pending": "The comparison is queued or under way",
    "success": "Nothing got worse that could be seen",
    "failure": "Something got worse",
    "error": "No result; the run says why",
}
_STATES: Final[dict[int, StatusState]] = {0: "success", 1: "failure", UNDECIDED: "error"}
"""By the exit code that the comparison has: a gate on either says the same."""

SHOWN: Final = 12
"""Digits of a commit that people see."""

_ROOM: Final = 2_000  # characters for what stands around the report
_ADVISORY: Final = (
    "Advisory: nothing is blocked by this. Measured on one machine, base and head together; a "
    "change smaller than what the table says could be seen may be there all the same."
)


def queued(head: str, url: str) -> str:
    """The placeholder: asked for, not yet measured."""
    return (
        f"### servebench: queued\n\nThe comparison of `{head[:SHOWN]}` with the commit where it "
        "left its base waits for an approval and for the measuring machine. This comment becomes "
        f"the report. [Follow it]({url})\n"
    )


def waiting(head: str, url: str, since: str) -> str:
    """No runner has taken the job for too long."""
    return (
        f"### servebench: waiting for a machine\n\nThe comparison of `{head[:SHOWN]}` is queued, "
        f"but no measuring machine has taken it since {since}. It goes on by itself as soon as one "
        f"is there; the maintainers have been told. [Follow it]({url})\n"
    )


def running(head: str, url: str) -> str:
    """It is being measured."""
    return (
        f"### servebench: measuring\n\n`{head[:SHOWN]}` is being compared with the commit where it "
        f"left its base. This comment becomes the report. [Follow it]({url})\n"
    )


def failed(head: str, url: str, reason: str) -> str:
    """There is no result, and why."""
    said = f" The reason: {text.plain(reason).rstrip('.')}." if reason else ""
    return (
        f"### servebench: no result\n\nThe comparison of `{head[:SHOWN]}` failed, which says "
        f"nothing about the change.{said} [The log]({url}) has the details. "
        f"To ask again:\n\n```\n/bench {head}\n```\n"
    )


def final(comparison: Comparison, head: str, url: str) -> str:
    """The report; raises RecordError."""
    try:
        body = markdown.comparison(comparison, limit=text.LIMIT - 2 * _ROOM)
    except Exception as error:  # whatever strange values lead to, it is the file's fault
        raise RecordError(
            f"the comparison of {head[:SHOWN]}: expected values that can be shown, found some that "
            f"cannot ({type(error).__name__}: {one_line(str(error), 100)})"
        ) from error
    footer = (
        f"\n---\n<sub>`{head[:SHOWN]}` · [the run, with all figures]({url}). {_ADVISORY}</sub>\n"
    )
    return text.bounded(text.report(body), text.LIMIT - _ROOM) + footer


def outdated(measured: str, now: str) -> str:
    """The banner above a report on a commit that is no longer the head."""
    return (
        f"> **Outdated**: this is about `{measured[:SHOWN]}`, and the head is `{now[:SHOWN]}` now. "
        "Once you have looked at what was added, ask again with `/bench` and the full commit.\n\n"
    )


def refused(reason: str, head: str | None) -> str:
    """The answer to a request that cannot be granted; head: the commit that could be asked for."""
    said = f"### servebench: not started\n\n{reason}\n"
    if head is None:
        return said
    return (
        f"{said}\nTo compare a pull request with the commit where it left its base, somebody with "
        "write permission names the commit that they have looked at. This is the newest one; look "
        f"at it, and ask for it on the first line of a comment:\n\n```\n/bench {head}\n```\n"
    )


def status(comparison: Comparison) -> tuple[StatusState, str]:
    """State and description: what got worse fails; what is not decided is an error.

    Raises:
        RecordError: The comparison holds what cannot be shown.
    """
    try:
        view = make_view(comparison)
    except Exception as error:  # the file comes from a machine on which other people's code ran
        raise RecordError(
            f"the comparison: expected values that can be shown, found {type(error).__name__}"
        ) from error
    return _STATES[exit_code(comparison)], short(view.headline, DESCRIPTION)
