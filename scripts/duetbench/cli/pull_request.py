"""`duetbench ci sides`, `compare` and `report`: compare a pull request, and comment on it."""

import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from typer import Argument, Exit, Option

from duetbench.ci import actions, archives, comments, event, proposals
from duetbench.ci.actions import Context
from duetbench.ci.api import GitHub
from duetbench.ci.event import Pull
from duetbench.ci.proposals import Check
from duetbench.cli import app as every_command
from duetbench.cli.options import budget_option, commit
from duetbench.core.comparison import Comparison
from duetbench.core.errors import ArtifactError, RecordError, UsageError
from duetbench.host import files, git, proc
from duetbench.host.console import SUMMARY, Console, errors, write_summary
from duetbench.report.report import make_report

ARTIFACT: Final = "duetbench"
"""Artifact that a job of `action.yml` uploads; a named application adds `-NAME`."""

_ARTIFACT: Final = re.compile(rf"{ARTIFACT}(?:-([A-Za-z0-9][A-Za-z0-9._-]{{0,59}}))?")
_NAMES: Final = 10
"""Most applications of one run: whoever uploads artifacts could get a comment for each."""

_SECRET: Final = {git.TOKEN, actions.OUTPUT, SUMMARY, "GITHUB_ENV", "GITHUB_PATH"}
"""Variables that are kept from untrusted code."""

BaseOption = Annotated[
    str,
    Option(
        "--base",
        metavar="REVISION",
        help="Branch or commit that the head left; default: from the event.",
    ),
]


def sides_command(
    base: BaseOption = "",
    name: Annotated[
        str, Option("--name", metavar="NAME", help="The application's name, if there are several.")
    ] = "",
    lock: Annotated[
        str,
        Option(
            "--lock",
            metavar="FILE",
            help="The only file that an upgrade changes; default: usual names.",
        ),
    ] = "",
) -> None:
    """Find what to compare a pull request or a push with, and fetch missing commits.

    $ duetbench ci sides --base main

    A pull request's head is compared with the commit where it left its base, a push with the commit
    before it, anything else with the commit where it left the default branch. Also reports whether
    only locks differ, and the folder and name of the result's upload. Run it in a folder of the
    checkout; needs GITHUB_TOKEN with contents: read.
    """
    root = Path.cwd()
    artifact = f"{ARTIFACT}-{name}" if name else ARTIFACT
    if not _ARTIFACT.fullmatch(artifact):
        raise UsageError(f"--name {name!r}: expected letters, digits and '._-', 60 at most")
    context = Context.of(os.environ)
    sha = os.environ.get("GITHUB_SHA") or git.ask(root, "rev-parse", "HEAD")
    with GitHub(context) as github:
        before, head = event.sides(context.event_name, context.event(), sha, github, base)
    to = Path(os.environ.get("RUNNER_TEMP") or tempfile.gettempdir(), artifact)
    upgrade = False
    if before is None:
        write_summary("Nothing to compare with: there is no commit before this one.")
    else:
        _fetch(root, (before, head))
        # A named lock is below this folder.
        place = git.ask(root, "rev-parse", "--show-prefix") + lock if lock else ""
        upgrade = event.is_upgrade(root, before, head, place)
    values = {"base": before or "", "head": head, "artifact": artifact, "to": str(to)}
    values["upgrade"] = "true" if upgrade else ""
    for key, value in values.items():
        Console().say(f"{key}: {value or 'none'}")
    actions.outputs(values)


def _fetch(root: Path, commits: tuple[str, ...]) -> None:
    """Fetch the commits that are missing; raises HistoryError."""
    missing = [
        commit
        for commit in dict.fromkeys(commits)
        if git.ask_or_none(root, "cat-file", "-e", f"{commit}^{{commit}}") is None
    ]
    if not missing:
        return
    address = git.ask(root, "remote", "get-url", "origin")
    # If the checkout has stored its token, git sends it anyway, and GitHub refuses two.
    persisted = git.ask_or_none(root, "config", "--get-urlmatch", "http.extraheader", address)
    environment = {} if persisted else git.credentials(address, os.environ)
    shallow = git.ask(root, "rev-parse", "--is-shallow-repository") == "true"
    depth = ["--depth=1"] if shallow else []
    git.ask(root, "fetch", "--quiet", "--no-tags", *depth, "origin", *missing, env=environment)


def compare_command(
    base: Annotated[str, Argument(help="The commit to compare with, 40 hex digits.")],
    head: Annotated[str, Argument(help="The commit to judge.")],
    to: Annotated[Path, Option("--to", metavar="FOLDER", help="Folder for the results.")],
    app: Annotated[
        str,
        Option("--app", metavar="MODULE:ATTRIBUTE", help="As in `duetbench compare`; empty: none."),
    ] = "",
    paths_: Annotated[
        str, Option("--paths", metavar="LINES", help="Its --path, one per line.")
    ] = "",
    requests: Annotated[
        str, Option("--requests", metavar="LINES", help="Its --request, one per line.")
    ] = "",
    budget: Annotated[str, budget_option("Time for the comparison, and for the search")] = "",
    only: Annotated[
        Literal["", "effects", "counts"], Option("--only", help="As in `duetbench compare`.")
    ] = "",
    limits: Annotated[
        str, Option("--limits", metavar="LINES", help="Its --limit, one per line.")
    ] = "",
    args: Annotated[
        str, Option("--args", metavar="WORDS", help="More options of `duetbench compare`.")
    ] = "",
    upgrade: Annotated[
        str, Option("--upgrade", metavar="TEXT", help="Not empty: search for the release.")
    ] = "",
    fail_on: Annotated[
        Literal["never", "slower"],
        Option("--fail-on", help="slower: exit code 1 if anything got worse."),
    ] = "never",
) -> None:
    """Compare both sides of a pull request, as an action does; an empty option means its default.

    $ duetbench ci compare BASE HEAD --to found --app shop.main:app --paths /items/7

    Writes the comparison below --to. If a figure moved, it adds the functions behind the change. On
    an upgrade branch with several releases, it adds the release behind it. The job's summary shows
    all of it. The commands that start the application get none of the job's tokens.

    Exit code 0: compared, whatever the result; 1: with --fail-on slower, what `duetbench compare`
    calls worse; others as of that command, if nothing could be measured.
    """
    try:
        options = [
            *_lines({"--app": app, "--path": paths_, "--request": requests}),
            *shlex.split(args),
            *_lines({"--budget": budget}),
        ]
    except ValueError as error:
        raise UsageError(f"--args {args!r}: expected words as for a shell: {error}") from error
    # `ci report` reads the report; the results folder keeps files; action.yml uploads both.
    report, results = to / "report", to / "results"
    for place in (report, results):
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
    file = report / proposals.COMPARISON
    sides = commit("BASE", base), commit("HEAD", head)
    output = ("-o", str(file), "--why")
    which = _lines({"--only": only, "--limit": limits})
    code = _call("compare", *sides, *options, *output, *which) or 0
    comparison = files.read(Comparison, file)
    searched = _search(comparison, file, options) if upgrade else {}
    check = Check(exit_code=code, fail_on=fail_on, upgrade=bool(upgrade), **searched)
    files.write(report / proposals.CHECK, check)
    write_summary(comments.report(comparison, check))
    prefix = git.ask(Path.cwd(), "rev-parse", "--show-prefix")
    for level, text, file_name, line in comments.annotations(comparison):
        actions.annotate(level, text, f"{prefix}{file_name}", line)
    files.save(results, comparison)
    if code == 1 and fail_on != "never":
        raise Exit(code)


def _lines(options: Mapping[str, str]) -> list[str]:
    """Give each option once for each of its lines."""
    return [
        word
        for option, text in options.items()
        for line in filter(None, map(str.strip, text.splitlines()))
        for word in (option, line)
    ]


def _search(comparison: Comparison, file: Path, options: list[str]) -> dict[str, Any]:
    """Search for the package that moved an application; a single one needs no search."""
    moved = any(finding.moved for finding in comparison.findings)
    if not moved or len({change.package for change in comparison.packages}) < 2:
        return {}
    try:
        return {"cause": _call("bisect", str(file), *options)}
    except Exception as error:  # of any kind: the comparison is there without it
        errors().say(f"duetbench: the search for the release: {error}")
        return {"note": "the search for it failed; the job's log has the reason"}


def _call(*words: str) -> Any:
    """Run another command, of which no process gets this job's own variables.

    Returns its exit code if it ends with one, or else what it returns; raises as that command.
    """
    kept = {name: os.environ.pop(name) for name in _SECRET & os.environ.keys()}
    try:
        return every_command(words, standalone_mode=False)
    finally:
        os.environ.update(kept)


def report_command(
    source: Annotated[
        Path | None,
        Option("--from", metavar="FOLDER", help="The artifact's folder; default: fetched."),
    ] = None,
    pull: Annotated[
        int | None, Option("--pr", metavar="N", min=1, help="Number of the pull request.")
    ] = None,
    head: Annotated[
        str | None, Option("--head", metavar="COMMIT", help="The commit that was compared.")
    ] = None,
    base: BaseOption = "",
    words: Annotated[str, Option("--words", metavar="URL", help="Address of the glossary.")] = "",
    only_if_changed: Annotated[
        bool, Option("--only-if-changed", help="Begin no comment if nothing changed.")
    ] = False,
) -> None:
    """Comment on a pull request with the results, in place of the comment before.

    $ duetbench ci report --pr 12 --base BASE --head HEAD --from incoming

    Use --from, --pr, --base and --head in a later job of the workflow that compared. If there is no
    result to show, the comment says so. Use none of them in a workflow that runs after that one
    (`on: workflow_run`). Then the artifacts are fetched, and GitHub names the pull requests of the
    measured commit. The data is untrusted, and is shown only if it compares that commit with the
    one where it left its base. A named application has its own comment.

    If DUETBENCH_WEBHOOK is an address, it gets the verdict and a link as JSON, for those who read
    elsewhere.

    Needs GITHUB_TOKEN with pull-requests: write, contents: read, and to fetch, actions: read. Exit
    code 0: commented, or nothing to say; 4: the result cannot be shown, or GitHub was not reached.
    """
    if (source is None, pull is None, head is None).count(True) not in {0, 3}:
        raise UsageError("expected --from, --pr, --base and --head together, or none of them")
    problems: list[str] = []
    with GitHub(Context.of(os.environ)) as github, proc.scratch() as place:
        context = github.context
        if source is not None and pull is not None and head is not None:
            pulls = [Pull(pull, commit("--base", base), commit("--head", head))]
            url, words, folders = context.run_url, f"{context.site_url}docs/glossary/", {"": source}
        else:
            run = event.field(context.event(), "workflow_run")
            url = f"{context.run_url.rpartition('/')[0]}/{run['id']}"
            if not actions.URL.fullmatch(words) or "//" in words.partition("://")[2]:
                words = ""
            folders, problems = _fetch_results(github, run["id"], place)
            pulls = event.measured_pulls(github, run, base) if folders else []
        for asked, (name, folder) in product(pulls, folders.items()):
            answer, title = None, f"### duetbench: {name}\n\n" if name else ""
            try:
                comparison, check = proposals.proposal(folder, asked.base, asked.head)
                text = comments.report(comparison, check)
                answer = make_report(comparison)
                body = title + comments.sign(text, asked.head, url, words)
            except (ArtifactError, RecordError) as error:
                problems.append(f"artifact '{folder.name}': {error}")
                if source is None:
                    continue
                body = comments.failed(asked.head, url, str(error))
            begin = not only_if_changed or answer is None or answer.news
            done, link = comments.publish(
                github, asked.number, comments.KIND, body, name, begin=begin
            )
            Console().say(f"{done} {link}".rstrip())
            write_summary(body)
            address = os.environ.get(comments.WEBHOOK)
            if address and answer is not None:
                facts = (context.repository, asked.number, answer.headline, link or context.run_url)
                if problem := comments.notify(address, *facts):
                    errors().say(f"note: {comments.WEBHOOK}: {problem}")
    if problems:
        raise ArtifactError("; ".join(problems))
    if not pulls:
        Console().say("nothing to say: no open pull request, or no comparison of it")


def _fetch_results(github: GitHub, run: int, place: Path) -> tuple[dict[str, Path], list[str]]:
    """Fetch what a run has compared: folders by the applications' names, and what was refused."""
    fetched, refused = archives.fetch(github, run, f"{ARTIFACT}*", place)
    matches = filter(None, map(_ARTIFACT.fullmatch, sorted(fetched)))
    folders = {match[1] or "": place / match[0] for match in matches}
    if len(folders) > _NAMES:
        raise ArtifactError(f"run {run}: expected at most {_NAMES} comparisons")
    return folders, [f"artifact {entry}: {reason}" for entry, reason in refused.items()]
