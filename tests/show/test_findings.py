"""Statements: one verdict each, by pairs of one machine, and none of what is missing."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import synthetic
from bench import PROJECT, Shell
from comparing import OPEN_RATE, Judged, comparison_of
from duetbench.core.comparison import CaseComparison, Comparison
from duetbench.core.errors import FlagName
from duetbench.core.model import Case, CaseResult, Run
from duetbench.load.summary import summarise
from observatory.matrix.published import Published
from observatory.show.claims import Answer, check
from observatory.show.experiments import experiment
from observatory.show.findings import write_findings

pytestmark = pytest.mark.long

OTHER = synthetic.MACHINE.model_copy(update={"id": "other-2c"})
GIL, FREE = "demo/x/py3.14", "demo/x/py3.14t"


def published(**shape: object) -> Published:
    declared = {"statement": "scales", "metric": "throughput", "numerator": "ft", "least": 1.7}
    return Published.model_validate(
        {
            "source": "A page, 2025",
            "cases": {"gil": [GIL, f"{GIL}/short"], "ft": FREE},
            "figures": {"gil": {"throughput": 5.0}, "ft": {"throughput": 10.0}},
            "shapes": [{**declared, "denominator": "gil", "if_not": "There is one core.", **shape}],
        }
    )


def run(figures: Mapping[str, Sequence[float]], **fields: Any) -> Run:
    """A run with a launch for each of these throughputs of a case."""
    results = []
    for name, values in figures.items():
        rates = enumerate({"throughput": value} for value in values)
        launches = tuple(synthetic.ok(name, number, rate) for number, rate in rates)
        results.append(CaseResult(case=synthetic.make_case(name), launches=launches))
    return synthetic.make_run(results, **fields)


FOUR = {GIL: [5.0] * 4, FREE: [10 / 1.02, 10, 10 * 1.02, 10]}
TWICE = run(FOUR)
"""5.00/s with the GIL, and 10.0/s without: 2.00 times as much."""


def said(*comparisons: Comparison, runs: Sequence[Run] = (TWICE,), **shape: object) -> Answer:
    (answer,) = check(published(**shape), [*map(summarise, runs)], comparisons)
    return answer


def ends(answer: Answer) -> tuple[float, float]:
    assert answer.ours is not None
    assert answer.ours.ends is not None
    return answer.ours.ends


def test_a_statement_has_the_verdict_of_its_whole_interval() -> None:
    """Logs 0 and ±log 1.02: sd 0.01617, error 0.008084, t of 3 is 3.182: ±2.57 %."""
    answer = said()
    assert ends(answer) == pytest.approx((1.9492, 2.0521), rel=1e-4)
    assert (answer.verdict, answer.published, answer.expected) == ("holds", 2.0, "≥ 1.7")
    assert answer.reason == "10.0/s against 5.00/s, over 4 launches"
    cannot = {"cannot": "There are two cores."}
    for shape, verdict, reason in (
        ({"least": 2.5}, "does not hold here", f"{answer.reason}; There is one core."),
        ({"most": 1.9}, "does not hold here", f"{answer.reason}; There is one core."),
        ({"least": 2.0}, "not decided", f"{answer.reason}; more launches would decide"),
        (cannot, "cannot be asked here", "There are two cores."),
        ({**cannot, "needs": 2}, "holds", answer.reason),
    ):
        actual = said(**shape)
        assert (actual.verdict, actual.reason) == (verdict, reason), shape
    large = run(FOUR, machine=OTHER.model_copy(update={"cores": 8}), id="large")
    assert said(runs=[TWICE, large], cannot="Too few cores.", needs=8).verdict == "holds"


def test_runs_of_a_machine_count_together_and_a_slow_day_of_both_sides_is_no_scatter() -> None:
    """Half as fast on both sides: eight pairs, sd 0.01497, error 0.005292, t of 7 is 2.365."""
    slow = {GIL: [2.5] * 4, FREE: [x / 2 for x in (9.8039, 10, 10.2, 10)]}
    answer = said(runs=[TWICE, run(slow, id="slow", profile="published")])
    assert ends(answer) == pytest.approx((1.9751, 2.0252), rel=1e-4)
    assert answer.ours is not None
    assert answer.ours.n == 8


def test_what_was_not_measured_is_never_claimed() -> None:
    wrong = synthetic.failed(FREE, 0, FlagName.NOT_READY, "10 s")
    failed = CaseResult(case=synthetic.make_case(FREE), launches=(wrong,))
    only = run({GIL: [5.0]}, id="a")
    broken = only.model_copy(update={"results": (*only.results, failed)})
    for runs, reason in (
        ([only], "no figures of x/py3.14t"),
        ([broken], "no figures of x/py3.14t"),
        ([only, run({FREE: [9.0]}, id="b")], "never in one run"),
    ):
        answer = said(runs=runs)
        assert (answer.verdict, answer.ours, answer.reason) == ("not measured", None, reason)


def test_a_run_is_shown_beside_what_was_published() -> None:
    """95, 100 and 105 with the GIL, and a failed launch without."""
    layout = {"title": "Main", "select": ["demo/x/*"], "keys": ["python"]}
    tables = [{**layout, "columns": ["throughput"]}]
    about = Published.model_validate({**published().model_dump(), "tables": tables})
    wrong = (synthetic.failed(FREE, 0, FlagName.WRONG_ANSWER, "found c"),)
    failed = CaseResult(case=synthetic.make_case(FREE, python="3.14t"), launches=wrong)
    measured = run({GIL: [95.0, 100.0, 105.0], "demo/io": [7.0]})
    measured = measured.model_copy(update={"results": (*measured.results, failed)})
    section = experiment("demo", [summarise(measured)], {"demo": about}, (), ())
    text = write_findings({"demo": section}, {}).replace("\\", "")
    for words in (
        "## demo\n\nPublished: A page, 2025.",
        "| scales | ≥ 1.7 | 2.00 | — | not measured:",
        "| 3.14 | 99.9/s (±13 %); published 5.00/s |",
        "| 3.14t | failed; published 10.0/s |",
        "1 of 3 launches failed: wrong_answer: found c",
    ):
        assert words in text, text


def compared(head: Case, ratio: float, n: int, python: str, **finding: Any) -> Comparison:
    """Of two interpreters, of which base has `python`."""
    sizes = {"low": ratio / 1.05, "ratio": ratio, "high": ratio * 1.05, "n": n, "case": head.id}
    judged = OPEN_RATE.model_copy(update={**sizes, **finding})
    pythons = (TWICE.interpreters[0].model_copy(update={"name": python}),)
    side = {"kind": "interpreter", "interpreters": pythons}
    base = comparison_of().base.model_copy(update=side)
    row = Judged(CaseComparison(case=head, because=""), (judged,))
    return comparison_of(row, id="a", started="2026-11-20T12:00:00Z", machine=OTHER, base=base)


@pytest.mark.parametrize("swapped", [False, True])
def test_what_duets_of_two_interpreters_say_comes_first(swapped: bool) -> None:
    """1.9 (1.81…2.00), as the statement divides it, whichever was head; twice by more launches."""
    gil, free = map(synthetic.make_case, (GIL, FREE))
    head, base, ratio = (gil, "3.14t", 1 / 1.9) if swapped else (free, "3.14", 1.9)
    answer = said(compared(head, ratio, 3, base, alone=swapped))
    assert answer.ours is not None
    assert (answer.ours.estimate, answer.ours.low) == pytest.approx((1.9, 1.9 / 1.05))
    kind = "pairs of launches by turns" if swapped else "duets"
    assert answer.reason == f"by 3 {kind} on other-2c, 2026-11-20"
    assert answer.comparison == "a"
    others = compared(head, ratio, 2, base), compared(head, ratio, 3, "3.15t")
    assert not said(*others, compared(head, ratio, 3, base, subject="pss_steady")).comparison


def test_the_command_writes_the_page(tmp_path: Path, reference_results: Path, call: Shell) -> None:
    """Of the committed results alone: `make bench` adds others, which it asks as well."""
    (tmp_path / "pyproject.toml").write_text('[tool.duetbench]\nresults = "results"\n')
    call.patch.setenv("DUETBENCH_ROOT", str(tmp_path))
    for name in ("apps", "benchmarks"):
        (tmp_path / name).symlink_to(PROJECT / name)
    shutil.copytree(reference_results, tmp_path / "results")
    text = call("observatory", "findings").out
    page = (reference_results / "FINDINGS.md").read_text("utf-8")
    assert text == page, "observatory findings --output results/FINDINGS.md"
