"""The options that describe a target, shared by the commands that measure one."""

import functools
import inspect
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Final

from typer import Context, Exit, Option
from typer.core import TyperCommand

from duetbench.cli.options import COMPARED
from duetbench.cli.verbs import hook
from duetbench.core.errors import UsageError
from duetbench.core.text import LACKING, TO_REPEAT
from duetbench.host import paths
from duetbench.host.console import Narrator
from duetbench.project import setting, target
from duetbench.project.setting import Setting
from duetbench.project.target import OPTIONS
from duetbench.store.comparison import SIDES

if TYPE_CHECKING:
    from duetbench.project.project import Project
    from duetbench.project.subject import Subject

_SECRET: Final = re.compile(r"auth|cookie|key|token|secret|session|passw", re.IGNORECASE)
"""Names of headers with private values."""

APPLICATION: Final = "The application; each option is also a key of tool.duetbench"
"""The panel of options that several commands share."""

_PAGE: Final = "duetbench.page"
"""Key in a context: the panel to which a help is narrowed."""

_PAGE_HELP: Final = "Describes what is measured and how; docs/applications.md has examples."

_BRIEF: Final = ("app", "path", "help_app")
"""What a command's help shows of that panel."""


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
        context.meta[_PAGE] = APPLICATION
        context.command.get_help(context)
        raise Exit


def _parameter(name: str, kind: Any, option: Any) -> inspect.Parameter:
    """Create a parameter of a command's function, from which typer creates an option."""
    return inspect.Parameter(
        name.replace("-", "_"),
        inspect.Parameter.KEYWORD_ONLY,
        default=False if kind is bool else None,
        annotation=Annotated[kind if kind is bool else kind | None, option],
    )


def _offered(*, compares: bool) -> Iterator[inspect.Parameter]:
    """Yield a target's options; of a command that compares, also those of each side."""
    for name, option in OPTIONS.items():
        by_side = compares and option.by_side
        text = f"{option.help} Two values: BASE HEAD." if by_side else option.help
        yield _parameter(
            name,
            list[str] if by_side else option.kind,
            Option(
                f"--{name}",
                metavar=option.metavar or None,
                help=text,
                rich_help_panel=APPLICATION,
                show_default=False,
            ),
        )
    for option in OPTIONS.values() if compares else ():
        for side in SIDES if option.of_side else ():
            text, value = option.of_side.format(side), re.sub(r"[\[\]]", "", option.metavar)
            name = f"{side}-{option.name}"
            shown = Option(
                f"--{name}", metavar=value, help=text, show_default=False, rich_help_panel=COMPARED
            )
            yield _parameter(name, list[str], shown)


_HELP_APP: Final = _parameter(
    "help-app",
    bool,
    Option(
        "--help-app",
        callback=_page,
        is_eager=True,
        help="Show all options of an application: requests, server, environment, commands.",
        rich_help_panel=APPLICATION,
    ),
)

_INTERPRETER: Final = re.compile(r"3\.\d\d(\.\d+)?t?(-jit)?")


def split_values(words: Sequence[str]) -> list[str]:
    """Write `--workers 1 2` as `--workers 1 --workers 2`: a parser takes the 2 for a revision."""
    result, rest = [], list(words)
    while rest:
        result.append(rest.pop(0))
        option, sign, _ = result[-1].partition("=")
        name = option.removeprefix("--")
        if not option.startswith("--") or name not in {*setting.OPTIONS, "python"}:
            continue
        if not sign and rest:
            result.append(rest.pop(0))
        if rest and _fits(name, rest[0]):
            result += [option, rest.pop(0)]
    return result


def _fits(name: str, word: str) -> bool:
    return bool(_INTERPRETER.fullmatch(word)) if name == "python" else setting.fits(name, word)


class TargetCommand(TyperCommand):
    """A command with the options of a target; only one that compares takes two values.

    Its help leaves most of these options to a page of their own.
    """

    def format_help(self, ctx: Any, formatter: Any) -> None:
        if page := ctx.meta.get(_PAGE):
            self.help = _PAGE_HELP
        for param in self.params:
            panel = getattr(param, "rich_help_panel", None)
            elsewhere = panel == APPLICATION and param.name not in _BRIEF
            param.hidden = panel != page if page else elsewhere  # type: ignore[attr-defined]
        self.params.sort(key=lambda param: getattr(param, "rich_help_panel", None) != APPLICATION)
        super().format_help(ctx, formatter)

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
    values: tuple[dict[str, str | int], ...] = ({}, {})
    variables: tuple[dict[str, str], ...] = ({}, {})
    for name in setting.OPTIONS:
        texts = [str(value) for value in options.pop(name) or ()]
        if len(texts) > 2 or len(texts) != len({*texts}):
            problem = f"expected one value, or two different ones, found {' '.join(texts)}"
            raise UsageError(f"--{name}: {problem}")
        if wrong := [text for text in texts if not setting.fits(name, text)]:
            raise UsageError(f"--{name} {wrong[0]}: expected {setting.allowed_values(name)}")
        options[name] = None
        if len(texts) == 1:
            options[name] = setting.value(name, texts[0])
        for own, text in zip(values, texts if len(texts) == 2 else (), strict=False):
            own[name] = setting.value(name, text)
    for side_variables, side in zip(variables, SIDES, strict=True):
        for text in options.pop(f"{side}_env") or ():
            variable, sign, value = text.partition("=")
            if not sign or not variable.isidentifier():
                raise UsageError(f"--{side}-env {text}: expected NAME=VALUE, which reports show")
            side_variables[variable] = value
    arguments = (tuple(options.pop(f"{side}_server_arg") or ()) for side in SIDES)
    base, head = map(Setting, values, variables, arguments)
    if base == head and base:
        raise UsageError(f"base and head: expected two different settings, found {base.record()}")
    return base, head


def _read(values: dict[str, Any]) -> Options:
    """Read the options into keys; UsageError if a header or variable is invalid.

    A private header's value becomes a variable, whose values are never recorded or shown.
    """
    keys: dict[str, Any] = {}
    for option in OPTIONS.values():
        value = values[option.name.replace("-", "_")]
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


def with_target(verb: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that describe a target, as its parameter `options`.

    A command with a parameter `choice` takes two values of some; `choice` has base's and head's.
    """
    signature = inspect.signature(verb)
    compares = "choice" in signature.parameters
    offered = list(_offered(compares=compares))
    own = [p for name, p in signature.parameters.items() if name not in {"options", "choice"}]

    @functools.wraps(verb)
    def wrapped(**values: Any) -> None:
        del values["help_app"]
        options = {parameter.name: values.pop(parameter.name) for parameter in offered}
        if compares:
            values["choice"] = _choice(options)
        verb(**values, options=_read(options))

    parameters = [*own, *offered, _HELP_APP]
    wrapped.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined] # for typer
    wrapped.__annotations__ = {p.name: p.annotation for p in parameters}
    wrapped.command = TargetCommand  # type: ignore[attr-defined] # for verbs.Verb
    return wrapped


def with_options(project: "Project", options: Options, pythons: Sequence[str] = ()) -> "Project":
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


def repetition(options: Options, pythons: Sequence[str], *, own: bool = False) -> list[str]:
    """Return options that repeat a call: variables by name only.

    With `own`, also those that only their author should run again.
    """
    words = [word for safe, words in _written(options) if safe or own for word in words]
    return [*words, *(["--python", pythons[0]] if len(pythons) == 1 else [])]


def unrecorded(options: Options) -> str:
    """Return the options that `repetition` leaves out, for the end of a command."""
    return shlex.join(word for safe, words in _written(options) if not safe for word in words)


def _written(options: Options) -> Iterator[tuple[bool, tuple[str, ...]]]:
    """Yield options as words, and whether reports may have them."""
    of_keys = {option.key: option for option in OPTIONS.values()}
    headers = [f"{name}: {text}" for name, text in options["headers"].items()]
    for key, value in {**options, "headers": headers}.items():
        option = of_keys[key]
        if not target.was_given(value):
            continue
        if option.kind is bool:
            yield True, (f"--{option.name}",)
            continue
        for text in value if option.kind == list[str] else [f"{value}"]:
            safe = option.safe is not None and option.safe.fullmatch(text) is not None
            yield safe, (f"--{option.name}", text)


def left_out(options: Options, *, own: bool = False) -> tuple[str, ...]:
    """Return sentences on what `repetition` leaves out, if anything."""
    names = [] if own else shlex.split(unrecorded(options))[::2]
    add = f"{LACKING}{', '.join(dict.fromkeys(names))} again: the command omits that"
    unset = [name for name, value in options["env"].items() if os.environ.get(name) != value]
    set_ = f"{TO_REPEAT}set {', '.join(unset)}: values of variables are never recorded"
    return (*([add] if names else []), *([set_] if unset else []))


def deploy(project: "Project", narrator: Narrator) -> "AbstractContextManager[Subject]":
    """Provide a project as it is, or for a while a copy in which its target can be measured."""
    if project.target is None:
        return nullcontext(project)
    prepared: AbstractContextManager[Subject] = hook("side_options:deploy")(project, narrator)
    return prepared
