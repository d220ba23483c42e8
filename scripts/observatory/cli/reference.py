"""`observatory reference`: commands, keys, metrics, flags and files as one page of Markdown."""

import inspect
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final

from pydantic import BaseModel
from typer import Context
from typer.main import get_group

from duetbench.app import declarations
from duetbench.app.target import OPTIONS, Configuration, Target
from duetbench.cli import app
from duetbench.cli.verbs import Verb
from duetbench.core.comparison import Comparison
from duetbench.core.errors import EXIT_CODES, FlagName
from duetbench.core.metrics import METRICS
from duetbench.core.model import Artefact, Run
from duetbench.core.units import share
from duetbench.host import paths
from duetbench.host.console import write
from observatory.cli import app as observatory_app
from observatory.matrix import schema as tables
from observatory.matrix.anchor import Anchor
from observatory.matrix.checkout import Settings
from observatory.matrix.declared_interpreters import InterpreterSpec, SourceBuild
from observatory.store import kinds
from observatory.store.kinds import KINDS

PAGE: Final = "docs/reference.md"

VARIABLES: Final = {
    "DUETBENCH_ROOT": "The repository to measure; default: the one around the working folder.",
    "DUETBENCH_SITE": "The site's address for links in issues; default: that of GitHub Pages.",
    "DUETBENCH_HISTORY_REMOTE": "Remote with the history's branch; default: origin.",
    "DUETBENCH_SELECT": "`--select` of `observatory plan`.",
    "DUETBENCH_OHA_RELEASES": "Address of oha's releases; empty: build it from source.",
    "DUETBENCH_CPYTHON_ARCHIVE": "Path or address of CPython's source, if no mirror has it.",
    "GITHUB_TOKEN": "Token for GitHub: `duetbench ci` and `observatory`.",
    "GITHUB_REPOSITORY": "Repository on GitHub, OWNER/NAME; Actions sets it.",
    "UV_NO_BUILD": "1 refuses packages that are not wheels; `backfill` sets it unless it is 0.",
    "XDG_CACHE_HOME": "Parent of duetbench's cache; default: ~/.cache.",
    "XDG_STATE_HOME": "Parent of logs, and of an application's results; default: ~/.local/state.",
    "COLUMNS": "Width of tables; default: the terminal's, or 120 in files and pipes.",
}
"""Variables that users set, without those that duetbench passes to its own processes."""

_KEYS: Final[tuple[tuple[str, str, type[BaseModel]], ...]] = (
    ("The application", "`[tool.duetbench]` of `pyproject.toml`, or `duetbench.toml`", Target),
    ("Machines and tools", "`[tool.duetbench]`", Configuration),
    ("An interpreter", "`[tool.observatory.interpreters.NAME]`", InterpreterSpec),
    ("Its build from source", '`[tool.observatory.source-build."VERSION"]`', SourceBuild),
    ("The load generator", "`[tool.duetbench.oha]`", declarations.OhaSpec),
    ("Nights", "`[tool.observatory]` of `pyproject.toml`", Settings),
    ("A stack", "`[tool.duetbench.stacks.NAME]` of `apps/pyproject.toml`", tables.StackSpec),
    ("An experiment", "`apps/NAME/experiment.toml`", tables.Declaration),
    ("Its source", "`[source]` there", tables.SourceTable),
    ("An endpoint", "`[endpoints.NAME]` there", tables.EndpointTable),
    ("A load", "`[loads.NAME]` there", tables.LoadTable),
    ("A block of cases", "`[[cases]]` there", tables.CasesTable),
    ("The anchor", "`apps/anchor.toml`", Anchor),
)


def reference_command() -> None:
    """Write docs/reference.md and the JSON Schemas of results/ from the registries.

    $ observatory reference

    They have the commands, keys, metrics, flags and files of this version.
    """
    root = paths.project_root()
    write(reference(), root / PAGE)
    write(kinds.schema(Run), root / "results" / "schema.json")
    write(kinds.schema(Comparison), root / "results" / "comparison.schema.json")


def reference() -> str:
    """Return the page as Markdown."""
    parts = [_HEAD, *_commands()]
    parts += ["## Exit codes", _table(("code", "meaning"), EXIT_CODES.items())]
    parts.append("## Configuration keys")
    for title, where, model in _KEYS:
        table = _table(("key", "value", "default", "meaning"), _fields(model))
        parts += [f"### {title}", f"{where}.", table]
    parts += ["## Metrics", _METRICS, _table(_COLUMNS, _metrics())]
    flags = ((f"`{flag}`", flag.kind, flag.meaning) for flag in FlagName)
    parts += ["## Validity flags", _FLAGS, _table(("flag", "kind", "meaning"), flags)]
    variables = ((f"`{name}`", meaning) for name, meaning in VARIABLES.items())
    parts += ["## Environment variables", _table(("variable", "meaning"), variables)]
    parts += ["## Files below `results/`", _table(("place", "contents", "changes"), _files())]
    for model in (kind.model for kind in KINDS if issubclass(kind.model, Artefact)):
        rows = ((key, value, meaning) for key, value, _, meaning in _fields(model))
        parts += [f"### {model.__name__}", _table(("key", "value", "meaning"), rows)]
    return "\n\n".join(parts) + "\n"


_HEAD: Final = """\
# Reference

`observatory reference` writes this page; do not edit it. The [glossary](glossary.md) explains the
words, `--help` shows the same options."""

_WITH: Final = "The words of `--with`, which are keys, too (`arg` is `server-arg` there):"

_METRICS: Final = """\
Values are in SI units. A comparison judges a metric if the column *judged* says so. A change
below a tenth of its [limit](glossary.md#limit) counts as none; the
limit is what *same* excludes."""

_COLUMNS: Final = ("metric", "unit", "better", "threshold", "limit", "judged", "meaning")

_FLAGS: Final = """\
*void*: the launch has a reason and no figures. *disturbed*: figures are shown, and no verdict uses
them unless most duets have the flag. *note*: shown beside the figures."""


def _table(head: tuple[str, ...], rows: Iterable[Iterable[object]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    cells = ([str(cell).replace("|", "\\|").replace("\n", " ") for cell in row] for row in lines)
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def _commands() -> Iterator[str]:
    yield "## Commands"
    of_application = {name.replace("-", "_") for name in OPTIONS} | {"help_app", "words"}
    shared: dict[str, Any] = {}
    for words, command in chain(
        _leaves(get_group(app), "duetbench"), _leaves(get_group(observatory_app), "observatory")
    ):
        params = {param.name: param for param in command.params}
        several = {name for name in of_application & params.keys() if "help_app" in params}
        shared |= {name: params.pop(name) for name in list(params) if name in several}
        yield f"### {words}"
        for paragraph in _plain(command.help).split("\n\n"):
            fenced = paragraph.startswith("$ ")
            yield f"```console\n{paragraph}\n```" if fenced else paragraph
        if rows := _options(command, params.values()):
            yield _table(("option", "meaning"), rows)
        if several:
            yield "Also takes the options of [the application](#options-of-an-application)."
    del shared["help_app"]
    for param in shared.values():
        param.hidden = False
    yield "### Options of an application"
    yield _table(("option", "meaning"), _options(command, shared.values()))
    yield _WITH
    spelled = [option for option in OPTIONS.values() if option.word]
    cells = ((f"`{each.spell(each.metavar.strip('<>'))}`", each.help) for each in spelled)
    yield _table(("word", "meaning"), cells)


def _leaves(group: Any, words: str) -> Iterator[tuple[str, Any]]:
    for name, verb in group.commands.items():
        command = verb.load() if isinstance(verb, Verb) else verb
        if hasattr(command, "commands"):
            yield from _leaves(command, f"{words} {name}")
        else:
            yield f"{words} {name}", command


def _options(command: Any, params: Iterable[Any]) -> list[tuple[str, str]]:
    """List them as `--help` does."""
    records = (param.get_help_record(Context(command)) for param in params)
    return [(f"`{record[0]}`", _plain(record[1])) for record in records if record]


def _plain(text: str | None) -> str:
    return (text or "").replace("\b\n", "").replace("<", "\\<")


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
        sizes = (share(row.floor), share(row.limit)) if row.situation else ("", "")
        better = "" if row.better == "neither" else row.better
        yield f"`{row.name}`", row.unit, better, *sizes, row.situation, row.meaning


def _files() -> Iterator[tuple[str, str, str]]:
    for kind in KINDS:
        contents = inspect.getdoc(kind.model) or ""
        first = " ".join(contents.split("\n\n")[0].split())
        place = re.sub(r"\{[^}]*?(\w+)\]?(:[^}]*)?\}", r"<\1>", kind.model.place)
        yield f"`{place}`", first, "replaced by newer ones" if kind.replaceable else "never"
