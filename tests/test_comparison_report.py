"""The reports of a comparison: the right sentence first, nothing lost silently, never too long."""

from __future__ import annotations

import io
import xml.etree.ElementTree as ET
from typing import Any

import pytest
from rich.console import Console

from servebench.compare.model import (
    CaseComparison,
    Comparison,
    Duet,
    Event,
    Judgement,
    Missing,
    PackageChange,
    SideRecord,
    Verdict,
)
from servebench.flags import Flag, FlagName
from servebench.report.comparison.forest import MARKS, forest
from servebench.report.comparison.markdown import LIMIT, markdown
from servebench.report.comparison.terminal import print_comparison
from servebench.report.comparison.view import make_view
from synthetic import MACHINE, make_case

CPU = "server_cpu_per_request"
SLOWER = Judgement(
    metric=CPU, verdict=Verdict.SLOWER, ratio=1.0213, low=1.0161, high=1.0265,
    detectable=0.0062, p=0.0004, screened=8, confirmed=8,
)  # fmt: skip
SAME = Judgement(
    metric=CPU, verdict=Verdict.NO_CHANGE, ratio=1.0004, low=0.9961, high=1.0047,
    detectable=0.0081, screened=8,
)  # fmt: skip
LARGER = SLOWER.model_copy(update={"metric": "pss_steady", "ratio": 1.1, "low": 1.09, "high": 1.11})
OPEN = Judgement(
    metric=CPU, verdict=Verdict.INCONCLUSIVE, ratio=1.006, low=0.991, high=1.021,
    detectable=0.021, screened=16,
)  # fmt: skip
BROKEN = Judgement(
    metric=CPU, verdict=Verdict.NOT_COMPARABLE, reason="head: wrong_body: found <script>"
)


def one(name: str, *judgements: Judgement, **more: Any) -> CaseComparison:
    return CaseComparison(
        case=make_case(name), because="granian 2.7.8 → 2.8.7", judgements=judgements, **more
    )


def made(*cases: CaseComparison, **more: Any) -> Comparison:
    side = SideRecord(label="main", kind="revision", commit="a" * 40, stacks=(), interpreters=())
    fields: dict[str, Any] = {
        "id": "x", "status": "complete", "started": "2026-11-20T12:00:00Z",
        "wall_seconds": 600.0, "budget_seconds": 1200.0, "servebench": "0.1.0", "oha": "1.16.0",
        "machine": MACHINE, "base": side,
        "head": side.model_copy(update={"label": "feature", "commit": "b" * 40}),
        "planned": len(cases), "untouched": 3, "cases": cases,
    }  # fmt: skip
    return Comparison(**{**fields, **more})


def test_the_worst_row_is_the_headline() -> None:
    """People read one sentence: which case, by how much, of how many."""
    view = make_view(made(one("x/a/py3.14", SLOWER), one("x/b/py3.14", SAME)))
    assert view.headline == (
        "Worse in 1 of 2 cases, most of all CPU/request of x/a/py3.14 by +2.13 % (+1.61…+2.65 %)."
    )
    assert view.tone == "worse"


def test_no_change_says_what_would_have_been_seen() -> None:
    """'Nothing found' means nothing without the size that would have been found."""
    view = make_view(made(one("x/a/py3.14", SAME), one("x/b/py3.14", SAME)))
    assert view.headline == (
        "No change in 2 of 2 cases; changes from 0.81 % on would have been seen."
    )


def test_nothing_touched_is_not_called_clean() -> None:
    """Coverage zero has a sentence of its own."""
    view = make_view(made())
    assert view.headline == ("Nothing to judge: the change cannot have touched any measured case.")
    assert view.tone == "nothing"


def test_all_void_is_not_called_clean() -> None:
    """Cases without a verdict never read as 'no change'."""
    view = make_view(made(one("x/a/py3.14", BROKEN)))
    assert view.headline == "Not comparable in 1 of 1 cases."
    assert view.tone == "void"
    view = make_view(made(one("x/a/py3.14")))
    assert view.headline == "1 not judged."
    assert view.tone == "void"


def test_open_questions_are_counted_with_the_time_that_would_answer_them() -> None:
    """An inconclusive case is no pass; people are told what deciding it costs."""
    view = make_view(made(one("x/a/py3.14", OPEN, seconds_to_decide=240.0)))
    assert view.headline == "1 with an open question."
    assert view.steps == ("Inconclusive: about 4 min more would decide it; raise --budget.",)


def test_memory_gets_larger_not_slower() -> None:
    """Words follow the metric."""
    (row,) = make_view(made(one("x/a/py3.14", LARGER))).worse
    assert row.verdict == "▼ larger"
    assert row.change == "+10.0 %"


def test_a_partial_comparison_says_so_first() -> None:
    """An interrupted comparison must not be read as a whole one."""
    view = make_view(made(one("x/a/py3.14", SAME), status="partial"))
    assert view.headline.startswith("Partial: No change in 1 of 1 cases")


def test_an_event_is_one_sentence() -> None:
    """Forty rows with one cause are one piece of news."""
    event = Event(
        factor="server", value="granian", metric=CPU, verdict=Verdict.SLOWER, ratio=1.02,
        low=1.018, high=1.022, cases=("x/a", "x/b", "x/c"),
    )  # fmt: skip
    view = make_view(made(one("x/a/py3.14", SLOWER), events=(event,)))
    assert view.events == (
        "One event, not 3: CPU/request ▼ slower on server granian, by +2.00 % (+1.80 %…+2.20 %).",
    )


def test_the_comment_reads_as_people_know_it() -> None:
    """Golden: the whole Markdown of a small comparison."""
    flag = Flag(name=FlagName.HOST_NOISE, detail="0.3 cores")
    duet = Duet(
        case="x/a/py3.14", stage="screening", order=0, head_first=False,
        started="2026-11-20T12:00:00Z", seconds=8.0, load_seconds=4.0, flags_base=(flag,),
        base={CPU: 1e-4}, head={CPU: 1e-4},
    )  # fmt: skip
    text = markdown(
        made(
            one(
                "x/a/py3.14", SLOWER, duets=(duet,), absolute_base={CPU: 1.0e-4},
                absolute_head={CPU: 1.0213e-4},
            ),
            one("x/b/py3.14", SAME),
            packages=(PackageChange(stack="current", package="granian", base="2.7.8", head=None),),
            reproduce=("servebench compare a b --select x/a/py3.14",),
            missing=(Missing(case="x/new", reason="head only"),),
            noise=0.0071,
        )
    )  # fmt: skip
    head = (
        "| case | metric | verdict | change | 95 % interval | could see | base → head | duets |\n"
        "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |\n"
    )
    assert text == (
        "## Worse in 1 of 2 cases, most of all CPU/request of x/a/py3.14 by +2.13 % "
        "(+1.61…+2.65 %).\n\n"
        f"- **base**: main ({'a' * 12})\n"
        f"- **head**: feature ({'b' * 12})\n"
        "- **coverage**: 2 of 2 cases judged; 3 others cannot have changed\n"
        "- **noise**: 0.71 % per duet of base against itself\n"
        "- **time**: 10 min of 20 min\n"
        "- **machine**: Synthetic CPU @ 2.80GHz, 2 cores\n\n"
        f"### Worse\n\n{head}"
        "| x/a/py3.14 | CPU/request | ▼ slower | +2.13 % | +1.61…+2.65 % | 0.62 % "
        "| 100 µs → 102 µs | 8+8 |\n\n"
        "### Next\n\n"
        "- Worse: reproduce the first row with the command below; compare the instruction counts "
        "to tell work that was added from work that waits.\n\n"
        "<details><summary>No change: 1 rows, each with the smallest change that would have been "
        f"seen</summary>\n\n{head}"
        "| x/b/py3.14 | CPU/request | = no change | +0.04 % | −0.39…+0.47 % | 0.81 % | — | 8 |\n"
        "\n</details>\n\n"
        "<details><summary>Packages that differ: 1</summary>\n\n"
        "| stack | package | base | head |\n| --- | --- | --- | --- |\n"
        "| current | granian | 2.7.8 | — |\n"
        "\n</details>\n\n"
        "<details><summary>What the machine could not give</summary>\n\n"
        "- host\\_noise × 1: other processes or the hypervisor took core time during the "
        "measurement\n"
        "\n</details>\n\n"
        "<details><summary>Notes</summary>\n\n- x/new: head only\n\n</details>\n\n"
        "<details><summary>Reproduce</summary>\n\n"
        "    servebench compare a b --select x/a/py3.14\n"
        "\n</details>\n"
    )


@pytest.mark.parametrize("cases", [1, 300, 2000])
def test_the_comment_always_fits(cases: int) -> None:
    """GitHub refuses what is too long, and with it the news; the rest is counted."""
    many = [one(f"x/{'long' * 40}{index}/py3.14", SLOWER, OPEN, LARGER) for index in range(cases)]
    text = markdown(made(*many))
    assert len(text) <= LIMIT
    assert text.startswith("## Worse in")
    assert "▼ larger" in text
    if cases > 1:
        assert "more, in the comparison's JSON" in text


def test_hostile_text_stays_text() -> None:
    """Package names, reasons and labels come from files that others wrote."""
    text = markdown(made(one("x/a/py3.14", BROKEN)))
    assert "<script>" not in text
    assert "\\<script\\>" in text


def test_the_terminal_shows_every_block() -> None:
    """The same news on a terminal."""
    out = io.StringIO()
    print_comparison(
        Console(file=out, width=160),
        made(one("x/a/py3.14", SLOWER), one("x/b/py3.14", SAME), one("x/c/py3.14", BROKEN)),
    )
    text = out.getvalue()
    for part in ("Worse in 1 of 3", "▼ slower", "= no change", "✕ not comparable", "wrong_body"):
        assert part in text


def test_the_forest_has_one_mark_per_judged_row() -> None:
    """What moved comes first; rows without a ratio have no mark."""
    picture = ET.fromstring(
        forest(made(one("x/a/py3.14", SAME), one("x/b/py3.14", SLOWER), one("x/c/py3.14", BROKEN)))
    )
    marks = [g.findtext("{*}title") for g in picture.iterfind("{*}g")]
    assert marks == [
        "x/b/py3.14 · CPU/request: +2.13 % (+1.61…+2.65 %), ▼ slower",
        "x/a/py3.14 · CPU/request: +0.04 % (−0.39…+0.47 %), = no change",
    ]
    # The axis reaches 1.15 × 2.65 % to each side: 2.13 % lies at 420 + 400 × (2.13+3.0475)/6.095.
    circle = picture.find("{*}g/{*}circle")
    assert circle is not None
    assert float(circle.attrib["cx"]) == pytest.approx(759.8, abs=0.05)


def test_the_forest_is_bounded_and_says_what_it_leaves_out() -> None:
    """A picture of thousands of rows is none."""
    text = forest(made(*(one(f"x/{i}/py3.14", SAME) for i in range(MARKS + 5))))
    assert len(ET.fromstring(text).findall("{*}g")) == MARKS
    assert "5 further rows not drawn" in text


def test_an_empty_forest_is_still_a_picture() -> None:
    """Nothing judged: axes, no mark, no error."""
    assert not ET.fromstring(forest(made())).findall("{*}g")
