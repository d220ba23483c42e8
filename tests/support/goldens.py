"""Recorded files of tests: comparisons, records of which they change fields, and what readers see.

The comparisons are of small applications: real launches, whose right answer is known. Each compares
two commits of an application of some twenty lines, on two cores.
"""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from duetbench.core.errors import DuetbenchError

DATA: Final = Path(__file__).parents[1] / "data"
CORPUS: Final = DATA.with_name("corpus")
UPDATES: Final = "DUETBENCH_UPDATE" in os.environ  # some tests empty their environment
NAMES: Final = tuple(sorted(path.stem for path in CORPUS.glob("*.json")))


def record(name: str) -> dict[str, Any]:
    """Read the fields of a record: `case`, `change`, `machine` and others."""
    fields: dict[str, Any] = json.loads((DATA / "records" / f"{name}.json").read_text("utf-8"))
    return fields


def assert_golden(name: str, text: str) -> None:
    """Compare a text with a file of `tests/data`; DUETBENCH_UPDATE=1 writes the file instead."""
    path = DATA / name
    text = text.rstrip("\n") + "\n"
    if UPDATES:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    assert text == path.read_text("utf-8"), f"DUETBENCH_UPDATE=1 writes {path}: read its diff"


def assert_said(name: str, say: Callable[[str], str], folder: Path | None = None) -> None:
    """Compare what is said of texts with a file of both: a text, `=> ` and the words, a gap.

    The texts are those of the file, with remarks above them in lines that begin with `## `;
    DUETBENCH_UPDATE=1 writes the words. They may be an error, with its type; a test's folder is `…`
    in them.
    """

    def words(text: str) -> str:
        try:
            said = say(re.sub("^## .*\n", "", text, flags=re.MULTILINE))
        except DuetbenchError as error:
            said = f"{type(error).__name__}: {error}"
        return said.replace(str(folder), "…") if folder else said

    file = f"said/{name}.txt"
    texts = re.findall(r"\n*(.+?)\n=>[^\n]*\n", (DATA / file).read_text("utf-8"), re.DOTALL)
    assert_golden(file, "\n".join(f"{text}\n=> {words(text)}".rstrip() + "\n" for text in texts))
