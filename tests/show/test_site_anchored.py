"""Anchored trends on the site: ratios with intervals, marks, and own figures apart from them."""

import json
import re
from pathlib import Path

import pytest

import site_builds
import sites
import synthetic as runs
from anchored_files import CASE, CPU, OTHER, a_file, of, ratio
from duetbench.show.site.pages import addresses, case, run, trends
from duetbench.show.site.pages.site import Site
from duetbench.store import points as records
from duetbench.store.change import SeriesName

OWN = "s own figures: "
INSIDE = "inprocess/routing.Route.time_call/py3.14"


def points(results: Path) -> None:
    """Two days as of which, and a night with another kernel."""
    for day, value, kernel in ((1, 1.0, "6.1"), (2, 1.0, "6.1"), (3, 1.25, "6.2")):
        found = a_file(
            day,
            of(CASE, ratio(value, se=0.01), ratio(value, se=1e-5, duets=1, metric="instructions")),
            of(INSIDE, ratio(2.0, metric="seconds")),
            kernel=kernel,
            origin="night" if day == 3 else "backfill",
        )
        records.save(results, found)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Own figures on the same machine, and on another one."""
    folder = tmp_path_factory.mktemp("both")
    points(folder / "results")
    machine = a_file(1).machine
    for day in (18, 19):
        site_builds.stored(folder / "results", site_builds.a_run(day, machine=machine))
    return folder


@pytest.fixture(scope="module")
def site(both: Path) -> Site:
    return site_builds.gathered(both)


@pytest.fixture(scope="module")
def page(site: Site) -> str:
    pages = {page.path: page.html for page in case.pages(site)}
    return pages[addresses.file(addresses.case(CASE))]


def test_a_case_shows_its_ratio_first_and_its_own_figures_below(page: str) -> None:
    # 1.25 ± 2.228 standard errors of 1 % (ten degrees of freedom): 1.222 to 1.278.
    lead = r"times that of the anchor</a> A:\s*<strong>1\.250 ×</strong>.*?±2\.3 %"
    assert re.search(lead, page)
    assert page.index("Against the anchor A") < page.index(OWN)
    assert "CPU/request, times the anchor&#39;s" in page
    assert "instructions/request" in page
    assert "duetbench anchor play --select" in page


def test_another_kernel_is_a_mark_and_does_not_interrupt_the_line(page: str) -> None:
    chart = page[page.index("Against the anchor A") : page.index(OWN)]
    assert "machine: kernel 6.1 → kernel 6.2" in chart
    assert "not comparable with before" not in chart
    assert "95 % interval over duets" in chart
    assert "current: fastapi 1.2 → 1.3" in chart
    (line, *_) = re.findall(r'class="line trend-line" d="([^"]*)"', chart)
    assert line.count("M") == 1


def test_scripts_tell_ratios_from_own_figures_of_the_same_machine(site: Site, page: str) -> None:
    found = re.search(r'id="trend-data">(.*?)</script>', page)
    assert found is not None
    ratios, own = json.loads(found[1])["machines"]
    assert (ratios["id"], own["id"]) == ("machine-2c-anchored", "machine-2c")
    assert ratios["label"] == "machine-2c, against the anchor A"
    assert ratios["metrics"][0] == {
        "name": CPU, "title": "CPU/request, times the anchor's", "format": "×",
    }  # fmt: skip
    assert ratios["nights"] in site.manifest["nights"]


def test_data_files_have_ratios_without_a_unit(both: Path, site: Site) -> None:
    file = next(one for one in site.shards["machine-2c", "anchored"] if one.group == CASE)
    ((_, (digest, _)),) = site.manifest["series"][file.id].items()
    document = json.loads(next((both / "gathered").rglob(f"*-{digest}.json")).read_text())
    series = {one["metric"]: one for one in document["series"]}
    assert (series[CPU]["unit"], series[CPU]["better"]) == ("1", "lower")
    means = [steps * 10 ** series[CPU]["exponent"] for steps in series[CPU]["mean"]]
    assert means == pytest.approx([1.0, 1.0, 1.25], rel=1e-4)
    raw = (both / "gathered" / addresses.points_file("03-night-machine-2c-2")).read_text()
    assert json.loads(raw)["anchor"] == "A"


def test_a_stack_has_a_page_of_its_ratios(site: Site) -> None:
    pages = {page.path: page.html for page in run.pages(site)}
    page = pages[addresses.file(addresses.run("03-night-machine-2c-2"))]
    assert "against the" in page
    assert "CPU/request 1.250 ×" in page
    assert "time 2.000 ×" in page
    assert "compare/" not in page.partition("<main")[2]
    assert addresses.points_file("03-night-machine-2c-2") in page


def test_a_site_of_points_alone_has_no_dead_link(tmp_path: Path) -> None:
    points(tmp_path / "results")
    records.save(tmp_path / "results", a_file(4, of(OTHER, ratio(1.0)), machine="other-4c"))
    sites.made(tmp_path)
    assert list(sites.dead_links(tmp_path / "site")) == []
    page = (tmp_path / "site" / addresses.file(addresses.case(CASE))).read_text()
    assert "own figures" not in page


def test_around_a_change_is_the_series_that_it_was_found_in(site: Site) -> None:
    name = SeriesName(machine="machine-2c", case=CASE, metric="throughput")
    for table in site.tables.values():
        record = runs.change_record(series=name, after_run=table.nights[-1].run)
        found = trends.around(site, record)
        assert found is not None
        assert found[0].kind == table.kind
