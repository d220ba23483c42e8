"""The site in Chromium: years of nights on one machine, and one run on another.

The histories are made up, their change points planted; the pages are those that anybody would see.
"""

import re
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import pytest
from playwright.sync_api import expect

import browsing
import made_up
import site_builds
from bench import Once
from browsing import NewPage, WatchedPage
from duetbench.host import files
from observatory.show import addresses
from site_builds import JSON

pytestmark = [pytest.mark.real, pytest.mark.thorough]

CASE: Final = "asgi-wsgi/endpoint0/py3.14/w1/c128"
CPU: Final = "server_cpu_per_request"


@dataclass(frozen=True)
class Seen:
    """A site, and where it is served."""

    folder: Path
    base: str


@pytest.fixture(scope="module")
def past(once: Once) -> Iterator[Seen]:
    folder = once("past", site_builds.history) / "site"
    with browsing.serve(folder) as base:
        yield Seen(folder, base)


@pytest.fixture
def watched(new_page: NewPage, past: Seen) -> Iterator[WatchedPage]:
    """A page on which nothing goes wrong, but for what a test expects and clears."""
    found = WatchedPage(new_page(), past.base)
    yield found
    assert found.troubles == []


def kinds() -> dict[str, str]:
    return {
        "front": addresses.FRONT,
        "experiment": addresses.experiment("asgi-wsgi"),
        "case": addresses.case(CASE),
        "releases": addresses.PACKAGES,
        "package": addresses.package("fastapi"),
        "release": addresses.release("fastapi", "0.11.0"),
        "comparison": addresses.comparison("20261119T120000Z-compare-bbbbbbbb"),
        "sides": addresses.SIDES,
        "experiments": addresses.EXPERIMENTS,
        "missing": addresses.NOT_FOUND,
    }


MOST: Final = {"front": 250_000, "case": 300_000, "experiment": 250_000}
"""Bytes of a page, compressed; scripts are 30 kB of them. A case has five years of data."""


REST: Final = (
    "releases", "package", "release", "comparison", "sides", "experiments", "missing",
)  # fmt: skip
"""The kinds whose pages may have any size."""


@pytest.mark.parametrize("kind", [*MOST, *REST])
def test_every_kind_of_page_can_be_read_by_everybody(
    new_page: NewPage, past: Seen, kind: str
) -> None:
    """No request leaves the host, nothing fails, axe finds nothing in light and in dark.

    Each is the first that somebody opens, and weighs little.
    """
    watched = WatchedPage(new_page(reduced_motion="reduce", color_scheme="light"), past.base)
    page = watched.open(kinds()[kind])
    assert [*browsing.unreadable(page), *watched.troubles] == []
    assert kinds().keys() == {*MOST, *REST}
    if kind in MOST:
        sizes = browsing.compressed(past.folder, past.base, watched.fetched)
        assert sum(sizes.values()) <= MOST[kind], sizes
        scripts = [size for name, size in sizes.items() if name.endswith(".js")]
        assert 0 < sum(scripts) <= 33_000, sizes


def test_the_choice_of_a_figure_is_in_the_address(watched: WatchedPage, past: Seen) -> None:
    case = addresses.case(CASE)
    page = watched.open(f"{case}?metric=throughput")
    expect(page.locator("[name=metric]")).to_have_value("throughput")
    expect(page.locator("#trend figcaption strong")).to_contain_text("throughput")
    page.locator("#trend summary").click()
    first = page.locator("#trend tbody tr").first
    expect(first).to_contain_text("×")
    expect(first.locator("th")).to_have_text(f"{made_up.LAST:%Y-%m-%d}")
    page.locator("[name=metric]").select_option(CPU)
    expect(page).to_have_url(past.base + case)
    page = watched.open(f"{case}?metric=zebra")
    expect(page.locator("[name=metric]")).to_have_value(CPU)


def test_charts_are_read_with_the_keyboard(watched: WatchedPage) -> None:
    page = watched.open(addresses.package("fastapi"))
    chart, said = page.locator("#releases"), page.locator("#releases [role=status]")
    expect(chart.locator("canvas")).to_be_visible()
    chart.focus()
    page.keyboard.press("End")
    expect(said).to_have_text(re.compile(r"2026-10-15: 0\.11\.0: \+20\.0 % \(.*\)"))
    page.keyboard.press("ArrowLeft")
    expect(said).to_contain_text("0.10.0")
    page.locator("#releases .chart-marks a").click()
    expect(page).to_have_url(re.compile(r"/p/fastapi/0\.11\.0/$"))


def test_charts_use_the_width_and_columns_of_text_do_not(new_page: NewPage, past: Seen) -> None:
    """A line names its releases; a line of text has 60 to 75 characters."""
    page = WatchedPage(new_page(), past.base).open(addresses.package("fastapi"))
    for width, wide in ((1280, 1100), (390, 340)):
        page.set_viewport_size({"width": width, "height": 844})
        expect(page.locator("#releases .chart-marks a")).to_have_text("0.11.0")
        expect(page.locator("#releases .chart-marks li")).to_be_visible()
        assert page.locator("#releases canvas").evaluate("one => one.clientWidth") >= wide
    page.set_viewport_size({"width": 1280, "height": 844})
    page.goto(past.base + addresses.release("fastapi", "0.11.0"))
    letters = page.evaluate(
        """[...document.querySelectorAll("main p")].map((one) => [one.textContent.trim().length,
          one.clientHeight / parseFloat(getComputedStyle(one).lineHeight)])
          .filter(([, lines]) => lines >= 2).map(([letters, lines]) => letters / (lines - 0.5))"""
    )
    assert 55 <= statistics.median(letters) <= 75, letters


def test_the_visible_part_of_an_anchored_series_is_a_ratio(
    new_page: NewPage, tmp_path: Path
) -> None:
    """1.2 over 1.0, both against one anchor, with the interval of both."""
    for place, ratio in ((1, 1.0), (2, 1.2)):
        one = site_builds.release_points(
            f"0.{place}.0", None, place, gil=(ratio, 0.003), free=(ratio, 0.004)
        )
        night = one.model_copy(update={"release": None, "origin": "night", "night": one.id})
        files.save(tmp_path / "results", night)
    with browsing.serve(site_builds.build(tmp_path)) as base:
        page = WatchedPage(new_page(), base).open(addresses.case(JSON))
        # t(10) = 2.228 times 0.003 each, in quadrature: 0.00945 on the logarithm.
        expect(page.locator("#trend [role=status]")).to_contain_text(
            "2026-10-01 to 2026-10-02: +20.0 % (+18.9…+21.1 %)"
        )


def test_a_page_is_searched_copied_from_and_drawn_in_another_theme(
    new_page: NewPage, past: Seen
) -> None:
    watched = WatchedPage(new_page(), past.base)
    page = watched.open("")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.keyboard.press("/")
    page.keyboard.type("fastapi 0.11.0")
    hit = page.locator("dialog.search a").first
    expect(hit).to_contain_text("fastapi 0.11.0 needs 20 % more CPU")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/p/fastapi/0\.11\.0/$"))
    page.locator(".card .copy").click()
    expect(page.locator(".card .copy")).to_have_text("Copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert "--head fastapi==0.11.0 \\\n    --app shop.main:app" in copied
    paper = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(paper)
    page.locator("button.theme").click()
    page.locator("button.theme").click()
    dark = page.evaluate(paper)
    assert dark != light
    watched.open("")
    assert page.evaluate(paper) == dark, "the choice stays"
    assert watched.troubles == []


@pytest.mark.parametrize("scripts", [True, False])
def test_everything_can_be_read_without_javascript(
    scripts: bool, new_page: NewPage, past: Seen
) -> None:
    """With it, no page asks another host or raises an error."""
    watched = WatchedPage(new_page(java_script_enabled=scripts), past.base)
    for kind, address in kinds().items():
        page = watched.open(address)
        assert page.locator("h1").inner_text(), kind
        assert len(page.locator("main").inner_text()) > 120, kind
        for chart in page.locator("main figure[data-trend]").all():
            assert chart.locator("tbody tr").first.is_visible() is not scripts, kind
            assert chart.locator(".chart-plot").is_visible() is scripts, kind
    assert watched.troubles == []


@pytest.mark.parametrize("how", ["missing", "damaged"])
def test_a_file_that_is_missing_or_damaged_is_told(
    watched: WatchedPage, how: Literal["missing", "damaged"]
) -> None:
    page = watched.page
    body = {"missing": "", "damaged": '{"format": 3, "tables": ['}[how]
    status = 404 if how == "missing" else 200
    page.route("**/data.json", lambda route: route.fulfill(status=status, body=body))
    watched.open(addresses.case(CASE))
    expect(page.locator("#trend [role=status]")).to_contain_text(f"is {how}")
    expect(page.locator("#trend tbody tr").first).to_be_visible()
    watched.troubles.clear()
