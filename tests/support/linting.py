"""The linters of workflows, as set-up installs them."""

import subprocess
import sys
from pathlib import Path
from typing import Literal

from acting import need


def actionlint(root: Path) -> subprocess.CompletedProcess[str]:
    """What actionlint says; without shellcheck, which is not everywhere."""
    argv: list[str | Path] = [need("actionlint"), "-no-color", "-shellcheck=", "-pyflakes="]
    return subprocess.run(argv, cwd=root, capture_output=True, text=True, check=False)


def zizmor(
    root: Path, persona: Literal["pedantic", "regular"] = "pedantic"
) -> subprocess.CompletedProcess[str]:
    """What zizmor says, at its strictest if nothing else is said, without asking anybody."""
    argv: list[str | Path] = [Path(sys.executable).parent / "zizmor", "--offline"]
    argv += ["--strict-collection", "--persona", persona]
    argv += ["--no-progress", "--color", "never", "."]
    return subprocess.run(argv, cwd=root, capture_output=True, text=True, check=False)
