"""What pages say of a case: its newest figure, and the command that repeats it."""

import inspect
import shlex
from dataclasses import replace

import pytest

from duetbench.core.model import CaseResult
from observatory.cli.backfill import backfill_command
from observatory.show.site import words
from observatory.show.site.pages.trends import cells, newest
from site_builds import JSON, a_run, disturbed, failed, scattered, steady, table_of

SWITCH = "git switch --detach abababababab && observatory setup && "


@pytest.mark.parametrize(
    ("result", "figure", "beside"),
    [
        (steady(), "5,000/s", ""),
        (scattered(JSON, 5000.0), "5,000/s", ""),
        # t(2) = 4.303 times 1 % over the root of three, on logarithms: 2.5 %.
        (scattered(JSON, 4950.0, 5000.0, 5050.0), "5,000/s", "±2.5 %"),
        (disturbed(JSON), "9.00/s", "disturbed: host_noise"),
        (failed(), "—", "not_ready: 60 s were not enough"),
    ],
)
def test_a_newest_figure_says_what_it_rests_on(
    result: CaseResult, figure: str, beside: str
) -> None:
    table = table_of(a_run(1), a_run(2, result))
    found = cells(table, "throughput", newest(table, JSON, "throughput"))
    assert (found[0], found[1] or found[2]) == (figure, beside)


@pytest.mark.parametrize(
    ("case", "profile", "commit", "expected"),
    [
        (JSON, "nightly", None, f"observatory measure --profile nightly --select {JSON}"),
        (JSON, "asv", None, f"observatory measure --profile nightly --select {JSON}"),
        ("a/b [c]*", "quick", None, "observatory measure --profile quick --select 'a/b [[]c][*]'"),
        ("a/b", "quick", "ab" * 20,
         f"{SWITCH}observatory measure --profile quick --select a/b"),
        ("a/b", "quick", "$(rm -rf)", "observatory measure --profile quick --select a/b"),
        ("a/b; rm -rf ~", "quick", None,
         "observatory measure --profile quick --select 'a/b; rm -rf ~'"),
    ],
)  # fmt: skip
def test_the_command_of_a_figure(
    case: str, profile: str, commit: str | None, expected: str
) -> None:
    night = replace(table_of(a_run(1)).nights[0], profile=profile, commit=commit)
    assert words.point_command(night, case) == expected


def test_the_command_of_a_past_stack_has_options_of_backfill() -> None:
    night = replace(table_of(a_run(1)).nights[0], kind="anchored", as_of="2026-03-01", commit=None)
    _, verb, *options = shlex.split(words.point_command(night, "a/b"))
    assert verb == "backfill"
    assert options[1::2] == ["2026-03-01", "2026-03-01", "a/b"]
    offered = inspect.signature(backfill_command).parameters
    assert {option.removeprefix("--") for option in options[::2]} <= {*offered}
