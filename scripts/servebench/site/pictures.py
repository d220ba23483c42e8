"""Pictures of the site for the README, and whether they still show what the site shows.

Beside the pictures stands what the browser fetched for each of them, with digests: a page that
would look otherwise by now has other files, which is found without a browser (`stale`).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from servebench.errors import SetupError
from servebench.site.pages import addresses
from servebench.toolchain.packages import CHROMIUM

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Route

RECORD: Final = "pictures.json"
AGAIN: Final = "take them again with `servebench dev pictures`"

_ADDRESS: Final = "http://site.invalid/"
"""Nobody is asked for it: the browser's requests are answered from the folder."""
_STATIC: Final = re.compile(r"static/[0-9a-f]+/")
_STATIC_BYTES: Final = re.compile(_STATIC.pattern.encode())
_LATER: Final = timedelta(hours=5)
"""The browser's clock stands so long after the newest run, so that ages read the same."""


@dataclass(frozen=True, slots=True)
class Picture:
    """One view of the site, in light and in dark.

    Attributes:
        name: Of its files: `front-light.png`, `front-dark.png`.
        address: What is shown.
        height: Of the window, px.
    """

    name: str
    address: str
    height: int = 860


PICTURES: Final = (
    Picture("front", addresses.FRONT),
    Picture("experiment", f"{addresses.experiment('asgi-wsgi')}#figures"),
    Picture("users", f"{addresses.experiment('pydantic-v1-v2')}#figures"),
)
SCHEMES: Final = ("light", "dark")
WIDTH: Final = 1280


def take(site: Path, docs: Path) -> tuple[Path, ...]:
    """Take all pictures, and note what they show.

    Args:
        site: A built site.
        docs: Folder of the pictures; made if it is not there.

    Returns:
        The pictures.

    Raises:
        SetupError: There is no browser, or a page does not come.
    """
    docs.mkdir(parents=True, exist_ok=True)
    taken, record = [], {}
    with chromium() as browser:
        for picture in PICTURES:
            files: dict[str, str] = {}
            for scheme in SCHEMES:
                path = docs / f"{picture.name}-{scheme}.png"
                _take(browser, site, picture, scheme, path, files)
                taken.append(path)
            record[picture.name] = {
                "address": picture.address,
                "height": picture.height,
                "files": dict(sorted(files.items())),
            }
    text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    (docs / RECORD).write_text(text, "utf-8")
    return tuple(taken)


def stale(site: Path, docs: Path) -> tuple[str, ...]:
    """Why the pictures do not show this site; nothing if they do.

    Args:
        site: A built site.
        docs: Folder of the pictures.
    """
    try:
        record = json.loads((docs / RECORD).read_text("utf-8"))
    except (OSError, ValueError):
        return (f"{docs / RECORD} is missing or damaged; {AGAIN}",)
    found = [
        f"{docs / name} is missing; {AGAIN}"
        for picture in PICTURES
        for name in (f"{picture.name}-{scheme}.png" for scheme in SCHEMES)
        if not (docs / name).is_file()
    ]
    for picture in PICTURES:
        known = record.get(picture.name, {})
        if (known.get("address"), known.get("height")) != (picture.address, picture.height):
            found.append(f"{picture.name} was taken of another view; {AGAIN}")
            continue
        changed = [name for name, digest in known["files"].items() if _digest(site, name) != digest]
        if changed:
            some = ", ".join(changed[:3]) + (" …" if len(changed) > 3 else "")
            found.append(f"{picture.name} shows files that have changed ({some}); {AGAIN}")
    return tuple(found)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start the system's Chromium.

    Raises:
        SetupError: It is not here, or playwright is not.
    """
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


def _take(
    browser: Browser,
    site: Path,
    picture: Picture,
    scheme: Any,
    path: Path,
    files: dict[str, str],
) -> None:
    absent: list[str] = []

    def answer(route: Route) -> None:
        name = addresses.file(urlsplit(route.request.url).path.removeprefix("/"))
        if (site / name).is_file():
            known = _STATIC.sub("static/", name)
            files[known] = _digest(site, known)
            route.fulfill(path=site / name)
        else:
            absent.append(name)
            route.fulfill(status=404)

    context = browser.new_context(
        viewport={"width": WIDTH, "height": picture.height},
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
        page.goto(_ADDRESS + picture.address, wait_until="networkidle")
        if absent:
            raise SetupError(f"{picture.address}: the site has no {absent[0]}; build it again")
        page.screenshot(path=path)
    finally:
        context.close()


def _newest(site: Path) -> datetime | None:
    """Start of the newest server run."""
    machines = json.loads((site / "overview.json").read_bytes())["machines"]
    times = [
        datetime.fromisoformat(machine["newest"]["time"])
        for machine in machines
        if machine["kind"] == "load"
    ]
    return max(times, default=None)


def _digest(site: Path, name: str) -> str:
    """Of a file; that of another script, which moves the folder of all of them, says nothing."""
    folder, _, rest = name.partition("/")
    path = next(site.glob(f"static/*/{rest}"), None) if folder == "static" else site / name
    try:
        text = b"" if path is None else path.read_bytes()
    except OSError:
        return ""
    return hashlib.sha256(_STATIC_BYTES.sub(b"static/", text)).hexdigest()[:16]
