"""The search for the release or the commit that did it, by looks that measure nothing."""

import math
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from comparing import CPU, SAME, comparison_of, judged_case
from detecting import recorded
from duetbench.core.change import Cause, Commit, Release, Share
from duetbench.core.comparison import Comparison, Finding, PackageChange
from duetbench.core.errors import CountError, SetupError
from duetbench.core.model import EffectKind, Effects, KeptMemory, RequestEffect, Verdict
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
from duetbench.report.change import commit_lines
from observatory.trend.cause import blame
from synthetic import make_case


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
    found = first_bad(range(len(answers)), answers.__getitem__)
    assert found[-1] == len(answers) - 1 or answers[found[-1]] == "yes"
    assert all(answers[item] == "unknown" for item in found[:-1])
    assert found[0] == 0 or answers[found[0] - 1] == "no"


CASE: Final = "shop/items/py3.14/c64"


def judged(metric: str, ratio: float, half: float) -> Finding:
    """A finding whose interval has ends at a relative distance."""
    same = abs(math.log(ratio)) <= max(half, math.log(1.02))
    verdict = Verdict.SAME if same else Verdict.WORSE if ratio > 1 else Verdict.BETTER
    ends = {"low": ratio * (1 - half), "high": ratio * (1 + half)}
    return Finding(case=CASE, subject=metric, verdict=verdict, ratio=ratio, limit=0.02, n=8, **ends)


@dataclass
class Stack:
    """Packages of which each multiplies the CPU of a case, by looks that measure nothing.

    `drags`: what else moves with a package. `broken`: which cannot move without the other. With a
    `scatter` of the duets, each look runs them until the rule has decided, and `spent` counts them.
    """

    does: dict[str, float]
    scatter: float = 0.0
    drags: dict[str, str] = field(default_factory=dict)
    broken: tuple[str, ...] = ()
    together: dict[tuple[str, str], float] = field(default_factory=dict)
    most: int = 10**6
    duets: int = rule.MOST
    source: random.Random = field(default_factory=lambda: random.Random(1))
    asked: list[tuple[frozenset[str], frozenset[str]]] = field(default_factory=list)
    spent: int = 0

    def resolve(self, wanted: frozenset[str]) -> frozenset[str]:
        if 0 < len(wanted.intersection(self.broken)) < len(self.broken):
            raise SetupError("no such set of packages")
        return wanted.union(*({self.drags[name]} for name in wanted if name in self.drags))

    def look(
        self, base: frozenset[str], head: frozenset[str], means: Means, case: str
    ) -> Comparison:
        assert (means, case) in {("duets", ""), ("duets", CASE)}
        if len(self.asked) == self.most:
            raise StuckError(TIME_IS_UP)
        self.asked.append((base, head))
        moved = self.resolve(head) - self.resolve(base)
        size = sum(math.log1p(self.does.get(name, 0.0)) for name in moved)
        size += sum(more for pair, more in self.together.items() if head.issuperset(pair))
        finding = self.measured(size) if self.scatter else judged(CPU, math.exp(size), 0.001)
        changes = (
            PackageChange(stack="one", package=name, base="1", head="2") for name in sorted(moved)
        )
        return comparison_of(judged_case(CASE, finding), packages=tuple(changes))

    def measured(self, size: float) -> Finding:
        logs: list[float] = []
        found = None
        while len(logs) < self.duets and not (found and found.early):
            logs.append(self.source.gauss(size, self.scatter))
            found = rule.weigh(np.array(logs), CPU, 0.02)
        assert found
        self.spent += len(logs)
        moved, same = found.moved <= statistics.RATE, found.same <= statistics.RATE
        verdict = statistics.direction(CPU, found.sample.mean) if moved else Verdict.UNKNOWN
        ratio, (low, high) = found.sample.interval.estimate, found.sample.interval.ends or (0, 9)
        return within_limit(
            Finding(
                case=CASE, subject=CPU, verdict=Verdict.SAME if same and not moved else verdict,
                ratio=ratio, low=low, high=high, limit=0.02, n=len(logs),
            )
        )  # fmt: skip


def searched(stack: Stack, packages: int = 7) -> Cause:
    row = [f"p{number}" for number in range(packages)]
    releases = {name: Release(package=name, version="2", previous="1") for name in row}
    return Search("releases", releases, stack.look, lambda _: None).run(["duets"])


def names(share: Share) -> list[str]:
    return [release.package for release in share.releases]


def questions(items: int, culprits: int) -> int:
    """Most that may be asked: of all, of the rest after each culprit, and of each log₂ + 1."""
    return 1 + culprits * (1 + math.ceil(math.log2(items)) + 1)


@settings(deadline=None)
@given(
    st.dictionaries(
        st.integers(0, 29),
        st.floats(0.02, 0.2) | st.floats(-0.15, -0.02),
        min_size=1,
        max_size=3,
    )
)
def test_of_30_packages_all_that_did_something_are_found(does: dict[int, float]) -> None:
    """Each alone and with its size, by few questions, unless they cancel each other out."""
    stack = Stack({f"p{number}": size for number, size in does.items()})
    whole = math.prod(1 + size for size in does.values())
    cause = searched(stack, 30)
    if abs(math.log(whole)) < math.log1p(0.01):
        return
    assert len(stack.asked) <= questions(30, len(cause.shares))
    found = {name: one.interval.estimate for one in cause.shares for name in names(one)}
    assert found.keys() <= stack.does.keys()
    for name, ratio in found.items():
        assert ratio == pytest.approx(1 + stack.does[name])
    left = math.prod(1 + size for name, size in stack.does.items() if name not in found)
    assert abs(math.log(left)) < math.log1p(0.01)
    assert cause.reason == ""
    assert cause.whole is not None
    assert cause.whole.ratio == pytest.approx(whole)
    assert cause.rest is not None
    assert cause.rest.ratio == pytest.approx(left)


RATES: Final = (
    (0.012, (0.025,), 0.95, 140),
    (0.012, (0.03,), 0.95, 90),
    (0.020, (0.03,), 0.95, 150),
    (0.012, (0.04, 0.02), 0.9, 180),
    (0.012, (0.05, -0.03), 0.9, 150),
    (0.012, (0.03, 0.03), 0.9, 140),
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
        stack = Stack(guilty, scatter, source=source)
        cause = searched(stack, 21)
        named = set().union(*map(names, cause.shares))
        assert named <= guilty.keys()
        right += named == guilty.keys()
        taken.append(stack.spent)
    assert right >= rate * 40
    assert sorted(taken)[20] <= most


class Open(Stack):
    """A stack of four, of which duets decide only the whole: half of it is in every interval."""

    def look(self, base: frozenset[str], head: frozenset[str], *_: str) -> Comparison:
        whole, least = judged(CPU, 1.03, 0.005), judged(CPU, 1.015, 0.01)
        undecided = least.model_copy(update={"verdict": Verdict.UNKNOWN})
        return comparison_of(judged_case(CASE, whole if len(head - base) == 4 else undecided))


NOT_SEEN: Final = "measured again, the whole change is not seen"
TOLD_APART: Final = "nothing tells them apart"


@pytest.mark.parametrize(
    ("stack", "packages", "named", "suspects", "reason"),
    [
        # What only two do together is blamed on neither: alone none shows the change.
        (Stack({}, together={("p0", "p2"): 0.05}), 3, [], "p0 p1 p2",
         "p2 alone does not show the change"),
        (Stack({}), 3, [], "p0 p1 p2", NOT_SEEN),
        # Of four one half did nothing, and then the time was up.
        (Stack({"p3": 0.05}, most=2), 4, [], "p2 p3", TIME_IS_UP),
        # One drags the other along, or no mixed lock separates them.
        (Stack({"p3": 0.05}, drags={"p3": "p2", "p2": "p3"}), 4, [["p2", "p3"]], "", ""),
        (Stack({"p3": 0.05}, drags={"p3": "p0"}), 4, [["p3", "p0"]], "", ""),
        (Stack({"p1": 0.05}, broken=("p1", "p2")), 4, [["p1", "p2"]], "", ""),
        (Stack({"p1": 0.05}, broken=("p0", "p1", "p2")), 3, [], "p0 p1 p2", TOLD_APART),
        (Open({}), 4, [], "p0 p1 p2 p3", TOLD_APART),
    ],
)  # fmt: skip
def test_what_is_not_found_is_suspected_with_the_reason(
    stack: Stack, packages: int, named: list[list[str]], suspects: str, reason: str
) -> None:
    cause = searched(stack, packages)
    assert [names(share) for share in cause.shares] == named
    assert (" ".join(cause.suspects), cause.reason) == (suspects, reason)
    record = blame(recorded("open", 0.9, 20), cause)
    assert (record.culprit is None, record.shares) == (not named, cause.shares)
    told = f"The cause is among {', '.join(cause.suspects)}: {reason}."
    assert record.remarks == told * bool(reason)


COMMITS: Final = tuple(
    Commit(id=f"{number:040x}", subject=f"change {number}") for number in range(1, 41)
)


@dataclass
class Repository:
    """Looks at pairs of commits by their numbers, GOOD's being 0, that measure nothing.

    `effects`, `kept`, `count` and `cpu` say what each does, `half` how precisely it is known, and
    `open` of which duets decide nothing. After `most` questions the time is up.
    """

    effects: Callable[[int], Mapping[EffectKind, int]] = lambda _: {}
    kept: Callable[[int], float] = lambda _: 0.0
    count: Callable[[int], float] = lambda _: 1.0
    cpu: Callable[[int], float] = lambda _: 1.0
    half: float = 0.01
    open: Collection[int] = ()
    broken: Collection[int] = ()
    untouched: int = 0
    no_count: str = ""
    most: int = 10**6
    means: list[Means] = field(default_factory=list)
    heard: list[str] = field(default_factory=list)

    def look(self, before: State, after: State, means: Means, case: str) -> Comparison:
        good, number = len(before), len(after)
        assert case in {"", CASE}
        if len(self.means) == self.most:
            raise StuckError(TIME_IS_UP)
        self.means.append(means)
        if number in self.broken:
            raise SetupError("it does not start")
        if number <= self.untouched:  # it does what GOOD does
            return comparison_of()
        if means == "duets":
            ratio = self.cpu(number) / self.cpu(good)
            finding = judged(CPU, ratio, self.half)
            if number in self.open:
                finding = finding.model_copy(update={"verdict": Verdict.UNKNOWN})
            return comparison_of(judged_case(CASE, finding))
        if means == "counts":
            count = judged("instructions", self.count(number) / self.count(good), self.half)
            if self.no_count:
                nothing = {"verdict": Verdict.UNKNOWN, "ratio": None, "low": None, "high": None}
                count = count.model_copy(update={**nothing, "why": self.no_count})
            return comparison_of(judged_case(CASE, SAME, count))
        base, head = self.effects(good), self.effects(number)
        kept = (
            KeptMemory(course="constant" if size else "none", bytes=size, requests=60)
            for size in (self.kept(good), self.kept(number))
        )
        seen = Effects(
            differ=tuple(
                RequestEffect(kind=kind, text="", base=base[kind], head=head[kind])
                for kind in base
                if base[kind] != head[kind]
            ),
            totals={kind: (base[kind], head[kind]) for kind in base},
            **dict(zip(("kept_base", "kept_head"), kept, strict=True)),
        )
        case_ = make_case(CASE)
        return comparison_of(judged_case(CASE, *of_effects(case_, seen), effects=seen))

    def search(self, number: int = 40, order: Sequence[Means] = MEANS) -> Cause:
        commits = {str(commit): commit for commit in COMMITS[:number]}
        return Search("commits", commits, self.look, self.heard.append).run(order)


def subjects(cause: Cause) -> list[list[str]]:
    return [[commit.subject for commit in share.commits] for share in cause.shares]


def multiplied(sizes: Mapping[int, float]) -> Callable[[int], float]:
    """Each commit multiplies the figure from its number on."""
    return lambda number: math.prod(size for at, size in sizes.items() if at <= number)


@pytest.mark.parametrize("number", [1, 19, 23, 40])
def test_duets_name_the_commit(number: int) -> None:
    repository = Repository(cpu=multiplied({number: 1.5}), broken={20, 21})
    cause = repository.search()
    assert subjects(cause) == [[f"change {number}"]]
    (finding,) = cause.shares[0].findings
    assert finding.subject == CPU
    assert finding.ratio == pytest.approx(1.5)
    assert repository.means.count("duets") <= questions(40, 1) + 2 + 1  # skipped; before and after


def test_commits_that_do_not_start_are_not_told_apart() -> None:
    cause = Repository(cpu=multiplied({21: 0.5}), broken={20, 21}).search()
    assert subjects(cause) == [["change 20", "change 21", "change 22"]]
    lines = commit_lines(cause, "v1", "main")
    assert lines[0].startswith("one of 3 commits: ")
    assert [line.partition(": ")[2] for line in lines[4:6]] == [
        f"{number:040x}"[:10] + ": it does not start" for number in (20, 21)
    ]


@settings(deadline=None)
@given(st.dictionaries(st.integers(1, 40), st.integers(1, 9), min_size=1, max_size=4))
def test_of_40_commits_all_that_did_something_are_found(does: dict[int, int]) -> None:
    """The largest first, by few questions; what did nothing is asked about before and after."""
    sums = [sum(sent for at, sent in does.items() if at <= number) for number in range(41)]
    repository = Repository(lambda number: {"sql": sums[number]})
    cause = repository.search()
    sizes = {number: math.log((sums[number] + 1) / (sums[number - 1] + 1)) for number in does}
    first = sorted(does, key=lambda number: -sizes[number])
    assert [sizes[int(share.commits[0].id, 16)] for share in cause.shares] == [
        pytest.approx(sizes[number]) for number in first
    ]
    assert {*map(tuple, subjects(cause))} == {(f"change {number}",) for number in does}
    assert repository.means.count("effects") <= questions(40, len(does)) + len(does)


def sql(*numbers: int) -> Callable[[int], Mapping[EffectKind, int]]:
    """One statement more from each of these commits on."""
    return lambda number: {"sql": sum(number >= at for at in numbers)}


@pytest.mark.parametrize(
    ("repository", "named"),
    [
        (Repository(), []),
        # What only duets show is searched before and after the largest.
        (Repository(cpu=multiplied({12: 1.5, 33: 1.2})), [12, 33]),
        # Two commits that do half each are both named.
        (Repository(sql(4, 23)), [4, 23]),
        (Repository(count=multiplied({4: 1.5, 23: 1.5})), [4, 23]),
        # What another commit executes more is searched as well, beside a statement that costs 40 %.
        (Repository(sql(4), count=multiplied({4: 1.4, 9: 3.0}), half=0.001), [4, 9]),
        (Repository(sql(4), count=multiplied({4: 1.4}), half=0.001), [4]),
        # 230 bytes of 315 that a request keeps, or of 400, which is too few for their error.
        (Repository(kept=lambda n: 230.0 * (n >= 28) + 85.0 * (n >= 40)), [28]),
        (Repository(kept=lambda n: 230.0 * (n >= 28) + 170.0 * (n >= 40)), [28, 40]),
        # Up to the fourth commit nothing differs that the case loads, so nothing is looked at.
        (Repository(sql(5), untouched=4), [5]),
    ],
)
def test_all_commits_that_did_something_are_named(repository: Repository, named: list[int]) -> None:
    found = subjects(repository.search())
    assert sorted(found) == sorted([f"change {number}"] for number in named)


def test_what_there_was_no_time_for_is_not_called_the_same() -> None:
    """The time was up with the change of commit 12 known, before that of 33 was searched."""
    repository = Repository(cpu=multiplied({12: 1.5, 33: 1.2}), most=12)
    cause = repository.search()
    assert subjects(cause) == [["change 12"]]
    assert cause.reason == TIME_IS_UP
    assert len(cause.suspects) < 40
    assert any(name.endswith(" change 33") for name in cause.suspects)
    lines = commit_lines(cause, "a", "b")
    assert lines[1].startswith("the rest of the cause is among ")
    assert lines[1].endswith(" more: the time was up")


def test_what_no_look_decides_is_skipped() -> None:
    """The ends of a look, 30 % off, hold half of a change of 50 %: ln 1.22."""
    repository = Repository(cpu=multiplied({10: 1.25, 20: 1.2}), half=0.3, open=range(10, 20))
    cause = repository.search()
    assert any("skipped (undecided)" in line for line in repository.heard)
    assert len(cause.shares[0].commits) > 1


def test_what_a_request_does_decides_first_and_exactly() -> None:
    """Commits 7 and 31 send 4 and 15 statements more; the largest change comes first."""
    repository = Repository(lambda number: {"sql": 2 + 4 * (number >= 7) + 15 * (number >= 31)})
    causes = repository.search()
    assert subjects(causes) == [["change 31"], ["change 7"]]
    assert "duets" not in repository.means
    lines = commit_lines(causes, "a", "b", ["--app", "shop:app", "--header", "x: a b"])
    assert lines[0].endswith(f"change 31: {CASE}: SQL statements 6 → 21")
    assert lines[1].endswith(f"change 7: {CASE}: SQL statements 2 → 6")
    last = COMMITS[30].id[:10]
    assert lines[2] == f"next: duetbench why {last}~1 {last} --app shop:app --header 'x: a b'"


@pytest.mark.parametrize(("statement", "calls"), [(3, 8), (8, 3), (5, 5)])
def test_the_largest_change_of_any_kind_is_searched_first(statement: int, calls: int) -> None:
    """6,000 calls more of 109 are a larger change than a first statement, with 30 calls."""

    def effects(number: int) -> dict[EffectKind, int]:
        sql, more = number >= statement, number >= calls
        return {"sql": int(sql), "function": 109 + 30 * sql + 6000 * more}

    repository = Repository(effects)
    lines = commit_lines(repository.search(10), "a", "b")
    if statement == calls:
        assert lines[0].endswith(f"{CASE}: function calls 109 → 6,139, SQL statements 0 → 1")
        assert len(lines) == 2  # with what to do next
    else:
        before = 109 + 30 * (statement < calls)
        first = f"change {calls}: {CASE}: function calls {before} → {before + 6000:,}"
        assert lines[0].endswith(first)
        assert f"change {statement}: {CASE}: SQL statements 0 → 1" in lines[1]
        assert len(lines) == 3


def test_a_count_that_failed_is_not_called_the_same() -> None:
    def search(look: Callable[[State, State, Means, str], Comparison]) -> None:
        heard: list[str] = []
        commits = {str(commit): commit for commit in COMMITS}
        (share,) = Search("commits", commits, look, heard.append).run().shares
        assert share.commits == COMMITS[2:3]
        assert heard[:2] == [
            "what a request does shows nothing; no count (Valgrind failed): duets decide",
            f"40 commits: which of them changed CPU per request at {CASE}?",
        ]

    repository = Repository(cpu=multiplied({3: 1.5}), no_count="Valgrind failed")
    search(repository.look)

    def look(before: State, after: State, means: Means, case: str) -> Comparison:
        if means == "counts":
            raise CountError("Valgrind failed")
        return repository.look(before, after, means, case)

    search(look)


def test_only_starts_are_looked_at_where_only_they_can_show_it() -> None:
    repository = Repository(cpu=multiplied({9: 1.5}))
    assert subjects(repository.search(order=["duets"])) == [["change 9"]]
    assert {*repository.means} == {"duets"}


def test_a_leak_is_searched_by_the_bytes_that_a_request_keeps() -> None:
    causes = Repository(kept=lambda number: 2_100.0 * (number >= 5)).search()
    assert commit_lines(causes, "a", "b")[0].endswith(
        f"change 5: {CASE}: memory kept for every request 0 kB → 2.1 kB"
    )
