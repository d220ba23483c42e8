"""Statements: one verdict each, by pairs of one machine, and none of what is missing."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import synthetic
from comparing import OPEN_RATE, Judged, comparison_of
from duetbench.core.comparison import CaseComparison, Comparison
from duetbench.core.errors import FlagName, RecordError
from duetbench.core.model import Case, CaseResult, Run
from duetbench.load.summary import RunSummary, summarise
from observatory.cli.experiments import findings_command
from observatory.matrix.published import Published, load_published, read_suites
from observatory.show import experiments
from observatory.show.claims import ANSWERED, Answer, check
from observatory.show.experiments import Section, reference_runs
from observatory.store import asv_results

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
RUNS = ROOT / "results" / "runs"
OTHER = synthetic.MACHINE.model_copy(update={"id": "other-2c"})


def published(**shape: object) -> Published:
    declared = {"statement": "scales", "metric": "throughput", "numerator": "ft", "least": 1.7}
    return Published.model_validate(
        {
            "source": "A page, 2025",
            "cases": {"gil": ["demo/x/py3.14", "demo/x/py3.14/short"], "ft": "demo/x/py3.14t"},
            "figures": {"gil": {"throughput": 5.0}, "ft": {"throughput": 10.0}},
            "shapes": [{**declared, "denominator": "gil", "if_not": "There is one core.", **shape}],
        }
    )


def result(case_id: str, *throughputs: float) -> CaseResult:
    case = synthetic.make_case(case_id)
    return CaseResult(
        case=case,
        launches=tuple(
            synthetic.ok(case.id, number, {"throughput": value})
            for number, value in enumerate(throughputs)
        ),
    )


def answered(*runs: Run, **shape: object) -> Answer:
    (answer,) = check(published(**shape), [*map(summarise, runs)])
    return answer


def ends(answer: Answer) -> tuple[float, float]:
    assert answer.ours is not None
    assert answer.ours.ends is not None
    return answer.ours.ends


def twice(**fields: Any) -> Run:
    """5.00/s with the GIL, and 10.0/s without: 2.00 times as much."""
    free = result("demo/x/py3.14t", 10 / 1.02, 10, 10 * 1.02, 10)
    return synthetic.make_run([result("demo/x/py3.14", *[5.0] * 4), free], **fields)


def test_a_statement_has_the_verdict_of_its_whole_interval() -> None:
    """Logs 0 and ±log 1.02: sd 0.01617, error 0.008084, t of 3 is 3.182: ±2.57 %."""
    answer = answered(twice())
    assert ends(answer) == pytest.approx((1.9492, 2.0521), rel=1e-4)
    assert (answer.verdict, answer.published, answer.expected) == ("holds", 2.0, "≥ 1.7")
    assert answer.reason == "10.0/s against 5.00/s, over 4 launches"
    assert answer.sentence == "scales — holds, 2.00 (1.95…2.05)"
    below = answered(twice(), least=2.5)
    assert (below.verdict, below.reason) == (
        "does not hold here",
        "10.0/s against 5.00/s, over 4 launches; There is one core.",
    )
    across = answered(twice(), least=2.0)
    assert across.verdict == "not decided"
    assert across.reason.endswith("; more launches would decide")
    cannot = answered(twice(), cannot="There are two cores.")
    assert (cannot.verdict, cannot.reason) == ("cannot be asked here", "There are two cores.")
    assert answered(twice(), cannot="There are two cores.", needs=2).verdict == "holds"


def test_runs_of_a_machine_count_together_and_a_slow_day_of_both_sides_is_no_scatter() -> None:
    """Half as fast on both sides: eight pairs, sd 0.01497, error 0.005292, t of 7 is 2.365."""
    slow = [
        result(case, *(x / 2 for x in row))
        for case, row in (("demo/x/py3.14", [5.0] * 4), ("demo/x/py3.14t", [9.8039, 10, 10.2, 10]))
    ]
    answer = answered(twice(), synthetic.make_run(slow, id="slow", profile="published"))
    assert answer.ours is not None
    assert answer.ours.n == 8
    assert ends(answer) == pytest.approx((1.9751, 2.0252), rel=1e-4)


def test_one_launch_scatters_as_its_kin_do() -> None:
    """Kin: logs ±0.02 of three each, squares 4 · 0.0004; of a pair √(2 · 0.0016 / 4) = 0.02828."""
    single = [result("demo/x/py3.14", 5.0), result("demo/x/py3.14t", 11.0)]
    alone = answered(synthetic.make_run(single))
    assert (alone.verdict, alone.ours and alone.ours.ends) == ("not decided", None)
    steps = (0.98020, 1.0, 1.02020)
    kin = [result(f"demo/x/{py}/other", *steps) for py in ("py3.14", "py3.14t")]
    answer = answered(synthetic.make_run([*single, *kin]))
    assert ends(answer) == pytest.approx((2.0339, 2.3797), rel=1e-4)  # t of 4 is 2.776
    assert answer.reason == "11.0/s against 5.00/s, measured once, with the scatter of its kin"


def test_the_machine_with_most_launches_answers_and_what_others_decide_is_said() -> None:
    """And one that has the cores comes before one that cannot answer."""
    gil, free = result("demo/x/py3.14", *[5.0] * 6), result("demo/x/py3.14t", *[5.0, 5.1] * 3)
    elsewhere = synthetic.make_run([gil, free], machine=OTHER, id="elsewhere")
    answer = answered(elsewhere, twice(), most=2.5)
    assert (answer.verdict, answer.ours and answer.ours.n) == ("does not hold here", 6)
    assert answer.reason.endswith("on synthetic-2c-0a1b2c3d: holds, 2.00 (1.95…2.05)")
    large = twice(machine=OTHER.model_copy(update={"cores": 8}), id="large")
    assert answered(twice(), large, cannot="Too few cores.", needs=8).verdict == "holds"


def a_comparison(head: Case, ratio: float, n: int = 16, **more: Any) -> Comparison:
    """Of two interpreters, 3.14 first, if no `words` of base and head are given."""
    words = more.pop("words", ((), ()))
    name = more.pop("python", "3.14")
    sizes = {"low": ratio / 1.05, "ratio": ratio, "high": ratio * 1.05, "n": n}
    judged = OPEN_RATE.model_copy(update={**sizes, "alone": more.pop("alone", False)})
    judged = judged.model_copy(update={"subject": more.pop("metric", "throughput")})
    case = CaseComparison(case=head, because="")
    row = Judged(case, (judged.model_copy(update={"case": head.id}),))
    pythons = (twice().interpreters[0].model_copy(update={"name": name}),)
    update = {"kind": "setting" if any(words) else "interpreter", "interpreters": pythons}
    base, head_ = (comparison_of().base.model_copy(update={**update, "words": own})
                   for own in words)  # fmt: skip
    day = more.pop("day", "2026-11-20")
    machine = synthetic.MACHINE.model_copy(update={"id": more.pop("machine", "other-2c")})
    fields = {"id": f"{day}-{n}", "started": f"{day}T12:00:00Z", "machine": machine}
    return comparison_of(row, base=base, head=head_, **fields, **more)


def said(*comparisons: Comparison, runs: Sequence[Run] = (), **shape: object) -> Answer:
    (answer,) = check(published(**shape), [*map(summarise, runs or [twice()])], comparisons)
    return answer


@pytest.mark.parametrize("swapped", [False, True])
def test_what_duets_of_two_interpreters_say_comes_first(swapped: bool) -> None:
    """1.9 (1.81…2.00), as the statement divides it, whichever was head; twice by launches."""
    gil, free = (synthetic.make_case(f"demo/x/py{name}") for name in ("3.14", "3.14t"))
    head, base, ratio = (gil, "3.14t", 1 / 1.9) if swapped else (free, "3.14", 1.9)
    answer = said(a_comparison(head, ratio, python=base, alone=swapped))
    assert answer.ours is not None
    assert (answer.ours.estimate, answer.ours.low) == pytest.approx((1.9, 1.9 / 1.05))
    kind = "pairs of launches by turns" if swapped else "duets"
    assert answer.reason == f"by 16 {kind} on other-2c, 2026-11-20"
    assert answer.comparison == "2026-11-20-16"
    assert not said(a_comparison(head, ratio, python="3.15t")).comparison, "of other sides"
    assert not said(a_comparison(head, ratio, python=base, metric="pss_steady")).comparison


WIDER = synthetic.make_case("demo/x").load.model_copy(update={"connections": 256})
Words = tuple[str, ...]
SETTINGS: dict[str, tuple[Words, Words, dict[str, Any], dict[str, Any]]] = {
    "threads": (("threads=1",), ("threads=2",), {"threads": 1}, {"threads": 2}),
    "server": (("server=uvicorn",), ("server=granian",), {}, {"server": "granian"}),
    "loop": (("loop=asyncio",), ("loop=uvloop",), {}, {"loop": "uvloop"}),
    "two": (
        ("workers=1", "connections=128"),
        ("workers=2", "connections=256"),
        {},
        {"workers": 2, "load": WIDER},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("swapped", [False, True])
def test_so_does_what_two_settings_say(name: str, swapped: bool) -> None:
    """A statement about the second over the first; launches by turns say 1.3, runs 2.0."""
    *words, first, second = SETTINGS[name]
    below, above = (synthetic.make_case(f"demo/x/{n}", **c) for n, c in enumerate((first, second)))
    launches = [
        CaseResult(case=case, launches=(synthetic.ok(case.id, 0, {"throughput": rate}),))
        for case, rate in ((below, 5.0), (above, 10.0))
    ]
    sides = {"numerator": above.id, "denominator": below.id}
    found = a_comparison(
        (below if swapped else above).model_copy(update={"id": "demo/x/of-the-comparison"}),
        1 / 1.3 if swapped else 1.3,
        words=words[::-1] if swapped else words,
    )
    runs = [synthetic.make_run(launches)]
    answer = said(found, runs=runs, **sides)
    assert answer.ours is not None
    assert answer.verdict == "does not hold here"
    assert answer.ours.estimate == pytest.approx(1.3)
    only_one = a_comparison(above, 1.3, words=(("server=hypercorn",), ("server=granian",)))
    by_launches = said(only_one, runs=runs, **sides)
    assert (by_launches.comparison, by_launches.ours and by_launches.ours.n) == ("", 1)


def test_the_comparison_with_most_samples_answers_and_what_others_decide_is_said() -> None:
    """Its result chooses none: of two with as many the newest; of one machine or of several.

    Two duets are too few.
    """
    free = synthetic.make_case("demo/x/py3.14t")
    of = partial(a_comparison, free)
    few, many = of(1.2, 6, day="2026-11-22"), of(1.9, 12, day="2026-11-20")
    assert said(few, many).comparison == "2026-11-20-12"
    assert said(many, of(1.8, 12, day="2026-11-21")).comparison == "2026-11-21-12"
    elsewhere = said(many, of(1.2, 20, machine="third-2c"))
    assert elsewhere.reason == (
        "by 20 duets on third-2c, 2026-11-20; There is one core.; "
        "on other-2c: holds, 1.90 (1.81…1.99); on synthetic-2c-0a1b2c3d: holds, 2.00 (1.95…2.05)"
    )
    assert not said(of(1.9, 2)).comparison
    cannot = said(many, runs=[twice()], cannot="There are two cores.")
    assert (cannot.verdict, cannot.reason) == ("cannot be asked here", "There are two cores.")


def test_what_was_not_measured_is_never_claimed() -> None:
    ft = synthetic.make_case("demo/x/py3.14t")
    failed = CaseResult(case=ft, launches=(synthetic.failed(ft.id, 0, FlagName.NOT_READY, "10 s"),))
    for results in ([result("demo/x/py3.14", 5.0)], [result("demo/x/py3.14", 5.0), failed]):
        answer = answered(synthetic.make_run(results))
        assert (answer.verdict, answer.ours) == ("not measured", None)
        assert answer.reason == "no figures of x/py3.14t"
    apart = (
        synthetic.make_run([result("demo/x/py3.14", 5.0)], id="a"),
        synthetic.make_run([result("demo/x/py3.14t", 9.0)], id="b"),
    )
    assert answered(*apart).reason == "never in one run"


def sections(runs: list[RunSummary]) -> dict[str, Section]:
    """The experiments of this checkout."""
    declared, suites = load_published(ROOT), read_suites(ROOT)
    inside = asv_results.read(ROOT / "results" / "asv")
    return {
        name: experiments.experiment(name, runs, inside, declared, suites)
        for name in experiments.names(declared, suites)
    }


def test_nine_of_ten_published_statements_are_answered_each_with_its_reason() -> None:
    """Our own experiments have no answer to repeat: more launches may be wanted of them."""
    known = sections(reference_runs(ROOT / "results"))
    answers = {name: section.answers for name, section in known.items() if section.tables}
    repeated = [name for name, p in load_published(ROOT).items() if p.source]
    published = [answer for name in repeated for answer in answers.get(name, ())]
    answered = [answer for answer in published if answer.verdict in ANSWERED]
    assert len(published) >= 30
    assert len(answered) >= 0.9 * len(published)
    every = [answer for one in answers.values() for answer in one]
    assert all(answer.reason for answer in every if answer.verdict != "holds")
    assert not [answer.statement for answer in every if "no reason is known" in answer.reason]


def test_the_command_writes_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.duetbench]\nresults = "results"\n')
    monkeypatch.setenv("DUETBENCH_ROOT", str(tmp_path))
    app = typer.Typer()
    app.command()(findings_command)
    empty = CliRunner().invoke(app, [])
    assert isinstance(empty.exception, RecordError)
    monkeypatch.setenv("DUETBENCH_ROOT", str(ROOT))
    text = CliRunner().invoke(app, [], catch_exceptions=False).output
    page = (ROOT / "results" / "FINDINGS.md").read_text("utf-8")
    assert text == page, "observatory findings --output results/FINDINGS.md"
