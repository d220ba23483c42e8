"""Launches: what a good one gives, the same by hand, and a plan of them in random order."""

import os
from collections.abc import Mapping
from pathlib import Path
from unittest.mock import Mock

import pytest

from bench import PROJECT, Bench, declared, failures
from duetbench.app.testbed import ENTRY, SideCase, assemble
from duetbench.core.errors import RecordError
from duetbench.core.metrics import METRICS
from duetbench.core.model import Case, Plan, Run
from duetbench.host import files, result_files
from duetbench.host.command import scrub
from duetbench.host.console import Progress
from duetbench.host.machine import allocate
from duetbench.host.process_session import Session
from duetbench.load import launch, oha, runner
from duetbench.load.loads import duet_load
from duetbench.report.run import as_markdown
from observatory.matrix.checkout import Checkout
from synthetic import make_case, make_run, ok

ALWAYS = {
    *("throughput", "requests", "errors"),
    *(f"response_{point}" for point in ("min", "mean", "p50", "max")),
    *("server_cpu_per_request", "server_cores", "host_steal", "ready_time"),
    *("pss_idle", "pss_steady", "threads_peak"),
    *("unit_service", "warm_up", "import_time"),
}


@pytest.mark.real
def test_workers_and_cores(bench: Bench, servers: list[Session]) -> None:
    """Two workers that log nothing: both are met, watched, and pinned as the server is."""
    affinities: dict[int, list[int]] = {}
    real = oha.Generation.over

    def over(self: oha.Generation) -> bool:
        pids = [process.pid for process in servers[0].members()]
        affinities.update({pid: sorted(os.sched_getaffinity(pid)) for pid in pids})
        return real(self)

    bench.patch.setattr(oha.Generation, "over", over)
    case = declared("badapps/right", root=bench.root)
    quiet = case.endpoint.model_copy(update={"app": "quiet:app"})
    how = {"workers": 2, "server": "granian", "endpoint": quiet, "load": duet_load(case, 1)}
    case, logs = case.model_copy(update=how), bench.folder / "logs"
    side = SideCase(case, assemble(Checkout.here(), [case], logs))
    outcome = launch.perform(side, logs / "server.log")
    assert not failures(outcome.flags), outcome.flags
    assert not bench.sessions
    assert METRICS.keys() >= outcome.metrics.keys() >= ALWAYS
    assert len(affinities) >= 3, "a master and two workers"
    own, others = allocate()
    if own != others:
        assert {tuple(cores) for cores in affinities.values()} == {own}


@pytest.mark.real
def test_a_server_inherits_what_is_named_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What could change the measurement unseen stays outside; the case's own variables count."""
    for name in ("PYTHON_GIL", "UVICORN_WORKERS", "GRANIAN_LOOP", "http_proxy", "PYTHONPATH"):
        monkeypatch.setenv(name, "1")
    case = declared("await-patterns/async_concurrent/py3.14/wait0.3")
    environment = SideCase(case, assemble(Checkout.here(), [case], tmp_path)).environment()
    assert environment.keys() <= {
        *("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ"),
        *("PYTHONPATH", "PYTHONUNBUFFERED", "DUETBENCH_WAIT_S"),
        *("DUETBENCH_APP", "DUETBENCH_FACTORY", "DUETBENCH_INTERFACE", "DUETBENCH_LOOP"),
    }
    assert environment["DUETBENCH_WAIT_S"] == "0.3"
    apps = PROJECT / "apps"
    assert environment["PYTHONPATH"] == f"{ENTRY}:{apps / 'await-patterns'}:{apps}"


def test_reasons_name_no_folder_of_this_machine_and_do_nothing_to_a_terminal() -> None:
    text = f"in {PROJECT}/apps/x.py of {Path.home()}/y:   no\tspace"
    assert scrub(text) == "in ./apps/x.py of ~/y: no space"
    assert scrub("\x1b[31mred\x1b[0m\x07 \x1b]0;title\x00") == "red ]0;title"


CASES = tuple(make_case(f"experiment/{name}") for name in "abc")


def make_plan(launches: int = 2, seed: int = 1, cases: tuple[Case, ...] = CASES) -> Plan:
    return Plan(profile="nightly", launches=launches, seed=seed, cases=cases)


def execute(results: Path, missing: Mapping[str, str], progress: Mock) -> Run:
    return runner.execute(
        make_plan(),
        make_run((), status="partial", launches=2, wall_seconds=0.0),
        perform=lambda case: ok(case.id, 0, {"throughput": 40}),
        results=results, progress=progress, missing=missing,
    )  # fmt: skip


def test_a_case_without_its_interpreter_has_a_reason_and_no_launch(tmp_path: Path) -> None:
    """It is in the run, its page and its night, and nothing waits for it; others are launched."""
    progress = Mock(spec=Progress)
    run = execute(tmp_path, {CASES[0].id: "no 3.15-jit"}, progress)
    launched = [(result.missing, len(result.launches)) for result in run.results]
    assert launched == [("no 3.15-jit", 0), ("", 2), ("", 2)]
    assert result_files.read(Run, tmp_path / run.path).results == run.results
    assert progress.start.call_args.args[0].startswith("4 launches, ")
    assert "- experiment/a: not measured: no 3.15-jit" in as_markdown(run)


def test_on_a_full_disk_all_goes_on_until_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was saved before stays."""
    progress, real, saved = Mock(spec=Progress), files.save, list[Path]()

    def save(results: Path, run: Run) -> Path:
        if saved:
            raise RecordError("No space left")
        saved.append(real(results, run))
        return saved[0]

    monkeypatch.setattr(files, "save", save)
    with pytest.raises(RecordError, match="No space left"):
        execute(tmp_path, {}, progress)
    notes = [str(call.args[0]) for call in progress.note.call_args_list]
    assert [note.partition(":")[0] for note in notes] == ["not saved yet, continuing"] * 5
    assert sum(len(result.launches) for result in result_files.read(Run, saved[0]).results) == 1
