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


def closed(connections: int, duration: float) -> Load:
    return Load(connections=connections, duration=duration, timeout=60)


def figures(rows: Rows, load: Load, floor: float) -> dict[str, float]:
    """The figures of rows that the summary tells as well."""
    statuses = {int(status): int((rows.status == status).sum()) for status in rows.status}
    counts = {"statusCodeDistribution": statuses, "errorDistribution": {}}
    summary = OhaSummary.model_validate({"summary": {"total": 1.0}, **counts})
    return oha_results.figures(rows, summary, load, floor=floor)


WAVES = made(*[(t, t + 1) for t in (0.0, 1.0, 2.0, 3.0) for _ in range(4)])
MIXED = made((0, 0.5), (0, 0.001), (0.1, 0.8))
MIXED.status[1] = 500
OPEN = Load(connections=8, rate=2, duration=4, timeout=5)


@pytest.mark.parametrize(
    ("rows", "load", "floor", "expected"),
    [
        # Four connections, 1 s each, 3.5 s: 12 answers in 3 s are 4/s, not 12 in 3.5 s; what ends
        # after the deadline still counts.
        (WAVES, closed(4, 3.5), 1.0, {"window": 3, "throughput": 4, "in_flight": 4,
                                      "requests": 16, "good": 16}),
        # The same where nobody declared a floor, and handlers that share a core end together.
        (WAVES, closed(4, 3.5), 0.0, {"throughput": 4}),
        # One wave after 1 s and silence until 9 s: the window is the whole 9 s.
        (made((0, 1), (0, 1), (1, 9.5), (1, 9.5)), closed(2, 9.0), 1.0,
         {"window": 9, "throughput": 2 / 9}),
        # Rate 2, floor 1 s, 4 s: six answers between 1 s and 4 s are 2/s.
        (made(*[(t / 2, t / 2 + 1.1) for t in range(8)]), OPEN, 1.0,
         {"throughput": 2, "offered": 2}),
        # A quick 500 lowers no percentile, and counts as answered, not as good.
        (MIXED, closed(3, 1.0), 0.0, {"requests": 3, "good": 2, "response_min": 0.5,
                                      "throughput": 2 / 0.8}),
        # One answer, after the deadline.
        (made((0, 1.5)), closed(1, 1.0), 0.0, {"response_max": 1.5, "throughput": None}),
    ],
)  # fmt: skip
def test_figures_are_those_worked_out_by_hand(
    rows: Rows, load: Load, floor: float, expected: dict[str, float | None]
) -> None:
    seen = figures(rows, load, floor)
    assert {name: seen.get(name) for name in expected} == pytest.approx(expected)


def test_thirds_of_times_are_by_the_send() -> None:
    """Five in each third, 30, 20 and 10 ms; the last one is sent at the deadline. Four are few."""
    sent = [0.0, 0.1, 0.2, 0.3, 0.99, 1.0, 1.1, 1.2, 1.3, 1.99, 2.0, 2.1, 2.2, 2.3, 3.0]
    took = [0.03] * 5 + [0.02] * 5 + [0.01] * 4 + [9]
    answered = made(*[(at, at + time) for at, time in zip(sent, took, strict=True)])
    thirds = oha_results.time_thirds(answered, closed(5, 3), status=200)
    assert thirds == pytest.approx((0.03, 0.02, 0.01))
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
    # What grows by one step may not grow: of the second half it is nothing.
    ends = np.linspace(0.005, 9.995, 1000)
    course = [(float(at), int(70e6 + 10e6 * (at > 4))) for at in range(11)]
    assert oha_results.growth(course, ends, 0.0) == (0, 0)


def test_a_paced_recording_of_oha_gives_its_figures() -> None:
    """10/s for 5 s, at most five in flight, 1 s each: 25 of 50 requests are sent."""
    load = Load(connections=5, rate=10, duration=5, timeout=30)
    recorded = oha_results.read_rows(RECORDED / "paced.sqlite")
    summary = oha_results.read_summary((RECORDED / "paced.json").read_text())
    figures = oha_results.figures(recorded, summary, load, floor=1.0)
    assert len(recorded) == summary.answered == 25
    assert (figures["offered"], figures["requests"]) == (10, 25)
    # The last answer before 5 s came at 4.414431165 s, the twentieth; the first start 1.279722 ms.
    assert figures["window"] == pytest.approx(4.414431165 - 0.001279722)
    assert figures["throughput"] == pytest.approx(20 / 4.413151443)
    # Ticks wait for a free connection: the k-th wave of five for half a second times k.
    assert figures["response_mean"] == pytest.approx(figures["service_mean"] + 1.0, abs=0.02)
    assert figures["service_min"] == pytest.approx(5.209925864 - 4.209404886)
    checks = {"good", "timeouts", "window", "in_flight"}
    assert set(figures) - set(METRICS) == checks


def test_failures_are_counted_by_kind() -> None:
    refused = oha_results.read_summary((RECORDED / "refused.json").read_text())
    assert (refused.answered, refused.timeouts, refused.errors) == (0, 0, 289)
    late = oha_results.read_summary((RECORDED / "timeouts.json").read_text())
    assert (late.answered, late.timeouts, late.errors) == (0, 4, 0)
    wrong = oha_results.read_summary((RECORDED / "all-500.json").read_text())
    assert wrong.statuses == {500: wrong.answered}


def test_what_is_no_summary_and_no_database_is_refused(tmp_path: Path) -> None:
    """Missing, not SQLite, without the table, with an end before its start."""
    (tmp_path / "text").write_bytes(b"rubbish" * 200)
    (tmp_path / "empty").touch()
    with sqlite3.connect(tmp_path / "backwards") as file:
        file.execute("CREATE TABLE oha (start, start_latency_correction, end, status, len_bytes)")
        file.execute("INSERT INTO oha VALUES (2.0, NULL, 1.0, 200, 5)")
    names = ("missing", "text", "empty")
    summaries = ("rubbish", '{"summary": {"total": null}}')
    for read, given, words in (
        *((oha_results.read_rows, tmp_path / name, "expected") for name in names),
        (oha_results.read_rows, tmp_path / "backwards", "1 of 1 rows with another order"),
        *((oha_results.read_summary, text, "expected oha's JSON summary") for text in summaries),
    ):
        with pytest.raises(LaunchError, match=words) as caught:
            read(given)  # type: ignore[operator]
        assert caught.value.flag is FlagName.LOAD_FAILED


def test_what_is_slow_once_in_five_moves_the_slower_half() -> None:
    """Of 1,000 answers 200 are slow, and 20 take 80 ms anyway: ranks 500 to 990 are 491 answers.

    281 of them take 10 ms, 200 are the slow ones, and 10 of the 20 count.
    """
    for slow, mean in ((0.06, 0.0318), (0.01, 0.01143)):
        answered = np.array([*[0.01] * 780, *[slow] * 200, *[0.08] * 20])
        figures = oha_results.times("response", answered)
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
