"""What a log of a run says."""

import io

from rich.console import Console
from rich.text import Text

from duetbench.host.console import Progress, duration


def test_a_log_has_a_line_per_launch_and_the_time_left_at_each_tenth() -> None:
    """Twenty launches: after the second, the fourth and so on; never twice the same tenth."""
    output = io.StringIO()
    progress = Progress(Console(file=output, width=200))
    progress.start("20 launches", 200.0, 20)
    for order in range(20):
        progress.work("demo/json/py3.14", order, 10.0 * (20 - order))
        progress.phase("measuring")
    progress.note("hot")
    progress.end()
    lines = output.getvalue().splitlines()
    assert lines[:2] == ["20 launches", "2 of 20 done, 3 min 00 s left"]
    assert len(lines) == 11
    assert lines[-1] == "note: hot"


def test_the_time_left_goes_down_inside_a_launch() -> None:
    clock, output = [0.0], io.StringIO()
    console = Console(file=output, force_terminal=True, width=120, get_time=lambda: clock[0])
    progress = Progress(console)
    progress.start("2 launches", 120.0, 2)
    progress.work("demo/json/py3.14", 0, 110.0)
    progress.phase("warming up")
    for passed, shown in ((0.0, "1 min 50 s left"), (50.0, "1 min 00 s left"), (130.0, "0 s left")):
        clock[0] = passed
        progress._bar.refresh()
        assert f"{shown} warming up" in Text.from_ansi(output.getvalue()).plain
    progress.end()


def test_durations_are_said_as_people_say_them() -> None:
    assert [duration(s) for s in (48.4, 60, 725)] == ["48 s", "1 min 00 s", "12 min 05 s"]
