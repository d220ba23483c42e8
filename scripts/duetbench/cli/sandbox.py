"""`duetbench ci sandbox` and `ci runner`: measuring code of others on machines of one's own."""

from typing import Annotated, Final

from typer import Argument, Exit

from duetbench.cli.options import JsonOption
from duetbench.github import sandbox
from duetbench.host import paths
from duetbench.host.console import Console, errors, print_json
from duetbench.host.signals import interruptible

_REMEDY: Final = "renew it with scripts/prepare-runner.sh (docs/runners.md)"


def sandbox_command(
    words: Annotated[
        list[str], Argument(help="After `--`: a verb with its options, as `run --results out`.")
    ],
) -> None:
    """Run a verb of duetbench, with its options, in this machine's sandbox.

    For commits of pull requests and releases, which anybody may have written. The verb has no
    access to the runner's files, to the machine's cache (but for reading) and to networks; nothing
    that it started stays. Files that it reads (--plan, --from) are handed in, and what it writes
    (--results, --to, --output, --why) is brought out; all are names in this folder. Exit codes as
    of the verb; 4 as well if what came out cannot be used.
    """
    for problem in sandbox.problems():
        errors().say(f"warning: {problem}; {_REMEDY}")
    with interruptible():
        code = sandbox.run(paths.project_root(), words)
    if code:
        raise Exit(code)


def runner_command(as_json: JsonOption = False) -> None:
    """Look whether this machine is prepared as a runner: hook, sandbox, and their owners.

    Run it as the runner's user. Exit code 1: something is missing, or not this checkout's.
    """
    problems = sandbox.problems()
    if as_json:
        print_json(problems)
    for problem in () if as_json else problems or ("this machine is prepared as a runner",):
        Console().say(problem)
    if problems:
        errors().say(_REMEDY)
        raise Exit(1)
