"""`observatory reference`: keys, metrics, flags and files as a page of Markdown."""

import json
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

VARIABLES: Final = {
    "DUETBENCH_ROOT": "The repository to measure; default: the one around the working folder.",
    "DUETBENCH_OHA_RELEASES": "Address of oha's releases; empty: it is built, in a checkout.",
    "XDG_CACHE_HOME": "Parent of duetbench's cache; default: ~/.cache.",
    "XDG_STATE_HOME": "Parent of logs, and of an application's results; default: ~/.local/state.",
    "COLUMNS": "Width of tables; default: the terminal's, or 120 in files and pipes.",
}
"""Variables that users set, without those that duetbench passes to its own processes."""


def reference_command() -> None:
    """Write the reference page of docs/, and the JSON Schemas of results/, from the registries.

    $ observatory reference

    They have the keys, metrics, flags and files of this version.
    """
    root = paths.project_root()
    (root / PAGE).parent.mkdir(exist_ok=True)
    write(reference(), root / PAGE)
    write(kinds.schema(Run), root / "results" / "schema.json")
    write(kinds.schema(Comparison), root / "results" / "comparison.schema.json")


def reference() -> str:
    """Return the page of the tool as Markdown."""
    parts = [_HEAD, "## Exit codes", _table(("code", "meaning"), EXIT_CODES.items())]
    keys = [*_fields(Target), *(row for row in _fields(Configuration) if row[0] != "`oha`")]
    parts += ["## Configuration keys", _KEYS, _table(("key", "value", "default", "meaning"), keys)]
    parts += ["## Environment variables", _table(("variable", "meaning"), _named(VARIABLES))]
    parts += ["## Metrics", _METRICS, _table(_COLUMNS, _metrics())]
    flags = ((f"`{flag}`", flag.kind, flag.meaning) for flag in FlagName)
    parts += ["## Validity flags", _FLAGS, _table(("flag", "kind", "meaning"), flags)]
    parts += ["## Files", _RECORDS]
    return "\n\n".join(parts) + "\n"


_HEAD: Final = """\
# Reference

`observatory reference` writes this page; do not edit it. Options are in `--help`, and
words in the [glossary](glossary.md)."""

_KEYS: Final = """\
Of `[tool.duetbench]` in `pyproject.toml`, or in `duetbench.toml`. Most are also options, or words
of `--with`."""

_RECORDS: Final = """\
`-o FILE.json` writes a [run](../results/schema.json) or a
[comparison](../results/comparison.schema.json): the schemas say what each key means."""

_METRICS: Final = """\
Values are in SI units. The column *judged* names the cases in which comparisons
[judge a metric](decides.md#which-metrics-are-judged), by its [limit](glossary.md#limit)."""

_COLUMNS: Final = ("metric", "unit", "better", "limit", "judged", "meaning")

_FLAGS: Final = """\
*void*: the launch has a reason and no figures. *disturbed*: figures are shown, and no verdict uses
them unless most duets have the flag. *note*: shown beside the figures."""


def _table(head: tuple[str, ...], rows: Iterable[Iterable[object]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    cells = ([str(cell).replace("|", "\\|").replace("\n", " ") for cell in row] for row in lines)
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def _named(meanings: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    return ((f"`{name}`", meaning) for name, meaning in meanings.items())


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
