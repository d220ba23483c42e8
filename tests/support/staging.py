"""A small repository to run workflows on: two cases of a second each, one stack, no network.

Its stack is a real server, packed again from an environment that set-up made, and a made-up package
`alpha`, of which a test can publish a release at any time.
"""

import json
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

from acting import MAKEFILE, PROJECT, REPOSITORY, Stage
from duetbench.app import stacks
from fake_github import FakeGitHub
from observatory.matrix.checkout import Checkout
from repos import borrow_cache, git, keep, write
from tiny_index import Index, pack, serving

SERVER: Final = frozenset({"uvicorn", "httptools", "click", "h11"})
ENDPOINTS: Final = ("one", "two")
LONG_AGO: Final = "2026-01-01"

_APP: Final = """\
import asyncio

from bare_asgi import Answer, App


async def right(_: App) -> Answer:
    await asyncio.sleep(0.1)
    return 200, "right"


app = App({path: right for path in ("/one", "/two")})
"""
_ENDPOINT: Final = """
[endpoints.{name}]
app = "short:app"
interface = "asgi"
path = "/{name}"
expect = {{ content_type = "text/plain", text = "right" }}
floor = 0.1
"""
_EXPERIMENT: Final = """\
question = "Does it find its way through the workflows?"

[source]
title = "Made up"
date = "2026-11"

[profiles]
quick = { seconds = 0.6 }
nightly = { seconds = 0.6 }

[loads.closed]
model = "closed"
connections = 4
duration = "seconds"
timeout = 10

[defaults]
id = "{endpoint}"
profiles = ["quick", "nightly"]
python = "3.14"
stack = "current"
server = "uvicorn"
loop = "asyncio"
load = "closed"
cores = "split"

[[cases]]
"""
_STACKS: Final = """\
[project]
name = "apps"
version = "0"
requires-python = ">=3.14"

[dependency-groups]
current = ["alpha", "httptools", "uvicorn"]

[tool.duetbench.stacks.current]
interpreters = ["3.14"]
"""
HARNESS: Final = """\
[project]
name = "harness"
version = "0"
requires-python = ">=3.11"
dependencies = ["alpha"]

[dependency-groups]
dev = []
observatory = []

[tool.duetbench]
"""
_LEFT_BEHIND: Final = {"INSTALLER", "REQUESTED", "RECORD", "direct_url.json", "uv_cache.json"}


@contextmanager
def theatre(folder: Path, patch: pytest.MonkeyPatch) -> Iterator[tuple[Stage, Index]]:
    """An empty stage, a fake of GitHub, an index without packages, and a cache to write to."""
    borrow_cache(folder / "cache", patch)
    patch.delenv("DUETBENCH_ROOT", raising=False)
    with serving(patch, folder / "uv") as index, FakeGitHub() as github:
        github.reset(REPOSITORY, folder / "artifacts")
        variables = {"STANDIN_FOLDER": str(folder)}
        yield Stage(folder, folder / "tree", github, variables), index


@contextmanager
def set_stage(folder: Path, patch: pytest.MonkeyPatch) -> Iterator[tuple[Stage, Index]]:
    """A stage with the small repository."""
    with theatre(folder, patch) as (stage, index):
        stock(index, SERVER)
        index.add("alpha", "1.0", LONG_AGO)
        make_tree(stage.tree)
        publish(stage.tree, stage.remote)
        yield stage, index


def stock(index: Index, names: frozenset[str] | None = None) -> None:
    """Fill the index with packages of the stack `current`: all, or those that are named."""
    site = stacks.executable(
        Checkout.here().lock("current"), Checkout.here().interpreter("3.14")
    ).parents[1]
    (packages,) = site.glob("lib/python3*/site-packages")
    for result in distributions(path=[str(packages)]):
        name = canonicalize_name(result.metadata["Name"])
        if names is None or name in names:
            filename, content = repack(result, packages)
            index.files[filename] = (name, LONG_AGO, content)


def repack(found: Distribution, packages: Path) -> tuple[str, bytes]:
    """Make a wheel of an installed distribution; return its file's name and content."""
    tag = re.findall(r"^Tag: (\S+)$", found.read_text("WHEEL") or "", re.MULTILINE)[0]
    listed = [
        file
        for file in found.files or ()
        if file.parts[0] != ".." and "__pycache__" not in file.parts
    ]
    (info,) = {file.parts[0] for file in listed if file.parts[0].endswith(".dist-info")}
    files = {
        str(file): (packages / file).read_bytes()
        for file in listed
        if file.parts[0] != info or file.name not in _LEFT_BEHIND
    }
    return f"{info.removesuffix('.dist-info')}-{tag}.whl", pack(files, info)


def make_tree(root: Path) -> Path:
    shutil.copytree(PROJECT / ".github", root / ".github")
    write(root, "pyproject.toml", HARNESS)
    make_apps(root)
    write(root, "Makefile", MAKEFILE)
    write(root, "README.md", "# A small repository\n")
    write(root, "results/README.md", "# Results\n")
    write(root, ".gitignore", ".venv/\n__pycache__/\n")
    keep(root)
    return root


def make_apps(root: Path) -> None:
    """Lay out the folder of applications, with a lock; `pyproject.toml` is there already."""
    (root / "apps" / "short").mkdir(parents=True)
    shutil.copy(PROJECT / "tests" / "support" / "badapps" / "bare_asgi.py", root / "apps" / "short")
    write(root, "apps/pyproject.toml", _STACKS)
    write(root, "apps/short/short.py", _APP)
    tables = "".join(_ENDPOINT.format(name=name) for name in ENDPOINTS)
    listed = f"endpoint = {json.dumps(ENDPOINTS)}\n"
    write(root, "apps/short/experiment.toml", _EXPERIMENT + listed + tables)
    lock(root)


def lock(root: Path) -> None:
    text = Checkout(root).resolve("current", None)
    stacks.write_lock(root / "apps" / "stacks" / "current.txt", text)


def publish(tree: Path, remote: Path) -> None:
    remote.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", "clone", "--quiet", "--bare", tree, remote], check=True)
    for key in ("allowAnySHA1InWant", "allowFilter"):
        git(remote, "config", f"uploadpack.{key}", "true")
    git(tree, "remote", "add", "origin", f"file://{remote}")
