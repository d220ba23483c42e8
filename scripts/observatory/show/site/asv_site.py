"""asv's own site beside ours, at `asv/`.

Its page loads its libraries from public hosts, and checks them by the checksums that it names.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Final

from duetbench.host import command, paths
from duetbench.host.console import Narrator
from observatory.store import asv_results

LIMIT: Final = 600  # s
NONE: Final = "asv has no results here"


def files(root: Path, results: Path, narrator: Narrator, problems: list[str]) -> dict[str, bytes]:
    """Build asv's site of a checkout's results; return its files, by their names.

    Files that asv cannot read, and why there is no site, are added to `problems`.
    """
    records = results / "asv"
    if not (records / asv_results.LIST).is_file():
        problems.append(NONE)
        return {}
    with tempfile.TemporaryDirectory(prefix="duetbench-") as folder:
        site, usable = Path(folder) / "html", Path(folder) / "results"
        try:
            unread = asv_results.copy_usable(records, usable)
            problems += [problem.replace(f"{results}/", "") for problem in unread]
            publish(root, usable, site, narrator)
        except Exception as problem:  # asv's own code may raise anything
            name = type(problem).__name__
            problems.append(f"asv's site could not be built ({name}): {problem}")
            return {}
        pages = (path for path in sorted(site.rglob("*")) if path.is_file())
        return {path.relative_to(site).as_posix(): path.read_bytes() for path in pages}


def publish(root: Path, results: Path, site: Path, narrator: Narrator) -> None:
    """Let asv build the site of a checkout; raises SetupError if it fails or exceeds `LIMIT`."""
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
