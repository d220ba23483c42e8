"""Experiment pages: declared charts, answers beside what was published, and where it comes from."""

import html
import re
from pathlib import Path

import pytest

import site_builds
import synthetic
from duetbench.core.errors import FlagName
from duetbench.core.model import CaseResult, Flag
from observatory.show import addresses
from observatory.show.site.pages import experiment
from observatory.show.site.pages.site import Site

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def site(reference_site: Site) -> Site:
    return reference_site


@pytest.fixture(scope="module")
def written(site: Site) -> dict[str, str]:
    return {page.path: page.text for page in experiment.pages(site)}


def page_of(written: dict[str, str], name: str) -> str:
    return written[addresses.file(addresses.experiment(name))]


def test_a_page_answers_its_question_with_figures_of_the_reference_runs(
    written: dict[str, str],
) -> None:
    page = page_of(written, "asgi-wsgi")
    assert "With everything else still, what do throughput" in page
    assert "<h1>ASGI json is slower without the GIL</h1>" in page
    said = page.partition('class="says"')[2].partition("</p>")[0]
    assert re.search(r"18 statements: holds \d+", said)
    assert page.index('class="says"') < page.index("<figure"), "one sentence comes first"
    assert "published 30,415/s" in page
    assert page.index("<figure") < page.index(">Every statement<"), "then its picture"
    assert "WSGI json scales with cores only without the GIL" in page
    assert 'href="../../b/asgi-wsgi/asgi-json/py3.14/w1/c128/"' in page
    assert 'href="../../runs/20261120T110053Z-published-316bba91.json"' in page
    assert "--select 'asgi-wsgi/*'" in html.unescape(page)
    assert "holds: by 6 duets on epyc-2c-102dbd, 2026-11-27" in page
    assert 'href="../../cmp/20261127T024548Z-compare-d2253892/"' in page
    inside = page_of(written, "pydantic-v1-v2")
    assert "validating 20 services gains clearly more" in inside


def test_one_dot_is_no_picture(tmp_path: Path) -> None:
    names = ("start-up/bare/current/py3.14", "start-up/bare/current/py3.14t")
    for day in (1, 2):
        cases = (synthetic.make_case(name) for name in names[:day])
        measured = (synthetic.steady_result(case, {"ready_time": 0.4}) for case in cases)
        site_builds.save_run(tmp_path / "results", site_builds.a_run(day, *measured))
        page = (site_builds.build(tmp_path) / "x/start-up/index.html").read_text("utf-8")
        assert page.count('<figure class="chart"') == day - 1
        assert "A start (uvicorn, one process)" in page
    other = (tmp_path / "site/x/contention/index.html").read_text("utf-8")
    assert other.index(">Not measured yet.<") < other.index(">Every statement<")


def test_a_chart_shows_the_figures_of_one_day(tmp_path: Path) -> None:
    """Twice as fast the day after, in fewer cases; then in as many, which were disturbed."""
    names = [f"contention/wsgi-private/py3.14{t}" for t in ("/t1", "/t2", "t/t1", "t/t2")]
    noise = Flag(name=FlagName.HOST_NOISE, detail="0.3 cores")
    for day, cases, launches, flags in ((1, 4, 3, ()), (2, 2, 8, ()), (3, 4, 8, (noise,))):
        figures = {"throughput": day * 1000.0}
        results = [
            CaseResult(
                case=synthetic.make_case(name),
                launches=tuple(synthetic.ok(name, n, figures, *flags) for n in range(launches)),
            )
            for name in names[:cases]
        ]
        site_builds.save_run(tmp_path / "results", site_builds.a_run(day, *results))
    page = (site_builds.build(tmp_path) / "x/contention/index.html").read_text("utf-8")
    chart = page.partition('<figure class="chart"')[2].partition("</figure>")[0]
    assert {*re.findall(r"[123],000", chart)} == {"1,000"}
    assert "server and generator on all cores. Measured 2026-11-01." in chart
