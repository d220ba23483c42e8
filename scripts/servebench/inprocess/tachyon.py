"""asv-tachyon's view of asv's site, beside asv's own: another page over the same data.

The package asv-tachyon brings its page ready-made, with nothing from other hosts. Its
installer puts it in the place of asv's page; here it becomes `tachyon.html`, and both stay.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from servebench import paths
from servebench.toolchain import command

PAGE: Final = "tachyon.html"
_OPTIONAL: Final = {"commits.json": "{}", "profiles.json": "{}", "regressions-ignore.json": "[]"}
"""What the page asks for, and does without; a site that has them answers every request."""


def add(site: Path) -> bool:
    """Add the view to a site; whether it is installed, and so could be.

    Raises:
        SetupError: Its installer fails.
    """
    if importlib.util.find_spec("asv_tachyon") is None:
        return False
    log = paths.state_dir() / "logs" / "asv-tachyon.log"
    log.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder)
        shutil.copy(site / "index.json", made)
        argv: list[str | Path] = [sys.executable, "-m", "asv_tachyon", "install", made]
        command.run(argv, what="asv-tachyon", log=log, tick=lambda _: None)
        (made / "index.html").rename(made / PAGE)
        shutil.copytree(made, site, dirs_exist_ok=True)
    for name, text in _OPTIONAL.items():
        (site / name).write_text(text)
    return True
