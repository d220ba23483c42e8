"""Bad days: whatever goes wrong in one launch ends in its flag, and in nothing else.

In each of them another case of the same plan goes on, the exit code is 1, no figure of the failed
launch is kept or shown anywhere, and nothing is left alive.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import pytest

from bench import (
    Bench,
    Done,
    ask_often,
    eventually,
    failures,
    launches,
    lives,
    shortened,
    valid,
)  # fmt: skip
from disks import file_limit, small_disk
from servebench.core.model import Case, Launch, Run, RunStatus, Status
from servebench.declare.servers import SERVERS
from servebench.host import orphans, ports
from servebench.host.session import Session
from servebench.measure import launch, oha, oha_results, runner, warmup
from servebench.measure import server as serving
from servebench.measure.testbed import Rig
from servebench.record import store
from servebench.toolchain import stacks
from serverlings import command

pytestmark = pytest.mark.real

Figures = dict[str, dict[str, float]]
GRACE = 0.5  # s to stop, and 1 s to get ready, are plenty where it never happens


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> Figures:
    found: Figures = {}
    real = launch._Launch.run

    def run(self: launch._Launch) -> None:
        try:
            real(self)
        finally:
            found[_name(self.case)] = dict(self.metrics)

    monkeypatch.setattr(launch._Launch, "run", run)
    return found


def _name(case: Case) -> str:
    return case.id.removeprefix("badapps/")


def only_for(
    monkeypatch: pytest.MonkeyPatch,
    bad: str,
    change: Callable[[pytest.MonkeyPatch], None] = lambda _patch: None,
    rig: Callable[[Rig], Rig] = lambda same: same,
    seconds: float | None = None,
) -> None:
    real = launch.perform

    def perform(case: Case, given: Rig, *arguments: Any) -> runner.LaunchOutcome:
        if _name(case) != bad:
            return real(case, given, *arguments)
        with monkeypatch.context() as patch:
            change(patch)
            if seconds is not None:
                case = shortened(case, duration=seconds)
            return real(case, rig(given), *arguments)

    monkeypatch.setattr(launch, "perform", perform)


@contextmanager
def stranger(port: int, *, shared: bool) -> Iterator[subprocess.Popen[str]]:
    argv = command("listen", port, *(["shared"] if shared else []))
    with subprocess.Popen(argv, env={}, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
            assert process.poll() is None, "servebench ended a process that is not its own"
        finally:
            process.kill()


def a_bad_day(
    bench: Bench, done: Done, bad: str, flag: str, computed: Figures, *, late: bool = False
) -> str:
    run = bench.recorded()
    (failed,), (right,) = launches(run)[bad], launches(run)["right"]
    assert failed.status is Status.FAILED
    assert flag in failures(failed), failed.flags
    assert valid(right), right
    assert done.code == 1, done
    assert not done.err
    lines = [line for line in done.out.splitlines() if f"badapps/{bad} " in line]
    assert len(lines) == 1, done.out
    assert flag in lines[0]
    nothing_left(bench)
    assert bool(computed.get(bad)) == late
    no_figure(bench, run, bad, computed.get(bad, {}))
    return next(one.detail for one in failed.flags if one.name == flag)


def nothing_left(bench: Bench) -> None:
    assert not [process.cmdline() for process in bench.alive()]
    assert not bench.sessions


def no_figure(bench: Bench, run: Run, bad: str, computed: dict[str, float]) -> None:
    (path,) = store.runs(bench.results)
    described, shown = bench("show", path, "--json"), bench("show", path)
    assert (described.code, shown.code) == (0, 0)
    (case,) = [c for c in json.loads(described.out)["cases"] if c["id"] == f"badapps/{bad}"]
    assert (case["status"], case["metrics"]) == ("failed", {})
    assert launches(run)[bad][0].metrics == {}
    (row,) = [line for line in shown.out.splitlines() if "ours" in line and "failed" in line]
    assert not any(letter.isdigit() for letter in row.partition("failed")[2]), row
    text = path.read_text("utf-8") + described.out
    right = {f"{value:.6g}" for value in launches(run)["right"][0].metrics.values()}
    for name, value in computed.items():
        digits = f"{value:.6g}"
        # Shorter ones, such as 24 requests, are in every file; and chance makes some equal.
        if "." in digits and len(digits) >= 7 and digits not in right:
            assert digits not in text, name


@pytest.mark.parametrize(
    ("bad", "flag", "words"),
    [
        ("error", "wrong_status", "expected status 200, found 500"),
        ("wrong", "wrong_body", "found 'left'"),
        ("rash", "impossible", "too fast to be true: expected at least 0.5 s"),
        ("broken", "not_ready", "no database today"),
        ("gil/uvicorn", "gil_mismatch", "expected the GIL to be off, found it on"),
        ("gil/granian", "not_ready", "Cannot run a free-threaded Granian build with GIL enabled"),
    ],
)
def test_a_wrong_server_is_not_even_measured(
    bench: Bench, computed: Figures, bad: str, flag: str, words: str
) -> None:
    done = bench.run("right", bad)
    assert words in a_bad_day(bench, done, bad, flag, computed)


@pytest.mark.parametrize(
    ("bad", "flag", "words"),
    [
        ("strained", "wrong_status", "expected status 200 always, found another in"),
        ("hasty", "impossible", "the floor"),
        ("dying/w2", "worker_restarted", "to the end, found"),
    ],
)
def test_what_is_wrong_under_load_only_is_seen_afterwards(
    bench: Bench, computed: Figures, bad: str, flag: str, words: str
) -> None:
    done = bench.run("right", bad)
    assert words in a_bad_day(bench, done, bad, flag, computed, late=True)


LIES = {"wrong_size", "memory_grows", "connections_reopened"}


def told(launched: Launch) -> dict[str, str]:
    return {
        flag.name.value: flag.detail
        for flag in launched.flags
        if flag.name in LIES or "in the load" in flag.detail
    }


def test_liars(bench: Bench, computed: Figures, monkeypatch: pytest.MonkeyPatch) -> None:
    """Status, content type and single answers are right, and so is no figure of theirs."""
    real = warmup.warm_up
    briefly = {"window": 0.2, "limit": 1.0}
    monkeypatch.setattr(warmup, "warm_up", lambda *one, **more: real(*one, **more | briefly))
    only_for(monkeypatch, "mask", ask_often)
    done = bench.run("truthful", "empty", "uneven", "mask", "keep", "quicken", "closing")
    assert done.code == 1, done
    found = {name: told(launched) for name, (launched,) in launches(bench.recorded()).items()}
    assert not LIES & found["truthful"].keys(), found

    for name, size, every in (("empty", 0, 500), ("uneven", 7, 50)):
        lies = found[name].pop("wrong_size")
        counts = re.match(
            r"expected bodies of 5 bytes, found others in (\d+) of (\d+) answers", lies
        )
        assert counts, lies
        wrong, answers = map(int, counts.groups())
        assert answers == computed[name]["good"]
        # Fewer, should a request have been alone for once.
        assert 0.8 * answers / every - 1 <= wrong <= answers / every + 1, lies
        assert f": {wrong} of {size} bytes;" in lies
        assert not LIES & found[name].keys()
    assert launches(bench.recorded())["empty"][0].metrics == {}

    (masked,) = launches(bench.recorded())["mask"]
    assert failures(masked) == {"wrong_body"}
    assert "under load: expected text like 'right', found 'wrong'" in masked.flags[0].detail

    kept = computed["keep"]
    assert kept["memory_per_request"] == pytest.approx(20_000, rel=0.1)
    assert (
        1_000
        < kept["memory_per_request_low"]
        < kept["memory_per_request"]
        < kept["memory_per_request_high"]
    )
    assert LIES & found["keep"].keys() == {"memory_grows"}

    assert "by thirds" in found["quicken"]["not_steady"]
    assert not LIES & found["quicken"].keys()

    reopened, requests = (computed["closing"][n] for n in ("connections_reopened", "requests"))
    # Those closed by the last answers of all are not opened again.
    assert requests / 10 - 17 <= reopened <= requests / 10 + 1, (reopened, requests)
    assert LIES & found["closing"].keys() == {"connections_reopened"}
    assert f"found {reopened:.0f} opened beside them" in found["closing"]["connections_reopened"]


def test_a_server_that_dies_in_the_middle(bench: Bench, computed: Figures) -> None:
    """Its exit code and last words are the reason, not the errors of the generator."""
    done = bench.run("right", "dying")
    detail = a_bad_day(bench, done, "dying", "server_died", computed)
    assert "exit code 9" in detail
    assert "Application startup complete" in detail


@pytest.mark.parametrize("bad", ["blocked", "never"])
def test_a_server_that_never_gets_ready(
    bench: Bench, computed: Figures, monkeypatch: pytest.MonkeyPatch, bad: str
) -> None:
    """Neither an import that hangs nor a worker that does not answer is waited for for ever."""

    def hurry(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(serving, "READY_SECONDS", 1.0)
        _short_grace(patch)

    only_for(monkeypatch, bad, hurry)
    done = bench.run("right", bad)
    assert "expected 1" in a_bad_day(bench, done, bad, "not_ready", computed)


def _short_grace(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(SERVERS, "uvicorn", dataclasses.replace(SERVERS["uvicorn"], grace=GRACE))


def test_a_server_that_hangs_on_sigterm(
    bench: Bench, computed: Figures, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is killed after its grace; what it measured before stands, with a warning."""
    only_for(monkeypatch, "hanging", _short_grace)
    done = bench.run("right", "hanging")
    assert done.code == 0, done
    (hanging,) = launches(bench.recorded())["hanging"]
    assert hanging.metrics == pytest.approx(computed["hanging"], rel=1e-4)
    (detail,) = [flag.detail for flag in hanging.flags if flag.name == "stop_timeout"]
    assert "1 of its processes had to be killed" in detail
    nothing_left(bench)


def test_a_server_that_leaves_an_orphan(bench: Bench, computed: Figures) -> None:
    bad = "orphaning/granian"
    done = bench.run("right", bad)
    detail = a_bad_day(bench, done, bad, "not_stopped", computed, late=True)
    assert "1 of its processes had to be killed" in detail
    (log,) = (bench.folder / "state").rglob("*orphaning*.log")
    (said,) = [line for line in log.read_text().splitlines() if line.startswith("orphan ")]
    _, pid, port, *words = said.split()
    assert "listening" in words[0]
    assert not lives(int(pid))
    ports.require_free(int(port))


@pytest.mark.parametrize("shared", [False, True])
def test_a_foreign_listener_before_the_start(
    bench: Bench, computed: Figures, monkeypatch: pytest.MonkeyPatch, shared: bool
) -> None:
    """Granian would share the port with it; no server is started beside it, nor is it ended."""
    bad, port = "victim/granian", ports.free_port()
    with stranger(port, shared=shared) as foreign:
        only_for(monkeypatch, bad, lambda patch: patch.setattr(ports, "free_port", lambda: port))
        done = bench.run("right", bad)
        detail = a_bad_day(bench, done, bad, "foreign_listener", computed)
        assert f"process {foreign.pid} " in detail
        assert f"listens on 127.0.0.1:{port}" in detail


def test_a_foreign_listener_that_joins_under_load(
    bench: Bench, computed: Figures, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = "victim/granian"
    foreign: list[int] = []
    with ExitStack() as stack:
        real = ports.connections_per_process

        def midway(port: int, session: Session) -> dict[int, int]:
            foreign.append(stack.enter_context(stranger(port, shared=True)).pid)
            return real(port, session)

        only_for(
            monkeypatch, bad, lambda patch: patch.setattr(ports, "connections_per_process", midway)
        )
        done = bench.run("right", bad)
        detail = a_bad_day(bench, done, bad, "foreign_listener", computed)
        assert f"process {foreign[0]} " in detail


def test_another_pydantic(bench: Bench, computed: Figures, monkeypatch: pytest.MonkeyPatch) -> None:
    def swap(given: Rig) -> Rig:
        other = stacks.environment("pydantic-v2", "3.14")
        return dataclasses.replace(given, pythons={**given.pythons, ("pydantic-v1", "3.14"): other})

    only_for(monkeypatch, "swapped", rig=swap)
    done = bench.run("right", "swapped")
    detail = a_bad_day(bench, done, "swapped", "version_mismatch", computed)
    assert "pydantic: expected 1.10" in detail


def test_oha_that_was_never_made(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "servebench"
    cache = tmp_path / "cache" / "servebench"
    cache.mkdir(parents=True)
    for name in ("interpreters", "environments"):
        (cache / name).symlink_to(made / name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache.parent))
    done = bench.run("right")
    assert done.code == 4
    assert done.err.splitlines() == [
        "servebench: oha 1.16.0 has not been made: run `make setup`"
    ], done
    assert not store.runs(bench.results, partial=True)
    nothing_left(bench)


def test_oha_that_is_missing_in_the_middle(
    bench: Bench, computed: Figures, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    only_for(
        monkeypatch, "victim", rig=lambda given: dataclasses.replace(given, oha=tmp_path / "oha")
    )
    done = bench.run("right", "victim")
    detail = a_bad_day(bench, done, "victim", "client_failed", computed)
    assert "No such file" in detail
    assert "make setup" in detail


def test_oha_that_is_missing_everywhere(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    only_for(
        monkeypatch, "victim", rig=lambda given: dataclasses.replace(given, oha=tmp_path / "oha")
    )
    done = bench.run("victim")
    assert done.code == 3
    assert len(done.err.splitlines()) == 1
    (launched,) = launches(bench.recorded())["victim"]
    assert failures(launched) == {"client_failed"}
    nothing_left(bench)


def test_oha_that_is_killed(
    bench: Bench, computed: Figures, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGKILL in the middle of the load."""
    real = oha.Generation.start

    def start(*arguments: Any, **named: Any) -> oha.Generation:
        generation = real(*arguments, **named)
        threading.Timer(0.2, os.kill, (generation.session.pid, signal.SIGKILL)).start()
        return generation

    only_for(
        monkeypatch,
        "victim",
        lambda patch: patch.setattr(oha.Generation, "start", start),
        seconds=20,
    )
    done = bench.run("right", "victim")
    detail = a_bad_day(bench, done, "victim", "client_failed", computed)
    assert "expected exit code 0, found -9" in detail


def test_oha_that_prints_rubbish(
    bench: Bench, computed: Figures, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It works in the warm-up, and then says something else than a summary, with success."""

    def rubbish(given: Rig) -> Rig:
        fake = tmp_path / "oha"
        fake.write_text(
            f'#!/bin/sh\ncase "$*" in *--db-url*) ;; *) exec {given.oha} "$@" ;; esac\n'
            'while [ "$1" != -o ]; do shift; done\necho "<b>502</b>" > "$2"\n'
        )
        fake.chmod(0o755)
        return dataclasses.replace(given, oha=fake)

    only_for(monkeypatch, "victim", rig=rubbish)
    done = bench.run("right", "victim")
    detail = a_bad_day(bench, done, "victim", "client_failed", computed)
    assert "<b>502</b>" in detail


def test_a_mistake_of_servebench(
    bench: Bench, computed: Figures, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mistaken(*_arguments: Any, **_named: Any) -> dict[str, float]:
        return {"throughput": 1 / 0}

    only_for(monkeypatch, "victim", lambda patch: patch.setattr(oha_results, "figures", mistaken))
    done = bench.run("right", "victim")
    detail = a_bad_day(bench, done, "victim", "harness_error", computed)
    assert "ZeroDivisionError" in detail
    (log,) = (bench.folder / "state").rglob("*victim*.log")
    assert log.name in detail
    assert "in mistaken" in log.read_text()


@pytest.mark.parametrize("how", ["full", "limited"])
def test_a_full_disk(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, how: Literal["full", "limited"]
) -> None:
    bench.results.mkdir()
    with small_disk(bench.results) if how == "full" else nothing() as fill:
        saves: list[str] = []

        def only_once(real: Callable[[Path, Run], Path]) -> Callable[[Path, Run], Path]:
            def save(results: Path, run: Run) -> Path:
                saves.append(real.__name__)
                if len(saves) == 1:
                    return real(results, run)
                fill()
                with file_limit() if how == "limited" else nothing():
                    return real(results, run)

            return save

        for name in ("save_partial", "finalise"):
            monkeypatch.setattr(store, name, only_once(getattr(store, name)))
        done = bench.run("right", "error", "wrong")
        assert saves == ["save_partial"] * 3 + ["finalise"]
        assert done.code == 4
        (line,) = done.err.splitlines()
        assert "the file could not be saved" in line
        assert ("the disk is full" if how == "full" else "file size limit") in line
        assert done.out.count("note: not saved yet, going on") == 2
        assert "[3/3]" in done.out
        partial = bench.unfinished()
        assert partial is not None
        assert partial.status is RunStatus.PARTIAL
        assert [len(many) for many in launches(partial).values()].count(1) == 1
        assert not store.runs(bench.results)
        assert not list(bench.results.rglob(".*"))
        nothing_left(bench)


@contextmanager
def nothing() -> Iterator[Callable[[], None]]:
    yield lambda: None


def test_kill_9_of_servebench_itself(bench: Bench) -> None:
    """The next run reports and ends what was left, by its record, and nothing that looks alike."""
    first = bench.start("--profile", "published", "--select", "badapps/right")
    try:
        eventually("the load", lambda: len(_records(bench, "--db-url")) == 1)
        (server,) = _records(bench, "uvicorn")
        (generator,) = _records(bench, "--db-url")
        rows_of_it = Path(generator.argv[generator.argv.index("--db-url") + 1]).parent
        # Looked at now: once their owner is dead, any other run may sweep them.
        assert rows_of_it.is_dir()
    finally:
        first.kill()
        first.communicate()
    assert server.pid is not None
    assert generator.pid is not None
    left = {server.pid, generator.pid}
    eventually("both are left", lambda: {process.pid for process in bench.alive()} == left)
    look_alike = subprocess.Popen(
        [word if word != _port(server) else str(ports.free_port()) for word in server.argv],
        cwd=bench.root / "apps" / "badapps",
        env={"PYTHONPATH": str(bench.root / "apps")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        done = bench.run("right")
        assert done.code == 0
        notes = [line for line in done.out.splitlines() if line.startswith("note: ended 1 process")]
        assert len(notes) == 2
        assert sum("-m uvicorn" in note for note in notes) == 1
        assert sum("--db-url" in note for note in notes) == 1
        assert not {pid for pid in left if lives(pid)}
        assert look_alike.poll() is None
        assert not rows_of_it.exists()
        (note,) = bench.recorded().notes
        assert "2 sessions" in note
        assert valid(launches(bench.recorded())["right"][0])
    finally:
        look_alike.kill()
        look_alike.wait()
    nothing_left(bench)


def _records(bench: Bench, word: str) -> list[orphans.SessionRecord]:
    found = []
    for path in bench.sessions:
        with suppress(OSError):
            found.append(orphans.SessionRecord.model_validate_json(path.read_bytes()))
    return [session for session in found if session.pid and word in session.argv]


def _port(server: orphans.SessionRecord) -> str:
    return server.argv[server.argv.index("--port") + 1]
