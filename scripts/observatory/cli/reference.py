"""`observatory reference`: exit codes, keys, metrics and flags as tables of a page of Markdown."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from pydantic import BaseModel

from duetbench.app.target import Configuration, Target
from duetbench.core.comparison import Comparison
from duetbench.core.errors import EXIT_CODES, FlagName
from duetbench.core.metrics import METRICS
from duetbench.core.model import Run
from duetbench.core.units import share
from duetbench.host import paths
from duetbench.host.console import write
from observatory.store import kinds

PAGE: Final = "docs/reference.md"


def reference_command() -> None:
    """Renew the tables of docs/reference.md, and the JSON Schemas of results/, by the registries.

    $ observatory reference

    They have the keys, metrics, flags and files of this version.
    """
    root = paths.project_root()
    write(reference((root / PAGE).read_text("utf-8")), root / PAGE)
    write(kinds.schema(Run), root / "results" / "schema.json")
    write(kinds.schema(Comparison), root / "results" / "comparison.schema.json")


def reference(page: str) -> str:
    """Return the page with tables as the registries say; what else it says stays."""
    keys = [*_fields(Target), *(row for row in _fields(Configuration) if row[0] != "`oha`")]
    flags = ((f"`{flag}`", flag.kind, flag.meaning) for flag in FlagName)
    for head, rows in (
        (("code", "meaning"), EXIT_CODES.items()),
        (("key", "value", "default", "meaning"), keys),
        (("metric", "unit", "better", "limit", "judged", "meaning"), _metrics()),
        (("flag", "kind", "meaning"), flags),
    ):
        table = [_row(row) for row in (head, ("---",) * len(head), *rows)]
        old = rf"{re.escape(table[0])}(\|.*\n)+"
        page = re.sub(old, "".join(table).replace("\\", r"\\"), page)
    return page


def _row(cells: Iterable[object]) -> str:
    texts = (str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells)
    return f"| {' | '.join(texts)} |\n"


def _fields(model: type[BaseModel]) -> Iterator[tuple[str, str, str, str]]:
    """List the keys of a model, as its JSON Schema has them."""
    schema = model.model_json_schema()
    for key, shape in schema["properties"].items():
        kinds = dict.fromkeys(map(_kind, shape.get("anyOf", [shape])))
        default = shape.get("default")
        text = "" if default in (None, "", [], {}) else f"`{json.dumps(default)}`"
        text = "required" if key in schema.get("required", ()) else text
        yield f"`{key}`", " or ".join(filter(None, kinds)), text, shape.get("description", "")


def _kind(shape: Mapping[str, Any]) -> str:
    if "enum" in shape:
        return " or ".join(f"`{value}`" for value in shape["enum"])
    if "$ref" in shape:
        return str(shape["$ref"]).rpartition("/")[2]
    of = _kind(shape["items"]) if shape.get("items") else ""
    return str(shape.get("type", "")).replace("null", "") + (f" of {of}" if of else "")


def _metrics() -> Iterator[tuple[str, ...]]:
    for row in METRICS.values():
        better = "" if row.better == "neither" else row.better
        limit = share(row.limit) if row.situation else ""
        yield f"`{row.name}`", row.unit, better, limit, row.situation, row.meaning
