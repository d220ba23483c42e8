"""Builds the whole site from `results/`: pages, raw files, and asv's own site.

The same results give the same bytes, except in asv's site. `addresses` defines where everything is.
"""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from duetbench.core.errors import RecordError, UsageError
from duetbench.host.console import Narrator
from duetbench.host.files import ADVICE
from duetbench.report.html.comparison_page import STYLES
from observatory.show import addresses
from observatory.show.site import asv_site
from observatory.show.site.pages import case, experiment, front, packages, sides
from observatory.show.site.pages.site import Page, Site, spare
from observatory.trend import reading
from observatory.trend.reading import Sources

MARKER: Final = ".duetbench-site"
"""The file that marks a folder as a site: without it, the folder's content is not ours."""
STATICS: Final = Path(__file__).with_name("static")
OWN_STYLES: Final = Path(__file__).with_name("observatory.css")
"""Styles of what single files of comparisons do not have."""
OURS: Final = (
    *("asv", "b", "c", "cmp", "data", "method", "p", "points", "raw", "runs", "sides"),
    *("static", "why", "x"),
)
"""Folders that hold only the site: a build begins by removing them."""
NO_ASV: Final = "asv's site was left out (--no-asv)"

KINDS: Final[tuple[Callable[[Site], Iterator[Page]], ...]] = (
    experiment.pages,
    case.pages,
    sides.pages,
    packages.pages,
    front.pages,
)
"""Every kind of page; add the function of a new one here. The last one lists all failures."""


@dataclass(slots=True)
class Folder:
    """The files of a site.

    `lost`: sentences on files that could not be made, as of a file of the results that is gone.
    """

    root: Path
    lost: list[str] = field(default_factory=list)

    def put(self, name: str, make: Callable[[], bytes]) -> None:
        """Write a file; raises RecordError if no file can be written."""
        if not name or name.startswith("/") or ".." in name.split("/") or "\0" in name:
            self.lost.append(f"{name!r}: expected the name of a file inside the site")
            return
        if (data := spare(self.lost, name, make, None)) is None:
            return
        path = self.root / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        except OSError as problem:
            raise RecordError(
                f"{path}: cannot be written ({problem.strerror}); {ADVICE}, or name another "
                "folder (-o)"
            ) from problem


@dataclass(frozen=True, slots=True)
class BuildReport:
    """The number of pages, and notes as sentences."""

    pages: int
    notes: tuple[str, ...]


def build(
    root: Path,
    results: Path,
    output: Path,
    narrator: Narrator,
    *,
    base: str = "",
    with_asv: bool = True,
    sources: Sources | None = None,
) -> BuildReport:
    """Build the site of the results, or of `sources` that were read before.

    `base`: address of the site, with a slash at its end; empty if unknown.

    Raises:
        UsageError: The folder contains something else.
        DeclarationError: A declaration of the checkout is wrong.
        RecordError: No file can be written, as on a full disk.
    """
    sources = reading.read(results) if sources is None else sources
    documented = (output / addresses.file(addresses.DOCS)).is_file()
    site = Site(root, results, sources, base, documented)
    _ = site.experiments  # a wrong declaration is no fault of a page
    folder = _folder(output)
    folder.put(f"static/{STYLES.name}", lambda: STYLES.read_bytes() + OWN_STYLES.read_bytes())
    for path in sorted(STATICS.rglob("*.*")):
        folder.put(f"static/{path.relative_to(STATICS).as_posix()}", path.read_bytes)
    no_asv: list[str] = []
    inside = asv_site.files(root, results, narrator, no_asv) if with_asv else {}
    for name, data in inside.items():
        folder.put(f"{addresses.ASV}{name}", partial(bytes, data))
    _copy(folder, site)
    pages = 0
    for page in _pages(site, "" if inside else [NO_ASV, *no_asv][-1]):
        text = spare(site.broken, page.title, page.make, None)
        if text is None:
            text = _missing(site, page.address, page.title, site.broken[-1]).make()
        file = addresses.file(page.address)
        folder.put(file, partial(text.encode, "utf-8", "replace"))
        pages += file.endswith(".html")
    return BuildReport(
        pages, (*sources.problems, *sources.notes, *no_asv, *site.broken, *folder.lost)
    )


def _folder(output: Path) -> Folder:
    """Empty the site's folder; raises UsageError for a file, or a folder with other content."""
    if output.exists() and not output.is_dir():
        raise UsageError(f"{output}: expected a folder, found a file; name another place (-o)")
    there = {path.name for path in output.glob("*")} - {addresses.DOCS.strip("/")}
    if there and MARKER not in there:
        raise UsageError(
            f"{output}: expected an empty folder, or a site that duetbench built (it removes old "
            "files there); found something else: name another folder (-o)"
        )
    for ours in OURS:
        shutil.rmtree(output / ours, ignore_errors=True)
    folder = Folder(output)
    folder.put(MARKER, lambda: b"Built by `observatory site`, which can rebuild it at any time.\n")
    return folder


def _pages(site: Site, no_asv: str) -> Iterator[Page]:
    """List all pages; a kind without a list, as of files that make no sense together, is told.

    `no_asv`: why the site has no pages of asv; empty if it has them.
    """
    if no_asv:
        how = "In a checkout with asv's results, `observatory site` builds them"
        title = "This site has no pages of asv"
        yield _missing(site, addresses.ASV, title, f"{no_asv}. {how}")
    for kind in KINDS:
        name = kind.__module__.rpartition(".")[2]
        yield from spare(site.broken, f"pages of {name}", partial(_list, kind, site), [])


def _list(kind: Callable[[Site], Iterator[Page]], site: Site) -> list[Page]:
    return [*kind(site)]


def _missing(site: Site, address: str, title: str, reason: str) -> Page:
    return site.page(address, title, "missing", lambda: {"reason": reason})


def _copy(folder: Folder, site: Site) -> None:
    """Write the raw files."""
    sources = site.sources
    paths = {site.raw[name]: path for name, path in sources.runs.items()}
    paths |= {site.raw[record.id]: site.results / record.path for record in sources.points}
    changes = {addresses.change_file(record.id): record.path for record in sources.changes}
    compared = {addresses.comparison_file(record.id): record.path for record in sources.comparisons}
    paths |= {address: site.results / path for address, path in (changes | compared).items()}
    for address, path in paths.items():
        folder.put(addresses.file(address), path.read_bytes)
