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

from bench import invoke
from comparing import CPU, FASTER, LATE, OPEN, SAME, SLOWER, comparison_of, duet, judged_case
from duetbench.host.console import Console
from duetbench.show import tidy
from duetbench.show.report import print_comparison
from duetbench.show.site.pages import evidence
from duetbench.store.comparison import Comparison

ROOT: Final = Path(__file__).parents[2]
STORED: Final = "20261120T202652Z-compare-1d8b37a3"


def overview(comparison: Comparison, encoding: str, width: int) -> str:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding)
    print_comparison(Console(file=file, width=width), comparison, details=False)
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
    assert re.search(r"CPU/request +\+2.13 %  \+1.61…\+2.65 %  ▼ slower$", line)
    assert any("? inconclusive: no time for a duet" in row for row in wide)
    narrow = overview(found, "utf-8", 50)
    assert "+2.13 %  +1.61…+2.65 %  ▼ slower" in narrow


def test_a_page_alone_has_every_duet_and_fetches_nothing() -> None:
    many = tuple(duet("x/a", {CPU: 1.02}) for _ in range(3))
    text = evidence.one_file(comparison_of(judged_case("x/a", SLOWER, duets=many)))
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
