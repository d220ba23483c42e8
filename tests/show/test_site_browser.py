"""The site in Chromium: the pages of a small world, as people use them."""

import re
from collections.abc import Iterator
from typing import Final

import pytest
from playwright.sync_api import expect

import browsing
import sites
from bench import Once
from browsing import NewPage, WatchedPage
from duetbench.core.metrics import CPU
from observatory.show import addresses

pytestmark = [pytest.mark.real, pytest.mark.thorough]

CASE: Final = addresses.case(sites.JSON)
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


@pytest.fixture(scope="module")
def base(once: Once) -> Iterator[str]:
    """Where a site is served."""
    with browsing.serve(once("world", sites.build_world) / "site") as address:
        yield address


@pytest.fixture
def watched(new_page: NewPage, base: str) -> Iterator[WatchedPage]:
    """A page on which nothing goes wrong, but for what a test expects and clears."""
    actual = WatchedPage(new_page(reduced_motion="reduce", color_scheme="light"), base)
    yield actual
    assert actual.troubles == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_page_can_be_read_by_everybody(
    watched: WatchedPage, new_page: NewPage, kind: str
) -> None:
    """No request leaves the host, nothing fails, axe finds nothing in light and in dark.

    None needs scripts.
    """
    page = watched.open(KINDS[kind])
    assert [*browsing.unreadable(page)] == []
    plain = WatchedPage(new_page(java_script_enabled=False), watched.base).open(KINDS[kind])
    for shown, scripted in ((page, True), (plain, False)):
        assert shown.locator("h1").inner_text()
        assert len(shown.locator("main").inner_text()) > 120
        for chart in shown.locator("main figure[data-trend]").all():
            assert chart.locator("tbody tr").first.is_visible() is not scripted
            assert chart.locator(".chart-plot").is_visible() is scripted


def test_the_choice_of_a_figure_is_in_the_address(watched: WatchedPage) -> None:
    page = watched.open(f"{CASE}?metric=instructions")
    expect(page.locator("[name=metric]")).to_have_value("instructions")
    expect(page.locator("#trend figcaption strong")).to_contain_text("instructions")
    page.locator("#trend summary").click()
    first = page.locator("#trend tbody tr").first
    expect(first).to_contain_text("×")
    expect(first.locator("th")).to_have_text("2026-11-03")
    page.locator("[name=metric]").select_option(CPU)
    expect(page).to_have_url(watched.base + CASE)
    page = watched.open(f"{CASE}?metric=zebra")
    expect(page.locator("[name=metric]")).to_have_value(CPU)
    # 1.25 over 1, both against one anchor: 2.228 · √2 · 1 % is 0.0315 on the logarithm.
    whole = "2026-11-01 to 2026-11-03: +25.0 % (+21.1…+29.0 %)"
    expect(page.locator("#trend [role=status]")).to_contain_text(whole)


def test_charts_use_the_width_and_are_read_with_the_keyboard(watched: WatchedPage) -> None:
    """A line names its releases."""
    page = watched.open(FASTAPI)
    chart, output = page.locator("#trend"), page.locator("#trend [role=status]")
    mark = chart.locator(".chart-marks a").first
    for width, wide in ((390, 340), (1280, 1100)):
        page.set_viewport_size({"width": width, "height": 844})
        expect(mark).to_have_text("0.11.0")
        expect(mark).to_be_visible()
        drawn = f"document.querySelector('#trend canvas')?.clientWidth >= {wide}"
        page.wait_for_function(drawn)  # it is drawn again for the new width
    chart.focus()
    page.keyboard.press("End")
    expect(output).to_have_text(re.compile(r"2026-10-15: 0\.11\.0: \+20\.0 % \(.*\)"))
    page.keyboard.press("ArrowLeft")
    expect(output).to_contain_text("0.10.0")
    mark.click()
    expect(page).to_have_url(LEADS_THERE)


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
