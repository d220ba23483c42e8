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
    ("described", "places", "loaded"),
    [
        pytest.param(cores(2), [((0,), (1,))], 1, id="2"),
        pytest.param(cores(3, 2), [((0, 1, 2, 3, 4), (5,))], 1, id="3, hyper-threads"),
        pytest.param(cores(4), [((0,), (1,)), ((2,), (3,))], 1, id="4"),
        pytest.param(cores(4, 2), [((0, 4), (1, 5)), ((2, 6), (3, 7))], 1, id="4, hyper-threads"),
        pytest.param(
            cores(4, 2, adjacent=True), [((0, 1), (2, 3)), ((4, 5), (6, 7))], 1, id="4, adjacent"
        ),
        pytest.param(cores(5), [((0,), (1,)), ((2,), (3,))], 1, id="5: equally large"),
        pytest.param(cores(8), [((0, 1, 2), (3,)), ((4, 5, 6), (7,))], 2, id="8"),
        pytest.param(
            cores(16, 2, 2),
            [((*range(7), *range(16, 23)), (7, 23)), ((*range(8, 15), *range(24, 31)), (15, 31))],
            2, id="16, hyper-threads, two nodes",
        ),
        pytest.param(
            [Physical((n,), n % 2) for n in range(8)],
            [((0, 2, 4), (6,)), ((1, 3, 5), (7,))], 2, id="8, nodes by turns",
        ),
        pytest.param(
            [Physical((n,), int(n > 4)) for n in range(8)],
            [((2, 3), (4,)), ((5, 6), (7,))], 1, id="5 in one node, 3 in the other",
        ),
    ],
)  # fmt: skip
def test_places_share_no_physical_core(
    described: list[Physical], places: list[tuple[tuple[int, ...], tuple[int, ...]]], loaded: int
) -> None:
    plan = topology.plan(described[::-1])
    assert plan.places == tuple(Cores(*place, True) for place in places)
    assert plan.loaded == loaded
    if len(places) > 1:
        owners = {
            thread: number for number, core in enumerate(described) for thread in core.threads
        }
        used = [{owners[thread] for thread in place.all} for place in plan.places]
        assert not used[0] & used[1]
        for place in plan.places:  # nor do server and generator share one
            assert not {owners[t] for t in place.server} & {owners[t] for t in place.client}


def test_a_quota_counts_like_cores() -> None:
    """Of 16 cores a group may use 8, 7.5 or 3: two pairs, one beside a starting one, one."""
    made = [topology.plan(cores(16), limit) for limit in (8.0, 7.5, 3.0)]
    assert [(len(plan.places), plan.loaded) for plan in made] == [(2, 2), (2, 1), (1, 1)]
    assert str(made[2]) == "no: it needs 4 physical cores"
    words = "room for two pairs under load, and comparisons use it: server 0,1,2,3,4,5,6, generator"
    assert str(made[0]).startswith(words)
    assert [plan.lanes for plan in made] == [made[0].places, (), ()]
    assert topology.plan([Physical((3,))]).places == (machine.allocate([3]),)


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
