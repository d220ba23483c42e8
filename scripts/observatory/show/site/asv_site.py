"""asv's own site beside ours, at `asv/`.

Its page loads its libraries from public hosts, and checks them by the checksums that it names.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from duetbench.host import command, paths
from duetbench.host.console import Narrator
from observatory.store import asv_results

LIMIT: Final = 600  # s
NONE: Final = "asv has no results here"


def build(root: Path, results: Path, site: Path, narrator: Narrator) -> tuple[str, ...]:
    """Let asv build the site of a checkout's results in a folder.

    Returns sentences: files that asv cannot read, or at last why there is no site.
    """
    records, problems = results / "asv", list[str]()
    if not (records / asv_results.LIST).is_file():
        return (NONE,)
    with tempfile.TemporaryDirectory(prefix="duetbench-") as folder:
        usable = Path(folder) / "results"
        try:
            unread = asv_results.copy_usable(records, usable)
            problems += [problem.replace(f"{results}/", "") for problem in unread]
            _publish(root, usable, site, narrator)
        except Exception as problem:  # asv's own code may raise anything
            shutil.rmtree(site, ignore_errors=True)
            problems.append(f"asv's site could not be built ({type(problem).__name__}): {problem}")
    return tuple(problems)


def _publish(root: Path, results: Path, site: Path, narrator: Narrator) -> None:
    """Run asv; raises SetupError if it fails or exceeds `LIMIT`."""
    from asv.util import load_json  # noqa: PLC0415 - takes half a second

    log = paths.state_dir() / "logs" / "asv-publish.log"
    log.unlink(missing_ok=True)
    conf = load_json(str(root / "asv.conf.json"), js_comments=True)
    conf |= {"repo": str(root), "results_dir": str(results), "html_dir": str(site)}
    file = results.parent / "asv.conf.json"
    file.write_text(json.dumps(conf), "utf-8")
    argv = [sys.executable, "-m", "asv", "publish", "--no-pull", "--config", str(file)]
    with narrator.step("asv's site", f"asv collects the results into {site}") as tick:
        what, argv = f"asv publish within {LIMIT} s", ["timeout", str(LIMIT), *argv]
        command.run(argv, what=what, log=log, tick=tick, env={"DUETBENCH_ROOT": str(root)})
