"""`servebench setup`: make everything that measuring needs."""

from __future__ import annotations

import time

from rich.console import Console

from servebench import paths, setup
from servebench.progress import duration
from servebench.signals import interruptible
from servebench.toolchain.narrator import Narrator


def setup_command() -> None:
    """Make interpreters, load generator and environments; a second run only checks them."""
    console = Console()
    narrator = Narrator(console)
    started = time.monotonic()
    with interruptible():
        outcome = setup.set_up(narrator)
    if outcome.made:
        passed = duration(time.monotonic() - started)
        narrator.say(f"made in {passed}: {'; '.join(outcome.made)}. All is in {paths.cache_dir()}")
    if outcome.ready:
        narrator.say(f"ready and checked: {'; '.join(outcome.ready)}")
