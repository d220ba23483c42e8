"""`servebench ci deps`: the harness's own lock."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Final

import typer

from servebench import actions, harnesslock, paths
from servebench.cli.github import DEFAULT_PATIENCE, Json, Patience, connected
from servebench.compare import revisions
from servebench.errors import UsageError
from servebench.printing import Console
from servebench.signals import interruptible
from servebench.toolchain.narrator import Narrator

BRANCH: Final = "servebench/deps"
_NOTE: Final = (
    "Opened by a workflow, for which GitHub starts no checks: close this pull request and open it "
    "again to have them."
)


def deps_command(
    propose: Annotated[
        bool, typer.Option("--propose", help="Propose it in a pull request; there is only one.")
    ] = False,
    branch: Annotated[
        str, typer.Option("--branch", help="Of the pull request; it is ours alone.")
    ] = BRANCH,
    base: Annotated[
        str | None,
        typer.Option("--base", help="The branch that it is for; default: the one checked out."),
    ] = None,
    remote: Annotated[str, typer.Option("--remote", help="Where the branch goes.")] = "origin",
    patience: Patience = DEFAULT_PATIENCE,
    as_json: Json = False,
) -> None:
    """Renew the harness's own lock, requirements.txt, to the newest releases.

    The stacks under test have locks of their own: `servebench stack bump`. With --propose the lock
    is pushed to a branch, and one pull request is opened for it, or renewed while it is open; that
    needs GITHUB_TOKEN with contents: write and pull-requests: write.

    Exit code 0: renewed, or nothing has moved. 4: an index, git or GitHub refuses.
    """
    root = paths.project_root()
    base = base or revisions.branch(root) or ""
    if propose and not base:
        raise UsageError(f"{root} is on no branch: name the one that it is for with --base")
    console = Console(stderr=True, highlight=False)
    with interruptible():
        moved = harnesslock.renew(root, Narrator(console))
    proposed = None
    if propose and moved:
        from servebench.github import proposal  # noqa: PLC0415 - only this needs GitHub
        from servebench.history.git import remote_of  # noqa: PLC0415

        body = f"{harnesslock.listed(moved)}\n\n{_NOTE}"
        wanted = proposal.Proposal(branch, base, harnesslock.title(moved), body)
        with connected(patience) as (_, repository):
            proposed = proposal.propose(
                repository, root, remote_of(root, remote), harnesslock.LOCK, wanted
            )
    listed = harnesslock.listed(moved) or "no package moved"
    actions.summary(f"### Dependencies\n\n{listed}")
    if as_json:
        found = {
            "moves": [asdict(move) for move in moved],
            "proposed": asdict(proposed) if proposed else None,
        }
        typer.echo(json.dumps(found))
        return
    typer.echo(listed)
    if proposed is not None:
        typer.echo(f"pull request {proposed.outcome}: {proposed.url}")
