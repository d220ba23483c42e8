"""From run files to tables of nights: figures, states and breaks."""

import math

import pytest

import synthetic as runs
from duetbench.core.errors import FlagName
from duetbench.core.model import CaseResult, Flag, RunStatus
from duetbench.core.units import Interval
from observatory.trend import table as history
from observatory.trend.table import of_run
from site_builds import JSON, a_run, failed, scattered, steady, table_of

WIDE = [100.0, 200.0, 400.0]
FACTOR = 2 ** (4.30265 / math.sqrt(3))
"""Of `WIDE`, whose geometric mean is 200: t(2)/√3 = 2.4842 times ln 2 to both sides."""


def test_a_night_holds_the_run_s_means_and_intervals() -> None:
    night = of_run(a_run(1, scattered(JSON, *WIDE)))
    found = night.figures[0, night.metrics.index("throughput")]
    assert found.tolist() == pytest.approx([200, 200 / FACTOR, 200 * FACTOR, 3], rel=1e-5)
    assert "pss_steady" not in night.metrics


def test_failed_cases_are_gaps_with_a_reason() -> None:
    never = CaseResult(case=runs.make_case(JSON))
    table = table_of(a_run(1, failed()), a_run(2), a_run(3, never, status=RunStatus.PARTIAL))
    first, second, third = history.points(table, JSON, "throughput")
    assert (first.case.status, first.figure) == ("failed", None)
    assert first.reason == "not_ready: 60 s were not enough"
    assert first.case.flags == ("not_ready",)
    assert (second.case.status, second.figure) == ("measured", Interval(5000, 5000, 5000, 3))
    assert (third.case.status, third.figure) == ("not measured", None)
    assert "ended before" in third.reason


@pytest.mark.parametrize(("disturbed", "status"), [(1, "measured"), (2, "disturbed")])
def test_a_point_is_not_judged_when_half_of_its_launches_were_disturbed(
    disturbed: int, status: str
) -> None:
    noise = Flag(name=FlagName.HOST_NOISE, detail="another process")
    launches = tuple(
        runs.ok(JSON, n, {"throughput": 5000.0}, *[noise] * (n < disturbed)) for n in range(3)
    )
    table = table_of(a_run(1, CaseResult(case=runs.make_case(JSON), launches=launches)))
    (point,) = history.points(table, JSON, "throughput")
    assert (point.case.status, point.case.flags) == (status, ("host_noise",))
    assert point.figure == Interval(5000, 5000, 5000, 3)


def test_runs_of_other_profiles_do_not_enter_a_trend_and_machines_are_never_joined() -> None:
    short, night = a_run(1, steady(JSON, 9.0), profile="quick"), a_run(2)
    for runs_, figure in (((short, night), 5000), ((short,), 9)):
        (point,) = history.points(table_of(*runs_), JSON, "throughput")
        assert point.figure is not None
        assert point.figure.estimate == figure
    other = a_run(2, machine=runs.MACHINE.model_copy(update={"id": "other-4c-1"}))
    found = history.tables(of_run(run) for run in (a_run(1), other))
    counted = [(table.machine, len(table.nights)) for table in found]
    assert counted == [("other-4c-1", 1), (runs.MACHINE.id, 1)]


def test_breaks_where_machine_interpreter_or_case_changed() -> None:
    kernel = runs.MACHINE.model_copy(update={"kernel": "6.2.0"})
    plain = a_run(1)
    newer = tuple(r.model_copy(update={"version": "3.14.8"}) for r in plain.interpreters)
    table = table_of(
        plain,
        a_run(2),
        a_run(3, machine=kernel),
        a_run(4, machine=kernel).model_copy(update={"results": ()}),
        a_run(5, machine=kernel, interpreters=newer),
        a_run(6, steady(JSON, 1.0, workers=2), machine=kernel, interpreters=newer),
    )
    found = history.breaks(table)[JSON]
    assert [(b.night, b.what) for b in found] == [(2, "machine"), (4, "interpreter"), (5, "case")]
    assert "6.1.0" in found[0].before
    assert "6.2.0" in found[0].after
