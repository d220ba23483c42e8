"""Every kind of page of the site."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from servebench.site.pages import (
    case,
    cases,
    changes,
    compare,
    data,
    experiment,
    front,
    glossary,
    machines,
    method,
    missing,
    run,
    runs,
)
from servebench.site.pages.page import Page
from servebench.site.pages.site import Site

KINDS: Final[tuple[Callable[[Site], Iterator[Page]], ...]] = (
    front.pages,
    experiment.pages,
    cases.pages,
    changes.pages,
    compare.pages,
    runs.pages,
    machines.pages,
    case.pages,
    run.pages,
    data.pages,
    method.pages,
    glossary.pages,
    missing.pages,
)
"""Every kind of page; to add one, add its module here. The few large ones come before the many
small ones, so that processes that share them end together."""


def pages(site: Site) -> Iterator[Page]:
    """All pages."""
    for kind in KINDS:
        yield from kind(site)
