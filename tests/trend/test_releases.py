"""What each release of a package did, and which of several did it."""

import math

import pytest

import synthetic
from duetbench.core.metrics import CPU
from duetbench.core.model import Verdict
from duetbench.store.change import Change, Effect, Release, SeriesName, Share
from observatory.show.changes import describe, narrowed_line
from observatory.store.points import Points
from observatory.trend import releases
from observatory.trend.releases import ReleaseEffect, narrow
from site_builds import FREE, JSON, RELEASES, axis_of, release_points

FIRST, SECOND, THIRD = RELEASES


def effects(base: Points, head: Points) -> dict[str, ReleaseEffect]:
    (result,) = axis_of(base, head).results().values()
    return {one.case: one for one in result.effects if one.metric == CPU}


def test_errors_of_two_releases_add_in_quadrature() -> None:
    """0.003 and 0.004 make 0.005, with 18 degrees of freedom (625 / 33.7): t is 2.1009."""
    one = effects(FIRST, THIRD)[JSON]
    assert one.ratio.estimate == pytest.approx(1.2)
    half = 2.1009 * 0.005
    assert one.ratio.ends == pytest.approx((1.2 * math.exp(-half), 1.2 * math.exp(half)), rel=1e-5)
    assert one.verdict is Verdict.WORSE
    swapped = effects(
        release_points("1", None, 1, gil=(1.2, 0.004), free=(1.0, 0.01)),
        release_points("2", "1", 8, gil=(1.0, 0.003), free=(1.0, 0.01)),
    )
    assert swapped[JSON].ratio.estimate == pytest.approx(1 / 1.2)
    assert swapped[JSON].verdict is Verdict.BETTER


def test_what_is_seen_by_chance_among_many_is_not_called() -> None:
    """2.2 standard errors leave out no change alone (t of 20 is 2.09), and not among two."""
    base = release_points("1", None, 1, gil=(1.0, 0.003), free=(1.0, 0.003))
    error = math.hypot(0.003, 0.003)
    ratio = math.exp(math.log1p(0.002) + 2.2 * error)  # beyond the relevance floor of CPU
    head = release_points("2", "1", 8, gil=(ratio, 0.003), free=(1.0, 0.003))
    both = effects(base, head)
    assert (both[JSON].ratio.low or 0) > 1.002
    assert both[JSON].verdict is Verdict.UNKNOWN
    alone = [one.model_copy(update={"cases": one.cases[:1]}) for one in (base, head)]
    assert effects(*alone)[JSON].verdict is Verdict.WORSE
    assert (effects(*alone)[JSON].detectable or 0) < (both[JSON].detectable or 0)
    same = effects(FIRST, SECOND)
    assert same[JSON].verdict is Verdict.SAME  # all of ±0.69 % is within 1 %
    assert same[FREE].verdict is Verdict.UNKNOWN


@pytest.mark.parametrize("sign", [1, -1])
def test_what_is_seen_by_chance_among_many_releases_is_not_called(sign: int) -> None:
    """The last step, of 2.6 standard errors, is called alone, and not among twelve."""
    ratio = math.exp(sign * (math.log1p(0.002) + 2.6 * math.hypot(0.003, 0.003)))
    levels = [1.0] * 6 + [1.2**sign] * 6 + [1.2**sign * ratio]
    files = [
        release_points(f"{n}", f"{n - 1}", n + 1, gil=(level, 0.003), free=(1.0, 0.003))
        for n, level in enumerate(levels)
    ]

    def called(*points: Points) -> dict[str, Verdict | None]:
        results = axis_of(*points).results().items()
        return {name: result.moved[0].verdict for name, result in results if result.moved}

    verdict = Verdict.WORSE if sign > 0 else Verdict.BETTER
    assert called(*files[-2:]) == {"12": verdict}
    assert called(*files) == {"6": verdict}


@pytest.mark.parametrize("sign", [1, -1])
def test_a_small_step_is_seen_by_all_releases_on_both_sides_of_it(sign: int) -> None:
    """4 % is 2.8 errors of two neighbours, too little among 42 figures, and 9 of ten and twelve.

    If the release before it lies on both levels alike, none is named.
    """
    scatter = [0.004 * (-1) ** n for n in range(22)]

    def steps(*logs: float) -> dict[tuple[str, str, str], ReleaseEffect]:
        files = [
            release_points(
                f"{n}", f"{n - 1}", n + 1, gil=(math.exp(sign * log), 0.01), free=(1.0, 0.01)
            )
            for n, log in enumerate(logs)
        ]
        return axis_of(*files).levels

    small = [0.04 * (n >= 10) + more for n, more in enumerate(scatter)]
    ((key, effect),) = steps(*small).items()
    assert key == ("10", JSON, CPU)
    assert effect.verdict is (Verdict.WORSE if sign > 0 else Verdict.BETTER)
    assert effect.levels == (10, 12)
    assert math.log(effect.ratio.estimate) == pytest.approx(sign * 0.04)
    half = 1.96 * 0.01 * math.sqrt(1 / 10 + 1 / 12)
    assert math.log((effect.ratio.high or 0) / effect.ratio.estimate) == pytest.approx(half, 1e-4)
    small[9] = 0.02
    assert not steps(*small)
    assert not steps(*scatter)


SPAN = Release(package="fastapi", version="0.11.0", previous="0.9.0")
EFFECT = Effect(ratio=1.2, low=1.19, high=1.21, duets=10)
CHANGED = synthetic.change_record(
    series=SeriesName(machine="m", case=JSON, metric=CPU),
    culprit=SPAN,
    shares=(Share(releases=(SPAN,), **EFFECT.model_dump()),),
)


def closer(*points: Points, record: Change = CHANGED) -> Change | None:
    return next(iter(narrow([record], releases.axes(points))), None)


def test_of_several_releases_the_one_that_did_it_is_named() -> None:
    """0.10.0 over 0.9.0 is 1.0, and 0.11.0 over 0.10.0 is 1.2."""
    found = closer(*RELEASES)
    assert found is not None
    assert found.culprit == Release(package="fastapi", version="0.11.0", previous="0.10.0")
    assert found.narrowed is not None
    assert found.narrowed.series == SeriesName(machine=FIRST.machine.id, case=JSON, metric=CPU)
    (step,) = found.narrowed.steps
    assert step.ratio == pytest.approx(1.2)
    assert found.releases == (found.culprit,)
    assert not found.narrowed.complete
    assert (describe(found).releases, describe(found).cause) == ("fastapi 0.10.0 → 0.11.0",) * 2
    assert closer(*RELEASES, record=found) is None, "known already"


def test_between_two_that_are_no_neighbours_the_search_goes_on() -> None:
    """0.10.1 came out before 0.11.0 and was not measured: either may have done it."""
    found = closer(*RELEASES)
    assert found is not None
    assert found.narrowed is not None
    assert narrowed_line(found.narrowed).endswith("; others between these were not measured")
    between = release_points("0.10.1", "0.10.0", 14, gil=(1.0, 0.003), free=(1.0, 0.02))
    known = closer(FIRST, SECOND, between, THIRD, record=found)
    assert known is not None
    assert known.narrowed is not None
    assert (describe(known).cause, known.narrowed.complete) == ("fastapi 0.10.1 → 0.11.0", True)
    assert narrowed_line(known.narrowed).endswith("%)")


def test_releases_that_did_part_of_it_are_named_with_their_parts_that_of_the_whole_first() -> None:
    """1.2 = 1.5 × 0.8: the second did more than the whole, and the third took some of it back."""
    middle = release_points("0.10.0", "0.9.0", 8, gil=(1.5, 0.001), free=(1.0, 0.003))
    found = closer(FIRST, middle, THIRD)
    assert found is not None
    assert describe(found).cause == "fastapi 0.9.0 → 0.10.0: +50 %, fastapi 0.10.0 → 0.11.0: −20 %"
    assert found.culprit is not None
    assert found.culprit.version == "0.10.0"


@pytest.mark.parametrize(
    ("points", "changes"),
    [
        ((FIRST, THIRD), {}),  # none between is measured
        (RELEASES, {"shares": (), "culprit": None, "packages": ()}),
        (RELEASES, {"ratio": 0.9, "low": 0.8, "high": 0.95}),  # there it went the other way
        (
            tuple(
                release_points(version, None, 1, gil=(ratio, 0.02), free=(1.0, 0.003))
                for version, ratio in (("0.9.0", 1.0), ("0.10.0", 1.01), ("0.11.0", 1.02))
            ),
            {},
        ),  # nothing that is called
    ],
)
def test_no_release_is_named_that_nothing_shows(
    points: tuple[Points, ...], changes: dict[str, object]
) -> None:
    assert closer(*points, record=CHANGED.model_copy(update=changes)) is None
