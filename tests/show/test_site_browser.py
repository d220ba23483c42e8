"""The site in Chromium: five made-up years, whose change points are planted, and a small world."""

import re
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import expect

import browsing
import made_up
import site_builds
from bench import Once
from browsing import NewPage, WatchedPage
from duetbench.core.metrics import CPU
from observatory.show import addresses

pytestmark = [pytest.mark.real, pytest.mark.thorough]

CASE: Final = addresses.case("asgi-wsgi/endpoint0/py3.14/w1/c128")
FASTAPI: Final = addresses.package("fastapi")
RELEASE: Final = addresses.release("fastapi", "0.11.0")
LEADS_THERE: Final = re.compile(r"/p/fastapi/0\.11\.0/$")
KINDS: Final = {
    "front": addresses.FRONT,
    "experiment": addresses.experiment("asgi-wsgi"),
    "case": CASE,
    "releases": addresses.PACKAGES,
    "package": FASTAPI,
    "release": RELEASE,
    "comparison": addresses.comparison("20261119T120000Z-compare-bbbbbbbb"),
    "sides": addresses.SIDES,
    "experiments": addresses.EXPERIMENTS,
}
MOST: Final = {"front": 250_000, "case": 300_000, "experiment": 250_000}
"""Bytes of a page, compressed; scripts are 30 kB of them. A case has five years of data."""


@pytest.fixture(scope="module")
def past(once: Once) -> Iterator[tuple[Path, str]]:
    """A site, and where it is served."""
    folder = once("past", site_builds.history) / "site"
    with browsing.serve(folder) as base:
        yield folder, base


@pytest.fixture
def watched(new_page: NewPage, past: tuple[Path, str]) -> Iterator[WatchedPage]:
    """A page on which nothing goes wrong, but for what a test expects and clears."""
    actual = WatchedPage(new_page(reduced_motion="reduce", color_scheme="light"), past[1])
    yield actual
    assert actual.troubles == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_page_can_be_read_by_everybody(
    watched: WatchedPage, new_page: NewPage, past: tuple[Path, str], kind: str
) -> None:
    """No request leaves the host, nothing fails, axe finds nothing in light and in dark.

    Each is the first that somebody opens, and weighs little; none needs scripts.
    """
    page = watched.open(KINDS[kind])
    assert [*browsing.unreadable(page)] == []
    if kind in MOST:
        sizes = browsing.compressed(*past, watched.fetched)
        assert sum(sizes.values()) <= MOST[kind], sizes
        scripts = [size for name, size in sizes.items() if name.endswith(".js")]
        assert 0 < sum(scripts) <= 33_000, sizes
    plain = WatchedPage(new_page(java_script_enabled=False), past[1]).open(KINDS[kind])
    for shown, scripted in ((page, True), (plain, False)):
        assert shown.locator("h1").inner_text()
        assert len(shown.locator("main").inner_text()) > 120
        for chart in shown.locator("main figure[data-trend]").all():
            assert chart.locator("tbody tr").first.is_visible() is not scripted
            assert chart.locator(".chart-plot").is_visible() is scripted


def test_the_choice_of_a_figure_is_in_the_address(watched: WatchedPage) -> None:
    page = watched.open(f"{CASE}?metric=throughput")
    expect(page.locator("[name=metric]")).to_have_value("throughput")
    expect(page.locator("#trend figcaption strong")).to_contain_text("throughput")
    page.locator("#trend summary").click()
    first = page.locator("#trend tbody tr").first
    expect(first).to_contain_text("×")
    expect(first.locator("th")).to_have_text(f"{made_up.LAST:%Y-%m-%d}")
    page.locator("[name=metric]").select_option(CPU)
    expect(page).to_have_url(watched.base + CASE)
    page = watched.open(f"{CASE}?metric=zebra")
    expect(page.locator("[name=metric]")).to_have_value(CPU)


def test_charts_use_the_width_and_are_read_with_the_keyboard(watched: WatchedPage) -> None:
    """A line names its releases; a line of text has 60 to 75 characters."""
    page = watched.open(FASTAPI)
    chart, output = page.locator("#trend"), page.locator("#trend [role=status]")
    for width, wide in ((390, 340), (1280, 1100)):
        page.set_viewport_size({"width": width, "height": 844})
        expect(chart.locator(".chart-marks a")).to_have_text("0.11.0")
        expect(chart.locator(".chart-marks li")).to_be_visible()
        drawn = f"document.querySelector('#trend canvas')?.clientWidth >= {wide}"
        page.wait_for_function(drawn)  # it is drawn again for the new width
    chart.focus()
    page.keyboard.press("End")
    expect(output).to_have_text(re.compile(r"2026-10-15: 0\.11\.0: \+20\.0 % \(.*\)"))
    page.keyboard.press("ArrowLeft")
    expect(output).to_contain_text("0.10.0")
    chart.locator(".chart-marks a").click()
    expect(page).to_have_url(LEADS_THERE)
    letters = page.evaluate(
        """[...document.querySelectorAll("main p")].map((one) => [one.textContent.trim().length,
          one.clientHeight / parseFloat(getComputedStyle(one).lineHeight)])
          .filter(([, lines]) => lines >= 2).map(([letters, lines]) => letters / (lines - 0.5))"""
    )
    assert 55 <= statistics.median(letters) <= 75, letters


def test_the_visible_part_of_a_series_is_a_ratio(new_page: NewPage, tmp_path: Path) -> None:
    """1.25 over 1, both against one anchor: 2.228 · √2 · 1 % is 0.0315 on the logarithm."""
    site_builds.world(tmp_path)
    with browsing.serve(site_builds.build(tmp_path)) as base:
        page = WatchedPage(new_page(), base).open(addresses.case(site_builds.JSON))
        expect(page.locator("#trend [role=status]")).to_contain_text(
            "2026-11-01 to 2026-11-03: +25.0 % (+21.1…+29.0 %)"
        )


def test_a_page_is_searched_and_copied_from(watched: WatchedPage) -> None:
    page = watched.open("")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.keyboard.press("/")
    page.keyboard.type("fastapi 0.11.0")
    hit = page.locator("dialog.search a").first
    expect(hit).to_contain_text("fastapi 0.11.0 needs 20 % more CPU")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page).to_have_url(LEADS_THERE)
    page.locator(".card .copy").click()
    expect(page.locator(".card .copy")).to_have_text("Copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert "--head fastapi==0.11.0 \\\n    --app shop.main:app" in copied


def test_a_chart_that_cannot_be_drawn_leaves_its_table(watched: WatchedPage) -> None:
    watched.page.route("**/uPlot.iife.min.js", lambda route: route.fulfill(body=""))
    page = watched.open(CASE)
    expect(page.locator("#trend [role=status]")).to_contain_text("could not be drawn")
    expect(page.locator("#trend tbody tr").first).to_be_visible()
    watched.troubles.clear()
