"""Recorded comparisons of small applications: real launches, whose right answer is known.

Each compares two commits of an application of some twenty lines, on two cores. Beside them lie
records of which tests change fields.
"""

import json
from pathlib import Path
from typing import Any, Final

from duetbench.core.comparison import Comparison

CORPUS: Final = Path(__file__).parents[1] / "corpus"
NAMES: Final = tuple(sorted(path.stem for path in CORPUS.glob("*.json")))


RECORDS: Final = CORPUS.parent / "data" / "records"


def record(name: str) -> dict[str, Any]:
    """Read the fields of a record: `case`, `change`, `machine` and others."""
    fields: dict[str, Any] = json.loads((RECORDS / f"{name}.json").read_text("utf-8"))
    return fields


def load(name: str, changes: dict[str, Any] | None = None) -> Comparison:
    """Read a comparison, with other values of fields by their path: `findings.0.verdict`."""
    document = json.loads((CORPUS / f"{name}.json").read_text("utf-8"))
    for path, value in (changes or {}).items():
        place, *keys = document, *path.split(".")
        for key in keys[:-1]:
            place = place[int(key) if isinstance(place, list) else key]
        place[int(keys[-1]) if isinstance(place, list) else keys[-1]] = value
    return Comparison.model_validate(document)
