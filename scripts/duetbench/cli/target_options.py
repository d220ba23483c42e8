"""The options that describe a target, shared by the commands that measure one."""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, Final, get_origin

from typer import Context, Option

from duetbench.app import target
from duetbench.app.deployment import module_files
from duetbench.app.subject import Subject
from duetbench.app.target import FIELDS, is_harmless
from duetbench.core.errors import UsageError

_SECRET: Final = re.compile(r"auth|cookie|key|token|secret|session|passw", re.IGNORECASE)
"""Names of headers with private values."""

OPTIONS: Final = {
    "app": ("app", "MODULE:ATTRIBUTE"),
    "path": ("requests", "PATH"),
    "request": ("requests", "LINE"),
    "header": ("headers", "'NAME: VALUE'"),
    "login": ("login", "REQUEST"),
    "env": ("env", "NAME[=VALUE]"),
    "env-file": ("env-file", "FILE"),
    "copy-database": ("copy-database", "VARIABLE"),
    "before": ("before", "COMMAND"),
}
"""Option → its key, and how a help shows its value."""

_OF_KEYS: Final = {key: option for option, (key, _) in OPTIONS.items()}

WORDS: Final = {"arg" if key == "server-arg" else key: key
                for key in FIELDS if key not in {*_OF_KEYS, "results"}}  # fmt: skip
"""Word of `--with` → its key: all that have no option."""

_SEVERAL: Final = {
    key for key, info in FIELDS.items() if get_origin(info.annotation) in {tuple, dict}
}

Options = Mapping[str, Any]
"""Options that describe a target, spelled as the keys of `[tool.duetbench]` are."""


def _parameters() -> Iterator[Parameter]:
    """Yield the options as parameters, as typer reads them."""
    for name, (key, metavar) in OPTIONS.items():
        meaning = FIELDS[key].description
        if name == "path":
            meaning = "Path to GET, e.g. /items/7 (/). Repeat it: each is a case."
        option = Option(f"--{name}", metavar=metavar, help=meaning)
        kind: Any = list[str] if key in _SEVERAL else str
        yield _parameter(name.replace("-", "_"), kind, option)
    words = f"What is otherwise than usual, such as workers=4: {', '.join(WORDS)}; repeatable."
    yield _parameter("words", list[str], Option("--with", metavar="WORD", help=words))


def _parameter(name: str, kind: Any, option: Any) -> Parameter:
    annotation = Annotated[kind | None, option]
    return Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


_DECLARED: Final = [*_parameters()]


def with_target(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of a target besides its own; its context's `obj` is `Options`."""

    @wraps(verb)
    def command(context: Context, **values: Any) -> Any:
        context.obj = _read({option.name: values.pop(option.name) for option in _DECLARED})
        return verb(context, **values)

    every = [*signature(verb).parameters.values(), *_DECLARED]
    command.__signature__ = Signature(every)  # type: ignore[attr-defined] # for typer
    command.__annotations__ = {each.name: each.annotation for each in every}
    return command


def _read(values: Mapping[str, Any]) -> Options:
    """Read the options into keys; UsageError if a header or variable is invalid.

    A private header's value becomes a variable, whose values are never recorded or shown.
    """
    keys: dict[str, Any] = {key: () if key in _SEVERAL else None for key in FIELDS}
    for option, (key, _) in OPTIONS.items():
        value = values[option.replace("-", "_")]
        keys[key] = (*keys[key], *(value or ())) if key in _SEVERAL else value
    for word in values["words"] or ():
        name, sign, text = word.partition("=")
        if name not in WORDS or text.startswith("="):
            known = ", ".join(WORDS)
            raise UsageError(f"--with {word}: expected KEY=VALUE, with one of {known}")
        key = WORDS[name]
        value = target.read_value(key, text if sign else "true")
        keys[key] = (*keys[key], *value) if key in _SEVERAL else value
    headers, variables = dict[str, str](), dict[str, str]()
    for text in keys["env"]:
        name, assigned, value = text.partition("=")
        if not assigned and name not in os.environ:
            raise UsageError(f"--env {name}: it is not set here; set it, or use --env {name}=VALUE")
        variables[name] = value if assigned else os.environ[name]
    for text in keys["headers"]:
        name, assigned, value = (part.strip() for part in text.partition(":"))
        if not assigned or not name:
            raise UsageError(f"--header {name!r}…: expected NAME: VALUE")
        headers[name.lower()] = value
        if _SECRET.search(name) and not re.search(r"\{\w+\}", value):
            variable = f"HEADER_{name.upper().replace('-', '_')}"
            variables[variable], headers[name.lower()] = value, f"{{{variable}}}"
    return {**keys, "headers": headers, "env": variables}


def with_options(root: Path, options: Options) -> Subject:
    """Return a repository's application, from keys and options; raises as `target.of`."""
    here, app = Path.cwd(), options["app"]
    if app and here != root and here.is_relative_to(root):
        name, places = app.partition(":")[0], (here, root / "src", root)
        folders = [p for p in places for file in module_files(name) if (p / file).is_file()]
        if folders == [here]:
            # What starts in a folder is imported from it, also if it lists no packages.
            root = here
    return Subject(root, target=target.of(root, options))


def repetition(options: Options) -> tuple[list[str], str]:
    """Return the options that repeat a call, and the names of those that only its author has."""
    words, others = list[str](), dict[str, None]()
    names = {key: word for word, key in WORDS.items()}
    headers = [f"{name}: {text}" for name, text in options.get("headers", {}).items()]
    for key, value in {**options, "headers": headers}.items():
        flag = f"--{_OF_KEYS[key]}" if key in _OF_KEYS else "--with"
        for each in value if key in _SEVERAL else [value] * target.was_given(value):
            text = f"{names[key]}={each}" if flag == "--with" else str(each)
            if is_harmless(flag, text):
                words += [flag, text]
            else:
                others[f"--with {names[key]}" if flag == "--with" else flag] = None
    return words, ", ".join(others)


def left_out(options: Options) -> tuple[str, ...]:
    """Return a sentence on what a report's command lacks, if anything."""
    names = repetition(options)[1]
    return (f"to repeat it, add {names} again: the command omits that",) if names else ()
