"""The options that describe a target, shared by the commands that measure one."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import field, make_dataclass
from pathlib import Path
from textwrap import fill
from typing import Any, Final

from typer import Exit, Option, echo
from typer.core import TyperCommand
from typer.main import get_command_from_info
from typer.models import CommandInfo

from duetbench.app import target
from duetbench.app.deployment import module_files
from duetbench.app.subject import Subject
from duetbench.app.target import OPTIONS, CommandOption
from duetbench.core.errors import UsageError

_SECRET: Final = re.compile(r"auth|cookie|key|token|secret|session|passw", re.IGNORECASE)
"""Names of headers with private values."""

_FLAGS: Final = {name: option for name, option in OPTIONS.items() if not option.word}
_WORDS: Final = {name: option for name, option in OPTIONS.items() if option.word}
_BRIEF: Final = {"app", "path"}
"""What the help of a command shows of them; --help-app shows all."""

Options = Mapping[str, Any]
"""Options that describe a target, spelled as the keys of `[tool.duetbench]` are."""


def _page(is_set: bool) -> None:
    if is_set:
        echo("The application. Each option is also a key of tool.duetbench, and so is each word of")
        echo("--with, except arg, which is server-arg there; docs/applications.md has examples.\n")
        for option in sorted(OPTIONS.values(), key=lambda option: option.word):
            start = f"  {'--with ' * option.word}{option.spell(option.metavar)}".ljust(28)
            gap = "" if start.endswith("  ") else f"\n{'':28}"
            text = fill(option.help, 80, initial_indent=" " * 28, subsequent_indent=" " * 28)
            echo(f"{start}{gap}{text.strip()}")
        raise Exit


def _declare(option: CommandOption) -> tuple[str, Any, Any]:
    declared = Option(
        None,
        f"--{option.name}",
        metavar=option.metavar,
        help=option.help,
        hidden=option.name not in _BRIEF,
    )
    return option.name.replace("-", "_"), option.kind, field(default=declared)


_SHOW: Final = Option(
    False,
    "--help-app",
    callback=_page,
    is_eager=True,
    help="Show all options of an application: requests, server, environment, commands.",
)
_WITH: Final = Option(
    None,
    "--with",
    metavar="WORD",
    help="What is otherwise than usual, such as workers=4: --help-app lists the words; repeatable.",
)
_Declared: Final = make_dataclass(
    "_Declared",
    [
        *map(_declare, _FLAGS.values()),
        ("words", list[str], field(default=_WITH)),
        ("help_app", bool, field(default=_SHOW)),
    ],
)
"""Each option is a parameter, as typer reads them."""


class TargetCommand(TyperCommand):
    """A command that has the options of a target besides its own; its context's `obj` is `Options`.

    Its help shows few of them; --help-app shows all.
    """

    def __init__(self, params: list[Any], **settings: Any) -> None:
        info = CommandInfo("", callback=_Declared)
        of_target = get_command_from_info(info, pretty_exceptions_short=True, rich_markup_mode=None)
        self.own = {param.name for param in params}
        super().__init__(params=[*params, *of_target.params], **settings)

    def invoke(self, ctx: Any) -> Any:
        ctx.obj = _read(ctx.params)
        own = {name: value for name, value in ctx.params.items() if name in self.own}
        return ctx.invoke(self.callback, **own)


def with_target(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of a target."""
    verb.command = TargetCommand  # type: ignore[attr-defined] # for verbs.Verb
    return verb


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


def _read_word(word: str) -> tuple[CommandOption, Any]:
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
        found = [p for p in places for file in module_files(name) if (p / file).is_file()]
        if found == [here]:
            # What starts in a folder is imported from it, also if it lists no packages.
            root = here
    return Subject(root, target=target.of(root, options))


def repetition(options: Options) -> tuple[list[str], list[str]]:
    """Return the options that repeat a call, variables by name only.

    First those that reports may have, then those that only their author should run again.
    """
    of_keys = {option.key: option for option in OPTIONS.values()}
    safe, private = list[str](), list[str]()
    headers = [f"{name}: {text}" for name, text in options.get("headers", {}).items()]
    for key, value in {**options, "headers": headers}.items():
        option = of_keys[key]
        if not target.was_given(value):
            continue
        for text in map(str, value if option.kind == list[str] else [value]):
            # The rest of a login may be a password.
            shown = re.sub(r"(/\S*\s).*", r"\1…", text) if key == "login" else text
            known = option.safe is not None and option.safe.fullmatch(text)
            (safe if known else private).extend(
                ("--with", option.spell(text)) if option.word
                else (f"--{option.name}", text if known else shown)
            )  # fmt: skip
    return safe, private


def left_out(options: Options) -> tuple[str, ...]:
    """Return sentences on what a report's command lacks, if anything: options, and values."""
    private = repetition(options)[1] if options else []
    pairs = zip(private[::2], private[1::2], strict=True)
    called = (f"{o} {v.partition('=')[0]}" if o == "--with" else o for o, v in pairs)
    names = ", ".join(dict.fromkeys(called))
    unset = [
        name for name, value in options.get("env", {}).items() if os.environ.get(name) != value
    ]
    lacking = {
        f"to repeat it, add {names} again: the command omits that": names,
        f"to repeat it, set {', '.join(unset)}: values of variables are never recorded": unset,
    }
    return tuple(sentence for sentence, some in lacking.items() if some)
