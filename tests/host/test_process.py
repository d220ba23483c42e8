"""Sessions of real processes: wholly seen, provably ended; their ports, CPU and memory."""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest

from bench import PROJECT, execute, lives
from duetbench.core.errors import FlagName, InterruptedRun, LaunchError
from duetbench.host import paths, ports, process_session, tree_usage
from duetbench.host.machine import CoreTimes
from duetbench.host.process_session import Session, SessionRecord
from duetbench.host.tree_usage import MemorySample, TreeSampler
from serverlings import command, launch, said, started

pytestmark = pytest.mark.usefixtures("state_home")


def pids(session: Session) -> set[int]:
    return {process.pid for process in session.members()}


@pytest.mark.parametrize(
    ("program", "workers", "grace", "exit_code"),
    [
        pytest.param("obedient", 0, 30, 0, id="SIGTERM is enough"),
        pytest.param("stubborn", 2, 0.05, -signal.SIGKILL, id="all ignore SIGTERM"),
        pytest.param("obedient", 1, 30, 0, id="the master ends, its worker does not"),
        pytest.param("dying", 1, 30, 7, id="the master has ended unasked"),
    ],
)
def test_what_does_not_end_is_killed(
    program: str,
    workers: int,
    grace: float,
    exit_code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever is left of the session; a second stop says the same."""
    monkeypatch.setattr(process_session, "_STRAGGLERS_SECONDS", 0.2)
    session = launch(tmp_path, program, workers)
    others = {int(word) for word in said(session, "ready")}
    if exit_code == 7:
        assert session.wait(30) == exit_code
    else:
        assert session.poll() is session.wait(0.01) is None
    everyone = pids(session)
    assert everyone - {session.pid} == others
    assert len(others) == workers
    assert (session.members()[0].pid == session.pid) is (exit_code != 7)
    killed = session.stop(grace)
    assert session.poll() == exit_code
    assert set(killed) == (everyone if exit_code < 0 else others)
    assert session.members() == []
    assert not any(map(lives, everyone))
    assert not psutil.pid_exists(session.pid)  # not even as a zombie
    assert session.stop(30) == killed
    assert process_session.describe(session.pid) == f"process {session.pid} (it has just ended)"


def test_a_daemon_that_left_the_session_is_a_member(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It left parents and environment, too: its mark is on no other process.

    Also without the right to ask the kernel for it, as in a container.
    """

    def refuse(*_: object) -> None:
        raise PermissionError

    (tmp_path / "other").mkdir()
    with launch(tmp_path / "other", "obedient") as other, launch(tmp_path, "escaped") as session:
        (daemon,) = map(int, said(session, "escaped"))
        said(session, "ready")
        assert psutil.Process(daemon).ppid() not in {session.pid, os.getpid()}
        assert os.getsid(daemon) != session.pid
        assert pids(session) == {session.pid, daemon}
        assert pids(other) == {other.pid}
        monkeypatch.setattr("resource.prlimit", refuse)
        assert daemon in pids(session)
    assert not lives(daemon)


@pytest.mark.parametrize("moment", ["in the grace", "while the rest is killed"])
def test_ctrl_c_in_a_stop_leaves_nothing(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, real = launch(tmp_path, "stubborn", 2), process_session.kill_all
    said(session, "ready")
    everyone, signals = pids(session), [signal.SIGINT]

    def kill_all(*arguments: Any) -> list[psutil.Process]:
        while signals:
            raise InterruptedRun(signals.pop())
        return real(*arguments)

    interrupt = threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT])
    if moment == "in the grace":
        interrupt.start()
        with pytest.raises(KeyboardInterrupt):
            session.stop(60)
        interrupt.join()
        assert set(session.stop(60)) == everyone
    else:
        monkeypatch.setattr(process_session, "kill_all", kill_all)
        with pytest.raises(InterruptedRun):
            session.stop(0)
    assert not any(map(lives, everyone))


@pytest.mark.parametrize("moment", ["before the fork", "after it"])
def test_ctrl_c_beside_the_fork_leaves_nothing(
    moment: str, tmp_path: Path, sessions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It can come before anybody knows the pid: the mark tells what was started."""
    real, started = subprocess.Popen, list[int]()
    before = os.sched_getaffinity(0)

    def start(*arguments: Any, **how: Any) -> None:
        if moment == "after it":
            started.append(real(*arguments, **how).pid)
        raise InterruptedRun(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "Popen", start)
        with pytest.raises(InterruptedRun):
            launch(tmp_path, "stubborn", 2, cores=[max(before)])
    assert os.sched_getaffinity(0) == before
    assert not list(sessions.iterdir())
    assert not any(map(lives, started))


def test_what_nobody_has_stopped_ends_with_its_owner(tmp_path: Path, sessions: Path) -> None:
    """As where an interrupt falls between the start and whoever would have stopped it."""
    result = execute(command("owner", tmp_path, "interrupted", "stubborn", 2))
    assert result.returncode == 130
    workers = [*map(int, result.stdout.split())]
    assert len(workers) == 2
    assert not any(map(lives, workers))
    assert not list(sessions.iterdir())


def test_the_orphans_of_a_killed_owner_are_ended_and_nothing_else(
    tmp_path: Path, sessions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kill -9 of the owner in the middle: exactly its three server processes are ended."""
    with (
        launch(tmp_path, "obedient") as mine,
        started("owner", tmp_path, "", "stubborn", 2) as (owning, pids_of_it),
        started("stubborn", 2, start_new_session=True) as (look_alike, (_, *others)),
    ):
        workers, alike = [*map(int, pids_of_it)], [look_alike.pid, *map(int, others)]
        try:
            assert process_session.reap() == []  # both owners live
            assert all(map(lives, workers))
            owning.kill()
            owning.wait()
            with monkeypatch.context() as patch:
                patch.setattr(process_session, "kill_all", lambda find, _: find())
                (sentence,) = process_session.reap()
            assert re.match(r"could not end process \d+, \d+, \d+, left by an earlier", sentence)
            assert all(map(lives, workers))
            (sentence,) = process_session.reap()
            assert sentence.startswith("ended 3 processes left by an earlier run (")
            assert re.search(r" stubborn 2, started \d{4}-\d\d-\d\dT", sentence)
            assert not any(map(lives, workers))
            assert lives(mine.pid)
            assert all(map(lives, alike))
            assert [path.stem for path in sessions.iterdir()] == [str(mine.record.mark)]
            assert process_session.reap() == []
            (tmp_path / "other").mkdir()
            with started("owner", tmp_path / "other", "", "escaped") as (_, (daemon,)):
                pass  # it leaves a daemon that has left the session
            (sentence,) = process_session.reap()
            assert sentence.startswith("ended 2 processes left by an earlier run (")
            assert not lives(int(daemon))
        finally:
            for pid in filter(lives, alike):
                os.kill(pid, signal.SIGKILL)


def test_duetbench_never_takes_itself_for_an_orphan() -> None:
    record = SessionRecord(argv=())
    script = (
        "import resource;"
        "from duetbench.host import process_session;"
        "mark = resource.getrlimit(10)[0];"
        "record = process_session.SessionRecord(argv=(), mark=mark);"
        "print(mark, record.processes())"
    )
    with record.spawn([sys.executable, "-c", script], None, stdout=subprocess.PIPE) as process:
        assert process.communicate()[0].decode().split() == [str(record.mark), "[]"]


PACKAGE = PROJECT / "scripts" / "duetbench"
_KILLED = "import os; from duetbench.host import git, paths; git.elsewhere(git.Path('.')); "
_KILLED += "held = paths.scratch(); held.__enter__(); os.kill(os.getpid(), 9)"


def test_the_folders_of_a_dead_process_are_removed_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every temporary folder is one that the next call finds, whoever is killed.

    Kept: a living owner's, and what has other names.
    """
    mine = paths.make_scratch(tmp_path).parent
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", _KILLED], cwd=PROJECT, env=environment, check=False)
    (left,) = {*tmp_path.iterdir()} - {mine}
    assert len([*left.iterdir()]) == 2
    (tmp_path / "sb-other").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    paths.sweep_scratch()
    assert {*tmp_path.iterdir()} == {mine, tmp_path / "sb-other"}
    sources = {path.name: path.read_text("utf-8") for path in PACKAGE.rglob("*.py")}
    makes = re.compile(r"mkdtemp\(|TemporaryDirectory")
    assert [name for name, text in sources.items() if makes.search(text)] == ["paths.py"]


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_a_listener_is_named(family: socket.AddressFamily) -> None:
    port = ports.free_port()
    try:
        server = socket.create_server(("", port), family=family)
    except OSError as error:
        pytest.skip(f"no IPv6 on this machine: {error}")
    with server:
        (sentence,) = ports.listeners(port)
        assert sentence.startswith(f"process {os.getpid()} (")
        assert sentence.endswith(") listens on it")
        with pytest.raises(LaunchError, match=f"process {os.getpid()} ") as refusal:
            ports.require_free(port)
        assert refusal.value.flag is FlagName.STRAY_PROCESS
    ports.require_free(port)


def burned(folder: Path, *how: object) -> tuple[float, float]:
    """What a program says that it has burned since it was told to, and what was seen of it."""
    with launch(folder, "burn", *how) as session:
        said(session, "ready")
        before = tree_usage.edge(session.members)
        os.kill(session.pid, signal.SIGUSR1)
        (own,) = said(session, "used")
        cost = tree_usage.edge(session.members).cpu - before.cpu
    return float(own), cost


def test_cpu_of_a_busy_process_is_known_by_ratio(tmp_path: Path) -> None:
    """Two threads that burn 0.2 s each cost twice one; both agree with its own account."""
    used = []
    for threads in (1, 2):
        own, cost = burned(tmp_path, threads, 0.2)
        assert cost == pytest.approx(own, rel=0.03)
        assert 0.2 * threads < cost < 0.24 * threads
        used.append(cost)
    assert used[1] / used[0] == pytest.approx(2, rel=0.1)
    _, cost = burned(tmp_path, 0, 0.2, "forked")  # it came and went
    assert 0.18 < cost < 0.26


def test_a_buffer_shared_by_fork_counts_once(tmp_path: Path) -> None:
    """Parent and child share 50 MB: 25 MB each proportionally."""
    with launch(tmp_path, "share", 50) as session:
        said(session, "ready")
        (sample,) = TreeSampler(session.members).samples
        session.stop(0)  # the child would not hear of a SIGTERM to its parent
    assert len(sample.pids) == 2
    assert 50 << 20 < sample.pss < 80 << 20


def test_memory_is_summarised_over_the_window() -> None:
    """Idle 100 + 20; in the window 200, 300, 280: median 280; 900 comes after it."""
    sampler = TreeSampler(list)
    sampler.samples = [
        MemorySample(at, tuple(range(len(pss))), sum(pss), 2 * len(pss))
        for at, *pss in ((0, 100, 20), (5, 150, 50), (6, 300), (7, 280), (9, 900))
    ]
    assert sampler.metrics(5, 8) == {"pss_idle": 120, "pss_steady": 280, "threads_peak": 4}
    # The machine's account is a difference: 1.9 of two cores busy, 0.1 of them ours; 1 of 20 core
    # seconds stolen.
    a = CoreTimes(at=0, total=200, busy=100, steal=5, harness=1)
    b = CoreTimes(at=10, total=220, busy=119, steal=6, harness=2)
    host = b.since(a)
    assert (host.busy / host.at, host.harness / host.at) == pytest.approx((1.9, 0.1))
    assert host.steal_share == pytest.approx(0.05)
