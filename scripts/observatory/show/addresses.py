"""The address of every kind of page, relative to the site's root. None changes its meaning.

An address is a URL path as in a link, percent-encoded, without a leading slash:
`b/asgi-wsgi/asgi-json/py3.14t/w2/c256/`. The path names the subject, the query the way to show it.
A release that did nothing has no page, only a row on that of its package, `p/<package>/#<version>`.
Pure.
"""

import hashlib
import re
from functools import partial
from typing import Final
from urllib.parse import quote, unquote

FRONT: Final = ""
CHANGES: Final = "c/"
COMPARISONS: Final = "cmp/"
RUNS: Final = "runs/"
POINTS: Final = "points/"
PACKAGES: Final = "p/"
EXPERIMENTS: Final = "x/"
CASES: Final = "b/"
SIDES: Final = "sides/"
ASV: Final = "asv/"
DOCS: Final = "docs/"

NAVIGATION: Final = (
    (PACKAGES, "Releases"),
    (SIDES, "Side by side"),
    (EXPERIMENTS, "Experiments"),
    (DOCS, "Docs"),
)
"""Links of every page, with their names; the documentation only if it was built."""

_NAME: Final = re.compile(
    r"(?=.{1,200}\Z)(?!/|(.*/)?(con|nul|aux|prn)(/|\Z)|.*(\."
    r"(atom|css|html|js|json|partial|png|svg|txt|xml)|[ .])(/|\Z))"
    r"((^|/)[a-z0-9_(][a-z0-9 ._(),=+@'-]{0,99})+",
    re.IGNORECASE | re.ASCII,
)
"""Names that are safe as folders on every system, and that no file of the site could have."""


def file(address: str) -> str:
    """Return the file, below the site's folder, that is served at an address.

    >>> file("b/a%20b/")
    'b/a b/index.html'
    """
    path = unquote(address.partition("?")[0].partition("#")[0])
    return f"{path}index.html" if not path or path.endswith("/") else path


def root(path: str) -> str:
    """Return the way from a file to the site's root: `../../` for `c/one/index.html`, else `./`.

    Links made of it work at any address of the site.
    """
    return "../" * path.count("/") or "./"


def raw(folder: str, name: str) -> str:
    """Return the address of a file of results, unchanged."""
    return f"{folder}{quote(name)}.json"


def _below(folder: str, name: str) -> str:
    """Return the address for a name, or for its digest if no folder can have that name."""
    if _NAME.fullmatch(name):
        return folder + quote(name, safe="/(),=+@'") + "/"
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{folder}~{digest}/"


experiment = partial(_below, EXPERIMENTS)
case = partial(_below, CASES)
comparison = partial(_below, COMPARISONS)
package = partial(_below, PACKAGES)


def release(package: str, version: str) -> str:
    """Return the address of one release of a package."""
    return _below(PACKAGES, f"{package}/{version}")
