"""Pages of cases: their data files, newest figures and commands; lists of cases."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import made_up
import site_builds
import sites
import synthetic as runs
from duetbench.core.metrics import METRICS
from duetbench.show import addresses
from duetbench.show.site import words
from duetbench.show.site.pages import case, trends
from duetbench.show.site.pages.site import Site
from duetbench.store import store
from made_up import Imagined
from site_builds import FREE, JSON, a_run, failed, scattered, steady

CPU = "server_cpu_per_request"


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> tuple[Site, Imagined]:
    folder = tmp_path_factory.mktemp("past")
    imagined = made_up.imagine(2, 40, seed=11)
    made_up.write(imagined, folder / "results")
    return site_builds.gathered(folder), imagined


@pytest.fixture(scope="module")
def real(reference_site: Site) -> dict[str, str]:
    return {page.path.removesuffix("index.html"): page.text for page in case.pages(reference_site)}


def test_every_format_of_the_registry_has_a_name_for_scripts() -> None:
    names = {trends.format_name(name) for name in METRICS}
    assert names <= {"seconds", "rate", "size", "share", "cores", "count", "significant"}
    assert trends.format_name("instructions") == "instructions"


def test_a_data_file_has_every_night_of_every_series(past: tuple[Site, Imagined]) -> None:
    site, imagined = past
    (table,) = site.tables.values()
    moved = {one.series.case: one for one in site.changes}
    name = next(one for one in imagined.cases if one in moved)
    files = {page.path: page.text for page in case.pages(site)}
    document = json.loads(files[addresses.file(addresses.data_file(name))])
    (found,) = document["tables"]
    row = table.cases.index(name)
    planned = np.flatnonzero(table.status[:, row])
    assert document["case"] == name
    assert found["time"] == [table.nights[night].time for night in planned]
    assert [one["name"] for one in found["metrics"]] == list(trends.metrics(table, name))
    first = found["metrics"][0]
    assert (first["name"], first["unit"], first["better"]) == (CPU, "s", "lower")
    column = table.metrics.index(CPU)
    for key, block in (("mean", table.mean), ("low", table.low), ("high", table.high)):
        exact = block[planned, row, column]
        known = np.array([np.nan if one is None else one for one in first[key]])
        np.testing.assert_allclose(known, exact, rtol=5e-5 if key == "mean" else 5e-4)
    for key in ("run", "status", "note", "file"):
        assert len(found[key]) == len(planned)
    record = moved[name]
    (change,) = [one for one in found["changes"] if one["time"] == record.when.timestamp()]
    assert change["href"] == addresses.change(record.id)
    assert found["bumps"]
    html = files[addresses.file(addresses.case(name))]
    assert f'"source": "{addresses.data_file(name)}"' in html
    assert f'href="{"../" * 6}{addresses.change(record.id)}"' in html


def test_figures_have_five_digits_and_gaps_are_null_with_a_reason(tmp_path: Path) -> None:
    nights = (a_run(1), a_run(2, failed()), a_run(3, scattered(JSON, 5100.123456)))
    for night in nights:
        site_builds.stored(tmp_path / "results", night)
    site = site_builds.gathered(tmp_path)
    document = trends.document(site, JSON, site.cases()[JSON], ())
    (table,) = document["tables"]
    (throughput,) = table["metrics"]
    assert throughput["mean"] == [5000.0, None, 5100.1]
    assert throughput["low"] == [5000.0, None, None]
    assert throughput["launches"] == [3, 0, 1]
    assert table["status"] == ["measured", "failed", "measured"]
    assert table["note"][1] == "not_ready: 60 s were not enough"
    assert table["file"][0] == f"runs/{nights[0].id}.json"


def test_every_series_is_in_the_table_of_newest_figures(real: dict[str, str]) -> None:
    page = real["b/asgi-wsgi/asgi-json/py3.14/w1/c128/"]
    assert "Core time of the whole server process tree per answered request." in page
    table = page.partition("Newest figures on")[2]
    rows = re.findall(r'<tr><th scope="row">([^<]*)</th>', table)
    assert rows[0] == METRICS[CPU].title
    assert "throughput" in rows
    assert "closed loop, 128 connections" in page
    assert "duetbench anchor play --select asgi-wsgi/asgi-json/py3.14/w1/c128<" in page
    assert "git switch --detach 6c82073da040" in page
    without_anchor = real["b/asgi-wsgi/asgi-json/py3.14/w2/c256/"]
    assert "duetbench run --profile published" in without_anchor
    assert "git switch --detach 316bba911551" in without_anchor


def test_a_point_of_a_past_date_says_how_it_was_measured(reference_site: Site) -> None:
    header = reference_site.headers["20261124T124111Z-backfill-221461"]
    assert words.point_command(header, JSON) == (
        f"duetbench backfill --from 2025-10-15 --to 2025-10-15 --select {JSON}"
    )


def test_a_case_without_a_trend_has_a_page_that_says_so(real: dict[str, str]) -> None:
    page = real["b/asgi-wsgi/asgi-json/py3.14/w2/c256/"]
    assert "No trend: the runs that trends are made of do not measure this case." in page
    assert 'href="../../../../../../runs/20261120T110053Z-published-316bba91.json"' in page
    assert "data-trend" not in page
    assert "duetbench run --profile published" in page


def test_every_case_of_every_run_has_a_page(real: dict[str, str], reference_results: Path) -> None:
    measured = {
        addresses.case(result.case.id)
        for path in store.runs(reference_results)
        for result in store.load(path).results
    }
    assert measured
    assert measured <= real.keys()


def test_the_longest_series_comes_first_and_siblings_may_stand_beside(tmp_path: Path) -> None:
    other = runs.MACHINE.model_copy(update={"id": "a-first-by-name"})
    for day in (1, 2, 3):
        site_builds.stored(tmp_path / "results", a_run(day, steady(JSON), steady(FREE)))
    site_builds.stored(tmp_path / "results", a_run(4, machine=other))
    site = site_builds.built(tmp_path)
    page = (site / addresses.file(addresses.case(JSON))).read_text()
    document = json.loads((site / addresses.file(addresses.data_file(JSON))).read_bytes())
    assert [table["machine"] for table in document["tables"]] == [runs.MACHINE.id, other.id]
    assert f'"source": "{addresses.data_file(FREE)}"' in page.partition('"siblings"')[2]


def test_crumbs_lead_from_a_case_to_its_endpoint_and_from_there_to_the_experiment(
    tmp_path: Path,
) -> None:
    for day in (1, 2):
        site_builds.stored(tmp_path / "results", a_run(day, steady(JSON), steady(FREE)))
    site = site_builds.built(tmp_path)
    listed = "asgi-wsgi/asgi-json"
    page = sites.read(site / addresses.file(addresses.case(JSON)))
    assert f"../../../../../../{addresses.prefix(listed)}" in page.links
    variants = (site / addresses.file(addresses.prefix(listed))).read_text()
    assert variants.count('class="spark"') == 2
    assert "5,000/s" in variants
    links = sites.read(site / addresses.file(addresses.prefix(listed))).links
    assert "../../../x/asgi-wsgi/" in links
    every = sites.read(site / addresses.file(addresses.prefix("asgi-wsgi")))
    assert f"../../{addresses.prefix(listed)}" in every.links


def test_cases_whose_ids_are_short_or_odd_keep_their_pages(tmp_path: Path) -> None:
    names = ("one", "one/two", "one/two/three", "<i>/x/y")
    for day in (1, 2):
        site_builds.stored(tmp_path / "results", a_run(day, *map(steady, names)))
    site = site_builds.built(tmp_path)
    for name in names:
        page = (site / addresses.file(addresses.case(name))).read_text()
        assert 'id="over-time"' in page, name
    assert list(sites.dead_links(site)) == []
