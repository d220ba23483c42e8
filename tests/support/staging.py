"""A small repository to run workflows on: two cases of a second each, one stack, no network.

Its stack is a real server, packed again from an environment that set-up made, and a made-up package
`alpha`, of which a test can publish a release at any time.
"""

import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Final

import pytest
from packaging.utils import canonicalize_name

from acting import REPOSITORY, Stage
from bench import PROJECT
from duetbench.app import stacks
from duetbench.judge.preparation import resolve
from fake_github import FakeGitHub
from observatory.matrix.checkout import Checkout
from repos import borrow_cache, git, keep, write
from tiny_index import Index, pack, serving

SMALL: Final = PROJECT / "tests" / "projects" / "night"
SERVER: Final = frozenset({"uvicorn", "httptools", "click", "h11"})
BRANCHES: Final = "scripts/branches.sh"
LONG_AGO: Final = "2026-01-01"
_OF_THE_INSTALLER: Final = {"INSTALLER", "REQUESTED", "RECORD", "direct_url.json", "uv_cache.json"}


@contextmanager
def theatre(folder: Path, patch: pytest.MonkeyPatch) -> Iterator[tuple[Stage, Index]]:
    """An empty stage, a fake of GitHub, an index with a server and alpha, a cache to write to."""
    borrow_cache(folder / "cache", patch)
    patch.delenv("DUETBENCH_ROOT", raising=False)
    with serving(patch, folder / "uv") as index, FakeGitHub() as github:
        stock(index)
        index.add("alpha", "1.0", LONG_AGO)
        github.reset(REPOSITORY, folder / "artifacts")
        variables = {"STANDIN_FOLDER": str(folder)}
        yield Stage(folder, folder / "tree", github, variables), index


@contextmanager
def set_stage(folder: Path, patch: pytest.MonkeyPatch) -> Iterator[tuple[Stage, Index]]:
    """A stage with the small repository, of which the lock is made here."""
    with theatre(folder, patch) as (stage, index):
        shutil.copytree(SMALL, stage.tree)
        shutil.copytree(PROJECT / ".github", stage.tree / ".github")
        write(stage.tree, BRANCHES, (PROJECT / BRANCHES).read_text("utf-8"))
        bare = PROJECT / "tests" / "support" / "badapps" / "bare_asgi.py"
        shutil.copy(bare, stage.tree / "apps" / "short")
        write(stage.tree, ".gitignore", ".venv/\n__pycache__/\nhistory/\n")
        text = resolve(Checkout(stage.tree), "current", None)
        stacks.write_lock(stage.tree / "apps" / "stacks" / "current.txt", text)
        keep(stage.tree)
        publish(stage.tree, stage.remote)
        yield stage, index


def stock(index: Index) -> None:
    """Fill the index with the server, as it is installed in the stack `current`."""
    checkout = Checkout.here()
    python = stacks.executable(checkout.lock("current"), checkout.interpreter("3.14"))
    (packages,) = python.parents[1].glob("lib/python3*/site-packages")
    for installed in distributions(path=[str(packages)]):
        if (name := canonicalize_name(installed.metadata["Name"])) in SERVER:
            file, content = repack(installed, packages)
            index.files[file] = (name, LONG_AGO, content)


def repack(installed: Distribution, packages: Path) -> tuple[str, bytes]:
    """Make a wheel of an installed distribution; return its file's name and content."""
    tag = re.findall(r"^Tag: (\S+)$", installed.read_text("WHEEL") or "", re.MULTILINE)[0]
    files = {
        str(file): (packages / file).read_bytes()
        for file in installed.files or ()
        if not {"..", "__pycache__", *_OF_THE_INSTALLER} & {*file.parts}
    }
    (info,) = {top for top in (name.partition("/")[0] for name in files) if top[-9:] == "dist-info"}
    return f"{info.removesuffix('.dist-info')}-{tag}.whl", pack(files, info)


def publish(tree: Path, remote: Path) -> None:
    """Push a repository to the stand-in of GitHub's own."""
    remote.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", "clone", "--quiet", "--bare", tree, remote], check=True)
    for key in ("allowAnySHA1InWant", "allowFilter"):
        git(remote, "config", f"uploadpack.{key}", "true")
    git(tree, "remote", "add", "origin", f"file://{remote}")
