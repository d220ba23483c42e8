"""Pages of cases: their data files, newest figures and commands."""

import json
from pathlib import Path

import numpy as np
import pytest

import made_up
import site_builds
import synthetic
from anchored_files import OTHER, a_file, of, ratio
from duetbench.core.model import Run
from duetbench.host import files, result_files
from made_up import History
from observatory.show import addresses
from observatory.show.site.pages import case, trends
from observatory.show.site.pages.site import Site
from observatory.store.change import SeriesName
from site_builds import JSON, a_run, failed, scattered

pytestmark = pytest.mark.long

CPU = "server_cpu_per_request"


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> tuple[Site, History]:
    folder = tmp_path_factory.mktemp("past")
    imagined = made_up.imagine(2, 40, seed=11)
    made_up.write(imagined, folder / "results")
    return site_builds.gather_site(folder), imagined


@pytest.fixture(scope="module")
def real(reference_site: Site) -> dict[str, str]:
    return {page.path.removesuffix("index.html"): page.text for page in case.pages(reference_site)}


def test_a_data_file_has_every_night_of_every_series(past: tuple[Site, History]) -> None:
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
    for place, key in enumerate(("mean", "low", "high")):
        exact = table.figures[planned, row, column, place]
        known = np.array([np.nan if one is None else one for one in first[key]])
        np.testing.assert_allclose(known, exact, rtol=5e-5 if key == "mean" else 5e-4)
    for texts in (found["run"], found["status"], found["note"]):
        assert len(texts) == len(planned)
    record = moved[name]
    story = addresses.release("uvloop", "1.3.0")
    moments = {one["time"] for one in found["changes"] if one["href"] == story}
    assert record.when.timestamp() in moments
    html = files[addresses.file(addresses.case(name))]
    assert f'"source": "{addresses.data_file(name)}"' in html
    assert f'href="{"../" * 6}{story}"' in html


def test_figures_have_five_digits_and_gaps_are_null_with_a_reason(tmp_path: Path) -> None:
    nights = (a_run(1), a_run(2, failed()), a_run(3, scattered(JSON, 5100.123456)))
    for night in nights:
        files.save(tmp_path / "results", night)
    site = site_builds.gather_site(tmp_path)
    (table,) = site_builds.data_of(site, JSON)
    (throughput,) = table["metrics"]
    assert throughput["mean"] == [5000.0, None, 5100.1]
    assert throughput["low"] == [5000.0, None, None]
    assert table["launches"] == [3, 0, 1]
    assert table["status"] == ["measured", "failed", "measured"]
    assert table["note"] == ["", "not_ready: 60 s were not enough", ""]
    assert table["run"] == [night.id for night in nights]


def test_every_case_of_every_run_has_a_page(real: dict[str, str], reference_results: Path) -> None:
    measured = {
        addresses.case(result.case.id)
        for path in result_files.runs(reference_results)
        for result in files.read(Run, path).results
    }
    assert measured
    assert measured <= real.keys()


def test_a_case_with_one_point_against_the_anchor_opens_with_its_longer_series(
    tmp_path: Path,
) -> None:
    results = tmp_path / "results"
    for day in (1, 2):
        files.save(results, a_run(day))
    files.save(results, a_file(1, of(JSON, ratio(1.0))))

    def kinds() -> list[str]:
        return [table.kind for table in site_builds.gather_site(tmp_path).cases()[JSON]]

    assert kinds() == ["load", "anchored"]
    files.save(results, a_file(2, of(JSON, ratio(1.0))))
    assert kinds() == ["anchored", "load"]


def test_one_night_has_figures_and_no_chart(tmp_path: Path) -> None:
    for number, drawn in ((1, False), (2, True)):
        files.save(tmp_path / "results", a_run(number))
        pages = {page.path: page.text for page in case.pages(site_builds.gather_site(tmp_path))}
        html = pages[addresses.file(addresses.case(JSON))]
        assert ("data-trend" in html) == drawn
        assert ("One night so far" in html) != drawn
        assert "5,000/s" in html


def test_a_mark_names_a_release_whose_size_is_of_the_charted_figure(tmp_path: Path) -> None:
    """On any interpreter; and a change whose release is not known, on its own series."""
    results = tmp_path / "results"
    for day in (19, 20):
        measured = (ratio(1.0), ratio(1.0, metric="throughput"))
        files.save(results, a_file(day, of(JSON, *measured), of(OTHER, *measured)))
    series = SeriesName(machine="machine-2c", case=JSON, metric=CPU)
    files.save(results, synthetic.change_record(series=series))

    def named(case: str, metric: str) -> list[tuple[str, str]]:
        marks = trends.marks(site_builds.gather_site(tmp_path), case, metric)
        return [(mark["name"], mark["tone"]) for mark in marks]

    assert named(JSON, CPU) == [("granian 2.8.7", "worse")]
    assert named(site_builds.FREE, CPU) == [("granian 2.8.7", "worse")]
    assert named(JSON, "throughput") == named("servers/json/py3.14", CPU) == []
    files.save(results, synthetic.change_record(series=series, culprit=None))
    assert named(JSON, CPU) == [("release not known", "worse")]
    assert named(site_builds.FREE, CPU) == []
