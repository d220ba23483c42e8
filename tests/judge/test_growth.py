"""Memory that grows: what a curve is called, what raises a suspicion, and whose leak it is."""

import json
import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from bench import Bench
from comparing import busy, duet
from duetbench.cli import soak
from duetbench.core.comparison import Duet, SideName
from duetbench.core.effects import KEPT, Effects, KeptMemory
from duetbench.core.model import Verdict
from duetbench.effects.difference import Observations
from duetbench.judge.findings import exit_code, of_effects
from duetbench.judge.pairs import decide
from duetbench.load.soak import Curve, of_curve
from duetbench.report.report import make_report
from fake_sessions import FakeInstruments, compared_by
from goldens import assert_said, record
from observatory.matrix.checkout import Checkout

CASE = busy("x/a/py3.14")

NOISE = np.random.default_rng(1).normal(0, 100_000, 25)
Held = Callable[[np.ndarray], Any]


def curve(held: Held, requests: int = 50_000, *tasks: int) -> Curve:
    """A soak of 24 bursts; memory is what is held after n requests, and noise of 0.1 MB."""
    answered = np.linspace(0, requests, 25)
    memory = 50e6 + held(answered) + NOISE
    return Curve(requests=tuple(map(int, answered)), memory=tuple(map(int, memory)), tasks=tasks)


BUSY: Final = Curve.model_validate(record("soak"))
"""On a machine that also did something else: 3.6 kB at first, 2.6 kB at last, with a task each."""


def steep(n: np.ndarray) -> Any:
    return 1_000 * n + 20e6 * (n > 42_000)


@pytest.mark.parametrize(
    ("soak", "course"),
    [
        (lambda n: 500 * n, "constant"),
        (lambda n: 2_500 * n + 20e6 * (n > 0), "constant"),  # what a start fills is set aside
        (lambda n: 0 * n, "none"),
        (lambda n: 50 * n, "none"),
        (lambda n: 8e6 * (n > 20_000), "fills"),  # one step
        (lambda n: 8e6 * (n > 45_000), "undecided"),
        (lambda n: 4_000 * np.minimum(n, 25_000), "fills"),  # a cache that is full by half time
        (lambda n: 2e5 * np.sqrt(n), "fills"),
        (lambda n: 5e6 * np.log1p(n / 500), "fills"),
        (lambda n: 3e7 * (1 - np.exp(-n / 50_000)), "fills"),
        (lambda n: 6e7 * (1 - np.exp(-n / 100_000)), "undecided"),
        (lambda n: 2_000 * (n % 9_000), "fills"),
        (lambda n: 2_000 * (n % 9_000) + 1_000 * n, "undecided"),
        (lambda n: -500 * n, "none"),
        # 500 B for each of 1,000 requests are half a megabyte, as an arena may be.
        (curve(lambda n: 500 * n, 1_000), "none"),
        (Curve(requests=(0, 9_000, 18_000), memory=(0, 9_000_000, 18_000_000)), "undecided"),
        (Curve(), "undecided"),
        # Counts of tasks are exact where bytes scatter; a pool of them is no leak, a queue drains.
        (curve(steep, 50_000, 1, 64), "undecided"),
        (curve(steep, 50_000, 1, 50_001), "constant"),
        (curve(lambda n: 900 * n, 50_000, 1, 50_001, 50_000), "constant"),
        (curve(lambda n: 900 * n, 50_000, 1, 50_001, 49_990), "fills"),
        (BUSY, "constant"),
        (BUSY.model_copy(update={"tasks": (3, 64)}), "fills"),
    ],
)
def test_a_curve_is_called_by_how_it_ends(soak: Held | Curve, course: str) -> None:
    actual = of_curve(soak if isinstance(soak, Curve) else curve(soak))
    assert actual.course == course, actual
    if course == "constant" and not isinstance(soak, Curve):
        rate = (soak(np.array(50_000)) - soak(np.array(10_000))) / 40_000
        assert actual.low < rate < actual.high
        assert actual.estimate == pytest.approx(rate, rel=0.03)


def test_what_is_left_behind_is_told_beside_the_bytes() -> None:
    assert of_curve(BUSY).words == "3.1 kB (2.2…4.0 kB) and 1.0 tasks"


@dataclass
class Leaking(FakeInstruments):
    """One side keeps so many bytes per request; the other nothing."""

    side: SideName = "head"
    size: float = 500.0

    def duets(self, *pairs: Any, **more: Any) -> tuple[Duet, ...]:
        rates = {"memory_per_request": self.source.gauss(self.size, 20), "requests": 40_000.0}
        return tuple(
            item.model_copy(update={self.side: {**item.metrics(self.side), **rates}})
            for item in super().duets(*pairs, **more)
        )


NONE = KeptMemory(course="none", requests=3_000)
IN_PROCESS = KeptMemory(course="constant", bytes=500, place="app.py:15", requests=3_000)


def test_whoever_saw_more_requests_decides_on_a_leak() -> None:
    """500 B for each of 3,000 requests in process; duets have 5,000, or 2,000.

    450, 500, 550 and 500 B are 500 ± 41 * 3.18 / 2 = 65.
    """

    def decided_by(rates: str) -> str:
        *each, _, requests = rates.split()
        heads = [{"memory_per_request": float(rate), "requests": float(requests)} for rate in each]
        made = [duet(CASE.id).model_copy(update={"head": head}) for head in heads]
        decided = decide(IN_PROCESS, made, "head")
        assert decided is not None
        assert decided.place == "app.py:15"
        assert decided.requests == (float(requests) if decided.loaded else 3_000)
        return f"{decided.course}, by {'duets' if decided.loaded else 'requests in process'}"

    assert_said("leaks", decided_by)


@pytest.mark.parametrize(
    ("size", "verdict", "head", "says"),
    [
        (500.0, Verdict.WORSE, 500, "keeps 0.50 kB for every request (app.py:15)"),
        (0.0, Verdict.DIFFERENT, 0, "fills a cache (app.py:15)"),
    ],
)
def test_a_report_does_not_contradict_its_load(
    size: float, verdict: Verdict, head: float, says: str, tmp_path: Path
) -> None:
    known = KeptMemory(course="constant", bytes=500, place="app.py:15", requests=300)
    seen = Observations({CASE.id: Effects(kept_base=NONE, kept_head=known)})
    actual = compared_by(Leaking(size=size), [CASE], tmp_path, 120.0, seen=seen)
    kept = actual.of(CASE.id, KEPT)
    assert kept is not None
    assert (kept.verdict, kept.base, kept.head) == (verdict, 0, head)
    assert says in make_report(actual).headline
    assert exit_code(actual) == (1 if size else 0)
    for base, other in (
        (known, Verdict.BETTER),
        (None, Verdict.UNKNOWN),
    ):  # which head ends, or not
        effects = Effects(kept_base=base, kept_head=NONE if base else known)
        (found,) = (item for item in of_effects(CASE, effects) if item.subject == KEPT)
        assert found.verdict is other


@pytest.mark.real
def test_a_soak_of_a_server(bench: Bench) -> None:
    """One that keeps 40,033 bytes for every request, and one that keeps none."""
    bench.patch.setattr(soak, "deployed", lambda *_: nullcontext(Checkout.here()))
    app = ("--app", "bad:app")
    leaking = bench("soak", "--for", "5s", "--select", "badapps/keep", "--json", *app)
    assert leaking.code == 1, leaking
    assert "it leaks" in leaking.err
    actual = json.loads(leaking.out)
    assert actual["course"] == "constant"
    assert actual["low"] <= actual["estimate"] <= actual["high"]
    assert math.isclose(actual["estimate"], 40_033, rel_tol=0.1)
    ordinary = bench("soak", "--for", "5s", "--select", "badapps/truthful", *app)
    assert ordinary.code == 0, ordinary
    assert "no leak: nothing measurable" in ordinary.out
    assert not bench.alive()
    assert bench("soak", "--for", "5s", *app).code == 2
