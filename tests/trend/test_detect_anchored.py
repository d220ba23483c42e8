"""Steps of anchored series: levels with standard errors, and what becomes of them."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from detecting import BUMPED, CPU, detect, recorded, run_of, table
from duetbench.core.metrics import INSTRUCTIONS
from duetbench.store.change import Step
from observatory.trend.candidates import steps
from observatory.trend.levels import LONE, PRICE, Piece, fit

E = 0.01


def places(logs: Sequence[float], errors: Sequence[float] | float = E, **how: Any) -> list[int]:
    """Where another level begins."""
    every = [errors] * len(logs) if isinstance(errors, float) else errors
    return [one.start for one in fit(logs, every, **how)][1:]


def test_a_step_is_worth_its_likelihood_ratio() -> None:
    """A points on one level and b on another are worth ab/(a + b) · (height/error)²."""
    just = math.sqrt(PRICE * (4 + 2) / (4 * 2))  # 3.24 standard errors
    assert places([0.0] * 4 + [1.01 * just * E] * 2) == [4]
    assert places([0.0] * 4 + [-1.01 * just * E] * 2) == [4]
    assert places([0.0] * 4 + [0.99 * just * E] * 2) == []


def test_levels_are_weighted_means_without_outliers() -> None:
    """Of (0, 0.03) with weights 4:1 it is 0.006; two points of 0.01 make an error of 0.0071."""
    one, other = fit([0.0, 0.03, 1.0, 0.5, 0.5], [E, 2 * E, E, E, E])
    assert (one.start, one.end, other.start, other.end) == (0, 3, 3, 5)
    assert [one.log, other.log] == pytest.approx([0.006, 0.5])
    assert [one.se, other.se] == pytest.approx([E / math.sqrt(1 + 1 / 4), E / math.sqrt(2)])
    assert fit([], []) == []
    assert fit([0.7], [2**-6]) == [Piece(0, 1, 0.7, 2**-6)]


def test_what_stacks_a_month_apart_differ_by_is_no_scatter() -> None:
    """Every second point is 10 errors off: ten levels cost nine prices, one in the middle 10 · 25.

    Of nights every second one were an outlier, and what neighbours differ by (100 E², of which
    0.4549 · 2 is expected of one variance) were scatter.
    """
    logs = [0.0, 10 * E] * 5
    assert places(logs, chosen=[True] * 10) == list(range(1, 10))
    assert places(logs) == []
    # Nights after them have outliers again.
    assert places([0.0, 10 * E, *[0.0] * 8, 1.0], chosen=[True] * 2 + [False] * 9) == [1, 2]


def test_one_far_point_is_an_outlier_and_two_are_a_level() -> None:
    """However far; but not where nothing scatters."""
    assert PRICE / 2 < LONE < PRICE
    for far in (0.1, 10.0):
        assert places([0.0] * 6 + [far]) == []
        assert places([0.0] * 3 + [far] + [0.0] * 3) == []
        assert places([0.0] * 6 + [far] * 2) == [6]
        assert places([0.0] * 6 + [far], lone=True) == [6]


def test_an_imprecise_point_makes_no_step() -> None:
    """5 % with errors of 1 % are worth 10/7 · 25 = 36, with errors of 3 % 10/47 · 25 = 5."""
    logs = [0.0] * 5 + [0.05] * 2
    assert places(logs) == [5]
    assert places(logs, [E] * 5 + [3 * E] * 2) == []


def test_what_scatters_more_than_it_says_has_no_steps() -> None:
    """Points of ±2 % say so by their differences, though their errors say 0.1 %; seven are few."""
    assert places([0.02, -0.02] * 4, 0.001) == []
    assert places([0.02, 0.02, 0.02, -0.02, -0.02, -0.02, -0.02], 0.001) == [3]
    assert places([0.0] * 12, 0.0) == []


def test_equal_locks_have_no_steps() -> None:
    """Twelve points; of sixty one series in a hundred at most."""
    source = np.random.default_rng(11)
    for points, most in ((12, 0), (60, 1)):
        found = [places(source.normal(0, 0.004, points).tolist(), 0.004) for _ in range(100)]
        assert sum(map(len, found)) <= most


def ratios(*pairs: tuple[int, float], scatter: float = 0.003) -> list[float]:
    """So many points on each level, in turn a little above and below it."""
    levels = [level for count, level in pairs for _ in range(count)]
    return [level * math.exp(scatter * (-1) ** n) for n, level in enumerate(levels)]


def only(found: Sequence[Step]) -> Step:
    (step,) = found
    return step


def test_two_points_after_a_release_are_a_candidate_whatever_the_machine_does() -> None:
    """2 % with an interval; another kernel moves both sides and is no break."""
    versions, kernels = ["1"] * 20 + ["2"] * 2, ["6.1"] * 10 + ["6.2"] * 12
    figures = {"x/a": ratios((20, 1.1), (2, 1.122), scatter=0.001)}
    made = table(figures, versions, kernels=kernels, error=0.004)
    found = detect([made])
    step = only(found.candidates[0].steps)
    assert (step.nights, step.after_run, found.unexplained) == ((20, 2), run_of(20), ())
    assert step.ratio == pytest.approx(1.02, abs=1e-3)
    # Two points and twenty: √(1/2 + 1/20) · 1.96 · 0.4 % = 0.58 % on either side.
    assert step.within is not None
    assert list(step.within) == pytest.approx([1.0141, 1.0259], abs=1e-3)


def test_stacks_of_past_dates_that_were_measured_again_are_not_judged_again() -> None:
    """The runs have other names by then, and the order of these tells nothing."""
    versions = ["1"] * 10 + ["2"] * 12
    made = table({"x/a": ratios((10, 1.0), (12, 1.05), scatter=1e-4)}, versions, error=0.004)
    nights = [
        replace(night, as_of=f"2026-01-{place + 1:02d}", run=f"20260{9 - place // 4}-{place}")
        for place, night in enumerate(made.nights)
    ]
    made = replace(made, nights=tuple(nights))
    (one,) = detect([made]).candidates
    assert (one.base.as_of, one.head.as_of) == ("2026-01-10", "2026-01-11")
    record = recorded("open", 1.05, 10)
    for dates, known in ((("2026-01-08", "2026-01-15"), 1), (("2026-01-11", "2026-01-20"), 0)):
        base, head = (
            state.model_copy(update={"as_of": date})
            for state, date in zip((record.base, record.head), dates, strict=True)
        )
        judged = record.model_copy(update={"id": "earlier", "base": base, "head": head})
        assert detect([made], (judged,)).known == known


def test_counts_step_at_their_first_point_and_may_be_of_any_size_above_the_floor() -> None:
    """0.5 % more instructions, whose rounds differ by as much every time; CPU needs more points."""
    made = [table({"x/a": ratios((20, 1.0), (1, 1.005), scatter=1e-6)}, BUMPED[:21], error=0.004,
                  metric=metric) for metric in (INSTRUCTIONS, CPU)]  # fmt: skip
    assert [len(list(steps(one))) for one in made] == [1, 0]
    assert only([one.step for one in steps(made[0])]).series.metric == INSTRUCTIONS
