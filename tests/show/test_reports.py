"""What readers of stored comparisons see on a terminal, in a comment and on a page, as files."""

import io
import re
from html import unescape
from pathlib import Path
from typing import Final

import pytest

import observatory.project.published  # noqa: F401 - titles of benchmarks
from duetbench.github import comments
from duetbench.host.console import Console
from duetbench.show.comparison_text import print_comparison
from duetbench.show.html.comparison_page import one_file
from duetbench.store import files
from duetbench.store.comparison import Comparison
from goldens import assert_golden

STORED: Final = Path(__file__).parents[2] / "results" / "comparisons"
CHOSEN: Final = {
    "release-slower": "20261125T145309Z-compare-01f80eca",
    "server-choice": "20261126T142459Z-compare-6e1bba24",
    "undecided": "20261126T142030Z-compare-6e1bba24",
    "faster-with-counts": "20261126T220308Z-compare-4f20da5b",
    "many-benchmarks": "20261120T202652Z-compare-1d8b37a3",
    "no-change": "20261125T022727Z-compare-ce0f6843",
    "connections": "20261127T194126Z-compare-a31a5740",
}


@pytest.mark.usefixtures("_at_home")
@pytest.mark.parametrize("name", CHOSEN)
def test_each_reader_sees_what_was_agreed(name: str) -> None:
    comparison = files.read(Comparison, STORED / f"{CHOSEN[name]}.json")
    out = io.StringIO()
    print_comparison(Console(file=out, width=100), comparison, details=False)
    assert_golden(f"answers/{name}.txt", out.getvalue())
    assert_golden(f"answers/{name}.md", comments.report(comparison))
    assert_golden(f"answers/{name}.html.txt", words_of(one_file(comparison)))


def words_of(page: str) -> str:
    """The words of a page above its samples, an element a line."""
    main = re.sub(r"(?s)<(style|svg|script)\b.*?</\1>", "", page)
    main = main.partition("<main")[2].partition('id="samples"')[0]
    lines = re.sub(r"</?(?:p|h\d|tr|li|dt|dd|ul|table|details|summary|figure)\b[^>]*>", "\n", main)
    text = unescape(re.sub(r"<[^>]*>", " ", lines))
    return "\n".join(filter(None, (" ".join(line.split()) for line in text.splitlines())))


@pytest.fixture
def _at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of cases are those that this repository declares."""
    monkeypatch.chdir(STORED.parents[1])
    monkeypatch.delenv("DUETBENCH_ROOT", raising=False)
