"""Builds the whole site from `results/`: pages and raw files.

The same results give the same bytes. `addresses` defines where everything is: the documentation
and asv's own site, which others build, among them.
"""

import shutil
from functools import partial
from pathlib import Path
from typing import Final

from duetbench.core.errors import RecordError, UsageError
from duetbench.host.files import ADVICE
from duetbench.report.html.comparison_page import STYLES
from observatory.show import addresses
from observatory.show.site.pages import KINDS
from observatory.show.site.site import Page, Site

MARKER: Final = ".duetbench-site"
"""The file that marks a folder as a site: without it, the folder's content is not ours."""
STATICS: Final = Path(__file__).with_name("static")
OWN_STYLES: Final = Path(__file__).with_name("observatory.css")
"""Styles of what single files of comparisons do not have."""
OURS: Final = ("b", "c", "cmp", "p", "points", "runs", "sides", "static", "x")
"""Folders that hold only the site: a build begins by removing them."""


def build(root: Path, results: Path, output: Path) -> tuple[int, tuple[str, ...]]:
    """Build the site of the results; return the number of pages, and notes as sentences.

    Raises:
        UsageError: The folder contains something else.
        DeclarationError: A declaration of the checkout is wrong.
        RecordError: No file can be written, as on a full disk.
    """
    site = Site(root, results, output)
    _ = site.experiments  # a wrong declaration is no fault of a page
    _empty(output)
    _write(output, f"static/{STYLES.name}", STYLES.read_bytes() + OWN_STYLES.read_bytes())
    for path in sorted(STATICS.rglob("*.*")):
        _write(output, f"static/{path.relative_to(STATICS).as_posix()}", path.read_bytes())
    for address, path in site.files.values():
        if data := site.spare(address, path.read_bytes, b""):
            _write(output, addresses.file(address), data)
    pages = 0
    for kind in KINDS:
        for page in site.spare(f"pages of {kind.__name__}", partial(list[Page], kind(site)), []):
            if not (text := site.spare(page.title, page.make, "")):
                why = partial(dict[str, str], reason=site.broken[-1])
                text = site.page(page.address, page.title, "missing", why).make()
            file = addresses.file(page.address)
            _write(output, file, text.encode("utf-8", "replace"))
            pages += file.endswith(".html")
    return pages, site.problems


def _empty(output: Path) -> None:
    """Empty the site's folder; raises UsageError for one with other content."""
    others = {address.strip("/") for address in (addresses.DOCS, addresses.ASV)}
    there = {path.name for path in output.glob("*")} - others
    if there and MARKER not in there:
        raise UsageError(
            f"{output}: expected an empty folder, or a site that duetbench built (it removes old "
            "files there); found something else: name another folder (-o)"
        )
    for ours in OURS:
        shutil.rmtree(output / ours, ignore_errors=True)
    _write(output, MARKER, b"Built by `observatory site`, which can rebuild it at any time.\n")


def _write(output: Path, name: str, data: bytes) -> None:
    """Write a file of the site; raises RecordError."""
    path = output / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    except OSError as problem:
        raise RecordError(
            f"{path}: cannot be written ({problem.strerror}); {ADVICE}, or name another folder (-o)"
        ) from problem
