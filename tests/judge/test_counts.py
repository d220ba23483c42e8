"""What counts of instructions say."""

import pytest

from comparing import swapped
from duetbench.core.comparison import INSTRUCTIONS, Instructions
from duetbench.core.model import Verdict
from duetbench.counts import counted
from duetbench.judge.findings import of_instructions
from duetbench.report.changes import ends
from goldens import assert_said


def test_a_count_is_judged_with_a_fixed_resolution() -> None:
    """The floor is 0.2 %, an interval ends 0.1 % from its ratio, and nobody acts on less than 2."""
    for ratio, limit, verdict in (
        (1.0019, 0.001, Verdict.SAME),
        (1.0029, 0.001, Verdict.SAME),
        (1.0031, 0.001, Verdict.WORSE),
        (1 / 1.0031, 0.001, Verdict.BETTER),
        (1.0199, 0.02, Verdict.SAME),
        (1.0201, 0.02, Verdict.WORSE),
    ):
        counts = Instructions(base=1e6, head=1e6 * ratio, spread=0.02)
        actual = of_instructions("", counts, limit)
        assert (actual.subject, actual.verdict, actual.limit) == (INSTRUCTIONS, verdict, limit)
        figures = (actual.ratio, actual.low, actual.high, actual.detectable)
        assert figures == pytest.approx((ratio, ratio / 1.001, ratio * 1.001, 0.003))


def test_counts_are_as_exact_as_the_rounds_of_both_sides_agree() -> None:
    def judge(rounds: str) -> str:
        base, head = (tuple(map(float, side.split())) for side in rounds.split(" | "))
        actual = of_instructions("", counted._together(base, head), 0.02)
        back = of_instructions("", counted._together(head, base), 0.02)
        assert back.verdict is swapped(actual.verdict)
        return f"{actual.verdict}, {ends(actual.interval)}"

    assert_said("counts", judge)


def test_a_change_that_another_layout_of_memory_does_not_show_is_no_change() -> None:
    """The ratios of some layouts, and by how much rounds differ."""

    def judge(layouts: str) -> str:
        ratios, _, spread = layouts.partition(" | ")
        sides = [(1e6, 1e6 * float(ratio)) for ratio in ratios.split()]
        joined, back = (
            counted.in_layouts(
                [Instructions(base=b, head=h, spread=float(spread), scatter=1e-4) for b, h in each]
            )
            for each in (sides, [pair[::-1] for pair in sides])
        )
        verdict = of_instructions("", joined, 0.01).verdict
        assert of_instructions("", back, 0.01).verdict is swapped(verdict)
        return f"{verdict}, ±{100 * joined.error:.2f} %"

    assert_said("layouts", judge)


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
