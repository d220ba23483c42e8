"""The verbs, each in a module that is imported when somebody asks for the verb.

`duetbench --help` and completion print the table below and import none of them, so that a verb's
module can import all it needs at its top.
"""

import inspect
import pkgutil
import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar, Final

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

Table = Mapping[str, tuple[str, str]]

VERBS: Final[Table] = {
    "doctor": ("doctor", "Show what measuring needs, and the warnings this machine will raise."),
    "setup": ("setup", "Make interpreters, load generator and environments; or only check them."),
    "init": ("init", "Write into pyproject.toml how this repository's application is measured."),
    "run": ("run", "Measure: launch each case's server, load it, record what it did."),
    "show": ("show", "Show a run: ours beside the published figures and the ceiling."),
    "export": ("show", "Write a run, comparison or anchored points: a row per figure."),
    "compare": ("compare", "Compare HEAD with BASE, both measured together; judge what changed."),
    "soak": ("soak", "Load one server for long: does its memory grow for good?"),
    "bisect": ("bisect", "Find the release that caused a change, and write it into its record."),
    "why": ("why", "Say which function a change of instructions lies in."),
    "anchor": ("anchor", "The stack that trend points are measured against."),
    "backfill": ("backfill", "Measure stacks of other times: years of trend on day one."),
    "inprocess": ("inprocess", "Measure inside the process: threads, handlers, Pydantic."),
    "stack": ("stack", "The stacks under test and their locks."),
    "site": ("site", "Build the site from results/: trends, experiments, changes, packages."),
    "ci": ("verbs", "What workflows call: nights, pull requests, your own machines."),
    "dev": ("verbs", "For those who work on duetbench itself."),
}
"""All verbs, as `--help` lists them, each with its module beside this one and its line in the list.
The function there is called like the verb, with _command behind it; of a group of verbs with _app.
To add a verb, add a row."""

CI: Final[Table] = {
    "plan": ("night", "Share a night's cases out over the machines that measure them."),
    "history": ("history", "The results of all nights, on a branch of their own."),
    "accept": ("github", "Check artifacts of measuring machines, and copy what is right."),
    "detect": ("detect", "Find series that moved for good, and confirm them by duets."),
    "announce": ("github", "Keep one issue per confirmed change."),
    "slash": ("github", "Answer a comment that says `/bench COMMIT`, and start the comparison."),
    "sides": ("pull_request", "Find what a pull request or a push is to be compared with."),
    "compare": ("pull_request", "Compare both sides, and find an upgrade's cause."),
    "report": ("pull_request", "Comment on a pull request with what was found."),
    "sandbox": ("github", "Run a verb where code of others may run: docs/runners.md."),
    "runner": ("github", "Look whether this machine is prepared as a runner."),
}
"""The verbs of `duetbench ci`."""

DEV: Final[Table] = {
    "findings": ("show", "Answer each experiment's question from the reference runs."),
    "schema": ("show", "Write the JSON Schema of run files (kept as results/schema.json)."),
}
"""The verbs of `duetbench dev`."""


def hook(place: str) -> Any:
    """Import a function of another verb, `MODULE:NAME`, which only its user's run waits for."""
    return pkgutil.resolve_name(f"{__package__}.{place}")


class Verb(TyperCommand):
    """A verb's line in a list; the command itself is made when it is resolved."""

    def __init__(self, name: str, module: str, line: str) -> None:
        super().__init__(name, help=line)
        self.module = module

    def load(self) -> Any:
        """Import the verb, and make of it what typer makes of registered functions and groups."""
        module, alone = import_module(f"{__package__}.{self.module}"), typer.Typer()
        if (group := getattr(module, f"{self.name}_app", None)) is not None:
            alone.add_typer(group, name=self.name)
        else:
            alone.command(self.name)(getattr(module, f"{self.name}_command"))
        command = get_group(alone).commands[str(self.name)]
        _join_lines(command)
        return command


class _Group(TyperGroup):
    """A group of verbs from tables."""

    listed: ClassVar[Table]

    def __init__(self, **settings: Any) -> None:
        verbs = {verb: Verb(verb, *row) for verb, row in self.listed.items()}
        super().__init__(**{**settings, "commands": verbs})
        _join_lines(self)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, verb, rest = super().resolve_command(ctx, args)
        return name, verb.load() if isinstance(verb, Verb) else verb, rest

    def list_commands(self, ctx: object) -> list[str]:  # noqa: ARG002 - typer's signature
        return list(self.listed)


def group_of(listed: Table) -> type[TyperGroup]:
    """The group of a table's verbs."""
    return type("VerbGroup", (_Group,), {"listed": listed})


ci_app, dev_app = (
    typer.Typer(cls=group_of(listed), no_args_is_help=True, help=VERBS[name][1])
    for name, listed in (("ci", CI), ("dev", DEV))
)


def _join_lines(application: Any) -> None:
    """Put each paragraph of a help on one line, which typer wraps where the terminal ends."""
    text = inspect.cleandoc(application.help or "")
    application.help = re.sub(r"(?<!\n)\n(?!\n)", " ", text)
    for command in getattr(application, "commands", {}).values():
        _join_lines(command)
