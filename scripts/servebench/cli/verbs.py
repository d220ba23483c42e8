"""The verbs, each in a module that is imported when somebody asks for the verb.

Nobody waits for what another verb needs: `servebench --version` imports no verb's module, and a
verb its own alone. What has to show them all (`servebench --help`) imports them all; that is why
these modules leave the large libraries (numpy, asv, …) to their functions.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Mapping
from typing import Any, Final

import typer
from typer.core import TyperGroup
from typer.main import get_group

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

    def list_commands(self, ctx: object) -> list[str]:  # noqa: ARG002 - typer's signature
        """All names; typer's own would look at the commands for them, and so import them."""
        return list(self.commands)


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
    return get_group(alone).commands[verb]
