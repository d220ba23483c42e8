"""`duetbench ci deps`: the harness's own lock, and what else is pinned."""

from contextlib import ExitStack
from dataclasses import asdict
from typing import Annotated, Final

from typer import Option

from duetbench.cli.github import DEFAULT_PATIENCE, Patience, connected
from duetbench.cli.options import JsonOption, tell
from duetbench.core.errors import UsageError
from duetbench.github import actions, branches, pins
from duetbench.github.repository import Repository
from duetbench.github.text import plain
from duetbench.host import paths
from duetbench.host.console import errors
from duetbench.host.git import remote_of
from duetbench.host.progress import Narrator
from duetbench.host.signals import interruptible
from duetbench.project import locks

BRANCH: Final = "duetbench/deps"
_NOTE: Final = (
    "Opened by a workflow, for which GitHub starts no checks: close this pull request and open it "
    "again to have them."
)


def deps_command(
    propose: Annotated[
        bool, Option("--propose", help="Propose it in a pull request; there is only one.")
    ] = False,
    branch: Annotated[
        str, Option("--branch", help="Of the pull request; it is ours alone.")
    ] = BRANCH,
    base: Annotated[
        str | None, Option("--base", help="The branch that it is for; default: the remote's own.")
    ] = None,
    remote: Annotated[str, Option("--remote", help="Where the branch goes.")] = "origin",
    patience: Patience = DEFAULT_PATIENCE,
    as_json: JsonOption = False,
) -> None:
    """Renew requirements.txt, the harness's own lock, and what else is pinned, to newest releases.

    That is, in pyproject.toml, patch releases of CPython, oha and the tools that tests build, and
    the TypeScript of `make check`. What cannot be asked on this machine stays as it is, and is
    told. The stacks under test have locks of their own: `duetbench stack bump`. With --propose it
    is pushed to a branch, and one pull request is opened for it, or renewed while it is open; that
    needs GITHUB_TOKEN with contents: write and pull-requests: write.

    Exit code 0: renewed, or nothing has moved. 4: the packages' index, git or GitHub refuses.
    """
    root = paths.project_root()
    narrator = Narrator(errors())
    proposed = None
    with ExitStack() as stack:
        repository: Repository | None = None
        try:
            _, repository = stack.enter_context(connected(patience))
        except UsageError:  # nobody has to have a token who does not propose anything
            if propose:
                raise
        with interruptible():
            moved = locks.renew_harness(root, narrator)
            renewal = pins.renew(root, None if repository is None else repository.client, narrator)
        for name, text in renewal.files.items():
            locks.write(root / name, text)
        files = [*([locks.HARNESS] if moved else []), *renewal.files]
        moved += renewal.moved
        told = [plain(sentence) for sentence in renewal.told]
        if propose and moved and repository is not None:
            where = remote_of(root, remote)
            body = "\n\n".join((locks.listed(moved), *told, _NOTE))
            proposed = branches.propose(
                repository, root, where, files,
                branch=branch, base=base, title=locks.title("Harness", moved), body=body,
            )  # fmt: skip
    listed = locks.listed(moved) or "nothing moved"
    actions.summary("\n\n".join(("### Dependencies", listed, *told)))
    keys = ("package", "before", "after")
    moves = [{key: getattr(one, key) for key in keys} for one in moved]
    done = asdict(proposed) if proposed else None
    document = {"moves": moves, "told": renewal.told, "proposed": done}
    asked = [f"pull request {proposed.outcome}: {proposed.url}"] if proposed else []
    tell((listed, *renewal.told, *asked), lambda: document, as_json=as_json)
