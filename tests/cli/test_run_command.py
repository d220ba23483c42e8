"""`duetbench run` as people use it, interrupted."""

import asyncio
import logging
import os
import signal
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress

import psutil
import pytest

from bench import Bench, eventually, launches
from duetbench.core.model import RunStatus, Status
from duetbench.host.signals import InterruptedRun, interruptible

HANDLED = (signal.SIGINT, signal.SIGTERM)


@pytest.mark.long
@pytest.mark.real
def test_ctrl_c_keeps_what_was_measured(bench: Bench) -> None:
    names = ("right", "error")
    selected = [word for name in names for word in ("--select", f"badapps/{name}")]
    process = bench.start("--launches", "2", *selected)

    def good_ones() -> int:
        partial = bench.unfinished()
        found = [] if partial is None else [x for many in launches(partial).values() for x in many]
        return sum(launch.status is Status.OK for launch in found)

    try:
        eventually("a launch to be saved", lambda: good_ones() > 0)
        # A nervous hand presses it more than once; a terminal sends it to the whole group.
        for _ in range(3):
            os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate()
    finally:
        process.kill()
    assert process.returncode == 130, out
    assert not bench.alive()
    assert not bench.sessions
    partial = bench.unfinished()
    assert partial is not None
    assert partial.status is RunStatus.PARTIAL
    kept = [x for many in launches(partial).values() for x in many if x.status is Status.OK]
    assert len(kept) == 1  # of two
    told = f"interrupted by SIGINT: {len(kept)} of 4 launches kept: duetbench show {partial.id}"
    assert err == f"duetbench: {told}\n"
    assert partial.notes[0].startswith("interrupted by SIGINT at ")
    shown = bench("show", partial.id, "--results", bench.results)
    assert (shown.code, f"Run {partial.id} (partial)\n" in shown.out) == (0, True), shown


@pytest.mark.real
@pytest.mark.parametrize(("case", "sign"), [("right", "--db-url"), ("blocked", "uvicorn")])
def test_sigterm_leaves_no_process(bench: Bench, case: str, sign: str) -> None:
    process = bench.start("--profile", "published", "--select", f"badapps/{case}")
    try:
        eventually("the moment", lambda: any(sign in words for words in _commands(bench)))
        assert bench.sessions
        process.terminate()
        out, err = process.communicate()
    finally:
        process.kill()
    assert process.returncode == 143, out
    assert err.startswith("duetbench: interrupted by SIGTERM: 0 of 1 launches kept: "), err
    assert not bench.alive()
    assert not bench.sessions
    partial = bench.unfinished()
    assert partial is not None
    assert not launches(partial)[case]
    assert partial.notes[0].startswith("interrupted by SIGTERM at ")


def _commands(bench: Bench) -> Iterator[list[str]]:
    """The command lines of what is alive, without what ends while it is looked at."""
    for process in bench.alive():
        with suppress(psutil.Error):
            yield process.cmdline()


@pytest.fixture
def handlers() -> Iterator[None]:
    """Put back what an interruption leaves as it is."""
    before = {number: signal.getsignal(number) for number in HANDLED}
    with warnings.catch_warnings():
        yield
    logging.getLogger("asyncio").disabled = False
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("handlers")
def test_an_interruption_is_not_lost_in_asyncio() -> None:

    async def interrupted() -> None:
        asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGINT)
        await asyncio.sleep(30)

    with pytest.raises(InterruptedRun) as caught, interruptible():
        asyncio.run(interrupted())
    assert (str(caught.value), caught.value.exit_code) == ("SIGINT", 130)


def test_signals_are_ignored_while_an_interrupted_command_cleans_up_and_not_after_it() -> None:
    """A second one changes nothing; whoever called the command gets the next."""
    handler, ignored = signal.getsignal(signal.SIGTERM), []

    def measure() -> None:
        with interruptible():
            try:
                with interruptible():
                    os.kill(os.getpid(), signal.SIGTERM)
                    time.sleep(30)
            finally:
                ignored.append(signal.getsignal(signal.SIGTERM) is signal.SIG_IGN)

    with pytest.raises(InterruptedRun):
        measure()
    assert ignored == [True]
    assert signal.getsignal(signal.SIGTERM) is handler is not signal.SIG_IGN
