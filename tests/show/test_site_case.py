"""Pages of cases: their data files, newest figures and commands."""

import inspect
import json
import math
import re
import shlex
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
from observatory.cli.backfill import backfill_command
from observatory.show import addresses
from observatory.show.site.pages import case, trends
from observatory.show.site.pages import case as case_page
from observatory.show.site.pages.site import Site
from observatory.store.change import SeriesName
from site_builds import JSON, a_run

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
    return {page.address: page.make() for page in case.pages(reference_site)}


def test_a_data_file_has_every_night_of_every_series(past: tuple[Site, History]) -> None:
    site, imagined = past
    (table,) = site.sources.tables
    moved = {one.series.case: one for one in site.changes}
    name = next(one for one in imagined.cases if one in moved)
    files = {addresses.file(page.address): page.make() for page in case.pages(site)}
    document = json.loads(files[addresses.file(addresses.data_file(name))])
    (found,) = document["tables"]
    row = table.row(name)
    planned = np.flatnonzero(table.planned[:, row])
    assert document["case"] == name
    assert found["time"] == [table.nights[night].time for night in planned]
    assert [one["name"] for one in found["metrics"]] == list(trends.metrics(table, name))
    first = found["metrics"][0]
    assert (first["name"], first["better"]) == (CPU, "lower")
    column = table.metrics.index(CPU)
    for place, key in enumerate(("mean", "low", "high")):
        exact = table.figures[planned, row, column, place]
        known = np.array([np.nan if one is None else one for one in first[key]])
        np.testing.assert_allclose(known, exact, rtol=5e-5)
    for texts in (found["run"], found["note"]):
        assert len(texts) == len(planned)
    record = moved[name]
    story = addresses.release("uvloop", "1.3.0")
    moments = {one["time"] for one in found["changes"] if one["href"] == story}
    assert record.when.timestamp() in moments
    html = files[addresses.file(addresses.case(name))]
    assert f'"source": "{addresses.data_file(name)}"' in html
    assert f'href="{"../" * 6}{story}"' in html


def test_every_case_of_every_run_has_a_page(real: dict[str, str], reference_results: Path) -> None:
    measured = {
        addresses.case(result.case.id)
        for path in result_files.runs(reference_results)
        for result in files.read(Run, path).results
    }
    assert measured
    assert measured <= real.keys()


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


def test_a_case_shows_its_ratio_first_and_tells_it_from_its_own_figures(tmp_path: Path) -> None:
    """1.25 ± 2.228 standard errors of 1 % (ten degrees of freedom)."""
    for day, value in ((1, 1.0), (2, 1.0), (3, 1.25)):
        count = ratio(value, se=1e-5, duets=1, metric="instructions")
        points = a_file(day, of(JSON, ratio(value, se=0.01), count))
        files.save(tmp_path / "results", points)
    for day in (18, 19):
        files.save(tmp_path / "results", a_run(day, machine=a_file(1).machine))
    site = site_builds.gather_site(tmp_path)
    pages = {addresses.file(page.address): page.make() for page in case.pages(site)}
    page = pages[addresses.file(addresses.case(JSON))]
    lead = r"compared with the fixed stack A on.*?<strong>1\.250 ×</strong>.*?±2\.3 %"
    assert re.search(lead, page, re.DOTALL)
    assert page.index("Newest ratios to the anchor") < page.index("Newest figures on")
    assert "instructions, counted" in page
    assert "throughput on machine-<wbr>2c:\n<strong>5,000/s</strong>" in page
    (ratios,) = site_builds.data_of(site, JSON)
    assert (ratios["label"], ratios["anchor"]) == ("machine-2c", "A")
    first = ratios["metrics"][0]
    assert (first["name"], first["better"]) == (CPU, "lower")
    assert first["mean"] == [1.0, 1.0, 1.25]
    assert (first["low"][2], first["high"][2]) == pytest.approx(
        (1.25 * math.exp(-0.02228), 1.25 * math.exp(0.02228)), rel=5e-5
    )


SWITCH = "git switch --detach abababababab && observatory setup && "


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
    run = a_run(1).model_copy(update={"profile": profile, "commit": commit})
    assert case_page.point_command(case, run) == expected


def test_the_command_of_a_past_stack_has_options_of_backfill() -> None:
    night = a_file(1, of(JSON, ratio(1.0)))
    _, verb, *options = shlex.split(case_page.point_command("a/b", night))
    assert verb == "backfill"
    assert options[1::2] == ["2026-11-01", "2026-11-01", "a/b"]
    offered = inspect.signature(backfill_command).parameters
    assert {option.removeprefix("--") for option in options[::2]} <= {*offered}
