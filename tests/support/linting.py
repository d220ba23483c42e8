"""The linters of workflows, as set-up installs them."""

import subprocess
import sys
from pathlib import Path
from typing import Literal

from acting import need


def actionlint(root: Path) -> subprocess.CompletedProcess[str]:
    """Run actionlint, without shellcheck, which is not installed everywhere."""
    argv: list[str | Path] = [need("actionlint"), "-no-color", "-shellcheck=", "-pyflakes="]
    return subprocess.run(argv, cwd=root, capture_output=True, text=True, check=False)


def zizmor(
    root: Path, persona: Literal["pedantic", "regular"] = "pedantic"
) -> subprocess.CompletedProcess[str]:
    """Run zizmor offline, by default with its strictest persona."""
    argv: list[str | Path] = [Path(sys.executable).parent / "zizmor", "--offline"]
    argv += ["--strict-collection", "--persona", persona]
    argv += ["--no-progress", "--color", "never", "."]
    return subprocess.run(argv, cwd=root, capture_output=True, text=True, check=False)
