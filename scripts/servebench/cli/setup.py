"""`servebench setup`: make everything that measuring needs."""

from __future__ import annotations

import time
from typing import Annotated

import typer
from rich.console import Console

from servebench import paths, setup
from servebench.progress import duration
from servebench.signals import interruptible
from servebench.toolchain.narrator import Narrator


def setup_command(
    tests: Annotated[
        bool, typer.Option("--tests", help="Also what only the tests want: a browser.")
    ] = False,
) -> None:
    """Make interpreters, load generator and environments; a second run only checks them."""
    console = Console()
    narrator = Narrator(console)
    started = time.monotonic()
    with interruptible():
        outcome = setup.set_up(narrator, tests=tests)
    if outcome.made:
        passed = duration(time.monotonic() - started)
        made = "; ".join(outcome.made)
        narrator.say(f"made in {passed}: {made}. What is ours is in {paths.cache_dir()}")
    if outcome.ready:
        narrator.say(f"ready and checked: {'; '.join(outcome.ready)}")
