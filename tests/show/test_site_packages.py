"""Packages over their releases: what each did, in figures, words and pages."""

import json
import re
from functools import partial
from pathlib import Path
from typing import Final

import pytest

import comparing
import site_builds
import sites
import synthetic
from duetbench.core.comparison import SideRecord
from duetbench.core.metrics import CPU
from duetbench.core.model import Effects, Missing, RequestEffect
from duetbench.host import files
from duetbench.judge.findings import of_effects
from observatory.show.site.pages import story
from observatory.trend.releases import judged
from observatory.trend.table import points, tables
from site_builds import JSON

pytestmark = pytest.mark.long

FIRST, SECOND, THIRD = site_builds.RELEASES

STACK: Final = partial(SideRecord, kind="stack", commit=None, stacks=(), interpreters=())

EFFECTS: Final = Effects(
    differ=(
        *(RequestEffect(kind="sql", text=f"SELECT {n}", base=0, head=3 - n) for n in range(3)),
        *(RequestEffect(kind="exception", text=f"E{n}", base=0, head=1) for n in range(3)),
    ),
    totals={"sql": (2.0, 8.0), "exception": (0.0, 3.0)},
)
OBSERVED: Final = comparing.comparison_of(
    comparing.judged_case(
        JSON, *of_effects(synthetic.make_case(JSON), EFFECTS), effects=EFFECTS
    ),
    id="20261128T000000Z-compare-a", counts_only=True, budget_seconds=None, reproduce="",
    base=STACK(label="fastapi==0.10.0"), head=STACK(label="fastapi==0.11.0"),
)  # fmt: skip
"""What one request does before and after a release: two kinds of effects, of three rows each."""


def test_a_release_that_could_not_be_measured_stands_between_two_and_is_no_base() -> None:
    lost = tuple(Missing(case=case.case, reason="no wheel") for case in SECOND.cases)
    axis = site_builds.axis_of(
        FIRST, SECOND.model_copy(update={"cases": (), "missing": lost}), THIRD
    )
    assert len(axis.releases) == 3
    assert {name: result.base.version for name, result in judged([axis])[axis].items()} == {
        "0.11.0": "0.9.0"
    }
    (table,) = tables(axis.releases)
    assert [point.reason for point in points(table, JSON, CPU)] == ["", "no wheel", ""]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("released")
    results = folder / "results"
    files.save(results, site_builds.a_run(1))
    site_builds.save_releases(results)
    files.save(results, synthetic.change_record())
    files.save(results, site_builds.make_comparison(JSON))
    files.save(results, OBSERVED)
    return site_builds.build(folder)


def test_a_release_says_what_one_request_does_since_then(site: Path) -> None:
    """Without a place in the list of comparisons."""
    page = sites.read(site / "p" / "fastapi" / "0.11.0" / "index.html").text
    seen = page.partition("What one request does")[2].partition("How sure")[0]
    assert "fastapi==0.10.0 → fastapi==0.11.0 Difference" in seen
    sent = "SQL statements 2 → 8 +3 × SELECT 0; +2 × SELECT 1; +1 × SELECT 2"
    assert f"{sent} exceptions raised 0 → 3 +1 × E0; +1 × E1; +1 × E2" in seen
    whole = sites.read(site / "cmp" / OBSERVED.id / "index.html").text
    assert "≠ different: A JSON response from FastAPI sends 8 SQL statements instead of 2" in whole
    assert OBSERVED.id not in (site / "sides" / "index.html").read_text()
    other = sites.read(site / "p" / "granian" / "2.8.7" / "index.html").text
    assert "What one request does" not in other


def test_a_change_says_what_one_request_does_in_its_evidence(tmp_path: Path) -> None:
    """Nothing where nothing differs; the newest look at a case counts."""
    made = OBSERVED.model_copy(update={"base": STACK(label="old"), "head": STACK(label="new")})
    files.save(tmp_path / "results", made)
    files.save(tmp_path / "results", synthetic.change_record(evidence=made.id))
    site_builds.save_releases(tmp_path / "results")
    site = site_builds.gather_site(tmp_path)
    (quote,) = (quote for quote in site.quotes.values() if quote.package == "fastapi")
    seen = story.request_table(site, None, made.id)
    assert seen is not None
    assert (seen.comparison.id, len(seen.rows)) == (made.id, 2)
    assert story.request_table(site, quote) is None
    calm = comparing.judged_case(JSON, effects=Effects()).case
    later = OBSERVED.model_copy(
        update={"id": "20261129T000000Z-compare-a", "cases": (calm,), "findings": ()}
    )
    files.save(tmp_path / "results", OBSERVED)
    assert story.request_table(site_builds.gather_site(tmp_path), quote) is not None
    files.save(tmp_path / "results", later)
    assert story.request_table(site_builds.gather_site(tmp_path), quote) is None


def test_pages_say_what_moved_and_what_could_have_been_seen(site: Path) -> None:
    def text(name: str) -> str:
        return sites.read(site / "p" / name / "index.html").text.replace("/ ", "/")

    assert list(sites.dead_links(site)) == []
    listed = text("")
    served = "A JSON response from FastAPI"
    assert f"fastapi 0.11.0 15 Oct 2026 {served} 20 % more CPU (19…21 %)" in listed
    assert "granian 2.8.7 20 Nov 2026 a/b 3.1 % more CPU (2.5…3.7 %)" in listed
    assert "2 of 3 releases did something" in listed
    package = text("fastapi")
    assert "fastapi: 1 of 2 releases did something" in package
    charted = "A JSON response from FastAPI on Granian, Python 3.14, 128 connections"
    assert "2026-10-15 0.11.0 1.200 ×" in package.partition(charted)[2]
    assert "and 1 more of 2 cases since 0.10.0" in package, "0.10.1 may have done it"
    assert "0.10.0 8 Oct 2026 no change of 4.3 % or more in 2 cases" in package
    assert not (site / "p" / "fastapi" / "0.10.0").exists(), "there is nothing to tell"
    assert not (site / "p" / "uvloop").exists()
    release = text("fastapi/0.11.0")
    assert "fastapi 0.11.0 needs 20 % more CPU for a JSON response ▼ worse" in release
    assert "a release in between may have caused this" in release
    again = f"observatory compare --base fastapi==0.10.0 --head fastapi==0.11.0 --select {JSON}"
    assert again in release
    tried = "--head fastapi==0.11.0 \\ --app shop.main:app --path /items/7"
    assert f"duetbench compare \\ --base fastapi==0.10.0 \\ {tried}" in release
    assert "starlette 1.8.0 → 1.15.0" in release, "what came with it"
    sure = release.partition("How sure: 4 measurements, one answer")[2]
    assert "▼ worse +20 % +19…+21 %" in sure.partition("The same, in other ways")[0]
    assert "▼ worse +9 %" in sure.partition("The same, in other ways")[2]
    assert "2 of 2 cases moved" in release
    assert re.search(r"In each case, a change of \d.* % would have been seen", release)
    assert "from the search for the cause" in text("granian/2.8.7")


def test_a_chart_names_the_releases_that_moved_what_it_shows(site: Path) -> None:
    """Without a size: of a line of all packages it would not be the step."""
    html = (site / "p" / "fastapi" / "index.html").read_text("utf-8")
    (config,) = re.findall(r'<script type="application/json">(.*?)</script>', html)
    (line,) = json.loads(config)["document"]["tables"]
    assert line["run"] == ["0.9.0", "0.10.0", "0.11.0"]
    assert line["metrics"][0]["mean"] == pytest.approx([1.0, 1.0, 1.2])
    finding = "fastapi 0.11.0 needs 20 % more CPU (19…21 %) for a JSON response"
    (mark,) = line["changes"]
    assert (mark["name"], mark["tone"], mark["label"]) == ("0.11.0", "worse", finding)
    assert (mark["time"], mark["href"]) == (line["time"][2], "p/fastapi/0.11.0/")
    release = (site / "p" / "fastapi" / "0.11.0" / "index.html").read_text("utf-8")
    assert f'name="description" content="{finding}."' in release


def test_a_change_leads_to_its_release(site: Path) -> None:
    about = sites.read(site / "c" / "20261120-granian-0" / "index.html")
    assert "../../p/granian/2.8.7/" in about.links
