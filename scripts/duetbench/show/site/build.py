"""From `results/` to the whole site: raw files, pages, static files, and asv's own site.

Building twice gives the same bytes.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from duetbench.host.console import Narrator
from duetbench.show import addresses
from duetbench.show.site import asv_site, data
from duetbench.show.site.charts import forest
from duetbench.show.site.data import Folder
from duetbench.show.site.pages import (
    case,
    changes,
    comparisons,
    experiment,
    front,
    packages,
    reference,
)
from duetbench.show.site.pages.site import PageFile, Site, gather, render
from duetbench.trend import reading
from duetbench.trend.reading import Sources

MARKER: Final = ".duetbench-site"
"""Marks the folder of a site: without this file its content belongs to something else."""

_HOW: Final = "With asv's results in a checkout, `duetbench asv publish` makes them"
_REPLACED: Final = "duetbench made, in which old files are removed"


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be built.

    Attributes:
        cache: Where what was read is remembered.
        base: Address of the site with a slash at its end; empty: not known.
    """

    root: Path
    results: Path
    output: Path
    cache: Path
    base: str = ""
    with_asv: bool = True


@dataclass(frozen=True, slots=True)
class Built:
    """How many pages there are, what became of the files, and notes for people, in sentences."""

    pages: int
    written: int
    kept: int
    removed: int
    notes: tuple[str, ...]


def build(order: Order, narrator: Narrator) -> Built:
    """Read the results and bring the site up to date; errors as `update`.

    SetupError: the cache cannot be written.
    """
    data.refuse_others_work(order.output, MARKER, _REPLACED, " (-o)")
    return update(order, reading.read(order.results, order.cache), narrator)


def update(order: Order, sources: Sources, narrator: Narrator) -> Built:
    """Bring the site of what was read up to date.

    Raises:
        UsageError: The folder has something else in it.
        DeclarationError: A declaration of the checkout is wrong.
        RecordError: A file cannot be written.
    """
    data.refuse_others_work(order.output, MARKER, _REPLACED, " (-o)")
    folder = Folder(order.output)
    folder.put(MARKER, b"Made by `duetbench site`, which makes it again at any time.\n")
    served = static_files()
    static = static_folder(served)
    for name, content in served.items():
        folder.put(static + name, content)
    downloads = data.copy(folder, order.results, sources)
    no_asv = ""
    if order.with_asv:
        scratch = order.cache / "asv-site"
        no_asv = asv_site.bring(order.root, order.results, scratch, folder, narrator)
    elif (folder.root / asv_site.FOLDER / asv_site.SIGN).is_file():
        folder.keep(asv_site.FOLDER)
    else:
        no_asv = asv_site.LEFT_OUT
    site = gather(
        order.root,
        order.results,
        sources,
        static=static,
        base=order.base,
        downloads=downloads,
        notes=(no_asv,) if no_asv and order.with_asv else (),
    )
    return Built(
        pages=_write_pages(site, folder, no_asv),
        written=folder.written,
        kept=folder.kept,
        removed=folder.remove_others(*data.OURS),
        notes=site.notes,
    )


def missing_pages(site: Site) -> Iterator[PageFile]:
    """The page of an address that does not exist.

    It is served at any depth, so that its links begin at the root of the host: below the site's
    base, if that is known.
    """
    root = urlsplit(site.base).path or "/"
    there = addresses.NOT_FOUND
    yield render(site, "missing.html.j2", there, "Nothing is here", root=root, reason="")


KINDS: Final[tuple[Callable[[Site], Iterator[PageFile]], ...]] = (
    front.pages,
    experiment.pages,
    case.pages,
    changes.pages,
    packages.pages,
    comparisons.pages,
    reference.pages,
    missing_pages,
)
"""Every kind of page; to add one, add its function here."""


def _write_pages(site: Site, folder: Folder, no_asv: str) -> int:
    names = set()
    pages = chain.from_iterable(kind(site) for kind in KINDS)
    title = "asv's own pages are not here"
    missing = [render(site, "missing.html.j2", addresses.ASV, title, reason=f"{no_asv}. {_HOW}")]
    for page in (*pages, *(missing if no_asv else ())):
        if page.path not in names:  # two names with one digest: the first keeps the address
            names.add(page.path)
            folder.put(page.path, page.text.encode("utf-8", "replace"))
    return sum(name.endswith(".html") for name in names)


STATICS: Final = Path(__file__).with_name("static")

_SERVED: Final = frozenset({".css", ".js", ".svg", ".txt", ".png"})
"""What else stands there is for those who work on it."""


def static_files() -> dict[str, bytes]:
    """Every file by its name below the folder; the stylesheet with the charts' part."""
    files = {
        path.relative_to(STATICS).as_posix(): path.read_bytes()
        for path in sorted(STATICS.rglob("*"))
        if path.suffix in _SERVED and path.is_file()
    }
    files["site.css"] = forest.stylesheet().encode() + b"\n" + files["site.css"]
    return files


def static_folder(served: Mapping[str, bytes]) -> str:
    """Where they are on the site: a folder of `static` named by their digest."""
    digest = hashlib.sha256()
    for name, content in served.items():
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return f"static/{digest.hexdigest()[:10]}/"
