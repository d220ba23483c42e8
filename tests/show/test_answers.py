"""Answers elsewhere: one page to share, and the Python API."""

import doctest
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from comparing import CPU, WORSE, comparison_of, duet, judged_case
from duetbench.show.html import comparison_page

ROOT: Final = Path(__file__).parents[2]


def test_a_page_alone_has_every_duet_and_fetches_nothing() -> None:
    many = tuple(duet("x/a", {CPU: 1.02}) for _ in range(3))
    text = comparison_page.one_file(comparison_of(judged_case("x/a", WORSE, duets=many)))
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
