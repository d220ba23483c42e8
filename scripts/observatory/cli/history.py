"""`observatory history`: the results of all nights, on a branch of their own."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Exit, Option, Typer

from duetbench.ci import actions
from duetbench.core.errors import NothingMeasuredError, UsageError
from duetbench.core.model import Run
from duetbench.core.text import some
from duetbench.host import files as files_
from duetbench.host import paths
from duetbench.host.console import Console, errors, write_summary
from observatory.matrix.checkout import Checkout
from observatory.store.history_branch import BRANCH, pull, push, remote_of
from observatory.store.kinds import collect
from observatory.store.night import NightPlan, outcome

history_app = Typer(no_args_is_help=True, rich_markup_mode=None)

RemoteOption = Annotated[
    str,
    Option(
        "--remote",
        envvar="DUETBENCH_HISTORY_REMOTE",
        metavar="REMOTE",
        help="A remote of git, a URL, or a path.",
    ),
]


@history_app.callback()
def _group() -> None:
    """The results of all nights, on a branch of their own.

    The branch holds a folder `results/` and nothing else; no run is ever rewritten. `pull` writes
    it into this checkout, where the other commands read it. `push` adds to it, however many others
    do so at the same time.
    """


@history_app.command("pull")
def pull_command(
    to: Annotated[
        Path | None,
        Option("--to", metavar="FOLDER", help="Folder to write to; default: results/ here."),
    ] = None,
    alone: Annotated[
        bool, Option("--alone", help="First remove the committed files of the results folder.")
    ] = False,
    remote: RemoteOption = "origin",
) -> None:
    """Fetch the history and write it into the results folder.

    $ observatory history pull
    $ observatory history pull --alone

    Only new files are written; do not commit them. A missing branch is an empty history. With
    --alone, as in workflows, only the history counts: a fork has the files that are committed
    beside the code, too, and they are no reason to open issues there.
    """
    project = Checkout.here()
    where, results = remote_of(project.root, remote), to or project.results
    tip, written = pull(where, results, errors().say, alone=alone)
    state = f"history at {tip[:8]}" if tip else f"there is no branch {BRANCH} yet"
    Console().say(f"{state}: {written} new files")


@history_app.command("push")
def push_command(
    folder: Annotated[
        Path, Argument(help="A results folder: runs/<machine>/<year>/<run>.json, changes/, …")
    ],
    plan: Annotated[
        Path | None,
        Option("--plan", metavar="FILE", help="The night's plan: missing cases are recorded."),
    ] = None,
    remote: RemoteOption = "origin",
) -> None:
    """Add the files of a results folder to the history.

    $ observatory history push past
    $ observatory history push accepted --plan night.json

    Every file is checked first. If a file is damaged, nothing is pushed. A file that would replace
    a run is refused, and the rest is pushed. A push that is refused or breaks off is repeated.

    Exit code 0: everything is pushed. 1: a file was refused;
    with --plan also: cases are missing. The rest was pushed. 3: with --plan: the night gave no
    usable launch. 4: the push failed, and the branch is unchanged.
    """
    warn = errors().say
    if plan is None and not folder.is_dir():  # with a plan the night is recorded in any case
        raise UsageError(f"{folder}: expected a results folder, found none")
    files, values, others = collect(folder)
    if others:
        warn(f"note: no part of the history, left out: {some(others, at_most=10)}")
    record = None
    if plan is not None:
        runs = [value for value in values if isinstance(value, Run)]
        record = outcome(files_.read(NightPlan, plan), runs)
        files[record.path] = files_.encode(record)
    subject = f"Night {record.id}: {record.status}" if record else "Results"
    pushed = push(files, remote_of(paths.project_root(), remote), subject, warn)
    Console().say(
        f"{len(pushed.added)} files added to {BRANCH}, {len(pushed.there)} were known already"
    )
    if pushed.conflicts:
        sentence = (
            f"{', '.join(pushed.conflicts)}: not pushed, as the history has other bytes under this "
            "name, and is never rewritten: if those are wrong, a commit removes them, and says why"
        )
        actions.annotate("error", sentence)
    if record is not None:
        absent = [f"missing: `{case}`" for shard in record.missing for case in shard.missing]
        lines = [f"- {line}" for line in (*record.sentences, *absent)]
        write_summary("\n".join((f"### Night `{record.id}`: {record.status}", "", *lines)))
        for sentence in record.sentences:
            warn(sentence)
        if record.status == "empty":
            raise NothingMeasuredError(
                f"night {record.id}: found no usable launch: see the logs of the shards' jobs"
            )
    if pushed.conflicts or (record and record.status == "incomplete"):
        raise Exit(1)
