"""Builds the whole site from `results/`: pages, raw files, and asv's own site.

The same results give the same bytes, except in asv's site. That loads its libraries from public
hosts, and checks them by the checksums that it names. `addresses` defines where everything is.
"""

import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from duetbench.core.errors import RecordError, UsageError
from duetbench.host import command, paths
from duetbench.host.console import Narrator
from duetbench.host.files import ADVICE
from duetbench.report.html.comparison_page import STYLES
from observatory.show import addresses
from observatory.show.site.pages import KINDS
from observatory.show.site.site import Page, Site
from observatory.store import asv_results
from observatory.trend import reading
from observatory.trend.reading import Sources

MARKER: Final = ".duetbench-site"
"""The file that marks a folder as a site: without it, the folder's content is not ours."""
STATICS: Final = Path(__file__).with_name("static")
OWN_STYLES: Final = Path(__file__).with_name("observatory.css")
"""Styles of what single files of comparisons do not have."""
OURS: Final = ("asv", "b", "c", "cmp", "p", "points", "runs", "sides", "static", "x")
"""Folders that hold only the site: a build begins by removing them."""
LIMIT: Final = 600
"""Most seconds that asv may take."""
NO_ASV: Final = "asv has no results here"


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
    with_asv: bool = True,
    sources: Sources | None = None,
) -> BuildReport:
    """Build the site of the results, or of `sources` that were read before.

    Raises:
        UsageError: The folder contains something else.
        DeclarationError: A declaration of the checkout is wrong.
        RecordError: No file can be written, as on a full disk.
    """
    sources = reading.read(results) if sources is None else sources
    site = Site(root, results, sources, output)
    _ = site.experiments  # a wrong declaration is no fault of a page
    _empty(output)
    of_asv = publish_asv(root, results, output / addresses.ASV, narrator) if with_asv else ()
    _write(output, f"static/{STYLES.name}", STYLES.read_bytes() + OWN_STYLES.read_bytes())
    for path in sorted(STATICS.rglob("*.*")):
        _write(output, f"static/{path.relative_to(STATICS).as_posix()}", path.read_bytes())
    for address, path in site.files.values():
        if data := site.spare(address, path.read_bytes, b""):
            _write(output, addresses.file(address), data)
    pages = 0
    for kind in KINDS:
        for page in site.spare(f"pages of {kind.__name__}", partial(_list, kind, site), []):
            text = site.spare(page.title, page.make, "") or _missing(site, page)
            file = addresses.file(page.address)
            _write(output, file, text.encode("utf-8", "replace"))
            pages += file.endswith(".html")
    return BuildReport(pages, (*sources.problems, *sources.notes, *of_asv, *site.broken))


def publish_asv(root: Path, results: Path, folder: Path, narrator: Narrator) -> tuple[str, ...]:
    """Let asv build the site of a checkout's results in a folder.

    Returns sentences: files that asv cannot read, or at last why there is no site.
    """
    records, problems = results / "asv", list[str]()
    if not (records / asv_results.LIST).is_file():
        return (NO_ASV,)
    from asv.util import load_json  # noqa: PLC0415 - takes half a second

    log = paths.state_dir() / "logs" / "asv-publish.log"
    log.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="duetbench-") as scratch:
        usable, config = Path(scratch) / "results", Path(scratch) / "asv.conf.json"
        try:
            unread = asv_results.copy_usable(records, usable)
            problems += [problem.replace(f"{results}/", "") for problem in unread]
            conf = load_json(str(root / config.name), js_comments=True)
            conf |= {"repo": str(root), "results_dir": str(usable), "html_dir": str(folder)}
            config.write_text(json.dumps(conf), "utf-8")
            argv = ["timeout", str(LIMIT), sys.executable, "-m", "asv", "publish", "--no-pull"]
            argv += ["--config", str(config)]
            with narrator.step("asv's site", f"asv collects the results into {folder}") as tick:
                what, env = f"asv publish within {LIMIT} s", {"DUETBENCH_ROOT": str(root)}
                command.run(argv, what=what, log=log, tick=tick, env=env)
        except Exception as problem:  # asv's own code may raise anything
            shutil.rmtree(folder, ignore_errors=True)
            problems.append(f"asv's site could not be built ({type(problem).__name__}): {problem}")
    return tuple(problems)


def _list(kind: Callable[[Site], Iterator[Page]], site: Site) -> list[Page]:
    return [*kind(site)]


def _missing(site: Site, page: Page) -> str:
    """Make a page that says why another could not be made."""
    reason = site.broken[-1]
    return site.page(page.address, page.title, "missing", lambda: {"reason": reason}).make()


def _empty(output: Path) -> None:
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
