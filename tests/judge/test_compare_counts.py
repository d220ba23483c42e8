"""Instruction counts of a comparison: what is counted together, in which time, and what it says."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import cast

import pytest

from comparing import busy
from duetbench.core.model import Case
from duetbench.judge.instruments import EACH_SECONDS, START_SECONDS, Counts, Instruments, differ
from duetbench.measure.testbed import SideCase, Testbed
from duetbench.store.comparison import Instructions
from fake_sessions import SilentReporter


@dataclass
class Counter:
    """An instrument that counts, and remembers what it was asked for."""

    grown: Mapping[str, float] = field(default_factory=dict)
    asked: list[tuple[str, ...]] = field(default_factory=list)

    def instructions(
        self, pairs: Sequence[tuple[SideCase, SideCase]], limit: float
    ) -> tuple[Instructions | str, ...]:
        """100,000 on base."""
        assert limit > 0
        self.asked.append(tuple(head.case.id for _, head in pairs))
        grown = [1 + self.grown.get(head.case.id, 0.0) for _, head in pairs]
        return tuple(Instructions(base=100_000, head=100_000 * g, spread=0.0) for g in grown)


def counted(cases: Sequence[Case], counter: Counter, seconds: float = 1e9) -> Counts:
    sides = {
        case.id: (SideCase(case, cast(Testbed, SimpleNamespace(target=False))),) * 2
        for case in cases
    }
    counts = Counts(cast(Instruments, counter), sides)
    counts.count(list(sides), lambda: seconds, SilentReporter())
    return counts


def test_each_environment_is_counted_once_and_each_code_once() -> None:
    granian, uvicorn = busy("x/a/py3.14/granian"), busy("x/a/py3.14/uvicorn")
    other, threaded = busy("x/b/py3.14"), busy("x/a/py3.14t")
    counter = Counter({"x/a/py3.14/granian": 0.03})
    counts = counted([granian, uvicorn, other, threaded], counter)
    assert counter.asked == [("x/a/py3.14/granian", "x/b/py3.14"), ("x/a/py3.14t",)]
    assert counts.of(uvicorn.id) == counts.of(granian.id)
    moved = [differ(counts.of(case.id)) for case in (granian, uvicorn, other, threaded)]
    assert moved == [True, True, False, False]


@pytest.mark.parametrize(
    ("grown", "moved"), [(0.0021, 1), (0.0019, 0), (0.0, 0), (-0.0019, 0), (-0.0021, 1)]
)
def test_what_counts_as_moved_is_what_matters_of_cpu(grown: float, moved: int) -> None:
    """The relevance floor of CPU per request is 0.2 %."""
    counts = counted([busy("x/a/py3.14")], Counter({"x/a/py3.14": grown}))
    assert differ(counts.of("x/a/py3.14")) == moved


def test_what_would_take_too_long_is_not_counted() -> None:
    """15 s to start and 3 s an endpoint; half a second of computing is a minute in Valgrind."""
    case, counter = busy("x/a/py3.14"), Counter()
    counts = counted([case], counter, START_SECONDS + EACH_SECONDS - 1)
    slow = case.model_copy(update={"endpoint": case.endpoint.model_copy(update={"takes": 0.5})})
    counted([slow], counter)
    assert counter.asked == []
    assert (counts.of(case.id), differ(None)) == (None, False)
