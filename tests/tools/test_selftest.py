"""The script that measures how often comparisons are wrong, and the figures that it has given."""

import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

from comparing import CPU, FASTER, SAME, SLOWER, comparison_of, duet, judged_case

ROOT: Final = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def selftest() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("selftest", ROOT / "tools" / "selftest.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["selftest"] = module  # where dataclasses look for it
    spec.loader.exec_module(module)
    yield module
    del sys.modules["selftest"]


def test_false_verdicts_and_finds_are_counted(selftest: ModuleType) -> None:
    """Of 3 comparisons one is wrong: 0.8 to 90.6 % (Clopper and Pearson). Duets: 6 and 2 %."""
    ratios = ({CPU: 1.06}, {CPU: 1.02})
    duets = tuple(duet("x/a/py3.14", ratio) for ratio in ratios)
    result = [
        comparison_of(judged_case("x/a/py3.14", text, duets=duets)) for text in (SLOWER, SAME, SAME)
    ]
    ours, alone = selftest.Tries(0.0, result).rows("`x/a`")
    assert ours == (
        "two installations of one stack: false verdicts",
        "`x/a`",
        "`duetbench compare`",
        "1 of 3",
        "0.8…90.6 %",
        "2",
        "600 s",
        "+3.98 %",
        "",
    )
    assert alone[3:5] == ("3 of 3", "29.2…100.0 %")
    ours, alone = selftest.Tries(0.02, result).rows("`x/a`")
    assert (ours[0], ours[3], ours[8]) == (
        "a handler slower by 2 % of its CPU: found",
        "1 of 3",
        "+2.13 %",
    )
    counts = {"totals": {"base": 100_000, "head": 100_060}}
    assert selftest.count("one lock as both sides", "much", counts) == (
        "one lock as both sides: counts more than 0.05 % apart", "much", "`duetbench why`",
        "1 of 1", "2.5…100.0 %", "", "", "+0.060 %", "",
    )  # fmt: skip
    assert selftest.count("", "", {"totals": {"base": 1e5, "head": 99_960}})[3] == "0 of 1"
    faster = [comparison_of(judged_case("x/a/py3.14", FASTER))]
    assert next(selftest.Tries(0.02, faster).rows("`x/a`"))[3] == "0 of 1"


def test_the_readme_has_the_figures_of_the_record() -> None:
    """Every count in the README's table is that of a row of the record that is called the same."""
    record = (ROOT / "results" / "SELFTEST.md").read_text("utf-8").partition("\n## Methods 1")[0]
    columns = {1: "`duetbench compare`", 2: "one launch each, 5 %", 3: "asv continuous, factor 1.1"}
    entries: dict[tuple[str, str], str] = {}
    for line in re.findall(r"^\| (.+) \|$", record, re.MULTILINE):
        done, _, by, times, *_ = line.split(" | ")
        entries.setdefault((done.strip(), by), times)
    readme = (ROOT / "README.md").read_text("utf-8")
    rows = re.findall(r"^\| (two installations|a handler slower)(.+) \|$", readme, re.MULTILINE)
    assert len(rows) == 2
    for start, rest in rows:
        done, *counts = f"{start}{rest}".split(" | ")
        assert counts == [entries[done, columns[place]] for place in (1, 2, 3)]
    for name in ("README.md", "docs/decides.md"):
        text = " ".join((ROOT / name).read_text("utf-8").split())
        assert "1 of 60 comparisons of two installations of one stack gave a false verdict" in text
