"""What workflows call: for artifacts, the sandbox, and answers to requests."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from duetbench.app import stacks
from duetbench.ci import archives, comments, proposals
from duetbench.ci.api import GitHub
from duetbench.core.comparison import Comparison
from duetbench.core.errors import ArtifactError
from duetbench.core.model import Run, StackRecord
from duetbench.host import files, git, paths, result_files
from duetbench.host.console import Console, write_summary
from observatory.cli.options import report
from observatory.github import incoming, requests, sandbox
from observatory.matrix.checkout import Checkout
from observatory.store import kinds
from observatory.store.change import Candidates
from observatory.store.points import Points

_COMPARISON: Final = "comparison"


def accept_command(
    names: str,
    file: Path | None = None,
    /,
    *,
    results: Annotated[Path, Parameter("--to", metavar="FOLDER")],
) -> int:
    """Fetch artifacts of measuring machines, check them, and write the valid ones.

    $ observatory accept 'night-*' --to history/results
    $ observatory accept 'confirmed-*' candidates.json --to history/results

    Odd names, and too many or too large files are refused. The rest is checked strictly, and must
    be what was requested: this checkout's cases, commit and locks by the machine in its name, or
    the candidates. Nothing is executed. A refused artifact does not affect the others. A
    measurement that is there already is never replaced by another one.

    Needs GITHUB_TOKEN with actions: read. Exit code 0: all is here. 1: something was refused; the
    rest was written. 3: nothing usable arrived. 4: GitHub could not list the artifacts; nothing is
    written.

    Args:
        names: Names of this run's artifacts, as a glob.
        file: The candidates that were to be judged; without it, a night was to be measured.
        results: Results folder for accepted files.
    """
    with GitHub(os.environ) as github:
        sent, refused = archives.fetch(github, github.run_id, names)
    project, locks = Checkout.here("nightly"), {}
    for lock in map(project.lock, project.stacks):
        packages = dict(stacks.versions(lock.lock.read_text("utf-8")))
        locks[lock.name] = StackRecord(name=lock.name, digest=lock.digest, packages=packages)
    if file:
        known = result_files.read(Candidates, file).candidates
        accepted, others = incoming.verdicts(known, sent, locks)
    else:
        commit, _ = git.revision(project.root)
        anchor = project.anchor.name if project.anchor_file.is_file() else None
        asked = incoming.Night(commit, anchor, project.cases(), locks)
        accepted, others = incoming.night(asked, sent, datetime.now(UTC))
    for path, data in accepted.items():
        there = results / path
        # asv's results of a commit may change, as every night without a new one repeats them.
        measured = there.is_file() and kinds.kind_of(path) in {Run, Comparison, Points}
        if measured and there.read_bytes() != data:
            refused[path] = "the history has other bytes under this name, and is never rewritten"
            continue
        files.replace(there, data)
        Console().say(f"accepted: {path}")
    lines = [f"refused: {name}: {reason}" for name, reason in {**refused, **others}.items()]
    report(lines, f"**{len(accepted)} accepted, {len(refused) + len(others)} refused**")
    if not accepted and (sent or not file):
        return 3
    return 1 if lines else 0


def sandbox_command(*words: str) -> int:
    """Run a command of duetbench or of observatory in a sandbox, which bubblewrap makes.

    $ observatory sandbox -- observatory measure --results measured

    For untrusted code: commits of pull requests, and releases. Files and folders of this folder
    that it names are copied in. What it writes (--results, --to, -o) is copied out, to a name in
    this folder. Packages come from the hosts in DUETBENCH_PACKAGES alone. Exit codes are those of
    the command, and 4 if its output cannot be used, or this machine cannot make the sandbox.

    Args:
        words: After `--`: a command, as `observatory measure --results out`.
    """
    return sandbox.run(paths.project_root(), words)


def slash_command() -> None:
    """Answer a comment that may say `/bench COMMIT`, and start the comparison if it is allowed.

    $ observatory slash

    The comparison starts if somebody with write permission names the full commit that is the pull
    request's head, which they have reviewed: its code will run on the measuring machine.

    Needs GITHUB_TOKEN with actions: write and pull-requests: write. Exit code 0: decided, either
    way; 4: GitHub could not be reached.
    """
    with GitHub(os.environ) as github:
        report([requests.answer(github)], "### /bench")


def comment_command() -> None:
    """Comment on a pull request with the comparison that was asked for by `/bench COMMIT`.

    $ observatory comment

    What was asked for are the inputs of this run: `pr`, `base` and `head`. Its artifact
    `comparison` is untrusted, and is shown only if it compares these commits. If there is no result
    to show, the comment says so. Needs GITHUB_TOKEN with actions: read and pull-requests: write.
    Exit code 0: commented; 4: the result cannot be shown, or GitHub was not reached.
    """
    with GitHub(os.environ) as github:
        problem, inputs, url = None, github.event()["inputs"], github.run_url(github.run_id)
        base, head = inputs["base"], inputs["head"]
        try:
            sent, _ = archives.fetch(github, github.run_id, _COMPARISON)
            text = proposals.proposal(sent.get(_COMPARISON, {}), base, head)
            words = f"{url.partition('/actions/')[0]}/blob/HEAD/docs/glossary.md"
            body = comments.sign(text, head, url, words)
        except ArtifactError as error:
            problem, body = error, requests.failed(head, url, str(error))
        Console().say(comments.publish(github, int(inputs["pr"]), comments.KIND, body))
        write_summary(body)
    if problem:
        raise problem
