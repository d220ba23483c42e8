"""Writes a workflow step's outputs, and the summary that people read.

Both are files that GitHub Actions names in the environment. A value is set apart by a line that
nobody can guess, so that no value can begin another output.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from servebench.core.errors import RecordError, UsageError

OUTPUT: Final = "GITHUB_OUTPUT"
SUMMARY: Final = "GITHUB_STEP_SUMMARY"
MOST_SUMMARY: Final = 1_000_000
"""Bytes that a summary may have; GitHub refuses more than 1 MiB of it as a whole."""


def outputs(values: Mapping[str, str]) -> None:
    """Hand values to the following steps and jobs; raises UsageError or RecordError."""
    path = os.environ.get(OUTPUT)
    if not path:
        raise UsageError(
            f"--github-output: expected the file's name in {OUTPUT}, which is not set: leave the "
            "option out elsewhere than in a workflow"
        )
    lines = []
    for name, value in values.items():
        fence = f"end-{secrets.token_hex(16)}"
        lines.append(f"{name}<<{fence}\n{value}\n{fence}\n")
    _append(Path(path), "".join(lines))


def summary(markdown: str) -> None:
    """Add to the step's summary; nothing where there is none; raises RecordError."""
    path = os.environ.get(SUMMARY)
    if path:
        kept = markdown.encode()[:MOST_SUMMARY].decode(errors="ignore")
        _append(Path(path), kept.rstrip("\n") + "\n\n")


def _append(path: Path, text: str) -> None:
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as problem:
        raise RecordError(f"{path}: cannot be written: {problem.strerror}") from problem
