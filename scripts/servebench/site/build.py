"""From `results/` to the whole site: data, pages, static files, and asv's own site beside them.

What did not change is not made again: the data by their manifest, pages by the digest of what they
show (`Page.inputs`), asv's site by the digest of asv's results. Building twice, or building anew,
gives the same bytes.
"""

from __future__ import annotations

import gc
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache as remembered
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import servebench
from servebench.errors import UsageError
from servebench.progress import Narrator
from servebench.site import asv_nights, asv_site, data, gather, history, reading, statics
from servebench.site.folder import Folder
from servebench.site.pages import addresses, kinds, missing, rendering
from servebench.site.pages.page import Page
from servebench.site.pages.site import Site

MARKER: Final = ".servebench-site"
"""A file in the site's folder: without it, what stands in the folder is somebody else's."""
PAGES: Final = ".pages.json"
"""Which pages there are, and a digest of what each was made from."""
FORMAT: Final = 1

OURS: Final = (
    *data.OURS,
    *("asv", "b", "c", "compare", "data", "machines", "method", "raw", "runs", "static", "x"),
)
"""Folders in which nothing else stands: what was not made this time is removed there."""

_SCHEMAS: Final = {
    "schema.json": "JSON Schema of run files",
    "comparison.schema.json": "JSON Schema of comparisons",
}
_PROGRAM: Final = frozenset({".py", ".j2", ".css", ".toml"})


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be built.

    Attributes:
        root: The checkout, for its declarations.
        results: The results folder.
        output: The site's folder.
        cache: Where what was read is remembered.
        base: Address of the site with a slash at its end; empty: not known.
        with_asv: Whether asv's own site is brought up to date too.
        with_parquet: Whether Parquet is written, if pyarrow is installed.
    """

    root: Path
    results: Path
    output: Path
    cache: Path
    base: str = ""
    with_asv: bool = True
    with_parquet: bool = True


@dataclass(frozen=True, slots=True)
class Built:
    """What became of it.

    Attributes:
        pages: How many there are.
        rendered: How many of them were made anew.
        written: Files that were written.
        kept: Files that were there already.
        removed: Files that nothing is in any more.
        notes: What people should know, in sentences.
    """

    pages: int
    rendered: int
    written: int
    kept: int
    removed: int
    notes: tuple[str, ...]


def build(order: Order, narrator: Narrator) -> Built:
    """Bring the site up to date.

    Raises:
        UsageError: The folder has something else in it.
        DeclarationError: A declaration of the checkout is wrong.
        RecordError: A file cannot be written.
        SetupError: The cache cannot be written.
    """
    _refuse_others_work(order.output)
    with _uncollected():
        return _build(order, narrator)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without collections: of a build's millions of objects hardly one is in a cycle."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _build(order: Order, narrator: Narrator) -> Built:
    folder = Folder(order.output)
    folder.put(MARKER, b"Made by `servebench site`, which makes it again at any time.\n")
    sources = asv_nights.dated(order.root, reading.read(order.results, order.cache))
    tables = history.tables(sources.nights)
    with data.writing(
        folder, sources, tables, base=order.base, with_parquet=order.with_parquet
    ) as written:
        served = statics.files()
        static = statics.folder(served)
        for name, content in served.items():
            folder.put(static + name, content)
        downloads = {
            **dict(_schemas(order.results, folder)),
            **dict(_raw_asv(order.results, folder)),
        }
        if not order.with_asv:
            no_asv = _without_asv(folder)
        else:
            no_asv = asv_site.bring(
                order.root, order.results, order.cache / "asv-site", folder, narrator
            )
        site = gather.gather(
            order.root,
            order.results,
            sources,
            written,
            static=static,
            base=order.base,
            downloads=downloads,
            notes=(no_asv,) if no_asv and order.with_asv else (),
        )
        total, rendered = _pages(site, folder, no_asv)
    return Built(
        pages=total,
        rendered=rendered,
        written=folder.written,
        kept=folder.kept,
        removed=folder.remove_others(*OURS),
        notes=site.notes,
    )


def _without_asv(folder: Folder) -> str:
    """Keep asv's site of an earlier build; why there is none, if there is none."""
    if not (folder.root / asv_site.FOLDER / asv_site.SIGN).is_file():
        return asv_site.LEFT_OUT
    folder.keep(asv_site.FOLDER)
    return ""


def _pages(site: Site, folder: Folder, no_asv: str) -> tuple[int, int]:
    """Write the pages; how many there are, and how many were made anew."""
    state = folder.root / PAGES
    program = f"{_program()} {gather.declared(site)} {site.static}"
    before = _known(state, program)
    now: dict[str, tuple[str, int]] = {}
    new: list[Page] = []
    every = kinds.pages(site) if not no_asv else _with(site, no_asv)
    for page in every:
        if page.path in now:
            continue  # two names with one digest: the first keeps the address
        inputs, size = before.get(page.path, ("", -1))
        now[page.path] = (page.made_from, size)
        if not (page.made_from and page.made_from == inputs and folder.has(page.path, size)):
            new.append(page)
    if new:
        # Until all are written nothing is known: whatever interrupts us, all is made next time.
        state.unlink(missing_ok=True)
    site.read_manifest()  # pages show it, and nothing else may run where copies are made
    for page, html in zip(new, rendering.rendered(new), strict=True):
        folder.put(page.path, html)
        now[page.path] = (page.made_from, len(html))
    folder.put(PAGES, _dense({"format": FORMAT, "program": program, "pages": now}))
    return len(now), len(new)


def _with(site: Site, no_asv: str) -> Iterator[Page]:
    yield from kinds.pages(site)
    yield missing.of_asv(site, no_asv)


def _known(state: Path, program: str) -> dict[str, tuple[str, int]]:
    """What the last build made, if it was the same program; nothing if that is not known."""
    try:
        stored = json.loads(state.read_bytes())
        if stored["format"] != FORMAT or stored["program"] != program:
            return {}
        return {
            str(path): (str(inputs), int(size)) for path, (inputs, size) in stored["pages"].items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


@remembered
def _program() -> str:
    """A digest of the program: a page that it might make otherwise is made again."""
    package = Path(servebench.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*")):
        if path.suffix in _PROGRAM:
            digest.update(path.relative_to(package).as_posix().encode() + b"\0")
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _schemas(results: Path, folder: Folder) -> Iterator[tuple[str, str]]:
    for name, told in _SCHEMAS.items():
        if (results / name).is_file():
            yield folder.put(name, (results / name).read_bytes()), told


def _raw_asv(results: Path, folder: Folder) -> Iterator[tuple[str, str]]:
    """Copy the files that asv wrote; their names are asv's, and name no folder of ours."""
    recorded = results / "asv"
    for path in sorted(recorded.rglob("*.json")):
        name = path.relative_to(recorded).as_posix()
        folder.follow(f"{addresses.RAW_ASV}{name}", path)
        yield f"{addresses.RAW_ASV}{quote(name)}", "asv's results as asv wrote them"


def _refuse_others_work(output: Path) -> None:
    if output.is_dir() and any(output.iterdir()) and not (output / MARKER).is_file():
        raise UsageError(
            f"{output}: expected an empty folder, or a site that servebench made, in which old "
            "files are removed; found something else: name another folder (-o)"
        )
    if output.exists() and not output.is_dir():
        raise UsageError(f"{output}: expected a folder, found a file; name another place (-o)")


def _dense(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
