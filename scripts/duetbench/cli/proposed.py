"""`duetbench ci sides`, `compare` and `report`: pull requests of any repository (`action.yml`)."""

import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import product
from pathlib import Path
from typing import Annotated, Final, Literal

import platformdirs
from pydantic import ValidationError
from typer import Argument, Exit, Option

from duetbench.cli.github import DEFAULT_PATIENCE, Author, Patience, connected
from duetbench.cli.options import budget_option, commit
from duetbench.core import __version__
from duetbench.core.errors import ArtifactError, RecordError, ServiceError, UsageError
from duetbench.github import actions, comments, preface, proposal, upgrades
from duetbench.github.actions import Context
from duetbench.github.incoming import acceptance, comparisons, facts, folder
from duetbench.github.proposal import Proposal
from duetbench.github.repository import Repository
from duetbench.github.upgrades import Upgrade
from duetbench.host import cache, git, paths
from duetbench.host.console import Console, errors
from duetbench.judge.builder import MOVED
from duetbench.project import settings
from duetbench.show.view import UNDECIDED
from duetbench.store import comparison_store, files
from duetbench.store.change import Cause
from duetbench.store.comparison import Comparison

ARTIFACT: Final = "duetbench"
"""Under which a job of `action.yml` uploads what it has found; of a name, with `-NAME`."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")
_NAMES: Final = 10
"""Applications of one run: who uploads artifacts in its name could have as many comments."""

TOLD: Final = "told"
"""The folder of what is uploaded."""

KEPT: Final = "kept"
"""The results folder of what is kept."""

_MAIN: Final = "from duetbench.cli import main; main()"
_OURS: Final = frozenset({git.TOKEN, actions.OUTPUT, actions.SUMMARY, "GITHUB_ENV", "GITHUB_PATH"})
"""What the commands that start others' code do not get."""

_NOT_ALLOWED: Final = 403
_WORDS: Final = re.compile(r"https?://[^\s()<>\[\]\\]{1,500}")
_JUDGED: Final = frozenset({0, 1, UNDECIDED})
_NOTHING: Final = "Nothing to compare with: no commit stands before this one."

BaseOption = Annotated[
    str,
    Option("--base", help="Branch or commit that the head has left; default: as the event says."),
]
NameOption = Annotated[
    str, Option("--name", help="Of several applications of a repository, the one it is about.")
]


def sides_command(
    base: BaseOption = "",
    name: NameOption = "",
    lock: Annotated[
        str,
        Option("--lock", help="The one file whose change makes an upgrade; default: usual names."),
    ] = "",
    github_output: Annotated[
        bool, Option("--github-output", help="Hand them on to the following steps.")
    ] = False,
    patience: Patience = DEFAULT_PATIENCE,
) -> None:
    """Find what a pull request or a push is to be compared with, and fetch what is missing.

    A pull request's head is compared with the commit where it left its base, a push with what was
    there before it, anything else with where it left the default branch. Tells also whether nothing
    but locks differs, under which name set-up can be cached, and under which the result is
    uploaded. Run it in a folder of the checkout; needs GITHUB_TOKEN with contents: read.
    """
    root = Path.cwd()
    artifact = _artifact(name)
    with connected(patience) as (context, repository):
        sha = os.environ.get("GITHUB_SHA") or git.ask(root, "rev-parse", "HEAD")
        found = proposal.of_event(context.event_name, context.event(), sha, repository, base)
    values = {"base": found.base or "", "head": found.head, "artifact": artifact}
    if found.base is None:
        actions.summary(_NOTHING)
    else:
        _bring(root, (found.base, found.head))
        # Without a lock of its own in view, a file that is named is below this folder.
        place = git.ask(root, "rev-parse", "--show-prefix") + lock if lock else ""
        upgrade = upgrades.is_upgrade(root, found.base, found.head, place)
        restore, whole = _keys(root, found.base, found.head)
        values |= {"upgrade": "true" if upgrade else "", "cache": _cached()}
        values |= {"key": whole, "restore-key": restore}
    for key, value in values.items():
        Console().say(f"{key}: {value.replace(chr(10), ', ') or 'none'}")
    if github_output:
        actions.outputs(values)


def _bring(root: Path, commits: tuple[str, ...]) -> None:
    """Fetch the commits that are not there; raises GitError or HopelessError."""
    missing = [
        one
        for one in dict.fromkeys(commits)
        if git.ask_or_none(root, "cat-file", "-e", f"{one}^{{commit}}") is None
    ]
    if not missing:
        return
    address = git.ask(root, "remote", "get-url", "origin")
    # Where the checkout has left its token, git sends it anyway, and GitHub refuses two.
    persisted = git.ask_or_none(root, "config", "--get-urlmatch", "http.extraheader", address)
    environment = {} if persisted else git.credentials(address, os.environ)
    shallow = git.ask(root, "rev-parse", "--is-shallow-repository") == "true"
    depth = ["--depth=1"] if shallow else []
    git.ask(root, "fetch", "--quiet", "--no-tags", *depth, "origin", *missing, env=environment)


def _cached() -> str:
    """The folders of all that set-up makes: ours, and that of uv's interpreters; one per line."""
    pythons = os.environ.get("UV_PYTHON_INSTALL_DIR")
    return f"{paths.cache_dir()}\n{pythons or platformdirs.user_data_path('uv') / 'python'}"


def _keys(root: Path, base: str, head: str) -> tuple[str, str]:
    """Names of a cache: as far as it depends on duetbench alone, and with both sides' packages."""
    python = ".".join(map(str, sys.version_info[:2]))
    pins = cache.digest(__version__, repr(settings.load(paths.OWN)))
    start = f"duetbench-{platform.system()}-{platform.machine()}-py{python}-{pins}-"
    locks = {pair for side in (base, head) for pair in upgrades.required(root, side)}
    return start, start + cache.digest(*(f"{path} {blob}" for path, blob in sorted(locks)))


def compare_command(
    base: Annotated[str, Argument(help="The commit to compare with, 40 hex digits.")],
    head: Annotated[str, Argument(help="The commit to judge.")],
    to: Annotated[Path, Option("--to", help="Folder for what is found.")],
    app: Annotated[str, Option("--app", help="As of `duetbench compare`; empty: none.")] = "",
    paths_: Annotated[str, Option("--paths", help="Its --path, one per line.")] = "",
    requests: Annotated[str, Option("--requests", help="Its --request, one per line.")] = "",
    select: Annotated[str, Option("--select", help="As of `duetbench compare`.")] = "",
    budget: Annotated[str, budget_option("Time for the comparison, and for the search")] = "",
    env_file: Annotated[str, Option("--env-file", help="As of `duetbench compare`.")] = "",
    python: Annotated[str, Option("--python", help="The interpreter of both sides.")] = "",
    args: Annotated[str, Option("--args", help="More that says what is measured.")] = "",
    upgrade: Annotated[str, Option("--upgrade", help="Not empty: search for the release.")] = "",
    keep: Annotated[str, Option("--keep", help="Not empty: launch head alone, too.")] = "",
    fail_on: Annotated[
        Literal["never", "slower"], Option("--fail-on", help="What gives exit code 1.")
    ] = "never",
) -> None:
    """Compare both sides of a pull request with each other, as an action does; empty means default.

    Writes the comparison below --to, where anything moved also which code it is, and on an upgrade
    branch which release did it, if several came. The job's summary says all of it. The commands
    that start the application get none of the job's tokens.

    Exit code 0: compared, whatever was found; 1: with --fail-on slower, something got slower or
    broke; others as of `duetbench compare`, where nothing could be measured.
    """
    target = _target(app, paths_, requests, env_file, python, args)
    limit, chosen = ["--budget", budget] if budget else [], ["--select", select] if select else []
    for name in (TOLD, KEPT):
        shutil.rmtree(to / name, ignore_errors=True)
        (to / name).mkdir(parents=True)
    file = to / TOLD / acceptance.COMPARISON
    sides = commit("BASE", base), commit("HEAD", head)
    which = ["--output", str(file), "--why", str(to / TOLD / acceptance.WHY)]
    code = _call("compare", *sides, *target, *chosen, *limit, *which).returncode
    if code not in _JUDGED or not file.is_file():
        raise Exit(code)
    found = files.read(Comparison, file)
    about = _searched(found, file, [*target, *limit]) if upgrade else None
    if about is not None:
        files.write(to / TOLD / acceptance.UPGRADE, about)
    code_ = to / TOLD / acceptance.WHY
    explained = comparisons.attribution(code_, found) if code_.is_file() else None
    lead = partial(preface.preface, upgrade=about, explained=explained)
    actions.summary(comments.report(found, lead))
    if keep:
        files.write(to / KEPT / comparison_store.FOLDER / f"{found.id}.json", found)
        # Without a valid launch there is no point in the trend; the comparison stands all the same.
        _call("run", *target, *chosen, "--results", str(to / KEPT))
    if code == 1 and fail_on == "slower":
        raise Exit(code)


def _target(
    app: str, paths_: str, requests: str, env_file: str, python: str, args: str
) -> list[str]:
    """The options that say what is measured; raises UsageError."""
    given = {"--app": app, "--path": paths_, "--request": requests, "--env-file": env_file}
    given["--python"] = python
    words = [
        word
        for option, text in given.items()
        for line in filter(None, map(str.strip, text.splitlines()))
        for word in (option, line)
    ]
    try:
        return [*words, *shlex.split(args)]
    except ValueError as error:
        raise UsageError(f"--args {args!r}: expected words as for a shell: {error}") from error


def _searched(found: Comparison, file: Path, options: list[str]) -> Upgrade:
    """What moved an application whose packages differ; a single one needs no search."""
    moved = any(one.verdict in MOVED for case in found.cases for one in case.judgements)
    if not moved or len({one.package for one in found.packages}) < 2:
        return Upgrade()
    done = _call("bisect", str(file), "--json", *options, said=subprocess.PIPE)
    try:
        said = json.loads(done.stdout)
        cause = {name: said[name] for name in Cause.model_fields}
        return Upgrade(cause=Cause.model_validate_json(json.dumps(cause)))
    except (ValueError, TypeError, KeyError, ValidationError):
        return Upgrade(note="the search for it failed; the log of the job says why")


def _call(*words: str, said: int | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run another verb, without what is this job's alone."""
    # What it prints comes after what was printed here.
    sys.stdout.flush()
    environment = {name: value for name, value in os.environ.items() if name not in _OURS}
    # The folder is the repository's, whose modules are none of ours.
    argv = [sys.executable, "-P", "-c", _MAIN, *words]
    return subprocess.run(argv, env=environment, stdout=said, check=False)


def report_command(
    source: Annotated[
        Path | None,
        Option("--from", help="What `ci compare` has told, in its own job; default: fetched."),
    ] = None,
    base: BaseOption = "",
    words: Annotated[str, Option("--words", help="Address of the glossary.")] = "",
    name: NameOption = "",
    author: Author = actions.BOT,
    patience: Patience = DEFAULT_PATIENCE,
) -> None:
    """Comment on a pull request, in place of what was said before, with what was found.

    An application with a name has a comment of its own.

    In the job that has compared (--from), if its token may: not on a fork's pull request. Or in a
    workflow that runs when that one has ended (`on: workflow_run`): then the artifacts are fetched,
    and the pull requests are those that GitHub knows of the measured commit. Either way it is
    foreign data, and shown only if it is the comparison of that commit with where it left its base.

    Needs GITHUB_TOKEN with pull-requests: write, contents: read, and to fetch, actions: read. Exit
    code 0: said, or nothing to say; 4: it cannot be shown, or GitHub could not be asked or told.
    """
    _artifact(name)
    link = words if _WORDS.fullmatch(words) and "//" not in words.partition("://")[2] else ""
    with connected(patience) as (context, repository):
        event = context.event()
        if source is None:
            run = proposal.measured_by(event)
            ended = replace(context, run_id=run.id, attempt=run.run_attempt)
            with tempfile.TemporaryDirectory(prefix="duetbench-report-") as place:
                fetched, refused = folder.fetch(repository, run.id, f"{ARTIFACT}*", Path(place))
                ours = {one: about for one in fetched if (about := _named(one)) is not None}
                if len(ours) > _NAMES:
                    raise ArtifactError(f"run {run.id}: expected at most {_NAMES} comparisons")
                asked = proposal.of_run(run, repository, base) if ours else ()
                problems = [f"artifact {one.artifact}: {one.reason}" for one in refused]
                for one, (artifact, which) in product(asked, sorted(ours.items())):
                    try:
                        _publish(
                            ended, repository, one, Path(place) / artifact, link, author, which
                        )
                    except (ArtifactError, RecordError) as error:
                        problems.append(f"artifact '{artifact}': {error}")
            if problems:
                raise ArtifactError("; ".join(problems))
            if not asked:
                Console().say("nothing to say: no open pull request, or no comparison of it")
            return
        if proposal.is_foreign(event, context.repository):
            Console().say("not said here: the token of a fork's pull request may not comment")
            return
        found = proposal.of_event(context.event_name, event, proposal.NOBODY, repository, base)
        if not (source / acceptance.COMPARISON).exists():
            Console().say("nothing to say: there is no comparison")
            return
        try:
            _publish(context, repository, found, source, link, author, name)
        except ServiceError as error:
            if error.status != _NOT_ALLOWED:
                raise
            # Also a bot's own pull requests have such a token.
            errors().say(f"not said here: the token may not comment ({error})")


def _artifact(name: str) -> str:
    """Under which an application's comparison is uploaded; raises UsageError."""
    if name and not _NAME.fullmatch(name):
        raise UsageError(f"--name {name!r}: expected letters, digits and '._-', 60 at most")
    return f"{ARTIFACT}-{name}" if name else ARTIFACT


def _named(artifact: str) -> str | None:
    """The application that an artifact is about; None: it is none of ours."""
    name = artifact.removeprefix(f"{ARTIFACT}-")
    if artifact == ARTIFACT:
        return ""
    return name if name != artifact and _NAME.fullmatch(name) else None


def _publish(
    context: Context,
    repository: Repository,
    asked: Proposal,
    told: Path,
    link: str,
    author: str,
    name: str,
) -> None:
    """Check and say it; raises ArtifactError, RecordError or ServiceError."""
    if asked.pull is None or asked.base is None:
        return
    now = datetime.now(UTC)
    tools = facts.of_tools()
    found, about, why = acceptance.proposed(told, asked.base, asked.head, tools, now)
    if repository.pull(asked.pull).head.sha != asked.head:
        Console().say("superseded: the head has moved, and its own run will say more")
        return
    lead = partial(preface.preface, upgrade=about, explained=why)
    title = f"### duetbench: {name}\n\n" if name else ""
    said = title + comments.final(found, asked.head, context.run_url, link, lead)
    note = comments.Note(asked.head, context.run_id, context.attempt, "final", name=name)
    done = comments.publish(repository, asked.pull, note, said, author)
    Console().say(f"{done.outcome} {done.url}".rstrip())
