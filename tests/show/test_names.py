"""Names of cases and sentences of changes: what people read where tools read ids and ratios."""

from collections import Counter

import pytest

from bench import all_cases
from duetbench.app import case_names
from duetbench.core.units import Interval
from duetbench.report import changes


def test_every_declared_case_has_a_name_of_its_own() -> None:
    actual = {case.id: case_names.name(case.id) for case in all_cases()}
    assert [case for case, name in actual.items() if not name.known] == []
    assert [name for name, many in Counter(map(str, actual.values())).items() if many > 1] == []
    assert not [name for name in map(str, actual.values()) if "{" in name]


@pytest.mark.parametrize(
    ("metric", "moved", "said"),
    [
        ("throughput", Interval(0.95, 0.94, 0.96),
         "serves 5.0 % fewer requests per second (4.0…6.0 %)"),
        ("service_p99", Interval(0.5, 0.4, 0.6), "has a 50 % shorter p99 service time (40…60 %)"),
        # An interval with "no change" in it keeps its signs.
        ("throughput", Interval(1.01, 0.99, 1.03),
         "serves 1.0 % more requests per second (−1.0…+3.0 %)"),
        ("server_cpu_per_request", Interval(1.005), "needs 0.50 % more CPU per request ()"),
    ],
)  # fmt: skip
def test_a_move_is_said_in_plain_words(metric: str, moved: Interval, said: str) -> None:
    assert f"{changes.movement(metric, moved)} ({changes.within(moved)})" == said
