"""The trend of a case in a browser: zoom, hover, other figures, and what its table then says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Page, expect

import browsing
import made_up
import site_builds
from browsing import NewPage, Watched
from servebench.site.pages import addresses

CASE = made_up.imagine(1.6, 20, seed=4).cases[0]
PERIOD = timedelta(days=90)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("trend")
    made_up.write(made_up.imagine(1.6, 20, seed=4), folder / "results")
    with browsing.served(site_builds.built(folder)) as address:
        yield address


@pytest.fixture
def watched(new_page: NewPage, base: str) -> Iterator[Watched]:
    found = Watched(new_page(width=1000), base)
    yield found
    assert found.troubles == []


def opened(watched: Watched, query: str = "") -> Page:
    watched.page.goto(watched.base + addresses.case(CASE) + query, wait_until="networkidle")
    expect(watched.page.locator("#trend canvas")).to_be_visible()
    return watched.page


def dates(page: Page) -> list[str]:
    return re.findall(r"(?:from|to)=(\d{4}-\d\d-\d\d)", page.url)


def test_dragging_zooms_and_a_double_click_goes_back(watched: Watched) -> None:
    """The middle half of a year: about 90 days after its beginning, about 90 before its end."""
    page = opened(watched)
    box = page.locator("#trend .u-over").bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] / 4, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 3 / 4, middle, steps=5)
    page.mouse.up()
    expect(page).to_have_url(re.compile(r"\?from=\d{4}-\d\d-\d\d&to=\d{4}-\d\d-\d\d$"))
    begin, end = (datetime.fromisoformat(date).replace(tzinfo=UTC) for date in dates(page))
    newest = made_up.LAST
    for found, wanted in ((newest - end, PERIOD), (end - begin, 2 * PERIOD)):
        assert abs(found - wanted) < timedelta(days=8)
    expect(page.locator("[name=from]")).to_have_value(f"{begin:%Y-%m-%d}")
    page.reload(wait_until="networkidle")
    assert dates(page) == [f"{begin:%Y-%m-%d}", f"{end:%Y-%m-%d}"]
    page.locator("#trend .u-over").dblclick()
    expect(page).to_have_url(watched.base + addresses.case(CASE))


def test_the_pointer_says_what_is_under_it(watched: Watched) -> None:
    page = opened(watched)
    page.locator("#trend .u-over").hover()
    tip = page.locator(".trend-tip")
    expect(tip).to_contain_text(re.compile(r"20\d\d-\d\d-\d\d: .*( [mµ]s|no figure)"))
    page.locator("#trend .u-over").click()
    said = page.locator("#trend > [role=status]")
    expect(said).to_contain_text(tip.inner_text())
    said.locator("a").click()
    expect(page).to_have_url(re.compile(r"/runs/[^/]+/$"))


def test_another_figure_has_its_own_title_axis_and_table(watched: Watched) -> None:
    page = opened(watched)
    page.locator("#trend summary").click()
    first = page.locator("#trend tbody tr").first
    expect(first).to_contain_text(re.compile(" [mµ]s"))
    page.locator("[name=metric]").select_option("throughput")
    expect(page.locator("#trend figcaption strong")).to_have_text("throughput")
    expect(first).to_contain_text("/s")
    expect(first.locator("th")).to_have_text(f"{made_up.LAST:%Y-%m-%d}")
    assert page.locator("#trend tbody tr").count() == 150
    link = first.locator("a").get_attribute("href")
    assert link is not None
    assert link.startswith(f"{watched.base}runs/{made_up.LAST:%Y%m%dT%H%M%S}Z-")


def test_only_the_years_that_are_shown_are_fetched(watched: Watched) -> None:
    """A year back needs this year's file and the last one's; 90 days need this year's alone."""
    page = opened(watched)

    def years() -> set[str]:
        return {
            address.rsplit("/", 1)[1][:4] for address in watched.fetched if "/series/" in address
        }

    assert years() == {"2025", "2026"}
    page.locator("[name=span]").select_option("90d")
    expect(page).to_have_url(re.compile(r"\?span=90d$"))
    watched.fetched.clear()
    page.goto(f"{watched.base}{addresses.case(CASE)}?span=90d", wait_until="networkidle")
    expect(page.locator("#trend canvas")).to_be_visible()
    assert years() <= {"2026"}


def test_the_plot_is_as_high_as_the_picture_was(watched: Watched) -> None:
    page = watched.page
    page.route("**/manifest.json", lambda route: route.abort())
    page.goto(watched.base + addresses.case(CASE), wait_until="networkidle")
    expect(page.locator(".trend-note")).to_contain_text("manifest.json cannot be reached")
    height = page.locator("#trend .chart-plot").evaluate("plot => plot.clientHeight")
    watched.troubles.clear()  # that the manifest was not there
    page.unroute("**/manifest.json")
    page.locator("[name=span]").select_option("90d")
    expect(page.locator("#trend canvas")).to_be_visible()
    expect(page.locator("#trend .chart-plot")).to_be_hidden()
    assert page.locator(".trend-live").evaluate("plot => plot.clientHeight") == height
    expect(page.locator(".trend-note")).to_be_empty()
