"""The options that describe a target, shared by the commands that measure one."""

import functools
import inspect
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Annotated, Any, Final, get_args, get_origin

from pydantic import BeforeValidator
from typer import Context, Exit, Option

from duetbench.cli.verbs import APPLICATION, PAGE, BriefCommand, hook
from duetbench.core.errors import UsageError
from duetbench.core.text import TO_REPEAT
from duetbench.host import paths
from duetbench.host.console import Narrator
from duetbench.project import setting, target
from duetbench.project.project import Project
from duetbench.project.servers import SERVERS
from duetbench.project.setting import OPTIONS, Setting
from duetbench.project.subject import Subject
from duetbench.project.target import Target

_OF_KEY: Final = {"requests": ("path", "request"), "headers": ("header",)}
"""Key → the options that give its values one by one, if they have other names."""

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
    "loop": "<asyncio|uvloop|rloop|zuvloop|gevent>",
    "connections": "N",
    "rate": "NUMBER",
    "packages": "FILE",
    "groups": "GROUP",
    "extras": "EXTRA",
}

_HELP: Final = {"path": "Path to GET, e.g. /items/7 (/). Repeat it: each is a case."}
"""Help of options that `Target` does not describe."""

_COMMANDS: Final = ("env-file", "before", "after")
"""Keys that read a private file or run commands: not to be copied from an untrusted report."""

_SECRET: Final = re.compile(r"auth|cookie|key|token|secret|session|passw", re.IGNORECASE)
"""Names of headers with confidential values, unless a variable takes the value's place."""

Options = Mapping[str, Any]
"""Options that describe a target, spelled as the keys of `[tool.duetbench]` are."""

PythonOption = Annotated[
    str | None,
    Option(
        "--python",
        metavar="VERSION",
        help="Interpreter, e.g. 3.13; default: what its project requires.",
        rich_help_panel=APPLICATION,
    ),
]


def _page(context: Context, is_set: bool) -> None:
    if is_set:
        context.meta[PAGE] = APPLICATION
        context.command.get_help(context)
        raise Exit


def _parameters() -> Iterator[inspect.Parameter]:
    """Yield the options as typer's parameters: one or two for each key of a `Target`."""
    for key, field in Target.model_fields.items():
        kind: Any = field.annotation
        if get_origin(kind) in {tuple, dict}:
            kind = list[str]
        elif any(isinstance(part, BeforeValidator) for part in field.metadata):
            kind = str  # the field parses a text itself
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


def _of_sides() -> Iterator[inspect.Parameter]:
    """Yield the options of settings for a command that compares two."""
    for name in OPTIONS:
        usual, option = get_args(_PARAMETERS[name].annotation)
        kind: Any = list[get_args(usual)[0]]  # type: ignore[misc]
        text = f"{option.help} Two values: BASE HEAD."
        option = Option(
            f"--{name}", metavar=option.metavar, help=text, rich_help_panel=APPLICATION,
            show_default=False,
        )  # fmt: skip
        yield _PARAMETERS[name].replace(annotation=Annotated[kind | None, option])
    for name, side in (("base_env", "base"), ("head_env", "head")):
        option = Option(
            f"--{name.replace('_', '-')}", metavar="NAME=VALUE", show_default=False,
            help=f"A variable of {side}'s servers, which reports show. Repeatable.",
        )  # fmt: skip
        yield inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[list[str] | None, option],
        )


_OF_SIDES: Final = {parameter.name: parameter for parameter in _of_sides()}
_INTERPRETER: Final = re.compile(r"3\.\d\d(\.\d+)?t?(-jit)?")


def split_values(words: Sequence[str]) -> list[str]:
    """Write `--workers 1 2` as `--workers 1 --workers 2`: a parser takes the 2 for a revision."""
    result, rest = [], list(words)
    while rest:
        result.append(rest.pop(0))
        option, sign, _ = result[-1].partition("=")
        name = option.removeprefix("--")
        if not option.startswith("--") or name not in {*OPTIONS, "python"}:
            continue
        if not sign and rest:
            result.append(rest.pop(0))
        if rest and _fits(name, rest[0]):
            result += [option, rest.pop(0)]
    return result


def _fits(name: str, word: str) -> bool:
    return bool(_INTERPRETER.fullmatch(word)) if name == "python" else setting.fits(name, word)


class TargetCommand(BriefCommand):
    """A command with the options of a target; only one that compares takes two values."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        words = split_values(args)
        for param in self.params:
            for option in param.opts if not getattr(param, "multiple", False) else ():
                if words.count(option) > args.count(option):
                    values = [words[at + 1] for at, word in enumerate(words) if word == option]
                    raise UsageError(
                        f"{option} {' '.join(values)}: expected one value, found two: only "
                        "`duetbench compare` compares two"
                    )
        return super().parse_args(ctx, words)


def _choice(options: dict[str, Any]) -> tuple[Setting, Setting]:
    """Take the settings of each side out of options; the other settings are for both.

    Raises UsageError if a value is invalid, or both sides have the same.
    """
    sides: tuple[dict[str, Any], dict[str, Any]] = ({"env": {}}, {"env": {}})
    for name in OPTIONS:
        texts = [str(value) for value in options.pop(name) or ()]
        if len(texts) > 2 or len(texts) != len({*texts}):
            problem = f"expected one value, or two different ones, found {' '.join(texts)}"
            raise UsageError(f"--{name}: {problem}")
        if wrong := [text for text in texts if not setting.fits(name, text)]:
            raise UsageError(f"--{name} {wrong[0]}: expected {setting.allowed_values(name)}")
        options[name] = None
        if len(texts) == 1:
            options[name] = setting.value(name, texts[0])
        for side, text in zip(sides, texts[: 2 * (len(texts) == 2)], strict=False):
            side[name] = setting.value(name, text)
    for side, name in zip(sides, ("base_env", "head_env"), strict=True):
        for text in options.pop(name) or ():
            variable, sign, value = text.partition("=")
            if not sign or not variable.isidentifier():
                option = f"--{name.replace('_', '-')}"
                raise UsageError(f"{option} {text}: expected NAME=VALUE, which reports show")
            side["env"][variable] = value
    base, head = Setting(**sides[0]), Setting(**sides[1])
    if base == head and base:
        raise UsageError(f"--base-env and --head-env: expected two different, found {base.env}")
    return base, head


def _read(values: dict[str, Any]) -> Options:
    """Read the options into keys; UsageError if a header or variable is invalid."""
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
        raise UsageError(f"--env {name}: it is not set here; set it, or use --env {name}=VALUE")
    return name, value if sign else os.environ[name]


def with_target(verb: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that describe a target, as its parameter `options`.

    A command with a parameter `choice` takes two values of some; `choice` has base's and head's.
    """
    signature = inspect.signature(verb)
    compares = "choice" in signature.parameters
    offered = {**_PARAMETERS, **(_OF_SIDES if compares else {})}
    parameters = [p for n, p in signature.parameters.items() if n not in {"options", "choice"}]

    @functools.wraps(verb)
    def wrapped(**values: Any) -> None:
        del values["help_app"]
        options = {name: values.pop(name) for name in offered}
        if compares:
            values["choice"] = _choice(options)
        verb(**values, options=_read(options))

    parameters += [*offered.values(), _HELP_APP]
    wrapped.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined] # for typer
    wrapped.__annotations__ = {p.name: p.annotation for p in parameters}
    wrapped.command = TargetCommand  # type: ignore[attr-defined] # for verbs.Verb
    return wrapped


def with_options(project: Project, options: Options, pythons: Sequence[str] = ()) -> Project:
    """Return a repository with its target, from its keys and options; experiments have none.

    `pythons`: its interpreter, or two to compare. Without experiments, or with --app, a repository
    has a target. Raises as `target.of`.
    """
    if len(pythons) > 2:
        raise UsageError(f"--python: expected two interpreters, found {' '.join(pythons)}")
    root = project.root
    values = {**options, "python": pythons[0] if len(pythons) == 1 else None}
    if options["app"] is None and any((root / "apps").glob("*/experiment.toml")):
        stray = [target.option(key) for key, value in values.items() if target.was_given(value)]
        if stray:
            raise UsageError(
                f"{' and '.join(stray)}: this repository's experiments declare that; give it with "
                "--app module:attribute; two values are compared (--server BASE HEAD)"
            )
        return project
    declared = target.of(root, values)
    if declared is None:
        raise paths.undeclared(root, "no --app, no [tool.duetbench] with an app, no experiments")
    if len(pythons) == 2:
        declared = declared.model_copy(update={"python": tuple(pythons)})
    return replace(project, target=declared)


def repetition(options: Options, pythons: Sequence[str], *, commands: bool = False) -> list[str]:
    """Return options that repeat a call: variables by name only, headers without secrets.

    With `commands`, also those that only their author should run again.
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
            values = [value] if isinstance(value, str) else value or ()
            words += _each(f"--{key}", values if commands else ())
        elif isinstance(value, tuple):
            words += _each(f"--{key}", value)
        elif target.was_given(value):
            words += [f"--{key}"] if value is True else [f"--{key}", f"{value}"]
    return [*words, *(["--python", pythons[0]] if len(pythons) == 1 else [])]


def _each(option: str, values: Iterable[str]) -> list[str]:
    return [word for value in values for word in (option, value)]


def _hidden(name: str, text: str) -> bool:
    return bool(_SECRET.search(name)) and not re.search(r"\{\w+\}", text)


def left_out(options: Options, *, commands: bool = False) -> tuple[str, ...]:
    """Return sentences on what `repeated` leaves out, if anything."""
    names = [f"--{key}" for key in _COMMANDS if options[key] and not commands]
    names += [f"--header '{n}: …'" for n, text in options["headers"].items() if _hidden(n, text)]
    add = f"{TO_REPEAT}add {', '.join(names)} again: the command omits that"
    unset = f"{TO_REPEAT}set {', '.join(options['env'])}: values of variables are never recorded"
    return (*([add] if names else []), *([unset] if options["env"] else []))


def deploy(project: Project, narrator: Narrator) -> AbstractContextManager[Subject]:
    """Provide a project as it is, or for a while a copy in which its target can be measured."""
    if project.target is None:
        return nullcontext(project)
    prepared: AbstractContextManager[Subject] = hook("side_options:deploy")(project, narrator)
    return prepared
