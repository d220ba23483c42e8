"""`servebench ci announce` and `ci watchdog`: what the nights have to tell, as issues."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import Annotated, Final

from typer import Exit, Option

from servebench.automation.github import actions, issues, text, watchdog
from servebench.automation.github.actions import BOT
from servebench.cli.github import (
    DEFAULT_PATIENCE,
    Author,
    Patience,
    SiteOption,
    connected,
    site_address,
)
from servebench.cli.options import JsonOption, ResultsOption, tell
from servebench.core.errors import RecordError
from servebench.host import paths
from servebench.host.console import errors
from servebench.record import change
from servebench.record.change import ChangeRecord

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
    site: SiteOption = None,
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
    records: list[ChangeRecord] = []
    problems: list[str] = []
    for path in change.files(results or paths.results_dir()):
        try:
            records.append(change.read(path))
        except RecordError as error:
            problems.append(str(error))
    with connected(patience) as (context, repository):
        wanted = issues.of_changes(records, site_address(site, context))
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
        errors().say(f"servebench: {problem}")
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
