"""Options that several verbs share, each in one place, and how their values are read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from servebench import files, paths
from servebench.errors import UsageError
from servebench.model import Profile
from servebench.printing import Console

DEFAULT_SEED: Final = 1

FOR_WORKFLOWS: Final = "For workflows"
"""Panel of a verb's help for the options that nobody gives by hand."""

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
    int, typer.Option("--seed", help="Of what is drawn at random, such as the order of launches.")
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


def day(text: str, option: str, more: str = "") -> date:
    """Read a date.

    Args:
        text: What was given.
        option: Where, for the message.
        more: What else would have been right.

    Raises:
        UsageError: It is none.
    """
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"{option} {text!r}: expected a date such as 2026-03-01{more}") from error


def require_writable(targets: Mapping[str, Path | None]) -> None:
    """Try the files that will be written, before hours of work go into them.

    Args:
        targets: By the option that names them; None: not given.

    Raises:
        UsageError: There can be no such file.
        RecordError: It cannot be written.
    """
    for option, path in targets.items():
        if path is None:
            continue
        if path.is_dir():
            raise UsageError(f"{option} {path}: expected a file, found a folder")
        if not path.parent.is_dir():
            raise UsageError(f"{option} {path}: there is no folder {path.parent}: make it first")
        if path.is_file() or not path.exists():  # a pipe or device is not tried
            files.require_writable(path)


def given(context: typer.Context, name: str) -> bool:
    """Whether an option was given, and has not its default, by the name of its parameter."""
    source = context.get_parameter_source(name)
    return source is not None and source.name in {"COMMANDLINE", "ENVIRONMENT"}
