"""Stacks against an anchor: how many duets they get, what their points are, and continued runs."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from bare import QUIETLY
from comparing import UNSTEADY, WRONG, busy
from comparing import duet as duet_of
from duetbench.app import revisions
from duetbench.app.testbed import SideCase
from duetbench.core.change import Release
from duetbench.core.comparison import Duet, Instructions
from duetbench.core.errors import UsageError
from duetbench.core.model import Case, Flag
from duetbench.host import files, paths
from duetbench.judge.instruments import Real
from duetbench.judge.pairs import CaseDuets, Mode, Pair
from fake_sessions import make_duet, side
from observatory.matrix.anchor import Anchor, anchor_file, anchor_text, load_anchor
from observatory.matrix.checkout import Checkout
from observatory.store.points import Points
from observatory.trend import backfill
from observatory.trend.anchored import (
    DUET_PROTOCOL,
    Effort,
    Measurement,
    Wanted,
    measure,
)
from repos import borrow_cache, keep, make_tiny, write
from tiny_index import serving

CPU = "server_cpu_per_request"
LOGS = (0.01, 0.03, 0.02, 0.02, 0.025, 0.015)


@dataclass
class Given(Real):
    """Instruments whose duets have given log ratios, by case and number, whatever the order."""

    logs: Sequence[float] = LOGS
    flags: dict[int, Flag] = field(default_factory=dict)  # of head, by number of the case's duet
    base: Mapping[str, float] = field(default_factory=lambda: {CPU: 1e-4})
    duet_log: list[str] = field(default_factory=list)
    first: list[bool] = field(default_factory=list)

    def duets(self, pairs: Sequence[Pair], *, head_first: bool, order: int) -> tuple[Duet, ...]:
        duets: list[Duet] = []
        for pair in pairs:
            number = self.duet_log.count(pair.case.id)
            self.duet_log.append(pair.case.id)
            self.first.append(head_first)
            flags = (self.flags[number],) if number in self.flags else ()
            void = any(flag.kind == "void" for flag in flags)
            grown = math.exp(self.logs[number % len(self.logs)])
            head = {name: figure * grown for name, figure in self.base.items()}
            figures = ({}, {}) if void else (dict(self.base), head)
            made = make_duet(pair.case.id, order + len(duets), *figures, head_first=head_first)
            alone = pair.mode is not Mode.TOGETHER
            duets.append(made.model_copy(update={"flags_head": flags, "alone": alone}))
        return tuple(duets)

    def instructions(
        self, sides: tuple[SideCase, SideCase], limit: float, ends: float = 0.0
    ) -> Instructions | str:
        assert sides
        assert 0 < limit <= ends
        return Instructions(base=200_000, head=201_000, spread=2e-4)


CASES = (busy("a/b/py3.14"), busy("a/c/py3.14"))


def run(instruments: Given, cases: Sequence[Case] = CASES, **precision: Any) -> Points:
    """Measure the cases of one stack, of which nothing is prepared."""
    anchor = load_anchor(paths.project_root())
    wanted = Wanted("later", datetime(2026, 11, 1, tzinfo=UTC))
    sides = side("anchor", tuple(cases)), side("later", tuple(cases))
    effort = Effort(**{"least": 3, "most": 5, **precision})
    return Measurement(anchor, wanted, sides, (), instruments, QUIETLY, effort).measure()


def test_a_case_is_measured_until_its_ratio_is_known() -> None:
    """0.01, 0.03, 0.02: mean 0.02, standard error 0.01 / √3 = 0.0058; another 0.02: 0.0041."""
    instruments = Given()
    found = run(instruments)
    assert (len(instruments.duet_log), found.missing) == (2 * 4, ())
    first, second = found.cases
    cpu, instructions = first.points
    assert (first.case, second.case, cpu.metric) == ("a/b/py3.14", "a/c/py3.14", CPU)
    assert (cpu.ratio, cpu.duets, cpu.excluded) == (round(math.exp(0.02), 7), 4, 0)
    assert cpu.se == pytest.approx(math.sqrt(2e-4 / 3) / 2, rel=1e-3)
    # Student's t of 3 degrees of freedom: 3.182 × 0.0040825 = 0.01299.
    assert cpu.interval.ends == pytest.approx((math.exp(0.00701), math.exp(0.03299)), rel=1e-4)
    assert cpu.anchor == 1e-4
    assert (instructions.metric, instructions.ratio, instructions.se) == (
        "instructions", 1.005, 1e-4,
    )  # fmt: skip
    # Who is first changes from duet to duet, of cases that share a server together.
    assert sorted(instruments.first) == [False] * 4 + [True] * 4
    # It is never known well enough, and is given up at five.
    run(scattered := Given(), se=1e-6)
    assert len(scattered.duet_log) == 2 * 5


def test_what_was_disturbed_or_failed_is_told() -> None:
    # 0.03, 0.02, 0.02 are left: their standard error is 0.0033.
    found = run(Given(flags={0: UNSTEADY})).cases
    assert [(one.points[0].duets, one.points[0].excluded) for one in found] == [(3, 1)] * 2
    failing = Given(flags=dict.fromkeys(range(9), WRONG))
    points = run(failing)
    assert len(failing.duet_log) == 2 * 2  # one may be an accident, two are an answer
    assert [one.points[0].metric for one in points.cases] == ["instructions"] * 2
    assert [one.reason for one in points.missing] == ["head: expected hi, found ho"] * 2


LOUD, CALM = (0.1, -0.1, 0.05, -0.05), (0.001, -0.001, 0.0005, -0.0005)


@pytest.mark.parametrize(
    ("mode", "seconds", "logs", "times"),
    [
        (Mode.TOGETHER, 4, CALM, 5), (Mode.TOGETHER, 4, LOUD, 20),  # quick: 10
        (Mode.TOGETHER, 8, CALM, 5), (Mode.TOGETHER, 8, LOUD, 20),  # just so
        (Mode.TOGETHER, 9, CALM, 4), (Mode.TOGETHER, 9, LOUD, 4),  # 40 s hold 4
        (Mode.TOGETHER, 25, LOUD, 3),  # fewer would tell nothing
        (Mode.TOGETHER, 100, LOUD, 3),
        (Mode.ALONE, 4, LOUD, 5),  # launches in turn scatter too far to become precise
    ],
)  # fmt: skip
def test_how_often_a_case_is_measured(
    mode: Mode, seconds: float, logs: Sequence[float], times: int
) -> None:
    samples = CaseDuets(CASES[0], mode)
    while Effort().missing(samples):
        head = math.exp(logs[len(samples.all) % len(logs)])
        made = duet_of(CASES[0].id, {CPU: 1}, seconds=seconds)
        samples.add(made.model_copy(update={"base": {CPU: 1.0}, "head": {CPU: head}}))
    assert len(samples.all) == times


FIRST, LAST = date(2026, 1, 31), date(2026, 4, 30)


def test_dates_are_those_of_an_interval() -> None:
    assert [f"{day:%m-%d}" for day in backfill.dates(FIRST, LAST, "month")] == [
        "01-31", "02-28", "03-31", "04-30",
    ]  # fmt: skip
    assert len(backfill.dates(FIRST, LAST, "week")) == 13  # 89 days later is the last
    assert len(backfill.dates(FIRST, LAST, "day")) == 90
    for first, last, every, words in (
        (FIRST, LAST, "year", "expected day, week or month"),
        (LAST, FIRST, "month", "earlier date first"),
    ):
        with pytest.raises(UsageError, match=words):
            backfill.dates(first, last, every)


def test_releases_are_found_by_few_questions() -> None:
    """1.1 was taken back two days later; two came out on 7 April, and a fix of 1.0 after them."""
    asked = []
    known = {"1.0": (2, 10), "1.1": (3, 1), "1.9": (4, 7), "2.0": (4, 7), "1.0.1": (4, 9)}

    def newest(day: date, below: str | None) -> str | None:
        asked.append((day, below))
        there = {one for one, out in known.items() if date(2026, *out) <= day}
        there -= {"1.1"} if day >= date(2026, 3, 3) else set()
        allowed = (one for one in there if below is None or Version(one) < Version(below))
        return max(allowed, key=Version, default=None)

    found = backfill.releases("gamma", FIRST, LAST, newest)
    assert [(one.label, f"{one.when:%m-%d}") for one in found] == [
        ("gamma 1.0", "02-10"), ("gamma 1.9", "04-07"), ("gamma 2.0", "04-07"),
    ]  # fmt: skip
    assert [one.release.previous for one in found if one.release] == [None, "1.0", "1.9"]
    assert len(asked) == len(set(asked)) < 30  # of 90 days
    begun = backfill.releases("gamma", date(2026, 4, 7), LAST, newest)
    assert [one.label for one in begun] == ["gamma 2.0"], "the newest of that day, and none before"


@pytest.fixture
def anchored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose anchor is its first commit, with `alpha` 1.0 of January."""
    borrow_cache(tmp_path / "cache", monkeypatch)
    root = make_tiny(tmp_path / "tiny")
    monkeypatch.setenv("DUETBENCH_ROOT", str(root))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return root


@pytest.fixture
def anchor(anchored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Anchor]:
    """Its anchor, beside an index where `alpha` has a release in each of three months."""
    with serving(monkeypatch, tmp_path / "uv") as index:
        for month in range(1, 4):
            index.add("alpha", f"{month}.0", f"2026-0{month}-10")
        text = Checkout(anchored).resolve("one", date(2026, 1, 15))
        write(anchored, "apps/stacks/one.txt", text)
        made = Anchor(
            name="first", commit=keep(anchored), since=date(2026, 11, 1),
            protocol=DUET_PROTOCOL,
        )  # fmt: skip
        anchor_file(anchored).write_text(anchor_text(made), "utf-8")
        assert load_anchor(anchored) == made
        yield made


def backfilled(
    root: Path,
    anchor: Anchor,
    tmp_path: Path,
    instruments: Given,
    *wanted: Wanted,
) -> list[Points]:
    """Measure stacks that are not known in `results`, and save their points there."""
    results, effort = tmp_path / "results", Effort(se=0.01, least=2)
    left = backfill.without_known(wanted, results, anchor)
    found = list(measure(Checkout(root), left, (), QUIETLY, effort, instruments))
    for points in found:
        files.save(results, points)
    return found


@pytest.mark.real
def test_stacks_of_other_times_are_installed_measured_and_removed(
    anchored: Path, anchor: Anchor, tmp_path: Path
) -> None:
    """What cannot be measured is recorded; what has its points is left out the next time."""
    dates = [date(2026, 1, 20), date(2026, 3, 20), date(2025, 12, 1)]
    alpha, absent = (
        Release(package=name, version=version, previous=None)
        for name, version in (("alpha", "2.0"), ("absent", "1"))
    )
    releases = (backfill.of_release(date(2026, 2, 10), one) for one in (alpha, absent))
    wanted = [*map(backfill.of_date, dates), *releases]
    made = {one.label: one for one in backfilled(anchored, anchor, tmp_path, Given(), *wanted)}
    versions = {name: one.stacks[0].packages["alpha"] for name, one in made.items() if one.stacks}
    assert versions == {"as of 2026-01-20": "1.0", "as of 2026-03-20": "3.0", "alpha 2.0": "2.0"}
    assert made["alpha 2.0"].release == alpha
    (early,), (without,) = (
        {one.reason for one in made[label].missing} for label in ("as of 2025-12-01", "absent 1")
    )
    assert "alpha" in early
    assert "Log: $CACHE/" in early  # and not where that folder is
    assert without == "the stack one has no absent"
    left = [p for p in paths.cache_dir().glob("environments/one-*") if not p.is_symlink()]
    held = {info.name for p in left for info in p.glob("lib/python*/site-packages/*.dist-info")}
    assert held <= {"alpha-1.0.dist-info"}, "only the anchor's own environment stays"
    again = backfilled(anchored, anchor, tmp_path, Given(), *wanted)
    assert {one.label for one in again} == {"as of 2025-12-01", "absent 1"}
    newest = partial(backfill.newest, "alpha", lambda _: None)
    assert newest(date(2026, 2, 12), None) == "2.0"
    assert newest(date(2026, 2, 12), "2.0") == "1.0"
    assert newest(date(2025, 2, 12), None) is None


def test_our_nights_have_points_of_all_cases_that_the_anchor_has() -> None:
    """As it declares them itself, whatever its commit called its settings and variables."""
    root = paths.project_root()
    anchor = load_anchor(root)
    with revisions.copies() as copies:
        state = revisions.resolve(root, anchor.commit)
        place = Checkout(revisions.lay_out(root, state, copies))
        before = place.cases(profile="nightly")
    now = {case.id for case in Checkout(root).cases(profile="nightly")}
    assert len(before) >= 52
    assert {case.id for case in before} <= now
