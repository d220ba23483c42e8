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
from PIL import Image
from playwright.sync_api import expect

import browsing
import made_up
import site_builds
from bench import Once
from browsing import NewPage, WatchedPage
from duetbench.host import files
from observatory.show import addresses
from observatory.show.changes import describe
from observatory.store.change import Change
from site_builds import JSON

pytestmark = pytest.mark.real

CASE: Final = "asgi-wsgi/endpoint0/py3.14/w1/c128"
CPU: Final = "server_cpu_per_request"


@dataclass(frozen=True)
class Seen:
    """A site, where it is served, and a change of it."""

    folder: Path
    base: str
    change: Change


@pytest.fixture(scope="module")
def past(once: Once) -> Iterator[Seen]:
    folder = once("past", site_builds.history) / "site"
    records = made_up.records(site_builds.imagine())
    (change,) = (record for record in records if record.status == "open")
    with browsing.serve(folder) as base:
        yield Seen(folder, base, change)


@pytest.fixture
def watched(new_page: NewPage, past: Seen) -> Iterator[WatchedPage]:
    """A page on which nothing goes wrong, but for what a test expects and clears."""
    found = WatchedPage(new_page(), past.base)
    yield found
    assert found.troubles == []


def kinds(past: Seen) -> dict[str, str]:
    return {
        "front": addresses.FRONT,
        "experiment": addresses.experiment("asgi-wsgi"),
        "case": addresses.case(CASE),
        "cases": addresses.CASES,
        "changes": addresses.CHANGES,
        "change": addresses.change(past.change.id),
        "package": addresses.package("fastapi"),
        "release": addresses.release("fastapi", "0.11.0"),
        "comparison": addresses.comparison("20261119T120000Z-compare-bbbbbbbb"),
        "data": addresses.DATA,
        "method": addresses.METHOD,
        "missing": addresses.NOT_FOUND,
    }


MOST: Final = {"front": 250_000, "case": 300_000, "experiment": 250_000}
"""Bytes of a page, compressed; scripts are 14 kB of them. A case has five years of data."""


REST: Final = (
    "cases", "changes", "change", "package", "release", "comparison", "data", "method",
    "missing",
)  # fmt: skip
"""The kinds of which only a thorough look asks axe, for seconds each."""


@pytest.mark.parametrize(
    "kind", [*MOST, *(pytest.param(kind, marks=pytest.mark.thorough) for kind in REST)]
)
def test_every_kind_of_page_can_be_read_by_everybody(
    new_page: NewPage, past: Seen, kind: str
) -> None:
    """No request leaves the host, nothing fails, axe finds nothing in light and in dark.

    Each is the first that somebody opens, and weighs little.
    """
    watched = WatchedPage(new_page(reduced_motion="reduce", color_scheme="light"), past.base)
    page = watched.open(kinds(past)[kind])
    assert [*browsing.unreadable(page), *watched.troubles] == []
    assert kinds(past).keys() == {*MOST, *REST}
    if kind in MOST:
        sizes = browsing.compressed(past.folder, past.base, watched.fetched)
        assert sum(sizes.values()) <= MOST[kind], sizes
        scripts = [size for name, size in sizes.items() if name.endswith(".js")]
        assert 0 < sum(scripts) <= 18_500, sizes


def test_a_trend_s_view_is_in_its_address(watched: WatchedPage, past: Seen) -> None:
    case = addresses.case(CASE)
    page = watched.open(f"{case}?metric=throughput&from=2025-01-01&zebra=1&to=never")
    note = page.locator(".trend-note")
    expect(note).to_contain_text("“zebra=1”")
    expect(note).to_contain_text("“to=never”")
    expect(page).to_have_url(f"{past.base}{case}?metric=throughput&from=2025-01-01")
    expect(page.locator("[name=metric]")).to_have_value("throughput")
    expect(page.locator("#trend figcaption strong")).to_have_text("throughput")
    page.locator("#trend summary").click()
    first = page.locator("#trend tbody tr").first
    expect(first).to_contain_text("/s")
    expect(first.locator("th")).to_have_text(f"{made_up.LAST:%Y-%m-%d}")
    page.locator("[name=metric]").select_option(CPU)
    expect(first).to_contain_text(re.compile(" [mµ]s"))
    page.locator("[name=reset]").click()
    expect(page).to_have_url(past.base + case)


@pytest.mark.parametrize("kind", ["around", "release"])
def test_charts_are_read_with_the_keyboard(watched: WatchedPage, past: Seen, kind: str) -> None:
    record = past.change
    chart, address = {
        "around": ("#around", addresses.change(record.id)),
        "release": ("#endpoint-0-0", addresses.package("fastapi")),
    }[kind]
    page = watched.open(address)
    expect(page.locator(f"{chart} svg").first).to_be_visible()
    page.locator(chart).focus()
    said = page.locator(f"{chart} [role=status]")
    page.keyboard.press("End")
    expect(said).to_contain_text(re.compile(r"20\d\d|0\.11\.0"))
    last = said.inner_text()
    page.keyboard.press("ArrowLeft")
    expect(said).not_to_have_text(last)
    page.keyboard.press("ArrowRight")
    expect(said).to_have_text(last)
    page.keyboard.press("ArrowDown")
    if kind == "release":
        expect(said).to_contain_text("3.14t")
        page.keyboard.press("Enter")
        expect(page).to_have_url(re.compile(r"/p/fastapi/0\.11\.0/$"))
    else:
        expect(said).to_contain_text(re.compile("needs .* (more|less) CPU"))
        page.keyboard.press("Escape")
        expect(said).to_contain_text("Arrow keys")


def test_charts_use_the_width_and_columns_of_text_do_not(new_page: NewPage, past: Seen) -> None:
    """A step names its release at the line; a line of text has 60 to 75 characters."""
    page = WatchedPage(new_page(), past.base).open(addresses.change(past.change.id))
    labels = page.locator("#around text.named")
    release = describe(past.change).release
    for width, wide in ((1280, 1100), (390, 340)):
        page.set_viewport_size({"width": width, "height": 844})
        expect(labels.filter(has_text=release)).to_have_count(1)
        assert page.locator("#around .chart-plot").evaluate("one => one.clientWidth") >= wide
    page.set_viewport_size({"width": 1280, "height": 844})
    page.goto(past.base + addresses.METHOD)
    letters = page.evaluate(
        """[...document.querySelectorAll("main p")].map((one) => [one.textContent.trim().length,
          one.clientHeight / parseFloat(getComputedStyle(one).lineHeight)])
          .filter(([, lines]) => lines > 3).map(([letters, lines]) => letters / (lines - 0.5))"""
    )
    assert 60 <= statistics.median(letters) <= 75, letters


def test_any_two_dates_of_an_anchored_series_are_a_ratio(new_page: NewPage, tmp_path: Path) -> None:
    """1.2 over 1.0, both against one anchor, with the interval of both."""
    for place, ratio in ((1, 1.0), (2, 1.2)):
        one = site_builds.release_points(
            f"0.{place}.0", None, place, gil=(ratio, 0.003), free=(ratio, 0.004)
        )
        night = one.model_copy(update={"release": None, "origin": "night", "night": one.id})
        files.save(tmp_path / "results", night)
    with browsing.serve(site_builds.build(tmp_path)) as base:
        page = WatchedPage(new_page(), base).open(addresses.case(JSON))
        answer = page.locator(".two-dates output")
        # t(10) = 2.228 times 0.003 each, in quadrature: 0.00945 on the logarithm.
        expect(answer).to_have_text(
            "2026-10-02 over 2026-10-01: 1.200 × (95 % interval 1.189…1.211), +20.0 %"
        )
        page.locator("[name=b]").select_option("0")
        expect(answer).to_contain_text("1.000 ×")


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


@pytest.mark.parametrize(("label", "name"), [("PNG", "trend.png"), ("CSV", "trend.csv")])
def test_a_chart_can_be_taken_along(
    new_page: NewPage, past: Seen, tmp_path: Path, label: str, name: str
) -> None:
    watched = WatchedPage(new_page(), past.base)
    page = watched.open(addresses.case(CASE))
    with page.expect_download() as download:
        page.locator("#trend .chart-tools button", has_text=label).click()
    assert download.value.suggested_filename == name
    download.value.save_as(tmp_path / name)
    data = (tmp_path / name).read_bytes()
    if label == "CSV":
        head, *rows = data.decode().split("\r\n")
        assert head == '"series","date","figure","low","high","note"'
        assert len(rows) > 100
    else:
        assert Image.open(tmp_path / name).size[0] > 2000
    assert watched.troubles == []


@pytest.mark.parametrize("scripts", [True, False])
def test_everything_can_be_read_without_javascript(
    scripts: bool, new_page: NewPage, past: Seen
) -> None:
    """With it, no page asks another host or raises an error."""
    watched = WatchedPage(new_page(java_script_enabled=scripts), past.base)
    for kind, address in kinds(past).items():
        page = watched.open(address)
        assert page.locator("h1").inner_text(), kind
        assert len(page.locator("main").inner_text()) > 120, kind
        for chart in page.locator("main figure[data-trend], main figure[data-plot]").all():
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
