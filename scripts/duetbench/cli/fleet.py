"""`duetbench ci fleet`: machines of one's own as runners."""

import os
from pathlib import Path
from typing import Annotated, Final

from typer import Argument, Context, Exit, Option, Typer

from duetbench.cli.doctor import findings_table
from duetbench.cli.options import (
    JsonOption,
    ProfileOption,
    SelectOption,
    budget_option,
    commit,
    require_writable,
)
from duetbench.core.errors import UsageError
from duetbench.github.runner import check, foreign, hook, room
from duetbench.host import paths
from duetbench.host.console import Console, print_json
from duetbench.host.machine_lock import measuring
from duetbench.host.signals import interruptible
from duetbench.show.view import exit_code
from duetbench.store import files

fleet_app = Typer(no_args_is_help=True, help="Machines of one's own as runners: docs/runners.md.")


@fleet_app.command("hook")
def hook_command(
    policy: Annotated[
        Path | None, Option("--policy", help="The policy's file, instead of the machine's.")
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
        Console().say(f"refused: {reason}")
    if found:
        raise Exit(1)
    Console().say("this job may start here")


@fleet_app.command("check")
def check_command(as_json: JsonOption = False) -> None:
    """Look whether this machine is prepared: hook, users, runner, clock.

    Run it as the runner's user. Exit code 1: something is missing or wrong.
    """
    found = check.findings(check.here())
    if as_json:
        print_json([one.model_dump(mode="json") for one in found])
    else:
        Console().print(findings_table("This machine as a runner", found))
    if any(one.state != "ok" for one in found):
        raise Exit(1)


@fleet_app.command("compare")
def compare_command(
    base: Annotated[str, Argument(help="The commit to compare with, 40 hex digits.")],
    head: Annotated[str, Argument(help="The commit to judge: foreign code.")],
    output: Annotated[Path, Option("--output", "-o", help="Write the checked comparison as JSON.")],
    select: SelectOption = None,
    profile: ProfileOption = "quick",
    budget: Annotated[str | None, budget_option("Time for measuring")] = None,
    why: Annotated[
        Path | None, Option("--why", help="Where anything moved, write which code it is.")
    ] = None,
) -> None:
    """Compare two commits as the machine's other user: for code that anybody may have written.

    `duetbench compare` of this checkout runs in an empty room of that user's, which has no access
    to the runner's files, the machine's cache (but for reading) and the networks around it. When
    it has ended, everything of that user is ended and removed; what came out is read with bounds
    and checked before it is written. Exit codes as of `duetbench compare`; 4 as well if what came
    out cannot be used.
    """
    commit("BASE", base)
    commit("HEAD", head)
    require_writable({"--output": output, "--why": why})
    described = room.read_config()
    options = ["--profile", profile]
    options += [word for glob in select or () for word in ("--select", glob)]
    options += ["--budget", budget] if budget else []
    with interruptible(), measuring():
        found, data, explained = foreign.compare(
            paths.project_root(), base, head, options, described, explain=why is not None
        )
    files.replace(output, data)
    if why is not None and explained is not None:
        files.replace(why, explained)
    Console().say(f"Checked and saved: {output}")
    if code := exit_code(found):
        raise Exit(code)


def _in_the_room(context: Context) -> None:
    verb = _VERBS[str(context.info_name)]
    words = [*verb.removeprefix("ci ").split(), *context.args]
    with interruptible(), measuring():
        code = foreign.measure(paths.project_root(), words, room.read_config())
    if code:
        raise Exit(code)


_VERBS: Final = {
    "run": "run",
    "play": "anchor play",
    "inprocess": "inprocess",
    "detect": "ci detect",
    "bisect": "bisect",
}
"""What they are called here, and everywhere else."""

for _name, _verb in _VERBS.items():
    fleet_app.command(
        _name,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
        help=f"Start `duetbench {_verb}` as the machine's other user, with the same options.\n\n"
        "For releases that anybody may have published. Files that it reads (--plan, --from) are "
        "handed in, and its folder of results (--results, --to) is brought out; all are names in "
        "this folder. Exit codes as of the verb; 4 as well if what came out cannot be used.",
    )(_in_the_room)
