"""The search for the first bad one of a row, and for releases by duets that measure nothing."""

import math
import random
from dataclasses import dataclass, field
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comparing import CPU
from detecting import recorded
from duetbench.core.errors import SetupError
from duetbench.store.change import Cause, Release, Share
from duetbench.trend.bisection import TIME_IS_UP, ReleaseSearch, StuckError, first_bad
from observatory.cli.changes import blame


@st.composite
def rows(draw: st.DrawFn) -> tuple[int, int, frozenset[int]]:
    """The number of items, which one is the culprit, and of which nothing can be told."""
    number = draw(st.integers(1, 200))
    unknown = draw(st.frozensets(st.integers(0, number - 1)))
    return number, draw(st.integers(0, number - 1)), unknown


@given(rows())
def test_the_culprit_is_named_with_the_unknown_ones_around_it(
    row: tuple[int, int, frozenset[int]],
) -> None:
    number, culprit, unknown = row
    asked: list[int] = []

    def ask(item: int) -> bool | None:
        asked.append(item)
        return None if item in unknown else item >= culprit

    start = max((item + 1 for item in range(culprit) if item not in unknown), default=0)
    known = (item for item in range(culprit, number) if item not in unknown)
    assert first_bad(range(number), ask) == range(start, min(next(known, number), number - 1) + 1)
    assert len(asked) == len({*asked})
    without = sum(item in unknown for item in asked)
    assert len(asked) <= math.ceil(math.log2(number)) + without


@given(st.lists(st.sampled_from([True, False, None]), min_size=1, max_size=60))
def test_what_comes_and_goes_is_named_where_it_comes(answers: list[bool | None]) -> None:
    """With nothing known to be good or bad inside of what is named."""
    found = first_bad(range(len(answers)), answers.__getitem__)
    assert found[-1] == len(answers) - 1 or answers[found[-1]]
    assert all(answers[item] is None for item in found[:-1])
    assert found[0] == 0 or answers[found[0] - 1] is False


@dataclass
class Played:
    """A player of duets that measures nothing: what packages do, and by how much it scatters.

    `drags`: what else moves with a package. `broken`: which cannot move without the other.
    """

    does: dict[str, float]
    scatter: float = 0.0
    drags: dict[str, str] = field(default_factory=dict)
    broken: tuple[str, ...] = ()
    together: dict[tuple[str, str], float] = field(default_factory=dict)
    most: int = 10**6
    source: random.Random = field(default_factory=lambda: random.Random(1))
    asked: list[tuple[str, frozenset[str], frozenset[str]]] = field(default_factory=list)

    def resolve(self, wanted: frozenset[str]) -> frozenset[str]:
        if 0 < len(wanted.intersection(self.broken)) < len(self.broken):
            raise SetupError("no such set of packages")
        return wanted.union(*({self.drags[name]} for name in wanted if name in self.drags))

    def duet(self, purpose: str, base: frozenset[str], head: frozenset[str]) -> float | None:
        if len(self.asked) == self.most:
            raise StuckError(TIME_IS_UP)
        self.asked.append((purpose, base, head))
        size = sum(math.log1p(self.does.get(name, 0.0)) for name in head - base)
        size += sum(more for pair, more in self.together.items() if head.issuperset(pair))
        return self.source.gauss(size, self.scatter)


def searched(played: Played, packages: int = 7) -> Cause:
    row = [f"p{number}" for number in range(packages)]
    releases = {name: Release(package=name, version="2", previous="1") for name in row}
    return ReleaseSearch(releases, played, CPU, lambda _: None).run()


def names(share: Share) -> list[str]:
    return [release.package for release in share.releases]


@pytest.mark.parametrize("guilty", [0, 3, 6])
def test_the_guilty_one_of_seven_is_found(guilty: int) -> None:
    """By three answers of four duets, and eight of it alone; wherever in the row it stands."""
    played = Played({f"p{guilty}": 0.05})
    cause = searched(played)
    (found,) = cause.shares
    assert names(found) == [f"p{guilty}"]
    assert cause.reason == ""
    assert found.ratio == pytest.approx(1.05)
    assert found.duets == 8
    assert cause.whole is not None
    assert cause.rest is not None
    assert cause.whole.ratio == pytest.approx(1.05)
    assert cause.rest.ratio == pytest.approx(1)
    halves = [head for purpose, _, head in played.asked if purpose == "half"]
    assert len(halves) in {8, 12}
    alone = [(*base, "→", *head) for purpose, base, head in played.asked if purpose == "half alone"]
    assert alone == [("→", f"p{guilty}")] * 8


def test_several_culprits_are_named_each_with_its_share() -> None:
    """The larger first, the other on a stack in which that one has moved; opposite ones too."""
    for first, second in ((0.04, 0.02), (0.05, -0.03), (0.06, -0.03), (0.03, 0.03)):
        played = Played({"p1": second, "p5": first})
        cause = searched(played)
        shares = {name: one.ratio for one in cause.shares for name in names(one)}
        assert shares == {"p5": pytest.approx(1 + first), "p1": pytest.approx(1 + second)}
        assert cause.rest is not None
        assert cause.rest.ratio == pytest.approx(1)
        assert cause.reason == ""
        after = dict.fromkeys(base for purpose, base, _ in played.asked if purpose == "rest")
        assert list(after)[-1] == {"p1", "p5"}


RATES: Final = (
    (0.012, (0.02,), 0.95, 140),
    (0.012, (0.03,), 0.95, 90),
    (0.020, (0.03,), 0.95, 150),
    (0.012, (0.04, 0.02), 0.95, 180),
    (0.012, (0.05, -0.03), 0.95, 150),
    (0.012, (0.03, 0.03), 0.95, 140),
)
"""Scatter of a duet, what releases do, least rate of naming all, most duets of the median."""


@pytest.mark.parametrize(("scatter", "does", "rate", "most"), RATES)
def test_of_21_packages_the_guilty_are_named_despite_the_scatter(
    scatter: float, does: tuple[float, ...], rate: float, most: int
) -> None:
    """And nobody else; simulated with normal log ratios, 40 searches each."""
    right, taken = 0, []
    for seed in range(40):
        source = random.Random(seed)
        chosen = source.sample([f"p{number}" for number in range(21)], len(does))
        guilty = dict(zip(chosen, does, strict=True))
        played = Played(guilty, scatter, source=source)
        cause = searched(played, 21)
        named = set().union(*map(names, cause.shares))
        assert named <= guilty.keys()
        right += named == guilty.keys()
        taken.append(len(played.asked))
    assert right >= rate * 40
    assert sorted(taken)[20] <= most


def test_what_only_two_do_together_is_blamed_on_neither() -> None:
    """Alone neither shows the change: all stay under suspicion, and the record says why."""
    cause = searched(Played({}, together={("p0", "p2"): 0.05}), 3)
    assert cause.shares == ()
    assert cause.suspects == ("p0", "p1", "p2")
    assert cause.reason == "p2 alone does not show the change"
    record = blame(recorded("open", 0.9, 20), cause)
    assert (record.culprit, record.shares) == (None, ())
    assert record.note == ("The cause is among p0, p1, p2: p2 alone does not show the change.")


def test_a_change_that_is_not_there_any_more_is_not_searched_for() -> None:
    cause = searched(Played({}))
    assert (cause.shares, cause.reason) == ((), "measured again, the whole change is not seen")


def test_what_ends_early_says_what_was_ruled_out() -> None:
    """Of four one half did nothing, and then the time was up."""
    cause = searched(Played({"p3": 0.05}, most=13), 4)
    assert cause.suspects == ("p2", "p3")
    assert cause.reason == "the time was up"


def test_packages_that_move_together_are_named_as_one() -> None:
    """One drags the other along, or no mixed lock separates them; the reason says so."""
    both = Played({"p3": 0.05}, drags={"p3": "p2", "p2": "p3"})
    assert [names(one) for one in searched(both, 4).shares] == [["p2", "p3"]]
    needs = Played({"p3": 0.05}, drags={"p3": "p0"})
    assert [names(one) for one in searched(needs, 4).shares] == [["p3", "p0"]]
    broken = Played({"p1": 0.05}, broken=("p1", "p2"))
    assert [names(one) for one in searched(broken, 4).shares] == [["p1", "p2"]]
    nothing = Played({"p1": 0.05}, broken=("p0", "p1", "p2"))
    cause = searched(nothing, 3)
    assert (cause.shares, cause.reason) == ((), "no mixed lock separates them")
