"""The verbs, each in a module that is imported when somebody asks for the verb.

`duetbench --help` and completion print the table below and import none of them, so that a verb's
module can import all it needs at its top.
"""

import inspect
import os
import pkgutil
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, ClassVar, Final

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption
from typer.main import get_group

CLOSED_PIPE: Final = 141
"""Exit code where nobody reads any more (`… | head -1`): 128 + SIGPIPE, as of any other tool."""

Table = Mapping[str, tuple[str, str]]

VERBS: Final[Table] = {
    "doctor": (
        "doctor:doctor_command",
        "Show interpreters, tools, stacks, cores, and the warnings this machine will raise.",
    ),
    "setup": (
        "setup:setup_command",
        "Make interpreters, load generator and environments; a second run only checks them.",
    ),
    "init": (
        "init:init_command",
        "Write how this repository's application is measured into its pyproject.toml.",
    ),
    "run": ("run:run_command", "Measure: launch each case's server, load it, record what it did."),
    "show": (
        "show:show_command",
        "Show a run as the articles did: ours beside the published figures and the ceiling.",
    ),
    "export": (
        "export:export_command",
        "Write a run, a comparison or anchored points as a tidy table: a row per figure.",
    ),
    "compare": (
        "compare:compare_command",
        "Compare HEAD with BASE, both measured together; judge what can have changed.",
    ),
    "bisect": (
        "bisect:bisect_command",
        "Find the release that caused a change, and write it into the change's record.",
    ),
    "why": (
        "why:why_command",
        "Say which function a change of instructions lies in: a change's, or of two sides.",
    ),
    "anchor": (
        "anchor:anchor_app",
        "The stack that trend points are measured against: show it, measure against it, renew it.",
    ),
    "backfill": (
        "backfill:backfill_command",
        "Measure the stacks of other times against the anchor: years of trend on day one.",
    ),
    "inprocess": (
        "inprocess:inprocess_command",
        "Measure inside the process, with few samples: threads, handlers, Pydantic, instructions.",
    ),
    "stack": ("stack:stack_app", "The stacks under test and their locks."),
    "site": (
        "site:site_command",
        "Build the site from results/: trends, experiments, changes, packages, comparisons, data.",
    ),
    "asv": ("site:asv_app", "asv's own site."),
    "ci": ("verbs:ci_app", "What workflows call: nights, pull requests, your own machines."),
    "dev": ("verbs:dev_app", "For those who work on duetbench itself."),
}
"""All verbs, as `--help` lists them, each with its module beside this one and the function or group
in it, and its line in the list. To add a verb, add a row."""

CI: Final[Table] = {
    "plan": (
        "night:plan_command",
        "Share a night's cases out over the machines that measure them.",
    ),
    "history": ("history:history_app", "The results of all nights, on a branch of their own."),
    "accept": (
        "accept:accept_command",
        "Check artifacts of measuring machines, and copy what is right.",
    ),
    "detect": (
        "detect:detect_command",
        "Find series that moved for good when a stack changed, and confirm them by duets.",
    ),
    "announce": (
        "github:announce_command",
        "Keep one issue per confirmed change: opened, updated and closed by itself.",
    ),
    "slash": (
        "github:slash_command",
        "Answer a comment that says `/bench COMMIT`, and start the comparison.",
    ),
    "sides": (
        "pull_request:sides_command",
        "Find what a pull request or a push is to be compared with, and fetch it.",
    ),
    "compare": (
        "pull_request:compare_command",
        "Compare both sides of a pull request, and find an upgrade's cause.",
    ),
    "report": ("pull_request:report_command", "Comment on a pull request with what was found."),
    "sandbox": (
        "sandbox:sandbox_command",
        "Run a verb where code of others may run: on your own machine, docs/runners.md.",
    ),
    "runner": ("sandbox:runner_command", "Look whether this machine is prepared as a runner."),
}
"""The verbs of `duetbench ci`."""

DEV: Final[Table] = {
    "pins": (
        "pins:pins_command",
        "Renew oha and CPython in pyproject.toml, each version with its checksums.",
    ),
    "findings": (
        "show:findings_command",
        "Answer each experiment's question from the reference runs, as Markdown.",
    ),
    "schema": (
        "show:schema_command",
        "Write the JSON Schema of run files (kept as results/schema.json).",
    ),
}
"""The verbs of `duetbench dev`."""

HOOKS: Final = {
    "deployed": "deploy:deployed",
    "explain_change": "why:explain_change",
    "explain_comparison": "why:explain_comparison",
    "print_attribution": "why:print_attribution",
}
"""What a verb does for other verbs, which import it by `hook` only where they use it."""


def hook(name: str) -> Any:
    """Import the function of `HOOKS` that has this name."""
    return pkgutil.resolve_name(f"{__package__}.{HOOKS[name]}")


class Verb(TyperCommand):
    """A verb's line in a list; the command itself is made when it is resolved."""

    def __init__(self, name: str, place: str, line: str) -> None:
        super().__init__(name, help=line)
        self.place = place

    def load(self) -> Any:
        """Import the verb, and make of it what typer makes of registered functions and groups."""
        function = pkgutil.resolve_name(f"{__package__}.{self.place}")
        alone = typer.Typer()
        if isinstance(function, typer.Typer):
            alone.add_typer(function, name=self.name)
        else:
            alone.command(self.name)(function)
        command = get_group(alone).commands[str(self.name)]
        _join_lines(command)
        return command


class _Group(TyperGroup):
    """A group of verbs from tables."""

    listed: ClassVar[Table]

    def __init__(self, **settings: Any) -> None:
        verbs = {verb: Verb(verb, *row) for verb, row in self.listed.items()}
        super().__init__(**{**settings, "commands": verbs})
        self.help = _joined(self.help)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, verb, rest = super().resolve_command(ctx, args)
        return name, verb.load() if isinstance(verb, Verb) else verb, rest

    def list_commands(self, ctx: object) -> list[str]:  # noqa: ARG002 - typer's signature
        return list(self.listed)


class VerbGroup(_Group):
    """The group of all `VERBS`."""

    listed = VERBS

    def make_context(self, *args: Any, **settings: Any) -> Any:
        with _mended():
            return super().make_context(*args, **settings)

    def invoke(self, ctx: Any) -> Any:
        with _mended():
            return super().invoke(ctx)


ci_app, dev_app = (
    typer.Typer(
        cls=type(name, (_Group,), {"listed": listed}), no_args_is_help=True, help=VERBS[name][1]
    )
    for name, listed in (("ci", CI), ("dev", DEV))
)


def _join_lines(application: Any) -> None:
    application.help = _joined(application.help)
    for command in getattr(application, "commands", {}).values():
        _join_lines(command)


def _joined(text: str | None) -> str:
    """Each paragraph on one line, which typer wraps where the terminal ends."""
    return re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.cleandoc(text or ""))


def _type_shown(option: TyperOption, ctx: Any) -> str | None:
    """The type of an option's value in its help: none of a flag, and that of one in a list."""
    text = None if option.is_flag else _WITH_TYPE(option, ctx)
    return text and re.sub(r"list\[(.+)\]", r"\1", text)


_WITH_TYPE: Final = TyperOption.display_type_rich
TyperOption.display_type_rich = _type_shown  # type: ignore[assignment,method-assign] # no setting


@contextmanager
def _mended() -> Iterator[None]:
    """Mend what typer and rich say, or how they end, where they leave no choice.

    Both end with exit code 1 where nobody reads any more, as if the verb had failed. No verb of
    ours raises such a SystemExit.
    """
    try:
        yield
    except typer.BadParameter as wrong:
        wrong.message = wrong.message.removeprefix("Value error, ")  # pydantic's words
        raise
    except BrokenPipeError:
        with suppress(OSError):  # or the interpreter would try once more when it ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(CLOSED_PIPE) from None
    except SystemExit as end:
        if type(end) is SystemExit and end.code == 1:
            raise SystemExit(CLOSED_PIPE) from None
        raise
