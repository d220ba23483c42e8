"""Options that several verbs share, each in one place, and how their values are read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from servebench import paths
from servebench.errors import UsageError
from servebench.model import Profile
from servebench.printing import Console

DEFAULT_SEED: Final = 1

_TIME: Final = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
_TIMES: Final = "180s, 5m, 1h or 1h30m"

ProfileOption = Annotated[
    Profile,
    typer.Option(
        "--profile",
        help="Which cases, under which loads. quick: each experiment once, waits shortened; a run "
        "takes under 5 minutes. nightly: three launches per case, under an hour. published: the "
        "articles' own durations, about an hour.",
    ),
]

SelectOption = Annotated[
    list[str] | None,
    typer.Option(
        "--select",
        help="Only cases whose id matches this glob, e.g. 'asgi-wsgi/*/py3.14t/*'; repeatable.",
    ),
]

LaunchesOption = Annotated[int | None, typer.Option("--launches", min=1, help="Launches per case.")]

SeedOption = Annotated[
    int, typer.Option("--seed", help="Of the order in which launches are interleaved.")
]


def budget_option(what: str, more: str = "") -> Any:
    """The option `--budget`; its value is for `budget_seconds` to read.

    Args:
        what: What the time is for.
        more: Sentences after the format.
    """
    return typer.Option("--budget", metavar="TIME", help=f"{what}: {_TIMES}. {more}".rstrip())


def budget_seconds(text: str | None) -> float | None:
    """Read the time of a `--budget`, such as 90s, 20m, 1h30m: seconds.

    Raises:
        UsageError: It is none.
    """
    if text is None:
        return None
    found = _TIME.fullmatch(text)
    hours, minutes, seconds = (int(part or 0) for part in found.groups()) if found else (0, 0, 0)
    total = 3600 * hours + 60 * minutes + seconds
    if not total:
        raise UsageError(f"--budget {text!r}: expected a time such as {_TIMES}")
    return float(total)


def repository(console: Console) -> Path:
    """Find the repository that is to be measured, and say which it is.

    Raises:
        UsageError: The working directory lies in none, or in one that declares nothing.
    """
    root = paths.project_root(stand_in=False)
    console.print(f"repository: {root}", markup=False, soft_wrap=True)
    return root


def given(context: typer.Context, name: str) -> bool:
    """Whether an option was given, and has not its default, by the name of its parameter."""
    source = context.get_parameter_source(name)
    return source is not None and source.name in {"COMMANDLINE", "ENVIRONMENT"}
