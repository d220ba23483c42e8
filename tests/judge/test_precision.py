"""How often a case is played: until it is known, or as often as is worth its time."""

import math
from collections.abc import Sequence

import pytest

from comparing import busy
from comparing import duet as duet_of
from duetbench.core.model import Case
from duetbench.judge.samples import CaseDuets
from duetbench.trend.anchored import NIGHTLY, Precision, expected

CASE = busy("a/b/py3.14")
LOUD, QUIET = (0.1, -0.1, 0.05, -0.05), (0.001, -0.001, 0.0005, -0.0005)


def often(precision: Precision, seconds: float, logs: Sequence[float]) -> int:
    """How many duets of so many seconds are played, whose log ratios take turns."""
    samples = CaseDuets(CASE)
    while precision.wants(samples):
        ratio = math.exp(logs[len(samples.all) % len(logs)])
        samples.add(duet_of(CASE.id, {"server_cpu_per_request": ratio}, seconds=seconds))
    return len(samples.all)


@pytest.mark.parametrize(
    ("seconds", "logs", "times"),
    [
        (4, QUIET, 5), (4, LOUD, 20),  # 40 s hold 10: it is quick
        (8, QUIET, 5), (8, LOUD, 20),  # just so
        (9, QUIET, 4), (9, LOUD, 4),  # 40 s hold 4
        (25, LOUD, 3), (100, LOUD, 3),  # fewer would tell nothing
    ],
)  # fmt: skip
def test_slow_cases_are_played_a_few_times_in_a_night(
    seconds: float, logs: Sequence[float], times: int
) -> None:
    assert often(NIGHTLY, seconds, logs) == times


def test_without_a_bound_of_time_all_are_played_until_they_are_known() -> None:
    precision = Precision(se=0.005, least=6, most=20)
    assert [often(precision, seconds, LOUD) for seconds in (4, 100)] == [20, 20]
    assert often(precision, 100, QUIET) == 6


def slow(case: Case, floor: float) -> Case:
    endpoint = case.endpoint.model_copy(update={"floor": floor, "takes": floor})
    return case.model_copy(update={"endpoint": endpoint})


def test_what_playing_takes_is_known_before() -> None:
    """Two cases share a server's start; a slow one is played 3 times."""
    alone = expected([CASE], NIGHTLY)[CASE.id]
    second = busy("a/c/py3.14")
    shared = expected([CASE, second], NIGHTLY)
    assert shared[CASE.id] == shared[second.id] < alone
    assert alone == pytest.approx(5 * 3.8, abs=3)
    waits = slow(CASE, 3.0)
    assert 60 < expected([waits], NIGHTLY)[waits.id] < 90
