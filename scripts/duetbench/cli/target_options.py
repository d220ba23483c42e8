"""The options that describe a target, shared by the commands that measure one."""

import functools
import inspect
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Annotated, Any, Final

from typer import Exit, Option, echo
from typer.core import TyperCommand

from duetbench.cli.verbs import stored
from duetbench.core.errors import UsageError
from duetbench.project import target
from duetbench.project.subject import Subject
from duetbench.project.target import OPTIONS
from duetbench.project.target_locks import module_files

_SECRET: Final = re.compile(r"auth|cookie|key|token|secret|session|passw", re.IGNORECASE)
"""Names of headers with private values."""

_BRIEF: Final = {"app", "path"}
"""What the help of a command shows of them; --help-app shows all."""

Options = Mapping[str, Any]
"""Options that describe a target, spelled as the keys of `[tool.duetbench]` are."""


class TargetCommand(TyperCommand):
    """A command with the options of a target, most of which only --help-app shows."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        if self.name == "compare":
            formatter.write(stored("compare"))
            return
        elsewhere = {name.replace("-", "_") for name in OPTIONS.keys() - _BRIEF}
        for param in self.params:
            param.hidden = param.hidden or param.name in elsewhere  # type: ignore[attr-defined]
        super().format_help(ctx, formatter)


def _page(is_set: bool) -> None:
    if is_set:
        echo("The application. Each option is also a key of tool.duetbench; docs/applications.md")
        echo("has examples.\n")
        for option in OPTIONS.values():
            start = f"  --{option.name} {option.metavar}".ljust(28)
            gap = "" if start.endswith("  ") else f"\n{'':28}"
            text = fill(option.help, 80, initial_indent=" " * 28, subsequent_indent=" " * 28)
            echo(f"{start}{gap}{text.strip()}")
        raise Exit


def with_target(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that describe a target, as its parameter `options`."""
    offered: dict[str, tuple[Any, Any]] = {}
    for name, option in OPTIONS.items():
        metavar, words = option.metavar or None, option.help
        offered[name] = option.kind, Option(f"--{name}", metavar=metavar, help=words)
    page = "Show all options of an application: requests, server, environment, commands."
    offered["help-app"] = bool, Option("--help-app", callback=_page, is_eager=True, help=page)
    signature = inspect.signature(verb)
    parameters = [p for name, p in signature.parameters.items() if name != "options"]
    parameters += [
        inspect.Parameter(
            name.replace("-", "_"),
            inspect.Parameter.KEYWORD_ONLY,
            default=False if kind is bool else None,
            annotation=Annotated[kind if kind is bool else kind | None, option],
        )
        for name, (kind, option) in offered.items()
    ]

    @functools.wraps(verb)
    def wrapped(**values: Any) -> Any:
        given = {name: values.pop(name.replace("-", "_")) for name in offered}
        return verb(**values, options=_read(given))

    wrapped.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined] # for typer
    wrapped.__annotations__ = {p.name: p.annotation for p in parameters}
    wrapped.command = TargetCommand  # type: ignore[attr-defined] # for verbs.Verb
    return wrapped


def _read(values: dict[str, Any]) -> Options:
    """Read the options into keys; UsageError if a header or variable is invalid.

    A private header's value becomes a variable, whose values are never recorded or shown.
    """
    keys: dict[str, Any] = {}
    for option in OPTIONS.values():
        value = values[option.name]
        several = option.kind == list[str]
        keys[option.key] = (*keys.get(option.key, ()), *(value or ())) if several else value
    headers = dict(_pair("--header", text, ":") for text in keys["headers"])
    variables = dict(map(_variable, keys["env"]))
    for name, text in headers.items():
        if _SECRET.search(name) and not re.search(r"\{\w+\}", text):
            variable = f"HEADER_{name.upper().replace('-', '_')}"
            variables[variable], headers[name] = text, f"{{{variable}}}"
    return {**keys, "headers": headers, "env": variables}


def _pair(option: str, text: str, sign: str) -> tuple[str, str]:
    name, assigned, value = text.partition(sign)
    if not assigned or not name.strip():
        raise UsageError(f"{option} {name!r}…: expected NAME{sign} VALUE")
    return name.strip().lower(), value.strip()


def _variable(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign and name not in os.environ:
        raise UsageError(f"--env {name}: it is not set here; set it, or use --env {name}=VALUE")
    return name, value if sign else os.environ[name]


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
    headers = [f"{name}: {text}" for name, text in options["headers"].items()]
    for key, value in {**options, "headers": headers}.items():
        option = of_keys[key]
        if not target.was_given(value):
            continue
        if option.kind is bool:
            safe.append(f"--{option.name}")
            continue
        for text in value if option.kind == list[str] else [f"{value}"]:
            if option.safe is not None and option.safe.fullmatch(text):
                safe += f"--{option.name}", text
            else:
                # The rest of a login may be a password.
                shown = re.sub(r"(/\S*\s).*", r"\1…", text) if key == "login" else text
                private += f"--{option.name}", shown
    return safe, private


def left_out(options: Options, private: Sequence[str] = ()) -> tuple[str, ...]:
    """Return sentences on what a repetition lacks, if anything: `private` options, and values."""
    names = ", ".join(dict.fromkeys(private[::2]))
    unset = [name for name, value in options["env"].items() if os.environ.get(name) != value]
    lacking = {
        f"to repeat it, add {names} again: the command omits that": names,
        f"to repeat it, set {', '.join(unset)}: values of variables are never recorded": unset,
    }
    return tuple(sentence for sentence, some in lacking.items() if some)
