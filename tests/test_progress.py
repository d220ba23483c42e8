"""What a log of a run says."""

from __future__ import annotations

import io

from rich.console import Console
from rich.text import Text

from servebench.flags import Flag, FlagName
from servebench.progress import LiveReporter, PlainReporter, duration
from synthetic import failed, make_case, ok


def test_a_log_has_a_line_per_launch_and_the_time_left_at_each_tenth() -> None:
    """Twenty launches: after the second, the fourth and so on; never twice the same tenth."""
    output = io.StringIO()
    reporter = PlainReporter(Console(file=output, width=200))
    case = make_case("demo/json/py3.14")
    reporter.begin(20, 200.0)
    for order in range(20):
        reporter.launching(case, order, 10.0 * (20 - order))
        launch = ok(case.id, 0, {"throughput": 9_244.0}).model_copy(update={"order": order})
        reporter.launched(case, launch)
    reporter.end()
    lines = output.getvalue().splitlines()
    assert lines[0] == "20 launches, about 3 min 20 s"
    assert lines[1] == "[1/20] demo/json/py3.14  9,244/s"
    left = [line for line in lines if line.endswith("left")]
    assert left[0] == "2 of 20 launches done, 3 min 00 s left"
    assert len(left) == 9


def test_the_time_left_goes_down_inside_a_launch() -> None:
    """A minute's launch is no minute in which nothing moves; and one launch is no "1 launches"."""
    clock, output = [0.0], io.StringIO()
    console = Console(file=output, force_terminal=True, width=120, get_time=lambda: clock[0])
    reporter = LiveReporter(console)
    reporter.begin(2, 120.0)
    reporter.launching(make_case("demo/json/py3.14"), 0, 110.0)
    reporter.phase("warming up")
    for passed, shown in ((0.0, "1 min 50 s left"), (50.0, "1 min 00 s left"), (130.0, "0 s left")):
        clock[0] = passed
        reporter._progress.refresh()
        assert f"{shown} warming up" in Text.from_ansi(output.getvalue()).plain
    reporter.end()
    plain = io.StringIO()
    PlainReporter(Console(file=plain, width=200)).begin(1, 8.0)
    assert plain.getvalue() == "1 launch, about 8 s\n"


def test_a_failed_launch_says_why_and_shows_no_figure() -> None:
    """The reason stands where the figures would."""
    output = io.StringIO()
    reporter = PlainReporter(Console(file=output, width=200))
    case = make_case("demo/json/py3.14")
    reporter.begin(1, 5.0)
    reporter.launched(case, failed(case.id, 0, FlagName.WRONG_BODY, "expected 'a', found 'b'"))
    assert output.getvalue().splitlines()[-1] == (
        "[1/1] demo/json/py3.14  failed: wrong_body: expected 'a', found 'b'"
    )


def test_warnings_stand_behind_the_figures() -> None:
    """In square brackets, which must not be taken for markup."""
    output = io.StringIO()
    reporter = PlainReporter(Console(file=output, width=200))
    case = make_case("demo/json/py3.14")
    noise = Flag(name=FlagName.HOST_NOISE, detail="0.2 cores")
    reporter.begin(1, 5.0)
    reporter.launched(case, ok(case.id, 0, {"throughput": 100.0}, noise))
    assert output.getvalue().splitlines()[-1] == "[1/1] demo/json/py3.14  100/s  [host_noise]"


def test_durations_are_said_as_people_say_them() -> None:
    """Seconds below a minute, then both."""
    assert [duration(s) for s in (48.4, 60, 725)] == ["48 s", "1 min 00 s", "12 min 05 s"]
