"""SIGINT, SIGTERM and SIGHUP as an exception that unwinds through every `finally`."""

from __future__ import annotations

import logging
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class InterruptedRun(SystemExit):
    """The run was asked to stop: by whom, and the exit code that says so.

    `advice` is what its user should know: what is kept, how to go on.

    A `SystemExit`, because asyncio swallows any other exception that a signal handler raises in
    the middle of one of its callbacks, and the run would go on.
    """

    def __init__(self, signum: int) -> None:
        self.signal = signal.Signals(signum)
        self.advice = ""
        super().__init__(self.exit_code)

    def __str__(self) -> str:
        """Name the signal."""
        return self.signal.name

    @property
    def exit_code(self) -> int:
        """128 + signal, as shells report it."""
        return 128 + self.signal


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise `InterruptedRun` at the first of the signals; ignore further ones from then on.

    The clean-up that the first one starts stops servers and generators in bounded time; a second
    Ctrl-C in its middle would leave them behind, and one after it would change the exit code.
    """

    def on_signal(signum: int, _frame: FrameType | None) -> None:
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        # An event loop has much to say about the tasks that are lost with it, and nobody to read.
        logging.getLogger("asyncio").disabled = True
        warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
        raise InterruptedRun(signum)

    # What is ignored already stays so: that is what nohup is for.
    heard = [n for n in _SIGNALS if signal.getsignal(n) is not signal.SIG_IGN]
    before = {n: signal.signal(n, on_signal) for n in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is on_signal:
                signal.signal(number, handler)
