"""Memory that grows: what a curve is called, what raises a suspicion, and whose leak it is."""

import json
import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from bench import Bench
from comparing import busy
from duetbench.app.testbed import SideCase
from duetbench.cli import soak
from duetbench.core.comparison import SIDES, Comparison, Curve, Growth, SideName
from duetbench.core.model import KEPT, Effects, KeptMemory, Verdict
from duetbench.effects.difference import Seen
from duetbench.judge.findings import exit_code
from duetbench.load import growth
from duetbench.report.report import make_report
from fake_sessions import FakeInstruments, compared_by
from observatory.matrix.checkout import Checkout

CASE = busy("x/a/py3.14")
pytestmark = pytest.mark.usefixtures("without_oha")

NOISE = np.random.default_rng(1).normal(0, 100_000, 25)


def curve(held: Callable[[np.ndarray], Any], requests: int = 50_000, **more: Any) -> Curve:
    """A soak of 24 bursts; memory is what is held after n requests, and noise of 0.1 MB."""
    answered = np.linspace(0, requests, 25)
    memory = 50e6 + held(answered) + NOISE
    return Curve(requests=tuple(map(int, answered)), memory=tuple(map(int, memory)), **more)


LEAK, NOTHING = curve(lambda n: 500 * n), curve(lambda n: 0 * n)


@pytest.mark.parametrize(
    ("held", "course"),
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
    ],
)
def test_a_curve_is_called_by_how_it_ends(held: Callable[[np.ndarray], Any], course: str) -> None:
    found = growth.of_curve(curve(held))
    assert found.course == course, found
    if course == "constant":
        rate = (held(np.array(50_000)) - held(np.array(10_000))) / 40_000
        assert found.low < rate < found.high
        assert found.estimate == pytest.approx(rate, rel=0.03)


def recorded(answered: Sequence[int], kilobytes: Sequence[int], unit: int, **more: Any) -> Curve:
    memory = tuple(unit * size for size in kilobytes)
    return Curve(requests=tuple(answered), memory=memory, **more)


HEAPS: Final = recorded(
    (
        *(0, 484, 971, 1573, 2118, 2615, 3083, 3589, 4093, 4701, 5335, 5911, 6491, 6981, 7496),
        *(8004, 8444, 8939, 9431, 9890, 10365, 10877),
    ),
    (
        *(57500, 57795, 58151, 58290, 58348, 56492, 57041, 56979, 57557, 58286, 58925, 59425),
        *(60396, 60850, 61202, 61747, 62185, 62751, 63222, 63705, 64213, 64823),
    ),
    1000,
)
"""Without the GIL: 1.0 kB for each request for 10 s, and nothing after a minute."""

BUSY: Final = recorded(
    (
        *(0, 320, 640, 927, 1119, 1503, 1759, 2079, 2399, 2656, 2976, 3283, 3575, 3767, 4004),
        *(4118, 4403, 4691, 4954),
    ),
    (
        *(36968, 42524, 43744, 44040, 44048, 45872, 47168, 48004, 49044, 49132, 49476, 50776),
        *(51840, 52388, 53180, 53232, 53536, 54656, 55628),
    ),
    1024,
    tasks=(3, 4958),
)
"""On a machine that also did something else: 3.6 kB at first, 2.6 kB at last, with a task each."""


def steep(n: np.ndarray) -> Any:
    return 1_000 * n + 20e6 * (n > 42_000)


@pytest.mark.parametrize(
    ("soak", "course", "threads"),
    [
        # 500 B for each of 1,000 requests are half a megabyte, as an arena may be.
        (curve(lambda n: 500 * n, requests=1_000), "none", "none"),
        (Curve(requests=(0, 9_000, 18_000), memory=(0, 9_000_000, 18_000_000)), *["undecided"] * 2),
        (Curve(), "undecided", "undecided"),
        # Counts of tasks are exact where bytes scatter; a pool of them is no leak, a queue drains.
        (curve(steep, tasks=(1, 64)), "undecided", "undecided"),
        (curve(steep, tasks=(1, 50_001)), "constant", "constant"),
        (curve(lambda n: 900 * n, tasks=(1, 50_001, 50_000)), "constant", "constant"),
        (curve(lambda n: 900 * n, tasks=(1, 50_001, 49_990)), "fills", "fills"),
        (BUSY, "constant", "constant"),
        (BUSY.model_copy(update={"tasks": (3, 64)}), "fills", "fills"),
        # Heaps of threads fill for longer than a soak, but not with 100 MB.
        (HEAPS, "constant", "undecided"),
        (HEAPS.model_copy(update={"tasks": (1, 10_878)}), "constant", "constant"),
        (recorded(HEAPS.requests, HEAPS.requests, 40_000), "constant", "constant"),
    ],
)
def test_what_else_tells_a_leak(soak: Curve, course: str, threads: str) -> None:
    found = [growth.of_curve(soak, fills_slowly=slowly).course for slowly in (False, True)]
    assert found == [course, threads]


def test_what_is_left_behind_is_told_beside_the_bytes() -> None:
    assert growth.of_curve(BUSY).words == "3.1 kB (2.2…4.0 kB) and 1.0 tasks"


NONE = KeptMemory(course="none", requests=3_000)
IN_PROCESS = KeptMemory(course="constant", bytes=500, place="app.py:15", requests=3_000)


def suspicion(side: SideName) -> Seen:
    """What requests in process show if one side keeps memory for each."""
    kept = {f"kept_{name}": IN_PROCESS if name == side else NONE for name in SIDES}
    return Seen({CASE.id: Effects.model_validate(kept)})


@dataclass
class Leaking(FakeInstruments):
    """The soak of one side ends as is given; the other keeps nothing."""

    side: SideName = "head"
    ends: Curve = LEAK
    soaks: list[SideName] = field(default_factory=list)

    def soak(self, side: SideCase, name: SideName, seconds: float) -> Curve:
        assert side.testbed.subject.root.name == name
        self.soaks.append(name)
        assert growth.SECONDS[0] <= seconds <= growth.SECONDS[1]
        self.now += seconds + growth.AROUND
        return self.ends if name == self.side else NOTHING


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(
    ("ends", "seconds", "course"),
    [
        (LEAK, 120.0, "constant"),
        (NOTHING, 120.0, "none"),
        (Curve(problem="it died"), 120.0, "undecided"),
        (LEAK, 65.0, "constant"),
        (LEAK, 50.0, "constant"),
        (LEAK, 33.0, "undecided"),
    ],
)
def test_a_comparison_soaks_both_sides_of_a_suspicion_once(
    side: SideName, ends: Curve, seconds: float, course: str, tmp_path: Path
) -> None:
    """Counts take 13 s, a duet 7 s: 33 s have room for these alone, 50 s for short soaks, too.

    Both sides are loaded alike: else no side is to blame.
    """
    fake = Leaking(side=side, ends=ends)
    found = compared_by(fake, [CASE], tmp_path, seconds, seen=suspicion(side))
    assert found.wall_seconds <= seconds
    assert fake.soaks == [*SIDES] * (seconds > 33)
    kept = found.of(CASE.id, KEPT)
    verdicts = {
        "constant": (Verdict.BETTER, Verdict.WORSE),
        "none": (None, Verdict.DIFFERENT),  # it fills a cache
        "undecided": (Verdict.BETTER, Verdict.DIFFERENT),  # as seen in process
    }
    assert (kept and kept.verdict) == verdicts[course][side == "head"]
    if kept and course == "constant":
        assert getattr(kept, side) == pytest.approx(500, rel=0.03)
        assert kept.text.startswith("0.49 kB (0.47…0.52 kB")
    # The memory of a load that grows depends on how long it lasts.
    assert (found.of(CASE.id, "pss_steady") is None) is (course == "constant")
    assert (exit_code(found) == 1) is (course == "constant" and side == "head")
    assert Comparison.model_validate_json(found.model_dump_json()) == found


def test_a_leak_beside_a_side_that_died_is_no_verdict(tmp_path: Path) -> None:
    class Dying(Leaking):
        def soak(self, side: SideCase, name: SideName, seconds: float) -> Curve:
            curve = super().soak(side, name, seconds)
            return curve if name == self.side else Curve(problem="it died")

    for side in SIDES:
        found = compared_by(Dying(side=side), [CASE], tmp_path, 120.0, seen=suspicion(side))
        kept = found.of(CASE.id, KEPT)
        assert kept is not None
        assert kept.verdict is Verdict.UNKNOWN


FILLS = curve(lambda n: 4_000 * np.minimum(n, 25_000))


@pytest.mark.parametrize(
    ("load", "course", "loaded"),
    [
        (None, "constant", False),  # nothing but requests in process
        (growth.of_curve(LEAK), "constant", True),
        (growth.of_curve(NOTHING), "fills", True),
        (growth.of_curve(FILLS), "fills", True),
        (growth.of_curve(curve(lambda n: 8e6 * (n > 45_000))), "constant", False),
        (growth.of_curve(Curve(problem="it died")), "constant", False),
    ],
)
def test_whoever_saw_more_requests_decides_on_a_leak(
    load: Growth | None, course: str, loaded: bool
) -> None:
    """500 B for each of 3,000 requests in process; soaks have 50,000."""
    decided = growth.decide(IN_PROCESS, load)
    assert decided is not None
    assert (decided.course, decided.loaded, decided.place) == (course, loaded, "app.py:15")
    assert decided.requests == (50_000 if loaded else 3_000)


@pytest.mark.parametrize(
    ("ends", "verdict", "head", "says"),
    [
        (LEAK, Verdict.WORSE, 500, "keeps 0.49 kB (0.47…0.52 kB) for every request (app.py:15)"),
        (FILLS, Verdict.DIFFERENT, 0, "fills a cache (app.py:15)"),
        (Curve(problem="it died"), Verdict.DIFFERENT, 500,  # a load without a course
         "keeps 0.50 kB for every request (app.py:15), seen in the first 3,000 requests"),
    ],
)  # fmt: skip
def test_a_report_does_not_contradict_its_load(
    ends: Curve, verdict: Verdict, head: float, says: str, tmp_path: Path
) -> None:
    found = compared_by(Leaking(ends=ends), [CASE], tmp_path, 120.0, seen=suspicion("head"))
    kept = found.of(CASE.id, KEPT)
    assert kept is not None
    assert (kept.verdict, kept.base) == (verdict, 0)
    assert kept.head == pytest.approx(head, rel=0.03)
    assert says in make_report(found).headline


def test_of_two_leaks_head_is_to_blame_for_what_is_more() -> None:
    def leak(rate: float) -> Growth:
        return growth.of_curve(curve(lambda n: rate * n))

    small, large = leak(500), leak(1_000)
    pairs = [(small, small), (large, small), (small, large)]
    assert [growth.leaks({"base": base, "head": head}) for base, head in pairs] == [
        False, False, True,
    ]  # fmt: skip


@pytest.mark.real
def test_a_soak_of_a_server(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that keeps 40,033 bytes for every request, and one that keeps none."""
    monkeypatch.setattr(soak, "deployed", lambda *_: nullcontext(Checkout.here()))
    app = ("--app", "bad:app")
    leaking = bench("soak", "--for", "5s", "--select", "badapps/keep", "--json", *app)
    assert leaking.code == 1, leaking
    assert "it leaks" in leaking.err
    found = json.loads(leaking.out)
    assert found["course"] == "constant"
    assert found["low"] <= found["estimate"] <= found["high"]
    assert math.isclose(found["estimate"], 40_033, rel_tol=0.1)
    ordinary = bench("soak", "--for", "5s", "--select", "badapps/truthful", *app)
    assert ordinary.code == 0, ordinary
    assert "no leak: nothing measurable" in ordinary.out
    assert not bench.alive()
    assert bench("soak", "--for", "5s", *app).code == 2
