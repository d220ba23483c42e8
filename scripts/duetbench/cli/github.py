"""`duetbench ci` on GitHub: artifacts, the sandbox, answers to requests, an issue per change."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

from typer import Argument, Exit, Option

from duetbench.cli.options import ResultsOption
from duetbench.core.errors import UsageError
from duetbench.github import actions, archives, comments, event, incoming, issues, sandbox
from duetbench.github.actions import Context
from duetbench.github.api import GitHub
from duetbench.github.archives import Acceptance
from duetbench.host import paths
from duetbench.host.console import Console, errors
from duetbench.host.signals import interruptible
from duetbench.project.project import Project
from duetbench.store import files
from duetbench.store.attribution import Attribution
from duetbench.store.change import Candidates, Change
from duetbench.store.night import NightPlan, assignment

_REMEDY: Final = "renew it with scripts/prepare-runner.sh (docs/runners.md)"


def accept_command(
    target: Annotated[Path, Option("--to", metavar="FOLDER", help="Where checked files go.")],
    source: Annotated[
        Path | None,
        Option("--from", metavar="FOLDER", help="Where the artifacts were put, and nothing else."),
    ] = None,
    fetch: Annotated[
        str | None,
        Option("--fetch", metavar="NAMES", help="Only fetch artifacts of this glob into --to."),
    ] = None,
    run: Annotated[
        int | None,
        Option("--run", metavar="N", min=1, help="With --fetch: of this workflow run instead."),
    ] = None,
    plan: Annotated[
        Path | None,
        Option("--plan", metavar="FILE", help="Artifacts are a night's shards: the night's plan."),
    ] = None,
    shard: Annotated[
        int | None,
        Option(
            "--shard", metavar="N", min=1, help="With --plan: the only one that can be missing."
        ),
    ] = None,
    candidates: Annotated[
        Path | None,
        Option(
            "--candidates",
            metavar="FILE",
            help="Artifacts are changes: the candidates of `ci detect`.",
        ),
    ] = None,
) -> None:
    """Check artifacts of measuring machines, and copy what is right.

    $ duetbench ci accept --fetch 'shard-*' --to incoming
    $ duetbench ci accept --plan night.json --from incoming --to accepted

    Links, odd names, too many files and too large ones are refused; the rest is read strictly, and
    must be of what was asked for: the plan's cases, commit, locks and machines, or its candidates.
    Nothing is executed. A refused artifact costs the others nothing.

    Give one of --plan and --candidates. Exit code 0: all is there and was accepted.
    1: something is refused or missing, the rest was copied. 3: nothing was accepted.

    With --fetch they are fetched, one by one, for another call to check: one that is damaged, or
    far too large once it is unpacked, is left out and named, and is missing then. Needs
    GITHUB_TOKEN with actions: read. Exit code 4: GitHub could not be asked which there are.
    """
    if fetch is not None:  # nothing else talks to GitHub
        with GitHub(Context.of(os.environ)) as github:
            _show(archives.fetch(github, run or github.context.run_id, fetch, target), "fetched")
        return
    now = datetime.now(UTC)
    if source is not None and plan is not None and candidates is None:
        if shard is not None:
            assignment(plan, shard)  # it is one of the plan's
        project = Project.here()
        locks = {name: project.lock(name).digest for name in project.stacks}
        acceptance = incoming.night(files.read(NightPlan, plan), source, target, locks, now, shard)
    elif source is not None and candidates is not None and plan is None:
        names = {candidate.id for candidate in files.read(Candidates, candidates).candidates}
        acceptance = incoming.confirmed(source, target, now, names)
    else:
        raise UsageError(
            "expected --from FOLDER with --plan FILE or --candidates FILE; or --fetch NAMES"
        )
    _show(acceptance, "accepted")
    if acceptance.exit_code:
        raise Exit(acceptance.exit_code)


def _show(acceptance: Acceptance, done: str) -> None:
    missing = [f"missing: {sentence}" for sentence in acceptance.missing]
    refused = [f"refused: artifact {name}: {reason}" for name, reason in acceptance.refused.items()]
    heading = f"**{len(acceptance.accepted)} {done}, {len(refused)} refused**\n\n"
    # Foreign text stands as code, which it cannot end.
    items = ["`{}`".format(line.replace("`", "'")) for line in refused]
    actions.summary(heading + "\n".join(f"- {line}" for line in (*items, *missing)))
    lines = [f"{done}: {path}" for path in acceptance.accepted]
    for line in [*lines, *refused, *missing] or ["nothing came, and nothing was expected"]:
        Console().say(line)


def sandbox_command(
    words: Annotated[
        list[str], Argument(help="After `--`: a verb with its options, as `run --results out`.")
    ],
) -> None:
    """Run a verb of duetbench, with its options, in this machine's sandbox.

    $ duetbench ci sandbox -- run --plan night.json --shard 1 --results measured

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


def runner_command() -> None:
    """Look whether this machine is prepared as a runner: hook, sandbox, and their owners.

    $ duetbench ci runner

    Run it as the runner's user. Exit code 1: something is missing, or not this checkout's.
    """
    problems = sandbox.problems()
    for problem in problems or ("this machine is prepared as a runner",):
        Console().say(problem)
    if problems:
        errors().say(_REMEDY)
        raise Exit(1)


def slash_command() -> None:
    """Decide about a comment that may say `/bench COMMIT`, answer it, and start the comparison.

    $ duetbench ci slash

    Runs where a comment was created (`on: issue_comment`). The comparison starts if somebody with
    write permission names the whole commit that is the pull request's head: the commit that they
    have looked at, since its code will run on the measuring machine. A stranger gets no answer, and
    the answer to another commit says so. Asking again ends the older comparison.

    Needs GITHUB_TOKEN with actions: write and pull-requests: write. Exit code 0: decided, whatever
    it was; 4: GitHub could not be asked or told.
    """
    context = Context.of(os.environ)
    if context.event_name != "issue_comment":
        raise UsageError(
            f"GITHUB_EVENT_NAME={context.event_name!r}: expected issue_comment; this verb answers "
            "comments"
        )
    with GitHub(context) as github:
        decision = event.answer(github)
    Console().say(decision)
    actions.summary(f"`/bench`: {decision}")


def announce_command(results: ResultsOption = None) -> None:
    """Keep one issue per confirmed change: opened, updated and closed by itself, and never twice.

    $ duetbench ci announce

    Reads the change records (results/changes/). An issue is opened for each open one, says more
    when more is known, and closes with its record. Somebody who closes it by hand is not
    contradicted until there is news. The issues themselves are the memory: run it as often as you
    like, also after it was interrupted. Their links lead to DUETBENCH_SITE; where that is not set,
    to the repository's GitHub Pages.

    Needs GITHUB_TOKEN with issues: write. Exit code 0: all as it should be; 1: a record cannot be
    read, or more than ten were new; 4: GitHub could not be told. What is left is done next time.
    """
    problems: list[str] = []
    folder = results or Project.here().results
    records = [entry for entry in files.read_all(Change, folder, problems) if entry.confirmed]
    explained = files.read_all(Attribution, folder, problems)
    context = Context.of(os.environ)
    wanted = issues.of_changes(records, context.site_url, explained)
    with GitHub(context) as github:
        lines, left = issues.keep(github, wanted)
    if left:
        problems.append(
            f"{left} changes are not announced yet: more than {issues.MOST} at once have one "
            "cause, most likely not a package; look at the machine and the method first"
        )
    for line in lines or ["no news"]:
        Console().say(line)
    for problem in problems:
        errors().say(f"duetbench: {problem}")
    listed = [f"- {line}" for line in (*lines, *map(comments.plain, problems))]
    actions.summary("### Changes\n\n" + ("\n".join(listed) or "No news."))
    if problems:
        raise Exit(1)
