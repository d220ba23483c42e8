"""`servebench ci fleet`: machines of one's own as runners."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from servebench.automation.runner import hook, room
from servebench.cli.options import ProfileOption, SelectOption, budget_option, require_writable
from servebench.core.errors import UsageError
from servebench.host import paths
from servebench.host.console import Console
from servebench.host.machine_lock import measuring
from servebench.host.signals import interruptible
from servebench.record import files

fleet_app = typer.Typer(
    no_args_is_help=True, help="Machines of one's own as runners: docs/runners.md."
)

_STYLES = {"ok": "green", "missing": "bold red", "wrong": "bold red"}
_COMMIT_DIGITS = 40


@fleet_app.command("hook")
def hook_command(
    policy: Annotated[
        Path | None, typer.Option("--policy", help="The policy's file, instead of the machine's.")
    ] = None,
) -> None:
    """Decide whether a job may start here, from GitHub's variables: what the runner's hook does.

    The runner itself does not start this, but the copy that scripts/prepare-runner.sh installs.
    Here, nothing is ended. Exit code 0: it may. 1: it may not, with the reason.
    """
    file = policy or room.config_file()
    try:
        found = hook.refusals(hook.read_policy(file.read_text("utf-8")), os.environ)
    except (OSError, hook.PolicyError) as error:
        raise UsageError(f"{file}: expected a policy for this machine: {error}") from error
    for reason in found:
        typer.echo(f"refused: {reason}")
    if found:
        raise typer.Exit(1)
    typer.echo("this job may start here")


@fleet_app.command("check")
def check_command(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Look whether this machine is prepared: hook, users, runner, clock.

    Run it as the runner's user. Exit code 1: something is missing or wrong.
    """
    from servebench.automation.runner import check  # noqa: PLC0415 - only this verb needs it

    found = check.findings(check.here())
    console = Console()
    if as_json:
        console.print_json(json.dumps([one.model_dump(mode="json") for one in found]))
    else:
        table = Table("what", "state", title="This machine as a runner", title_justify="left")
        table.add_column("detail", overflow="fold")
        for one in found:
            remedy = f"\nremedy: {one.remedy}" if one.remedy else ""
            state = Text(one.state, style=_STYLES[one.state])
            table.add_row(one.what, state, Text(one.detail + remedy))
        console.print(table)
    if any(one.state != "ok" for one in found):
        raise typer.Exit(1)


@fleet_app.command("compare")
def compare_command(
    base: Annotated[str, typer.Argument(help="The commit to compare with, 40 hex digits.")],
    head: Annotated[str, typer.Argument(help="The commit to judge: foreign code.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Write the checked comparison as JSON.")
    ],
    select: SelectOption = None,
    profile: ProfileOption = "quick",
    budget: Annotated[str | None, budget_option("Time for measuring")] = None,
) -> None:
    """Compare two commits as the machine's other user: for code that anybody may have written.

    `servebench compare` of this checkout runs in an empty room of that user's, which has no access
    to the runner's files, the machine's cache (but for reading) and the networks around it. When
    it has ended, everything of that user is ended and removed; what came out is read with bounds
    and checked before it is written. Exit codes as of `servebench compare`; 4 as well if what came
    out cannot be used.
    """
    from servebench.automation.runner import foreign  # noqa: PLC0415
    from servebench.report.comparison import exit_code  # noqa: PLC0415 - as above

    for name, commit in (("BASE", base), ("HEAD", head)):
        if len(commit) != _COMMIT_DIGITS or set(commit) - set("0123456789abcdef"):
            raise UsageError(f"{name}: expected a commit as 40 hex digits, found {commit!r}")
    require_writable({"--output": output})
    described = room.read_config()
    options = ["--profile", profile]
    options += [word for glob in select or () for word in ("--select", glob)]
    options += ["--budget", budget] if budget else []
    with interruptible(), measuring():
        found, data = foreign.compare(paths.project_root(), base, head, options, described)
    files.replace(output, data)
    Console(highlight=False).print(f"Checked and saved: {output}", soft_wrap=True, markup=False)
    code = exit_code(found)
    if code:
        raise typer.Exit(code)


def _in_the_room(context: typer.Context) -> None:
    from servebench.automation.runner import foreign  # noqa: PLC0415 - as above

    words = [str(context.info_name), *context.args]
    with interruptible(), measuring():
        code = foreign.measure(paths.project_root(), words, room.read_config())
    if code:
        raise typer.Exit(code)


for _verb in ("run", "inprocess", "micro", "ci detect", "bisect"):
    fleet_app.command(
        _verb.removeprefix("ci "),
        hidden=_verb == "micro",  # the name that `inprocess` once had
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
        help=f"Start `servebench {_verb}` as the machine's other user, with the same options.\n\n"
        "For releases that anybody may have published. Files that it reads (--plan, --from) are "
        "handed in, and its folder of results (--results, --to) is brought out; all are names in "
        "this folder. Exit codes as of the verb; 4 as well if what came out cannot be used.",
    )(_in_the_room)
