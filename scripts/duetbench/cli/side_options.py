"""Base and head, from the command line."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from typing import TYPE_CHECKING, Annotated, Final

from typer import Option

from duetbench.cli.options import COMPARED, day
from duetbench.core.errors import UsageError
from duetbench.host.console import Narrator

if TYPE_CHECKING:
    from duetbench.project.project import Project
    from duetbench.project.subject import Subject

AS_LOCKED: Final = "locked"
"""Means the locks, in place of a date."""

WithOption = Annotated[
    list[str] | None,
    Option(
        "--with",
        "--head-with",
        metavar="PACKAGE==VERSION",
        help="In head's lock; repeatable.",
        rich_help_panel=COMPARED,
    ),
]

BaseWithOption = Annotated[
    list[str] | None,
    Option(
        "--base-with",
        metavar="PACKAGE==VERSION",
        help="In base's lock; repeatable.",
        rich_help_panel=COMPARED,
    ),
]

LockOption = Annotated[
    tuple[str, str] | None,
    Option(
        "--lock",
        metavar="BASE HEAD",
        help="Two lock files, such as 'uv.lock@main uv.lock'.",
        rich_help_panel=COMPARED,
    ),
]


def days(texts: Sequence[str]) -> tuple[date | None, date | None] | None:
    """Read the days of base and head: of one, head's alone; raises UsageError."""
    if len(texts) > 2:
        raise UsageError(f"--stack-as-of was given {len(texts)} times: expected base and head")
    other = f", or {AS_LOCKED!r}"
    read = [None if text == AS_LOCKED else day(text, "--stack-as-of", other) for text in texts]
    first, second = (None, *read)[-2:] if read else (None, None)
    return (first, second) if read else None


@contextmanager
def deploy(project: "Project", narrator: Narrator) -> "Iterator[Subject]":
    """Provide, for a while, a copy of a project in which its target can be measured.

    It needs no earlier set-up. Raises SetupError if something cannot be installed here.
    """
    from duetbench.judge import deployment, revisions
    from duetbench.project import tools

    tools.ensure_oha(project.configuration.oha, narrator)
    with revisions.copies() as copies:
        yield deployment.working(project, narrator, copies)
