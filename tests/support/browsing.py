"""A site on loopback, Chromium to open it, and all errors of a page."""

import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect, sync_playwright
from werkzeug import Request, Response
from werkzeug.utils import send_from_directory

from tiny_index import Server

expect.set_options(timeout=20_000)

NewPage = Callable[..., Page]
BROKEN: Final = """(rules) => axe.run({reporter: "no-passes", ...(rules && {runOnly: rules})}).then(
  (found) => found.violations.map((rule) => `${rule.id}: ${rule.nodes[0].html.slice(0, 200)}`))"""
"""The rules that a page breaks, as axe finds them; its whole report would be some megabytes."""
LOOKS: Final = ("color-contrast", "link-in-text-block", "scrollable-region-focusable")
"""Rules that depend on colours and width; axe takes seconds for all."""


@dataclass
class WatchedPage:
    """A page and all its errors.

    Attributes:
        page: The page.
        base: Address of its site.
        troubles: Errors and warnings, as of failed requests, and requests to other hosts.
    """

    page: Page
    base: str
    troubles: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("console", self._on_message)
        self.page.on("pageerror", lambda error: self.troubles.append(f"raised {error}"))
        self.page.on("request", self._on_request)

    def open(self, address: str) -> Page:
        """Open a page of the site and wait until no request is pending."""
        self.page.goto(self.base + address, wait_until="networkidle")
        return self.page

    def _on_message(self, message: Any) -> None:
        if message.type in {"error", "warning"}:
            self.troubles.append(f"{message.type}: {message.text}")

    def _on_request(self, request: Any) -> None:
        if not request.url.startswith((self.base, "data:", f"blob:{self.base}")):
            self.troubles.append(f"asked another host: {request.url}")


def unreadable(page: Page) -> Iterator[str]:
    """List barriers: in light on a screen, in dark on a phone, and at 200 % zoom."""
    themes: tuple[tuple[Literal["light", "dark"], int, tuple[str, ...] | None], ...] = (
        ("light", 1280, None), ("dark", 390, LOOKS)
    )  # fmt: skip
    page.evaluate(Axe().axe_script)
    for scheme, width, rules in themes:
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 844})
        yield from (f"{scheme}: {rule}" for rule in page.evaluate(BROKEN, rules))
        for room in (width, 640):
            page.set_viewport_size({"width": room, "height": 844})
            wide = page.evaluate("document.documentElement.scrollWidth")
            if wide > room:
                yield f"{scheme}: {wide} px wide where there are {room}"


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Serve a folder on loopback, at the address that is returned."""

    def answer(request: Request) -> Response:
        name = re.sub("/$", "/index.html", request.path)
        return send_from_directory(folder, name[1:], request.environ)

    with Server(host="127.0.0.1", threaded=True) as server:
        server.expect_request(re.compile("")).respond_with_handler(answer)
        yield server.url_for("/")


def program() -> Path:
    """Return the system's Chromium; without it the test is skipped, or fails in CI."""
    result = shutil.which("chromium") or shutil.which("chromium-browser")
    if result is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("Debian's chromium is not here")
    return Path(result)


@contextmanager
def browser() -> Iterator[Browser]:
    with sync_playwright() as driver:
        # Root, as in containers, gets no sandbox from Chromium.
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        result = driver.chromium.launch(
            executable_path=str(program()), args=arguments, timeout=180_000
        )
        yield result
        result.close()
