"""Counters of process trees, by an event of the kernel that any machine has: ns of core time."""

import errno
import os
import signal
from pathlib import Path

import pytest

from duetbench.host import counters, tree_usage
from duetbench.host.counters import TASK_CLOCK, Counters, EventCount
from duetbench.host.tree_usage import Edge, TreeSampler
from serverlings import launch, said

EVENTS = {"clock": TASK_CLOCK}
allowed = pytest.mark.skipif(
    Counters(EVENTS).refused > 0, reason="the kernel forbids perf_event_open"
)


@allowed
@pytest.mark.usefixtures("state_home")
@pytest.mark.parametrize(
    ("program", "told", "seconds"),
    [("burn", (3, 0.2), 0.6), ("burn_child", (0.4,), 0.4)],
    ids=["threads that end", "a process that ends"],
)
def test_all_of_a_tree_is_counted(
    program: str,
    told: tuple[float, ...],
    seconds: float,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From its exec on, whatever it starts; the generator's session has no counters.

    It contains what the hypervisor takes meanwhile; a thread less would be a third less.
    """
    monkeypatch.setattr(counters, "EVENTS", EVENTS)
    with launch(tmp_path, program, *told) as session:
        said(session, "ready")
        sampler = TreeSampler(session.members, session.counts.read)
        before = sampler.edge()
        total = sum(process.cpu for process in before.processes)
        assert before.counts["clock"].count / 1e9 == pytest.approx(total, rel=0.25, abs=0.01)
        os.kill(session.pid, signal.SIGUSR1)
        said(session, "used")
        usage = tree_usage.between(before, sampler.edge())
    counted = usage.counts["clock"]
    assert counted.whole
    assert counted.count / 1e9 == pytest.approx(usage.cpu_seconds, rel=0.2)
    assert counted.count / 1e9 == pytest.approx(seconds, rel=0.2)
    assert session.counts.read() == {}
    with launch(tmp_path, "obedient", role="client") as client:
        assert client.counts.read() == {}


def test_a_part_of_the_time_is_no_count() -> None:
    """From 40 of 50 ns counted to 900 of 1,050: 86 %; nothing is scaled to all of them."""
    first, last = EventCount(100, 50, 40), EventCount(700, 1050, 900)
    usage = tree_usage.between(Edge(0, (), {"cycles": first}), Edge(1, (), {"cycles": last}))
    assert usage.counts == {"cycles": EventCount(600, 1000, 860)}
    assert (usage.counts["cycles"].share, usage.counts["cycles"].whole) == (0.86, False)
    assert EventCount(600, 1000, 1000).whole


@pytest.mark.parametrize(
    ("error", "level", "words"),
    [
        (errno.EACCES, "4", "none: kernel.perf_event_paranoid is 4; to allow them: sudo sysctl"),
        (errno.EPERM, "2", "none: the container forbids perf_event_open"),
        (errno.ENOSYS, "2", "none: this kernel or processor architecture has no"),
        (errno.ENOENT, "2", "none: the processor shows no counters; in a virtual machine"),
    ],
)
def test_what_to_do_about_missing_counters(
    error: int, level: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(error, os.strerror(error))

    (tmp_path / "paranoid").write_text(f"{level}\n")
    monkeypatch.setattr(counters, "_PARANOID", tmp_path / "paranoid")
    monkeypatch.setattr(counters, "_open", refuse)
    assert counters.availability().startswith(words)
    assert Counters(counters.EVENTS).read() == {}


@allowed
def test_counters_that_are_there() -> None:
    assert counters.availability(EVENTS) == "clock in user mode"
