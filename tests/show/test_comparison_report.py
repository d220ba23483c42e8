"""Reports of a comparison: headline and steps that follow from it, blocks in order, none lost."""

import io
import math
from pathlib import Path
from typing import Any, Final

import pytest
from rich.console import Console

import comparing
from comparing import (
    AGAIN,
    BROKEN,
    CPU,
    FASTER,
    LATE,
    OPEN,
    SAME,
    SLOWER,
    comparison_of,
    duet,
    judged_case,
    lines,
    micro,
)
from duetbench.core import units
from duetbench.core.errors import FlagName
from duetbench.core.metrics import MATERIAL
from duetbench.core.model import Flag, Missing, Verdict
from duetbench.core.text import TOO_SMALL
from duetbench.core.units import Interval
from duetbench.judge import counted, rule
from duetbench.judge.repetition import rebuilt
from duetbench.show import formats
from duetbench.show.comparison_text import as_markdown as markdown
from duetbench.show.comparison_text import print_comparison
from duetbench.show.comparison_view import COUNTS, View, make_view
from duetbench.show.conclusion import exit_code
from duetbench.show.html.comparison_page import one_file
from duetbench.show.verdict import check_line
from duetbench.store import files
from duetbench.store.comparison import (
    CaseComparison,
    Collector,
    Comparison,
    Event,
    Instructions,
    Judgement,
    PackageChange,
    set_material,
)
from goldens import assert_golden

ROOT: Final = Path(__file__).parents[2]
EVENT = Event(
    metric=CPU,
    verdict=Verdict.SLOWER,
    ratio=1.02,
    low=1.018,
    high=1.022,
    cases=("x/a/py3.14", "x/b/py3.14", "x/c/py3.14"),
)
MEMORY_OPEN = OPEN.model_copy(update={"metric": "pss_steady"})
MUCH_SLOWER = SLOWER.model_copy(update={"ratio": 1.2, "low": 1.19, "high": 1.21})
A, B = "x/a/py3.14", "x/b/py3.14"
SEEN = (
    "a change of 0.81 % or more in CPU per request would have been seen in 4 of 5 such comparisons"
)
WORST = "needs 2.1 % more CPU per request"


@pytest.mark.parametrize(
    ("found", "headline"),
    [
        (
            comparison_of(judged_case(A, SLOWER), judged_case(B, SAME)),
            f"▼ slower in 1 of 2 cases: {A} {WORST}",
        ),
        (
            comparison_of(judged_case(A, SAME), judged_case(B, SAME)),
            f"= no change in 2 of 2 cases: {SEEN}",
        ),
        # One open metric is not 'no change'.
        (
            comparison_of(judged_case(A, SAME, MEMORY_OPEN), judged_case(B, SAME)),
            f"= no change in 1 of 2 cases: {B}; {SEEN}; ? not decided in 1 of 2 cases: memory",
        ),
        # What requests need leads, though a part of them moved further.
        (
            comparison_of(judged_case(A, SLOWER), micro=(micro("b.One", MUCH_SLOWER),)),
            f"▼ slower: {A} {WORST}",
        ),
        (
            comparison_of(judged_case(A, SAME), micro=(micro("b.One", MUCH_SLOWER),)),
            (
                "▼ slower in 1 of 1 benchmarks in process: b.One [current, 3.14] takes 20 % more "
                "time in process"
            ),
        ),
        (comparison_of(), "Nothing to judge: the change cannot have touched any measured case."),
        (
            comparison_of(judged_case(A, BROKEN)),
            f"✕ not comparable: {A}: head: wrong_body: found <script>",
        ),
        (comparison_of(judged_case(A, LATE)), "? not judged: no time for a duet"),
        (
            comparison_of(judged_case(A, SAME), status="partial"),
            f"Partial: = no change: {A}; {SEEN}",
        ),
        (
            comparison_of(judged_case(A, SAME), judged_case(B, SAME), judged_case("x/c", SAME),
                          event=EVENT),
            (
                "▼ slower: 3 cases, tested as one: head needs 2.0 % more CPU per request "
                "(1.8…2.2 %)"
            ),
        ),
    ],
)  # fmt: skip
def test_people_read_one_line(found: Comparison, headline: str) -> None:
    assert make_view(found).headline == headline


def counted_case(ratio: float, *judgements: Judgement, **more: Any) -> CaseComparison:
    """A case whose head executes so many times 300,000 instructions, exactly."""
    counts = Instructions(base=3e5, head=3e5 * ratio, spread=0.0, scatter=0.0)
    judged = set_material(counted.judge(counts), {})
    return judged_case(A, *judgements, instructions=counts, count=judged, **more)


def sentences(view: View) -> str:
    """The verdict, and on a line of its own what stayed open beside it."""
    return "\n".join(filter(None, (view.headline, view.answer.open)))


EQUAL = "executes the same instructions per request (exact to ±0.1 %)"
FEWER = "executes 33.1 % fewer instructions per request (exact to ±0.1 %)"
LESS = FASTER.model_copy(update={"ratio": 0.8, "low": 0.78, "high": 0.82})
LEAST = FASTER.model_copy(update={"ratio": 0.5, "low": 0.48, "high": 0.52})


def whole_case(ratio: float, least: float, *judgements: Judgement) -> CaseComparison:
    """A case whose counts show that the whole request needs at least so many times the CPU."""
    verdict = Verdict.SLOWER if least > 1 else Verdict.FASTER
    request = set_material(Judgement(metric=CPU, verdict=verdict, ratio=least, duets=1), {})
    return counted_case(ratio, *judgements, request=request)


CONTRARY = OPEN.model_copy(update={"ratio": 1.01, "low": 0.99, "high": 1.03})
TIMES = "executes 2.40 times the instructions per request (exact to ±0.1 %)"
MORE_CPU = f"{A} {TIMES}, at least 15.3 % more CPU for the whole request"
NO_TIME = "? not judged: CPU per request"


@pytest.mark.parametrize(
    ("found", "code", "headline"),
    [
        (whole_case(2.4, 1.153, LATE), 1, f"▼ slower: {MORE_CPU}\n{NO_TIME}"),
        # Half as much again of the own code, and too little of the request.
        (whole_case(1.5, 1.0061, LATE), 3,
         (f"▼ more: {A} executes 50.0 % more instructions per request (exact to ±0.1 %), "
         f"at least 0.61 % more CPU for the whole request\n{NO_TIME}")),
        # Duets decide, or contradict.
        (whole_case(2.4, 1.153, SAME), 0, f"= no change: {A}; {SEEN}"),
        (whole_case(2.4, 1.153, FASTER), 0, f"▲ faster: {A} needs 3.0 % less CPU per request"),
        (whole_case(2.4, 1.153, CONTRARY), 3,
         f"▼ more: {A} {TIMES}\n? not decided: CPU per request"),
        (whole_case(0.4, 0.847, LATE), 3,
         (f"▲ faster: {A} executes 60.0 % fewer instructions per request (exact to ±0.1 %), "
         f"at least 15.3 % less CPU for the whole request\n{NO_TIME}")),
    ],
)  # fmt: skip
def test_counts_decide_by_the_whole_request(
    found: CaseComparison, code: int, headline: str
) -> None:
    comparison = comparison_of(found)
    view = make_view(comparison)
    assert sentences(view) == headline
    assert exit_code(comparison) == code
    assert exit_code(comparison_of(found, cross=True)) == (3 if code else 0)
    rows = {row[0]: row[1:] for row in view.answer.rows}
    shown = "at least" in headline
    assert ("whole request, at least" in rows) is shown
    assert ("the CPU of the whole request" in str(lines(view, COUNTS))) is shown
    for drawn in (printed(comparison, 120), markdown(comparison), one_file(comparison)):
        assert ("whole request, at least" in drawn) is shown
    stored = Comparison.model_validate_json(comparison.model_dump_json())
    assert stored == comparison


@pytest.mark.parametrize(
    ("found", "headline", "dispute", "is_news"),
    [
        # The count answers where the time does not.
        (counted_case(0.669, LATE), f"▲ fewer: {A} {FEWER}\n{NO_TIME}", "",
         False),
        (counted_case(1.0, OPEN), f"= no change: {A} {EQUAL}; ? not decided: CPU per request", "",
         False),
        # Both moved the same way, by more or by less: no news, and explained.
        (
            counted_case(0.669, LESS),
            f"▲ faster: {A} needs 20 % less CPU per request",
            "instructions −33.1 %, and CPU per request −20 % (−22…−18 %): these",
            False,
        ),
        (
            counted_case(0.669, LEAST),
            f"▲ faster: {A} needs 50 % less CPU per request",
            "instructions −33.1 %, and CPU per request −50 % (−52…−48 %): these",
            False,
        ),
        # One moved, and the other surely did not, or against it.
        (
            counted_case(0.669, SAME),
            f"= no change: {A}; {SEEN}",
            "instructions −33.1 %, but CPU per request unchanged (−0.4…+0.5 %): CPU time",
            True,
        ),
        (
            counted_case(0.669, SLOWER),
            f"▼ slower: {A} {WORST}",
            "instructions −33.1 %, but CPU per request +2.1 % (",
            True,
        ),
    ],
)  # fmt: skip
def test_counts_have_a_verdict_of_their_own(
    found: CaseComparison, headline: str, dispute: str, is_news: bool
) -> None:
    view = make_view(comparison_of(found))
    assert sentences(view) == headline
    assert ("instructions −33.1 %, but CPU per request " in view.answer.sure) is is_news
    told = dict(lines(view, COUNTS))
    assert "no waiting" in told[""]
    assert told.get(A, "").startswith(dispute)
    assert bool(dispute) == (A in told)
    for drawn in (printed(comparison_of(found), 120), markdown(comparison_of(found))):
        assert COUNTS in drawn


@pytest.mark.parametrize(
    ("code", "fail_on", "line"),
    [
        (0, "slower", "**The check passes**: nothing got worse by a size that fails it."),
        (1, "slower", "**The check fails**: CPU per request got worse by 2 % or more."),
        (1, "sql", "**The check fails**: a request sends more SQL statements, or answers other"),
        (1, "instructions", "**The check fails**: instructions grew by 2 % or more."),
        (3, "", "**Exit code 3**: nothing is shown to be worse, and something is not decided."),
    ],
)
def test_a_report_says_what_the_check_does_and_why(code: int, fail_on: str, line: str) -> None:
    assert check_line(comparison_of(judged_case(A, SLOWER)), code, fail_on).startswith(line)


@pytest.mark.parametrize(
    ("metric", "ends"),
    [
        (CPU, "why aaaaaaaaaaaa bbbbbbbbbbbb"),
        ("import_time", "why aaaaaaaaaaaa bbbbbbbbbbbb --start"),
        ("pss_steady", ""),
    ],
)
def test_what_to_type_next_looks_into_what_moved(metric: str, ends: str) -> None:
    moved = MUCH_SLOWER.model_copy(update={"metric": metric})
    again = {"reproduce": (comparing.AGAIN,)}
    command = make_view(comparison_of(judged_case(A, moved), **again)).answer.command
    assert command.endswith(ends)
    assert bool(command) == bool(ends)


def test_what_was_not_counted_says_why() -> None:
    view = make_view(comparison_of(judged_case(A, SAME, no_count="units differ by 9 %")))
    assert lines(view, COUNTS) == (("1 × not counted: units differ by 9 %", A),)


def steps(*cases: CaseComparison, **more: Any) -> tuple[str, ...]:
    view = make_view(comparison_of(*cases, **{"method": rule.record(MATERIAL), **more}))
    return tuple(step for _, step in lines(view, "Next"))


SPENT = judged_case(B, OPEN.model_copy(update={"duets": 60}))
LACK = "Too little time for 1 of 1 cases: a larger --budget or fewer cases (--select) would decide."
HELPLESS = (
    "Not decided with all the samples that a comparison takes: 1 of 1 cases. Any change is too "
    "small or too unsteady for this machine; more time does not help."
)
LOUD = (
    "Too few duets were usable in 1 of 1 cases: connections_reopened, host_noise. Fix what these "
    "flags report; more time on this machine may not help."
)
CLOSING = Flag(name=FlagName.CONNECTIONS_REOPENED, detail="who closes them?")


def disturbed(*flags: Flag) -> CaseComparison:
    case = judged_case(A, comparing.DISTURBED)
    return case.model_copy(update={"duets": (duet(A, head_flags=flags),)})


@pytest.mark.parametrize(
    ("cases", "more", "step"),
    [
        ((SPENT,), {}, HELPLESS),
        # Nothing was limited: it ended by itself.
        ((judged_case(B, OPEN),), {"budget_seconds": None}, HELPLESS),
        ((judged_case(B, OPEN),), {}, LACK),
        ((judged_case(A, LATE),), {}, LACK),
        ((disturbed(comparing.NOISY, CLOSING),), {}, LOUD),
    ],
)
def test_time_is_asked_for_only_where_it_helps(
    cases: tuple[CaseComparison, ...], more: dict[str, Any], step: str
) -> None:
    """Sixteen of sixty duets are short of time; what had all of them is not."""
    assert steps(*cases, **more) == (step,)


@pytest.mark.parametrize(
    ("played", "ratio", "reach", "budget"),
    [
        # The limit of 2 % is 1.4 times as far: 32 duets, so 16 more.
        (16, 1.0, 1.414, "4m30s"),
        # A change that is twice as large as it need be to be detected: no reason but luck.
        (16, 1.0398, 0.5, "2m30s"),
        # More than all that a comparison takes.
        (16, 1.0, 9, "8m30s"),
        (1, None, None, "2m30s"),
    ],
)
def test_a_larger_budget_has_a_figure(
    played: int, ratio: float | None, reach: float | None, budget: str
) -> None:
    """Duets of 8 s, 130 s in all of 120; `reach` is in units of what remains to the limit."""
    gap = 0.0198 if ratio == 1 else 0.037
    detectable = None if reach is None else math.expm1(0.002 + reach * gap)
    case = judged_case(
        A,
        OPEN.model_copy(
            update={"ratio": ratio, "low": ratio, "high": ratio, "detectable": detectable,
                    "duets": played},
        ),
        duets=(duet(A),) * played,
    )  # fmt: skip
    (step,) = steps(case, wall_seconds=130, budget_seconds=120)
    assert step == LACK.replace("--budget", f"--budget (about {budget})")


def test_a_budget_for_no_duet_says_why_instead() -> None:
    note = f"{TOO_SMALL} duets: one takes about 44 s: set --budget 5m"
    assert steps(judged_case(B, OPEN), notes=(note,)) == (f"T{note[1:]}.",)


def test_one_budget_is_proposed_whoever_estimates_it() -> None:
    """A duet of 8 s is wanted two times more after 30 s, but the note knows of preparations."""
    no_figure = dict.fromkeys(("ratio", "low", "high", "detectable"))
    case = judged_case(A, OPEN.model_copy(update={**no_figure, "duets": 1}), duets=(duet(A),))
    note = f"{TOO_SMALL} duets: one takes about 12 s; a first answer takes about 82 s: set"
    for budget, notes in (
        ("50s", ()),
        ("85s", (f"{note} --budget 85s",)),
        ("2m30s", (f"{note} --budget 2m30s",)),
    ):
        view = make_view(comparison_of(case, wall_seconds=30, budget_seconds=40, notes=notes))
        assert f"about {budget} would decide" in view.headline
        assert budget in f"{view.answer.command} {view.answer.advice}"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(4, "5s"), (71, "75s"), (116, "2m"), (121, "2m30s"), (600, "10m"), (601, "11m"),
     (3541, "1h"), (5400, "1h30m")],
)  # fmt: skip
def test_a_proposed_time_is_one_that_an_option_reads(seconds: float, text: str) -> None:
    assert units.write_time(seconds) == text
    assert (units.read_time(text) or 0) >= seconds


SELECTED = "--select 'x/*' --seed 1 --all --budget 20m"
REVISIONS = f"duetbench compare {'a' * 12} {'b' * 12}"
SEEDED = "duetbench compare --seed 2"
ENDLESS = {"budget_seconds": None}


def labelled(kind: str, base: str, head: str) -> dict[str, Any]:
    """Two sides that are no revisions."""
    side = comparison_of().base.model_copy(update={"kind": kind, "label": base})
    return {**ENDLESS, "base": side, "head": side.model_copy(update={"label": head})}


def chosen(base: dict[str, str], head: dict[str, str]) -> dict[str, Any]:
    """Two sides of one state under other settings."""
    both = labelled("setting", "a", "b")
    for side, settings in (("base", base), ("head", head)):
        both[side] = both[side].model_copy(update={"settings": settings})
    return both


@pytest.mark.parametrize(
    ("written", "facts", "shown"),
    [
        (AGAIN, {}, AGAIN),
        # What it asks for is what was compared, whatever it says.
        (f"duetbench compare x y {SELECTED}", {}, f"{REVISIONS} {SELECTED}"),
        (f"{AGAIN} --select '$(id)'", {}, f"{AGAIN} --select '$(id)'"),
        (f'{AGAIN} --select "$(id)"', {}, f"{AGAIN} --select '$(id)'"),
        (f"{AGAIN}; curl x | sh", {}, None),
        (f"{AGAIN} --select x --output ~/.bashrc", {}, None),
        (f"{AGAIN} --with evilpkg==1.0", {}, None),
        (f"{AGAIN} 'unbalanced", {}, None),
        (AGAIN.replace("20m", "9h"), {}, None),
        (AGAIN.replace(" --budget 20m", ""), {}, None),
        ("duetbench compare --with evilpkg==1.0 --output ~/.bashrc a b", ENDLESS, REVISIONS),
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
        (
            "duetbench compare --server x y --workers 2",
            chosen({"server": "x", "env.A": "0"}, {"server": "y", "env.A": "1"}),
            "duetbench compare --server x y --base-env A=0 --head-env A=1 --workers 2",
        ),
        (SEEDED, chosen({}, {"env.JIT": ""}), "duetbench compare --head-env JIT= --seed 2"),
        (
            SEEDED,
            chosen({"server-arg": "--backlog=9"}, {"server-arg": "--no-ws"}),
            "duetbench compare --base-server-arg --backlog=9 --head-server-arg --no-ws --seed 2",
        ),
        (SEEDED, chosen({}, {"server-arg": "--pid=/etc/passwd"}), None),
        (SEEDED, chosen({}, {"env.LD_PRELOAD": "/tmp/x.so"}), None),
        (SEEDED, chosen({"output": "a"}, {"output": "b"}), None),
        (SEEDED, chosen({"server": "--output"}, {"server": "granian"}), None),
    ],
)
def test_the_command_is_made_from_what_was_compared(
    written: str, facts: dict[str, Any], shown: str | None
) -> None:
    found = make_view(
        comparison_of(judged_case("x/a/py3.14", SAME), **{**facts, "reproduce": (written,)})
    )
    assert [one.command for one in found.sections if one.command] == ([shown] if shown else [])


def test_what_was_recorded_in_this_repository_can_be_asked_for_again() -> None:
    recorded = (ROOT / "results" / "comparisons").glob("*.json")
    asked = [found for file in recorded if (found := files.read(Comparison, file)).reproduce]
    assert len(asked) > 1, "those that confirm a change were asked for by nobody"
    for found in asked:
        assert found.reproduce == (rebuilt(found),)


def test_an_event_is_one_sentence() -> None:
    cases = [judged_case(f"x/{name}/py3.14", SLOWER) for name in "abc"]
    ((_, sentence),) = lines(make_view(comparison_of(*cases, event=EVENT)), "Event")
    assert sentence == (
        "All 3 cases, tested as one: head needs 2.0 % more CPU per request (1.8…2.2 %)."
    )


@pytest.mark.parametrize("path", sorted((ROOT / "results" / "comparisons").glob("*.json")), ids=str)
def test_no_stored_comparison_contradicts_itself(path: Path) -> None:
    comparison = files.read(Comparison, path)
    rows = make_view(comparison).rows
    moved = [row for row in rows if row.judgement.moved]
    bases = {case.case.id: case.absolute_base for case in comparison.cases}
    shown = 0
    for row in moved:
        low, high, ratio = row.judgement.low, row.judgement.high, row.judgement.ratio
        assert low and high and ratio  # noqa: PT018 - all three are there
        assert low > 1 or high < 1
        if row.figures:
            shown += 1
            head = bases[row.case][row.metric] * ratio
            assert row.figures.endswith(f"→ {formats.figure(row.metric, head)}")
    # Of memory, and inside the process, no absolute figures are kept.
    assert shown == sum(bool(bases.get(row.case, {}).get(row.metric)) for row in moved)
    assert shown or {row.metric for row in moved} <= {"pss_steady", ""}


def printed(comparison: Comparison, width: int, *, details: bool = True) -> str:
    out = io.StringIO()
    print_comparison(Console(file=out, width=width), comparison, details=details)
    return out.getvalue()


@pytest.mark.parametrize(("full", "shown"), [(0.0009, True), (0.0001, False)])
def test_full_collections_are_in_the_report_if_they_cost_something(
    full: float, shown: bool
) -> None:
    """0.9 of 1,000 requests, of 100 million instructions, are 90,000 of a request's 3 million."""
    collectors = [
        Collector(full=full, objects=objects, instructions=instructions)
        for objects, instructions in ((310_000, 1e8), (312_000, 1.01e8))
    ]
    counts = Instructions(
        base=3e6, head=3e6, spread=0, collector_base=collectors[0], collector_head=collectors[1]
    )
    case = judged_case(A, SAME, instructions=counts, count=counted.judge(counts))
    words = f"base {1000 * full:.2g}0 per 1,000 requests, of 310,000 objects and 100 million"
    told = dict(lines(make_view(comparison_of(case)), COUNTS))
    assert (words in told.get(A, "")) is shown
    assert "of 312,000 objects and 101 million instr" in printed(comparison_of(case), 500)
    assert "312,000" in markdown(comparison_of(case))


def every_block() -> Comparison:
    """A comparison in which everything happened."""
    flag = Flag(name=FlagName.HOST_NOISE, detail="0.3 cores")
    noisy = duet("x/a/py3.14").model_copy(update={"flags_base": (flag,)})
    return comparison_of(
        judged_case(
            "x/a/py3.14",
            SLOWER,
            duets=(noisy,),
            absolute_base={CPU: 1.0e-4},
            absolute_head={CPU: 0.97e-4},  # a launch alone scatters: not shown
            instructions=(counts := Instructions(base=303_012.0, head=309_072.0, spread=0.0001)),
            count=set_material(counted.judge(counts), {}),
        ),
        judged_case("x/b/py3.14", SAME),
        judged_case("x/c/py3.14", BROKEN),
        judged_case("x/d/py3.14", LATE),
        judged_case("x/e/py3.14", OPEN),
        packages=(PackageChange(stack="current", package="granian", base="2.7.8", head=None),),
        missing=(Missing(case="x/new", reason="only head has it"),),
        reproduce=(AGAIN,),
        notes=("something happened",),
    )


def test_each_reader_gets_what_was_agreed() -> None:
    """Golden: the whole of it."""
    found = every_block()
    assert_golden("comparison/comment.md", markdown(found))
    assert_golden("comparison/terminal.txt", printed(found, 120))
    assert_golden("comparison/brief.txt", printed(found, 120, details=False))


def test_a_page_grows_no_faster_than_its_file() -> None:
    """Even if a file gives one name to all: then each verdict is still shown once."""
    entries = [micro("b.One", SLOWER)] * 400
    small, large = (
        len(one_file(comparison_of().model_copy(update={"micro": tuple(entries[:number])})))
        for number in (200, 400)
    )
    assert large < 2 * small


def test_what_only_a_doubling_would_show_is_a_factor() -> None:
    """Three loud duets may see nothing below a factor of millions: no such figure is printed."""
    sizes = [formats.size(change) for change in (None, 0.0062, 0.99, 1.0, 1.39)]
    expected = [formats.MISSING, "0.62 %", "99 %", "2.0 times", "2.4 times"]
    assert sizes == expected
    assert [formats.size(change) for change in (9.0, 65535.6)] == ["10 times", "over 10 times"]


def test_ends_that_bound_nothing_are_no_figures() -> None:
    """Two samples with a large scatter have an interval over twenty orders of magnitude."""
    wide, narrow = Interval(1.05, 1e-18, 1.1e19), Interval(1.05, 0.2, 5.5)
    assert formats.ends(wide) == "wider than a factor of 100"
    assert formats.ends(narrow) == "−80…+450 %"
    assert formats.reach([wide, narrow]) == 4.5
