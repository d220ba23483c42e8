"""Case pages: the trend that is drawn, launches, and what scripts are told."""

import json
import re
from pathlib import Path

import pytest

import made_up
import site_builds
import synthetic as runs
from duetbench.core.flags import Flag, FlagName
from duetbench.core.metrics import METRICS
from duetbench.core.model import CaseResult, Launch
from duetbench.show.site.pages import addresses, case, trace, trends
from duetbench.show.site.pages.site import Site
from duetbench.store import store
from duetbench.trend.summary import RunSummary, summarise
from made_up import Imagined

CPU = "server_cpu_per_request"


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> tuple[Site, Imagined]:
    folder = tmp_path_factory.mktemp("past")
    imagined = made_up.imagine(2, 40, seed=11)
    made_up.write(imagined, folder / "results")
    return site_builds.gathered(folder), imagined


@pytest.fixture(scope="module")
def real(reference_site: Site) -> dict[str, str]:
    made = case.pages(reference_site)
    return {page.path.removesuffix("index.html"): page.html for page in made}


def test_every_format_of_the_registry_has_a_name_for_scripts() -> None:
    names = {trends.format_name(name) for name in METRICS}
    assert names <= {"seconds", "rate", "size", "share", "cores", "count", "significant"}
    assert trends.format_name("instructions") == "instructions"


def test_a_page_shows_the_newest_nights_of_its_first_metric(past: tuple[Site, Imagined]) -> None:
    """The cost of a request; 400 of all nights."""
    site, imagined = past
    (table,) = site.tables.values()
    name = imagined.cases[0]
    assert trends.metrics(table, name)[0] == CPU
    data = trends.trend("../", table, site.events[table.machine, "load"], site.changes, name, CPU)
    assert len(data.points) == trends.RECENT
    assert data.points[-1].run == table.nights[-1].run
    assert re.search(r"The newest 400 of [67]\d\d nights", data.about.caption)
    assert data.bumps
    assert {point.href for point in data.points} <= {
        f"../{addresses.run(night.run)}" for night in table.nights
    }


def test_what_scripts_are_told_leads_to_files_that_exist(past: tuple[Site, Imagined]) -> None:
    site, imagined = past
    moved = {one.series.case: one for one in site.changes}
    name = next(one for one in imagined.cases if one in moved)
    pages = {page.path: page for page in case.pages(site)}
    html = pages[addresses.file(addresses.case(name))].html
    found = re.search(r'<script type="application/json" id="trend-data">(.*?)</script>', html)
    assert found is not None
    told = json.loads(found[1])
    (machine,) = told["machines"]
    (table,) = site.tables.values()
    assert told["case"] == name
    assert [one["name"] for one in machine["metrics"]] == list(trends.metrics(table, name))
    assert machine["nights"] in site.manifest["nights"]
    assert set(machine["shards"]) == {one["name"] for one in machine["metrics"]}
    assert set(machine["shards"].values()) <= set(site.manifest["series"])
    record = moved[name]
    assert machine["stack"] == record.base.stack
    (change,) = [one for one in machine["changes"] if one["time"] == record.when.timestamp()]
    assert change["ratio"] == record.ratio
    assert change["href"].endswith(addresses.change(record.id))
    assert f'href="{"../" * 6}{addresses.change(record.id)}"' in html


def test_every_series_is_in_the_table_of_newest_figures(real: dict[str, str]) -> None:
    page = real["b/asgi-wsgi/asgi-json/py3.14/w1/c128/"]
    assert "Core time of the whole server process tree per answered request." in page
    rows = re.findall(r'<th scope="row"><a href="\?([^"]*)#over-time">([^<]*)</a>', page)
    assert rows[0] == ("", METRICS[CPU].title)
    assert ("metric=throughput", "throughput") in rows
    assert "closed loop, 128 connections" in page
    assert "duetbench anchor play --select asgi-wsgi/asgi-json/py3.14/w1/c128<" in page
    assert "git switch --detach 6c82073da040" in page
    without_anchor = real["b/asgi-wsgi/asgi-json/py3.14/w2/c256/"]
    assert "duetbench run --profile published" in without_anchor
    assert "git switch --detach 316bba911551" in without_anchor


def test_a_point_of_a_past_date_says_how_it_was_measured(reference_site: Site) -> None:
    header = reference_site.headers["20261124T124111Z-backfill-221461"]
    assert trace.again(header, "asgi-wsgi/asgi-json/py3.14/w1/c128") == (
        "duetbench backfill --from 2025-10-15 --to 2025-10-15 "
        "--select asgi-wsgi/asgi-json/py3.14/w1/c128"
    )


def test_a_case_without_a_trend_has_a_page_that_says_so(real: dict[str, str]) -> None:
    page = real["b/asgi-wsgi/asgi-json/py3.14/w2/c256/"]
    assert "No trend: the runs that trends are made of do not measure this case." in page
    assert 'href="../../../../../../runs/20261120T110053Z-published-316bba91/"' in page
    assert "trend-data" not in page
    assert "duetbench run --profile published" in page


def test_every_case_of_every_run_has_a_page(real: dict[str, str], reference_results: Path) -> None:
    measured = {
        addresses.case(result.case.id)
        for path in store.runs(reference_results)
        for result in store.load(path).results
    }
    assert measured
    assert measured <= real.keys()


def summary_of(*launches: Launch) -> RunSummary:
    return summarise(runs.make_run([CaseResult(case=runs.make_case("a/b"), launches=launches)]))


def test_each_launch_is_a_mark() -> None:
    noisy = Flag(name=FlagName.HOST_NOISE, detail="x")
    summary = summary_of(
        runs.ok("a/b", 0, {CPU: 1e-4}),
        runs.ok("a/b", 1, {CPU: 2e-4}, noisy),
        runs.failed("a/b", 2, FlagName.NOT_READY, "60 s were not enough"),
    )
    chart = case.launch_chart([summary], "a/b", CPU, lambda run: f"../runs/{run}/")
    assert chart is not None
    assert [mark.say for mark in chart.wide.marks] == [
        "nightly, 2026-11-20, launch 1: 100 µs",
        "nightly, 2026-11-20, launch 2: 200 µs, not judged, host_noise",
        "nightly, 2026-11-20, launch 3: no figure: failed: not_ready: 60 s were not enough",
    ]
    assert chart.wide.marks[0].href == f"../runs/{summary.run.id}/"


def test_one_launch_is_no_distribution() -> None:
    summary = summary_of(runs.ok("a/b", 0, {CPU: 1e-4}))
    assert case.launch_chart([summary], "a/b", CPU, lambda run: run) is None
