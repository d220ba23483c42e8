"""Options that several verbs share, each in one place, and how their values are read."""

from __future__ import annotations

import re
from typing import Annotated, Final

import typer

from servebench.errors import UsageError
from servebench.model import Profile

DEFAULT_SEED: Final = 1

_TIME: Final = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")

ProfileOption = Annotated[Profile, typer.Option("--profile", help="quick, nightly or published.")]

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
        raise UsageError(f"--budget {text!r}: expected a time such as 90s, 20m, 1h or 1h30m")
    return float(total)
