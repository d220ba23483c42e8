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
from typing import Any, Final

import typer
from typer.core import TyperGroup, TyperOption
from typer.main import get_group

CLOSED_PIPE: Final = 141
"""Exit code where nobody reads any more (`… | head -1`): 128 + SIGPIPE, as of any other tool."""

VERBS: Final[Mapping[str, str]] = {
    "setup": "setup:setup_command",
    "doctor": "doctor:doctor_command",
    "plan": "plan:plan_command",
    "run": "run:run_command",
    "compare": "compare:compare_command",
    "accept": "accept:accept_command",
    "slash": "github:slash_command",
    "comment": "github:comment_command",
    "status": "github:status_command",
    "announce": "announce:announce_command",
    "watchdog": "announce:watchdog_command",
    "deps": "deps:deps_command",
    "detect": "detect:detect_command",
    "bisect": "bisect:bisect_command",
    "screen": "screen:screen_command",
    "micro": "micro:micro_command",
    "show": "show:show_command",
    "findings": "show:findings_command",
    "schema": "show:schema_command",
    "site": "site:site_command",
    "stack": "stack:stack_app",
    "history": "history:history_app",
    "asv": "asv:asv_app",
    "selftest": "selftest:selftest_app",
    "fleet": "fleet:fleet_app",
    "dev": "dev:dev_app",
}
"""All verbs, as `--help` lists them, each with its module beside this one, and the function or
group in it. To add a verb, add a row."""


class VerbGroup(TyperGroup):
    """The group of all `VERBS`. Whatever typer asks it for is imported then."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{**settings, "commands": _Commands()})
        self.help = _joined(self.help)

    def list_commands(self, ctx: object) -> list[str]:  # noqa: ARG002 - typer's signature
        """All names; typer's own would look at the commands for them, and so import them."""
        return list(self.commands)

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

    def __getitem__(self, verb: str) -> Any:
        return command(verb)

    def __iter__(self) -> Iterator[str]:
        return iter(VERBS)

    def __len__(self) -> int:
        return len(VERBS)


def command(verb: str) -> Any:
    """Import a verb, and make of it what typer makes of functions and groups that are registered.

    Raises:
        KeyError: There is no such verb.
    """
    found = pkgutil.resolve_name(f"{__package__}.{VERBS[verb]}")
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
    for below in getattr(made, "commands", {}).values():
        _join_lines(below)


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
