"""The headline of a comparison and what to do next: no sentence that does not follow."""

from pathlib import Path
from typing import Any

import pytest

import comparing
from comparing import (
    AGAIN,
    BROKEN,
    LARGER,
    LATE,
    LOOKS,
    OPEN,
    SAME,
    SLOWER,
    comparison_of,
    duet,
    judged_case,
    lines,
    micro,
)
from duetbench.core.model import Missing
from duetbench.judge.statistics import Method
from duetbench.show.view import make_view
from duetbench.store import files
from duetbench.store.comparison import CaseComparison, Comparison, Instructions, rebuilt

MEMORY_OPEN = OPEN.model_copy(update={"metric": "pss_steady"})
TAIL = SAME.model_copy(update={"metric": "service_p99", "detectable": 0.06})
A, B = "x/a/py3.14", "x/b/py3.14"
UNTOUCHED = "Nothing to judge: only documents differ, and no measured case depends on them."
APART = "Nothing to judge: the sides have no case in common."
MISSING = (Missing(case="x/a", reason="defined otherwise on head: load.connections 1 → 2"),)
WORST = "needs 2.13 % more CPU per request (1.61…2.65 %)"
SEEN = "changes of CPU/request from 0.81 % on could have been seen"
BETTER = "Better in 1 of 1 cases: x/a/py3.14 needs 3.00 % less CPU per request (2.00…4.00 %)"


@pytest.mark.parametrize(
    ("found", "headline"),
    [
        (
            comparison_of(judged_case(A, SLOWER), judged_case(B, SAME)),
            f"Worse in 1 of 2 cases: {A} {WORST}.",
        ),
        (
            comparison_of(judged_case(A, SAME), judged_case(B, SAME)),
            f"No change in 2 of 2 cases; {SEEN}.",
        ),
        # One open metric is not 'no change'.
        (
            comparison_of(judged_case(A, SAME, MEMORY_OPEN), judged_case(B, SAME)),
            f"No change in 1 of 2 cases; {SEEN}; not decided in 1 of 2 cases (PSS steady).",
        ),
        # What could be seen is told of CPU, though a tail needs more to be seen.
        (comparison_of(judged_case(A, SAME, TAIL)), f"No change in 1 of 1 cases; {SEEN}."),
        # Benchmarks are no cases.
        (
            comparison_of(
                judged_case(A, SLOWER), micro=(micro("b.One", SLOWER), micro("b.Two", SAME))
            ),
            (
                "Worse in 1 of 1 cases and 1 of 2 in-process benchmarks, most of all "
                f"{A}, which {WORST}."
            ),
        ),
        (comparison_of(), "Nothing to judge: the change cannot have touched any measured case."),
        (comparison_of(notes=(UNTOUCHED, "another note")), UNTOUCHED),
        (comparison_of(untouched=0, missing=MISSING, notes=(APART,)), APART),
        (comparison_of(judged_case(A, BROKEN)), "Not comparable in 1 of 1 cases."),
        (comparison_of(judged_case(A)), "Not judged in 1 of 1 cases."),
        (comparison_of(judged_case(A, LATE)), "Not judged in 1 of 1 cases."),
        (comparison_of(judged_case(A, OPEN)), "Not decided in 1 of 1 cases (CPU/request)."),
        (
            comparison_of(judged_case(A, comparing.FASTER, BROKEN)),
            f"{BETTER}; not comparable in 1 of 1 cases.",
        ),
        (
            comparison_of(judged_case(A, SAME), status="partial"),
            f"Partial: No change in 1 of 1 cases; {SEEN}.",
        ),
    ],
)
def test_people_read_one_sentence(found: Comparison, headline: str) -> None:
    assert make_view(found).headline == headline


def test_coverage_and_notes_stand_beside_it() -> None:
    partly = make_view(comparison_of(judged_case(A, SAME, MEMORY_OPEN), judged_case(B, SAME)))
    both = comparison_of(
        judged_case(A, SLOWER), micro=(micro("b.One", SLOWER), micro("b.Two", SAME))
    )
    assert [dict(lines(view, "facts"))["coverage"] for view in (partly, make_view(both))] == [
        "1 of 2 cases judged, 1 more in part; 3 others cannot have changed",
        "1 of 1 cases judged; 2 of 2 in-process benchmarks; 3 others cannot have changed",
    ]
    assert lines(make_view(comparison_of(notes=(UNTOUCHED, "another note"))), "Notes") == (
        ("", "another note"),
    )
    apart = make_view(comparison_of(untouched=0, missing=MISSING, notes=(APART,)))
    assert lines(apart, "Notes") == (("", f"x/a: {MISSING[0].reason}"),)


def test_a_choice_of_interpreters_names_both_and_mends_nothing() -> None:
    sides = labelled("interpreter", "3.14", "3.14t")
    view = make_view(comparison_of(judged_case("x/a/py3.14t", SLOWER), cross=True, **sides))
    assert view.headline.startswith("3.14t against 3.14: worse in 1 of 1 cases")
    assert lines(view, "Next") == ()


def test_a_row_s_words_follow_its_metric_and_its_samples() -> None:
    """Memory gets larger, not slower."""
    memory = SAME.model_copy(update={"metric": "pss_steady"})
    groups = make_view(comparison_of(judged_case(A, SLOWER, memory), judged_case(B, LARGER))).groups
    assert {(row.verdict, row.change, row.judged.duets) for row in groups.all} == {
        ("▼ slower", "+2.13 %", 16),
        ("= no change", "+0.04 %", 8),
        ("▼ larger", "+10.0 %", 16),
    }


def test_what_the_report_may_not_import_is_what_decides() -> None:
    record = Method().record()
    assert {name: record[name] for name in LOOKS} == LOOKS


def steps(*cases: CaseComparison, **more: Any) -> tuple[str, ...]:
    view = make_view(comparison_of(*cases, **{"method": LOOKS, **more}))
    return tuple(step for _, step in lines(view, "Next"))


WAITING = judged_case(A, OPEN, seconds_to_decide=240.0)
SPENT = judged_case(B, OPEN.model_copy(update={"duets": 60}), seconds_to_decide=480.0)
LACK = "Not decided, for lack of time:"
HELPLESS = (
    "Not decided with all the samples that a comparison takes: 1 case. What is there, if anything, "
    "is too small or too unsteady for this machine; more time does not help."
)


NO_TIME = (
    "Not judged: there was no time for 1 case: a larger --budget, or fewer cases with --select."
)
LOUD = (
    "Not judged: in 1 case too few duets were usable; the reasons say what disturbed them. A "
    "quieter machine would tell."
)
ABOUT = "About 4 min more would probably decide"


@pytest.mark.parametrize(
    ("cases", "more", "step"),
    [
        ((WAITING,), {}, f"{LACK} 1 case. {ABOUT} it: a larger --budget."),
        ((SPENT,), {}, HELPLESS),
        # Nothing was limited: it ended by itself.
        ((WAITING,), {"budget_seconds": None}, HELPLESS),
        # Time that cannot be named is not promised.
        (
            (WAITING, judged_case(B, OPEN)),
            {},
            f"{LACK} 2 cases. {ABOUT} 1 of them: a larger --budget.",
        ),
        ((judged_case(B, OPEN),), {}, f"{LACK} 1 case."),
        # Of November 2026 and before: a screening had 22 duets at most.
        (
            (judged_case(B, OPEN.model_copy(update={"duets": 22})),),
            {"method": {"screening_looks": "12 duets: 30%, 22 duets: 50%"}},
            HELPLESS,
        ),
        ((judged_case(A, LATE),), {}, NO_TIME),
        ((judged_case(A, comparing.DISTURBED),), {}, LOUD),
    ],
)
def test_time_is_asked_for_only_where_it_helps(
    cases: tuple[CaseComparison, ...], more: dict[str, Any], step: str
) -> None:
    """Sixteen of sixty duets are short of time; what had all of them is not."""
    assert steps(*cases, **more) == (step,)


def test_a_case_whose_duets_were_disturbed_is_not_short_of_time() -> None:
    noisy = OPEN.model_copy(update={"excluded": 74})
    tried = [duet("x/a/py3.14") for _ in range(90)]

    def said(number: int) -> tuple[str, ...]:
        case = judged_case("x/a/py3.14", noisy, duets=tuple(tried[:number]))
        return steps(case, method={**LOOKS, "patience": 1.5})

    (loud,) = said(90)
    assert loud.startswith("Not decided, because too few duets were usable: 1 case. A quieter mach")
    assert said(89) == (f"{LACK} 1 case.",)


@pytest.mark.parametrize(
    ("head", "told"),
    [
        (309_000.0, "Its application executes more instructions per request (+3.00 %): there is"),
        (300_030.0, "Its application executes as many instructions per request as before (+0.01"),
        (294_000.0, "Its application executes fewer instructions per request (−2.00 %), and got"),
    ],
)
def test_instructions_tell_added_work_from_the_rest(head: float, told: str) -> None:
    counted = Instructions(base=300_000.0, head=head, spread=0.0)
    view = make_view(comparison_of(judged_case("x/a/py3.14", SLOWER, instructions=counted)))
    assert told in lines(view, "Next")[0][1]
    (counts,) = (block.grid for block in view.blocks if block.name == "Instructions")
    assert counts
    (shown,) = counts.rows
    assert shown[1:3] == ("300,000", f"{head:,.0f}")
    # More memory is not explained by them.
    assert (
        lines(
            make_view(comparison_of(judged_case("x/a/py3.14", LARGER, instructions=counted))),
            "Next",
        )
        == ()
    )


def test_the_first_row_can_be_measured_alone() -> None:
    chosen = f"{AGAIN} --select 'x/*'"
    alone = "the first that got worse, alone", f"{AGAIN} --select 'x/a b/py3.14'"
    for asked, more in ((AGAIN, (alone,)), (chosen, ())):
        view = make_view(comparison_of(judged_case("x/a b/py3.14", SLOWER), reproduce=(asked,)))
        assert lines(view, "Commands") == (("all of it", asked), *more)


SELECTED = "--select 'x/*' --seed 1 --all --budget 20m"
REVISIONS = f"duetbench compare {'a' * 12} {'b' * 12}"


SEEDED = "duetbench compare --seed 2"
ENDLESS = {"budget_seconds": None}


def labelled(kind: str, base: str, head: str) -> dict[str, Any]:
    """Two sides that are no revisions."""
    side = comparison_of().base.model_copy(update={"kind": kind, "label": base})
    return {**ENDLESS, "base": side, "head": side.model_copy(update={"label": head})}


@pytest.mark.parametrize(
    ("written", "facts", "shown"),
    [
        (AGAIN, {}, AGAIN),
        # What it asks for is what was compared, whatever it says.
        (f"duetbench compare x y {SELECTED}", {}, f"{REVISIONS} {SELECTED}"),
        (f"{AGAIN} --select '$(id)'", {}, f"{AGAIN} --select '$(id)'"),
        (f'{AGAIN} --select "$(id)"', {}, f"{AGAIN} --select '$(id)'"),
        (f"{AGAIN}; curl x | sh", {}, None),
        (f"{AGAIN} && sh", {}, None),
        (f"{AGAIN} --select x --output ~/.bashrc", {}, None),
        (f"{AGAIN} --markdown ~/.ssh/authorized_keys", {}, None),
        (f"{AGAIN} --with evilpkg==1.0", {}, None),
        (f"{AGAIN} --select --output", {}, None),
        (f"{AGAIN} 'unbalanced", {}, None),
        (AGAIN.replace("20m", "9h"), {}, None),
        (AGAIN.replace(" --budget 20m", ""), {}, None),
        (
            "duetbench compare --with evilpkg==1.0 --output ~/.bashrc a b",
            ENDLESS,
            REVISIONS,
        ),
        (
            "duetbench compare x --seed 2",
            labelled("stack", "stacks as locked", "granian==2.7.8, a==1"),
            "duetbench compare --with granian==2.7.8 --with a==1 --seed 2",
        ),
        (
            SEEDED,
            labelled("stack", "granian==2.8.2", "granian==2.8.7"),
            "duetbench compare --base-with granian==2.8.2 --with granian==2.8.7 --seed 2",
        ),
        (
            SEEDED,
            labelled("stack", "stacks as of 2026-07-01", "stacks as locked"),
            "duetbench compare --stack-as-of 2026-07-01 --stack-as-of locked --seed 2",
        ),
        (SEEDED, labelled("stack", "stacks as locked", "x==1 --output"), None),
        (
            SEEDED,
            labelled("interpreter", "3.14", "3.14t"),
            "duetbench compare --python 3.14 3.14t --seed 2",
        ),
        (SEEDED, labelled("interpreter", "3.14", "--output"), None),
    ],
)
def test_the_command_is_made_from_what_was_compared(
    written: str, facts: dict[str, Any], shown: str | None
) -> None:
    found = make_view(
        comparison_of(judged_case("x/a/py3.14", SAME), **{**facts, "reproduce": (written,)})
    )
    assert lines(found, "Commands") == (() if shown is None else (("all of it", shown),))


def test_what_was_recorded_in_this_repository_can_be_asked_for_again() -> None:
    recorded = (Path(__file__).parents[2] / "results" / "comparisons").glob("*.json")
    asked = [found for file in recorded if (found := files.read(Comparison, file)).reproduce]
    assert len(asked) > 1, "those that confirm a change were asked for by nobody"
    for found in asked:
        assert found.reproduce == (rebuilt(found),)


def test_duets_that_were_not_used_are_counted() -> None:
    """Eight of forty-one say something: a reader should know, once per case."""
    noisy = SAME.model_copy(update={"excluded": 33})
    memory = noisy.model_copy(update={"metric": "pss_steady"})
    facts = dict(lines(make_view(comparison_of(judged_case("x/a/py3.14", noisy, memory))), "facts"))
    assert facts["duets"] == "8 usable, 33 not: disturbed or failed"
    assert "duets" not in dict(
        lines(make_view(comparison_of(judged_case("x/a/py3.14", SAME))), "facts")
    )


def test_duets_that_were_used_in_spite_of_noise_are_counted() -> None:
    both = tuple(duet("x/a/py3.14").model_copy(update={"kept": n < 2}) for n in range(3))
    facts = dict(
        lines(make_view(comparison_of(judged_case("x/a/py3.14", SAME, duets=both))), "facts")
    )
    told = "in 2 of the duets used: it was there most of the time"
    assert facts["noise of the machine"] == told
