"""What is shown where nothing is: addresses that do not exist, and asv's site where it is not."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from servebench.site.pages import addresses
from servebench.site.pages.page import Page, render
from servebench.site.pages.site import Site


def pages(site: Site) -> Iterator[Page]:
    """The page of an address that does not exist.

    It is served at any depth, so that its links begin at the root of the host: below the site's
    base, if that is known.
    """
    path = addresses.NOT_FOUND
    yield Page(
        path,
        render(
            site,
            "missing.html.j2",
            path=path,
            root=urlsplit(site.base).path or "/",
            title="Nothing is here",
            reason="",
        ),
    )


def of_asv(site: Site, reason: str) -> Page:
    """The page in the place of asv's site."""
    path = addresses.file(addresses.ASV)
    return Page(
        path,
        render(
            site, "missing.html.j2", path=path, title="asv's own pages are not here", reason=reason
        ),
    )
