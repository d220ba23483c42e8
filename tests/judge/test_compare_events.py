"""Many cases that moved alike are one event, and only if they did."""

import math
from typing import Any

import pytest

from comparing import CPU, busy, duets
from duetbench.core.model import Verdict
from duetbench.judge.events import events, together
from duetbench.judge.pairs import CaseDuets
from duetbench.judge.sequential_test import SequentialTest
from duetbench.store.comparison import CaseComparison, Judgement

SAME: dict[str, Any] = {"verdict": Verdict.NO_CHANGE, "middle": -0.02}


def compared(
    name: str, verdict: Verdict = Verdict.SLOWER, *, middle: float = 0.0, **changes: Any
) -> CaseComparison:
    """One case, judged on CPU: 2 % ± 0.1 % on the log scale, shifted by `middle`."""
    ratio = math.exp(0.02 + middle)
    ends = {"low": ratio - 0.001, "high": ratio + 0.001}
    judgement = Judgement(metric=CPU, verdict=verdict, ratio=ratio, **ends)
    return CaseComparison(case=busy(name, **changes), because="", judgements=(judgement,))


def named(count: int, start: int = 0, **more: Any) -> list[CaseComparison]:
    return [compared(f"x/e{start + i}/py3.14", **more) for i in range(count)]


def test_a_server_that_got_slower_is_one_event() -> None:
    (event,) = events([*named(3, server="granian"), *named(3, 3, server="uvicorn", **SAME)])
    assert (event.factor, event.value) == ("server", "granian")
    assert (event.metric, event.verdict) == (CPU, Verdict.SLOWER)
    assert event.cases == ("x/e0/py3.14", "x/e1/py3.14", "x/e2/py3.14")


def test_the_events_interval_is_no_narrower_than_its_cases() -> None:
    """1, 2 and 3 % on the log scale, each ± 0.001: 2 % in the middle, and the ends as far away.

    Ends at 1.00905, 1.01920, 1.02945 multiply to 1.05871, whose third root is 1.01920.
    """
    cases = [compared(f"x/e{i}/py3.14", middle=0.01 * (i - 1)) for i in range(3)]
    still = compared("x/e9/py3.14", Verdict.INCONCLUSIVE, middle=0.5)  # no part of the mean
    (event,) = events([*cases, still])
    assert event.ratio == pytest.approx(math.exp(0.02))
    assert event.low == pytest.approx(1.01920, abs=1e-5)
    assert event.high == pytest.approx(1.02120, abs=1e-5)


def test_the_narrowest_factor_is_named() -> None:
    """Both interpreters' cases exist; only those of 3.14t moved, in two experiments."""
    moved = [compared(f"{e}/{i}/py3.14t") for e in ("x", "y") for i in range(2)]
    still = [compared(f"{e}/{i}/py3.14", Verdict.NO_CHANGE) for e in ("x", "y") for i in range(2)]
    (event,) = events([*moved, *still])
    assert (event.factor, event.value) == ("interpreter", "3.14t")


def test_four_of_five_are_an_event_and_three_of_four_are_not() -> None:
    """80 % of the judged cases must have moved: 4/5 = 80 %, 3/4 = 75 %; two are two rows."""
    still = compared("x/z/py3.14", **SAME)
    assert len(events([*named(4), still])) == 1
    assert events([*named(3), still]) == ()
    assert events(named(2)) == ()


def test_moved_cases_elsewhere_make_it_another_story() -> None:
    """Ten of granian's moved, and two of uvicorn's: the server explains 83 %, not 90 %."""
    cases = [
        *named(10, server="granian"),
        *named(2, 10, server="uvicorn"),
        *named(20, 12, server="uvicorn", **SAME),
    ]
    assert events(cases) == ()
    assert len(events([*cases[:11], *cases[12:]])) == 1  # 10 of 11 are 91 %


def test_what_cannot_be_compared_or_had_no_time_is_not_counted() -> None:
    broken = Judgement(metric=CPU, verdict=Verdict.NOT_COMPARABLE, reason="head: …")
    lost = CaseComparison(case=busy("x/z/py3.14"), because="", judgements=(broken,))
    assert len(events([*named(3), lost, lost])) == 1
    # An open case that points the same way does not hide the event; another one may.
    assert len(events([*named(3), compared("x/y/py3.14", Verdict.INCONCLUSIVE)])) == 1
    nowhere = compared("x/z/py3.14", Verdict.INCONCLUSIVE, middle=-0.02)
    assert events([*named(3), nowhere]) == ()


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
