"""The commands, each in a module that is imported only when it is called.

`duetbench --help` and completion print the table below and import none of them. What only a call of
a command needs is imported in its function, if that is slow: a command's `--help` imports the rest.
"""

import inspect
import pkgutil
import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, ClassVar, Final

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command_from_info, get_group
from typer.models import CommandInfo

Table = Mapping[str, tuple[str, str]]

VERBS: Final[Table] = {
    "compare": ("compare", "Compare two versions, measured together: what changed, and how sure?"),
    "bisect": ("bisect", "Find the release that caused a change."),
    "why": ("why", "Find the functions behind a change."),
    "run": ("run", "Measure one version: how fast is it?"),
    "soak": ("soak", "Load one server for a long time: does its memory grow for good?"),
    "show": ("show", "Show a run, a comparison, or points of a trend."),
    "explain": ("explain", "Explain a word of the reports, a flag, or a metric."),
    "init": ("init", "Write into pyproject.toml how this repository's application is measured."),
    "doctor": ("doctor", "Show what is missing here, and how to fix it."),
    "setup": ("setup", "Install interpreters, load generator and environments, or check them."),
    "ci": ("verbs", "Commands for workflows: compare what a pull request changes."),
}
"""All commands, as `--help` lists them, each with its module beside this one and its line there.
The module has a function NAME_command, or for a group of commands NAME_app. To add a command, add
a row."""

PANELS: Final = {
    "Compare two versions": ("compare", "bisect", "why"),
    "Measure one, and read results": ("run", "soak", "show", "explain"),
    "Set up": ("init", "doctor", "setup"),
    "Automate": ("ci",),
}
"""The groups of the list."""

CI: Final[Table] = {
    "sides": ("pull_request", "Find what to compare a pull request or a push with."),
    "compare": ("pull_request", "Compare both sides, and find an upgrade's cause."),
    "report": ("pull_request", "Comment on a pull request with the results."),
}
"""The commands of `duetbench ci`."""


def hook(place: str) -> Any:
    """Import another command's function, `MODULE:NAME`, only when it is needed."""
    return pkgutil.resolve_name(f"{__package__}.{place}")


class Verb(TyperCommand):
    """A command's line in a list; the command itself is created when it is resolved."""

    def __init__(self, name: str, module: str, line: str, panel: str | None) -> None:
        super().__init__(name, help=line, rich_help_panel=panel)
        self.module = module

    def load(self) -> Any:
        """Import the command, and create it as typer does for registered functions and groups."""
        module = import_module(self.module)
        if (group := getattr(module, f"{self.name}_app", None)) is not None:
            command: Any = get_group(group)
            command.name = self.name
        else:
            function = getattr(module, f"{self.name}_command")
            info = CommandInfo(self.name, cls=getattr(function, "command", None), callback=function)
            command = get_command_from_info(
                info, pretty_exceptions_short=True, rich_markup_mode="rich"
            )
        _lay_out(command)
        return command


class VerbGroup(TyperGroup):
    """A group of commands from a table, with modules in a package; a subclass names them."""

    listed: ClassVar[Table]
    package: ClassVar[str] = __package__
    panels: ClassVar[Mapping[str, Sequence[str]]] = {}

    def __init__(self, **settings: Any) -> None:
        panel_of = {verb: panel for panel, verbs in self.panels.items() for verb in verbs}
        verbs = {
            verb: Verb(verb, f"{self.package}.{module}", line, panel_of.get(verb))
            for verb, (module, line) in self.listed.items()
        }
        super().__init__(**{**settings, "commands": verbs})

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _lay_out(self)  # not before: typer adds some options of its own
        super().format_help(ctx, formatter)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, verb, rest = super().resolve_command(ctx, args)
        return name, verb.load() if isinstance(verb, Verb) else verb, rest


class _WorkflowVerbs(VerbGroup):
    listed = CI


ci_app = typer.Typer(cls=_WorkflowVerbs, no_args_is_help=True, help=VERBS["ci"][1])


def _lay_out(application: Any) -> None:
    """Adapt helps to typer: a paragraph is one line, which it wraps at the terminal's width.

    Examples, each on its own line, stay as they are; brackets are no mark-up. A flag, which takes
    no value, shows no type, and an argument's type is its name.
    """
    paragraphs = inspect.cleandoc(application.help or "").split("\n\n")
    joined = (text if text.startswith("$ ") else text.replace("\n", " ") for text in paragraphs)
    application.help = _BRACKET.sub(r"\\[", "\n\n".join(joined))
    for param in application.get_params(typer.Context(application)):
        if not param.opts[0].startswith("-"):
            more = "..." if param.nargs != 1 else ""
            param.metavar = param.metavar or f"{param.name.upper()}{more}"
            param.display_type_rich = lambda ctx: ""  # noqa: ARG005 - typer's signature
        elif param.is_flag and param.metavar is None:
            param.metavar = ""
        if getattr(param, "help", None):
            param.help = _BRACKET.sub(r"\\[", param.help)
    for command in getattr(application, "commands", {}).values():
        _lay_out(command)


_BRACKET: Final = re.compile(r"(?<!\\)\[(?=[a-z#/@])")
