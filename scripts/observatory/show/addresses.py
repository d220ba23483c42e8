"""The address of every kind of page, relative to the site's root. Published addresses never change.

A release that did nothing has no page, only a row on that of its package, `p/<package>/#<version>`.

An address is a URL path as in a link, percent-encoded, without a leading slash:
`b/asgi-wsgi/asgi-json/py3.14t/w2/c256/`. The path names the subject, the query the way to show it.
Pure.
"""

import hashlib
import re
from functools import lru_cache, partial
from typing import Final
from urllib.parse import quote, unquote

FRONT: Final = ""
CHANGES: Final = "c/"
COMPARISONS: Final = "cmp/"
RUNS: Final = "runs/"
PACKAGES: Final = "p/"
EXPERIMENTS: Final = "x/"
CASES: Final = "b/"
SIDES: Final = "sides/"
ASV: Final = "asv/"
DOCS: Final = "docs/"
FEED: Final = "changes.atom"
NOT_FOUND: Final = "404.html"

INDEX: Final = "index.html"

NAVIGATION: Final = (
    (PACKAGES, "Releases"),
    (SIDES, "Side by side"),
    (EXPERIMENTS, "Experiments"),
    (DOCS, "Docs"),
)
"""Links of every page, with their names; the documentation only if it was built."""
TRUST: Final = f"{DOCS}decides/"
"""How a comparison decides, and how often it is wrong."""
MOVED: Final = {
    CHANGES: PACKAGES,
    COMPARISONS: SIDES,
    CASES: EXPERIMENTS,
    "data/": DOCS,
    "method/": TRUST,
}
"""Pages that were published and are gone, and those that have their content now."""

_SEGMENT: Final = re.compile(r"[A-Za-z0-9_(][A-Za-z0-9 ._(),=+@'-]{0,99}")
"""Names that are safe for a folder on every system (no leading dot)."""
_LONGEST: Final = 200
_TRAPS: Final = re.compile(
    r"con|nul|aux|prn|.*(\.(atom|css|html|js|json|partial|png|svg|txt|xml)|[ .])", re.IGNORECASE
)
"""Names that some systems reserve, and those that a file of the site could have."""


def raw(folder: str, name: str) -> str:
    """Return the address of a file of results, unchanged."""
    return f"{folder}{quote(name)}.json"


change_file = partial(raw, CHANGES)
comparison_file = partial(raw, COMPARISONS)


def file(address: str) -> str:
    """Return the file, below the site's folder, that is served at an address.

    >>> file("b/a%20b/")
    'b/a b/index.html'
    """
    path = unquote(address.partition("?")[0].partition("#")[0])
    return f"{path}{INDEX}" if not path or path.endswith("/") else path


def root(path: str) -> str:
    """Return the way from a file to the site's root: `../../` for `c/one/index.html`, else `./`.

    Links made of it work at any address of the site.
    """
    return "../" * path.count("/") or "./"


def release(package: str, version: str) -> str:
    """Return the address of one release of a package."""
    return _below(PACKAGES, f"{package}/{version}")


@lru_cache(maxsize=8192)
def _below(folder: str, name: str) -> str:
    """Return the address for a name, or for its digest if no folder can have that name."""
    segments = name.split("/")
    is_safe = len(name) <= _LONGEST and all(
        _SEGMENT.fullmatch(segment) and not _TRAPS.fullmatch(segment) for segment in segments
    )
    if not is_safe:
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        return f"{folder}~{digest}/"
    quoted = quote(name, safe="/(),=+@'")
    return f"{folder}{quoted}/"


experiment = partial(_below, EXPERIMENTS)
case = partial(_below, CASES)
change = partial(_below, CHANGES)
comparison = partial(_below, COMPARISONS)
package = partial(_below, PACKAGES)


def data_file(name: str) -> str:
    """Return the address of all figures of a case, beside its page."""
    return f"{case(name)}data.json"
