"""The reports of a comparison: the right blocks first, nothing lost silently, never too long."""

import io
from pathlib import Path
from typing import Final

import pytest
from rich.console import Console

import comparing
from comparing import (
    AGAIN,
    BROKEN,
    CPU,
    LARGER,
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
from duetbench.core.flags import Flag, FlagName
from duetbench.core.model import Missing, Verdict
from duetbench.judge.statistics import Method
from duetbench.show import formats
from duetbench.show.report import LIMIT, print_comparison
from duetbench.show.report import as_markdown as markdown
from duetbench.show.view import make_view
from duetbench.store import files
from duetbench.store.comparison import Comparison, Event, Instructions, PackageChange

ROOT: Final = Path(__file__).parents[2]
GOLDEN: Final = Path(__file__).parents[1] / "data" / "comparison"
EVENT = Event(
    factor="server",
    value="granian",
    metric=CPU,
    verdict=Verdict.SLOWER,
    ratio=1.02,
    low=1.018,
    high=1.022,
    cases=("x/a/py3.14", "x/b/py3.14", "x/c/py3.14"),
)


def test_an_event_is_one_sentence_and_its_rows_are_folded() -> None:
    cases = [judged_case(f"x/{name}/py3.14", SLOWER) for name in "abc"]
    ((_, told),) = lines(make_view(comparison_of(*cases, events=(EVENT,))), "events")
    assert told == (
        "One event: 3 cases that share the server granian moved alike: CPU/request ▼ slower, "
        "+2.00 % (+1.80…+2.20 %)."
    )
    text = markdown(comparison_of(*cases, judged_case("x/d/py3.14", LARGER), events=(EVENT,)))
    open_, folded, rest = text.partition("<details><summary>3 rows of the event above</summary>")
    assert folded
    assert "| x/d/py3.14 | PSS steady | ▼ larger |" in open_
    assert "| x/a/py3.14 |" not in open_
    assert all(f"| x/{name}/py3.14 | CPU/request | ▼ slower |" in rest for name in "abc")
    alone = markdown(comparison_of(*cases, events=(EVENT,)))
    assert "### Worse\n\n<details><summary>3 rows of the event above</summary>" in alone


def test_the_legend_says_from_which_size_on_a_change_counts() -> None:
    """Each metric's floor once, that of benchmarks as the record has it; none without figures."""
    cases = judged_case("x/a/py3.14", SLOWER, LARGER), judged_case("x/b/py3.14", SAME)
    found = comparison_of(*cases, micro=(micro("b.One", SAME),), method={"inprocess_floor": 0.01})
    legend = dict(lines(make_view(found), "legend"))
    assert legend["relevance floor"].endswith(
        ": PSS steady 0.4 %, CPU/request 0.2 %, time in process 1 %"
    )
    assert "base → head" not in legend
    assert f"relevance floor: {legend['relevance floor']}" in printed(found, 120)
    assert lines(make_view(comparison_of(judged_case("x/a/py3.14", LATE))), "legend") == ()


def test_what_older_comparisons_decided_by_is_said_beside_them() -> None:
    """One-sided verdicts, and memory that the other server shared: their rows bear another word."""
    then = comparison_of(
        judged_case("x/a/py3.14", SLOWER, LARGER), method={"confirmation_rate": 0.05}
    )
    told = dict(lines(make_view(then), "legend"))
    assert "By the rule of that time a verdict asked on one side only" in told["95 % interval"]
    assert "changes are shown up to a tenth larger than they are" in told["PSS steady"]
    now = dict(lines(make_view(then.model_copy(update={"method": Method().record()})), "legend"))
    assert "all of it to lie beyond the relevance floor" in now["95 % interval"]
    assert "PSS steady" not in now


@pytest.mark.parametrize("path", sorted((ROOT / "results" / "comparisons").glob("*.json")), ids=str)
def test_no_stored_comparison_contradicts_itself(path: Path) -> None:
    comparison = files.read(Comparison, path)
    groups = make_view(comparison).groups
    bases = {case.case.id: case.absolute_base for case in comparison.cases}
    shown = 0
    for row in (*groups.worse, *groups.better):
        low, high, ratio = row.judged.low, row.judged.high, row.judged.ratio
        assert low and high and ratio  # noqa: PT018 - all three are there
        assert low > 1 or high < 1
        if row.figures:
            shown += 1
            head = bases[row.case][row.metric] * ratio
            assert row.figures.endswith(f"→ {formats.figure(row.metric, head)}")
    # Of memory, and inside the process, no absolute figures are kept.
    moved = (*groups.worse, *groups.better)
    assert shown == sum(bool(bases.get(row.case, {}).get(row.metric)) for row in moved)
    assert shown or {row.metric for row in moved} <= {"pss_steady"}
    if "screening_looks" in comparison.method:  # what they say of two stages stands as it is
        assert any("it moved in the screening; no time was" in row.why for row in groups.undecided)


def test_what_was_not_measured_is_a_line_and_not_a_table_of_dashes() -> None:
    cases = [judged_case(f"x/{index}/py3.14", LATE) for index in range(40)]
    text = markdown(comparison_of(*cases, judged_case("x/loud/py3.14", comparing.DISTURBED)))
    assert (
        "### Not judged\n\n"
        "- 40 × no time for a duet: x/0/py3.14, x/1/py3.14, x/2/py3.14, x/3/py3.14, x/4/py3.14, "
        "x/5/py3.14 and 34 more\n"
        "- 1 × none of 33 duets was usable: host\\_noise: x/loud/py3.14\n"
    ) in text
    assert "— | — |" not in text


@pytest.mark.parametrize("cases", [1, 300, 2000])
def test_the_comment_always_fits(cases: int) -> None:
    many = [
        judged_case(f"x/{'long' * 40}{index}/py3.14", SLOWER, OPEN, LARGER)
        for index in range(cases)
    ]
    text = markdown(comparison_of(*many))
    assert len(text) <= LIMIT
    assert text.startswith("## Worse in")
    assert "▼ larger" in text
    if cases > 1:
        assert "more, in the comparison's JSON" in text
        *_, left_out, _, end = text.splitlines()
        assert left_out.startswith("Left out, for lack of room: Not decided")
        assert "`docs/glossary.md`" in end


def printed(comparison: Comparison, width: int) -> str:
    out = io.StringIO()
    print_comparison(Console(file=out, width=width), comparison)
    return out.getvalue()


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
            instructions=Instructions(base=303_012.0, head=309_072.0, spread=0.0001),
        ),
        judged_case("x/b/py3.14", SAME),
        judged_case("x/c/py3.14", BROKEN),
        judged_case("x/d/py3.14", LATE),
        judged_case("x/e/py3.14", OPEN),
        packages=(PackageChange(stack="current", package="granian", base="2.7.8", head=None),),
        missing=(Missing(case="x/new", reason="only head has it"),),
        noise=0.0071,
        reproduce=(AGAIN,),
        notes=("something happened",),
    )


def test_each_reader_gets_what_was_agreed() -> None:
    """Golden: the whole of it. What is to change is written into the file, and the diff read."""
    found = every_block()
    for name, drawn in (("comment.md", markdown(found)), ("terminal.txt", printed(found, 120))):
        assert drawn.rstrip() == (GOLDEN / name).read_text("utf-8").rstrip()


@pytest.mark.parametrize("width", [60, 80, 120])
def test_names_are_whole_on_any_terminal(width: int) -> None:
    name = "await-patterns/async_independent/py3.14/wait0.3/granian-and-what-else-there-is-to-say"
    figures = {"absolute_base": {CPU: 1.0e-4}, "absolute_head": {CPU: 1.0213e-4}}
    bench = "handlers.Cpu.time_request('pydantic-v1-v2/services-from-json')"
    text = printed(
        comparison_of(
            judged_case(name, SLOWER, LARGER, **figures),
            judged_case("x/b/py3.14", SAME),
            micro=(micro(bench, SLOWER),),
        ),
        width,
    )
    lines = text.splitlines()
    assert name in lines
    assert f"{bench} [current, 3.14]" in lines
    (slower,) = [line for line in lines if line.startswith("  CPU/request") and "slower" in line]
    assert "+2.13 %  +1.61…+2.65 %" in slower
    assert len(slower) <= width
    assert ("100 µs → 102 µs" in slower) == (width == 120)
