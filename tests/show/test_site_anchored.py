"""Anchored trends on the site: ratios with intervals, marks, and own figures apart from them."""

import math
import re
from pathlib import Path

import pytest

import site_builds
from anchored_files import CASE, CPU, a_file, of, ratio
from duetbench.host import files
from observatory.show import addresses
from observatory.show.site.pages import case
from observatory.show.site.pages.site import Site


def points(results: Path) -> None:
    """Two days as of which, and a night."""
    for day, value in ((1, 1.0), (2, 1.0), (3, 1.25)):
        found = a_file(
            day,
            of(CASE, ratio(value, se=0.01), ratio(value, se=1e-5, duets=1, metric="instructions")),
            origin="night" if day == 3 else "backfill",
        )
        files.save(results, found)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Own figures on the same machine, and on another one."""
    folder = tmp_path_factory.mktemp("both")
    points(folder / "results")
    machine = a_file(1).machine
    for day in (18, 19):
        files.save(folder / "results", site_builds.a_run(day, machine=machine))
    return folder


@pytest.fixture(scope="module")
def site(both: Path) -> Site:
    return site_builds.gather_site(both)


@pytest.fixture(scope="module")
def page(site: Site) -> str:
    pages = {page.path: page.text for page in case.pages(site)}
    return pages[addresses.file(addresses.case(CASE))]


def test_a_case_shows_its_ratio_first_and_its_own_figures_below(page: str) -> None:
    # 1.25 ± 2.228 standard errors of 1 % (ten degrees of freedom): 1.222 to 1.278.
    lead = (
        r"CPU per request, compared with the fixed stack A on.*?<strong>1\.250 ×</strong>.*?±2\.3 %"
    )
    assert re.search(lead, page, re.DOTALL)
    assert page.index("Newest ratios to the anchor") < page.index("Newest figures on")
    assert "instructions, counted" in page
    assert "observatory anchor run --select" in page


def test_data_files_tell_ratios_from_own_figures_of_the_same_machine(site: Site) -> None:
    ratios, own = site_builds.data_of(site, CASE)
    assert [(table["label"], table["kind"], table["anchor"]) for table in (ratios, own)] == [
        ("machine-2c", "anchored", "A"), ("machine-2c", "load", None),
    ]  # fmt: skip
    first = ratios["metrics"][0]
    title = "CPU per request, compared with the fixed stack"
    assert (first["name"], first["title"]) == (CPU, title)
    assert (first["unit"], first["format"], first["better"]) == ("1", "×", "lower")
    assert first["mean"] == [1.0, 1.0, 1.25]
    assert (first["low"][2], first["high"][2]) == pytest.approx(
        (1.25 * math.exp(-0.02228), 1.25 * math.exp(0.02228)), rel=5e-5
    )
