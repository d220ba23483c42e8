"""What counts of instructions say."""

import pytest

from comparing import swapped
from duetbench.core.comparison import INSTRUCTIONS, Instructions
from duetbench.core.model import Verdict
from duetbench.counts import counted
from duetbench.judge.findings import of_instructions
from duetbench.report.changes import ends


@pytest.mark.parametrize(
    ("ratio", "limit", "verdict"),
    [
        # The floor is 0.2 %, and an interval ends 0.1 % from its ratio.
        (1.0019, 0.001, Verdict.SAME),
        (1.0029, 0.001, Verdict.SAME),
        (1.0031, 0.001, Verdict.WORSE),
        (1 / 1.0031, 0.001, Verdict.BETTER),
        (1.0199, 0.02, Verdict.SAME),  # nobody acts on less than the limit
        (1.0201, 0.02, Verdict.WORSE),
    ],
)
def test_a_count_is_judged_with_a_fixed_resolution(
    ratio: float, limit: float, verdict: Verdict
) -> None:
    counts = Instructions(base=1e6, head=1e6 * ratio, spread=0.02)
    actual = of_instructions("", counts, limit)
    assert (actual.subject, actual.verdict, actual.limit) == (INSTRUCTIONS, verdict, limit)
    figures = (actual.ratio, actual.low, actual.high, actual.detectable)
    assert figures == pytest.approx((ratio, ratio / 1.001, ratio * 1.001, 0.003))


@pytest.mark.parametrize(
    ("base", "head", "verdict", "interval"),
    [
        # The same code grows alike on both sides: rounds of one differ by 0.7 %, and this is all.
        ((1e5, 1.004e5, 1.007e5), (1e5, 1.004e5, 1.007e5), Verdict.SAME, "−0.1…+0.1 %"),
        ((3e5, 3e5, 3e5), (2.007e5, 2.007e5, 2.007e5), Verdict.BETTER, "−33.2…−33.0 %"),
        ((1e5, 1e5, 1e5), (2.5e5, 2.5e5, 2.5e5), Verdict.WORSE, "2.50…2.50×"),
        # Differences 0, 0.04 and −0.04 %: t of 2 degrees is 4.30, so ±0.0994 %: below 0.1 %.
        ((1e5, 1e5, 1e5), (1e5, 1.0004e5, 0.9996e5), Verdict.SAME, "−0.1…+0.1 %"),
        # Differences 0, 0.5 and −0.5 %: ±1.24 %, and five times that between processes.
        ((1e5, 1e5, 1e5), (1e5, 1.005e5, 0.995e5), Verdict.UNKNOWN, "−5.9…+6.2 %"),
        ((1e5, 1e5, 1e5), (1.1e5, 1.1044e5, 1.0956e5), Verdict.WORSE, "+4…+16 %"),
        # What draws the same numbers on both sides is not exact for that.
        ((1e5, 1.02e5, 1.04e5), (1e5, 1.02e5, 1.04e5), Verdict.UNKNOWN, "−3.8…+3.9 %"),
    ],
)
def test_counts_are_as_exact_as_the_rounds_of_both_sides_agree(
    base: tuple[float, ...], head: tuple[float, ...], verdict: Verdict, interval: str
) -> None:
    for sides, sign in (((base, head), 1), ((head, base), -1)):
        counts = counted._together(*sides)
        actual = of_instructions("", counts, 0.02)
        assert actual.verdict is (verdict if sign > 0 else swapped(verdict))
        if sign > 0:
            assert ends(actual.interval) == interval


@pytest.mark.parametrize(
    ("ratios", "spread", "verdict", "half"),
    [
        ((1.02,), 0.0005, Verdict.WORSE, 0.001),  # rounds that are alike know no layouts
        ((1.02,), 0.0020, Verdict.UNKNOWN, 0.04),
        ((1.25,), 0.0020, Verdict.WORSE, 0.04),
        ((1.00,), 0.0020, Verdict.SAME, 0.001),
        ((1.03, 1.03, 1.03), 0.0020, Verdict.WORSE, 0.001),
        # 2.4 and 0.7 % and none: by hand a standard deviation of 0.0122, times 4.30 / √3.
        ((1.00, 1.007, 1.024), 0.0020, Verdict.UNKNOWN, 0.0303),
    ],
)
def test_a_change_that_another_layout_of_memory_does_not_show_is_no_change(
    ratios: tuple[float, ...], spread: float, verdict: Verdict, half: float
) -> None:
    for step in (1, -1):
        sides = [(1e6, 1e6 * ratio)[::step] for ratio in ratios]
        counts = [Instructions(base=b, head=h, spread=spread, scatter=1e-4) for b, h in sides]
        actual = of_instructions("", counted.in_layouts(counts), 0.01)
        assert actual.verdict is (verdict if step > 0 else swapped(verdict))
        assert counted.in_layouts(counts).error == pytest.approx(half, rel=0.01)


@pytest.mark.parametrize(
    ("ratio", "times"), [(1.001, 1), (1.02, 3), (1 / 1.02, 3), (1.08, 3), (1.09, 1), (0.5, 1)]
)
def test_only_a_small_change_is_counted_in_further_layouts(
    ratio: float, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """8 % is twice what a layout moves: a larger change is one in any of them."""
    paddings = []

    def count(_sides: object, _limit: float, _ends: float, padding: int = 0) -> Instructions:
        paddings.append(padding)
        return Instructions(base=1e6, head=1e6 * ratio, spread=0.002, scatter=1e-4)

    monkeypatch.setattr(counted, "_count", count)
    monkeypatch.setattr(counted, "missing", lambda: None)
    assert isinstance(counted.both([], 1.0), Instructions)
    assert paddings == [0, 100, 1000][:times]
