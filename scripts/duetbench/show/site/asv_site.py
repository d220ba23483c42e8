"""asv's own site beside ours, at `asv/`.

asv's page loads its libraries from public hosts; each is replaced by the copy in `vendor/` with the
checksum that the page demands, so that the site works offline and names no reader to
another host.
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

FOLDER: Final = "asv"
NONE: Final = "asv has recorded nothing here"
ELSEWHERE: Final = "asv's site is only made of a checkout's own results"
LEFT_OUT: Final = "asv's site was left out as asked (--no-asv)"
VENDOR: Final = Path(__file__).parent / "vendor"

_REMOTE: Final = re.compile(
    r'<(?P<kind>script|link)\b[^>]*?\b(?:src|href)="(?P<address>(?:https?:)?//[^"]*)"[^>]*>'
)
_INTEGRITY: Final = re.compile(r'\bintegrity="([^"]*)"')
_ELEMENTS: Final = {
    "script": '<script src="{file}" onerror="js_load_failure()">',
    "link": '<link rel="stylesheet" href="{file}">',
}


def bring(root: Path, results: Path, put: Callable[[str, bytes], None], narrator: Narrator) -> str:
    """Put the files of `asv/` into the site.

    Returns:
        Why there is no such site, in words; empty: there is.
    """
    recorded = results / "asv"
    if not (recorded / "benchmarks.json").is_file():
        return NONE
    if recorded.resolve() != (root / "results" / "asv").resolve():
        return ELSEWHERE
    with tempfile.TemporaryDirectory(prefix="duetbench-") as folder:
        site = Path(folder) / "html"
        try:
            publish(root, site, narrator)
        except Exception as problem:  # asv's own code may stumble over anything
            return f"asv's site could not be made ({type(problem).__name__}): {problem}"
        for path in sorted(site.rglob("*")):
            if path.is_file():
                put(f"{FOLDER}/{path.relative_to(site).as_posix()}", path.read_bytes())
    return ""


def publish(root: Path, site: Path, narrator: Narrator) -> None:
    """Make asv's site of a checkout, complete and with our copies of its libraries.

    SetupError: asv fails, or its page wants a library of which we have no copy.
    """
    log = paths.state_dir() / "logs" / "asv-publish.log"
    log.unlink(missing_ok=True)
    argv: list[str | Path] = [sys.executable, "-m", "asv", "publish", "--no-pull"]
    argv += ["--html-dir", site.resolve()]
    with narrator.step("asv's site", f"asv collects the results into {site}") as tick:
        command.run(argv, what="asv publish", log=log, tick=tick, cwd=root)
    complete(site)
    localise(site)


def complete(site: Path) -> int:
    """Add the graphs that asv's page asks for and that asv did not write; how many.

    The page asks for every benchmark under every combination of its keys, but not every suite runs
    on every interpreter and stack. Such a graph is empty.
    """
    from asv.graph import Graph  # noqa: PLC0415 - takes half a second

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


def localise(site: Path) -> None:
    """Replace every library that asv's page would load from another host by our copy.

    SetupError: the page wants another library or version than we keep; it is left as it was.
    """
    page, ours, used = site / "index.html", copies(), set()

    def local(element: re.Match[str]) -> str:
        demanded = _INTEGRITY.search(element[0])
        if demanded is None or demanded[1] not in ours:
            raise SetupError(
                f"asv's page loads {element['address']} "
                f"({demanded[1] if demanded else 'without checksum'}), and there is no copy of "
                f"that: add one to {VENDOR / 'vendored.toml'}"
            )
        used.add(name := ours[demanded[1]])
        return _ELEMENTS[element["kind"]].format(file=f"{VENDOR.name}/{name}")

    replaced = _REMOTE.sub(local, page.read_text("utf-8"))
    (site / VENDOR.name).mkdir(exist_ok=True)
    for name in used:
        shutil.copyfile(VENDOR / name, site / VENDOR.name / name)
    page.write_text(replaced, "utf-8")


def copies() -> dict[str, str]:
    """Names of the copies by what asv's page demands (W3C Subresource Integrity)."""
    table = tomllib.loads((VENDOR / "vendored.toml").read_text("utf-8"))
    return {row["wanted"]: row["file"] for row in table["files"]}
