"""The options that tell a target, shared by the verbs that measure one."""

import functools
import inspect
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Annotated, Any, Final, get_origin

from pydantic import BeforeValidator
from typer import Option

from duetbench.cli.verbs import hook
from duetbench.core.errors import UsageError
from duetbench.core.text import TO_REPEAT
from duetbench.host import paths
from duetbench.host.console import Narrator
from duetbench.project import target
from duetbench.project.project import Project
from duetbench.project.servers import SERVERS
from duetbench.project.settings import Target

_PANEL: Final = "An application of yours (each is also a key of tool.duetbench)"

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
}

_HELP: Final = {"path": "What is asked for, '/items/7'; each is a case."}
"""Of what `Target` does not describe."""

_PRIVATE: Final = ("env", "env-file", "headers", "before", "after")
"""Keys that hold secrets, or run commands."""

Options = Mapping[str, Any]
"""Options that tell a target, spelled as the keys of `[tool.duetbench]` are."""

PythonOption = Annotated[
    str | None,
    Option(
        "--python", metavar="VERSION", help="Default: as its project asks.", rich_help_panel=_PANEL
    ),
]


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
                rich_help_panel=_PANEL,
                show_default=False,
            )
            yield inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=False if kind is bool else None,
                annotation=Annotated[kind if kind is bool else kind | None, option],
            )


_PARAMETERS: Final = {parameter.name: parameter for parameter in _parameters()}


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
        options = _read({name: values.pop(name) for name in _PARAMETERS})
        verb(**values, options=options)

    parameters += _PARAMETERS.values()
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


def repeated(options: Options, pythons: Sequence[str]) -> list[str]:
    """The options that say the same again, without what is private or runs commands."""
    words: list[str] = []
    for key, value in options.items():
        if key == "requests":
            words += [word for line in value for word in ("--request", line)]
        elif key not in _PRIVATE and target.was_given(value):
            words += [f"--{key}"] if value is True else [f"--{key}", f"{value}"]
    return [*words, *(["--python", pythons[0]] if len(pythons) == 1 else [])]


def left_out(options: Options) -> tuple[str, ...]:
    """A sentence on what `repeated` leaves out; none where that is nothing."""
    names = [target.option(name) for name in _PRIVATE if target.was_given(options[name])]
    if not names:
        return ()
    return (f"{TO_REPEAT}add {', '.join(names)} again: its command leaves that out",)


def deployed(project: Project, narrator: Narrator) -> AbstractContextManager[Project]:
    """A project as it is, or for a while a copy of it in which its target can be measured."""
    if project.target is None:
        return nullcontext(project)
    prepared: AbstractContextManager[Project] = hook("sides:deployed")(project, narrator)
    return prepared
