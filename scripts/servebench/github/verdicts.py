"""What a comparison amounts to as the status of a commit. Pure."""

from __future__ import annotations

from typing import Final

from servebench.compare.model import Comparison
from servebench.errors import RecordError
from servebench.github.answers import StatusState
from servebench.report.comparison import UNDECIDED, exit_code, make_view
from servebench.text import short

CONTEXT: Final = "servebench"
"""The status's name. Advisory: it should not be among the required ones."""

DESCRIPTION: Final = 140
"""Characters that GitHub takes."""

_MEANINGS: Final[dict[StatusState, str]] = {
    "pending": "The comparison is queued or under way",
    "success": "Nothing got worse that could be seen",
    "failure": "Something got worse",
    "error": "No result; the run says why",
}
_STATES: Final[dict[int, StatusState]] = {0: "success", 1: "failure", UNDECIDED: "error"}
"""By the exit code that the comparison has: a gate on either says the same."""


def status_of(comparison: Comparison) -> tuple[StatusState, str]:
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


def plain_status(state: StatusState) -> tuple[StatusState, str]:
    """A state without a comparison, and what it means."""
    return state, _MEANINGS[state]
