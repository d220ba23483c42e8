"""What workflows call: for artifacts, the sandbox, answers to requests, an issue per change."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

from typer import Argument, Exit, Option

from duetbench.app import stacks
from duetbench.ci import actions, archives, comments, proposals
from duetbench.ci.actions import Context
from duetbench.ci.api import GitHub
from duetbench.core.errors import ArtifactError, SetupError, UsageError
from duetbench.host import files, paths
from duetbench.host.console import Console, errors, write_summary
from observatory.cli.options import ResultsOption
from observatory.github import incoming, issues, requests, sandbox
from observatory.github.incoming import Acceptance
from observatory.matrix.checkout import Checkout
from observatory.store import kinds
from observatory.store.change import Candidates, Change
from observatory.store.night import NightPlan
from observatory.store.points import Points
from observatory.trend.quotes import quotes
from observatory.trend.releases import axes, judged

_REMEDY: Final = "run scripts/prepare-runner.sh (docs/observatory/runners.md)"
_INSTALLED: Final = (
    "/usr/local/lib/duetbench/job-started.sh",
    "/etc/systemd/system/duetbench-runner.service",
)


def accept_command(
    target: Annotated[Path, Option("--to", metavar="FOLDER", help="Folder for accepted files.")],
    source: Annotated[
        Path | None,
        Option("--from", metavar="FOLDER", help="Folder of the artifacts and nothing else."),
    ] = None,
    fetch: Annotated[
        str | None,
        Option(
            "--fetch", metavar="NAMES", help="Only fetch this run's artifacts of a glob into --to."
        ),
    ] = None,
    plan: Annotated[
        Path | None,
        Option("--plan", metavar="FILE", help="Artifacts are a night's shards: the night's plan."),
    ] = None,
    candidates: Annotated[
        Path | None,
        Option("--candidates", metavar="FILE", help="Artifacts are changes: of these candidates."),
    ] = None,
) -> None:
    """Check artifacts of measuring machines, and copy the valid ones.

    $ observatory accept --fetch 'shard-*' --to incoming
    $ observatory accept --plan night.json --from incoming --to accepted

    Links, odd names, and too many or too large files are refused. The rest is checked strictly, and
    must be what was requested: the plan's cases, commit, locks and machines, or its candidates.
    Nothing is executed. A refused artifact does not affect the others.

    Give one of --plan and --candidates. Exit code 0: all that arrived was accepted. 1: something
    was refused, the rest was copied. 3: all was refused. What is missing, `history push` says.

    With --fetch, artifacts are only fetched, one by one; another call checks them. One that is
    damaged or far too large is skipped, so it is missing afterwards. Needs GITHUB_TOKEN with
    actions: read. Exit code 4: GitHub could not list them.
    """
    target.mkdir(parents=True, exist_ok=True)  # even if empty: a workflow pushes it
    if fetch is not None:  # only this talks to GitHub
        with GitHub(Context(os.environ)) as github:
            fetched, lost = archives.fetch(github, github.context.run_id, fetch)
        for name, content in fetched.items():
            for path, data in content.items():
                files.replace(target / name / path, data)
        _show(Acceptance(tuple(fetched), lost), "fetched")
        return
    if source is None or (plan is None) == (candidates is None):
        raise UsageError(
            "expected --from FOLDER with --plan FILE or --candidates FILE; or --fetch NAMES"
        )
    now, project = datetime.now(UTC), Checkout.here()
    locks = {}
    for lock in map(project.lock, project.stacks):
        packages = frozenset(stacks.versions(lock.lock.read_text("utf-8")))
        locks[lock.name] = incoming.Lock(lock.digest, packages)
    if plan is not None:
        acceptance = incoming.night(files.read(NightPlan, plan), source, target, locks, now)
    else:
        known = files.read(Candidates, candidates or Path()).candidates
        acceptance = incoming.verdicts(source, target, known, locks)
    _show(acceptance, "accepted")
    if acceptance.exit_code:
        raise Exit(acceptance.exit_code)


def _show(acceptance: Acceptance, action: str) -> None:
    refused = [f"refused: artifact {name}: {reason}" for name, reason in acceptance.refused.items()]
    heading = f"**{len(acceptance.accepted)} {action}, {len(refused)} refused**\n\n"
    # Untrusted text is shown as code, which it cannot end.
    items = ["`{}`".format(line.replace("`", "'")) for line in refused]
    write_summary(heading + "\n".join(f"- {line}" for line in items))
    lines = [f"{action}: {path}" for path in acceptance.accepted]
    for line in [*lines, *refused] or ["nothing arrived"]:
        Console().say(line)


def sandbox_command(
    words: Annotated[
        list[str], Argument(help="After `--`: a command, as `observatory measure --results out`.")
    ],
) -> None:
    """Run a command of duetbench or of observatory in a sandbox, which bubblewrap makes.

    $ observatory sandbox -- observatory measure --plan night.json --shard 1 --results measured

    For untrusted code: commits of pull requests, and releases. Files that it reads (--plan, --from)
    are copied in, and files that it writes (--results, --to, -o) are copied out; all are names in
    this folder. Packages come from the hosts in DUETBENCH_PACKAGES alone. Exit codes are those of
    the command, and 4 if its output cannot be used, or this machine cannot make the sandbox.
    """
    if code := sandbox.run(paths.project_root(), words):
        raise Exit(code)


def runner_command() -> None:
    """Check whether this machine is prepared as a runner: its sandbox, hook and service.

    $ observatory runner

    Run it as the runner's user. Exit code 4: the sandbox cannot be made, or a file is not root's,
    or not the one of this checkout.
    """
    with sandbox.standing(paths.project_root()):
        pass
    for file in map(Path, _INSTALLED):
        own = Path(__file__).parents[2] / "runner" / file.name
        if not file.is_file() or file.read_bytes() != own.read_bytes():
            raise SetupError(f"{file} is not this checkout's: {_REMEDY}")
        if any(
            place.stat().st_uid or place.stat().st_mode & 0o022 for place in (file, file.parent)
        ):
            raise SetupError(f"{file}: expected root as its owner, who alone can write to it")
    Console().say("this machine is prepared as a runner")


def slash_command() -> None:
    """Answer a comment that may say `/bench COMMIT`, and start the comparison if it is allowed.

    $ observatory slash

    The comparison starts if somebody with write permission names the full commit that is the pull
    request's head, which they have reviewed: its code will run on the measuring machine.

    Needs GITHUB_TOKEN with actions: write and pull-requests: write. Exit code 0: decided, either
    way; 4: GitHub could not be reached.
    """
    context = Context(os.environ)
    if context.event_name != "issue_comment":
        raise UsageError(
            f"GITHUB_EVENT_NAME={context.event_name!r}: expected issue_comment; this command "
            "answers comments"
        )
    with GitHub(context) as github:
        decision = requests.answer(github)
    Console().say(decision)
    write_summary(f"`/bench`: {decision}")


def comment_command(
    source: Annotated[Path, Option("--from", metavar="FOLDER", help="The artifact's folder.")],
    pull: Annotated[int, Option("--pr", metavar="N", min=1, help="Number of the pull request.")],
    base: Annotated[str, Option("--base", metavar="COMMIT", help="The commit compared with.")],
    head: Annotated[str, Option("--head", metavar="COMMIT", help="The commit that was compared.")],
) -> None:
    """Comment on a pull request with the comparison that was asked for by `/bench COMMIT`.

    $ observatory comment --pr 12 --base BASE --head HEAD --from incoming

    The data is untrusted, and is shown only if it compares these commits. If there is no result to
    show, the comment says so. Needs GITHUB_TOKEN with pull-requests: write. Exit code 0: commented;
    4: the result cannot be shown, or GitHub was not reached.
    """
    with GitHub(Context(os.environ)) as github:
        context, problem = github.context, None
        try:
            sent = incoming.folder(source) if source.exists() else {}
            text = proposals.proposal(sent, base, head)
            body = comments.sign(text, head, context.run_url, f"{_site(context)}docs/glossary/")
        except ArtifactError as error:
            problem, body = error, requests.failed(head, context.run_url, str(error))
        Console().say(" ".join(comments.publish(github, pull, comments.KIND, body)))
        write_summary(body)
    if problem:
        raise problem


def announce_command(results: ResultsOption = None) -> None:
    """Keep one issue per confirmed change: open, update and close it, never twice.

    $ observatory announce

    Each open change of results/changes/ gets an issue, which is updated when more is known, and
    closes with its record. If somebody closes it by hand, it stays closed until there is news. Any
    call may be repeated. Links lead to DUETBENCH_SITE, or else to the repository's GitHub Pages.

    Needs GITHUB_TOKEN with issues: write. Exit code 0: all issues are up to date; 1: a record
    cannot be read, or more than ten were new; 4: GitHub could not be reached. The next call
    continues.
    """
    problems: list[str] = []
    folder, context = results or Checkout.here().results, Context(os.environ)
    records = [entry for entry in kinds.read_all(Change, folder, problems) if entry.confirmed]
    points = kinds.read_all(Points, folder, [])
    every = axes(sorted(points, key=lambda file: (file.started, file.id)))
    sizes = quotes(judged(every), records)
    site = _site(context)
    with GitHub(context) as github:
        lines, left = issues.keep(github, records, site, sizes)
    if left:
        problems.append(
            f"{left} changes are not announced yet: more than {issues.MOST} at once have one "
            "common cause, probably not a package; check the machine and the method first"
        )
    for line in lines or ["no news"]:
        Console().say(line)
    for problem in problems:
        errors().say(f"duetbench: {problem}")
    items = [f"- {line}" for line in (*lines, *map(comments.plain, problems))]
    write_summary("### Changes\n\n" + ("\n".join(items) or "No news."))
    if problems:
        raise Exit(1)


def _site(context: Context) -> str:
    """Return the address of the site, with a slash at its end; raises UsageError."""
    site = os.environ.get("DUETBENCH_SITE", "")
    if site and not actions.URL.fullmatch(site):
        raise UsageError(f"DUETBENCH_SITE={site!r}: expected an address, https://…")
    owner, _, name = context.repository.lower().partition("/")
    home = f"{owner}.github.io"
    own = f"https://{home}/" if name == home else f"https://{home}/{name}/"
    return site.rstrip("/") + "/" if site else own
