"""Answers: intervals in text, one page, tidy tables, the Python API."""

import doctest
import io
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from comparing import CPU, FASTER, LATE, OPEN, SAME, SLOWER, comparison_of, duet, judged_case
from duetbench.core.model import Verdict
from duetbench.host.console import Console
from duetbench.show import comparison_text
from duetbench.show.comparison_text import print_comparison
from duetbench.show.conclusion import ViewRow
from duetbench.show.html import comparison_page
from duetbench.store.comparison import Comparison, Judgement, PackageChange

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
    assert comparison_text.draw_interval(row, far, 21) == expected
    assert len(comparison_text.axis_scale(far, 21)) == 21


def overview(comparison: Comparison, encoding: str, width: int) -> str:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding)
    print_comparison(Console(file=file, width=width), comparison)
    file.flush()
    return raw.getvalue().decode(encoding)


def test_the_packages_that_differ_are_named_in_one_line() -> None:
    moved = [
        PackageChange(stack=stack, package=f"p{number}", base="1", head="2")
        for stack in ("project", "other")
        for number in range(8)
    ]
    for count, words in ((0, ""), (2, "p0 1 → 2, p1 1 → 2"), (16, "p2 1 → 2 and 5 more")):
        found = comparison_of(judged_case("x/a", SLOWER), packages=moved[:count])
        text = overview(found, "utf-8", 60)
        lines = [line for line in text.splitlines() if line.startswith("  packages: ")]
        assert [line.endswith(words) for line in lines] == [True] * bool(count)


def test_a_comparison_is_a_line_per_case_and_metric() -> None:
    found = comparison_of(
        judged_case("x/a", SLOWER),
        judged_case("x/b", SAME),
        judged_case("x/c", FASTER),
        judged_case("x/d", LATE, OPEN),
    )
    wide = overview(found, "utf-8", 120).splitlines()
    (line,) = [row for row in wide if row.startswith("  x/a ") and "●" in row]
    assert re.search(r"CPU per request +2.1 % more +1.6…2.6 % +┊│┊ +├─*●─*┤ +▼ slower$", line)
    assert any("? not decided: no time for a duet" in row for row in wide)
    narrow = overview(found, "utf-8", 50)
    assert "●─" not in narrow
    assert "2.1 % more      1.6…2.6 %  ▼ slower" in narrow


def test_a_page_alone_has_every_duet_and_fetches_nothing() -> None:
    many = tuple(duet("x/a", {CPU: 1.02}) for _ in range(3))
    text = comparison_page.one_file(comparison_of(judged_case("x/a", SLOWER, duets=many)))
    assert not re.search(r"<script|<link|src=|@import|url\(|href=\"[^#]", text)
    assert "light-dark(" in text
    assert "width=device-width" in text
    assert text.count('class="sample"') == 1 + 3, "in the legend, and one for each duet"
    assert len(re.findall(r'<th scope="row">\d</th><td [^>]*class="number">\+2', text)) == 3


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
