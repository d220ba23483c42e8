"""`duetbench ci sides`, `compare` and `report`: compare a pull request, and comment on it."""

import os
import shlex
import shutil
import tempfile
from pathlib import Path
from typing import Annotated, Any, Final

from cyclopts import Parameter

from duetbench.ci import actions, archives, comments, proposals
from duetbench.ci.api import TOKEN, GitHub
from duetbench.cli import app as every_command
from duetbench.cli.compare import default_tests
from duetbench.core.change import Cause
from duetbench.core.comparison import Comparison
from duetbench.core.errors import ArtifactError, UsageError
from duetbench.host import files, git, result_files
from duetbench.host.console import SUMMARY, Console, errors, write_summary
from duetbench.report.report import check_line

ARTIFACT: Final = "duetbench"
"""Artifact that a job of `action.yml` uploads."""

_SECRET: Final = {TOKEN, actions.OUTPUT, SUMMARY, "GITHUB_ENV", "GITHUB_PATH"}
"""Variables that are kept from untrusted code."""


def sides_command() -> None:
    """Find what to compare a pull request or a push with, and fetch missing commits.

    $ duetbench ci sides

    A pull request's head is compared with the commit where it left its base, a push with the commit
    before it, anything else with the commit where it left the default branch. Also reports the
    folder for the result. Run it in a folder of the checkout; needs GITHUB_TOKEN with contents:
    read.
    """
    root, name = Path.cwd(), os.environ.get("GITHUB_EVENT_NAME", "")
    sha = os.environ.get("GITHUB_SHA") or git.ask(root, "rev-parse", "HEAD")
    with GitHub(os.environ) as github:
        before, head = actions.sides(name, github.event(), sha, github)
    to = Path(os.environ.get("RUNNER_TEMP") or tempfile.gettempdir(), ARTIFACT)
    if before is None:
        write_summary("Nothing to compare with: there is no commit before this one.")
    else:
        actions.fetch(root, (before, head))
    values = {"base": before or "", "head": head, "to": str(to)}
    for key, value in values.items():
        Console().say(f"{key}: {value or 'none'}")
    actions.outputs(values)


def compare_command(
    base: str, head: str, /, *, to: Annotated[Path, Parameter(metavar="FOLDER")]
) -> int:
    """Compare both sides of a pull request, with the inputs of the action.

    $ INPUT_APP=shop.main:app INPUT_PATH=/items/7 duetbench ci compare BASE HEAD --to found

    Writes the comparison below --to. If a figure moved, it adds the functions behind the change. If
    only releases differ, it adds the one behind it. The job's summary shows all of it. The commands
    that start the application get none of the job's tokens.

    INPUT_APP, INPUT_PATH, INPUT_TESTS, INPUT_BUDGET, INPUT_ARGS and INPUT_FAIL_ON are what
    `action.yml` says of them. Exit code 0: compared, whatever the result; 1: it is worse, and
    INPUT_FAIL_ON is slower; others as of `duetbench compare`, if nothing could be measured.

    Args:
        base: The commit to compare with, 40 hex digits.
        head: The commit to judge.
        to: Folder for the results.
    """
    fail_on = os.environ.get("INPUT_FAIL_ON") or "never"
    if fail_on not in {"never", "slower"}:
        raise UsageError(f"fail-on {fail_on!r}: expected never or slower")
    target = [*_lines("--app", "APP"), *_lines("--path", "PATH")]
    try:
        target += shlex.split(args := os.environ.get("INPUT_ARGS", ""))
    except ValueError as error:
        raise UsageError(f"args {args!r}: expected words as for a shell: {error}") from error
    target += _lines("--tests", "TESTS")
    named = {word.partition("=")[0] for word in target}
    asked = named & {"--app", "--path", "--request", "--tests", "--call"}
    if not asked and (tests := default_tests(Path.cwd())):
        target += [word for path in tests for word in ("--tests", path)]
        named.add("--tests")
    loads = not {"--tests", "--call"} & named  # what only observes has no time, and no --why
    target += _lines("--budget", "BUDGET") if loads else []
    report = to / "report"  # which action.yml uploads, and `ci report` reads
    shutil.rmtree(report, ignore_errors=True)
    report.mkdir(parents=True)
    file = report / proposals.COMPARISON
    why = ("--why",) if loads else ()
    code = _call("compare", base, head, *target, "-o", str(file), *why)
    comparison = result_files.read(Comparison, file)
    cause = _search(comparison, file, target)
    if cause:
        files.write(report / proposals.CAUSE, cause)
    write_summary(f"{check_line(code)}\n\n{comments.report(comparison, cause)}")
    prefix = git.ask(Path.cwd(), "rev-parse", "--show-prefix")
    for level, text, file_name, line in comments.annotations(comparison):
        actions.annotate(level, text, f"{prefix}{file_name}", line)
    return 1 if code == 1 and fail_on != "never" else 0


def _lines(option: str, name: str) -> list[str]:
    """Give an option once for each line of an input."""
    lines = map(str.strip, os.environ.get(f"INPUT_{name}", "").splitlines())
    return [word for line in lines if line for word in (option, line)]


def _search(comparison: Comparison, file: Path, options: list[str]) -> Cause | None:
    """Find the package that moved an application whose code is the same, if it has several."""
    moved, code = any(f.moved for f in comparison.findings), comparison.coverage
    several = len({change.package for change in comparison.packages}) > 1
    if not (moved and several) or (code and (code.differ or code.outside)):
        return None
    try:
        cause: Cause = _call("bisect", str(file), *options)
    except Exception as error:  # of any kind: the comparison is there without it
        errors().say(f"duetbench: the search for the release: {error}")
        return None
    return cause


def _call(*words: str) -> Any:
    """Run another command, of which no process gets this job's own variables.

    Returns its exit code, or else what it finds; raises as that command.
    """
    variables = {name: os.environ.pop(name) for name in _SECRET & os.environ.keys()}
    try:
        return every_command(words)
    finally:
        os.environ.update(variables)


def report_command(*, words: Annotated[str, Parameter(metavar="URL")] = "") -> None:
    """Comment on a pull request with the results, in place of the comment before.

    $ duetbench ci report

    For a workflow that runs after the one that compared (`on: workflow_run`). The artifacts are
    fetched, and GitHub names the pull requests of the measured commit. The data is untrusted, and
    is shown only if it compares that commit with the one where it left its base.

    Needs GITHUB_TOKEN with pull-requests: write, contents: read and actions: read. Exit code 0:
    commented, or nothing to say; 4: the result cannot be shown, or GitHub was not reached.

    Args:
        words: Address of the glossary.
    """
    if "//" in words.partition("://")[2]:
        words = ""  # of an action of the repository itself, which GitHub does not name
    with GitHub(os.environ) as github:
        run = github.event()["workflow_run"]
        sent, refused = archives.fetch(github, run["id"], ARTIFACT)
        if refused:
            raise ArtifactError("; ".join(f"artifact {each}: {refused[each]}" for each in refused))
        pulls = actions.measured_pulls(github, run) if sent else []
        for number, before, head in pulls:
            text = proposals.proposal(sent[ARTIFACT], before, head)
            body = comments.sign(text, head, github.run_url(run["id"]), words)
            # Each application has a workflow, and a comment.
            kind = f"{comments.KIND}-{run['workflow_id']}"
            Console().say(comments.publish(github, number, kind, body))
            write_summary(body)
    if not pulls:
        Console().say("nothing to say: no open pull request, or no comparison of it")
