"""Odd sites in Chromium, every page of them: no results, one night, and hostile strings."""

from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

import browsing
import site_builds
from browsing import NewPage, Watched
from duetbench.show.site.pages import addresses

pytestmark = pytest.mark.real
PHONE = {"width": 390, "height": 844}


def crawled(page: Page, site: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    with browsing.served(site) as base:
        watched = Watched(page, base)
        for file in sorted(site.rglob("*.html")):
            name = file.relative_to(site).as_posix()
            watched.open(quote(name.removesuffix("index.html"), safe="/(),=+@'~"))
            planted = page.evaluate(
                "document.querySelectorAll('img, iframe, [onerror], [onload], main script:not("
                '[type="application/json"])\').length'
            )
            problems = [f"{planted} elements of others"] if planted else []
            if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                problems.append("wider than the page")
            if not page.locator("h1").inner_text():
                problems.append("no heading")
            if problems := [*problems, *watched.troubles]:
                found[name] = problems
            watched.troubles.clear()
    return found


def test_an_empty_history_is_a_site(new_page: NewPage, tmp_path: Path) -> None:
    site = site_builds.nothing(tmp_path)
    assert crawled(new_page(**PHONE), site) == {}
    told = {
        "": "Nothing has been measured yet.",
        "c/": "No change is open.",
        "compare/": "Nothing has been measured yet.",
        "runs/": "Nothing has been measured yet.",
        "machines/": "No machine has measured anything yet.",
    }
    for name, sentence in told.items():
        assert sentence in (site / name / "index.html").read_text("utf-8")


def test_one_night_is_a_site(new_page: NewPage, tmp_path: Path) -> None:
    site = site_builds.one_night(tmp_path)
    assert crawled(new_page(**PHONE), site) == {}
    with browsing.served(site) as base:
        page = Watched(new_page(**PHONE), base).open("b/asgi-wsgi/asgi-json/py3.14/w1/c128/")
        page.locator("#trend").focus()
        page.keyboard.press("ArrowRight")
        expect(page.locator("#trend [role=status]")).to_contain_text("200 µs")
        page.goto(f"{base}compare/")
        expect(page.locator("#compare-says")).to_contain_text("Nothing can be compared yet")


def test_hostile_strings_are_text(new_page: NewPage, tmp_path: Path) -> None:
    """In every field: nothing runs, and names of 10 kB make no page wider than a phone."""
    site = site_builds.hostile(tmp_path)
    assert crawled(new_page(**PHONE), site) == {}
    with browsing.served(site) as base:
        watched = Watched(new_page(**PHONE), base)
        page = watched.open(addresses.change("20261119-hostile-0"))
        for text in site_builds.HOSTILE[:4]:
            expect(page.locator("main")).to_contain_text(text)
        watched.open(f"{addresses.COMPARE}?show=all")
        expect(page.locator("#compare-rows")).to_contain_text(site_builds.HOSTILE[0])
