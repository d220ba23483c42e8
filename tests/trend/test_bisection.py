"""The search for the release or the commit that did it, by looks that measure nothing."""

import itertools
import math
import random
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comparing import CPU, SAME, comparison_of, judged_case
from detecting import recorded
from duetbench.core.errors import CountError, SetupError
from duetbench.core.model import EffectKind, Effects, KeptMemory, RequestEffect, Verdict
from duetbench.core.units import Interval
from duetbench.show.change import commit_lines
from duetbench.store.change import Cause, Commit, CommitCause, Release, Share
from duetbench.store.comparison import Comparison, Finding
from duetbench.trend.bisection import (
    TIME_IS_UP,
    Answer,
    ReleaseSearch,
    StuckError,
    first_bad,
    largest,
)
from duetbench.trend.commit_search import CommitSearch, Means
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


@given(rows(), st.data())
def test_what_does_more_than_all_others_is_found(
    row: tuple[int, int, frozenset[int]], data: st.DataObject
) -> None:
    """By figures that three looks make exact, between others that nothing is known of."""
    number, culprit, unknown = row
    does = data.draw(st.lists(st.integers(-3, 3), min_size=number, max_size=number))
    does[culprit] = 1 + sum(map(abs, does))
    figures = [0, *itertools.accumulate(does)]

    def looks(item: int) -> Iterator[Interval]:
        if item in unknown:
            raise SetupError("it does not start")
        figure = figures[item + 1]
        for width in (9 * does[culprit], does[culprit], 0):
            yield Interval(figure, figure - width, figure + width)

    found, why = largest(range(number), (0, figures[-1]), looks, lambda *_: None)
    assert culprit in found
    assert {*found[:-1]} <= {*why} <= unknown
    assert {*why.values()} <= {"it does not start"}


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
    asked: list[tuple[frozenset[str], frozenset[str]]] = field(default_factory=list)

    def resolve(self, wanted: frozenset[str]) -> frozenset[str]:
        if 0 < len(wanted.intersection(self.broken)) < len(self.broken):
            raise SetupError("no such set of packages")
        return wanted.union(*({self.drags[name]} for name in wanted if name in self.drags))

    def duet(self, base: frozenset[str], head: frozenset[str]) -> float | None:
        if len(self.asked) == self.most:
            raise StuckError(TIME_IS_UP)
        self.asked.append((base, head))
        size = sum(math.log1p(self.does.get(name, 0.0)) for name in head - base)
        size += sum(more for pair, more in self.together.items() if head.issuperset(pair))
        return self.source.gauss(size, self.scatter)


def searched(played: Played, packages: int = 7) -> Cause:
    row = [f"p{number}" for number in range(packages)]
    releases = {name: Release(package=name, version="2", previous="1") for name in row}
    return ReleaseSearch(releases, played.resolve, played.duet, CPU, lambda _: None).run()


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
    halves = [head for base, head in played.asked if not base and 1 < len(head) < 7]
    alone = [head for base, head in played.asked if not base and head == {f"p{guilty}"}]
    assert (len(halves), len(alone)) in {(8, 8), (12, 8), (8, 12)}  # of the first, the last half


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
        assert played.asked[-1][0] == {"p1", "p5"}


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


@pytest.mark.parametrize(
    ("scatter", "seed", "named", "reason"),
    [(0.05, 0, [["p1", "p2"]], ""), (0.08, 1, [], "no duets separate them")],
)
def test_what_duets_leave_open_is_not_guessed(
    scatter: float, seed: int, named: list[list[str]], reason: str
) -> None:
    """After sixty duets of a mixed lock, whose interval has the middle of the change."""
    cause = searched(Played({"p1": 0.03}, scatter, source=random.Random(seed)), 4)
    assert [names(one) for one in cause.shares] == named
    assert cause.reason == reason


COMMITS: Final = tuple(
    Commit(id=f"{number:040x}", subject=f"change {number}") for number in range(1, 41)
)
CASE: Final = "shop/items/py3.14/c64"


def judged(metric: str, ratio: float, half: float) -> Finding:
    """A finding whose interval has ends at a relative distance."""
    same = abs(math.log(ratio)) <= half
    verdict = Verdict.SAME if same else Verdict.WORSE if ratio > 1 else Verdict.BETTER
    ends = {"low": ratio * (1 - half), "high": ratio * (1 + half)}
    return Finding(case=CASE, subject=metric, verdict=verdict, ratio=ratio, limit=0.02, n=8, **ends)


@dataclass
class Repository:
    """Looks at commits by their numbers, GOOD's being 0, that measure nothing.

    `effects`, `kept`, `count` and `cpu` say what each does, `half` how precisely it is known.
    """

    effects: Callable[[int], Mapping[EffectKind, int]] = lambda _: {}
    kept: Callable[[int], float] = lambda _: 0.0
    count: Callable[[int], float] = lambda _: 1.0
    cpu: Callable[[int], float] = lambda _: 1.0
    half: float = 0.01
    broken: Collection[int] = ()
    untouched: int = 0
    no_count: str = ""
    means: list[Means] = field(default_factory=list)
    heard: list[str] = field(default_factory=list)

    def look(self, commit: str, means: Means) -> Comparison:
        number = int(commit, 16)
        self.means.append(means)
        if number in self.broken:
            raise SetupError("it does not start")
        if number <= self.untouched:
            return comparison_of()
        if means == "duets":
            return comparison_of(judged_case(CASE, judged(CPU, self.cpu(number), self.half)))
        if means == "counts":
            count = judged("instructions", self.count(number), self.half)
            if self.no_count:
                nothing = {"verdict": Verdict.UNKNOWN, "ratio": None, "low": None, "high": None}
                count = count.model_copy(update={**nothing, "why": self.no_count})
            return comparison_of(judged_case(CASE, SAME, count))
        base, head = self.effects(0), self.effects(number)
        kept = (
            KeptMemory(course="constant" if size else "none", bytes=size, requests=60)
            for size in (self.kept(0), self.kept(number))
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
        return comparison_of(judged_case(CASE, SAME, effects=seen))

    def search(self, number: int = 40, *, loaded: bool = False) -> tuple[CommitCause, ...]:
        search = CommitSearch(COMMITS[:number], self.look, self.heard.append)
        return search.run(loaded=loaded)


def subjects(causes: tuple[CommitCause, ...]) -> list[list[str]]:
    return [[commit.subject for commit in cause.commits] for cause in causes]


def multiplied(sizes: Mapping[int, float]) -> Callable[[int], float]:
    """Each commit multiplies the figure from its number on."""
    return lambda number: math.prod(size for at, size in sizes.items() if at <= number)


@pytest.mark.parametrize("number", [1, 2, 19, 23, 27, 39, 40])
def test_duets_name_the_commit(number: int) -> None:
    repository = Repository(cpu=multiplied({number: 1.5}), broken={20, 21})
    (cause,) = causes = repository.search()
    assert subjects(causes) == [[f"change {number}"]]
    assert cause.traits[0].metric == CPU
    assert cause.traits[0].ratio == pytest.approx(1.5)
    assert len(repository.heard) <= 3 + 9  # of forty commits, of which two are skipped


def test_commits_that_do_not_start_are_not_told_apart() -> None:
    repository = Repository(cpu=multiplied({21: 0.5}), broken={20, 21})
    causes = repository.search()
    assert subjects(causes) == [["change 20", "change 21", "change 22"]]
    lines = commit_lines(causes, "v1", "main")
    assert lines[0].startswith("one of 3 commits: ")
    assert [line.partition(": ")[2] for line in lines[4:6]] == [
        f"{number:040x}"[:10] + ": it does not start" for number in (20, 21)
    ]


def test_duets_search_the_largest_change_and_say_where_more_changed() -> None:
    repository = Repository(cpu=multiplied({12: 1.5, 33: 1.2}))
    causes = repository.search()
    assert subjects(causes) == [["change 12"]]
    after = COMMITS[11].id[:10], COMMITS[39].id[:10]
    assert repository.heard[-1] == (
        f"it also changed between {' and '.join(after)}: search there as well"
    )


def test_what_no_look_decides_is_skipped_and_what_never_moved_has_no_cause() -> None:
    """The ends of a look, 30 % off, hold half of a change of 50 %: ln 1.22."""
    assert Repository().search() == ()
    repository = Repository(cpu=multiplied({10: 1.25, 20: 1.2}), half=0.3)
    (cause,) = repository.search()
    assert any("skipped (undecided)" in line for line in repository.heard)
    assert len(cause.commits) > 1


def test_what_a_request_does_decides_first_and_exactly() -> None:
    """Commits 7 and 31 send 4 and 15 statements more; the largest change comes first."""
    repository = Repository(lambda number: {"sql": 2 + 4 * (number >= 7) + 15 * (number >= 31)})
    causes = repository.search()
    assert subjects(causes) == [["change 31"], ["change 7"]]
    assert repository.means.count("effects") <= 1 + 6 + 5
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
        assert lines[1].endswith(f"change {statement}: {CASE}: SQL statements 0 → 1")
        assert len(lines) == 3


@pytest.mark.parametrize(
    ("work", "named"), [(3.0, [["change 9"], ["change 4"]]), (1.0, [["change 4"]])]
)
def test_what_another_commit_executes_more_is_searched_as_well(
    work: float, named: list[list[str]]
) -> None:
    """Commit 4 sends a statement, with 40 % more instructions; 9 computes three times as much."""
    repository = Repository(
        lambda number: {"sql": int(number >= 4)}, count=multiplied({4: 1.4, 9: work}), half=0.001
    )
    causes = repository.search(20)
    assert subjects(causes) == named
    said = commit_lines(causes, "a", "b")
    assert any("change 9: " in line and "3.00× instr" in line for line in said) is (work > 1)


def test_two_commits_that_do_half_each_are_both_named() -> None:
    repository = Repository(lambda number: {"sql": (number >= 4) + (number >= 23)})
    assert sorted(subjects(repository.search())) == [["change 23"], ["change 4"]]
    repository = Repository(count=multiplied({4: 1.5, 23: 1.5}))
    assert sorted(subjects(repository.search())) == [["change 23"], ["change 4"]]


@pytest.mark.parametrize(("most", "named"), [(315.0, 1), (400.0, 2)])
def test_kept_bytes_that_a_commit_does_not_explain_may_be_their_error(
    most: float, named: int
) -> None:
    """Commit 28 keeps 230 bytes of 315, or of 400, which is too few for an error of the size."""
    sizes = {0: 0.0, 28: 230.0, 40: most}
    repository = Repository(kept=lambda number: sizes[max(at for at in sizes if at <= number)])
    causes = repository.search()
    assert ["change 28"] in subjects(causes)
    assert len(causes) == named


def test_a_count_that_failed_is_not_called_the_same() -> None:
    def search(look: Callable[[str, Means], Comparison]) -> None:
        heard: list[str] = []
        (cause,) = CommitSearch(COMMITS, look, heard.append).run()
        assert cause.commits == COMMITS[2:3]
        assert heard[:2] == [
            "what a request does shows nothing; no count (Valgrind failed): duets decide",
            f"40 commits: which of them changed CPU per request at {CASE}?",
        ]

    repository = Repository(cpu=multiplied({3: 1.5}), no_count="Valgrind failed")
    search(repository.look)

    def look(commit: str, means: Means) -> Comparison:
        if means == "counts":
            raise CountError("Valgrind failed")
        return repository.look(commit, means)

    search(look)


def test_only_starts_are_looked_at_where_only_they_can_show_it() -> None:
    repository = Repository(cpu=multiplied({9: 1.5}))
    assert subjects(repository.search(loaded=True)) == [["change 9"]]
    assert {*repository.means} == {"duets"}


def test_a_commit_that_cannot_affect_the_case_is_as_good_has_it() -> None:
    """Up to the fourth commit nothing differs that the case loads, so nothing is looked at."""
    repository = Repository(lambda number: {"sql": 2 + (number > 0)}, untouched=4)
    (cause,) = repository.search()
    assert (cause.commits, cause.skipped) == (COMMITS[4:5], ())


def test_a_leak_is_searched_by_the_bytes_that_a_request_keeps() -> None:
    causes = Repository(kept=lambda number: 2_100.0 * (number >= 5)).search()
    assert commit_lines(causes, "a", "b")[0].endswith(
        f"change 5: {CASE}: memory kept for every request 0 kB → 2.1 kB"
    )
