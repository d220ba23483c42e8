"""Asks git about the two sides: revisions, files that differ, and copies of their files.

Each side is measured in a copy of its own, removed at its end: what an application writes (a data
base beside its module) is never there at the next start. A copy is no `git worktree`: a killed
comparison leaves nothing in the repository, no hook runs, and uncommitted files can be compared.
The paths of all copies are equally long, since the size of the environment moves a program's stack
and with it its speed (Mytkowicz et al., ASPLOS 2009, doi 10.1145/1508244.1508275). A copy is of the
whole repository, and what is given is the folder in it that the application lies in.
"""

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from duetbench.core.errors import UsageError
from duetbench.host import git, paths, proc

MAIN: Final = ("main", "master")
"""Names of default branches, where a clone does not say which it is."""

_PREFIX: Final = "copies"


@dataclass(frozen=True, slots=True)
class Revision:
    """A state of the repository's files, `tree`; `dirty`: they are no commit's."""

    label: str
    commit: str
    tree: str
    dirty: bool = False


def _commit(root: Path, name: str) -> str | None:
    return git.ask_or_none(root, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")


def is_repository(root: Path) -> bool:
    """Whether a folder lies in a git repository that has a commit."""
    return top(root) is not None and _commit(root, "HEAD") is not None


def top(root: Path) -> Path | None:
    """Find the top folder of the git repository that a folder belongs to; None: it is in none."""
    folder = git.ask_or_none(root, "rev-parse", "--show-toplevel")
    # What a repository ignores is none of its folders.
    if folder is None or git.ask_or_none(root, "check-ignore", "--quiet", ".") is not None:
        return None
    return Path(folder).resolve()


def within(root: Path) -> Path:
    """Where a folder lies in its repository (backend); `.`: it is all of it, or is in none."""
    return root.resolve().relative_to(top(root) or root.resolve())


def resolve(root: Path, name: str) -> Revision:
    """Find a revision by a branch, tag or commit; `UsageError`: there is none of that name."""
    # An option is no revision.
    if name.startswith("-") or (commit := _commit(root, name)) is None:
        raise UsageError(
            f"{name!r} is no revision here: expected a branch, tag or commit of {root}; fetch it "
            "first if it is elsewhere"
        )
    return Revision(name, commit, git.ask(root, "rev-parse", f"{commit}^{{tree}}"))


def working(root: Path) -> Revision:
    """Take the checkout with what is not committed, without ignored files and results."""
    head = resolve(root, "HEAD")
    with tempfile.TemporaryDirectory() as folder:
        index = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
        git.ask(root, "read-tree", head.tree, env=index)
        git.ask(root, "add", "--all", "--", ":/", ":(exclude)results", env=index)
        tree = git.ask(root, "write-tree", env=index)
    if tree != head.tree:
        return Revision("working tree", head.commit, tree, dirty=True)
    return replace(head, label=_branch(root, "HEAD") or head.commit[:8])


def _branch(root: Path, ref: str) -> str | None:
    """The branch that a reference stands for, if it does for one."""
    return git.ask_or_none(root, "symbolic-ref", "--short", "--quiet", ref)


def where_left_main(root: Path, head: Revision) -> Revision:
    """Find the commit at which a revision left origin's default branch.

    Raises:
        UsageError: There is no main branch here, or it has nothing in common with head.
    """
    default = _branch(root, "refs/remotes/origin/HEAD")
    names = (default.removeprefix("origin/"),) if default is not None else MAIN
    refs = [ref for name in names for ref in (name, f"origin/{name}")]
    known = [tip for ref in refs if (tip := _commit(root, ref)) is not None]
    if not known:
        raise UsageError(
            f"expected one of the branches {', '.join(refs)} to compare with, found none: name "
            "BASE, or fetch the branch"
        )
    others = [tip for tip in known if tip != head.commit] or [head.commit]
    commit = git.ask_or_none(root, "merge-base", head.commit, *others)
    if commit is None:
        raise UsageError(
            f"{head.label} and the main branch have no commit in common here: name BASE, or fetch "
            "the rest of a shallow clone (git fetch --unshallow)"
        )
    return replace(resolve(root, commit), label=f"{commit[:8]} (main)")


def changed(root: Path, base: str, head: str) -> tuple[str, ...]:
    """List the files that differ between two trees, as paths from the root, without results.

    Where the root is a folder of its repository, those beside it begin with `../`.
    """
    listed = git.ask(root, "diff-tree", "-r", "-z", "--no-renames", "--name-only", base, head)
    folder = within(root)
    paths_ = (os.path.relpath(path, folder) for path in listed.split("\0") if path)
    return tuple(path for path in paths_ if not path.startswith("results/"))


def renamed(root: Path, base: str, head: str) -> dict[str, str]:
    """The files that a change gave another name: the new one → the old one, from the top."""
    listed = git.ask(root, "diff-tree", "-r", "-z", "-M", "--diff-filter=R", base, head)
    words = listed.split("\0")
    return dict(zip(words[2::3], words[1::3], strict=False))


@contextmanager
def copies() -> Iterator[Path]:
    """A folder for the copies of one comparison; those of killed comparisons are removed first."""
    base = paths.cache_dir() / "snapshots"
    base.mkdir(parents=True, exist_ok=True)
    proc.sweep_scratch(_PREFIX, base)
    folder = proc.make_scratch(_PREFIX, base)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def lay_out(root: Path, revision: Revision, folder: Path) -> Path:
    """Lay out the files of a revision, without results, in a new folder below one of `copies`.

    UsageError: the revision does not have the folder of its repository that `root` is.
    """
    whole = top(root) or root.resolve()
    target, place = folder / secrets.token_hex(4), root.resolve().relative_to(whole)
    target.mkdir()
    with tempfile.TemporaryDirectory() as scratch:
        index = {"GIT_INDEX_FILE": str(Path(scratch) / "index")}
        git.ask(root, "read-tree", revision.tree, env=index)
        drop = ("rm", "-r", "--cached", "--force", "--quiet", "--ignore-unmatch")
        git.ask(root, *drop, "--", "results", env=index)
        git.ask(whole, "checkout-index", "--all", f"--prefix={target}/", env=index)
    if not (target / place).is_dir():
        raise UsageError(f"{revision.label} has no folder {place}: name another revision")
    return target / place


def copy(root: Path, folder: Path, *, made: Path | None = None) -> Path:
    """Copy the files of the checkout as they are, below a folder of `copies`.

    Of a git repository these are the files that `working` takes, of any other folder all but hidden
    files, results and what programs have made. `made`: `root` is a copy already, of which it is
    this folder; then it is all there is.
    """
    target = folder / secrets.token_hex(4)
    if made is not None:
        whole = root.parents[len(made.parts) - 1] if made.parts else root
        return Path(shutil.copytree(whole, target, symlinks=True)) / made
    if (repository := top(root)) is None:
        return Path(shutil.copytree(root, target, symlinks=True, ignore=_not_copied))
    place = root.resolve().relative_to(repository)
    target.mkdir()
    kinds = ("--cached", "--others", "--exclude-standard")
    left_out = f":(exclude){place / 'results'}"
    listed = git.ask(repository, "ls-files", "-z", *kinds, "--", ".", left_out)
    for name in filter(None, listed.split("\0")):
        source = repository / name
        if source.is_file() or source.is_symlink():  # it may have been removed
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name, follow_symlinks=False)
    return target / place


def _not_copied(_folder: str, names: list[str]) -> set[str]:
    made = {"__pycache__", "node_modules", "results"}
    hidden = {name for name in names if name[0] == "." and name != ".python-version"}
    return hidden | (made & {*names})
