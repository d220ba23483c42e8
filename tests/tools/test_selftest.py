"""The script that measures how often comparisons are wrong, and the figures that it has given."""

import argparse
import math
import re
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Final

import pytest

import selftest
from bench import PROJECT
from comparing import CPU, comparison_of, duet, judged_case, measured
from duetbench.app.setting import Contrast
from duetbench.core.comparison import Comparison, Finding
from duetbench.core.errors import BusyError
from duetbench.core.model import Verdict
from duetbench.judge.preparation import Extent
from repos import git, keep

pytestmark = pytest.mark.long

CASE: Final = "x/a/py3.14"
MEMORY: Final = "pss_steady"


def said(metric: str, log: float, *, moved: bool = True) -> Finding:
    """A change with an interval of ±0.01, on the log scale, called by its direction."""
    called = Verdict.WORSE if log > 0 else Verdict.BETTER
    ratio, low, high = (math.exp(log + away) for away in (0.0, -0.01, 0.01))
    verdict = called if moved else Verdict.UNKNOWN
    return measured(verdict, ratio, low, high, subject=metric, detectable=0.01)


def made(sign: int, *actual: Finding, count: float | None = None) -> tuple[int, Comparison]:
    """A comparison of two duets: CPU +0.01 and -0.01."""
    duets = tuple(duet(CASE, {CPU: math.exp(log)}) for log in (0.01, -0.01))
    counted = [said("instructions", count)] if count else []
    return sign, comparison_of(judged_case(CASE, *actual, *counted, duets=duets))


def columns(row: tuple[str, ...]) -> Mapping[str, str]:
    assert len(row) == len(selftest.HEAD)
    return dict(zip(selftest.HEAD, row, strict=True))


def test_whatever_is_called_of_the_same_code_is_false() -> None:
    """Of 3 comparisons one is wrong: 0.8 to 90.6 % (Clopper and Pearson), and of each metric's."""
    for wrong in (said(CPU, -0.02), said(MEMORY, 0.02)):
        same = made(1, said(CPU, 0.001, moved=False))
        every, *by, alone = selftest.Tries(0.0, "`x/a`", made=[same, made(1, wrong), same]).rows()
        assert every == (
            "two installations of one stack: false verdicts", "`x/a`", "`duetbench compare`",
            "1 of 3", "0.8…90.6 %", *[""] * 7, "2", "600 s",
        )  # fmt: skip
        for row, metric in zip(by, ("", CPU), strict=True):
            hit = wrong.subject == metric
            assert row[3] == f"{int(hit)} of {hit + (2 if metric == CPU else 0)}", (wrong, metric)
        assert alone[3] == "0 of 3"
    counted = [*selftest.Tries(0.0, "", made=[made(1, count=0.02)]).rows()]
    assert [row[3] for row in counted[:3]] == ["1 of 1", "1 of 1", "0 of 0"]


def test_finds_and_sizes_are_those_of_the_slower_side() -> None:
    """Head looks 0.5 % slower than it is, and the last try has the wrong side.

    From the slower side the sizes are 0.025, 0.015, 0.025 and -0.015, on the log scale: 0.0125 on
    average ± 3.18 standard errors of 0.00946, and 0.0217 ± 4.30 standard errors of 0.00333 of those
    that were right. Two tries with the sides exchanged leave 0.005 and 0.02.
    """
    logs = [0.025, -0.015, 0.025, 0.015]
    signs = [1, -1, 1, -1]
    tries = [
        made(sign, said(CPU, log), count=sign * math.log(1.06))
        for sign, log in zip(signs, logs, strict=True)
    ]
    every, *by, alone = selftest.Tries(0.02, "`x/a`", 0.06, made=tries).rows()
    named, instructions, cpu = (columns(row) for row in (every, *by))
    assert every[0] == "a handler slower by 2 % of its CPU: found"
    assert (named["times"], named["wrong way"]) == ("4 of 4", "1")
    assert [*cpu.values()][3:] == [
        "3 of 4", "19.4…99.4 %", "1", "+2.00 %", "+1.26 ±3.01 %", "+2.19 ±1.43 %",
        "+1.26 ±9.53 %", "1.00 %", "1.41 %", "", "",
    ]  # fmt: skip
    assert (instructions["true size"], instructions["size, all tries"]) == (
        "+6.00 %", "+6.00 ±0.00 %",
    )  # fmt: skip
    assert alone[3] == "0 of 4"
    swapped = [(-sign, comparison) for sign, comparison in tries]
    every, *by, _ = selftest.Tries(0.02, "`x/a`", made=swapped).rows()
    assert [(row[3], row[5]) for row in (every, *by)] == [
        ("1 of 4", "4"), ("0 of 4", "4"), ("1 of 4", "3"),
    ]  # fmt: skip


def test_every_second_time_the_slower_side_is_base(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And of a try that could not be made the side does not matter: it is made again."""
    module, asked = tmp_path / "web.py", list[tuple[object, ...]]()
    module.write_text("def greet():\n    return 1\n", "utf-8")
    keep(tmp_path)

    def compare(
        _: object, contrast: Contrast, extent: Extent, *_more: object, **_how: object
    ) -> Comparison:
        shown = [git(tmp_path, "show", f"{side}:web.py") for side in contrast.revisions]
        longer = [text.count("_ = 0\n") == 7 for text in shown]
        asked.append((extent.seed, extent.select, *longer))
        if len(asked) == 1:
            raise BusyError("somebody measures")
        return comparison_of()

    monkeypatch.setattr(selftest, "compare", compare)
    monkeypatch.setattr(selftest, "measuring", nullcontext)
    monkeypatch.setattr("selftest.time.sleep", lambda _: None)
    options = argparse.Namespace(
        module="web.py", function="greet", seed=5, budget="60s", keep=tmp_path
    )
    actual = [*selftest.compare_with(tmp_path, options, 7, ["x/a"], 2)]
    assert [sign for _, (sign, _) in actual] == [1, -1]
    assert asked[1:] == [(5, ("x/a",), False, True), (6, ("x/a",), True, False)]
    assert "_ = 0" not in module.read_text("utf-8")


def test_the_page_has_the_figures_of_the_record() -> None:
    """Each count in its table is the sum of the record's rows of that name and column."""
    record = (PROJECT / "results" / "SELFTEST.md").read_text("utf-8")
    page = (PROJECT / "docs" / "decides.md").read_text("utf-8")
    readme = " ".join((PROJECT / "README.md").read_text("utf-8").split())
    rows = {
        "equal code: false verdicts": r"(?:two installations|one \w+ as both).*: false verdicts",
        "a handler made 1 % slower: detected": "a handler slower by 1 % .*: found",
        "a handler made 2 % slower: detected": "a handler slower by 2 % .*: found",
        "a handler that waits 22 instead of 20 ms: detected": "a handler waits 22 .*: found",
    }
    columns = "`duetbench compare`", "one launch each, 5 %"
    for name, pattern in rows.items():
        counts = []
        for by in columns:
            row = re.compile(rf"^\| {pattern} \| [^|]* \| {by} \| (\d+) of (\d+) ", re.MULTILINE)
            hits, tries = (sum(map(int, each)) for each in zip(*row.findall(record), strict=True))
            counts.append(f"{hits} of {tries}")
        assert f"| {name} | {' | '.join(counts)} |" in page
        assert f" in {counts[0]}" in readme or name not in list(rows)[:2]
