"""What git knows of the two sides: revisions, files that differ, and snapshots of their files.

A snapshot is a folder in the cache with the files of one tree, made once and never changed. It is
no `git worktree`: nothing is registered in the repository, so that a killed comparison leaves
nothing in it, none of its hooks runs, and what is not committed can be compared as well. The paths
of all snapshots are equally long, since the size of the environment moves a program's stack and
with it its speed (Mytkowicz et al., ASPLOS 2009, doi 10.1145/1508244.1508275).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from servebench import paths
from servebench.errors import SetupError, UsageError
from servebench.toolchain import artefact
from servebench.toolchain.narrator import Narrator

MAIN: Final = ("main", "master")
"""What the default branch may be called, where a clone does not say it."""

WORKING_TREE: Final = "working tree"
KEPT: Final = 8
"""Snapshots that are kept: making one takes a moment, and they are small."""

_TIMEOUT_S: Final = 120
_HOOKS_SET: Final = frozenset({"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"})
"""What git sets for hooks; it would take us to another repository or index."""


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
    top = _ask(root, "rev-parse", "--show-toplevel")
    return (
        top is not None
        and Path(top).resolve() == root.resolve()
        and _ask(root, "rev-parse", "--verify", "--quiet", "HEAD^{commit}") is not None
    )


def resolve(root: Path, name: str) -> Revision:
    """Find a revision by a branch, tag or commit.

    Raises:
        UsageError: There is none of that name.
    """
    commit = None
    if not name.startswith("-"):  # an option is no revision
        commit = _ask(root, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
    if commit is None:
        raise UsageError(
            f"{name!r} is no revision here: expected a branch, tag or commit of {root}; fetch it "
            "first if it is elsewhere"
        )
    return Revision(name, commit, _git(root, "rev-parse", f"{commit}^{{tree}}"))


def working(root: Path) -> Revision:
    """Take the checkout as it is, with what is not committed (ignored files and results left out).

    Neither the index nor the files are changed.
    """
    head = resolve(root, "HEAD")
    with tempfile.TemporaryDirectory() as folder:
        index = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
        _git(root, "read-tree", head.tree, env=index)
        _git(root, "add", "--all", "--", ".", ":(exclude)results", env=index)
        tree = _git(root, "write-tree", env=index)
    if tree != head.tree:
        return Revision(WORKING_TREE, head.commit, tree, dirty=True)
    return replace(head, label=branch(root) or head.commit[:8])


def branch(root: Path) -> str | None:
    """The branch that is checked out; None: none is."""
    return _ask(root, "symbolic-ref", "--short", "--quiet", "HEAD")


def where_left_main(root: Path, head: Revision) -> Revision:
    """Find the commit at which a revision left the main branch: the default one of origin.

    On main itself that is where it left the remote's; a branch that head has not left is of no use.

    Raises:
        UsageError: There is no main branch here, or it has nothing in common with head.
    """
    default = _ask(root, "symbolic-ref", "--short", "--quiet", "refs/remotes/origin/HEAD")
    names = (default.removeprefix("origin/"),) if default is not None else MAIN
    refs = [ref for name in names for ref in (name, f"origin/{name}")]
    tips = [_ask(root, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}") for ref in refs]
    known = [tip for tip in tips if tip is not None]
    if not known:
        raise UsageError(
            f"expected one of the branches {', '.join(refs)} to compare with, found none: name "
            "BASE, or fetch the branch"
        )
    others = [tip for tip in known if tip != head.commit] or [head.commit]
    found = _ask(root, "merge-base", head.commit, *others)
    if found is None:
        raise UsageError(
            f"{head.label} and the main branch have no commit in common here: name BASE, or fetch "
            "the rest of a shallow clone (git fetch --unshallow)"
        )
    return replace(resolve(root, found), label=f"{found[:8]} (main)")


def changed(root: Path, base: str, head: str) -> tuple[str, ...]:
    """List the files that differ between two trees, as paths from the root, without results."""
    listed = _git(root, "diff-tree", "-r", "-z", "--no-renames", "--name-only", base, head)
    return tuple(p for p in listed.split("\0") if p and not p.startswith("results/"))


def snapshot(root: Path, revision: Revision, narrator: Narrator) -> Path:
    """Lay out the files of a revision, without results, in the cache.

    Returns:
        Their folder. It must not be written to.
    """
    target = paths.cache_dir() / "snapshots" / revision.tree[:16]

    def fault(place: Path) -> str | None:
        made = artefact.facts(place)
        return None if made and made.get("tree") == revision.tree else "it is not there"

    def build(staging: Path) -> artefact.Facts:
        with tempfile.TemporaryDirectory() as folder:
            index = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
            _git(root, "read-tree", revision.tree, env=index)
            drop = ("rm", "-r", "--cached", "--force", "--quiet", "--ignore-unmatch")
            _git(root, *drop, "--", "results", env=index)
            _git(root, "checkout-index", "--all", f"--prefix={staging}/", env=index)
        return {"tree": revision.tree, "commit": revision.commit}

    artefact.make(target, fault=fault, build=build, narrator=narrator)
    os.utime(target)
    _forget(target.parent)
    return target


def _forget(folder: Path) -> None:
    """Remove all but the newest snapshots, with their locks."""
    found = [path for path in folder.iterdir() if path.is_dir() and path.name[0] != "."]
    for old in sorted(found, key=lambda path: path.stat().st_mtime)[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)
        (folder / f".{old.name}.lock").unlink(missing_ok=True)


def _ask(root: Path, *arguments: str) -> str | None:
    """What git answers; None if it has no answer."""
    done = _run(root, arguments, {})
    return done.stdout.strip() if done.returncode == 0 else None


def _git(root: Path, *arguments: str, env: Mapping[str, str] | None = None) -> str:
    """What git answers, without the line's end."""
    done = _run(root, arguments, env or {})
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["nothing"])[-1]
        raise SetupError(f"git {arguments[0]} failed in {root}; it said: {said}")
    return done.stdout.rstrip("\n")


def _run(
    root: Path, arguments: tuple[str, ...], env: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if name not in _HOOKS_SET}
    try:
        return subprocess.run(
            ["git", "-C", str(root), *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT_S,
            env={**inherited, **env},
        )
    except FileNotFoundError as error:
        raise SetupError("git is needed to compare revisions, and is not on PATH") from error
    except subprocess.TimeoutExpired as error:
        raise SetupError(f"git {arguments[0]} did not end within {_TIMEOUT_S} s") from error
