"""Cases that one change can have touched are also judged as one."""

import math

import pytest

from comparing import CPU, busy, duets
from duetbench.core.model import Verdict
from duetbench.judge.events import together
from duetbench.judge.samples import CaseDuets
from duetbench.judge.sequential_test import SequentialTest


def pooled(logs: dict[str, list[float]], *servers: str) -> SequentialTest:
    every = zip(logs, servers or ("granian",) * len(logs), strict=True)
    test = SequentialTest({name: CaseDuets(busy(name, server=server)) for name, server in every})
    for name, many in logs.items():
        for one in duets(name, CPU, many):
            test.add(name, one)
    test.close()
    return test


def around(middle: float, spread: float, count: int = 10) -> list[float]:
    return [middle + spread * (-1) ** number for number in range(count)]


@pytest.mark.parametrize("sign", [1, -1])
def test_four_cases_show_together_what_none_shows_alone(sign: int) -> None:
    """1.5 % in ten duets of 2 %, on four servers: errors of 0.67 % each, 0.33 % together."""
    logs = {f"x/{name}/py3.14": around(sign * 0.015, 0.02) for name in "abcd"}
    test = pooled(logs, "granian", "uvicorn", "hypercorn", "gunicorn")
    assert not test.sizes()
    event = together(test.estimates(CPU), CPU, 0.01)
    assert event is not None
    assert event.verdict is (Verdict.SLOWER if sign > 0 else Verdict.FASTER)
    assert math.log(event.ratio) == pytest.approx(sign * 0.015)
    # t(36) at 1 %, 2.7195, times 0.02 * sqrt(10 / 9) / sqrt(10) / 2.
    assert math.log(event.high / event.ratio) == pytest.approx(2.7195 * 0.0033333, rel=1e-3)


def test_cases_of_one_server_know_less_together() -> None:
    """Half of what they scatter is their launches': 1.5 % on one server is not shown."""
    test = pooled({f"x/{name}/py3.14": around(0.015, 0.02) for name in "abcd"})
    assert together(test.estimates(CPU), CPU, 0.01) is None


def test_one_case_alone_is_no_event_of_all() -> None:
    logs = {name: around(0.0, 0.002) for name in ("b", "c", "d")}
    for cases in ({"a": around(0.2, 0.002), **logs}, {"a": around(0.2, 0.002)}):
        assert together(pooled(cases).estimates(CPU), CPU, 0.01) is None
