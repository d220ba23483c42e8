"""The harness's own lock: renewed from an index, and proposed in one pull request."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bench import Bench
from fake_github import FakeGitHub, State
from repos import commit, git, write
from servebench.harnesslock import Move, listed, moves, title
from tiny_index import Index, serving

PROJECT = """\
[project]
name = "harness"
version = "0"
requires-python = ">=3.11"
dependencies = ["alpha"]

[dependency-groups]
dev = ["beta"]

[tool.servebench]
"""


@dataclass
class Scene:
    """A checkout with a remote, an index and a fake of GitHub; and the command line in it."""

    bench: Bench
    index: Index
    github: FakeGitHub
    root: Path
    remote: Path

    def renew(self, *options: str) -> dict[str, Any]:
        """Run the verb; what it says as JSON."""
        done = self.bench("deps", "--json", *options)
        assert done.code == 0, done
        found: dict[str, Any] = json.loads(done.out)
        return found

    def proposed(self) -> str:
        """The lock on the branch of the pull request."""
        return git(self.remote, "show", "servebench/deps:requirements.txt")


@pytest.fixture
def scene(tmp_path: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """Two packages, locked in their first versions."""
    root, remote = tmp_path / "checkout", tmp_path / "remote.git"
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        monkeypatch.setenv(name, "/dev/null")
    for name in ("UV_FIND_LINKS", "UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    with serving() as index, FakeGitHub(State(repository="owner/name")) as github:
        monkeypatch.setenv("UV_DEFAULT_INDEX", f"{index.address}/simple")
        monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
        monkeypatch.setenv("SERVEBENCH_ROOT", str(root))
        monkeypatch.setenv("GITHUB_REPOSITORY", "owner/name")
        monkeypatch.setenv("GITHUB_API_URL", github.url)
        monkeypatch.setenv("GITHUB_TOKEN", "token")
        for name in ("alpha", "beta"):
            index.add(name, "1.0", "2026-01-01")
        write(root, "pyproject.toml", PROJECT)
        git(tmp_path, "init", "--quiet", "--initial-branch=main", str(root))
        scene = Scene(bench, index, github, root, remote)
        assert [move["after"] for move in scene.renew()["moves"]] == ["1.0", "1.0"]
        commit(root, "Everything")
        subprocess.run(["git", "clone", "--quiet", "--bare", root, remote], check=True)
        git(root, "remote", "add", "origin", str(remote))
        yield scene


def test_moves_are_named_in_a_line_and_a_list() -> None:
    """By hand: one package moved, one came, one went; a package may differ by platform."""
    before = "alpha==1.0 \\\n    --hash=sha256:0\nbeta==1.0\nsame==3.0\n"
    after = 'alpha==2.0\nsame==3.0\nzeta==1.0 ; sys_platform == "x"\nzeta==2.0\n'
    found = moves(before, after)
    assert found == (
        Move("alpha", "1.0", "2.0"), Move("beta", "1.0", None), Move("zeta", None, "1.0 and 2.0"),
    )  # fmt: skip
    assert title(found) == "Harness: alpha 2.0, beta gone, zeta 1.0 and 2.0"
    assert listed(found).splitlines() == [
        "- alpha 1.0 → 2.0", "- beta 1.0 → (gone)", "- zeta (new) → 1.0 and 2.0",
    ]  # fmt: skip
    many = tuple(Move(f"package{n}", "1", "2") for n in range(9))
    assert title(many) == "Harness: package0 2, package1 2, package2 2, package3 2 and 5 more"
    assert len(title(many)) <= 68
    assert title(()) == "Harness: other files of the same versions"


def test_the_lock_is_renewed_and_what_moved_is_told(scene: Scene) -> None:
    """With hashes, and without the address of an index; a second time nothing moves."""
    assert scene.renew() == {"moves": [], "proposed": None}
    scene.index.add("alpha", "2.0", "2026-02-01")
    found = scene.renew()
    assert found["moves"] == [{"package": "alpha", "before": "1.0", "after": "2.0"}]
    lock = (scene.root / "requirements.txt").read_text()
    assert re.search(r"^alpha==2\.0 \\\n    --hash=sha256:[0-9a-f]{64}$", lock, re.MULTILINE)
    assert "127.0.0.1" not in lock
    assert not scene.github.state.requests


def test_what_moved_is_proposed_once_and_renewed_while_it_is_open(scene: Scene) -> None:
    """One branch and one pull request; a run that is repeated changes neither."""
    assert scene.renew("--propose") == {"moves": [], "proposed": None}
    scene.index.add("alpha", "2.0", "2026-02-01")
    first = scene.renew("--propose")["proposed"]
    (pull,) = scene.github.state.pulls.values()
    assert (first["outcome"], first["url"]) == ("opened", pull["html_url"])
    assert pull["title"] == "Harness: alpha 2.0"
    assert "- alpha 1.0 → 2.0" in pull["body"]
    assert (pull["head"]["ref"], pull["base"]["ref"]) == ("servebench/deps", "main")
    assert "alpha==2.0" in scene.proposed()
    assert git(scene.remote, "diff", "--name-only", "main", "servebench/deps") == "requirements.txt"
    assert git(scene.root, "symbolic-ref", "--short", "HEAD") == "main"

    git(scene.root, "checkout", "--quiet", "--", "requirements.txt")
    again = scene.renew("--propose")["proposed"]
    assert (again["outcome"], again["commit"]) == ("unchanged", first["commit"])

    scene.index.add("beta", "3.0", "2026-03-01")
    git(scene.root, "checkout", "--quiet", "--", "requirements.txt")
    third = scene.renew("--propose")["proposed"]
    assert (third["outcome"], third["url"]) == ("renewed", first["url"])
    (pull,) = scene.github.state.pulls.values()
    assert pull["title"] == "Harness: alpha 2.0, beta 3.0"
    assert "beta==3.0" in scene.proposed()
    assert git(scene.remote, "rev-parse", "servebench/deps~1") == git(
        scene.remote, "rev-parse", "main"
    )


def test_what_moved_is_proposed_for_the_branch_that_is_checked_out(scene: Scene) -> None:
    """Whatever the default branch is called; on none it has to be named."""
    git(scene.root, "branch", "--move", "master")
    git(scene.root, "push", "--quiet", "origin", "master")
    scene.index.add("alpha", "2.0", "2026-02-01")
    scene.renew("--propose")
    (pull,) = scene.github.state.pulls.values()
    assert pull["base"]["ref"] == "master"
    git(scene.root, "checkout", "--quiet", "--detach")
    done = scene.bench("deps", "--propose")
    assert done.code == 2
    assert "is on no branch: name the one that it is for with --base" in done.err


def test_an_index_that_is_not_there_changes_nothing(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sentence, exit code 1, and the lock as it was."""
    before = (scene.root / "requirements.txt").read_bytes()
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    monkeypatch.setenv("UV_CACHE_DIR", str(scene.root.parent / "another"))
    done = scene.bench("deps", "--propose")
    assert done.code == 4
    assert "resolving the lock failed" in done.err
    assert (scene.root / "requirements.txt").read_bytes() == before
    assert not scene.github.state.pulls
