"""asv's own site beside ours, at `asv/`.

asv's page loads its libraries from public hosts. Each is replaced by the copy in `vendor/` for the
checksum that the page demands: the site works offline, and sends no reader to another host.
"""

import json
import re
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Final

from duetbench.core.errors import SetupError
from duetbench.host import command, paths
from duetbench.host.console import Narrator
from observatory.store import asv_results

FOLDER: Final = "asv"
LIMIT: Final = 600.0  # s
NONE: Final = "asv has no results here"
ELSEWHERE: Final = "asv's site is built only from a checkout's own results"
LEFT_OUT: Final = "asv's site was left out (--no-asv)"
VENDOR: Final = Path(__file__).parent / "vendor"

Put = Callable[[str, Callable[[], bytes]], None]
"""Puts a file into the site: its name there, and a function that returns its bytes."""

_REMOTE: Final = re.compile(
    r'<(?P<kind>script|link)\b[^>]*?\b(?:src|href)="(?P<address>(?:https?:)?//[^"]*)"[^>]*>'
)
_INTEGRITY: Final = re.compile(r'\bintegrity="([^"]*)"')
_ELEMENTS: Final = {
    "script": '<script src="{file}" onerror="js_load_failure()">',
    "link": '<link rel="stylesheet" href="{file}">',
}


def bring(root: Path, results: Path, put: Put, narrator: Narrator) -> str:
    """Put the files of `asv/` into the site.

    Returns:
        Why the site has no such files; empty if it has them.
    """
    records = results / "asv"
    if not (records / "benchmarks.json").is_file():
        return NONE
    if records.resolve() != (root / "results" / "asv").resolve():
        return ELSEWHERE
    with tempfile.TemporaryDirectory(prefix="duetbench-") as folder:
        site, usable = Path(folder) / "html", Path(folder) / "results"
        try:
            asv_results.copy_usable(records, usable)
            publish(root, usable, site, narrator)
        except Exception as problem:  # asv's own code may raise anything
            return f"asv's site could not be built ({type(problem).__name__}): {problem}"
        for path in sorted(site.rglob("*")):
            if path.is_file():
                put(f"{FOLDER}/{path.relative_to(site).as_posix()}", path.read_bytes)
    return ""


def publish(root: Path, results: Path, site: Path, narrator: Narrator) -> None:
    """Build asv's site of a checkout, without gaps and with our copies of its libraries.

    Raises SetupError if asv fails or needs more than `LIMIT`, or if its page needs a library of
    which we have no copy.
    """
    from asv.util import load_json  # noqa: PLC0415 - takes half a second

    log = paths.state_dir() / "logs" / "asv-publish.log"
    log.unlink(missing_ok=True)
    conf = load_json(str(root / "asv.conf.json"), js_comments=True)
    conf |= {"repo": str(root), "results_dir": str(results), "html_dir": str(site)}
    file = results.parent / "asv.conf.json"
    file.write_text(json.dumps(conf), "utf-8")
    argv: list[str | Path] = [sys.executable, "-m", "asv", "publish", "--no-pull", "--config", file]
    env = {"DUETBENCH_ROOT": str(root)}
    with narrator.step("asv's site", f"asv collects the results into {site}") as tick:
        command.run(argv, what="asv publish", log=log, tick=tick, env=env, limit=LIMIT)
    complete(site)
    localise(site)


def complete(site: Path) -> int:
    """Add empty graphs that asv's page requests and asv did not write; return their number.

    The page requests every benchmark under every combination of its keys, but not every suite runs
    on every interpreter and stack.
    """
    from asv.graph import Graph  # noqa: PLC0415 - takes half a second

    index = json.loads((site / "index.json").read_text("utf-8"))
    combinations = [*index["graph_param_list"], {"summary": ""}]
    graphs = (
        site / f"{Graph.get_file_path(keys, name)}.json"
        for keys in combinations
        for name in index["benchmarks"]
    )
    missing = [graph for graph in graphs if not graph.exists()]
    for graph in missing:
        graph.parent.mkdir(parents=True, exist_ok=True)
        graph.write_text("[]")
    return len(missing)


def localise(site: Path) -> None:
    """Replace every library that asv's page loads from another host with our copy.

    Raises SetupError, and leaves the page as it was, if it needs a library without a copy.
    """
    page, names, copied = site / "index.html", copies(), set()

    def local(element: re.Match[str]) -> str:
        integrity = _INTEGRITY.search(element[0])
        if integrity is None or integrity[1] not in names:
            raise SetupError(
                f"asv's page loads {element['address']} "
                f"({integrity[1] if integrity else 'without checksum'}), and there is no copy of "
                f"that: add one to {VENDOR / 'vendored.toml'}"
            )
        copied.add(name := names[integrity[1]])
        return _ELEMENTS[element["kind"]].format(file=f"{VENDOR.name}/{name}")

    text = _REMOTE.sub(local, page.read_text("utf-8"))
    (site / VENDOR.name).mkdir(exist_ok=True)
    for name in copied:
        shutil.copyfile(VENDOR / name, site / VENDOR.name / name)
    page.write_text(text, "utf-8")


def copies() -> dict[str, str]:
    """Map checksums that asv's page demands (W3C Subresource Integrity) to names of copies."""
    table = tomllib.loads((VENDOR / "vendored.toml").read_text("utf-8"))
    return {row["wanted"]: row["file"] for row in table["files"]}
