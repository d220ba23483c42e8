"""Stacks against an anchor: how many duets they get, what their points are, and continued runs."""

import math
from datetime import UTC, date, datetime
from typing import Any

import pytest
from packaging.version import Version

from comparing import busy
from comparing import duet as duet_of
from duetbench.app import revisions
from duetbench.core.comparison import INSTRUCTIONS
from duetbench.core.metrics import CPU
from duetbench.host import paths
from duetbench.judge.pairs import CaseDuets, Mode
from fake_sessions import FakeInstruments, SilentReporter, side
from observatory.matrix.checkout import Checkout
from observatory.store.points import Points
from observatory.trend import backfill
from observatory.trend.anchored import Effort, Measurement, Wanted

LOGS = (0.01, 0.03, 0.02, 0.02, 0.025, 0.015)
CASES = (busy("a/b/py3.14"), busy("a/c/py3.14"))


def run(instruments: FakeInstruments, **precision: Any) -> Points:
    """Measure the cases of one stack, of which nothing is prepared."""
    anchor = Checkout.here().anchor
    wanted = Wanted("later", datetime(2026, 11, 1, tzinfo=UTC))
    sides = side("anchor", CASES), side("later", CASES)
    effort = Effort(**{"least": 3, "most": 5, **precision})
    return Measurement(anchor, wanted, sides, (), instruments, SilentReporter(), effort).measure()


def test_a_case_is_measured_until_its_ratio_is_known() -> None:
    """0.01, 0.03, 0.02: mean 0.02, standard error 0.01 / √3 = 0.0058; another 0.02: 0.0041."""
    instruments = FakeInstruments(dict.fromkeys(("a/b/py3.14", "a/c/py3.14"), 0.005), LOGS)
    actual = run(instruments)
    assert (len(instruments.duet_log), actual.missing) == (2 * 4, ())
    first, second = actual.cases
    points = {point.metric: point for point in first.points}
    cpu, instructions = points[CPU], points[INSTRUCTIONS]
    assert (first.case, second.case) == ("a/b/py3.14", "a/c/py3.14")
    assert (cpu.ratio, cpu.duets, cpu.excluded) == (round(math.exp(0.02), 7), 4, 0)
    assert cpu.se == pytest.approx(math.sqrt(2e-4 / 3) / 2, rel=1e-3)
    # Student's t of 3 degrees of freedom: 3.182 × 0.0040825 = 0.01299.
    assert cpu.interval.ends == pytest.approx((math.exp(0.00701), math.exp(0.03299)), rel=1e-4)
    assert cpu.anchor == 1e-4
    assert (instructions.ratio, instructions.se) == (1.005, 5e-6)
    # Who is first changes from duet to duet, of cases that share a server together.
    assert sorted(first for _, first in instruments.duet_log) == [False] * 4 + [True] * 4
    # It is never known well enough, and is given up at five.
    run(scattered := FakeInstruments(logs=LOGS), se=1e-6)
    assert len(scattered.duet_log) == 2 * 5


LOUD, CALM = (0.1, -0.1, 0.05, -0.05), (0.001, -0.001, 0.0005, -0.0005)


def test_how_often_a_case_is_measured() -> None:
    """Seconds of a duet; 10 of 4 s, and 5 of 8 s are quick; 40 s hold 4 of 9 s, but not 3 of 25."""
    for mode, seconds, calm, loud in (
        (Mode.TOGETHER, 4, 5, 20), (Mode.TOGETHER, 8, 5, 20), (Mode.TOGETHER, 9, 4, 4),
        (Mode.TOGETHER, 25, 3, 3), (Mode.TOGETHER, 100, 3, 3),
        (Mode.ALONE, 4, 5, 5),  # launches in turn scatter too far to become precise
    ):  # fmt: skip
        for logs, times in ((CALM, calm), (LOUD, loud)):
            samples = CaseDuets(CASES[0], mode)
            while Effort().missing(samples):
                head = math.exp(logs[len(samples.all) % len(logs)])
                made = duet_of(CASES[0].id, {CPU: 1}, seconds=seconds)
                samples.add(made.model_copy(update={"base": {CPU: 1.0}, "head": {CPU: head}}))
            assert len(samples.all) == times


FIRST, LAST = date(2026, 1, 31), date(2026, 4, 30)


def test_dates_are_those_of_an_interval() -> None:
    assert [f"{day:%m-%d}" for day in backfill.dates(FIRST, LAST)] == [
        "01-31", "02-28", "03-31", "04-30",
    ]  # fmt: skip
    assert backfill.dates(LAST, FIRST) == ()


def test_releases_are_found_by_few_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    """1.1 was taken back two days later; two came out on 7 April, and a fix of 1.0 after them."""
    asked = []
    known = {"1.0": (2, 10), "1.1": (3, 1), "1.9": (4, 7), "2.0": (4, 7), "1.0.1": (4, 9)}

    def newest(_: str, __: object, day: date, below: str | None = None) -> str | None:
        asked.append((day, below))
        there = {item for item, out in known.items() if date(2026, *out) <= day}
        there -= {"1.1"} if day >= date(2026, 3, 3) else set()
        allowed = (item for item in there if below is None or Version(item) < Version(below))
        return max(allowed, key=Version, default=None)

    monkeypatch.setattr(backfill, "newest", newest)
    actual = backfill.releases("gamma", FIRST, LAST, print)
    assert [(item.label, f"{item.when:%m-%d}") for item in actual] == [
        ("gamma 1.0", "02-10"), ("gamma 1.9", "04-07"), ("gamma 2.0", "04-07"),
    ]  # fmt: skip
    assert [item.release.previous for item in actual if item.release] == [None, "1.0", "1.9"]
    assert len(asked) == len(set(asked)) < 30  # of 90 days
    begun = backfill.releases("gamma", date(2026, 4, 7), LAST, print)
    assert [item.label for item in begun] == ["gamma 2.0"]  # the newest of that day, none before


def test_our_nights_have_points_of_all_cases_that_the_anchor_has() -> None:
    """As it declares them itself, whatever its commit called its settings and variables."""
    root = paths.project_root()
    anchor = Checkout(root).anchor
    with revisions.copies() as copies:
        state = revisions.resolve(root, anchor.commit)
        before = Checkout(revisions.lay_out(root, state, copies), "nightly").cases()
    now = {case.id for case in Checkout(root, "nightly").cases()}
    assert len(before) >= 52
    assert {case.id for case in before} <= now
