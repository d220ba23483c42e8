"""Figures from the generator's rows, against figures worked out by hand and real recordings."""

import sqlite3
from pathlib import Path

import numpy as np
import pytest

from duetbench.core.errors import FlagName, LaunchError
from duetbench.core.metrics import METRICS
from duetbench.core.model import Load
from duetbench.load import oha_results
from duetbench.load.oha_results import OhaSummary, Rows

RECORDED = Path(__file__).parents[1] / "data" / "oha"


def made(*requests: tuple[float, float], status: int = 200) -> Rows:
    """Rows from (start, end) pairs, scheduled when they started."""
    rows = [(start, start, end, status, 0) for start, end in requests]
    return np.rec.fromrecords(rows, dtype=oha_results.RECORD)


def summary_of(statuses: dict[int, int], failures: dict[str, int] | None = None) -> OhaSummary:
    return OhaSummary.model_validate(
        {
            "summary": {"total": 1.0},
            "statusCodeDistribution": statuses,
            "errorDistribution": failures or {},
        }
    )


def closed(connections: int, duration: float) -> Load:
    return Load(connections=connections, duration=duration, timeout=60)


def test_a_cut_wave_does_not_lower_the_throughput_of_a_waiting_service() -> None:
    """Four connections, 1 s each, 3.5 s: 12 answers in 3 s are 4/s, not 12 in 3.5 s."""
    waves = made(*[(t, t + 1) for t in (0.0, 1.0, 2.0, 3.0) for _ in range(4)])
    figures = oha_results.figures(waves, summary_of({200: 16}), closed(4, 3.5), floor=1.0)
    assert figures["window"] == 3.0
    assert figures["throughput"] == 4.0
    assert figures["in_flight"] == pytest.approx(4.0)
    assert figures["requests"] == figures["good"] == 16  # what ends after the deadline still counts
    # The same where nobody declared a floor, and handlers that share a core end together.
    assert oha_results.figures(waves, summary_of({200: 16}), closed(4, 3.5))["throughput"] == 4.0


def test_a_stalled_server_cannot_hide_behind_the_last_wave() -> None:
    """One wave after 1 s and silence until 9 s: the window is the whole 9 s."""
    stalled = made((0, 1), (0, 1), (1, 9.5), (1, 9.5))
    figures = oha_results.figures(stalled, summary_of({200: 4}), closed(2, 9.0), floor=1.0)
    assert figures["window"] == 9.0
    assert figures["throughput"] == pytest.approx(2 / 9)


@pytest.mark.parametrize("duration", [2.3, 12.4])
def test_throughput_never_exceeds_slots_over_floor(duration: float) -> None:
    """Whatever the stagger and the deadline, N(t)/t stays below the ceiling."""
    random = np.random.default_rng(1)
    starts = random.uniform(0, 0.7, 5)
    requests = [
        (s + k, s + k + 1.0) for s in starts for k in range(40) if k == 0 or s + k < duration
    ]
    load = closed(5, duration)
    figures = oha_results.figures(
        made(*requests), summary_of({200: len(requests)}), load, floor=1.0
    )
    assert figures.get("throughput", 0.0) <= 5.0


def test_an_open_load_is_not_blamed_for_its_first_answers_on_the_way() -> None:
    """Rate 2, floor 1 s, 4 s: six answers between 1 s and 4 s are 2/s."""
    ticks = np.arange(8) / 2
    load = Load(connections=8, rate=2, duration=4, timeout=5)
    answered = made(*[(t, t + 1.1) for t in ticks])
    figures = oha_results.figures(answered, summary_of({200: 8}), load, floor=1.0)
    assert figures["throughput"] == figures["offered"] == 2.0
    assert (figures["unsent"], figures["lag"]) == (0, 0)


def test_thirds_of_times_are_by_the_send() -> None:
    """Five in each third, 30, 20 and 10 ms; the last one is sent at the deadline. Four are few."""
    sent = [0.0, 0.1, 0.2, 0.3, 0.99, 1.0, 1.1, 1.2, 1.3, 1.99, 2.0, 2.1, 2.2, 2.3, 3.0]
    took = [0.03] * 5 + [0.02] * 5 + [0.01] * 4 + [9]
    answered = made(*[(at, at + time) for at, time in zip(sent, took, strict=True)])
    figures = oha_results.time_thirds(answered, closed(5, 3), status=200)
    assert figures == pytest.approx((0.03, 0.02, 0.01))
    answered.status[0] = 500
    assert oha_results.time_thirds(answered, closed(5, 3), status=200) == ()


def test_memory_that_is_kept_for_every_answer() -> None:
    """100 answers and 1, 2, 3, 2, 2 MB per window: 20 kB each; scatter 1, 0, 1, 0, 0 MB.

    sqrt(2e12 * 5 / 4) * t(4, 0.975) = 1.581e6 * 2.776 over 500 answers: ± 8779 bytes.
    """
    grown = np.array([1e6, 2e6, 3e6, 2e6, 2e6])
    figures = oha_results.per_answer(grown, np.full(5, 100.0))
    assert figures == pytest.approx((20_000, 20_000 - 8_779, 20_000 + 8_779), rel=1e-3)
    ends, held = np.linspace(0.005, 4.995, 500), np.cumsum([70e6, *grown])
    course = [(99.5, 1)] + [(100.0 + at, int(size)) for at, size in enumerate(held)]
    assert oha_results.growth(course, ends[::-1], 100.0) == (20_000, 20_000), "the last two"
    assert oha_results.growth(course[:-1], ends, 100.0) is None, "four windows"
    assert oha_results.growth(course, ends + 9, 100.0) is None, "no answer"


def test_memory_that_grows_by_one_step_may_not_grow() -> None:
    ends = np.linspace(0.005, 9.995, 1000)
    course = [(float(at), int(70e6 + 10e6 * (at > 4))) for at in range(11)]
    assert oha_results.growth(course, ends, 0.0) == (0, 0), "of the second half"


def test_only_good_answers_have_latencies() -> None:
    """A quick 500 lowers no percentile, and counts as answered, not as good."""
    mixed = made((0, 0.5), (0, 0.001), (0.1, 0.8))
    mixed.status[1] = 500
    figures = oha_results.figures(mixed, summary_of({200: 2, 500: 1}), closed(3, 1.0))
    assert (figures["requests"], figures["good"]) == (3, 2)
    assert figures["response_min"] == 0.5
    assert figures["throughput"] == 2 / 0.8


def test_without_a_good_answer_there_are_counts_only() -> None:
    figures = oha_results.figures(
        made((0, 0.1), status=500), summary_of({500: 1}, {"timeout": 2}), closed(3, 1)
    )
    assert figures == {"requests": 1, "good": 0, "timeouts": 2, "errors": 0}
    late = oha_results.figures(made((0, 1.5)), summary_of({200: 1}), closed(1, 1.0))
    assert "throughput" not in late
    assert late["response_max"] == 1.5


def test_a_rate_asks_for_the_ticks_before_the_deadline() -> None:
    """The first tick is due at 0; the one at the deadline itself is not sent."""
    for rate, duration, ticks in ((10, 0.7, 7), (7.5, 1, 8)):
        load = Load(connections=1, rate=rate, duration=duration, timeout=1)
        assert oha_results.ticks(load) == ticks


def test_a_paced_recording_of_oha_gives_its_figures() -> None:
    """10/s for 5 s, at most five in flight, 1 s each: 25 of 50 requests are sent."""
    load = Load(connections=5, rate=10, duration=5, timeout=30)
    recorded = oha_results.read_rows(RECORDED / "paced.sqlite")
    summary = oha_results.read_summary((RECORDED / "paced.json").read_text())
    figures = oha_results.figures(recorded, summary, load, floor=1.0)
    assert len(recorded) == summary.answered == 25
    assert (figures["offered"], figures["requests"], figures["unsent"]) == (10, 25, 25)
    # The last answer before 5 s came at 4.414431165 s, the twentieth; the first start 1.279722 ms.
    assert figures["window"] == pytest.approx(4.414431165 - 0.001279722)
    assert figures["throughput"] == pytest.approx(20 / 4.413151443)
    # Ticks wait for a free connection: the k-th wave of five for half a second times k.
    assert figures["response_mean"] == pytest.approx(figures["service_mean"] + 1.0, abs=0.02)
    assert figures["service_min"] == pytest.approx(5.209925864 - 4.209404886)
    assert 0 < figures["lag"] <= 1.702046467 - 1.7, "the largest one"
    checks = {"good", "timeouts", "unsent", "window", "in_flight", "lag"}
    assert set(figures) - set(METRICS) == checks


def test_failures_are_counted_by_kind() -> None:
    refused = oha_results.read_summary((RECORDED / "refused.json").read_text())
    assert (refused.answered, refused.timeouts, refused.errors) == (0, 0, 289)
    late = oha_results.read_summary((RECORDED / "timeouts.json").read_text())
    assert (late.answered, late.timeouts, late.errors) == (0, 4, 0)
    wrong = oha_results.read_summary((RECORDED / "all-500.json").read_text())
    assert wrong.statuses == {500: wrong.answered}


@pytest.mark.parametrize("text", ["rubbish", '{"summary": {"total": null}}'])
def test_a_summary_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(LaunchError, match="expected oha's JSON summary") as caught:
        oha_results.read_summary(text)
    assert caught.value.flag is FlagName.LOAD_FAILED


def test_a_database_that_is_none_is_refused(tmp_path: Path) -> None:
    """Missing, not SQLite, without the table, without a column, with an end before its start."""
    for name, content in (("missing", None), ("text", b"rubbish" * 200), ("empty", b"")):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(LaunchError) as caught:
            oha_results.read_rows(tmp_path / name)
        assert caught.value.flag is FlagName.LOAD_FAILED
    backwards = tmp_path / "backwards.sqlite"
    with sqlite3.connect(backwards) as file:
        file.execute("CREATE TABLE oha (start, start_latency_correction, end, status, len_bytes)")
        file.execute("INSERT INTO oha VALUES (2.0, NULL, 1.0, 200, 5)")
    with pytest.raises(LaunchError, match="1 of 1 rows with another order"):
        oha_results.read_rows(backwards)


@pytest.mark.parametrize(("slow", "mean"), [(0.06, 0.0318), (0.01, 0.01143)])
def test_what_is_slow_once_in_five_moves_the_slower_half(slow: float, mean: float) -> None:
    """Of 1,000 answers 200 are slow, and 20 take 80 ms anyway: ranks 500 to 990 are 491 answers.

    281 of them take 10 ms, 200 are the slow ones, and 10 of the 20 count.
    """
    figures = oha_results.times("response", np.array([*[0.01] * 780, *[slow] * 200, *[0.08] * 20]))
    assert figures["response_slow_half"] == pytest.approx(mean, rel=0.002)
    assert (figures["response_p50"], figures["response_p99"]) == (0.01, 0.08)
    stalled = np.array([*[0.01] * 990, *[5.0] * 10])
    assert oha_results.times("response", stalled)["response_slow_half"] == pytest.approx(0.01)
    (only,) = {*oha_results.times("service", np.array([0.3])).values()}
    assert only == 0.3


def test_percentiles_are_measured_times() -> None:
    """The smallest time that so many do not exceed, whatever the order; never one in between."""
    figures = oha_results.times("response", np.arange(10_000, 0, -1) / 1e4)
    assert figures == {
        "response_min": 1e-4, "response_mean": pytest.approx(0.50005), "response_p50": 0.5,
        "response_p90": 0.9, "response_p95": 0.95, "response_p99": 0.99, "response_p999": 0.999,
        "response_max": 1.0, "response_slow_half": pytest.approx(0.745),
    }  # fmt: skip
    four = oha_results.times("service", np.array([0.04, 0.01, 0.03, 0.02]))
    assert (four["service_p50"], four["service_p90"]) == (0.02, 0.04)


def test_a_percentile_without_support_is_left_out() -> None:
    """A p99 of twenty requests would be their maximum under another name."""
    points = ["min", "mean", "slow_half", "max", "p50", "p90", "p95", "p99", "p999"]
    for answers, supported in ((99, 6), (100, 7), (10_000, 9)):
        times = oha_results.times("response", np.full(answers, 0.01))
        assert set(times) == {f"response_{point}" for point in points[:supported]}
        assert list(times.values()) == pytest.approx([0.01] * supported)
