"""The options that tell a target, shared by the verbs that measure one."""

import functools
import inspect
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Annotated, Any, Final, get_origin

from pydantic import BeforeValidator
from typer import Context, Exit, Option

from duetbench.cli.verbs import APPLICATION, PAGE, hook
from duetbench.core.errors import UsageError
from duetbench.core.text import TO_REPEAT
from duetbench.host import paths
from duetbench.host.console import Narrator
from duetbench.project import target
from duetbench.project.project import Project
from duetbench.project.servers import SERVERS
from duetbench.project.settings import Target

_OF_KEY: Final = {"requests": ("path", "request"), "headers": ("header",)}
"""Key → the options that give its values one by one, where they are called otherwise."""

_METAVARS: Final = {
    "app": "MODULE:ATTRIBUTE",
    "path": "PATH",
    "request": "LINE",
    "header": "'NAME: VALUE'",
    "server": f"<{'|'.join(SERVERS)}>",
    "env": "NAME[=VALUE]",
    "env_file": "FILE",
    "before": "COMMAND",
    "after": "COMMAND",
    "ready_timeout": "TIME",
    "interface": "<asgi|wsgi>",
    "expect_status": "STATUS",
    "workers": "N",
    "threads": "N",
    "loop": "<asyncio|uvloop|rloop>",
    "connections": "N",
    "rate": "NUMBER",
    "packages": "FILE",
}

_HELP: Final = {"path": "Path to GET, e.g. /items/7 (/). Repeat it: each is a case."}
"""Of what `Target` does not describe."""

_COMMANDS: Final = ("env-file", "before", "after")
"""Keys that read a private file or run commands: not to be copied from a stranger's report."""

_SECRET: Final = re.compile(r"auth|cookie|key|token|secret|session|passw", re.IGNORECASE)
"""Names of headers whose value nobody else is to read, unless a variable takes its place."""

Options = Mapping[str, Any]
"""Options that tell a target, spelled as the keys of `[tool.duetbench]` are."""

PythonOption = Annotated[
    str | None,
    Option(
        "--python",
        metavar="VERSION",
        help="Interpreter, e.g. 3.13; default: as its project asks.",
        rich_help_panel=APPLICATION,
    ),
]


def _page(context: Context, wanted: bool) -> None:
    if wanted:
        context.meta[PAGE] = APPLICATION
        context.command.get_help(context)
        raise Exit


def _parameters() -> Iterator[inspect.Parameter]:
    """The options as typer reads them from a signature: one or two for each key of a `Target`."""
    for key, field in Target.model_fields.items():
        kind: Any = field.annotation
        if get_origin(kind) in {tuple, dict}:
            kind = list[str]
        elif any(isinstance(part, BeforeValidator) for part in field.metadata):
            kind = str  # the field reads a text by itself
        for name in _OF_KEY.get(key, (key,)) if field.description else ():
            option = Option(
                f"--{name.replace('_', '-')}",
                metavar=_METAVARS.get(name),
                help=_HELP.get(name, field.description),
                rich_help_panel=APPLICATION,
                show_default=False,
            )
            yield inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=False if kind is bool else None,
                annotation=Annotated[kind if kind is bool else kind | None, option],
            )


_PARAMETERS: Final = {parameter.name: parameter for parameter in _parameters()}

_HELP_APP: Final = inspect.Parameter(
    "help_app",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[
        bool,
        Option(
            "--help-app",
            callback=_page,
            is_eager=True,
            help="Show all options of an application: requests, server, environment, commands.",
            rich_help_panel=APPLICATION,
        ),
    ],
)


def _read(values: dict[str, Any]) -> Options:
    """Read the options into keys; UsageError: a header or variable is none."""
    lists = {name: tuple(values.pop(name) or ()) for name in ("path", "request", "header", "env")}
    return {
        **{
            key.replace("_", "-"): tuple(value) if isinstance(value, list) else value
            for key, value in values.items()
        },
        "requests": (*lists["path"], *lists["request"]),
        "headers": dict(_pair("--header", text, ":") for text in lists["header"]),
        "env": dict(map(_variable, lists["env"])),
    }


def _pair(option: str, text: str, sign: str) -> tuple[str, str]:
    name, assigned, value = text.partition(sign)
    if not assigned or not name.strip():
        raise UsageError(f"{option} {name!r}…: expected NAME{sign} VALUE")
    return name.strip().lower(), value.strip()


def _variable(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign and name not in os.environ:
        raise UsageError(f"--env {name}: it is not set here; set it, or say --env {name}=VALUE")
    return name, value if sign else os.environ[name]


def with_target(verb: Callable[..., None]) -> Callable[..., None]:
    """A verb with the options that tell a target, which it gets as its parameter `options`."""
    theirs = inspect.signature(verb)
    parameters = [p for name, p in theirs.parameters.items() if name != "options"]

    @functools.wraps(verb)
    def wrapped(**values: Any) -> None:
        del values["help_app"]
        options = _read({name: values.pop(name) for name in _PARAMETERS})
        verb(**values, options=options)

    parameters += [*_PARAMETERS.values(), _HELP_APP]
    wrapped.__signature__ = theirs.replace(parameters=parameters)  # type: ignore[attr-defined] # for typer
    wrapped.__annotations__ = {p.name: p.annotation for p in parameters}
    return wrapped


def with_options(project: Project, options: Options, pythons: Sequence[str] = ()) -> Project:
    """A repository with its target, by its keys and by options; with none if it has experiments.

    `pythons`: its interpreter, or two that are compared. Without experiments, or with --app, a
    repository has a target. Errors as `target.of`.
    """
    root = project.root
    values = {**options, "python": pythons[0] if len(pythons) == 1 else None}
    if options["app"] is None and any((root / "apps").glob("*/experiment.toml")):
        stray = [target.option(key) for key, value in values.items() if target.was_given(value)]
        if stray:
            raise UsageError(
                f"{' and '.join(stray)}: the experiments of this repository say that; they belong "
                "to --app module:attribute"
            )
        return project
    declared = target.of(root, values)
    if declared is None:
        raise paths.undeclared(root, "no --app, no [tool.duetbench] with an app, no experiments")
    if len(pythons) == 2:
        declared = declared.model_copy(update={"python": tuple(pythons)})
    return replace(project, target=declared)


def repeated(options: Options, pythons: Sequence[str], *, commands: bool = False) -> list[str]:
    """The options that say the same again: of variables their names, of headers no secrets.

    With `commands` also those that only their author is to run again.
    """
    words: list[str] = []
    for key, value in options.items():
        if key == "requests":
            words += _each("--request", value)
        elif key == "headers":
            lines = (f"{name}: {text}" for name, text in value.items() if not _hidden(name, text))
            words += _each("--header", lines)
        elif key == "env":
            words += _each("--env", value)
        elif key in _COMMANDS:
            words += _each(f"--{key}", value if commands else ())
        elif target.was_given(value):
            words += [f"--{key}"] if value is True else [f"--{key}", f"{value}"]
    return [*words, *(["--python", pythons[0]] if len(pythons) == 1 else [])]


def _each(option: str, values: Iterable[str]) -> list[str]:
    return [word for value in values for word in (option, value)]


def _hidden(name: str, text: str) -> bool:
    return bool(_SECRET.search(name)) and not re.search(r"\{\w+\}", text)


def left_out(options: Options, *, commands: bool = False) -> tuple[str, ...]:
    """Sentences on what `repeated` leaves out; none where that is nothing."""
    names = [f"--{key}" for key in _COMMANDS if options[key] and not commands]
    names += [f"--header '{n}: …'" for n, text in options["headers"].items() if _hidden(n, text)]
    add = f"{TO_REPEAT}add {', '.join(names)} again: its command leaves that out"
    unset = f"{TO_REPEAT}set {', '.join(options['env'])}: values of variables are recorded nowhere"
    return (*([add] if names else []), *([unset] if options["env"] else []))


def deployed(project: Project, narrator: Narrator) -> AbstractContextManager[Project]:
    """A project as it is, or for a while a copy of it in which its target can be measured."""
    if project.target is None:
        return nullcontext(project)
    prepared: AbstractContextManager[Project] = hook("sides:deployed")(project, narrator)
    return prepared
