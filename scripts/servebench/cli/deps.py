"""`servebench ci deps`: the harness's own lock, and what else is pinned."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Final

import typer

from servebench import actions, harnesslock, paths, pins
from servebench.cli.github import DEFAULT_PATIENCE, Json, Patience, connected
from servebench.errors import UsageError
from servebench.printing import Console
from servebench.progress import Narrator
from servebench.signals import interruptible
from servebench.stacklock import write
from servebench.text import visible

if TYPE_CHECKING:
    from servebench.github.client import Client

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
        typer.Option("--base", help="The branch that it is for; default: the remote's own."),
    ] = None,
    remote: Annotated[str, typer.Option("--remote", help="Where the branch goes.")] = "origin",
    patience: Patience = DEFAULT_PATIENCE,
    as_json: Json = False,
) -> None:
    """Renew requirements.txt, the harness's own lock, and what else is pinned, to newest releases.

    That is, in pyproject.toml, patch releases of CPython, oha and the tools that tests build, and
    the TypeScript of `make check`. What cannot be asked on this machine stays as it is, and is
    told. The stacks under test have locks of their own: `servebench stack bump`. With --propose it
    is pushed to a branch, and one pull request is opened for it, or renewed while it is open; that
    needs GITHUB_TOKEN with contents: write and pull-requests: write.

    Exit code 0: renewed, or nothing has moved. 4: the packages' index, git or GitHub refuses.
    """
    from servebench.github.text import plain  # noqa: PLC0415 - only this verb needs it

    root = paths.project_root()
    console = Console(stderr=True, highlight=False)
    narrator = Narrator(console)
    with interruptible(), _asking(patience) as github:
        moved = harnesslock.renew(root, narrator)
        renewal = pins.renew(root, github, narrator)
    for name, text in renewal.files.items():
        write(root / name, text)
    files = [*([harnesslock.LOCK] if moved else []), *renewal.files]
    moved += renewal.moved
    told = [plain(sentence) for sentence in renewal.told]
    proposed = None
    if propose and moved:
        from servebench.git import remote_of  # noqa: PLC0415
        from servebench.github import proposal  # noqa: PLC0415 - only this needs GitHub

        body = "\n\n".join((harnesslock.listed(moved), *told, _NOTE))
        where = remote_of(root, remote)
        wanted = proposal.Proposal(
            branch, base or proposal.default_branch(root, where), harnesslock.title(moved), body
        )
        with connected(patience) as (_, repository):
            proposed = proposal.propose(repository, root, where, files, wanted)
    listed = harnesslock.listed(moved) or "nothing moved"
    actions.summary("\n\n".join(("### Dependencies", listed, *told)))
    if as_json:
        found = {
            "moves": [asdict(move) for move in moved],
            "told": renewal.told,
            "proposed": asdict(proposed) if proposed else None,
        }
        typer.echo(json.dumps(found))
        return
    typer.echo("\n".join((listed, *map(visible, renewal.told))))
    if proposed is not None:
        typer.echo(f"pull request {proposed.outcome}: {proposed.url}")


@contextmanager
def _asking(patience: float) -> Iterator[Client | None]:
    """GitHub, if this is a step of a workflow: nobody else has to have a token."""
    with ExitStack() as stack:
        try:
            _, repository = stack.enter_context(connected(patience))
        except UsageError:
            yield None
            return
        yield repository.client
