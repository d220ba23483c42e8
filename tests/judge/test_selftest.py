"""The self-test counts what was said, leaves nothing out, and holds other ways against it."""

import json
import re
from math import exp
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bench import PROJECT
from duetbench.cli import app
from duetbench.core.errors import RecordError
from duetbench.judge.selftest import scores
from duetbench.judge.statistics import MEMORY
from duetbench.show import selftest as report
from duetbench.show import selftest_attributions
from duetbench.store import attribution_trial
from duetbench.store.comparison import METHOD_VERSION, Verdict
from duetbench.store.trial import (
    Figures,
    Installation,
    Offset,
    Said,
    Trial,
    load_offsets,
    load_trials,
    save_offset,
    save_trial,
)

CPU = "server_cpu_per_request"


def said(case: str, verdict: Verdict, ratio: float | None = None, metric: str = CPU) -> Said:
    return Said(
        case=case, metric=metric, verdict=verdict, ratio=ratio, low=None, high=None,
        detectable=0.01, duets=8,
    )  # fmt: skip


def trial(kind: str, *answers: Said, **more: Any) -> Trial:
    fields: dict[str, Any] = {
        "id": "20261120T120000Z-compare-abc", "kind": kind, "machine": "m", "commit": None,
        "started": "2026-11-20T12:00:00Z", "duet_seconds": 90.0, "wall_seconds": 120.0,
        "planned": 1, "said": answers, "figures": (), "method": METHOD_VERSION,
        "installation": Installation(path=0, padding=0, interpreter=True),
    }  # fmt: skip
    return Trial(**{**fields, **more})


def slower(kind: str, ratio: float, metric: str = CPU, **more: Any) -> Trial:
    """One that found what was planted in the case `a`."""
    answer = said("a", Verdict.SLOWER, ratio, metric)
    return trial(kind, answer, **{"planted": "a", "size": 0.02, **more})


SAME = said("a", Verdict.NO_CHANGE)


def test_false_verdicts_are_counted_per_comparison_and_per_case() -> None:
    both = said("a", Verdict.FASTER, 0.9), said("a", Verdict.FASTER, 1.1, "throughput")
    found = scores.false_verdicts(
        [
            trial("aa", SAME, said("b", Verdict.NO_CHANGE)),
            trial("aa", *both),
            trial("aa", said("a", Verdict.INCONCLUSIVE)),
            slower("busy", 1.1, size=0.1),
        ]
    )
    assert found is not None
    whole, cases = found
    assert (whole.hits, whole.of) == (1, 3)
    assert (cases.hits, cases.of) == (1, 4)
    # Beta quantiles: 0.025 of Beta(1, 3) is 1 - 0.975^(1/3); 0.975 of Beta(2, 2) solves 3x²-2x³.
    assert whole.low == pytest.approx(1 - 0.975 ** (1 / 3))
    assert 3 * whole.high**2 - 2 * whole.high**3 == pytest.approx(0.975)


def test_what_was_not_measured_could_not_alarm() -> None:
    late = said("b", Verdict.INCONCLUSIVE).model_copy(update={"duets": 0})
    others = [late.model_copy(update={"case": case}) for case in "bcd"]
    alarm = trial("aa", said("a", Verdict.SLOWER, 1.1), *others)
    found = scores.false_verdicts([alarm, trial("aa", late)])
    assert found is not None
    assert [(rate.hits, rate.of) for rate in found] == [(1, 1), (1, 1)]
    (ours, *_) = scores.rules([alarm, trial("aa", late)])
    assert (ours.alarms, ours.case_alarms) == found
    assert scores.false_verdicts([trial("aa", late)]) is None


def test_never_is_not_claimed() -> None:
    """No false verdict in 30 comparisons leaves a rate of up to 11.6 %; none at all has none."""
    rate = scores.rate(0, 30)
    assert rate.low == 0
    assert rate.high == pytest.approx(1 - 0.025 ** (1 / 30))
    assert scores.false_verdicts([]) is None
    assert report.sentence([]) == ""
    assert "No trial of this method has been made yet" in report.page([])


def test_what_was_never_asked_is_no_evidence() -> None:
    left_open = said("b", Verdict.INCONCLUSIVE)
    told = report.sentence([trial("aa", SAME, left_open)])
    assert "1 of 2 judgements of CPU per request stayed inconclusive" in told


def test_the_page_says_what_its_tries_do_not_show() -> None:

    def ended(low: float, metric: str = CPU) -> Said:
        called = said("a", Verdict.SLOWER, 1.01, metric)
        return called.model_copy(update={"low": low, "high": 1.02})

    plant: dict[str, Any] = {"planted": "a", "size": 0.01}
    text = report.page(
        [
            trial("busy", ended(1.0019), instructions=1.01, **plant),
            trial("busy", ended(1.0021), instructions=1.001, **plant),
            trial("memory", ended(1.005, "pss_steady"), **plant),
        ]
    )
    assert "In 1 of 2 tries with a CPU plant that was counted the instructions had moved" in text
    assert "how well one that costs none is found only the others show." in text
    assert "In 1 of the 3 that were called the 95 % interval reaches into" in text
    assert "sizes are about a tenth too large" in text
    now = [
        trial("busy", ended(1.0021), instructions=1.01, **plant),
        trial("memory", ended(1.005, "pss_steady"), memory=MEMORY, **plant),
    ]
    text = report.page(now)
    assert "how well one that costs none is found was not tried." in text
    assert "rule of their day" not in text
    assert "a tenth too large" not in text


def test_power_size_and_bias() -> None:
    """Two of three tries found; 3 % more instructions in 70 % of the CPU predict 2.1 %."""
    plant: dict[str, Any] = {"instructions": 1.03, "share": 0.7}
    missed = said("a", Verdict.NO_CHANGE, 1.004)
    (one,) = scores.plants(
        [
            slower("busy", 1.022, **plant),
            slower("busy", 1.018, **plant),
            trial("busy", missed, planted="a", size=0.02, **plant),
        ]
    )
    assert (one.rate.hits, one.rate.of, one.wrong) == (2, 3, 0)
    assert one.reported == pytest.approx(0.02)
    assert one.error == pytest.approx(-0.001)
    assert one.worst == pytest.approx(-0.003)
    assert one.spread == pytest.approx(0.002 * 2**0.5)


def test_what_all_tries_measured_together_is_held_against_each() -> None:
    """Ratios 1.01, 1.03 | 1.05: the others of the first say 5 %, those of the second 2 %."""

    def of(ratio: float, *heads: float) -> Trial:
        figures = Figures(case="a", metric=CPU, base=(1.0,) * len(heads), head=heads)
        return slower("busy", ratio, figures=(figures,))

    (one,) = scores.plants([of(1.02, 1.01, 1.03), of(1.05, 1.05)])
    assert one.pooled == pytest.approx((1.01 * 1.03 * 1.05) ** (1 / 3) - 1)
    first, second = 1.02 - 1.05, 1.05 - (1.01 * 1.03) ** 0.5
    assert one.apart == pytest.approx((first + second) / 2)
    assert one.apart_worst == pytest.approx(second)
    (alone,) = scores.plants([of(1.02, 1.01, 1.03)])
    assert (alone.apart, alone.apart_worst) == (None, None)


def test_instructions_predict_no_memory() -> None:
    plant: dict[str, Any] = {"instructions": 1.0, "share": 0.7, "sequential": 1.0}
    (one,) = scores.plants([slower("memory", 1.05, "pss_steady", **plant)])
    assert one.reported == pytest.approx(0.05)
    assert (one.error, one.bias) == (None, None)


def test_the_opposite_verdict_or_one_on_another_case_or_metric_is_no_find() -> None:
    others = (said("b", Verdict.SLOWER, 1.1), said("a", Verdict.SLOWER, 1.1, "throughput"))
    for answers, wrong in (((said("a", Verdict.FASTER, 0.98),), 1), (others, 0)):
        (one,) = scores.plants([trial("busy", *answers, planted="a", size=0.02)])
        assert (one.rate.hits, one.wrong) == (0, wrong)


def test_lost_concurrency_is_caught_by_latency_or_by_its_proof() -> None:
    proof = said("a", Verdict.NOT_COMPARABLE).model_copy(
        update={"reason": "head: not_concurrent: 5 requests took 5 times as long"}
    )
    other = proof.model_copy(update={"reason": "head: wrong_body: x"})
    slow = said("a", Verdict.SLOWER, 30.0, "response_p50")
    idle = said("a", Verdict.SLOWER, 0.1, "efficiency")
    found = [
        scores.plants([trial("queue", one, planted="a", size=1.0)])[0].rate.hits
        for one in (proof, slow, idle, other)
    ]
    assert found == [1, 1, 1, 0]
    (both,) = scores.plants([trial("queue", idle, slow, planted="a", size=1.0)])
    assert both.reported == pytest.approx(29.0)


def test_customary_rules_see_the_same_launches() -> None:
    low, high = [1.0, 1.01, 1.02, 1.03, 1.04, 1.05, 1.06], [1.2, 1.21, 1.22, 1.23, 1.24, 1.25, 1.0]
    apart = [value + 0.2 for value in low]
    for rule, base, head, threshold, call in (
        (scores.single, low, high, 0.05, "no change"),
        (scores.single, low, high[:-1], 0.05, "slower"),
        (scores.single, high, low, 0.05, "faster"),
        (scores.best_of, low, high, 0.05, "no change"),
        (scores.best_of, low, high[:-1], 0.05, "slower"),
        (scores.asv_continuous, low, apart, 1.1, "slower"),
        (scores.asv_continuous, low, apart, 1.3, "no change"),
        (scores.asv_continuous, apart, low, 1.1, "faster"),
        (scores.asv_continuous, low, [v + 0.001 for v in low], 1.0001, "no change"),
    ):
        assert rule(base, head, threshold) == call


def test_the_contest_uses_throughput_turned_round() -> None:
    """Lower throughput is slower; the customary rule that sees 10 % misses 2 %."""

    def planted(size: float, head: float) -> Trial:
        figures = Figures(case="a", metric="throughput", base=(1000.0,) * 8, head=(head,) * 8)
        return slower("busy", 1 + size, size=size, figures=(figures,))

    trials = [planted(0.02, 980.0), planted(0.1, 900.0), trial("aa", SAME)]
    ways = {way.name: way for way in scores.rules(trials)}
    five = ways["one launch each, 5 %"]
    assert [(size, rate.hits, rate.of) for size, rate in five.misses] == [(0.02, 1, 1), (0.1, 0, 1)]
    assert [rate.hits for _, rate in ways["duetbench"].misses] == [0, 0]
    assert ways["duetbench"].minutes == 2.0
    # One of eight duets: 90 s / 8.
    assert five.minutes == pytest.approx(90 / 8 / 60)
    alarms = ways["duetbench"].alarms
    assert alarms is not None
    assert (alarms.hits, alarms.of) == (0, 1)


def test_trials_are_kept_and_read_whole(tmp_path: Path) -> None:
    one = trial("aa", SAME)
    path = save_trial(tmp_path, one)
    assert path == tmp_path / "selftest" / "m" / "20261120T120000Z-aa.json"
    assert load_trials(tmp_path) == (one,)
    path.with_name("x.json").write_text('{"format": 3}')
    with pytest.raises(RecordError, match="expected a trial of format 2"):
        load_trials(tmp_path)


def test_the_page_shows_rates_power_and_the_other_ways() -> None:
    figures = Figures(case="a", metric=CPU, base=(1.0, 1.0), head=(1.01, 1.01))
    made: dict[str, Any] = {"instructions": 1.02, "share": 0.6, "sequential": 1.004, "size": 0.01}
    text = report.page([trial("aa", SAME), slower("busy", 1.011, figures=(figures,), **made)])
    assert "0 of 1 comparisons of a stack with itself gave a false verdict" in text
    plant = "| handler computes longer | 1 % | a |"
    assert text.index("### Was it found?") < text.index("### Which size was reported?")
    assert f"{plant} 1 of 1 | 2.5…100.0 % | 0 | 8 | 90 s |" in text
    size = "+1.00 % | +1.10 % | — | — | — | -0.10 points | -0.10 points | +0.70 points |"
    assert f"{plant} {size}" in text
    assert "| duetbench | 0 of 1 | 0 of 1 | 0 of 1 | 2.0 |" in text
    assert "(95 % interval 0.0…97.5 %), in 0 of 1 measured cases (0.0…97.5 %, as if" in text
    assert "on m, 2026-11-20. None was left out." in text


def test_a_plant_that_was_never_found_has_no_size() -> None:
    missed = trial("busy", said("b", Verdict.NO_CHANGE, 1.0), planted="b", size=0.05)
    hit = slower("busy", 1.06, size=0.05)
    tables = report.planted(scores.plants([missed, hit]))
    assert [[row[2] for row in table.rows] for table in tables] == [["a", "b"], ["a"]]
    assert [len(table.head) for table in tables] == [8, 11]
    assert all(len(row) == len(table.head) for table in tables for row in table.rows)
    (only,) = report.planted(scores.plants([missed]))
    assert only.rows[0][3:6] == ("0 of 1", "0.0…97.5 %", "0")
    assert report.planted(()) == ()


def offset(*ratios: float, number: int = 0) -> Offset:
    return Offset(
        session="2026-11-22T10:00:00Z", machine="m", commit=None,
        started=f"2026-11-22T10:0{number}:00Z", ratios={"a": ratios},
        installation=Installation(path=0, padding=0, interpreter=True),
    )  # fmt: skip


def test_scatter_between_installations_is_an_analysis_of_variance(tmp_path: Path) -> None:
    """Logs 0, 0.02 | 0.04, 0.06: mean squares 0.0016 between and 0.0002 within, two duets each.

    Of F with 1 and 2 degrees of freedom below x are sqrt(x / (2 + x)): 5 % below 0.005 / 0.9975.
    """
    two = [offset(1.0, exp(0.02)), offset(exp(0.04), exp(0.06), number=1)]
    for one in two:
        save_offset(tmp_path, one)
    assert load_offsets(tmp_path) == tuple(two)
    assert load_trials(tmp_path) == ()
    (found,) = scores.scatters(two)
    assert found.offsets == pytest.approx((0.01, 0.05))
    assert found.expected == pytest.approx((0.0002 / 2) ** 0.5)
    assert found.tau == pytest.approx((0.0014 / 2) ** 0.5)
    assert found.bound == pytest.approx(((0.0016 * 0.9975 / 0.005 - 0.0002) / 2) ** 0.5)
    text = report.page([], two)
    assert (
        "| a | 2 copies | 4 | +3.05 % | +1.01 % | +5.13 % | 2.83 % | 1.00 % | 2.65 % | 39.94 % |"
        in text
    )
    # The original against itself counts apart.
    control = [one.model_copy(update={"installation": None}) for one in two]
    assert [one.same for one in scores.scatters([*two, *control])] == [False, True]
    assert "| a | 2 × itself | 4 | +3.05 %" in report.page([], control)
    # The same everywhere: nothing of an installation's own, yet two of them prove little.
    (same,) = scores.scatters([offset(1.0, 1.02), offset(1.0, 1.02)])
    assert (same.tau, same.bound) == (0, 0)
    assert scores.scatters(two[:1]) == scores.scatters([]) == ()


def test_what_trials_say_is_for_programs_and_for_pipes_too(tmp_path: Path) -> None:
    save_trial(tmp_path, trial("aa", SAME))
    words = ["selftest", "show", "--results", str(tmp_path)]
    shown = CliRunner().invoke(app, words)
    assert shown.output == report.page(load_trials(tmp_path))
    found = json.loads(CliRunner().invoke(app, [*words, "--json"]).output)
    assert (found["trials"], found["planted"]) == (1, [])
    assert found["false_verdicts"]["comparisons"]["hits"] == 0
    assert found["false_verdicts"]["cases"]["high"] == pytest.approx(0.975)
    refused = CliRunner().invoke(app, [*words, "-o", str(tmp_path / "no" / "page.md")])
    assert isinstance(refused.exception, RecordError)


def test_what_was_made_before_counts_apart() -> None:
    """Other methods, and trials of one installation: 1 of 1 wrong there, 0 of 20 here."""
    now = [trial("aa", SAME)] * 20
    wrong = said("a", Verdict.SLOWER, 1.1)
    before = [trial("aa", wrong, method=1), trial("aa", wrong, installation=None)]
    # Of 20 without one, the exact bound is 1 - 0.025^(1/20).
    told = "0 of 20 comparisons of two installations of one stack gave a false verdict: at most"
    assert report.running([*now, *before]) == f"{told} 16.8 % do (95 %)."
    page = report.page([*now, *before])
    assert page.index("0 of 20 comp") < page.index("# The method before") < page.index("2 of 2 co")
    found = report.as_json([*now, *before])
    assert (found["trials"], found["before"]["trials"]) == (20, 2)
    assert "No comparison of the stack with itself" in report.running(before)
    assert "No trial of this method has been made yet" in report.page(before)


def test_trials_of_the_same_are_held_against_each_other() -> None:
    """Called by both: a. By one: b, and both directions of c. By neither: d. Unknown: e."""
    first = trial(
        "busy", said("a", Verdict.SLOWER, 1.1), said("b", Verdict.SLOWER, 1.1),
        said("c", Verdict.FASTER, 0.9), said("d", Verdict.NO_CHANGE), said("e", Verdict.SLOWER),
        planted="a", size=0.02,
    )  # fmt: skip
    second = trial(
        "busy", said("a", Verdict.SLOWER, 1.1), said("b", Verdict.INCONCLUSIVE),
        said("c", Verdict.SLOWER, 1.1), said("d", Verdict.INCONCLUSIVE),
        planted="a", size=0.02, id="20261120T130000Z-compare-abc", again=first.id,
    )  # fmt: skip
    (found,) = scores.agreements([first, second, trial("aa", SAME, id="z", again="gone")])
    assert (found.pairs, found.both, found.one, found.neither) == (1, 1, 3, 1)
    assert found.jaccard == 1 / 4
    row = "| handler computes longer | 2 % | 1 | 1 | 3 | 1 | 25.00 % |"
    assert row in report.page([first, second])
    twice = [trial("aa", SAME, id=name, again=of) for name, of in (("x", None), ("y", "x"))]
    (same,) = scores.agreements(twice)
    assert (same.neither, same.jaccard) == (1, None)


def test_the_count_that_is_told_is_that_of_the_files(reference_results: Path) -> None:
    told = report.running(load_trials(reference_results))
    for name in ("README.md", "docs/comparing.md"):
        assert told in " ".join((PROJECT / name).read_text("utf-8").split()), name
    named = selftest_attributions.sentences(attribution_trial.load(reference_results))
    assert named in " ".join((PROJECT / "docs" / "method.md").read_text("utf-8").split())


def test_the_readme_has_the_figures_of_the_committed_page(reference_results: Path) -> None:
    page = (reference_results / "SELFTEST.md").read_text("utf-8")
    ways = {}
    for name in ("duetbench", "one launch each, 5 %", "asv continuous, factor 1.1"):
        (row,) = re.findall(rf"^\| {name} \| ((?:[^|]+ \| ){{4}}[^|]+) \|$", page, re.MULTILINE)
        false, _, _, misses, _ = row.split(" | ")
        missed, tries = map(int, misses.split(" of "))
        ways[name] = false, f"{tries - missed} of {tries}"
    told = (PROJECT / "README.md").read_text("utf-8")
    for place, what in enumerate(("false verdicts", "slower by 1 % of its CPU: found")):
        cells = " | ".join(way[place] for way in ways.values())
        assert f"{what} | {cells} |" in told


def test_the_committed_page_is_what_the_committed_trials_say(reference_results: Path) -> None:
    page = (reference_results / "SELFTEST.md").read_text("utf-8")
    trials, offsets = load_trials(reference_results), load_offsets(reference_results)
    assert page == report.page(trials, offsets, attribution_trial.load(reference_results))
