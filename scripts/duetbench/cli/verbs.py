"""The commands, each in a module that is imported only when it is called.

Completion prints the table below and imports none of them. What only a call of a command needs is
imported in its function, if that is slow: a command's `--help` imports the rest.
"""

import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

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
    "setup": ("setup", "Install the load generator, or check it."),
    "ci": ("verbs", "Commands for workflows: compare what a pull request changes."),
}
"""All commands, as `help/duetbench.txt` lists them, each with its module beside this one. A module
has a function NAME_command, or for a group of commands NAME_app. To add a command, add a row there
and here."""

CI: Final[Table] = {
    "sides": ("pull_request", "Find what to compare a pull request or a push with."),
    "compare": ("pull_request", "Compare both sides, and find an upgrade's cause."),
    "report": ("pull_request", "Comment on a pull request with the results."),
}
"""The commands of `duetbench ci`."""


class Verb(TyperCommand):
    """A command's line in a list; the command itself is created when it is resolved."""

    def __init__(self, name: str, module: str, line: str) -> None:
        super().__init__(name, help=line)
        self.module = module

    def load(self) -> Any:
        """Import the command, and create it as typer does for registered functions and groups."""
        module = import_module(self.module)
        if (group := getattr(module, f"{self.name}_app", None)) is not None:
            command: Any = get_group(group)
            command.name = self.name
        else:
            function = getattr(module, f"{self.name}_command")
            info = CommandInfo(self.name, callback=function)
            command = get_command_from_info(
                info, pretty_exceptions_short=True, rich_markup_mode=None
            )
        for own in (command, *getattr(command, "commands", {}).values()):
            for param in (param for param in own.params if param.param_type_name == "argument"):
                param.metavar = param.metavar or param.name.upper()
                param.display_type_rich = lambda ctx: ""  # noqa: ARG005 - typer's signature
            # Examples stay on lines of their own.
            own.help = re.sub(r"^(?=\$ )", "\b\n", own.help or "", count=1, flags=re.MULTILINE)
        return command


def make_group(table: Table, package: str = __package__, **settings: Any) -> typer.Typer:
    """Make a group of commands from a table, with modules in a package."""

    class Group(TyperGroup):
        def __init__(self, **given: Any) -> None:
            verbs = {
                verb: Verb(verb, f"{package}.{module}", line)
                for verb, (module, line) in table.items()
            }
            super().__init__(**{**given, "commands": verbs})

        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            name, verb, rest = super().resolve_command(ctx, args)
            return name, verb.load() if isinstance(verb, Verb) else verb, rest

    return typer.Typer(
        cls=Group,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        **settings,
    )


ci_app = make_group(CI, help=VERBS["ci"][1])
