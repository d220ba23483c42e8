"""Golden files: what readers see, as files, so that a change of it is a diff."""

import os
from pathlib import Path
from typing import Final

DATA: Final = Path(__file__).parents[1] / "data"


def assert_golden(name: str, text: str) -> None:
    """Compare a text with a file of `tests/data`; DUETBENCH_UPDATE=1 writes the file instead."""
    path = DATA / name
    text = text.rstrip("\n") + "\n"
    if os.environ.get("DUETBENCH_UPDATE"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    assert text == path.read_text("utf-8"), f"DUETBENCH_UPDATE=1 writes {path}: read its diff"
