"""Every kind of page of the site, and what is shown where nothing is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final
from urllib.parse import urlsplit

from servebench.site.pages import (
    addresses,
    case,
    changes,
    compare,
    experiment,
    front,
    machines,
    reference,
    run,
)
from servebench.site.pages.page import PageFile, render
from servebench.site.pages.site import Site


def missing_pages(site: Site) -> Iterator[PageFile]:
    """The page of an address that does not exist.

    It is served at any depth, so that its links begin at the root of the host: below the site's
    base, if that is known.
    """
    root = urlsplit(site.base).path or "/"
    there = addresses.NOT_FOUND
    yield render(site, "missing.html.j2", there, "Nothing is here", root=root, reason="")


def asv_missing(site: Site, reason: str) -> PageFile:
    """The page in the place of asv's site."""
    title = "asv's own pages are not here"
    return render(site, "missing.html.j2", addresses.ASV, title, reason=reason)


KINDS: Final[tuple[Callable[[Site], Iterator[PageFile]], ...]] = (
    front.pages,
    experiment.pages,
    case.list_pages,
    changes.pages,
    compare.pages,
    run.list_pages,
    machines.pages,
    case.pages,
    run.pages,
    reference.data_pages,
    reference.method_pages,
    reference.glossary_pages,
    missing_pages,
)
"""Every kind of page; to add one, add its module here. The few large ones come before the many
small ones, so that processes that share them end together."""


def pages(site: Site) -> Iterator[PageFile]:
    """All pages."""
    for kind in KINDS:
        yield from kind(site)
