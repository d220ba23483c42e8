"""Memory that grows: what a curve is called, what raises a suspicion, and whose leak it is."""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench import Bench
from comparing import CPU, busy, comparison_of, duet, judged_case
from duetbench.core.model import Effects, KeptMemory, Verdict
from duetbench.judge import growth
from duetbench.judge.effects import Seen
from duetbench.judge.rule import judge
from duetbench.judge.samples import CaseDuets
from duetbench.measure.testbed import SideCase
from duetbench.project import tools
from duetbench.show.comparison_view import make_view
from duetbench.show.conclusion import exit_code
from duetbench.store.comparison import SIDES, Comparison, Curve, Duet, Growth, SideName
from fake_sessions import FakeInstruments, compared_by

CASE = busy("x/a/py3.14")
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
        (lambda n: 8e6 * (n > 20_000), "decaying"),  # one step
        (lambda n: 8e6 * (n > 45_000), "undecided"),
        (lambda n: 4_000 * np.minimum(n, 25_000), "decaying"),  # a cache that is full by half time
        (lambda n: 2e5 * np.sqrt(n), "decaying"),
        (lambda n: 5e6 * np.log1p(n / 500), "decaying"),
        (lambda n: 3e7 * (1 - np.exp(-n / 50_000)), "decaying"),
        (lambda n: 6e7 * (1 - np.exp(-n / 100_000)), "undecided"),
        (lambda n: 2_000 * (n % 9_000), "saw-tooth"),
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


def test_few_requests_or_bursts_prove_no_leak() -> None:
    """500 B for each of 1,000 requests are half a megabyte, as an arena may be."""
    assert growth.of_curve(curve(lambda n: 500 * n, requests=1_000)).course == "none"
    short = Curve(requests=(0, 9_000, 18_000), memory=(0, 9_000_000, 18_000_000))
    assert growth.of_curve(short).course == growth.of_curve(Curve()).course == "undecided"


def test_what_is_left_behind_is_told_beside_the_bytes() -> None:
    found = growth.of_curve(curve(lambda n: 2_464 * n, tasks=(1, 50_001), threads=(9, 9)))
    assert found.words.startswith("2.5 kB (2.")
    assert found.words.endswith(" and 1.0 tasks")


def test_tasks_left_behind_decide_where_bytes_scatter() -> None:
    """Counts are exact; a pool of them is no leak."""

    def steep(tasks: int) -> Curve:
        return curve(lambda n: 1_000 * n + 20e6 * (n > 42_000), tasks=(1, tasks))

    assert growth.of_curve(steep(64)).course == "undecided"
    assert growth.of_curve(steep(50_001)).course == "constant"
    for later, course in ((50_000, "constant"), (49_990, "saw-tooth")):  # a queue drains
        assert growth.of_curve(curve(lambda n: 900 * n, tasks=(1, 50_001, later))).course == course


def test_heaps_of_threads_that_fill_for_longer_than_a_soak_are_no_leak() -> None:
    """Recorded without the GIL: 1.0 kB each for 10 s, and nothing after a minute."""
    answered = (
        *(0, 484, 971, 1573, 2118, 2615, 3083, 3589, 4093, 4701, 5335, 5911, 6491, 6981, 7496),
        *(8004, 8444, 8939, 9431, 9890, 10365, 10877),
    )
    kilobytes = (
        *(57500, 57795, 58151, 58290, 58348, 56492, 57041, 56979, 57557, 58286, 58925, 59425),
        *(60396, 60850, 61202, 61747, 62185, 62751, 63222, 63705, 64213, 64823),
    )
    heaps = Curve(requests=answered, memory=tuple(1000 * size for size in kilobytes))
    assert growth.of_curve(heaps).course == "constant"
    assert growth.of_curve(heaps, fills_slowly=True).course == "undecided"
    tasks = heaps.model_copy(update={"tasks": (1, 10_878)})
    assert growth.of_curve(tasks, fills_slowly=True).course == "constant"
    steep = heaps.model_copy(update={"memory": tuple(40_000 * n for n in answered)})
    assert growth.of_curve(steep, fills_slowly=True).course == "constant"


def test_a_task_for_every_request_is_a_leak_where_bytes_seem_to_decay() -> None:
    """Recorded on a machine that also did something else: 3.6 kB each at first, 2.6 kB at last."""
    answered = (
        *(0, 320, 640, 927, 1119, 1503, 1759, 2079, 2399, 2656, 2976, 3283, 3575, 3767, 4004),
        *(4118, 4403, 4691, 4954),
    )
    kilobytes = (
        *(36968, 42524, 43744, 44040, 44048, 45872, 47168, 48004, 49044, 49132, 49476, 50776),
        *(51840, 52388, 53180, 53232, 53536, 54656, 55628),
    )
    memory = tuple(1024 * size for size in kilobytes)
    left, pool = (Curve(requests=answered, memory=memory, tasks=(3, n)) for n in (4958, 64))
    assert growth.of_curve(pool).course == "decaying"
    found = growth.of_curve(left)
    assert (found.course, found.words) == ("constant", "3.1 kB (2.2…4.0 kB) and 1.0 tasks")


def duets(late: list[float], side: SideName, requests: float = 5_000) -> CaseDuets:
    """Duets in which a side has these rates in its second halves, and the other none."""
    samples = CaseDuets(CASE)
    for rate in late:
        one = duet(CASE.id, {CPU: 1.0, "pss_steady": 1.0})
        figures: dict[str, Any] = {
            name: {
                **one.metrics(name),
                "requests": requests,
                "memory_per_request_late": rate if name == side else 0.0,
            }
            for name in SIDES
        }
        samples.add(one.model_copy(update=figures))
    return samples


@pytest.mark.parametrize("side", SIDES)
def test_duets_alone_only_raise_a_suspicion(side: SideName) -> None:
    """450, 500, 550, 500: 500 ± 41 * 3.18 / 2 = 65. 400 requests are too few."""
    found = duets([450, 500, 550, 500], side).growth
    assert found[side].course == "undecided"
    assert (found[side].estimate, found[side].requests) == (500, 20_000)
    assert found[side].high - 500 == pytest.approx(65, abs=0.5)
    (other,) = set(found) - {side}
    assert found[other].words == "nothing measurable (below 0.1 kB)"
    few = (duets([450, 90, 550], side), duets([450, 500, 550, 500], side, requests=400))
    wide = duets([-900, 2_000, -500, 1_400], side)
    assert [one.growth[side].course for one in (*few, wide)] == ["none"] * 3
    assert duets([150, 900], side).growth[side].course == "undecided"


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("both", [True, False])
@pytest.mark.parametrize(("held", "leaks"), [(LEAK, True), (NOTHING, False)])
def test_a_leak_is_named_first_whichever_side_it_is(
    side: SideName, held: Curve, *, leaks: bool, both: bool
) -> None:
    """Memory that grows has no figure to be judged; only what is new in head is broken.

    The other side is no contrast unless it was loaded alone as well.
    """
    (other,) = set(SIDES) - {side}
    samples = duets([450, 500, 550, 500, 500, 500], side)
    samples.soak(side, held)
    if both:
        samples.soak(other, NOTHING)
    judged = {one.metric: one for one in judge({CASE.id: samples})[CASE.id]}
    new = leaks and side == "head" and both
    assert ("pss_steady" in judged) is (new or not leaks)
    broken = judged["pss_steady"].verdict is Verdict.NOT_COMPARABLE if not leaks or new else False
    assert broken is new
    case = judged_case(CASE.id, *judged.values()).model_copy(update={"growth": samples.growth})
    comparison = comparison_of(case)
    headline = make_view(comparison).headline
    assert (f" leaks: {side} keeps 0.49 kB (0.47…0.52 kB" in headline) is leaks
    contrast = f"for every request, {other} nothing measurable (below 0.1 kB)" in headline
    assert contrast is (leaks and both)
    assert ("load the other side alone" in str(make_view(comparison).sections)) is (
        leaks and not both
    )
    assert (exit_code(comparison) == 1) is new


@dataclass
class Leaking(FakeInstruments):
    """One side keeps 500 B per request, until its soak ends as is given; the other nothing."""

    side: SideName = "head"
    ends: Curve = LEAK
    soaks: list[SideName] = field(default_factory=list)

    def duets(self, *pairs: Any, **more: Any) -> tuple[Duet, ...]:
        rates = {"memory_per_request_late": self.source.gauss(500, 20)}
        return tuple(
            one.model_copy(update={self.side: {**one.metrics(self.side), **rates}})
            for one in super().duets(*pairs, **more)
        )

    def soak(self, side: SideCase, name: SideName, seconds: float) -> Curve:
        assert side.testbed.apps.name == name
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
        (LEAK, 45.0, "constant"),
        (LEAK, 33.0, "undecided"),
    ],
)
def test_a_comparison_soaks_what_it_suspects_once(
    side: SideName,
    ends: Curve,
    seconds: float,
    course: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Counts take 13 s, a duet 7 s: 33 s have room for these alone, 45 s for a short soak, too.

    Only a leak is a reason to load the other side as well: else no side is to blame.
    """
    monkeypatch.setattr(tools, "oha_version", lambda _: "1.16.0")
    fake = Leaking(side=side, ends=ends)
    found = compared_by(fake, [CASE], tmp_path, seconds)
    assert found.wall_seconds <= seconds
    (other,) = set(SIDES) - {side}
    both = course == "constant" and seconds > 45
    assert fake.soaks == [side, other][: (seconds > 33) + both]
    (case,) = found.cases
    assert case.growth[side].course == course
    view = make_view(found)
    assert "perhaps" not in str(view)
    leaks = f" leaks: {side} keeps 0.49 kB (0.47…0.52 kB" in view.headline
    assert leaks is (course == "constant")
    assert (exit_code(found) == 1) is (leaks and both and side == "head")
    assert Comparison.model_validate_json(found.model_dump_json()) == found


NONE = KeptMemory(course="none", requests=3_000)
KEPT = KeptMemory(course="constant", bytes=500, place="app.py:15", requests=3_000)
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
        (duets([450, 500, 550, 500], "head").growth["head"], "constant", True),
        (duets([10, 20, 0, 10], "head").growth["head"], "fills", True),
        (duets([0, 500, -300, 600], "head").growth["head"], "constant", False),
        (duets([10, 20, 0, 10], "head", requests=2_000).growth["head"], "constant", False),
    ],
)
def test_whoever_saw_more_requests_decides_on_a_leak(
    load: Growth | None, course: str, loaded: bool
) -> None:
    """500 B for each of 3,000 requests in process; soaks have 50,000, duets 5,000, or 2,000."""
    decided = growth.decide(KEPT, load, 4)
    assert decided is not None
    assert (decided.course, decided.loaded, decided.place) == (course, loaded, "app.py:15")
    if load and loaded:
        assert decided.requests == (50_000 if load.curve else 5_000)


@pytest.mark.parametrize(
    ("ends", "says"),
    [
        (LEAK, "▼ leaks: x/a/py3.14 keeps 0.50 kB for each of the first 50,000 requests"),
        (FILLS, "x/a/py3.14 fills a cache (app.py:15)"),
        (Curve(problem="it died"), "▼ may leak: x/a/py3.14 keeps 0.50 kB for each of the first 3"),
    ],
)
def test_a_report_does_not_contradict_its_load(
    ends: Curve, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "oha_version", lambda _: "1.16.0")
    seen = Seen({CASE.id: Effects(kept_base=NONE, kept_head=KEPT)})
    found = compared_by(Leaking(ends=ends), [CASE], tmp_path, 120.0, seen=seen)
    headline = make_view(found).headline
    assert says in headline
    assert headline.count("leak") == says.count("leak")


def test_of_two_leaks_head_is_to_blame_for_what_is_more() -> None:
    def leaks(rate: float) -> Growth:
        return growth.of_curve(curve(lambda n: rate * n))

    assert growth.leak({"base": leaks(500), "head": leaks(500)}) == ""
    assert growth.leak({"base": leaks(1_000), "head": leaks(500)}) == ""
    assert growth.leak({"base": leaks(500), "head": leaks(1_000)}).startswith("head: memory_grows")


def test_a_suspicion_is_no_news() -> None:
    """Seen: "perhaps keeps 19 kB (−94…133 kB) per request"."""
    doubt = {"course": "undecided", "estimate": 19e3, "high": 133e3, "requests": 900}
    for low in (-94e3, 5e3):
        view = make_view(
            comparison_of(judged_case(CASE.id, growth={"head": Growth(low=low, **doubt)}))
        )
        assert not [section for section in view.sections if section.title == "Next"]
        assert "kB" not in view.headline


@pytest.mark.real
def test_a_soak_of_a_server(bench: Bench) -> None:
    """One that keeps 40,033 bytes for every request, and one that keeps none."""
    leaking = bench("soak", "--for", "5s", "--select", "badapps/keep", "--json")
    assert leaking.code == 1, leaking
    assert "it leaks" in leaking.err
    found = json.loads(leaking.out)
    assert found["course"] == "constant"
    assert found["low"] <= found["estimate"] <= found["high"]
    assert math.isclose(found["estimate"], 40_033, rel_tol=0.1)
    ordinary = bench("soak", "--for", "5s", "--select", "badapps/truthful")
    assert ordinary.code == 0, ordinary
    assert "no leak: nothing measurable" in ordinary.out
    assert not bench.alive()
    assert bench("soak", "--for", "5s").code == 2
