"""The reference: tables of docs/reference.md and schemas of results/, as the registries say.

DUETBENCH_UPDATE=1 writes them.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import pytest
from pydantic import BaseModel

from bench import PROJECT
from duetbench.app.target import Configuration, Target
from duetbench.core.comparison import Comparison
from duetbench.core.errors import EXIT_CODES, FlagName
from duetbench.core.metrics import METRICS
from duetbench.core.model import Run
from duetbench.core.units import share
from goldens import assert_golden

PAGE: Final = PROJECT / "docs" / "reference.md"


def test_the_reference_has_all_keys_metrics_flags_and_exit_codes() -> None:
    """What else its page says is nobody's but its author's."""
    keys = [*_fields(Target), *(row for row in _fields(Configuration) if row[0] != "`oha`")]
    flags = ((f"`{flag}`", flag.kind, flag.meaning) for flag in FlagName)
    page = PAGE.read_text("utf-8")
    for head, rows in (
        (("code", "meaning"), EXIT_CODES.items()),
        (("key", "value", "default", "meaning"), keys),
        (("metric", "unit", "better", "limit", "judged", "meaning"), _metrics()),
        (("flag", "kind", "meaning"), flags),
    ):
        table = [_row(row) for row in (head, ("---",) * len(head), *rows)]
        old = rf"{re.escape(table[0])}(\|.*\n)+"
        page, number = re.subn(old, "".join(table).replace("\\", r"\\"), page)
        assert number == 1, head
    assert_golden(str(PAGE), page)


@pytest.mark.parametrize(
    ("name", "kind"), [("schema.json", Run), ("comparison.schema.json", Comparison)]
)
def test_the_schemas_in_results_are_those_of_the_types(
    name: str, kind: type[Run | Comparison]
) -> None:
    title = (
        f"duetbench {kind.noun.removeprefix('a ')}, format {kind.model_fields['format'].default}"
    )
    dialect = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title}
    document = {**dialect, **kind.model_json_schema(), "title": title}
    text = json.dumps(document, indent=1, ensure_ascii=False)
    assert_golden(str(PROJECT / "results" / name), text)


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
