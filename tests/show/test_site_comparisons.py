"""Pages of comparisons and experiments: what files and declarations say, and nothing more."""

import html
import shutil
from pathlib import Path
from typing import Final

import pytest

import site_builds
import sites
import synthetic
from duetbench.host import files
from observatory.show import addresses
from observatory.show.site.pages import experiment
from observatory.show.site.pages.site import Site

pytestmark = pytest.mark.long

STORED: Final = "20261120T202652Z-compare-1d8b37a3"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, reference_results: Path) -> Path:
    folder = tmp_path_factory.mktemp("reference")
    shutil.copytree(reference_results / "comparisons", folder / "results" / "comparisons")
    return site_builds.build(folder)


def test_sides_are_rows_with_what_moved(site: Path) -> None:
    """Of equal sides and cases the newest comparison counts; releases have pages of their own."""
    page = sites.read(site / "sides" / "index.html")
    assert "uvicorn 0.54.0 → granian 2.8.7" in page.text
    assert "66 % more memory , 16 % less CPU , 18 % more requests per second" in page.text
    assert "Python 3.15, 16 connections CPU per request: same" in page.text
    linked = [link for link in page.links if "-compare-" in link]
    assert "../cmp/20261127T024945Z-compare-d2253892/" in linked
    assert "../cmp/20261126T142030Z-compare-6e1bba24/" not in linked, "it was repeated"
    assert f"../cmp/{STORED}/" not in linked


def test_every_stored_comparison_has_its_page(site: Path) -> None:
    """Also those whose work and wake-ups are judged, in words without a mark."""
    assert "cannot be shown" not in sites.read(site / "index.html").text


@pytest.fixture(scope="module")
def written(reference_site: Site) -> dict[str, str]:
    return {addresses.file(page.address): page.make() for page in experiment.pages(reference_site)}


def test_a_page_answers_its_question_with_figures_of_the_reference_runs(
    written: dict[str, str],
) -> None:
    page = written[addresses.file(addresses.experiment("asgi-wsgi"))]
    assert "With everything else still, what do throughput" in page
    assert "<h1>ASGI json is slower without the GIL</h1>" in page
    said = page.partition('class="says"')[2].partition("</p>")[0]
    assert "Measured here: 0.851 (0.811…0.894) times; published: 0.796." in said
    assert page.index('class="says"') < page.index("<figure"), "one sentence comes first"
    chart = page.partition("<figure")[2].partition("</figure>")[0]
    assert ">0.851</td>" in chart, "the picture has the same figure"
    assert "published 30,415/s" in page.partition("<details")[2]
    assert "WSGI json scales with cores only without the GIL" in page
    assert 'href="../../b/asgi-wsgi/asgi-json/py3.14/w1/c128/"' in page
    assert 'href="../../runs/20261120T110053Z-published-316bba91.json"' in page
    assert "--select 'asgi-wsgi/*'" in html.unescape(page)
    assert "WSGI json scales with cores only" not in chart, "it cannot be asked here"
    assert "holds: by 6 duets on epyc-2c-102dbd, 2026-11-27" in page
    assert 'href="../../cmp/20261127T024548Z-compare-d2253892/"' in page


def test_an_experiment_without_figures_says_so_and_one_lists_its_cases(tmp_path: Path) -> None:
    case = synthetic.make_case("start-up/bare/current/py3.14")
    measured = synthetic.steady_result(case, {"ready_time": 0.4})
    files.save(tmp_path / "results", site_builds.a_run(1, measured))
    site = site_builds.build(tmp_path)
    page = (site / "x/start-up/index.html").read_text("utf-8")
    assert 'href="../../b/start-up/bare/current/py3.14/"' in page
    other = (site / "x/contention/index.html").read_text("utf-8")
    assert ">Not measured yet.<" in other
    assert "not measured: no figures" in other
