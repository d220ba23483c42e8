"""`duetbench ci slash` and `announce`: answers to requests, and one issue per change."""

import os
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from typing import Annotated, Final

from typer import Exit, Option

from duetbench.cli.options import JsonOption, ResultsOption, tell
from duetbench.core.errors import UsageError
from duetbench.github import actions, issues, slash, text
from duetbench.github.actions import Context
from duetbench.github.api import GitHub
from duetbench.host.console import errors
from duetbench.project.project import Project
from duetbench.store import attribution, change

URL: Final = re.compile(r"https?://[^\s()<>\[\]\\]{1,500}")
_MOST: Final = 10
_WORDS: Final = {
    "opened": "opened",
    "updated": "updated",
    "closed": "closed",
    "reopened": "opened again",
    "left": "not opened yet: too many at once",
}


@contextmanager
def connected() -> Iterator[tuple[Context, GitHub]]:
    """This step's context, and its repository on GitHub; raises UsageError."""
    context = Context.of(os.environ)
    with closing(GitHub(context)) as github:
        yield context, github


def site_address(option: str | None, context: Context) -> str:
    """The site's address with a slash at its end: as `--site` or its variable says, or Pages'."""
    address = option or os.environ.get("DUETBENCH_SITE") or context.pages_url
    if not URL.fullmatch(address):
        raise UsageError(f"--site {address!r}: expected an address, https://…")
    return address.rstrip("/") + "/"


def slash_command(as_json: JsonOption = False) -> None:
    """Decide about a comment that may say `/bench COMMIT`, answer it, and start the comparison.

    Runs where a comment was created (`on: issue_comment`). The comparison starts if somebody with
    write permission names the whole commit that is the pull request's head: the commit that they
    have looked at, since its code will run on the measuring machine. A stranger gets no answer, and
    the answer to another commit says so. Asking again ends the older comparison.

    Needs GITHUB_TOKEN with actions: write and pull-requests: write. Exit code 0: decided, whatever
    it was; 4: GitHub could not be asked or told.
    """
    with connected() as (context, github):
        if context.event_name != "issue_comment":
            raise UsageError(
                f"GITHUB_EVENT_NAME={context.event_name!r}: expected issue_comment; this verb "
                "answers comments"
            )
        decision = slash.handle(github, context.event(), context)
    sentence = f"{decision.outcome}: {decision.reason}"
    tell([sentence], lambda: asdict(decision), as_json=as_json)
    actions.summary(f"`/bench`: {sentence}")


def announce_command(
    results: ResultsOption = None,
    site: Annotated[
        str | None,
        Option("--site", help="Base address of the site; default: the repository's GitHub Pages."),
    ] = None,
    most: Annotated[
        int, Option("--most", min=1, help="Issues that are opened at once at most.")
    ] = _MOST,
    dry: Annotated[bool, Option("--dry-run", help="Only say what would be done.")] = False,
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
    folder = results or Project.here().results
    records = [entry for entry in change.read_all(folder, problems) if entry.confirmed]
    explained, unread = attribution.every(folder)
    problems += unread
    with connected() as (context, github):
        wanted = issues.of_changes(records, site_address(site, context), explained.values())
        outcomes = issues.keep(github, wanted, most=most, dry=dry)
    left = sum(entry.action == "left" for entry in outcomes)
    if left:
        problems.append(
            f"{left} changes are not announced yet: more than {most} at once have one cause, most "
            "likely not a package; look at the machine and the method first"
        )
    lines = [
        f"{entry.key.partition('/')[2]}: {_WORDS[entry.action]} {entry.url}".rstrip()
        for entry in outcomes
        if entry.action in _WORDS
    ]
    document = {"issues": [asdict(entry) for entry in outcomes], "problems": problems}
    tell(lines or ["no news"], lambda: document, as_json=as_json)
    for problem in problems:
        errors().say(f"duetbench: {problem}")
    listed = [f"- {line}" for line in (*lines, *map(text.plain, problems))]
    actions.summary("### Changes\n\n" + ("\n".join(listed) or "No news."))
    if problems:
        raise Exit(1)
