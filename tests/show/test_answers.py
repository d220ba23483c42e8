"""Answers: intervals in text, one page, tidy tables, the Python API."""

import csv
import doctest
import io
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

import anchored_files
from anchored_files import ratio
from bench import invoke
from comparing import CPU, FASTER, LATE, OPEN, SAME, SLOWER, comparison_of, duet, judged_case
from duetbench.core.model import Missing, Verdict
from duetbench.host.console import Console
from duetbench.project.settings import STACK
from duetbench.show import layout, report, tidy
from duetbench.show.report import print_comparison, print_overview
from duetbench.show.rows import ViewRow
from duetbench.show.run import print_cases
from duetbench.show.site.pages import comparisons
from duetbench.store import points, store
from duetbench.store.comparison import Comparison, Judgement
from duetbench.trend.summary import summarise

ROOT: Final = Path(__file__).parents[2]
STORED: Final = "20261120T202652Z-compare-1d8b37a3"


def judged(ratio: float, low: float, high: float) -> ViewRow:
    found = Judgement(metric=CPU, verdict=Verdict.SLOWER, ratio=ratio, low=low, high=high)
    return ViewRow("x/a", CPU, found)


@pytest.mark.parametrize(
    ("row", "far", "expected"),
    [
        # 10 columns are 5 %: one is 0.5 %. The floor of 0.2 % rounds to the middle.
        (judged(1.03, 1.02, 1.04), 0.05, "          │   ├─●─┤  "),
        (judged(1.0, 0.98, 1.02), 0.05, "      ├───●───┤      "),
        (judged(0.93, 0.9, 0.96), 0.05, "●─┤       │          "),
        (judged(1.04, 1.01, 1.2), 0.05, "          │ ├─────●─►"),
        # However near it is, what excludes no change does not touch the middle.
        (judged(1.002, 1.0005, 1.0035), 0.05, "          │●         "),
        # 10 columns are 1 %: the floor is 2 away.
        (judged(1.006, 1.004, 1.008), 0.01, "        ┊ │ ┊ ├─●─┤  "),
    ],
)
def test_an_interval_is_where_its_figures_are(row: ViewRow, far: float, expected: str) -> None:
    assert report.draw_interval(row, far, 21) == expected
    assert len(report.axis_scale(far, 21)) == 21


def test_the_axis_holds_every_estimate() -> None:
    assert report.axis_reach([judged(1.03, 1.02, 1.04)]) == 0.05
    assert report.axis_reach([judged(1.001, 1.0, 1.002)]) == 0.01  # never finer than that
    assert report.axis_reach([judged(0.7, 0.6, 0.8)]) == 0.5


def overview(comparison: Comparison, encoding: str, width: int) -> str:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding)
    print_overview(Console(file=file, width=width), comparison)
    file.flush()
    return raw.getvalue().decode(encoding)


def test_a_comparison_is_a_line_per_case_and_metric() -> None:
    found = comparison_of(
        judged_case("x/a", SLOWER),
        judged_case("x/b", SAME),
        judged_case("x/c", FASTER),
        judged_case("x/d", LATE, OPEN),
    )
    wide = overview(found, "utf-8", 100).splitlines()
    (line,) = [row for row in wide if row.startswith("  x/a ")]
    assert re.search(r"CPU/request +\+2.13 %  \+1.61…\+2.65 % +┊│┊ +├─*●─*┤ +▼ slower$", line)
    assert any("? inconclusive: no time for a duet" in row for row in wide)
    narrow = overview(found, "utf-8", 50)
    assert "●─" not in narrow
    assert all(len(row) <= 50 for row in narrow.splitlines() if "±" not in row and "%" in row)


def test_a_target_is_told_by_its_requests() -> None:
    cases = [judged_case(f"shop/{name}/py3.14/c64", SLOWER) for name in ("get-a", "get-b")]
    found = comparison_of(
        *(x.model_copy(update={"case": x.case.model_copy(update={"stack": STACK})}) for x in cases)
    )
    lines = overview(found, "utf-8", 100).splitlines()
    assert "most of all GET /get-a on Uvicorn" in lines[0]
    assert [line.split("  ")[1] for line in lines if "CPU/request  +" in line] == [
        "GET /get-a",
        "GET /get-b",
    ]
    left = "to repeat it, add --env again: its command leaves that out"
    assert left not in "".join(lines)
    noted = found.model_copy(update={"notes": (*found.notes, left)})
    assert overview(noted, "utf-8", 100).endswith(f"\n  {left}\n")
    out = io.StringIO()
    print_comparison(Console(file=out, width=120), found)
    assert "\nshop/get-a/py3.14/c64  GET /get-a on Uvicorn, Python 3.14, " in out.getvalue()


def test_points_are_drawn_with_their_intervals() -> None:
    """Ten columns on either side for 5 %; 30 duets of a deviation of 0.5 % have ±1.02 %."""
    made = anchored_files.a_file(
        7,
        anchored_files.of("x/a", ratio(1.03, 0.005, 30), ratio(0.96, 0, 2, points.INSTRUCTIONS)),
        missing=(Missing(case="x/b", reason="it is gone"),),
    )
    first, scale, cpu, counted, gone, legend = printed_points(made, 68)
    assert (first, gone) == (
        "as of 2026-11-07 against the anchor A, 0 min",
        "x/b: no point: it is gone",
    )
    assert scale.endswith("−5 %      0      +5 %")
    assert re.fullmatch(r"  x/a  CPU/request   \+3.00 %  \+1.9\d…\+4.0\d %   +│   ├─●─┤", cpu)
    assert re.fullmatch(r"       instructions  −4.00 %  −4.00…−4.00 %  +●       │", counted)
    assert "●" in legend
    assert "●" not in "".join(printed_points(made, 50)[:-1])


def printed_points(found: points.Points, width: int) -> list[str]:
    out = io.StringIO()
    report.print_points(Console(file=out, width=width), found)
    return out.getvalue().splitlines()


def test_a_run_is_a_line_per_case() -> None:
    run = store.load(next((ROOT / "results" / "runs").glob("*/*/*-nightly-*.json")))
    out = io.StringIO()
    print_cases(Console(file=out, width=120), summarise(run))
    lines = out.getvalue().splitlines()
    at = lines.index(run.results[0].case.id)  # others are too long to stand beside figures
    assert re.match(r" +111 µs ±9.7 % +9,018/s ±9.6 % +13.9 ms ±16 %  measured", lines[at + 1])
    assert max(map(len, lines)) < 200  # a failure's reason is cut


def test_any_output_can_show_it() -> None:
    """In ASCII nothing is lost, no figure either, and the axes stand below each other."""
    text = overview(
        comparison_of(judged_case("x/a", SLOWER), judged_case("x/c", FASTER)), "ascii", 100
    )
    rows = [row for row in text.splitlines() if row.startswith("  x/")]
    assert "+1.61..+2.65 %" in rows[0]
    assert rows[0].endswith("v slower")
    assert len({row.index("|") for row in rows}) == 1
    assert "?" not in text


def test_rows_without_change_are_counted_where_there_are_many() -> None:
    found = comparison_of(
        judged_case("x/a", SLOWER), *(judged_case(f"x/{n}", SAME) for n in range(60))
    )
    text = overview(found, "utf-8", 120)
    assert text.count("= no change") == layout.MOST - 1
    assert "… and 21 more rows without change" in text


def test_a_page_alone_has_every_duet_and_fetches_nothing() -> None:
    many = tuple(duet("x/a", {CPU: 1.02}) for _ in range(3))
    text = comparisons.one_file(comparison_of(judged_case("x/a", SLOWER, duets=many)))
    assert not re.search(r"<script|<link|src=|@import|url\(|href=\"[^#]", text)
    assert "light-dark(" in text
    assert "width=device-width" in text
    assert text.count('class="sample"') == 1 + 3, "in the legend, and one for each duet"
    assert len(re.findall(r'<th scope="row">\d</th><td class="number">\+2', text)) == 3


@pytest.mark.usefixtures("_at_home")
def test_every_column_is_documented(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    named = set(re.findall(r"`([a-z_]+)`", (ROOT / "docs" / "export.md").read_text("utf-8")))
    for name in (STORED, "latest"):
        document = invoke(capsys, monkeypatch, ["export", name, "--csv", "-"])
        rows = list(csv.DictReader(io.StringIO(document.out)))
        assert rows
        assert set(rows[0]) <= named
    from duetbench import load

    found = load(STORED)
    assert isinstance(found, Comparison)
    duets = tidy.tables(found)["duets"]
    assert set(duets[0]) <= named
    expected = sum(
        max(len(side), 1)
        for case in found.cases
        for two in case.duets
        for side in (two.base, two.head)
    )
    assert len(duets) == expected
    first = next(row for row in duets if row["metric"] == CPU)
    assert (first["unit"], first["value"]) == ("seconds", found.cases[0].duets[0].base[CPU])


@pytest.fixture
def _at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("DUETBENCH_ROOT", raising=False)


@pytest.mark.usefixtures("_at_home")
def test_the_example_in_python_is_right() -> None:
    done = doctest.testfile(str(ROOT / "docs" / "python.md"), module_relative=False)
    assert done.failed == 0
    assert done.attempted > 5


def test_importing_duetbench_takes_nothing_with_it() -> None:
    code = "import sys, duetbench; print(sorted({'numpy', 'pydantic', 'typer'} & {*sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
