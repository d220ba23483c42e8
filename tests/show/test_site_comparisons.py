"""Pages of comparisons and experiments: what files and declarations say, and nothing more."""

import html
import json
import re
import shutil
from pathlib import Path
from typing import Final

import pytest

import comparing
import site_builds
import sites
import synthetic
from duetbench.core.comparison import Comparison
from duetbench.host import files
from duetbench.report import formats
from observatory.show import addresses
from observatory.show.site.pages import experiment
from observatory.show.site.pages.site import Site

pytestmark = pytest.mark.long

STORED: Final = "20261120T202652Z-compare-1d8b37a3"
FASTAPI: Final = "asgi-wsgi/asgi-json/py3.14/w1/c128"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, reference_results: Path) -> Path:
    folder = tmp_path_factory.mktemp("reference")
    shutil.copytree(reference_results / "comparisons", folder / "results" / "comparisons")
    return site_builds.build(folder)


def put(folder: Path, *stored: Comparison) -> Path:
    for one in stored:
        files.save(folder / "results", one)
    return site_builds.build(folder)


def page_of(site: Path, name: str) -> str:
    return (site / "cmp" / name / "index.html").read_text("utf-8")


def test_every_duet_is_a_dot_with_the_ratio_of_its_file(
    site: Path, reference_results: Path
) -> None:
    raw = json.loads((reference_results / "comparisons" / f"{STORED}.json").read_bytes())
    assert (site / "cmp" / f"{STORED}.json").read_bytes() == (
        reference_results / "comparisons" / f"{STORED}.json"
    ).read_bytes()
    html = page_of(site, STORED)
    for case in raw["cases"]:
        duets = sorted(case["duets"], key=lambda one: one["order"])
        ratios = [
            duet["head"]["server_cpu_per_request"] / duet["base"]["server_cpu_per_request"]
            for duet in duets
        ]
        grid = html.partition(f'aria-label="Duets of {case["case"]["id"]}"')[2].partition(
            "</table"
        )[0]
        rows = re.findall(r'<tr><th scope="row">(\d+)</th><td [^>]*class="number">([^<]+)<', grid)
        assert rows == [
            (str(place), formats.change(ratio)) for place, ratio in enumerate(ratios, 1)
        ]
    (cpu,) = re.findall(r"<tr>(?:(?!</tr>).)*78\.7 → 91\.7 µs.*?</tr>", html)
    assert cpu.count('class="sample"') == 15, "one duet of sixteen was excluded"
    assert "not used: base: not_steady: the throughput still moved after 517 ms" in html


def test_what_was_found_is_said_as_everywhere(site: Path) -> None:
    text = sites.read(site / "cmp" / STORED / "index.html").text
    assert "128 connections needs 20 % more CPU per request" in text
    assert "56 pairs (both sides at the same time) in 10 min 23 s; 6 more not used" in text
    assert "fastapi 0.139.0 0.163.2" in text
    assert "observatory compare --base as-of=2026-07-01" in text


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


def test_a_change_leads_to_its_evidence(tmp_path: Path) -> None:
    made = site_builds.make_comparison(FASTAPI)
    files.save(tmp_path / "results", synthetic.change_record(evidence=made.id))
    site = put(tmp_path, made)
    assert f'href="../../../cmp/{made.id}/"' in (site / "p/granian/2.8.7/index.html").read_text()
    assert list(sites.dead_links(site)) == []


def test_values_that_make_no_sense_are_left_out_and_said(tmp_path: Path) -> None:
    huge = comparing.WORSE.model_copy(update={"ratio": 1e308, "low": 1e307, "high": 1.7e308})
    made = comparing.comparison_of(comparing.judged_case(FASTAPI, huge), id="20261110T120000Z-a")
    site = put(tmp_path, made)
    first = sites.read(site / "index.html").text
    assert f"{made.id}.json: expected a comparison" in first  # no two figures have such a ratio
    assert not (site / "cmp" / made.id).exists()
    assert list(sites.dead_links(site)) == []


def test_every_stored_comparison_has_its_page(site: Path) -> None:
    """Also those whose work and wake-ups are judged, in words without a mark."""
    assert "cannot be shown" not in sites.read(site / "index.html").text


@pytest.fixture(scope="module")
def written(reference_site: Site) -> dict[str, str]:
    return {page.path: page.text for page in experiment.pages(reference_site)}


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
    assert "not measured: no figures of" in other
