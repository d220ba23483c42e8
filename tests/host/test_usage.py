"""CPU and memory of real process trees, and the arithmetic with figures worked out by hand."""

import os
import signal
from pathlib import Path

import pytest

from duetbench.host import tree_usage
from duetbench.host.machine import CoreTimes
from duetbench.host.tree_usage import MemorySample, TreeSampler
from serverlings import launch, said

pytestmark = pytest.mark.usefixtures("state_home")


MB = 1 << 20


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
    assert 50 * MB < sample.pss < 80 * MB


def taken(at: float, *pss: int) -> MemorySample:
    return MemorySample(at, tuple(range(len(pss))), sum(pss), 2 * len(pss))


def summary(*samples: MemorySample, start: float = 0, end: float = 9) -> dict[str, float]:
    sampler = TreeSampler(list)
    sampler.samples = [*samples]
    return sampler.metrics(start, end)


def test_memory_is_summarised_over_the_window() -> None:
    """Idle 100 + 20; in the window 200, 300, 280: median 280; 900 comes after it."""
    samples = [taken(0, 100, 20), taken(5, 150, 50), taken(6, 300), taken(7, 280), taken(9, 900)]
    figures = {"pss_idle": 120, "pss_steady": 280, "threads_peak": 4}
    assert summary(*samples, start=5, end=8) == figures


def test_the_machines_account_is_a_difference() -> None:
    """1.9 of two cores busy, 0.1 of them ours; 1 of 20 core seconds stolen."""
    a = CoreTimes(at=0, total=200, busy=100, steal=5, harness=1)
    b = CoreTimes(at=10, total=220, busy=119, steal=6, harness=2)
    host = b.since(a)
    assert (host.busy / host.at, host.harness / host.at) == pytest.approx((1.9, 0.1))
    assert host.steal_share == pytest.approx(0.05)
