"""Asks git about the two sides: revisions, files that differ, and copies of their files.

Each side of a comparison is measured in a copy of its own, made for it and removed at its end: what
an application writes (a data base beside its module) is never there at the next start. A copy is no
`git worktree`: nothing is registered in the repository, so that a killed comparison leaves nothing
in it, none of its hooks runs, and what is not committed can be compared as well. The paths of all
copies are equally long, since the size of the environment moves a program's stack and with it its
speed (Mytkowicz et al., ASPLOS 2009, doi 10.1145/1508244.1508275).

Stacks can be resolved otherwise than they are locked: as of a date, or with some packages in other
versions. The locks of the checkout stay as they are; the others are kept in the cache, each under
its digest.
"""

import os
import secrets
import shutil
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Final

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from duetbench.core.errors import UsageError
from duetbench.host import cache, git, paths
from duetbench.host.console import Narrator
from duetbench.project import locks, resolution
from duetbench.project.project import Project
from duetbench.project.schema import read_toml
from duetbench.project.types import Stack

MAIN: Final = ("main", "master")
"""Names of default branches, where a clone does not say which it is."""

WORKING_TREE: Final = "working tree"


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
    """Whether a checkout is a git repository of its own, with a commit."""
    return top(root) == root.resolve() and _commit(root, "HEAD") is not None


def top(root: Path) -> Path | None:
    """Find the top folder of the git repository around a folder; None: there is none."""
    folder = git.ask_or_none(root, "rev-parse", "--show-toplevel")
    return None if folder is None else Path(folder).resolve()


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
        git.ask(root, "add", "--all", "--", ".", ":(exclude)results", env=index)
        tree = git.ask(root, "write-tree", env=index)
    if tree != head.tree:
        return Revision(WORKING_TREE, head.commit, tree, dirty=True)
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
    """List the files that differ between two trees, as paths from the root, without results."""
    listed = git.ask(root, "diff-tree", "-r", "-z", "--no-renames", "--name-only", base, head)
    return tuple(p for p in listed.split("\0") if p and not p.startswith("results/"))


@contextmanager
def copies(narrator: Narrator) -> Iterator[Path]:
    """A folder for the copies of one comparison; those of killed comparisons are removed first."""
    base = paths.cache_dir() / "snapshots"
    base.mkdir(parents=True, exist_ok=True)
    for left in [path for path in base.iterdir() if path.is_dir() and path.name[0] != "."]:
        if cache.remove(left):  # nobody holds it
            (base / f".{left.name}.lock").unlink(missing_ok=True)
    folder = base / secrets.token_hex(4)
    with cache.exclusive(folder, narrator.say):
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


def copy(root: Path, folder: Path, *, whole: bool = False) -> Path:
    """Copy the files of the checkout as they are, below a folder of `copies`.

    Of a git repository these are the files that `working` takes, of any other folder all but hidden
    files, results and what programs have made; `whole`: all there is.
    """
    target = folder / secrets.token_hex(4)
    if whole:
        return Path(shutil.copytree(root, target, symlinks=True))
    if not is_repository(root):
        return Path(shutil.copytree(root, target, symlinks=True, ignore=_not_copied))
    target.mkdir()
    kinds = ("--cached", "--others", "--exclude-standard")
    listed = git.ask(root, "ls-files", "-z", *kinds, "--", ".", ":(exclude)results")
    for name in filter(None, listed.split("\0")):
        source = root / name
        if source.is_file() or source.is_symlink():  # it may have been removed
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name, follow_symlinks=False)
    return target


def _not_copied(_folder: str, names: list[str]) -> set[str]:
    made = {"__pycache__", "node_modules", "results"}
    hidden = {name for name in names if name[0] == "." and name != ".python-version"}
    return hidden | (made & {*names})


RESOLVING: Final = (
    "UV_CONSTRAINT", "UV_DEFAULT_INDEX", "UV_EXCLUDE", "UV_EXCLUDE_NEWER", "UV_EXTRA_INDEX_URL",
    "UV_FIND_LINKS", "UV_FORK_STRATEGY", "UV_INDEX", "UV_INDEX_STRATEGY", "UV_INDEX_URL",
    "UV_NO_SOURCES", "UV_OVERRIDE", "UV_PRERELEASE", "UV_RESOLUTION",
)  # fmt: skip
"""Variables of the environment that decide what uv finds, and what of it it takes."""


def resolved(
    project: Project,
    name: str,
    narrator: Narrator,
    day: date | None = None,
    pins: Sequence[Requirement] = (),
) -> Stack:
    """Resolve a stack as of the end of a date (UTC), or with some packages in other versions.

    With pins, other packages move only if they must; with neither it is as locked.

    Raises:
        SetupError: uv finds no such set of packages.
    """
    if day is None and not pins:
        return project.lock(name)
    texts = [str(pin) for pin in pins]
    keep = "" if day else project.lock_file(name).read_text("utf-8")
    how = f"as of {day}" if day else f"with {', '.join(texts)}"
    with narrator.step(f"stack {name}", f"resolving it {how}") as tick:
        text = resolution.resolve(project, name, day, tick, keep=keep, pins=texts)
    return kept(project, name, text)


def read_pin(text: str) -> Requirement:
    """Read a requirement such as `granian==2.7.8`; `UsageError`: it is no package's version."""
    expected = f"--with {text!r}: expected a package and its version, such as 'granian==2.7.8'"
    try:
        pin = Requirement(text)
    except InvalidRequirement as error:
        raise UsageError(expected) from error
    if not pin.specifier or pin.url or pin.marker or pin.extras:
        raise UsageError(expected)
    return pin


def share_out(
    project: Project, names: Collection[str], pins: Sequence[Requirement]
) -> tuple[dict[str, tuple[Requirement, ...]], tuple[str, ...]]:
    """Decide which pins go into which stacks; a stack that declares a version of its own keeps it.

    Raises:
        UsageError: A pin would change no stack.
    """
    shares: dict[str, tuple[Requirement, ...]] = {}
    notes: list[str] = []
    for name in names:
        present = [p for p in pins if canonicalize_name(p.name) in project.lock(name).packages]
        own = {str(pin): _held(project, name, pin) for pin in present}
        notes += [f"stack {name} declares {held} and keeps it" for held in own.values() if held]
        shares[name] = tuple(pin for pin in present if own[str(pin)] is None)
    for pin in pins:
        if not any(pin in many for many in shares.values()):
            why = "; ".join(notes) or f"expected a package of the stacks {', '.join(names)}"
            raise UsageError(f"--with {pin} changes nothing: {why}")
    return shares, tuple(notes)


def _held(project: Project, stack: str, pin: Requirement) -> str | None:
    """The stack's own requirement on a package, if it excludes what is asked for."""
    versions = [s.version for s in pin.specifier if s.operator == "==" and "*" not in s.version]
    for own in _requirements(project, stack):
        if canonicalize_name(own.name) != canonicalize_name(pin.name):
            continue
        exact = any(part.operator == "==" for part in own.specifier)
        excluded = any(
            not own.specifier.contains(version, prereleases=True) for version in versions
        )
        if excluded or (exact and not versions):
            return str(own)
    return None


def _requirements(project: Project, stack: str) -> list[Requirement]:
    """Requirements that a stack declares in this file alone."""
    if project.deployment is not None:
        lines = project.lock_file(stack).with_suffix(".in").read_text("utf-8").splitlines()
        return [Requirement(line) for line in lines if not line.startswith("-")]
    groups = read_toml(project.root / "apps" / "pyproject.toml").get("dependency-groups", {})
    texts = [text for text in groups.get(stack, ()) if isinstance(text, str)]  # others include
    return [Requirement(text) for text in texts]


def surroundings() -> tuple[str, ...]:
    """A sentence with the variables that uv went by, whose values may be private."""
    variables = [name for name in RESOLVING if os.environ.get(name)]
    if not variables:
        return ()
    which = "it" if len(variables) == 1 else "them"
    return (
        f"uv went by {', '.join(variables)} of the environment: set {which} again to repeat this",
    )


def kept(project: Project, name: str, text: str) -> Stack:
    """Keep a lock in the cache, as a stack that can be made."""
    lock = place_of(cache.digest(text), name)
    locks.write(lock, text)
    return project.read_lock(name, lock)


def place_of(digest: str, name: str) -> Path:
    """Folder that keeps a lock, by the first twelve digits of its SHA-256."""
    return paths.cache_dir() / "resolved" / digest / f"{name}.txt"
