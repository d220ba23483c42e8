"""Turn SIGINT, SIGTERM and SIGHUP into an exception that unwinds through every `finally`."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from duetbench.core.errors import InterruptedRun

HANDLED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that interrupt a run."""

_AGAIN_S: Final = 0.05
"""Seconds after which a signal that arrived in a finaliser is sent again; it has ended by then."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise `InterruptedRun` at the first of the signals, and ignore further ones.

    The clean-up after the first one stops servers and generators in bounded time. A second Ctrl-C
    would leave them running, or change the exit code.
    """

    def on_signal(signum: int, _frame: FrameType | None) -> None:
        for number in HANDLED:
            signal.signal(number, signal.SIG_IGN)
        raise InterruptedRun(signum)

    def on_unraisable(args: "sys.UnraisableHookArgs") -> None:
        if not isinstance(args.exc_value, InterruptedRun):
            earlier(args)
            return
        for number in handled:
            signal.signal(number, on_signal)
        threading.Timer(_AGAIN_S, os.kill, (os.getpid(), args.exc_value.signal)).start()

    # Ignored signals stay ignored, as nohup requires.
    handled = [n for n in HANDLED if signal.getsignal(n) is not signal.SIG_IGN]
    before = {n: signal.signal(n, on_signal) for n in handled}
    # An exception inside a finaliser goes no further, and later signals would be ignored.
    earlier, sys.unraisablehook = sys.unraisablehook, on_unraisable
    try:
        yield
    finally:
        sys.unraisablehook = earlier
        for number, handler in before.items():
            signal.signal(number, handler)
