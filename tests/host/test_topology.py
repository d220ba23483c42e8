"""Places for two pairs of servers, on made-up machines: no physical core is in both."""

from itertools import chain
from pathlib import Path

import pytest

from duetbench.host import machine, topology
from duetbench.host.machine import Cores
from duetbench.host.topology import Physical


def cores(
    count: int, threads: int = 1, nodes: int = 1, *, adjacent: bool = False
) -> list[Physical]:
    """A machine; hyper-threads are numbered one after another, or one round after another.

    Nodes are blocks of cores.
    """
    numbers = [
        tuple(n * threads + t if adjacent else n + t * count for t in range(threads))
        for n in range(count)
    ]
    return [Physical(own, n * nodes // count) for n, own in enumerate(numbers)]


@pytest.mark.parametrize(
    ("described", "places"),
    [
        pytest.param(cores(2), [], id="2"),
        pytest.param(cores(7, 2), [], id="7, hyper-threads"),
        pytest.param(cores(8), [((0, 1, 2), (3,)), ((4, 5, 6), (7,))], id="8"),
        pytest.param(
            cores(8, 2),
            [((0, 1, 2, 8, 9, 10), (3, 11)), ((4, 5, 6, 12, 13, 14), (7, 15))],
            id="8, hyper-threads",
        ),
        pytest.param(
            cores(8, 2, adjacent=True),
            [((0, 1, 2, 3, 4, 5), (6, 7)), ((8, 9, 10, 11, 12, 13), (14, 15))],
            id="8, adjacent",
        ),
        pytest.param(cores(9), [((0, 1, 2), (3,)), ((4, 5, 6), (7,))], id="9: equally large"),
        pytest.param(
            cores(16, 2, 2),
            [((*range(7), *range(16, 23)), (7, 23)), ((*range(8, 15), *range(24, 31)), (15, 31))],
            id="16, hyper-threads, two nodes",
        ),
        pytest.param(
            [Physical((n,), n % 2) for n in range(8)],
            [((0, 2, 4), (6,)), ((1, 3, 5), (7,))],
            id="8, nodes by turns",
        ),
        pytest.param(
            [Physical((n,), int(n > 4)) for n in range(8)], [], id="5 in one node, 3 in the other"
        ),
    ],
)
def test_places_share_no_physical_core(
    described: list[Physical], places: list[tuple[tuple[int, ...], tuple[int, ...]]]
) -> None:
    lanes = topology.plan(described[::-1])
    assert lanes == tuple(Cores(*place, True) for place in places)
    owners = {thread: number for number, core in enumerate(described) for thread in core.threads}
    used = [{owners[thread] for thread in lane.all} for lane in lanes]
    assert not lanes or not used[0] & used[1]
    for lane in lanes:  # nor do server and generator share one
        assert not {owners[t] for t in lane.server} & {owners[t] for t in lane.client}


def test_a_quota_counts_like_cores() -> None:
    """Of 16 cores a group may use 8, 7.5 or 3: two pairs, or one after another."""
    assert [len(topology.plan(cores(16), limit)) for limit in (8.0, 7.5, 3.0)] == [2, 0, 0]


def test_the_kernel_says_which_threads_belong_together(tmp_path: Path) -> None:
    """Core 3 is not ours: its sibling stands alone. Without files each core stands for itself."""
    assert topology.read([0, 1, 2], tmp_path) == (Physical((0,)), Physical((1,)), Physical((2,)))
    files = {
        **{f"cpu/cpu{n}/topology/thread_siblings_list": f"{n % 2},{n % 2 + 2}" for n in range(4)},
        **{f"node/node{n}/cpulist": text for n, text in enumerate(("0,2", "1-1,3"))},
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text + "\n")
    assert topology.read([0, 1, 2], tmp_path) == (Physical((0, 2), 0), Physical((1,), 1))
    ours = sorted(machine.allocate().all)
    assert sorted(chain(*(core.threads for core in topology.read(ours)))) == ours
