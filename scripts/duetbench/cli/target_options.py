"""The options that tell a target, shared by the verbs that measure one."""

import functools
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Annotated, Any, Final

from typer import Option

from duetbench.cli.verbs import hook
from duetbench.core.errors import UsageError
from duetbench.core.model import Interface
from duetbench.core.text import TO_REPEAT
from duetbench.host import paths
from duetbench.host.console import Narrator
from duetbench.project import target
from duetbench.project.project import Project
from duetbench.project.servers import SERVERS

_PANEL: Final = "An application of yours (each is also a key of tool.duetbench)"

_REPEATED: Final = (
    "app",
    "interface",
    "expect-status",
    "server",
    "workers",
    "threads",
    "loop",
    "connections",
    "rate",
)

Options = Mapping[str, Any]
"""Options that tell a target, spelled as the keys of `[tool.duetbench]` are."""

PythonOption = Annotated[
    str | None,
    Option(
        "--python",
        metavar="VERSION",
        help="Interpreter of an --app, such as 3.13 or 3.13t; default: what its project asks for.",
        rich_help_panel=_PANEL,
    ),
]


def _option(*names: str, help: str, **settings: Any) -> Any:  # noqa: A002 - typer's word
    return Option(*names, help=help, rich_help_panel=_PANEL, show_default=False, **settings)


def _options(
    app: Annotated[
        str | None,
        _option("--app", metavar="MODULE:ATTRIBUTE", help="An ASGI or WSGI application."),
    ] = None,
    factory: Annotated[
        bool, _option("--factory", help="The attribute is called for the application.")
    ] = False,
    interface: Annotated[
        Interface | None, _option("--interface", help="asgi or wsgi; default: found out.")
    ] = None,
    path: Annotated[
        list[str] | None,
        _option("--path", metavar="PATH", help="What is asked for, '/items/7'; each is a case."),
    ] = None,
    request: Annotated[
        list[str] | None,
        _option(
            "--request",
            metavar="LINE",
            help="A request, 'POST /orders @order.json'; several paths with their shares, "
            "'GET /items/{1..100} 3 /search?q={@words.txt} 1'. Each is a case.",
        ),
    ] = None,
    header: Annotated[
        list[str] | None,
        _option("--header", metavar="'NAME: VALUE'", help="Of every request; repeatable."),
    ] = None,
    expect_status: Annotated[
        int | None, _option("--expect-status", min=100, max=599, help="Of a right answer (200).")
    ] = None,
    server: Annotated[
        str | None,
        _option(
            "--server",
            metavar=f"<{'|'.join(SERVERS)}>",
            help="Default: the one that the project has locked, or granian.",
        ),
    ] = None,
    workers: Annotated[int | None, _option("--workers", min=1, help="Of the server (1).")] = None,
    threads: Annotated[
        int | None, _option("--threads", min=1, help="Blocking threads per worker (WSGI: 8).")
    ] = None,
    loop: Annotated[
        str | None, _option("--loop", help="Event loop: asyncio (default), uvloop, rloop.")
    ] = None,
    connections: Annotated[
        int | None, _option("--connections", min=1, help="Kept alive, all at work (64).")
    ] = None,
    rate: Annotated[
        float | None, _option("--rate", min=0, help="Requests/s; default: as fast as it goes.")
    ] = None,
    env: Annotated[
        list[str] | None,
        _option(
            "--env",
            metavar="NAME[=VALUE]",
            help="A variable of its server, whose value is recorded nowhere; {tmp} is a fresh "
            "folder per launch. Without a value it is taken from here. Repeatable.",
        ),
    ] = None,
    env_file: Annotated[
        list[str] | None, _option("--env-file", metavar="FILE", help="Lines of NAME=VALUE.")
    ] = None,
    before: Annotated[
        list[str] | None,
        _option("--before", metavar="COMMAND", help="Run before each start of the server."),
    ] = None,
    after: Annotated[
        list[str] | None, _option("--after", metavar="COMMAND", help="Run after each stop of it.")
    ] = None,
) -> Options:
    """Read the options into keys; UsageError: a header or variable is none."""
    return {
        "app": app,
        "factory": factory,
        "interface": interface,
        "requests": (*(path or ()), *(request or ())),
        "headers": dict(_pair("--header", text, ":") for text in header or ()),
        "expect-status": expect_status,
        "server": server,
        "workers": workers,
        "threads": threads,
        "loop": loop,
        "connections": connections,
        "rate": rate,
        "env": dict(map(_variable, env or ())),
        "env-file": tuple(env_file or ()),
        "before": tuple(before or ()),
        "after": tuple(after or ()),
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
    ours, theirs = inspect.signature(_options), inspect.signature(verb)
    parameters = [p for name, p in theirs.parameters.items() if name != "options"]

    @functools.wraps(verb)
    def wrapped(**values: Any) -> None:
        options = _options(**{name: values.pop(name) for name in ours.parameters})
        verb(**values, options=options)

    parameters = [*parameters, *ours.parameters.values()]
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
    words = ["--factory"] * bool(options["factory"])
    for name in _REPEATED:
        if options[name] is not None:
            words += [f"--{name}", f"{options[name]}"]
    words += [word for line in options["requests"] for word in ("--request", line)]
    return [*words, *(["--python", pythons[0]] if len(pythons) == 1 else [])]


def left_out(options: Options) -> tuple[str, ...]:
    """A sentence on what `repeated` leaves out; none where that is nothing."""
    private = ("env", "env-file", "headers", "before", "after")
    names = [target.option(name) for name in private if target.was_given(options[name])]
    if not names:
        return ()
    return (f"{TO_REPEAT}add {', '.join(names)} again: its command leaves that out",)


def deployed(project: Project, narrator: Narrator) -> AbstractContextManager[Project]:
    """A project as it is, or for a while a copy of it in which its target can be measured."""
    if project.target is None:
        return nullcontext(project)
    prepared: AbstractContextManager[Project] = hook("sides:deployed")(project, narrator)
    return prepared
