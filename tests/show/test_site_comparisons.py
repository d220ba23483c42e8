"""Pages of stored comparisons: what the files say, duet by duet, and nothing more."""

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
from duetbench.show import formats
from duetbench.store import files
from duetbench.store.comparison import Comparison

STORED: Final = "20261120T202652Z-compare-1d8b37a3"
FASTAPI: Final = "asgi-wsgi/asgi-json/py3.14/w1/c128"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, reference_results: Path) -> Path:
    folder = tmp_path_factory.mktemp("reference")
    shutil.copytree(reference_results / "comparisons", folder / "results" / "comparisons")
    return site_builds.built(folder)


def put(folder: Path, *stored: Comparison) -> Path:
    for one in stored:
        files.save(folder / "results", one)
    return site_builds.built(folder)


def page_of(site: Path, name: str) -> str:
    return (site / "cmp" / name / "index.html").read_text("utf-8")


def figure_of(html: str, number: int) -> str:
    found = re.search(rf'<figure[^>]* id="duets-{number}".*?</figure>', html, re.DOTALL)
    assert found
    return found[0]


def test_every_duet_is_a_dot_with_the_ratio_of_its_file(
    site: Path, reference_results: Path
) -> None:
    raw = json.loads((reference_results / "comparisons" / f"{STORED}.json").read_bytes())
    assert (site / "cmp" / f"{STORED}.json").read_bytes() == (
        reference_results / "comparisons" / f"{STORED}.json"
    ).read_bytes()
    html = page_of(site, STORED)
    for number, case in enumerate(raw["cases"]):
        duets = sorted(case["duets"], key=lambda one: one["order"])
        ratios = [
            duet["head"]["server_cpu_per_request"] / duet["base"]["server_cpu_per_request"]
            for duet in duets
        ]
        grid = html.partition(f'id="duets-{number}"')[2].partition("Duets of ")[2]
        rows = re.findall(r'<tr><th scope="row">(\d+)</th><td class="number">([^<]+)<', grid)
        assert rows[: len(duets)] == [
            (str(place), formats.percent(ratio)) for place, ratio in enumerate(ratios, 1)
        ]
    first = figure_of(html, 0)
    cpu = first.partition('<th scope="row">CPU/request</th>')[2].partition("</tr>")[0]
    assert cpu.count('class="sample"') == 15, "one duet of sixteen was excluded"
    assert "not used: base: not_steady: the throughput still moved after 517 ms" in html


def test_what_was_found_is_said_as_everywhere(site: Path) -> None:
    text = sites.read(site / "cmp" / STORED / "index.html").text
    assert "128 connections, which needs 20.3 % more CPU per request (19.2…21.5 %)" in text
    assert "56 usable, 6 not: disturbed or failed" in text
    assert "78.7 µs → 91.7 µs" in text
    assert "fastapi 0.139.0 0.163.2" in text
    assert "duetbench compare --stack-as-of 2026-07-01 --stack-as-of locked" in text
    assert "1 × only 1 duet usable: too few to look at" in text
    listed = [link for link in sites.read(site / "cmp" / "index.html").links if "-compare-" in link]
    oldest = [f"../cmp/{STORED}/", "../cmp/20261120T201607Z-compare-1d8b37a3/"]
    assert listed[-2:] == oldest, "the newest comes first"


def test_a_change_and_its_evidence_lead_to_each_other(tmp_path: Path) -> None:
    made = site_builds.compared(FASTAPI)
    files.save(tmp_path / "results", synthetic.change_record(evidence=made.id))
    site = put(tmp_path, made)
    assert f'href="../../cmp/{made.id}/"' in (site / "c/20261120-granian-0/index.html").read_text()
    html = page_of(site, made.id)
    assert 'href="../../c/20261120-granian-0/"' in html
    assert "a/b needs 3.10 % more CPU per request (2.50…3.70 %)" in html
    assert list(sites.dead_links(site)) == []


def test_values_that_make_no_sense_have_a_page_that_says_so(tmp_path: Path) -> None:
    odd = comparing.judged_case(FASTAPI, comparing.SLOWER.model_copy(update={"metric": "no_such"}))
    huge = comparing.SLOWER.model_copy(update={"ratio": 1e308, "low": 1e307, "high": 1.7e308})
    made = [
        site_builds.compared(FASTAPI, cases=(case,), id=f"2026111{n}T120000Z-compare-a")
        for n, case in enumerate((odd, comparing.judged_case(FASTAPI, huge)))
    ]
    site = put(tmp_path, *made)
    assert "cannot be shown" in page_of(site, made[0].id)
    first = sites.read(site / "index.html").text
    assert f"{made[1].id}.json: expected a comparison" in first  # no two figures have such a ratio
    assert f"Comparison {made[0].id}: cannot be shown" in first
    assert list(sites.dead_links(site)) == []
