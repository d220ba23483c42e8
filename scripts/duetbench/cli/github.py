"""What `duetbench ci` says on GitHub: on pull requests, at commits, and in issues of its own."""

import os
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Final, Literal

from typer import Argument, Exit, Option

from duetbench.cli.options import JsonOption, ResultsOption, commit, tell
from duetbench.core.errors import ArtifactError, RecordError, ServiceError, UsageError
from duetbench.core.text import short
from duetbench.github import actions, comments, issues, slash, text, watchdog
from duetbench.github.actions import BOT, Context
from duetbench.github.client import Client
from duetbench.github.comments import CommentOutcome
from duetbench.github.incoming import comparisons
from duetbench.github.repository import Repository
from duetbench.host.console import Console, errors
from duetbench.project.project import Project
from duetbench.store import attribution, change, files
from duetbench.store.comparison import Comparison

_URL: Final = re.compile(r"https?://[^\s()<>\[\]\\]{1,500}")

Patience = Annotated[
    float, Option("--patience", min=0, help="So many seconds to go on trying while GitHub is down.")
]
DEFAULT_PATIENCE: Final = 300.0
Author = Annotated[
    str,
    Option(
        "--author",
        envvar="DUETBENCH_BOT",
        help="The account that the token stands for; texts of others are never touched.",
    ),
]
RunUrl = Annotated[
    str | None, Option("--run-url", help="Where people can look; default: this run's page.")
]
Evidence = Annotated[
    Path | None,
    Option("--comparison", metavar="FILE", help="What `duetbench compare -o FILE` wrote."),
]


@contextmanager
def connected(patience: float) -> Iterator[tuple[Context, Repository]]:
    """This step's context, and its repository on GitHub; raises UsageError."""
    context = Context.of(os.environ)
    with closing(Client(context, patience=patience)) as client:
        yield context, Repository(client, context.repository)


def slash_command(
    author: Author = BOT, patience: Patience = DEFAULT_PATIENCE, as_json: JsonOption = False
) -> None:
    """Decide about a comment that may say `/bench COMMIT`, answer it, and start the comparison.

    Runs where a comment was created (`on: issue_comment`). The comparison starts if somebody with
    write permission names the whole commit that is the pull request's head: the commit that they
    have looked at, since its code will run on the measuring machine. A stranger gets no answer, and
    whoever names another commit is told so. Asking again ends the older comparison.

    Needs GITHUB_TOKEN with actions: write and pull-requests: write. Exit code 0: decided, whatever
    it was; 4: GitHub could not be asked or told.
    """
    with connected(patience) as (context, repository):
        if context.event_name != "issue_comment":
            raise UsageError(
                f"GITHUB_EVENT_NAME={context.event_name!r}: expected issue_comment; this verb "
                "answers comments"
            )
        decision = slash.handle(repository, context.event(), context, author)
    sentence = f"{decision.outcome}: {decision.reason}"
    tell([sentence], lambda: asdict(decision), as_json=as_json)
    actions.summary(f"`/bench`: {sentence}")


def comment_command(
    stage: Annotated[
        Literal["queued", "running", "final", "failed", "outdated"],
        Argument(help="What there is to say.", show_default=False),
    ],
    pull: Annotated[int, Option("--pr", min=1, help="Number of the pull request.")],
    head: Annotated[
        str, Option("--head", metavar="SHA", help="The commit it is about, 40 hex digits.")
    ],
    run_url: RunUrl = None,
    comparison: Evidence = None,
    reason: Annotated[
        str, Option("--reason", help="Why it failed, in a sentence (failed only).")
    ] = "",
    explained: Annotated[
        Path | None,
        Option("--why", metavar="FILE", help="What `duetbench why` wrote of it (final only)."),
    ] = None,
    author: Author = BOT,
    patience: Patience = DEFAULT_PATIENCE,
) -> None:
    """Write duetbench's one comment on a pull request, in place of what it said before.

    queued and running are placeholders, and queued is refused where nobody would have to approve
    the comparison; final shows it (it must be of --head); failed says that there is no result, and
    leaves a result or a reason alone that the same run has given already; outdated puts a banner
    above it if the head has moved (--head is its commit now). Every stage looks for that. What an
    overtaken run has to say is dropped.

    The comment is known again by a hidden line and by its author. Needs GITHUB_TOKEN with
    pull-requests: write, and for queued actions: read. Exit code 0: said, or nothing to say; 4:
    queued is refused, there is no comparison that can be shown (the comment says why), or GitHub
    could not be told.
    """
    commit("--head", head)
    if (stage == "final") != (comparison is not None):
        raise UsageError("--comparison FILE goes with final, and with nothing else")
    if explained is not None and stage != "final":
        raise UsageError(f"--why goes with final, and {stage} was given")
    if reason and stage != "failed":
        raise UsageError(f"--reason goes with failed, and {stage} was given")
    with connected(patience) as (context, repository):
        url = _url(run_url, context)
        if stage == "outdated":
            _tell(comments.mark_outdated(repository, pull, author))
            return
        problem: ArtifactError | RecordError | None = None
        told: comments.Stage = stage
        if comparison is not None:
            try:
                words = f"{site_address(None, context)}glossary/"
                found = comparisons.read(comparison, head)
                said = comments.final(found, head, url, words, _lead(found, explained))
            except (ArtifactError, RecordError) as error:
                problem, told, said = error, "failed", comments.failed(head, url, str(error))
        elif stage == "queued":
            # Also a comparison that was started by hand waits for somebody's approval.
            if (why := slash.unguarded(repository)) is not None:
                raise ServiceError(why)
            said = comments.queued(head, url)
        elif stage == "running":
            said = comments.running(head, url)
        else:
            said = comments.failed(head, url, reason)
        note = comments.Note(head, context.run_id, context.attempt, told)
        _tell(comments.publish(repository, pull, note, said, author))
    if stage in {"final", "failed"}:
        actions.summary(said)
    if problem is not None:
        raise problem


def _lead(comparison: Comparison, explained: Path | None) -> comments.Lead | None:
    """What stands below the headline."""
    if explained is None:
        return None
    return comments.explained(comparisons.attribution(explained, comparison))


def status_command(
    sha: Annotated[str, Option("--sha", metavar="SHA", help="The commit, 40 hex digits.")],
    state: Annotated[
        Literal["auto", "pending", "success", "failure", "error"],
        Option("--state", help="auto: as the comparison says."),
    ] = "auto",
    comparison: Evidence = None,
    description: Annotated[
        str, Option("--description", help="A few words; default: what the state means.")
    ] = "",
    run_url: RunUrl = None,
    patience: Patience = DEFAULT_PATIENCE,
) -> None:
    """Set the commit's status `duetbench`.

    With a comparison: failure if something got slower or broke, error if not all was decided,
    success otherwise, each with the report's headline. It is advisory: do not make it a required
    one.

    Needs GITHUB_TOKEN with statuses: write. Exit code 0: set; 4: the comparison cannot be used (the
    status says so), or GitHub could not be told.
    """
    commit("--sha", sha)
    if state == "auto" and comparison is None:
        raise UsageError("--state auto needs --comparison FILE; or say which state")
    with connected(patience) as (context, repository):
        url = _url(run_url, context)
        problem: ArtifactError | RecordError | None = None
        found = "error" if state == "auto" else state
        headline = comments.MEANINGS[found]
        if comparison is not None:
            try:
                found, headline = comments.status(comparisons.read(comparison, sha))
            except (ArtifactError, RecordError) as error:
                problem, found, headline = error, "error", f"no result: {error}"
        if state != "auto" and problem is None:
            found = state
        words = short(description or headline, comments.DESCRIPTION)
        repository.set_status(sha, found, words, url, comments.CONTEXT)
    Console().say(f"{found}: {words}")
    if problem is not None:
        raise problem


def _tell(published: CommentOutcome) -> None:
    note = published.note
    about = f" ({note.stage}{', outdated' * note.outdated})" if note is not None else ""
    Console().say(f"{published.outcome}{about} {published.url}".rstrip())


def _url(given: str | None, context: Context) -> str:
    return context.run_url if given is None else _address("--run-url", given)


def site_address(given: str | None, context: Context) -> str:
    """The site's address with a slash at its end: as `--site` or its variable says, or Pages'."""
    given = given or os.environ.get("DUETBENCH_SITE")
    return _address("--site", given).rstrip("/") + "/" if given else context.pages_url


def _address(option: str, given: str) -> str:
    if not _URL.fullmatch(given):
        raise UsageError(f"{option} {given!r}: expected an address, https://…")
    return given


_MOST: Final = 10
_QUEUED_MINUTES: Final = 60
_NIGHT_HOURS: Final = 36
_ALL_WELL: Final = "nothing waits for a machine, and the nights take place"
_WORDS: Final = {
    "opened": "opened",
    "updated": "updated",
    "closed": "closed",
    "reopened": "opened again",
    "left": "not opened yet: too many at once",
}

DryRun = Annotated[bool, Option("--dry-run", help="Only say what would be done.")]


def announce_command(
    results: ResultsOption = None,
    site: Annotated[
        str | None,
        Option(
            "--site",
            envvar="DUETBENCH_SITE",
            help="Base address of the site; default: the repository's GitHub Pages.",
        ),
    ] = None,
    most: Annotated[
        int, Option("--most", min=1, help="Issues that are opened at once at most.")
    ] = _MOST,
    dry: DryRun = False,
    author: Author = BOT,
    patience: Patience = DEFAULT_PATIENCE,
    as_json: JsonOption = False,
) -> None:
    """Keep one issue per confirmed change: opened, updated and closed by itself, and never twice.

    Reads the change records (results/changes/). An issue is opened for each open one, says more
    when more is known, and closes with its record. Somebody who closes it by hand is not
    contradicted until there is news. The issues themselves are the memory: run it as often as you
    like, also after it was interrupted.

    Needs GITHUB_TOKEN with issues: write. Exit code 0: all as it should be; 1: a record cannot be
    read, or more than --most were new; 4: GitHub could not be told. What is left is done next time.
    """
    problems: list[str] = []
    found = change.files(results or Project.here().results)
    records = files.attempted(found, change.read, problems)
    explained, unread = attribution.every(results or Project.here().results)
    problems += unread
    with connected(patience) as (context, repository):
        wanted = issues.of_changes(records, site_address(site, context), explained.values())
        kept = issues.keep(repository, wanted, author, most=most, dry=dry)
    left = sum(one.done == "left" for one in kept)
    if left:
        problems.append(
            f"{left} changes are not announced yet: more than {most} at once have one cause, most "
            "likely not a package; look at the machine and the method first"
        )
    lines = [
        f"{one.key.partition('/')[2]}: {_WORDS[one.done]} {one.url}".rstrip()
        for one in kept
        if one.done in _WORDS
    ]
    document = {"issues": [asdict(one) for one in kept], "problems": problems}
    tell(lines or ["no news"], lambda: document, as_json=as_json)
    for problem in problems:
        errors().say(f"duetbench: {problem}")
    shown = [f"- {line}" for line in (*lines, *map(text.plain, problems))]
    actions.summary("### Changes\n\n" + ("\n".join(shown) or "No news."))
    if problems:
        raise Exit(1)


def watchdog_command(
    queued_minutes: Annotated[
        int, Option("--queued-minutes", min=1, help="How long a job may wait for a machine.")
    ] = _QUEUED_MINUTES,
    night_hours: Annotated[
        int,
        Option("--night-hours", min=1, help="How long ago the last complete night may have begun."),
    ] = _NIGHT_HOURS,
    dry: DryRun = False,
    author: Author = BOT,
    patience: Patience = DEFAULT_PATIENCE,
    as_json: JsonOption = False,
) -> None:
    """Report what nobody would notice: runs that no machine takes, and nights that do not happen.

    Nights are judged by what the history holds of them; an environment without reviewers, for which
    no comparison is started, is reported, too. The report is one issue, which closes when all is
    well again, and opens again when it is not; a pull request that waits, or whose run ended
    without a word, is told so as well. A night that has only waited for a machine for four hours is
    cancelled, so that what the others have sent is searched and shown, and the next night can
    begin.

    Needs GITHUB_TOKEN with actions, issues, pull-requests and statuses: write, and contents: read.
    Exit code 0: whatever is wrong is reported; 4: GitHub could not be asked or told.
    """
    with connected(patience) as (_, repository):
        found = watchdog.look(
            repository, queued=timedelta(minutes=queued_minutes), night=timedelta(hours=night_hours)
        )
        wanted = watchdog.report(found)
        issues.keep(repository, [wanted], author, most=1, dry=dry)
        ended = []
        if not dry:
            watchdog.tell_pulls(repository, found, author)
            ended = watchdog.end_held_up(repository, found)
    rows = [
        {
            "what": one.what,
            "hint": one.hint,
            "url": one.url or None,
            "since": one.since and one.since.isoformat(),
        }
        for one in found
    ]
    lines = [f"{one.what}: {one.hint}" for one in found]
    lines += [f"cancelled, so that what has come is shown: {run.html_url}" for run in ended]
    tell(lines if found else [*lines, _ALL_WELL], lambda: rows, as_json=as_json)
    actions.summary(wanted.body)
