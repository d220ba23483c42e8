"""The search for the release or the commit that did it, by looks that measure nothing."""

import math
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from comparing import CPU, SAME, comparison_of, does, judged_case
from duetbench.core.change import Cause, Commit, Share
from duetbench.core.comparison import INSTRUCTIONS, Comparison, Finding, PackageChange, Release
from duetbench.core.effects import Effects, KeptMemory
from duetbench.core.errors import CountError, SetupError
from duetbench.core.model import Verdict
from duetbench.judge import rule, statistics
from duetbench.judge.bisection import (
    MEANS,
    TIME_IS_UP,
    Answer,
    Means,
    Search,
    State,
    StuckError,
    first_bad,
)
from duetbench.judge.findings import of_effects, within_limit
from duetbench.report.cause import commit_lines
from synthetic import change_record, make_case


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

    def ask(item: int) -> Answer:
        asked.append(item)
        return "unknown" if item in unknown else "yes" if item >= culprit else "no"

    start = max((item + 1 for item in range(culprit) if item not in unknown), default=0)
    known = (item for item in range(culprit, number) if item not in unknown)
    assert first_bad(range(number), ask) == range(start, min(next(known, number), number - 1) + 1)
    assert len(asked) == len({*asked})
    without = sum(item in unknown for item in asked)
    assert len(asked) <= math.ceil(math.log2(number)) + without


@given(st.lists(st.sampled_from(("yes", "no", "unknown")), min_size=1, max_size=60))
def test_what_comes_and_goes_is_named_where_it_comes(answers: list[Answer]) -> None:
    """With nothing known to be good or bad inside of what is named."""
    actual = first_bad(range(len(answers)), answers.__getitem__)
    assert actual[-1] == len(answers) - 1 or answers[actual[-1]] == "yes"
    assert all(answers[item] == "unknown" for item in actual[:-1])
    assert actual[0] == 0 or answers[actual[0] - 1] == "no"


CASE: Final = "shop/items/py3.14/c64"
Sizes = Mapping[int, float]
"""What some items do, by their numbers from 1 on."""


@dataclass
class World:
    """Looks at two states, of which each item adds to figures or multiplies them.

    Attributes:
        cpu: By how much an item multiplies the CPU of a case, less 1; `count`, its instructions.
        sql: Statements more of each, on top of two; `calls` of functions, `kept` bytes.
        half: Of a ratio's interval. With a `scatter`, a look runs duets until the rule decides.
        undecided: Whether duets decide nothing of so many items.
        broken: Whether a state of these items cannot be looked at.
        together: What two items do only both at once.
        drags: Which item moves with another one.
        untouched: Items up to which nothing differs that the case loads.
        uncounted: Why nothing was counted; with `raised`, as an error.
        most: Looks after which the time is up.
    """

    cpu: Sizes = field(default_factory=dict)
    count: Sizes = field(default_factory=dict)
    sql: Sizes = field(default_factory=dict)
    calls: Sizes = field(default_factory=dict)
    kept: Sizes = field(default_factory=dict)
    half: float = 0.001
    scatter: float = 0.0
    undecided: Callable[[int], bool] = lambda _: False
    broken: Callable[[set[int]], bool] = lambda _: False
    together: tuple[frozenset[int], float] = (frozenset({0}), 0.0)
    drags: Mapping[int, int] = field(default_factory=dict)
    untouched: int = 0
    uncounted: str = ""
    raised: bool = False
    most: int = 10**6
    source: random.Random = field(default_factory=lambda: random.Random(1))
    looks: list[Means] = field(default_factory=list)
    heard: list[str] = field(default_factory=list)
    spent: int = 0

    def search(self, unit: Any, number: int, order: Sequence[Means] = MEANS) -> Cause:
        items = {name(unit, item): made(unit, item) for item in range(1, number + 1)}
        self.numbers = dict(zip(items, range(1, number + 1), strict=True))
        return Search(unit, items, self.look, self.heard.append).run(order)

    def look(self, before: State, after: State, means: Means, case: str) -> Comparison:
        assert case in {"", CASE}
        if len(self.looks) == self.most:
            raise StuckError(TIME_IS_UP)
        self.looks.append(means)
        old, new = ({self.numbers[item] for item in state} for state in (before, after))
        if self.broken(new):
            raise SetupError("it does not start")
        if max(new) <= self.untouched:
            return comparison_of()
        old, new = (state.union({self.drags.get(i, i) for i in state}) for state in (old, new))
        moves = [PackageChange(stack="one", package=f"p{item}", base="1", head="2")
                 for item in sorted(new - old)]  # fmt: skip
        seen = self._effects(old, new) if means == "effects" else None
        if seen:
            actual = of_effects(make_case(CASE), seen)
        elif means == "counts":
            actual = (SAME, self._count(new - old))
        else:
            actual = (self._duets(new - old, self.together[1] * (new >= self.together[0])),)
        return comparison_of(judged_case(CASE, *actual, effects=seen), packages=tuple(moves))

    def _effects(self, old: set[int], new: set[int]) -> Effects:
        kept = [
            KeptMemory(course="constant" if size else "none", bytes=size, requests=60)
            for size in (added(self.kept, old), added(self.kept, new))
        ]
        return does(
            ("sql", 2 + added(self.sql, old), 2 + added(self.sql, new)),
            ("function", 109 + added(self.calls, old), 109 + added(self.calls, new)),
            kept_base=kept[0],
            kept_head=kept[1],
        )

    def _count(self, moved: set[int]) -> Finding:
        if self.raised:
            raise CountError(self.uncounted)
        count = judged(INSTRUCTIONS, multiplied(self.count, moved), self.half)
        if self.uncounted:
            nothing = {"verdict": Verdict.UNKNOWN, "ratio": None, "low": None, "high": None}
            count = count.model_copy(update={**nothing, "why": self.uncounted})
        return count

    def _duets(self, moved: set[int], more: float) -> Finding:
        ratio = multiplied(self.cpu, moved) * math.exp(more)
        actual = self._measured(math.log(ratio)) if self.scatter else judged(CPU, ratio, self.half)
        if self.undecided(len(moved)):
            actual = actual.model_copy(update={"verdict": Verdict.UNKNOWN})
        return actual

    def _measured(self, size: float) -> Finding:
        logs: list[float] = []
        actual = None
        while len(logs) < rule.MOST and not (actual and actual.early):
            logs.append(self.source.gauss(size, self.scatter))
            actual = rule.weigh(np.array(logs), CPU, 0.02)
        assert actual
        self.spent += len(logs)
        moved, same = actual.moved <= statistics.RATE, actual.same <= statistics.RATE
        verdict = statistics.direction(CPU, actual.sample.mean) if moved else Verdict.UNKNOWN
        ratio, (low, high) = actual.sample.interval.estimate, actual.sample.interval.ends or (0, 9)
        return within_limit(
            Finding(
                case=CASE, subject=CPU, verdict=Verdict.SAME if same and not moved else verdict,
                ratio=ratio, low=low, high=high, limit=0.02, n=len(logs),
            )
        )  # fmt: skip


def name(unit: str, item: int) -> str:
    return str(made(unit, item)) if unit == "commits" else f"p{item}"


def made(unit: str, item: int) -> Commit | Release:
    if unit == "commits":
        return Commit(id=f"{item:010x}{'0' * 30}", subject=f"change {item}")
    return Release(package=f"p{item}", version="2", previous="1")


def added(sizes: Sizes, items: Collection[int]) -> float:
    return sum(size for item, size in sizes.items() if item in items)


def multiplied(sizes: Sizes, items: Collection[int]) -> float:
    return math.prod(1 + size for item, size in sizes.items() if item in items)


def judged(metric: str, ratio: float, half: float) -> Finding:
    """A finding whose interval has ends at a relative distance."""
    same = abs(math.log(ratio)) <= max(half, math.log(1.02))
    verdict = Verdict.SAME if same else Verdict.WORSE if ratio > 1 else Verdict.BETTER
    ends = {"low": ratio * (1 - half), "high": ratio * (1 + half)}
    return Finding(case=CASE, subject=metric, verdict=verdict, ratio=ratio, limit=0.02, n=8, **ends)


def named(share: Share) -> list[int]:
    releases = [int(release.package[1:]) for release in share.releases]
    return releases + [int(commit.id[:10], 16) for commit in share.commits]


def questions(items: int, culprits: int) -> int:
    """Most that may be asked: of all, of the rest after each culprit, and of each log₂ + 1."""
    return 1 + culprits * (1 + math.ceil(math.log2(items)) + 1)


@given(st.dictionaries(st.integers(1, 40), st.integers(1, 9), min_size=1, max_size=4))
def test_of_40_commits_all_that_did_something_are_found(does: dict[int, int]) -> None:
    """The largest first, by few questions; what did nothing is asked about before and after."""
    world = World(sql=does)
    cause = world.search("commits", 40)
    before = {item: 2 + added(does, range(item)) for item in does}
    sizes = {item: math.log1p(does[item] / (before[item] + 1)) for item in does}
    order = [item for share in cause.shares for item in named(share)]
    assert sorted(order) == sorted(does)
    assert [sizes[item] for item in order] == pytest.approx(sorted(sizes.values(), reverse=True))
    assert world.looks.count("effects") <= questions(40, len(does)) + len(does)


@pytest.mark.parametrize(
    ("scatter", "does", "rate", "most"),
    [(0.020, (0.03,), 0.95, 150), (0.012, (0.05, -0.03), 0.9, 150)],
)
def test_of_21_packages_the_guilty_are_named_despite_the_scatter(
    scatter: float, does: tuple[float, ...], rate: float, most: int
) -> None:
    """And nobody else, by few duets at the median; normal log ratios, 40 searches each."""
    right, taken = 0, []
    for seed in range(40):
        source = random.Random(seed)
        guilty = dict(zip(source.sample(range(1, 22), len(does)), does, strict=True))
        world = World(guilty, scatter=scatter, source=source)
        blamed = {i for s in world.search("releases", 21, ["duets"]).shares for i in named(s)}
        assert blamed <= guilty.keys()
        right += blamed == guilty.keys()
        taken.append(world.spent)
    assert right >= rate * 40
    assert sorted(taken)[20] <= most


NOT_SEEN: Final = "measured again, the whole change is not seen"
TOLD_APART: Final = "nothing tells them apart"


def apart(*items: int) -> Callable[[set[int]], bool]:
    """Whether a state has some of these items, and not all."""
    return lambda state: 0 < len(state & {*items}) < len(items)


@pytest.mark.parametrize(
    ("world", "packages", "shares", "suspects", "reason"),
    [
        # What only two do together is blamed on neither: alone none shows the change.
        (World(together=(frozenset({1, 3}), 0.05)), 3, [], "p1 p2 p3",
         "p3 alone does not show the change"),
        (World(), 3, [], "p1 p2 p3", NOT_SEEN),
        (World({2: 0.009}), 3, [], "p1 p2 p3", NOT_SEEN),  # less than half of what is acted on
        # Of four one half did nothing, and then the time was up.
        (World({4: 0.05}, most=2), 4, [], "p3 p4", TIME_IS_UP),
        # One drags the other along, or no mixed lock separates them.
        (World({4: 0.05}, drags={4: 3, 3: 4}), 4, [[3, 4]], "", ""),
        (World({4: 0.05}, drags={4: 1}), 4, [[4, 1]], "", ""),
        (World({2: 0.05}, broken=apart(2, 3)), 4, [[2, 3]], "", ""),
        (World({2: 0.05}, broken=apart(1, 2, 3)), 3, [], "p1 p2 p3", TOLD_APART),
        # Duets decide only the whole: half of it is in every interval.
        (World({2: 0.015, 3: 0.015}, half=0.02, undecided=lambda moved: moved < 4), 4, [],
         "p1 p2 p3 p4", TOLD_APART),
    ],
)  # fmt: skip
def test_what_is_not_found_is_suspected_with_the_reason(
    world: World, packages: int, shares: list[list[int]], suspects: str, reason: str
) -> None:
    cause = world.search("releases", packages, ["duets"])
    assert [named(share) for share in cause.shares] == shares
    assert (" ".join(cause.suspects), cause.reason) == (suspects, reason)
    assert bool(change_record(cause=cause, packages=()).releases) is bool(shares)


def ends_with(*items: int) -> Callable[[set[int]], bool]:
    """Whether the last of a state's commits is one of these."""
    return lambda state: max(state) in items


SKIPPED: Final = [f"skipped: {item:010x}: it does not start" for item in (20, 21)]
UNCOUNTED: Final = (
    "what a request does shows nothing; no count (Valgrind failed): duets decide",
    f"40 commits: which of them changed CPU per request at {CASE}?",
)


@pytest.mark.parametrize(
    ("world", "shares", "said"),
    [
        (World(), [], ["between v1 and main nothing was detected"]),
        # What only duets show: at both ends, with two that do not start beside it, and searched
        # before and after the largest.
        *((World({item: 0.5}, broken=ends_with(20, 21)), [[item]], [f"change {item}: {CASE}: +50"])
          for item in (1, 19, 23, 40)),
        (World({21: -0.5}, broken=ends_with(20, 21)), [[20, 21, 22]],
         ["one of 3 commits: ", *SKIPPED]),
        (World({12: 0.5, 33: 0.2}), [[12], [33]], []),
        # The time was up before that of 33 was searched, which is not called the same.
        (World({12: 0.5, 33: 0.2}, most=12), [[12]],
         ["the rest of the cause is among ", " more: the time was up"]),
        # The ends of a look, 30 % off, hold half of a change of 50 %: ln 1.22.
        (World({10: 0.25, 20: 0.2}, half=0.3, undecided=lambda n: 10 <= n < 20), [[*range(10, 21)]],
         ["skipped: 000000000a: undecided"]),
        # What a request does decides first and exactly.
        (World(sql={7: 4, 31: 15}), [[31], [7]],
         [f"change 31: {CASE}: SQL statements 6 → 21", f"change 7: {CASE}: SQL statements 2 → 6",
          "next: duetbench why 000000001f~1 000000001f --app shop:app --header 'x: a b'"]),
        (World(sql={5: 1}, untouched=4), [[5]], []),
        # Of any kind: 6,000 calls more of 109 are a larger change than a statement with 30 calls.
        *((World(sql={s: 1}, calls={s: 30, c: 6000}), [[c], [s]],
           [f"change {c}: {CASE}: function calls {109 + 30 * (s < c)} → "])
          for s, c in ((3, 8), (8, 3))),
        # What another commit executes more is searched as well, beside a statement that costs 40 %.
        (World(count={4: 0.5, 23: 0.5}), [[4], [23]], []),
        (World(sql={4: 1}, count={4: 0.4, 9: 2.0}), [[9], [4]], []),
        (World(sql={4: 1}, count={4: 0.4}), [[4]], []),
        # 230 bytes of 315 that a request keeps, or of 400, which is too few for their error.
        (World(kept={28: 230, 40: 85}), [[28]],
         [f"change 28: {CASE}: memory kept for every request 0 kB → 0.23 kB"]),
        (World(kept={28: 230, 40: 170}), [[28], [40]], []),
        *((World({3: 0.5}, uncounted="Valgrind failed", raised=raised), [[3]], [])
          for raised in (False, True)),
    ],
)  # fmt: skip
def test_all_commits_that_did_something_are_named(
    world: World, shares: list[list[int]], said: list[str]
) -> None:
    cause = world.search("commits", 40)
    assert sorted(named(share) for share in cause.shares) == sorted(shares)
    text = "\n".join(commit_lines(cause, "v1", "main", ["--app", "shop:app", "--header", "x: a b"]))
    assert all(words in text for words in said), text
    skipped = sum(line.startswith("skipped") for line in text.splitlines())
    assert skipped == sum(len(share) - 1 for share in shares)
    if len(shares) == 1 and not cause.reason:
        assert world.looks.count("duets") <= questions(40, 1) + 3 + skipped
    assert bool(world.cpu) is ("duets" in world.looks) or not shares
    if world.uncounted:
        assert tuple(world.heard[:2]) == UNCOUNTED
