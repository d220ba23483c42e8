"""From run files to the site's data files: figures, states, breaks, and what is not made again."""

import json
import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import synthetic as runs
from duetbench.core.errors import UsageError
from duetbench.core.flags import Flag, FlagName
from duetbench.core.metrics import HEADLINES, METRICS
from duetbench.core.model import CaseResult, RunStatus
from duetbench.show.site import data, data_files, overview
from duetbench.show.site.data import Folder
from duetbench.store import store
from duetbench.trend import columns, events, reading
from duetbench.trend import table as history
from duetbench.trend.columns import of_run
from duetbench.trend.table import Table
from site_builds import FREE, JSON, a_run, failed, scattered, steady, table_of

WIDE = [100.0, 200.0, 400.0]
FACTOR = 2 ** (4.30265 / math.sqrt(3))
"""Of `WIDE`, whose geometric mean is 200: t(2)/√3 = 2.4842 times ln 2 to both sides."""


def built(folder: Path) -> Folder:
    sources = reading.read(folder / "results", folder / "cache")
    site = Folder(folder / "site")
    data.write(site, sources, history.tables(sources.nights))
    site.remove_others(*data.OURS)
    return site


def fetched(site: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_bytes()) for path in sorted((site / "series").rglob("*.json"))]


def test_a_night_holds_the_run_s_means_and_intervals() -> None:
    night = of_run(a_run(1, scattered(JSON, *WIDE)))
    column = night.header.metrics.index("throughput")
    assert night.mean[0, column] == pytest.approx(200)
    assert night.low[0, column] == pytest.approx(200 / FACTOR, rel=1e-5)
    assert night.high[0, column] == pytest.approx(200 * FACTOR, rel=1e-5)
    assert night.launches[0, column] == 3
    assert np.isnan(night.mean[0, night.header.metrics.index("pss_steady")])


def test_headlines_share_the_first_file_and_exist() -> None:
    assert len(HEADLINES) == data_files.PER_FILE
    assert columns.TRENDS[: data_files.PER_FILE] == HEADLINES
    assert set(columns.TRENDS) == {n for n, row in METRICS.items() if row.better != "neither"}


def test_failed_cases_are_gaps_with_a_reason() -> None:
    never = CaseResult(case=runs.make_case(JSON))
    table = table_of(a_run(1, failed()), a_run(2), a_run(3, never, status=RunStatus.PARTIAL))
    first, second, third = history.points(table, JSON, "throughput")
    assert (first.status, first.mean) == ("failed", None)
    assert first.reason == "not_ready: 60 s were not enough"
    assert first.flags == ("not_ready",)
    assert (second.status, second.mean, second.launches) == ("measured", 5000, 3)
    assert (third.status, third.mean) == ("not measured", None)
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
    assert (point.status, point.flags, point.mean) == (status, ("host_noise",), 5000)


def test_a_series_without_a_figure_in_one_night_says_so() -> None:
    both = runs.steady_result(runs.make_case(JSON), {"throughput": 5000.0, "efficiency": 0.5})
    table = table_of(a_run(1, both), a_run(2))
    assert [p.mean for p in history.points(table, JSON, "efficiency")] == [0.5, None]
    assert history.points(table, JSON, "efficiency")[1].reason == "this run has no such figure"


def test_runs_of_other_profiles_do_not_enter_a_trend_and_machines_are_never_joined() -> None:
    short, night = a_run(1, steady(JSON, 9.0), profile="quick"), a_run(2)
    assert [p.mean for p in history.points(table_of(short, night), JSON, "throughput")] == [5000]
    assert [p.mean for p in history.points(table_of(short), JSON, "throughput")] == [9]
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
    found = events.breaks(table)[JSON]
    assert [(b.night, b.what) for b in found] == [(2, "machine"), (4, "interpreter"), (5, "case")]
    assert "6.1.0" in found[0].before
    assert "6.2.0" in found[0].after


def test_another_stack_is_a_bump_with_its_packages() -> None:
    plain = a_run(1)
    stack = plain.stacks[0]
    packages = {**stack.packages, "granian": "2.9.0", "new": "1.0"}
    del packages["h11"]
    bumped = stack.model_copy(update={"digest": "f" * 64, "packages": packages})
    table = table_of(plain, a_run(2, stacks=(bumped, *plain.stacks[1:])))
    (bump,) = events.bumps(table)
    assert (bump.night, bump.stack) == (1, "current")
    moved = [(one.package, one.base, one.head) for one in bump.packages]
    assert moved == [("granian", "1.2.3", "2.9.0"), ("h11", "1.2.3", None), ("new", None, "1.0")]
    assert events.breaks(table) == {JSON: ()}


def test_missing_nights_are_gaps() -> None:
    assert events.gaps(table_of(*(a_run(day) for day in (1, 2, 3, 6, 7)))) == ((2, 3),)
    assert events.gaps(table_of(a_run(1), a_run(20))) == ()


def document_of(table: Table) -> dict[str, Any]:
    (shard,), (year,) = data_files.series_files(table), data_files.years(table)
    return data_files.series_document(data_files.scaled(table, year), shard)


def test_a_shard_holds_five_digits_as_integers() -> None:
    """5,000 and 5,100 requests/s are 50,000 and 51,000 steps of 0.1; a gap is null."""
    table = table_of(a_run(1), a_run(2, failed()), a_run(3, steady(JSON, 5100.0)))
    document = document_of(table)
    (series,), (case,) = document["series"], document["cases"]
    assert (series["metric"], series["unit"], series["better"]) == ("throughput", "1/s", "higher")
    assert (series["exponent"], series["mean"]) == (-1, [50000, None, 51000])
    assert series["low"] == series["high"] == [0, None, 0]
    assert series["launches"] == [[1, 3], [1, 0], [1, 3]]
    assert (case["id"], case["status"]) == (JSON, "mfm")
    assert case["flag_sets"] == [[], ["not_ready"]]
    assert case["flags"] == [[1, 0], [1, 1], [1, 0]]
    assert case["reasons"] == {"1": "not_ready: 60 s were not enough"}


def test_intervals_are_distances_in_steps() -> None:
    """200·2^±2.4841: 164.25 below and 919.00 above, in steps of 0.1, outwards."""
    (series,) = document_of(table_of(a_run(1, scattered(JSON, *WIDE))))["series"]
    assert (series["exponent"], series["mean"]) == (-2, [20000])
    assert (series["low"], series["high"]) == ([1643], [9190])


def test_a_dozen_series_per_file() -> None:
    every = dict.fromkeys(columns.TRENDS, 1.0)
    table = table_of(a_run(1, runs.steady_result(runs.make_case(JSON), every)))
    found = data_files.series_files(table)
    assert [len(shard.series) for shard in found[:-1]] == [12] * (len(found) - 1)
    assert sum(len(shard.series) for shard in found) == len(columns.TRENDS)
    assert [table.metrics[metric] for _, metric in found[0].series] == list(HEADLINES)
    assert len({shard.id for shard in found}) == len(found)


def test_years_are_cut_at_new_year() -> None:
    """In UTC: 31 December 23:00 at −02:00 is next year."""
    table = table_of(
        a_run(1, started="2025-12-31T23:59:00+00:00"), a_run(2, started="2025-12-31T23:00:00-02:00")
    )
    found = [(year.year, year.start, year.stop) for year in data_files.years(table)]
    assert found == [(2025, 0, 1), (2026, 1, 2)]


def test_another_night_changes_the_files_of_its_year_as_the_manifest_says(tmp_path: Path) -> None:
    results = tmp_path / "results"
    for run in (a_run(1, started="2025-11-01T03:00:00+00:00"), a_run(2)):
        store.finalise(results, run)
    first, site = built(tmp_path), tmp_path / "site"
    assert first.written == len([p for p in site.rglob("*") if p.is_file()])
    again = built(tmp_path)
    assert (again.written, again.kept) == (0, first.written)
    old = {path.name for path in (site / "series").rglob("2025-*")}
    store.finalise(results, a_run(3))
    built(tmp_path)
    assert {path.name for path in (site / "series").rglob("2025-*")} == old
    assert len(list((site / "series").rglob("2026-*.json"))) == 1
    means = {d["year"]: d["series"][0]["mean"] for d in fetched(site)}
    assert means == {2025: [50000], 2026: [50000, 50000]}
    manifest = json.loads((site / "manifest.json").read_bytes())
    for section in ("series", "nights"):
        for name, by_year in manifest[section].items():
            for year, (digest, size) in by_year.items():
                path = site / section / name / f"{year}-{digest}.json"
                assert path.stat().st_size == size
    path = site / "runs" / f"{a_run(3).id}.json"
    assert store.decode(path.read_bytes(), path.name) == store.rounded(a_run(3))


def test_an_empty_history_has_all_small_files(tmp_path: Path) -> None:
    built(tmp_path)
    names = {
        p.relative_to(tmp_path / "site").as_posix() for p in (tmp_path / "site").rglob("*.json")
    }
    assert {"manifest.json", "overview.json", "index.json", "badge/changes.json"} <= names
    badge = json.loads((tmp_path / "site" / "badge" / "asgi.json").read_bytes())
    assert (badge["schemaVersion"], badge["message"]) == (1, "not measured")


def test_what_cannot_be_read_is_named_and_the_rest_is_shown(tmp_path: Path) -> None:
    results = tmp_path / "results"
    store.finalise(results, a_run(1))
    broken = store.finalise(results, a_run(2))
    broken.write_bytes(b"{")
    built(tmp_path)
    overview_ = json.loads((tmp_path / "site" / "overview.json").read_bytes())
    (problem,) = overview_["problems"]
    assert problem.startswith(f"runs/{runs.MACHINE.id}/2026/{broken.name}: expected a run file")
    assert fetched(tmp_path / "site")[0]["nights"] == 1


def test_a_file_with_other_bytes_is_read_again(tmp_path: Path) -> None:
    results, cache = tmp_path / "results", tmp_path / "cache"
    path = store.finalise(results, a_run(1))
    reading.read(results, cache)
    path.write_bytes(store.encode(a_run(1, steady(JSON, 6000.0), notes=("another",))))
    for _ in range(3):
        (night,) = reading.read(results, cache).nights
        assert night.mean[0, night.header.metrics.index("throughput")] == 6000
        (kept,) = cache.rglob("columns.pickle")
        assert kept.stat().st_mtime > 10**9
        os.utime(kept, (0, 0))
        kept.write_bytes(kept.read_bytes()[:-7])


def test_what_runs_have_in_common_is_kept_once(tmp_path: Path) -> None:
    results, cache = tmp_path / "results", tmp_path / "cache"
    for day in (1, 2):
        store.finalise(results, a_run(day))
    first = reading.read(results, cache).nights
    one, other = reading.read(results, cache).nights
    assert one.header.cases is other.header.cases
    for before, after in zip(first, (one, other), strict=True):
        assert before.header == after.header
        for name in ("mean", "low", "high", "launches"):
            np.testing.assert_array_equal(getattr(before, name), getattr(after, name))


def test_badges_show_figures_of_one_night_only() -> None:
    one, two = steady(JSON), steady(FREE, 6000.0)
    found = overview.badges([table_of(a_run(1, one, two))], ())
    assert found["free-threaded-asgi"]["message"] == "1.20×"
    assert found["asgi"]["message"] == "5,000/s"
    assert found["changes"] == {
        "schemaVersion": 1, "label": "open regressions", "message": "none", "color": "blue",
    }  # fmt: skip
    apart = table_of(a_run(1, one), a_run(2, two))
    assert overview.badges([apart], ())["free-threaded-asgi"]["message"] == "not measured"


def test_the_overview_has_the_newest_figure_of_every_series() -> None:
    table = table_of(
        a_run(1), a_run(2, steady(JSON, 5100.0)), a_run(3).model_copy(update={"results": ()})
    )
    (machine,) = overview.overview([table], (), ())["machines"]
    assert machine["series"] == {
        "case": [0], "metric": [1], "mean": [5100], "low": [5100], "high": [5100],
        "status": "m", "when": [1], "points": [2],
    }  # fmt: skip
    assert machine["cases"] == (JSON,)
    assert machine["newest"]["time"] == "2026-11-03T03:00:00+00:00"


@pytest.mark.parametrize("name", ["../outside.json", "/etc/outside", ""])
def test_nothing_is_written_outside_of_the_site(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="inside the site"):
        Folder(tmp_path).put(name, b"")


def test_hostile_names_are_text_in_the_data(tmp_path: Path) -> None:
    hostile = '<img onerror=alert(1)>"\\\u0000\u2028' + "x" * 10_000
    night = of_run(a_run(1))
    header = replace(night.header, cases=(hostile,), groups=(hostile,), machine="../../" + hostile)
    data.write(Folder(tmp_path), reading.Sources(), history.tables([replace(night, header=header)]))
    (document,) = fetched(tmp_path)
    assert document["cases"][0]["id"] == hostile
    assert all(p.is_relative_to(tmp_path) for p in tmp_path.rglob("*"))
