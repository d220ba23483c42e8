"""Which commit did it: the search by effects, counts and duets, held to known commits."""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

import pytest

from comparing import CPU, SAME, comparison_of, judged_case
from duetbench.core.errors import CountError, SetupError
from duetbench.core.model import EffectKind, Effects, KeptMemory, RequestEffect, Verdict
from duetbench.show.change import commit_lines
from duetbench.store.change import Commit, CommitCause
from duetbench.store.comparison import Comparison, Finding
from duetbench.trend import commit_search

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
    means: list[commit_search.Means] = field(default_factory=list)
    heard: list[str] = field(default_factory=list)

    def look(self, commit: str, means: commit_search.Means) -> Comparison:
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
        return commit_search.find(COMMITS[:number], self.look, self.heard.append, loaded=loaded)


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
    def search(look: commit_search.Look) -> None:
        heard: list[str] = []
        (cause,) = commit_search.find(COMMITS, look, heard.append)
        assert cause.commits == COMMITS[2:3]
        assert heard[:2] == [
            "what a request does shows nothing; no count (Valgrind failed): duets decide",
            f"40 commits: which of them changed CPU per request at {CASE}?",
        ]

    repository = Repository(cpu=multiplied({3: 1.5}), no_count="Valgrind failed")
    search(repository.look)

    def look(commit: str, means: commit_search.Means) -> Comparison:
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
