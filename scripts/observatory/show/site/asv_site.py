"""asv's own site beside ours, at `asv/`.

Its page loads its libraries from public hosts, and checks them by the checksums that it names.
"""

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from duetbench.host import command, paths
from duetbench.host.console import Narrator
from observatory.store import asv_results

FOLDER: Final = "asv"
LIMIT: Final = 600  # s
NONE: Final = "asv has no results here"
ELSEWHERE: Final = "asv's site is built only from a checkout's own results"
LEFT_OUT: Final = "asv's site was left out (--no-asv)"

Put = Callable[[str, Callable[[], bytes]], None]
"""Puts a file into the site: its name there, and a function that returns its bytes."""


def bring(root: Path, results: Path, put: Put, narrator: Narrator, problems: list[str]) -> str:
    """Put the files of `asv/` into the site; add files that asv cannot read to `problems`.

    Returns:
        Why the site has no such files; empty if it has them.
    """
    records = results / "asv"
    if not (records / asv_results.LIST).is_file():
        return NONE
    if records.resolve() != (root / "results" / "asv").resolve():
        return ELSEWHERE
    with tempfile.TemporaryDirectory(prefix="duetbench-") as folder:
        site, usable = Path(folder) / "html", Path(folder) / "results"
        try:
            unread = asv_results.copy_usable(records, usable)
            problems += [problem.replace(f"{results}/", "") for problem in unread]
            publish(root, usable, site, narrator)
        except Exception as problem:  # asv's own code may raise anything
            return f"asv's site could not be built ({type(problem).__name__}): {problem}"
        for path in sorted(site.rglob("*")):
            if path.is_file():
                put(f"{FOLDER}/{path.relative_to(site).as_posix()}", path.read_bytes)
    return ""


def publish(root: Path, results: Path, site: Path, narrator: Narrator) -> None:
    """Build asv's site of a checkout, without gaps.

    Raises SetupError if asv fails or needs more than `LIMIT`.
    """
    from asv.util import load_json  # noqa: PLC0415 - takes half a second

    log = paths.state_dir() / "logs" / "asv-publish.log"
    log.unlink(missing_ok=True)
    conf = load_json(str(root / "asv.conf.json"), js_comments=True)
    conf |= {"repo": str(root), "results_dir": str(results), "html_dir": str(site)}
    file = results.parent / "asv.conf.json"
    file.write_text(json.dumps(conf), "utf-8")
    argv = [sys.executable, "-m", "asv", "publish", "--no-pull", "--config", str(file)]
    env = {"DUETBENCH_ROOT": str(root)}
    with narrator.step("asv's site", f"asv collects the results into {site}") as tick:
        what, argv = f"asv publish within {LIMIT} s", ["timeout", str(LIMIT), *argv]
        command.run(argv, what=what, log=log, tick=tick, env=env)
    complete(site)


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
