"""The options that describe a target, shared by the commands that measure one."""

import os
import re
from collections.abc import Callable, Mapping
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, Final

from typer import Context, Option

from duetbench.app import target
from duetbench.app.deployment import module_files
from duetbench.app.subject import Subject
from duetbench.app.target import OPTIONS, is_harmless
from duetbench.core.errors import UsageError

_SECRET: Final = re.compile(r"auth|cookie|key|token|secret|session|passw", re.IGNORECASE)
"""Names of headers with private values."""

_FLAGS: Final = {name: option for name, option in OPTIONS.items() if not option.word}
_WORDS: Final = {name: option for name, option in OPTIONS.items() if option.word}

Options = Mapping[str, Any]
"""Options that describe a target, spelled as the keys of `[tool.duetbench]` are."""


def _parameter(name: str, kind: Any, option: Any) -> Parameter:
    annotation = Annotated[kind | None, option]
    name = name.replace("-", "_")
    return Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


_WITH: Final = Option(
    "--with",
    metavar="WORD",
    help=f"What is otherwise than usual, such as workers=4: {', '.join(_WORDS)}; repeatable.",
)
_DECLARED: Final = [
    *(
        _parameter(name, each.kind, Option(f"--{name}", metavar=each.metavar, help=each.help))
        for name, each in _FLAGS.items()
    ),
    _parameter("words", list[str], _WITH),
]
"""Each option is a parameter, as typer reads them."""


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
    typed = [(option, values[option.name.replace("-", "_")]) for option in _FLAGS.values()]
    typed += [_read_word(word) for word in values["words"] or ()]
    keys: dict[str, Any] = {option.key: () if option.kind == list[str] else None
                            for option in OPTIONS.values()}  # fmt: skip
    for option, value in typed:
        if option.kind == list[str]:
            keys[option.key] += tuple(value or ())
        elif option.word and keys[option.key] is not None:
            raise UsageError(f"--with {option.name}: expected it once")
        else:
            keys[option.key] = value
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


def _read_word(word: str) -> tuple[target.CommandOption, Any]:
    name, sign, text = word.partition("=")
    if (option := _WORDS.get(name)) is None or text.startswith("="):
        known = ", ".join(_WORDS)
        raise UsageError(f"--with {word}: expected KEY=VALUE, with one of {known}")
    value = option.read(text if sign else None)
    return option, [value] if option.kind == list[str] else value


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
    of_keys = {option.key: option for option in OPTIONS.values()}
    words, others = list[str](), dict[str, None]()
    headers = [f"{name}: {text}" for name, text in options.get("headers", {}).items()]
    for key, value in {**options, "headers": headers}.items():
        option = of_keys[key]
        if not target.was_given(value):
            continue
        for each in value if option.kind == list[str] else [value]:
            if is_harmless(*option.spell(each)):
                words += option.spell(each)
            else:
                others[option.flag] = None
    return words, ", ".join(others)


def left_out(options: Options) -> tuple[str, ...]:
    """Return a sentence on what a report's command lacks, if anything."""
    names = repetition(options)[1]
    return (f"to repeat it, add {names} again: the command omits that",) if names else ()
