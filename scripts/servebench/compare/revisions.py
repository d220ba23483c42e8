"""What git knows of the two sides: revisions, files that differ, and copies of their files.

Each side of a comparison is measured in a copy of its own, made for it and removed at its end: what
an application writes (a data base beside its module) is never there at the next start. A copy is no
`git worktree`: nothing is registered in the repository, so that a killed comparison leaves nothing
in it, none of its hooks runs, and what is not committed can be compared as well. The paths of all
copies are equally long, since the size of the environment moves a program's stack and with it its
speed (Mytkowicz et al., ASPLOS 2009, doi 10.1145/1508244.1508275).
"""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from servebench.core.errors import UsageError
from servebench.host import cache, git, paths
from servebench.host.progress import Narrator

MAIN: Final = ("main", "master")
"""What the default branch may be called, where a clone does not say it."""

WORKING_TREE: Final = "working tree"


@dataclass(frozen=True, slots=True)
class Revision:
    """A state of the repository's files.

    Attributes:
        label: As people named it.
        commit: 40 hex digits: it, or what it was changed from.
        tree: 40 hex digits, of the files themselves.
        dirty: Whether the files are no commit's.
    """

    label: str
    commit: str
    tree: str
    dirty: bool = False


def is_repository(root: Path) -> bool:
    """Whether a checkout is a git repository of its own, with a commit."""
    top = git.ask_or_none(root, "rev-parse", "--show-toplevel")
    return (
        top is not None
        and Path(top).resolve() == root.resolve()
        and git.ask_or_none(root, "rev-parse", "--verify", "--quiet", "HEAD^{commit}") is not None
    )


def resolve(root: Path, name: str) -> Revision:
    """Find a revision by a branch, tag or commit.

    Raises:
        UsageError: There is none of that name.
    """
    commit = None
    if not name.startswith("-"):  # an option is no revision
        commit = git.ask_or_none(root, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
    if commit is None:
        raise UsageError(
            f"{name!r} is no revision here: expected a branch, tag or commit of {root}; fetch it "
            "first if it is elsewhere"
        )
    return Revision(name, commit, git.ask(root, "rev-parse", f"{commit}^{{tree}}"))


def working(root: Path) -> Revision:
    """Take the checkout as it is, with what is not committed (ignored files and results left out).

    Neither the index nor the files are changed.
    """
    head = resolve(root, "HEAD")
    with tempfile.TemporaryDirectory() as folder:
        index = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
        git.ask(root, "read-tree", head.tree, env=index)
        git.ask(root, "add", "--all", "--", ".", ":(exclude)results", env=index)
        tree = git.ask(root, "write-tree", env=index)
    if tree != head.tree:
        return Revision(WORKING_TREE, head.commit, tree, dirty=True)
    return replace(head, label=branch(root) or head.commit[:8])


def branch(root: Path) -> str | None:
    """The branch that is checked out, if one is."""
    return git.ask_or_none(root, "symbolic-ref", "--short", "--quiet", "HEAD")


def where_left_main(root: Path, head: Revision) -> Revision:
    """Find the commit at which a revision left the main branch: the default one of origin.

    On main itself that is where it left the remote's; a branch that head has not left is of no use.

    Raises:
        UsageError: There is no main branch here, or it has nothing in common with head.
    """
    default = git.ask_or_none(
        root, "symbolic-ref", "--short", "--quiet", "refs/remotes/origin/HEAD"
    )
    names = (default.removeprefix("origin/"),) if default is not None else MAIN
    refs = [ref for name in names for ref in (name, f"origin/{name}")]
    tips = [
        git.ask_or_none(root, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
        for ref in refs
    ]
    known = [tip for tip in tips if tip is not None]
    if not known:
        raise UsageError(
            f"expected one of the branches {', '.join(refs)} to compare with, found none: name "
            "BASE, or fetch the branch"
        )
    others = [tip for tip in known if tip != head.commit] or [head.commit]
    found = git.ask_or_none(root, "merge-base", head.commit, *others)
    if found is None:
        raise UsageError(
            f"{head.label} and the main branch have no commit in common here: name BASE, or fetch "
            "the rest of a shallow clone (git fetch --unshallow)"
        )
    return replace(resolve(root, found), label=f"{found[:8]} (main)")


def changed(root: Path, base: str, head: str) -> tuple[str, ...]:
    """List the files that differ between two trees, as paths from the root, without results."""
    listed = git.ask(root, "diff-tree", "-r", "-z", "--no-renames", "--name-only", base, head)
    return tuple(p for p in listed.split("\0") if p and not p.startswith("results/"))


@contextmanager
def copies(narrator: Narrator) -> Iterator[Path]:
    """A folder for the copies of one comparison, until its end.

    Copies of comparisons that were killed are removed first.
    """
    base = paths.cache_dir() / "snapshots"
    base.mkdir(parents=True, exist_ok=True)
    for left in [path for path in base.iterdir() if path.is_dir() and path.name[0] != "."]:
        if cache.remove(left):  # nobody holds it
            (base / f".{left.name}.lock").unlink(missing_ok=True)
    folder = base / secrets.token_hex(4)
    with cache.exclusive(folder, narrator):
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            (base / f".{folder.name}.lock").unlink(missing_ok=True)


def lay_out(root: Path, revision: Revision, folder: Path) -> Path:
    """Lay out the files of a revision, without results, in a new folder below one of `copies`."""
    target = folder / secrets.token_hex(4)
    target.mkdir()
    with tempfile.TemporaryDirectory() as place:
        index = {"GIT_INDEX_FILE": str(Path(place) / "index")}
        git.ask(root, "read-tree", revision.tree, env=index)
        drop = ("rm", "-r", "--cached", "--force", "--quiet", "--ignore-unmatch")
        git.ask(root, *drop, "--", "results", env=index)
        git.ask(root, "checkout-index", "--all", f"--prefix={target}/", env=index)
    return target


def copy(root: Path, folder: Path) -> Path:
    """Copy the files of the checkout as they are, below a folder of `copies`.

    Of a git repository these are the files that `working` takes, of any other folder all but hidden
    files, results and what programs have made. Nothing is written to the repository, which may be
    somebody else's.
    """
    target = folder / secrets.token_hex(4)
    if not is_repository(root):
        ignored = shutil.ignore_patterns(".*", "__pycache__", "node_modules", "results")
        return Path(shutil.copytree(root, target, symlinks=True, ignore=ignored))
    target.mkdir()
    kinds = ("--cached", "--others", "--exclude-standard")
    listed = git.ask(root, "ls-files", "-z", *kinds, "--", ".", ":(exclude)results")
    for name in filter(None, listed.split("\0")):
        source = root / name
        if source.is_file() or source.is_symlink():  # it may have been removed
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name, follow_symlinks=False)
    return target
