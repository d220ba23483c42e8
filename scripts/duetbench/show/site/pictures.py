"""Pictures of the site for the README, taken with the system's Chromium."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from duetbench.core.errors import SetupError
from duetbench.project.tools import CHROMIUM
from duetbench.show.site.pages import addresses

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Route

_ADDRESS: Final = "http://site.invalid/"
"""Nobody is asked for it: the browser's requests are answered from the folder."""
_LATER: Final = timedelta(hours=5)
"""The browser's clock stands so long after the newest run, so that ages read the same."""


PICTURES: Final = {
    "front": addresses.FRONT,
    "experiment": f"{addresses.experiment('asgi-wsgi')}#figures",
    "users": f"{addresses.experiment('pydantic-v1-v2')}#figures",
}
"""Start of the files' names (`front-light.png`) → what is shown."""


def take(site: Path, docs: Path) -> tuple[Path, ...]:
    """Take all pictures of a built site into a folder, which is made if it is not there.

    SetupError: there is no browser, or a page does not come.
    """
    docs.mkdir(parents=True, exist_ok=True)
    taken = []
    with chromium() as browser:
        for name, address in PICTURES.items():
            for scheme in ("light", "dark"):
                taken.append(docs / f"{name}-{scheme}.png")
                _take(browser, site, address, scheme, taken[-1])
    return tuple(taken)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start the system's Chromium; SetupError: it is not here, or playwright is not."""
    program = CHROMIUM.find()
    if program is None:
        raise SetupError(f"chromium is not here: pictures are taken with it; {CHROMIUM.remedy}")
    try:
        from playwright.sync_api import sync_playwright  # noqa: PLC0415 - for those who develop
    except ImportError as problem:
        raise SetupError("playwright is not installed: `make setup` installs it") from problem
    with sync_playwright() as driver:
        # Root, as in containers, gets no sandbox from Chromium.
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = driver.chromium.launch(
            executable_path=str(program), args=arguments, timeout=180_000
        )
        try:
            yield browser
        finally:
            browser.close()


def _take(browser: Browser, site: Path, address: str, scheme: Any, path: Path) -> None:
    absent: list[str] = []

    def answer(route: Route) -> None:
        name = addresses.file(urlsplit(route.request.url).path.removeprefix("/"))
        if (site / name).is_file():
            route.fulfill(path=site / name)
        else:
            absent.append(name)
            route.fulfill(status=404)

    context = browser.new_context(
        viewport={"width": 1280, "height": 860},
        color_scheme=scheme,
        reduced_motion="reduce",
        locale="en-GB",
        timezone_id="UTC",
    )
    try:
        context.route("**/*", answer)
        page = context.new_page()
        if (now := _newest(site)) is not None:
            page.clock.set_fixed_time(now + _LATER)
        page.goto(_ADDRESS + address, wait_until="networkidle")
        if absent:
            raise SetupError(f"{address}: the site has no {absent[0]}; build it again")
        page.screenshot(path=path)
    finally:
        context.close()


def _newest(site: Path) -> datetime | None:
    machines = json.loads((site / "overview.json").read_bytes())["machines"]
    newest = (machine["newest"]["time"] for machine in machines if machine["kind"] == "load")
    return max(map(datetime.fromisoformat, newest), default=None)
