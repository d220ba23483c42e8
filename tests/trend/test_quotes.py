"""The one size of a release: which of its measurements everything quotes."""

import math
from datetime import UTC, datetime

import pytest

import synthetic
from duetbench.core.metrics import CPU
from duetbench.core.model import Verdict
from duetbench.core.units import Interval
from duetbench.show import formats
from duetbench.store.change import Narrowed, Release, SeriesName, Share
from observatory.show import quoting
from observatory.trend import quotes
from observatory.trend.quotes import Quote


def a_quote(ratio: float, spread: float, metric: str = CPU, case: str = "a/b/py3.14") -> Quote:
    return Quote(
        "fastapi", "1.1", "1.0", datetime(2026, 11, 1, tzinfo=UTC), True, "m", case, "3.14", metric,
        Interval(ratio, ratio / (1 + spread), ratio * (1 + spread)), Verdict.WORSE, "duets",
    )  # fmt: skip


def test_requests_come_before_calls_starts_and_memory() -> None:
    """If they are large enough to act on: 2 % of CPU, 10 % of a start, 5 % of memory."""
    small, large = a_quote(1.01, 0.001), a_quote(1.03, 0.02)
    start, call = a_quote(1.5, 0.01, "start_cpu"), a_quote(1.4, 0.01, "seconds")
    memory = a_quote(2.0, 0.01, "pss_steady")
    every = [memory, start, call, large]
    for left in (large, call, start, memory):
        assert quotes._choose(every) == left
        every.remove(left)
    assert quotes._choose([small, memory]) == memory
    assert quotes._choose([small, a_quote(1.04, 0.01, "pss_steady")]) == small


def test_the_largest_case_counts_as_its_narrowest_measurement_has_it() -> None:
    """30 % known to within 10 % are 20 % known to within 1 %, which are more than 15 %."""
    loud, narrow = a_quote(1.3, 0.1), a_quote(1.2, 0.01)
    other = a_quote(1.15, 0.001, case="c/d/py3.14")
    assert quotes._choose([loud, other, narrow]) == narrow
    assert quotes._choose([loud, other]) == loud


def test_a_change_quotes_the_release_that_a_search_named_alone() -> None:
    old, new, last = (
        Release(package="fastapi", version=version, previous=before)
        for version, before in (
            ("0.142.0", "0.141.1"),
            ("0.143.0", "0.142.0"),
            ("0.143.2", "0.141.1"),
        )
    )
    series = SeriesName(machine="x", case="a/b", metric="throughput")
    step = Share(releases=(old,), ratio=0.8, low=0.79, high=0.81, duets=6)
    share = Share(releases=(last,), ratio=1.23, low=1.2, high=1.25, duets=8)
    record = synthetic.change_record(
        shares=(share,), narrowed=Narrowed(series=series, steps=(step,)), culprit=old
    )
    (quote,) = quotes.quotes({}, [record]).values()
    assert quote.key == ("fastapi", "0.142.0")
    assert (quote.ratio.estimate, quote.machine, quote.metric) == (0.8, "x", "throughput")
    assert quote.verdict is Verdict.WORSE, "fewer requests are worse"
    assert quoting.finding(quote) == "fastapi 0.142.0 serves 20 % fewer requests per second for a/b"
    assert quotes.quote_of(record, {quote.key: quote}) == quote
    both = Share(releases=(old, new), ratio=1.1, low=1.09, high=1.11, duets=8)
    together = quotes.quotes({}, [synthetic.change_record(shares=(both,), culprit=old)])
    assert [quote.together for quote in together.values()] == [
        ("fastapi 0.143.0",), ("fastapi 0.142.0",),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("ratio", "low", "high", "change", "span"),
    [
        (1.2016, 1.1835, 1.2199, "+20 %", "18…22 %"),
        (0.9647, 0.9581, 0.9714, "−3.5 %", "2.9…4.2 %"),
        (1.0096, 1.0074, 1.0119, "+1.0 %", "0.7…1.2 %"),
        (0.884, 0.879, 0.889, "−11.6 %", "11.1…12.1 %"),
        (0.9329, 0.9303, 0.9356, "−6.7 %", "6.4…7.0 %"),
        (1.0004, 1.0002, 1.0006, "+0.04 %", "0.02…0.06 %"),
        (2.317, 2.01, 2.67, "2.3×", "2.0…2.7 times"),
        (1.01, 0.99, 1.03, "+1.0 %", "−1.0…+3.0 %"),
        (0.9035, 0.8892, 0.9166, "−10 %", "8…11 %"),
    ],
)
def test_the_width_of_an_interval_decides_the_digits(
    ratio: float, low: float, high: float, change: str, span: str
) -> None:
    interval = Interval(ratio, low, high)
    assert (formats.change(interval), formats.within(interval)) == (change, span)


def test_findings_read_as_sentences() -> None:
    start = a_quote(0.903, 0.01, "start_cpu", "start-up/models/current/py3.14")
    assert quoting.finding(start) == (
        "fastapi 1.1 needs 10 % less CPU to start FastAPI beside 200 models"
    )
    assert math.isclose(start.size, -math.log(0.903))
