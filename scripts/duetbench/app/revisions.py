"""Asks git about the two sides: revisions, files that differ, and copies of their files.

Each side is measured in its own copy, removed at the end: anything an application writes (a
database beside its module) is gone at the next start. A copy is no `git worktree`: a killed
comparison leaves nothing in the repository, no hook runs, and uncommitted files can be compared.
The paths of all copies are equally long, since the size of the environment moves a program's stack
and so its speed (Mytkowicz et al., ASPLOS 2009, doi 10.1145/1508244.1508275). A copy contains the
whole repository; its path is that of the folder in it that contains the application.
"""

import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from duetbench.app import workspace
from duetbench.core.errors import UsageError
from duetbench.host import git, paths

_MOST_BYTES: Final = 50_000_000
_MOST_FILES: Final = 2000
"""Of an uncommitted file or folder that copies get."""

_GENERATED: Final = re.compile(
    r"\.git|__pycache__|.*\.py[co]|\..*_cache|\.?cache|\.(tox|nox|idea|vscode|coverage.*|DS_Store)"
    r"|node_modules|htmlcov|results|.*\.egg-info|.*\.log|\.?venv.*|\.eggs"
)
"""Names of what tools leave, which no application needs."""


@dataclass(frozen=True, slots=True)
class Revision:
    """A state of the repository's files; `dirty`: no commit has it. Without a tree: as it is."""

    label: str
    commit: str
    dirty: bool = False
    tree: str = ""


def commit_of(root: Path, name: str) -> str | None:
    """Return the commit that a name means; None if there is none."""
    return git.ask_or_none(root, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")


def is_repository(root: Path) -> bool:
    """Whether a folder is in a git repository that has a commit."""
    return top(root) is not None and commit_of(root, "HEAD") is not None


def top(root: Path) -> Path | None:
    """Find the top folder of the git repository that contains a folder; None if there is none."""
    folder = git.ask_or_none(root, "rev-parse", "--show-toplevel")
    # A folder that a repository ignores does not belong to it.
    if folder is None or git.ask_or_none(root, "check-ignore", "--quiet", ".") is not None:
        return None
    return Path(folder).resolve()


def within(root: Path) -> Path:
    """Return a folder's path in its repository (backend); `.` if it is the top, or in none."""
    return root.resolve().relative_to(top(root) or root.resolve())


def resolve(root: Path, name: str) -> Revision:
    """Find a revision by branch, tag or commit; raises UsageError if there is none."""
    # An option is no revision.
    if name.startswith("-") or (commit := commit_of(root, name)) is None:
        raise UsageError(
            f"{name!r} is no revision here: expected a branch, tag or commit of {root}; fetch it "
            "first if it is elsewhere. What else a side has is --base or --head KEY=VALUE"
        )
    return Revision(name, commit, tree=git.ask(root, "rev-parse", f"{commit}^{{tree}}"))


def working(root: Path) -> Revision:
    """Record the checkout with uncommitted changes, without ignored files and results."""
    head = resolve(root, "HEAD")
    with paths.scratch() as folder:
        index = {"GIT_INDEX_FILE": str(folder / "index"), **git.elsewhere(root)}
        git.ask(root, "read-tree", head.tree, env=index)
        git.ask(root, "add", "--all", "--", ":/", ":(exclude)results", env=index)
        tree = git.ask(root, "write-tree", env=index)
    if tree != head.tree:
        return Revision("working tree", head.commit, dirty=True, tree=tree)
    return replace(head, label=branch(root, "HEAD") or head.commit[:8])


def branch(root: Path, ref: str) -> str | None:
    """Return the branch that a symbolic reference points to; None if it is no such reference."""
    return git.ask_or_none(root, "symbolic-ref", "--short", "--quiet", ref)


@contextmanager
def copies() -> Iterator[Path]:
    """Provide a folder for the copies of one comparison; remove those of killed comparisons."""
    base = paths.cache_dir() / "snapshots"
    base.mkdir(parents=True, exist_ok=True)
    with paths.scratch(base) as folder:
        try:
            yield folder
        finally:
            workspace.forget(folder)


def lay_out(root: Path, revision: Revision, folder: Path) -> Path:
    """Write the files of a revision, without results, to a new folder below one of `copies`.

    Raises UsageError if the revision lacks the folder of its repository that `root` is.
    """
    whole = top(root) or root.resolve()
    target, place = folder / secrets.token_hex(4), root.resolve().relative_to(whole)
    target.mkdir()
    with paths.scratch() as scratch:
        index = {"GIT_INDEX_FILE": str(scratch / "index")}
        git.ask(root, "read-tree", revision.tree, env=index)
        drop = ("rm", "-r", "--cached", "--force", "--quiet", "--ignore-unmatch")
        git.ask(root, *drop, "--", "results", env=index)
        git.ask(whole, "checkout-index", "--all", f"--prefix={target}/", env=index)
    if not (target / place).is_dir():
        raise UsageError(f"{revision.label} has no folder {place}: name another revision")
    return target / place


def copy(root: Path, folder: Path, *, inside: Path | None = None) -> Path:
    """Copy the files of the checkout as they are, below a folder of `copies`.

    From a git repository with a commit it copies the files that `working` records, else all but
    results and generated files. With `inside`, `root` is a copy already, at this path
    within it; then everything is copied.
    """
    if inside is None and is_repository(root):
        return lay_out(root, working(root), folder)
    target = folder / secrets.token_hex(4)
    if inside is not None:
        whole = paths.above(root, len(inside.parts))
        return Path(shutil.copytree(whole, target, symlinks=True)) / inside

    def generated(_folder: str, names: list[str]) -> list[str]:
        return [*filter(_GENERATED.fullmatch, names)]

    shutil.copytree(top(root) or root, target, symlinks=True, ignore=generated)
    return target / within(root)


def add_uncommitted(root: Path, place: Path) -> tuple[list[str], list[str]]:
    """Add the small files that git does not have to a copy (`.env`, a database); return them.

    What the application needs to start here, it needs there. Environments, caches and what builds
    leave are not among them, nor new code, which belongs to the checkout alone. Also return the
    names that are too large. `place` is `root`'s in the copy.
    """
    added, large = list[str](), list[str]()
    if (repository := top(root)) is None:
        return added, large
    usual = ("ls-files", "-z", "--others", "--exclude-standard")
    listed = git.ask(repository, *usual, "--ignored", "--directory").split("\0")
    new = git.ask(repository, *usual).split("\0")
    target = paths.above(place, len(within(root).parts))
    for name in filter(None, (*listed, *(name for name in new if not name.endswith(".py")))):
        files = [*_walk(repository, Path(name))]
        size = sum((repository / file).stat().st_size for file in files)
        if size > _MOST_BYTES or len(files) > _MOST_FILES:
            large.append(name)
            continue
        for file in files:
            if not (target / file).exists():
                (target / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(repository / file, target / file)
                added.append(str(file))
    return added, large


def _walk(repository: Path, name: Path) -> Iterator[Path]:
    """Yield the files of a name, which is relative, without environments and caches."""
    place = repository / name
    if any(_GENERATED.fullmatch(part) for part in name.parts):
        return
    if place.is_file() and not place.is_symlink():
        yield name
    elif place.is_dir() and not (place / "pyvenv.cfg").exists():
        for child in place.iterdir():
            yield from _walk(repository, name / child.name)
