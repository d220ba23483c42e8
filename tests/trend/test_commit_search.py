"""Which commit did it: the search by shares of a change, held to known ones."""

import math
from typing import Final

import pytest

from comparing import CPU, SAME, comparison_of, judged_case
from duetbench.core.errors import SetupError
from duetbench.core.model import EffectKind, Effects, KeptMemory, RequestEffect, Verdict
from duetbench.show.change import commit_lines
from duetbench.store.change import Commit, CommitCause
from duetbench.store.comparison import Comparison, Judgement
from duetbench.trend import commit_search

COMMITS: Final = tuple(
    Commit(id=f"{number:040x}", subject=f"change {number}") for number in range(1, 41)
)
CASE: Final = "shop/items/py3.14/c64"


def compared(ratio: float, half: float = 0.01) -> Comparison:
    """A comparison of a case whose CPU moved by a ratio, with ends at a relative distance."""
    verdict = Verdict.NO_CHANGE if abs(math.log(ratio)) < half else Verdict.SLOWER
    low, high = ratio * (1 - half), ratio * (1 + half)
    judgement = Judgement(metric=CPU, verdict=verdict, ratio=ratio, low=low, high=high, duets=8)
    return comparison_of(judged_case(CASE, judgement))


def search(ratios: dict[int, float], half: float = 0.01) -> tuple[CommitCause | None, list[str]]:
    """Search among forty commits; each multiplies the CPU from its number on by its ratio."""
    heard: list[str] = []

    def look(commit: str, means: commit_search.Means) -> Comparison:
        number = int(commit, 16)
        if isinstance(means, str):  # a request does the same, and counts of both are the same
            return compared(1.0)
        if number in {20, 21}:
            raise SetupError("it does not start")
        return compared(math.prod(size for at, size in ratios.items() if at <= number), half)

    return commit_search.find(COMMITS, look, 600.0, heard.append), heard


@pytest.mark.parametrize("number", [1, 2, 19, 23, 27, 39, 40])
def test_the_commit_is_named(number: int) -> None:
    cause, heard = search({number: 1.5})
    assert cause is not None
    assert [commit.subject for commit in cause.commits] == [f"change {number}"]
    assert cause.share == pytest.approx(1.0)
    assert len(heard) <= 3 + 9  # of forty commits, of which two are skipped


def test_commits_that_do_not_start_are_not_told_apart() -> None:
    cause, _ = search({21: 0.5})
    assert cause is not None
    assert [commit.subject for commit in cause.commits] == ["change 20", "change 21", "change 22"]
    assert {commit.subject: reason for commit, reason in cause.skipped} == {
        "change 20": "it does not start", "change 21": "it does not start",
    }  # fmt: skip
    assert commit_lines(cause, "v1", "main")[0].startswith("one of 3 commits: ")


def test_a_commit_that_did_two_thirds_is_not_called_all_of_it() -> None:
    """Ln 1.5 / ln (1.5 · 1.2) = 0.69."""
    cause, _ = search({12: 1.5, 33: 1.2})
    assert cause is not None
    assert [commit.subject for commit in cause.commits] == ["change 12"]
    assert cause.share == pytest.approx(0.69, abs=0.005)
    assert "that is 69% of the change; other commits did the rest" in commit_lines(cause, "a", "b")


def test_what_no_look_decides_is_skipped_and_what_never_moved_has_no_cause() -> None:
    """The ends of a look, 30 % off, hold half of a change of 50 %: ln 1.22."""
    assert search({})[0] is None
    cause, heard = search({10: 1.25, 20: 1.2}, half=0.3)
    assert cause is not None
    assert any("undecided: " in line for line in heard)
    assert len(cause.commits) > 1


def test_what_a_request_does_decides_first_and_exactly() -> None:
    """Commits 7 and 31 send 4 and 15 statements more: 19 in all, of which 31 did 79 %.

    What is left, 21 %, is searched as well.
    """
    means: list[object] = []
    heard: list[str] = []

    def look(commit: str, how: commit_search.Means) -> Comparison:
        means.append(how)
        number = int(commit, 16)
        total = 2 + 4 * (number >= 7) + 15 * (number >= 31)
        effect = RequestEffect(kind="sql", text="SELECT ?", base=2, head=total)
        seen = Effects(differ=(effect,) * (total > 2), totals={"sql": (2, total)})
        return comparison_of(judged_case(CASE, SAME, effects=seen))

    cause = commit_search.find(COMMITS, look, 600.0, heard.append)
    assert cause is not None
    assert set(means) == {"effects", "rough"}
    assert len(means) <= 1 + 6 + 5 + 1
    assert [commit.subject for commit in cause.commits] == ["change 31"]
    assert cause.trait.effect == (2, 21)
    lines = commit_lines(cause, "a", "b")
    assert lines[0].endswith(f"change 31: {CASE}: SQL statements 6 → 21")
    assert lines[1] == "that is 79% of the change; other commits did the rest"
    assert lines[2].endswith(f"change 7: {CASE}: SQL statements 2 → 6")


@pytest.mark.parametrize(("statement", "calls"), [(3, 8), (8, 3), (5, 5)])
def test_the_largest_change_of_any_kind_is_searched_first(statement: int, calls: int) -> None:
    """6,000 calls more of 109 are a larger change than a first statement, with 30 calls."""
    looks: list[tuple[str, commit_search.Means]] = []

    def look(commit: str, how: commit_search.Means) -> Comparison:
        looks.append((commit, how))
        sql, more = (int(commit, 16) >= place for place in (statement, calls))
        figures: dict[EffectKind, int] = {"sql": sql, "function": 109 + 30 * sql + 6000 * more}
        bases: dict[EffectKind, int] = {"sql": 0, "function": 109}
        differ = [RequestEffect(kind=kind, text="", base=bases[kind], head=figures[kind])
                  for kind in figures if figures[kind] != bases[kind]]  # fmt: skip
        totals: dict[EffectKind, tuple[float, float]] = {
            kind: (bases[kind], figures[kind]) for kind in figures
        }
        seen = Effects(differ=tuple(differ), totals=totals)
        return comparison_of(judged_case(CASE, SAME, effects=seen))

    cause = commit_search.find(COMMITS[:10], look, 600.0, lambda _: None)
    lines = commit_lines(cause, "a", "b")
    before = 109 + 30 * (statement < calls)
    first = f"change {calls}: {CASE}: function calls {before} → {before + 6000:,}"
    if statement == calls:
        assert lines[0].endswith(f"{CASE}: function calls 109 → 6,139, SQL statements 0 → 1")
    else:
        assert lines[0].endswith(first)
        assert lines[1].endswith(f"change {statement}: {CASE}: SQL statements 0 → 1")
    assert len(lines) == 2 + (statement != calls)  # with what to do next
    assert len(looks) == len({*looks})


@pytest.mark.parametrize(("work", "named"), [(3.0, ["change 9", "change 4"]), (1.0, ["change 4"])])
def test_what_another_commit_executes_more_is_searched_as_well(
    work: float, named: list[str]
) -> None:
    """Commit 4 sends a statement, with 40 % more instructions; 9 computes three times as much."""

    def look(commit: str, how: commit_search.Means) -> Comparison:
        sql, more = (int(commit, 16) >= place for place in (4, 9))
        ratio = (1.4 if sql else 1.0) * (work if more else 1.0)
        verdict = Verdict.SLOWER if ratio > 1 else Verdict.NO_CHANGE
        low, high = ratio * 0.97, ratio * 1.03
        count = Judgement(metric="instructions", verdict=verdict, ratio=ratio, low=low, high=high)
        effect = RequestEffect(kind="sql", text="SELECT ?", base=0, head=sql)
        seen = Effects(differ=(effect,) * sql, totals={"sql": (0, sql)})
        if how == "effects":
            return comparison_of(judged_case(CASE, SAME, effects=seen))
        return comparison_of(judged_case(CASE, SAME, count=count))

    cause = commit_search.find(COMMITS[:20], look, 600.0, lambda _: None)
    assert cause is not None
    found = [commit.subject for each in (cause, *cause.others) for commit in each.commits]
    assert found == named
    said = commit_lines(cause, "a", "b")
    assert any("change 9: " in line and "3.00× instr" in line for line in said) is (work > 1)


def test_two_commits_that_do_half_each_are_both_named() -> None:
    def look(commit: str, _how: commit_search.Means) -> Comparison:
        total = sum(int(commit, 16) >= place for place in (4, 23))
        effect = RequestEffect(kind="sql", text="SELECT ?", base=0, head=total)
        seen = Effects(differ=(effect,) * (total > 0), totals={"sql": (0, total)})
        return comparison_of(judged_case(CASE, SAME, effects=seen))

    cause = commit_search.find(COMMITS, look, 600.0, lambda _: None)
    assert cause is not None
    named = [commit.subject for each in (cause, *cause.others) for commit in each.commits]
    assert sorted(named) == ["change 23", "change 4"]
    assert {round(each.share, 2) for each in (cause, *cause.others)} == {0.5}


@pytest.mark.parametrize(("most", "says"), [(315.0, False), (400.0, True)])
def test_kept_bytes_that_a_commit_does_not_explain_may_be_their_error(
    most: float, says: bool
) -> None:
    """Commit 28 keeps 230 bytes of 315, or of 400, which is too few for an error of the size."""

    def look(commit: str, _how: commit_search.Means) -> Comparison:
        number = int(commit, 16)
        kept = 0.0 if number < 28 else most if number == len(COMMITS) else 230.0
        base, head = (
            KeptMemory(course="constant" if size else "none", bytes=size, requests=60)
            for size in (0.0, kept)
        )
        return comparison_of(
            judged_case(CASE, SAME, effects=Effects(kept_base=base, kept_head=head))
        )

    cause = commit_search.find(COMMITS, look, 600.0, lambda _: None)
    assert cause is not None
    assert [commit.subject for commit in cause.commits] == ["change 28"]
    assert any("did the rest" in line for line in commit_lines(cause, "a", "b")) is says


def test_a_count_that_other_work_left_no_time_is_tried_again() -> None:
    tries: list[int] = []

    def look(commit: str, how: commit_search.Means) -> Comparison:
        number = int(commit, 16)
        if how == "effects":
            return comparison_of(judged_case(CASE, SAME))
        tries.append(number)
        if number == 20 and tries.count(20) == 1:
            return comparison_of(judged_case(CASE, SAME))  # without a count
        size = 1.5 if number >= 20 else 1.0
        verdict = Verdict.SLOWER if number >= 20 else Verdict.NO_CHANGE
        count = Judgement(metric="instructions", verdict=verdict, ratio=size, low=size, high=size)
        return comparison_of(judged_case(CASE, SAME, count=count))

    cause = commit_search.find(COMMITS, look, 600.0, list[str]().append)
    assert cause is not None
    assert [commit.subject for commit in cause.commits] == ["change 20"]
    assert (tries.count(20), cause.skipped) == (2, ())


@pytest.mark.parametrize(("size", "counted"), [(1.7, {"rough"}), (1.05, {"rough", "counts"})])
def test_rough_counts_search_for_a_large_change_alone(size: float, counted: set[str]) -> None:
    """5 % known to 3 % leaves open which half a commit is of; a full count knows 0.1 %."""
    means: list[commit_search.Means] = []

    def look(commit: str, how: commit_search.Means) -> Comparison:
        means.append(how)
        if how == "effects":
            return comparison_of(judged_case(CASE, SAME))
        half, ratio = 0.03 if how == "rough" else 0.001, size if int(commit, 16) >= 9 else 1.0
        verdict = Verdict.SLOWER if ratio > 1 + half else Verdict.NO_CHANGE
        low, high = ratio * (1 - half), ratio * (1 + half)
        count = Judgement(metric="instructions", verdict=verdict, ratio=ratio, low=low, high=high)
        return comparison_of(judged_case(CASE, SAME, count=count))

    cause = commit_search.find(COMMITS, look, 600.0, list[str]().append)
    assert cause is not None
    assert [commit.subject for commit in cause.commits] == ["change 9"]
    assert {*means} == {"effects", *counted}
    assert means.count("rough") == (1 if "counts" in counted else len(means) - 1)


def test_a_rough_count_that_decides_nothing_is_repeated_in_full() -> None:
    """3 % known to 1 % tells halves apart; known to 2 %, as of one commit, it does not."""
    full: list[int] = []

    def look(commit: str, how: commit_search.Means) -> Comparison:
        number = int(commit, 16)
        if how == "effects":
            return comparison_of(judged_case(CASE, SAME))
        if how == "counts":
            full.append(number)
        half = 0.001 if how == "counts" else 0.02 if number == 20 else 0.01
        ratio = 1.03 if number >= 9 else 1.0
        low, high, verdict = ratio * (1 - half), ratio * (1 + half), Verdict.SLOWER
        count = Judgement(metric="instructions", verdict=verdict, ratio=ratio, low=low, high=high)
        return comparison_of(judged_case(CASE, SAME, count=count))

    cause = commit_search.find(COMMITS, look, 600.0, list[str]().append)
    assert cause is not None
    assert [commit.subject for commit in cause.commits] == ["change 9"]
    assert (full, cause.skipped) == ([20], ())


def test_a_count_that_failed_is_not_called_the_same() -> None:
    def look(commit: str, how: commit_search.Means) -> Comparison:
        if isinstance(how, str):
            return comparison_of(judged_case(CASE, SAME, no_count="Valgrind failed"))
        return compared(1.5 if int(commit, 16) >= 3 else 1.0)

    heard: list[str] = []
    assert commit_search.find(COMMITS, look, 600.0, heard.append) is not None
    assert heard[1] == "no count (Valgrind failed): duets decide, 67 s each"
    assert heard[2] == f"40 commits: which of them changed CPU per request at {CASE}?"


def test_only_starts_are_looked_at_where_only_they_can_show_it() -> None:
    means: list[object] = []

    def look(commit: str, how: commit_search.Means) -> Comparison:
        means.append(how)
        return compared(1.5 if int(commit, 16) >= 9 else 1.0)

    cause = commit_search.find(COMMITS, look, 600.0, list[str]().append, loaded=True)
    assert cause is not None
    assert [commit.subject for commit in cause.commits] == ["change 9"]
    assert all(isinstance(how, float) for how in means)


def test_a_commit_that_cannot_affect_the_case_is_as_good_has_it() -> None:
    """Up to the fourth commit nothing differs that the case loads, so nothing is looked at."""

    def look(commit: str, _: commit_search.Means) -> Comparison:
        if int(commit, 16) < 5:
            return comparison_of()
        effect = RequestEffect(kind="sql", text="SELECT ?", base=2, head=3)
        seen = Effects(differ=(effect,), totals={"sql": (2, 3)})
        return comparison_of(judged_case(CASE, SAME, effects=seen))

    heard: list[str] = []
    cause = commit_search.find(COMMITS, look, 600.0, heard.append)
    assert cause is not None
    assert [commit.subject for commit in cause.commits] == ["change 5"]
    assert cause.skipped == ()


@pytest.mark.parametrize("kept", [0.0, 2_100.0])
def test_a_leak_is_searched_by_the_bytes_that_a_request_keeps(kept: float) -> None:
    heard: list[str] = []

    def look(commit: str, _: commit_search.Means) -> Comparison:
        leaks = int(commit, 16) >= 5 and kept > 0
        head = KeptMemory(course="constant" if leaks else "none", bytes=kept * leaks, requests=9)
        seen = Effects(kept_base=KeptMemory(course="none", requests=9), kept_head=head)
        return comparison_of(judged_case(CASE, SAME, effects=seen))

    cause = commit_search.find(COMMITS, look, 600.0, heard.append)
    assert (cause is None) is (kept == 0)
    if cause:
        assert commit_lines(cause, "a", "b")[0].endswith(
            f"change 5: {CASE}: memory kept for every request 0 kB → 2.1 kB"
        )
