"""What a person sees while set-up works: what is being done, and why."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.text import Text

from servebench.progress import duration

Tick = Callable[[str], None]
"""Called from time to time with a few words about how far a step is."""

_QUIET_S: Final = 30.0
"""A log gets a sign of life so often."""


class Narrator:
    """A live status on a terminal; plain lines elsewhere."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def say(self, sentence: str) -> None:
        """Print a sentence."""
        self._console.print(sentence, markup=False, highlight=False, soft_wrap=True)

    @contextmanager
    def step(self, what: str, why: str) -> Iterator[Tick]:
        """Announce a step, show that it lives, and say how long it took."""
        started = time.monotonic()
        if self._console.is_terminal:
            with self._console.status(Text(f"{what}: {why}")) as status:

                def show(detail: str) -> None:
                    passed = duration(time.monotonic() - started)
                    line = Text(f"{what}: {why}  ")
                    status.update(line.append(f"{passed}  {detail[-60:]}", style="dim"))

                yield show
        else:
            self.say(f"{what}: {why}")
            yield self._log_tick(started)
        self.say(f"{what}: done in {duration(time.monotonic() - started)}")

    def _log_tick(self, started: float) -> Tick:
        last = started

        def tick(detail: str) -> None:
            nonlocal last
            now = time.monotonic()
            if now - last >= _QUIET_S:
                last = now
                self.say(f"  … {duration(now - started)}: {detail[-100:]}")

        return tick
