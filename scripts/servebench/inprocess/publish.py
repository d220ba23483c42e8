"""asv's site, made to work with no request to any other host.

asv's page loads its libraries from public hosts. Here each of them is replaced by the copy that we
keep, so the site works offline, tells nobody who reads it, and shows the same in ten years.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Final

from asv.graph import Graph

from servebench import paths
from servebench.errors import SetupError, UsageError
from servebench.inprocess import tachyon, vendored
from servebench.progress import Narrator
from servebench.toolchain import command

_FOLDER: Final = "vendor"
_REMOTE: Final = re.compile(
    r'<(?P<kind>script|link)\b[^>]*?\b(?:src|href)="(?P<address>(?:https?:)?//[^"]*)"[^>]*>'
)
_INTEGRITY: Final = re.compile(r'\bintegrity="([^"]*)"')
_ELEMENTS: Final = {
    "script": '<script src="{file}" onerror="js_load_failure()">',
    "link": '<link rel="stylesheet" href="{file}">',
}


def publish(root: Path, site: Path, narrator: Narrator) -> tuple[str, ...]:
    """Make asv's site of a checkout, complete and with our copies of its libraries.

    Args:
        root: The checkout, with asv's configuration and results.
        site: Where the site will be; what asv made there before is replaced.
        narrator: Told when asv begins.

    Returns:
        The names of its pages: asv's own, and asv-tachyon's where that is installed.

    Raises:
        UsageError: The folder has something else in it, which asv would delete.
        SetupError: asv fails, or its page wants a library of which we have no copy.
    """
    _refuse_others_work(site)
    log = paths.state_dir() / "logs" / "asv-publish.log"
    log.unlink(missing_ok=True)
    argv: list[str | Path] = [sys.executable, "-m", "asv", "publish", "--no-pull"]
    argv += ["--html-dir", site.resolve()]
    with narrator.step("asv's site", f"asv collects the results into {site}") as tick:
        command.run(argv, what="asv publish", log=log, tick=tick, cwd=root)
    complete(site)
    localise(site)
    return ("index.html", tachyon.PAGE) if tachyon.add(site) else ("index.html",)


def complete(site: Path) -> int:
    """Add the graphs that asv's page asks for and that asv did not write; how many.

    The page asks for every benchmark under every combination of its keys. Load runs have fewer:
    not every case is measured on every interpreter and stack. Such a graph is empty.
    """
    index = json.loads((site / "index.json").read_text("utf-8"))
    combinations = [*index["graph_param_list"], {"summary": ""}]
    wanted = (
        site / f"{Graph.get_file_path(keys, name)}.json"
        for keys in combinations
        for name in index["benchmarks"]
    )
    missing = [graph for graph in wanted if not graph.exists()]
    for graph in missing:
        graph.parent.mkdir(parents=True, exist_ok=True)
        graph.write_text("[]")
    return len(missing)


def localise(site: Path) -> tuple[str, ...]:
    """Replace every library that asv's page would load from another host by our copy.

    Returns:
        The copies' names, in the page's order.

    Raises:
        SetupError: The page wants another library or version than we keep; it is left as it was.
    """
    page = site / "index.html"
    text = page.read_text("utf-8")
    copies: list[vendored.Vendored] = []

    def ours(element: re.Match[str]) -> str:
        copy = _copy(element)
        copies.append(copy)
        return _ELEMENTS[element["kind"]].format(file=f"{_FOLDER}/{copy.file}")

    replaced = _REMOTE.sub(ours, text)
    (site / _FOLDER).mkdir(exist_ok=True)
    for copy in copies:
        (site / _FOLDER / copy.file).write_bytes(copy.read())
    page.write_text(replaced, "utf-8")
    return tuple(copy.file for copy in copies)


def _copy(element: re.Match[str]) -> vendored.Vendored:
    demanded = _INTEGRITY.search(element[0])
    copy = vendored.known().get(demanded[1]) if demanded else None
    if copy is None:
        raise SetupError(
            f"asv's page loads {element['address']} "
            f"({demanded[1] if demanded else 'without checksum'}), and there is no copy of that: "
            f"add one to {vendored.FOLDER / 'vendored.toml'}"
        )
    return copy


def _refuse_others_work(site: Path) -> None:
    if not site.exists() or (site.is_dir() and not any(site.iterdir())):
        return
    if not (site / "asv.js").is_file():  # the first that asv writes, the last to be missing
        raise UsageError(
            f"{site}: expected an empty folder, or a site that asv made, which it will replace; "
            "found something else: name another folder"
        )
