"""`duetbench run` as people use it: interrupted, gone on with, refused."""

import asyncio
import logging
import os
import signal
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from bench import Bench, eventually, failures, launches, valid
from duetbench.core.errors import UsageError
from duetbench.core.model import RunStatus, Status
from duetbench.host.signals import InterruptedRun, interruptible
from duetbench.measure import runner
from duetbench.measure.assembly import assemble
from duetbench.project import plan as planning
from duetbench.project import tools
from duetbench.project.project import Project

HANDLED = (signal.SIGINT, signal.SIGTERM)


@pytest.mark.long
@pytest.mark.real
def test_ctrl_c_keeps_what_was_measured_and_resume_completes_it(bench: Bench) -> None:
    """The finished run holds every launch once: the kept ones as they were, failed ones again."""
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
    again = f"duetbench run --resume latest --results {bench.results}"
    told = f"interrupted by SIGINT: {len(kept)} of 4 launches kept; go on: {again}"
    assert err == f"duetbench: {told}\n"

    done = bench("run", "--results", bench.results, "--resume", "latest")
    assert done.code == 1, done  # for the case that always fails
    assert not done.err
    shown = bench(*done.out.splitlines()[-1].partition("duetbench ")[2].split())
    assert (shown.code, f"Run {partial.id}\n" in shown.out) == (0, True), shown
    run = bench.saved_run()
    assert (run.id, run.status) == (partial.id, RunStatus.COMPLETE)
    assert run.wall_seconds > partial.wall_seconds
    assert run.notes[0].startswith("interrupted by SIGINT at ")
    assert bench.unfinished() is None
    found = [launch for many in launches(run).values() for launch in many]
    assert sorted((x.case, x.round) for x in found) == sorted(
        (f"badapps/{name}", round_) for name in names for round_ in (0, 1)
    )
    assert sorted(x.order for x in found) == list(range(4))
    assert all(launch in found for launch in kept)
    assert all(valid(x) for x in launches(run)["right"])
    assert all(failures(x) == {"wrong_status"} for x in launches(run)["error"])

    refused = bench("run", "--results", bench.results, "--resume", "latest")
    assert (refused.code, "no interrupted run" in refused.err) == (2, True)
    refused = bench("run", "--results", bench.results, "--resume", run.id)
    assert (refused.code, "never changes" in refused.err) == (2, True)


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
    assert err.startswith("duetbench: interrupted by SIGTERM: 0 of 1 launches kept; go on: "), err
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


@pytest.mark.real
def test_a_run_is_resumed_under_its_own_conditions_only(bench: Bench, tmp_path: Path) -> None:
    plan = planning.make_plan(Project.here().cases, "quick", ["badapps/right"], 1, 1)
    here = assemble(Project.here(), plan.cases, tmp_path / "logs")
    run = runner.header(plan, here, bench.root)
    runner.require_resumable(run, here, bench.root)
    (stack,), (interpreter,) = run.stacks, run.interpreters
    made = tools.oha_origin(tools.find_oha(Project.here().configuration.oha))
    assert run.oha_origin == made
    other = "source" if made == "prebuilt" else "prebuilt"
    changes: list[tuple[str, dict[str, Any]]] = [
        ("stacks", {"stacks": (stack.model_copy(update={"digest": "0" * 64}),)}),
        ("oha", {"oha": "1.0.0"}),
        ("oha", {"oha_origin": other}),
        ("machine", {"machine": run.machine.model_copy(update={"id": "another"})}),
        ("interpreters", {"interpreters": (interpreter.model_copy(update={"build": "-O0"}),)}),
    ]
    for what, change in changes:
        moved = run.model_copy(update=change)
        with pytest.raises(UsageError, match=f"its {what} differ") as caught:
            runner.require_resumable(moved, here, bench.root)
        assert "start a new run" in str(caught.value)


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
