"""The verbs, each in a module that is imported when somebody asks for the verb.

Nobody waits for what another verb needs: `servebench --version` imports no verb's module, and a
verb its own alone. What has to show them all (`servebench --help`) imports them all; that is why
these modules leave the large libraries (numpy, asv, …) to their functions.
"""

from __future__ import annotations

import inspect
import os
import pkgutil
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, ClassVar, Final

import typer
from typer.core import TyperGroup, TyperOption
from typer.main import get_group

CLOSED_PIPE: Final = 141
"""Exit code where nobody reads any more (`… | head -1`): 128 + SIGPIPE, as of any other tool."""

VERBS: Final[Mapping[str, str]] = {
    "doctor": "doctor:doctor_command",
    "setup": "setup:setup_command",
    "plan": "plan:plan_command",
    "run": "run:run_command",
    "show": "show:show_command",
    "compare": "compare:compare_command",
    "bisect": "bisect:bisect_command",
    "micro": "micro:micro_command",
    "stack": "stack:stack_app",
    "site": "site:site_command",
    "asv": "asv:asv_app",
    "selftest": "selftest:selftest_app",
    "ci": "verbs:ci_app",
    "dev": "dev:dev_app",
}
"""All verbs, as `--help` lists them, each with its module beside this one, and the function or
group in it. To add a verb, add a row."""

CI: Final[Mapping[str, str]] = {
    "history": "history:history_app",
    "accept": "accept:accept_command",
    "detect": "detect:detect_command",
    "announce": "announce:announce_command",
    "watchdog": "announce:watchdog_command",
    "slash": "github:slash_command",
    "comment": "github:comment_command",
    "status": "github:status_command",
    "screen": "screen:screen_command",
    "deps": "deps:deps_command",
    "fleet": "fleet:fleet_app",
}
"""The verbs of `servebench ci`."""

OLD: Final[Mapping[str, str]] = {
    **CI,
    "findings": "show:findings_command",
    "schema": "show:schema_command",
}
"""Verbs that once had no group before their names. They are found, and not listed: workflows and
habits go on."""


class _Group(TyperGroup):
    """A group of verbs. Whatever typer asks it for is imported then."""

    rows: ClassVar[Mapping[str, str]]
    old: ClassVar[Mapping[str, str]] = {}

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{**settings, "commands": _Commands(self.rows, self.old)})
        self.help = _joined(self.help)

    def list_commands(self, ctx: object) -> list[str]:  # noqa: ARG002 - typer's signature
        """All names; typer's own would look at the commands for them, and so import them."""
        return list(self.commands)


class _CiGroup(_Group):
    """The group of all that workflows call."""

    rows = CI


ci_app = typer.Typer(
    cls=_CiGroup,
    no_args_is_help=True,
    help="What workflows call: nights, pull requests, machines of one's own.",
)


class VerbGroup(_Group):
    """The group of all `VERBS`."""

    rows = VERBS
    old = OLD

    def make_context(self, *args: Any, **settings: Any) -> Any:
        """Read the options before the verb; its help is printed here."""
        with _told_well():
            return super().make_context(*args, **settings)

    def invoke(self, ctx: Any) -> Any:
        """Read the verb's words, and do it."""
        with _told_well():
            return super().invoke(ctx)


class _Commands(Mapping[str, Any]):
    """Verb → command of typer's, made when it is looked up."""

    def __init__(self, rows: Mapping[str, str], old: Mapping[str, str]) -> None:
        self._rows, self._old = rows, old

    def __getitem__(self, verb: str) -> Any:
        return _command(verb, self._rows.get(verb) or self._old[verb])

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def _command(verb: str, row: str) -> Any:
    """Import a verb, and make of it what typer makes of functions and groups that are registered.

    Args:
        verb: Its name.
        row: Its module, and the function or group in it.
    """
    found = pkgutil.resolve_name(f"{__package__}.{row}")
    alone = typer.Typer()
    if isinstance(found, typer.Typer):
        alone.add_typer(found, name=verb)
    else:
        alone.command(verb)(found)
    made = get_group(alone).commands[verb]
    _join_lines(made)
    return made


def _join_lines(made: Any) -> None:
    """Join the lines in the help of a command, and of those below it."""
    made.help = _joined(made.help)
    # The commands of a group of ours are made, and so joined, when they are looked up.
    below = {} if isinstance(made, _Group) else getattr(made, "commands", {})
    for command in below.values():
        _join_lines(command)


def _joined(text: str | None) -> str:
    """Each paragraph on one line, which typer wraps where the terminal ends."""
    return re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.cleandoc(text or ""))


def _type_shown(option: TyperOption, ctx: Any) -> str | None:
    """The type of an option's value in its help: none of a flag, and that of one in a list."""
    shown = None if option.is_flag else _WITH_TYPE(option, ctx)
    return shown and re.sub(r"list\[(.+)\]", r"\1", shown)


_WITH_TYPE: Final = TyperOption.display_type_rich
TyperOption.display_type_rich = _type_shown  # type: ignore[assignment,method-assign] # no setting


@contextmanager
def _told_well() -> Iterator[None]:
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
