"""The headline of a comparison and what to do next: no sentence that does not follow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from comparing import (
    AGAIN,
    BROKEN,
    CPU,
    DISTURBED,
    FASTER,
    LARGER,
    LATE,
    LOOKS,
    OPEN,
    SAME,
    SLOWER,
    UNCONFIRMED,
    made,
    micro,
    one,
)
from duets import duet
from servebench.compare import family, keeping
from servebench.compare.again import rebuilt
from servebench.compare.method import Method
from servebench.compare.model import (
    CaseComparison,
    Comparison,
    Instructions,
    Judgement,
    Missing,
    SideRecord,
)
from servebench.report.comparison import make_view
from servebench.report.rows import INPROCESS_THRESHOLD


def test_the_worst_row_is_the_headline() -> None:
    """People read one sentence: which case, by how much, of how many."""
    view = make_view(made(one("x/a/py3.14", SLOWER), one("x/b/py3.14", SAME)))
    assert view.headline == (
        "Worse in 1 of 2 cases, most of all CPU/request of x/a/py3.14 by +2.13 % (+1.61…+2.65 %)."
    )


def test_no_change_says_what_would_have_been_seen() -> None:
    """'Nothing found' means nothing without the size that would have been found."""
    view = make_view(made(one("x/a/py3.14", SAME), one("x/b/py3.14", SAME)))
    assert view.headline == (
        "No change in 2 of 2 cases; changes of CPU/request from 0.81 % on could have been seen."
    )


def test_a_case_with_one_open_metric_is_not_called_unchanged() -> None:
    """CPU did not move, and of the memory nothing is known: that is no clean case."""
    memory = OPEN.model_copy(update={"metric": "pss_steady"})
    view = make_view(made(one("x/a/py3.14", SAME, memory), one("x/b/py3.14", SAME)))
    assert view.headline == (
        "No change in 1 of 2 cases; changes of CPU/request from 0.81 % on could have been seen; "
        "not decided in 1 of 2 cases (PSS steady)."
    )
    assert dict(view.facts)["coverage"] == (
        "1 of 2 cases judged, 1 more in part; 3 others cannot have changed"
    )


def test_benchmarks_are_not_called_cases() -> None:
    """A case has a server and a load; what runs inside the process is counted by itself."""
    view = make_view(
        made(one("x/a/py3.14", SLOWER), micro=(micro("b.One", SLOWER), micro("b.Two", SAME)))
    )
    assert view.headline == (
        "Worse in 1 of 1 cases and 1 of 2 in-process benchmarks, most of all CPU/request of "
        "x/a/py3.14 by +2.13 % (+1.61…+2.65 %)."
    )
    facts = dict(view.facts)
    assert facts["coverage"] == (
        "1 of 1 cases judged; 2 of 2 in-process benchmarks; 3 others cannot have changed"
    )


def test_nothing_touched_is_not_called_clean() -> None:
    """Coverage zero has a sentence of its own, and the reason if it is known."""
    view = make_view(made())
    assert view.headline == "Nothing to judge: the change cannot have touched any measured case."
    told = "Nothing to judge: only documents differ, and no measured case depends on them."
    view = make_view(made(notes=(told, "another note")))
    assert (view.headline, view.notes) == (told, ("another note",))


def test_sides_without_a_common_case_are_not_untouched() -> None:
    """All cases were defined anew: nothing was compared, which is no success."""
    missing = (Missing(case="x/a", reason="defined otherwise on head: load.connections 1 → 2"),)
    told = "Nothing to judge: the sides have no case in common."
    view = make_view(made(untouched=0, missing=missing, notes=(told,)))
    assert view.headline == told
    assert view.notes == ("x/a: defined otherwise on head: load.connections 1 → 2",)


@pytest.mark.parametrize(
    ("judgements", "headline"),
    [
        ((BROKEN,), "Not comparable in 1 of 1 cases."),
        ((), "Not judged in 1 of 1 cases."),
        ((LATE,), "Not judged in 1 of 1 cases."),
        ((OPEN,), "Not decided in 1 of 1 cases (CPU/request)."),
        (
            (FASTER, BROKEN),
            (
                "Better in 1 of 1 cases, most of all CPU/request of x/a/py3.14 by −3.00 % "
                "(−4.00…−2.00 %); not comparable in 1 of 1 cases."
            ),
        ),
    ],
)
def test_what_was_not_judged_is_not_clean(judgements: tuple[Judgement, ...], headline: str) -> None:
    """Nor is what works on one side only, whatever else got better."""
    view = make_view(made(one("x/a/py3.14", *judgements)))
    assert view.headline == headline


def test_a_partial_comparison_says_so_first() -> None:
    """An interrupted comparison must not be read as a whole one."""
    view = make_view(made(one("x/a/py3.14", SAME), status="partial"))
    assert view.headline.startswith("Partial: No change in 1 of 1 cases")


def test_a_choice_of_interpreters_names_both_and_mends_nothing() -> None:
    """Between two interpreters there is no change that somebody would have to look into."""
    comparison = made(one("x/a/py3.14t", SLOWER), cross=True)
    sides = {
        name: side.model_copy(update={"label": label, "kind": "interpreter"})
        for name, side, label in (
            ("base", comparison.base, "3.14"), ("head", comparison.head, "3.14t"),
        )
    }  # fmt: skip
    view = make_view(comparison.model_copy(update=sides))
    assert view.headline.startswith("3.14t against 3.14: worse in 1 of 1 cases")
    assert view.steps == ()


def test_memory_gets_larger_not_slower() -> None:
    """Words follow the metric."""
    (row,) = make_view(made(one("x/a/py3.14", LARGER))).groups.worse
    assert row.verdict == "▼ larger"
    assert row.change == "+10.0 %"


def test_a_confirmation_counts_for_what_it_confirmed() -> None:
    """The duets that confirmed CPU are none of those that the memory was settled by."""
    memory = SAME.model_copy(update={"metric": "pss_steady", "confirmed": 10})
    groups = make_view(made(one("x/a/py3.14", SLOWER, memory))).groups
    assert [row.samples for row in groups.all] == ["8+8", "8"]


def test_the_floor_of_benchmarks_is_the_comparisons() -> None:
    """Rows are ordered by it; the report cannot import what decides."""
    assert INPROCESS_THRESHOLD == family.FLOOR


def test_the_last_looks_are_read_as_they_are_written() -> None:
    """The report reads them from the record; here it is the record that is made."""
    record = Method().record()
    assert {name: record[name] for name in LOOKS} == LOOKS


def steps(*cases: CaseComparison, **more: Any) -> tuple[str, ...]:
    return make_view(made(*cases, **{"method": LOOKS, **more})).steps


def test_time_is_asked_for_only_where_it_helps() -> None:
    """Sixteen of twenty-two duets are short of time; what had all of them is not."""
    waiting = one("x/a/py3.14", OPEN, seconds_to_decide=240.0)
    had_all = OPEN.model_copy(update={"screened": 22})
    spent = one("x/b/py3.14", had_all, seconds_to_decide=480.0)
    assert steps(waiting) == (
        (
            "Not decided, for lack of time: 1 case. About 4 min more would probably decide it: a "
            "larger --budget."
        ),
    )
    helpless = (
        (
            "Not decided with all the samples that a comparison takes: 1 case. What is there, if "
            "anything, is too small or too unsteady for this machine; more time does not help."
        ),
    )
    assert steps(spent) == helpless
    # Nothing was limited: it ended by itself.
    assert steps(waiting, budget_seconds=None) == helpless


def test_time_that_cannot_be_named_is_not_promised() -> None:
    """Two are open, of one it is known how long it would take."""
    cases = (one("x/a/py3.14", OPEN, seconds_to_decide=240.0), one("x/b/py3.14", UNCONFIRMED))
    assert steps(*cases) == (
        (
            "Not decided, for lack of time: 2 cases. About 4 min more would probably decide 1 of "
            "them: a larger --budget."
        ),
    )
    assert steps(cases[1]) == ("Not decided, for lack of time: 1 case.",)


def test_a_candidate_is_open_until_its_confirmation_had_all() -> None:
    """Twenty-two screening duets are not what a candidate waits for."""
    candidate = UNCONFIRMED.model_copy(update={"screened": 22})
    assert steps(one("x/a/py3.14", candidate)) == ("Not decided, for lack of time: 1 case.",)
    refuted = candidate.model_copy(update={"confirmed": 28, "reason": "did not confirm it"})
    assert "more time does not help" in steps(one("x/a/py3.14", refuted))[0]


def test_a_candidate_whose_fresh_duets_were_disturbed_is_not_short_of_time() -> None:
    """Forty-two fresh duets, one and a half times the last look, and too few of them usable."""
    noisy = UNCONFIRMED.model_copy(
        update={"confirmed": 3, "excluded": 39, "reason": "3 of 42 fresh duets usable: host_noise"}
    )
    fresh = [duet("x/a/py3.14", stage="confirmation") for _ in range(42)]

    def said(tried: int) -> tuple[str, ...]:
        case = one("x/a/py3.14", noisy, duets=tuple(fresh[:tried]))
        return steps(case, method={**LOOKS, "patience": 1.5})

    assert said(42) == (
        (
            "Not decided, because too few duets were usable: 1 case. A quieter machine would tell; "
            "more time on this one may not."
        ),
    )
    assert said(41) == ("Not decided, for lack of time: 1 case.",)


def test_no_time_and_no_quiet_are_two_things() -> None:
    """The one is mended by a budget, the other is not."""
    late, loud = steps(one("x/a/py3.14", LATE)), steps(one("x/a/py3.14", DISTURBED))
    assert late == (
        (
            "Not judged: there was no time for 1 case: a larger --budget, or fewer cases with "
            "--select."
        ),
    )
    assert loud[0].startswith("Not judged: in 1 case too few duets were usable")


@pytest.mark.parametrize(
    ("head", "told"),
    [
        (309_000.0, "Its application executes 3.0 % more instructions per request: there is more"),
        (300_030.0, "Its application executes as many instructions per request as before (+0.01"),
        (294_000.0, "Its application executes 2.0 % fewer instructions per request, and got slow"),
    ],
)
def test_instructions_tell_added_work_from_the_rest(head: float, told: str) -> None:
    """Counted on both sides: the report shows them, and does not only point to them."""
    counted = Instructions(base=300_000.0, head=head, spread=0.0)
    view = make_view(made(one("x/a/py3.14", SLOWER, instructions=counted)))
    assert told in view.steps[0]
    (shown,) = view.counts
    assert (shown.base, shown.head) == ("300,000", f"{head:,.0f}")
    # More memory is not explained by them.
    assert make_view(made(one("x/a/py3.14", LARGER, instructions=counted))).steps == ()


def test_the_first_row_can_be_measured_alone() -> None:
    """The command is the same comparison with one case; one that selects is left as it is."""
    found: Comparison = made(one("x/a b/py3.14", SLOWER), reproduce=(AGAIN,))
    assert make_view(found).commands == (
        ("all of it", AGAIN),
        ("the first that got worse, alone", f"{AGAIN} --select 'x/a b/py3.14'"),
    )
    chosen = f"{AGAIN} --select 'x/*'"
    assert make_view(found.model_copy(update={"reproduce": (chosen,)})).commands == (
        ("all of it", chosen),
    )


SELECTED = "--select 'x/*' --seed 1 --all --budget 20m"
REVISIONS = f"servebench compare {'a' * 12} {'b' * 12}"


def labelled(kind: str, base: str, head: str) -> dict[str, SideRecord]:
    """Two sides that are no revisions."""
    side = made().base.model_copy(update={"kind": kind, "label": base})
    return {"base": side, "head": side.model_copy(update={"label": head})}


@pytest.mark.parametrize(
    ("written", "facts", "shown"),
    [
        (AGAIN, {}, AGAIN),
        # What it asks for is what was compared, whatever it says.
        (f"servebench compare x y {SELECTED}", {}, f"{REVISIONS} {SELECTED}"),
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
            "servebench compare --with evilpkg==1.0 --output ~/.bashrc a b",
            {"budget_seconds": None},
            REVISIONS,
        ),
        (
            "servebench compare x --seed 2",
            {
                "budget_seconds": None,
                **labelled("stack", "stacks as locked", "granian==2.7.8, a==1"),
            },
            "servebench compare --with granian==2.7.8 --with a==1 --seed 2",
        ),
        (
            "servebench compare --seed 2",
            {
                "budget_seconds": None,
                **labelled("stack", "stacks as of 2026-07-01", "stacks as locked"),
            },
            "servebench compare --stack-as-of 2026-07-01 --stack-as-of locked --seed 2",
        ),
        (
            "servebench compare --seed 2",
            {"budget_seconds": None, **labelled("stack", "stacks as locked", "x==1 --output")},
            None,
        ),
        (
            "servebench compare --seed 2",
            {"budget_seconds": None, **labelled("interpreter", "3.14", "3.14t")},
            "servebench compare --python 3.14 3.14t --seed 2",
        ),
        (
            "servebench compare --seed 2",
            {"budget_seconds": None, **labelled("interpreter", "3.14", "--output")},
            None,
        ),
    ],
)
def test_the_command_is_made_from_what_was_compared(
    written: str, facts: dict[str, Any], shown: str | None
) -> None:
    """A record may come from where others' code ran, and people copy what a report shows."""
    found: Comparison = made(one("x/a/py3.14", SAME), **{**facts, "reproduce": (written,)})
    commands = make_view(found).commands
    assert commands == (() if shown is None else (("all of it", shown),))


def test_what_was_recorded_in_this_repository_can_be_asked_for_again() -> None:
    """Each line is the one that the comparison's own values give."""
    files = sorted((Path(__file__).parents[1] / "results" / "comparisons").glob("*.json"))
    assert files
    for file in files:
        found = keeping.read(file)
        assert found.reproduce == (rebuilt(found),)


def test_a_broken_case_is_the_next_thing_to_look_at() -> None:
    """With its reason, and a command that runs it."""
    view = make_view(made(one("x/a/py3.14", BROKEN), reproduce=(AGAIN,)))
    assert view.steps == (
        "Not comparable: look at x/a/py3.14 first: head: wrong_body: found <script>.",
    )
    assert view.commands[1][1] == "servebench run --select x/a/py3.14"


def test_duets_that_were_not_used_are_counted() -> None:
    """Eight of forty-one say something: a reader should know, once per case."""
    noisy = SAME.model_copy(update={"excluded": 33})
    memory = noisy.model_copy(update={"metric": "pss_steady"})
    facts = dict(make_view(made(one("x/a/py3.14", noisy, memory))).facts)
    assert facts["duets"] == "8 usable, 33 not: disturbed or failed"
    assert "duets" not in dict(make_view(made(one("x/a/py3.14", SAME))).facts)


def test_rows_are_of_the_metric_that_every_case_has() -> None:
    """What could be seen is told of CPU, though a tail needs more to be seen."""
    tail = SAME.model_copy(update={"metric": "service_p99", "detectable": 0.06})
    assert SAME.metric == CPU
    headline = make_view(made(one("x/a/py3.14", SAME, tail))).headline
    assert "changes of CPU/request from 0.81 % on" in headline
