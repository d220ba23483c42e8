"""Options that several verbs share, each in one place."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from servebench.model import Profile

DEFAULT_SEED: Final = 1

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
