"""Bad days: whatever goes wrong in one launch ends in its flag, and in nothing else.

In each of them another case of the same plan goes on, the exit code is 1, no figure of the failed
launch is kept or shown anywhere, and nothing is left alive.
"""

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import psutil
import pytest

from bench import Bench, eventually, failures, launches, lives, valid
from duetbench.app.testbed import SideCase
from duetbench.core.model import Case, Launch, Run, Status
from duetbench.host import ports, result_files
from duetbench.host.tree_usage import Edge
from duetbench.load import launch, oha_results, runner
from duetbench.load import server as serving
from duetbench.load.server import Serving
from serverlings import started

pytestmark = pytest.mark.real


class Day(NamedTuple):
    """What a launch ends with, words of the reason, and what is another for it alone."""

    flag: str
    words: str
    patches: tuple[tuple[object, str, object], ...] = ()
    testbed: Mapping[str, Any] = MappingProxyType({})


@contextmanager
def stranger(port: int) -> Iterator[subprocess.Popen[str]]:
    with started("listen", port, env={}) as (process, words):
        assert words == ["ready"]
        yield process
        assert process.poll() is None, "duetbench ended a process that is not its own"


def bad_days(bench: Bench, days: Mapping[str, Day], *others: str) -> dict[str, str]:
    """Let them happen in one plan, beside a case that is right; the reasons."""
    real = launch.perform

    def perform(side: SideCase, *arguments: Any, **place: Any) -> Launch:
        day = days.get(side.case.id.removeprefix("badapps/"))
        if day is None:
            return real(side, *arguments, **place)
        with bench.patch.context() as patch:
            for of in day.patches:
                patch.setattr(*of)
            return real(
                SideCase(side.case, replace(side.testbed, **day.testbed)), *arguments, **place
            )

    bench.patch.setattr(runner, "perform", perform)
    bench.patch.setattr(serving, "_TRACEBACK_SECONDS", 0.05)
    result = bench.run("right", *others, *days)
    assert (result.code, result.err) == (1, ""), result
    nothing_left(bench)
    (path,) = result_files.runs(bench.results)
    described, shown = bench("show", path, "-o", "-"), bench("show", path)
    reasons = {}
    for run in (bench.saved_run(), Run.model_validate_json(described.out)):
        (right,) = launches(run)["right"]
        assert valid(right), right
        for bad, day in days.items():
            (failed,) = launches(run)[bad]
            assert (failed.status, failed.metrics) == (Status.FAILED, {})
            assert day.flag in failures(failed.flags), failed.flags
            reasons[bad] = next(flag.detail for flag in failed.flags if flag.name == day.flag)
            assert day.words in reasons[bad]
    lines = [line.split() for line in shown.out.splitlines()]
    rows = {line[0] for line in lines if line[1:] == ["failed"]}
    assert rows == {f"badapps/{bad}" for bad in days}
    output = result.out.splitlines()
    for bad, day in days.items():
        assert any(day.flag in line and f"badapps/{bad} " in line for line in output)
    return reasons


def nothing_left(bench: Bench) -> None:
    assert not [process.cmdline() for process in bench.alive()]
    assert not bench.sessions


ORPHANING = "orphaning/granian"
WRONG = {
    "wrong": Day("wrong_answer", "found 'left'"),
    "broken": Day("not_ready", "no database today"),
    "gil": Day("not_ready", "expected the GIL off, found on"),
    "dying": Day("server_died", "exit code 9"),
    "dying/w2": Day("server_died", "to stay, found"),
    ORPHANING: Day("stray_process", "1 of its processes had to be killed"),
}


@pytest.mark.long
def test_a_wrong_server_gives_no_figure(bench: Bench) -> None:
    reasons = bad_days(bench, WRONG)
    # Its last words are the reason, not the errors of the generator.
    assert "Application startup complete" in reasons["dying"]
    (log,) = (bench.folder / "state").rglob("*orphaning*.log")
    (output,) = [line for line in log.read_text().splitlines() if line.startswith("orphan ")]
    _, pid, port, *words = output.split()
    assert "listening" in words[0]
    assert not lives(int(pid))
    ports.require_free(int(port))


def hurry(ready: float) -> tuple[object, str, object]:
    """Wait no longer than so many seconds for a server, nor than one for an answer."""
    real = Serving.take

    def take(served: Serving, case: Case) -> None:
        load = case.load.model_copy(update={"timeout": 1.0})
        real(served, case.model_copy(update={"ready_timeout": ready, "load": load}))

    return Serving, "take", take


@pytest.mark.long
def test_whatever_else_goes_wrong_gives_no_figure(bench: Bench) -> None:
    """Servers that never get ready, strangers on the port, no generator, mistakes of ours.

    A server that hangs on SIGTERM is killed; what it measured before stands, with a warning.
    """
    bench.patch.setattr(serving, "GRACE_SECONDS", 0.5)

    def mistake(*_arguments: Any, **_named: Any) -> dict[str, float]:
        return {"throughput": 1 / 0}

    with ExitStack() as stack:
        # Granian would share the port with it; no server is started beside it, nor is it ended.
        taken = ports.free_port()
        foreign = [stack.enter_context(stranger(taken)).pid]
        real = Serving.edge

        def edge(server: Serving) -> Edge:
            if len(foreign) < 2:  # right before the load
                foreign.append(stack.enter_context(stranger(server.port)).pid)
            return real(server)

        here, wrong = (ports, "free_port", lambda: taken), (oha_results, "figures", mistake)
        # A stranger answers nothing.
        joined = (Serving, "edge", edge), hurry(30.0)
        days = {
            "blocked": Day("not_ready", "accepted no connection within 1 s", (hurry(1.0),)),
            "right/granian/1": Day("stray_process", "listens on it", (here,)),
            "right/granian/2": Day("stray_process", "process ", joined),
            "right/uvicorn/1": Day("load_failed", "No such file", (), {"oha": bench.folder / "no"}),
            "right/uvicorn/2": Day("harness_error", "ZeroDivisionError", (wrong,)),
        }
        reasons = bad_days(bench, days, "hanging")
        for number, pid in enumerate(foreign, start=1):
            assert f"process {pid} " in reasons[f"right/granian/{number}"]
    (log,) = (bench.folder / "state").rglob("*right*uvicorn*2.log")
    assert log.name in reasons["right/uvicorn/2"]
    assert "in mistake" in log.read_text()
    (hanging,) = launches(bench.saved_run())["hanging"]
    assert valid(hanging), hanging
    (detail,) = [flag.detail for flag in hanging.flags if flag.name == "stop_timeout"]
    assert "1 of its processes had to be killed" in detail


def test_kill_9_of_duetbench_itself(bench: Bench) -> None:
    """The next run reports and ends what was left, by its record."""

    def pids(word: str) -> list[int]:
        result = []
        for process in bench.alive():
            with suppress(psutil.Error):  # a warm-up ends meanwhile
                result += [process.pid] * (word in process.cmdline())
        return result

    first = bench.start("--profile", "published", "--select", "badapps/right")
    try:
        eventually("the load", lambda: len(pids("--db-url")) == 1)
        (server,) = pids("uvicorn")
        (generator,) = pids("--db-url")
        rows_of_it = Path(f"/proc/{generator}/cwd").readlink()
        # Looked at now: once their owner is dead, any other run may sweep them.
        assert rows_of_it.is_dir()
    finally:
        first.kill()
        first.communicate()
    left = {server, generator}
    eventually("both are left", lambda: {process.pid for process in bench.alive()} == left)
    outcome = bench.run("right")
    assert outcome.code == 0
    notes = [line for line in outcome.out.splitlines() if line.startswith("note: ended 1 process")]
    assert len(notes) == 2
    assert sum("-m uvicorn" in note for note in notes) == 1
    assert sum("oha, started " in note for note in notes) == 1
    assert not {pid for pid in left if lives(pid)}
    assert not rows_of_it.exists()
    assert valid(launches(bench.saved_run())["right"][0])
    nothing_left(bench)
