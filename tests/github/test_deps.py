"""The harness's lock and other pins: renewed from their indexes, proposed in one pull request."""

import hashlib
import json
import os
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from acting import REPOSITORY
from bench import Bench
from duetbench.host import paths
from duetbench.project import settings
from duetbench.project.locks import Move, listed, moves, title, versions
from fake_github import FakeGitHub
from repos import commit, git, write
from staging import HARNESS, keep, publish, theatre
from tiny_index import Index

ROOT = paths.project_root()
PROJECT = HARNESS.replace("dev = []", 'dev = ["beta"]')


@dataclass
class Scene:
    """A checkout with a remote, an index and a fake of GitHub; and the command line in it."""

    bench: Bench
    index: Index
    github: FakeGitHub
    root: Path
    remote: Path
    programs: Path

    def renew(self, *options: str) -> dict[str, Any]:
        """Run the verb, as in a process of its own; what it says as JSON."""
        settings.load.cache_clear()
        done = self.bench("ci", "deps", "--json", *options)
        assert done.code == 0, done
        found: dict[str, Any] = json.loads(done.out)
        return found

    def proposed(self) -> str:
        return git(self.remote, "show", "duetbench/deps:requirements.txt")

    def script(self, name: str, text: str) -> None:
        (self.programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (self.programs / name).chmod(0o755)

    def declared(self) -> dict[str, Any]:
        document = tomllib.loads((self.root / "pyproject.toml").read_text())
        found: dict[str, Any] = document["tool"]["duetbench"]
        return found

    def release(self, version: str, programs: dict[str, str]) -> None:
        """What GitHub says of a release of oha."""
        assets = [{"name": name, "digest": f"sha256:{it}"} for name, it in programs.items()]
        path = f"/repos/hatoo/oha/releases/tags/v{version}$"
        self.github.fail(method="GET", path=path, times=-1, status=200, body={"assets": assets})


@pytest.fixture
def scene(tmp_path: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """Two packages, locked in their first versions."""
    with theatre(tmp_path, monkeypatch) as (stage, index):
        monkeypatch.setenv("DUETBENCH_ROOT", str(stage.tree))
        monkeypatch.setenv("GITHUB_REPOSITORY", REPOSITORY)
        monkeypatch.setenv("GITHUB_API_URL", stage.github.url)
        monkeypatch.setenv("GITHUB_TOKEN", "token")
        for name in ("alpha", "beta"):
            index.add(name, "1.0", "2026-01-01")
        write(stage.tree, "pyproject.toml", PROJECT)
        scene = Scene(bench, index, stage.github, stage.tree, stage.remote, tmp_path / "asked")
        assert [move["after"] for move in scene.renew()["moves"]] == ["1.0", "1.0"]
        keep(stage.tree)
        publish(stage.tree, stage.remote)
        yield scene


def test_moves_are_named_in_a_line_and_a_list() -> None:
    """By hand: one package moved, one came, one went; a package may differ by platform."""
    before = "alpha==1.0 \\\n    --hash=sha256:0\nbeta==1.0\nsame==3.0\n"
    after = 'alpha==2.0\nsame==3.0\nzeta==1.0 ; sys_platform == "x"\nzeta==2.0\n'
    found = moves(versions(before), versions(after))
    assert found == (
        Move("alpha", "1.0", "2.0"), Move("beta", "1.0", None), Move("zeta", None, "1.0 and 2.0"),
    )  # fmt: skip
    assert title("Harness", found) == "Harness: alpha 2.0, beta gone, zeta 1.0 and 2.0"
    assert listed(found).splitlines() == [
        "- alpha 1.0 → 2.0", "- beta 1.0 → (gone)", "- zeta (new) → 1.0 and 2.0",
    ]  # fmt: skip
    many = tuple(Move(f"package{n}", "1", "2") for n in range(9))
    assert (
        title("Harness", many)
        == "Harness: package0 2, package1 2, package2 2, package3 2 and 5 more"
    )
    assert len(title("Harness", many)) <= 68
    assert title("Harness", ()) == "Harness: other files of the same versions"


def test_the_lock_is_renewed_and_what_moved_is_told(scene: Scene) -> None:
    """With hashes, and without the address of an index; a second time nothing moves."""
    assert scene.renew() == {"moves": [], "told": [], "proposed": None}
    scene.index.add("alpha", "2.0", "2026-02-01")
    found = scene.renew()
    assert found["moves"] == [{"package": "alpha", "before": "1.0", "after": "2.0"}]
    lock = (scene.root / "requirements.txt").read_text()
    assert re.search(r"^alpha==2\.0 \\\n    --hash=sha256:[0-9a-f]{64}$", lock, re.MULTILINE)
    assert "127.0.0.1" not in lock
    assert not scene.github.state.requests


def test_what_moved_is_proposed_once_and_renewed_while_it_is_open(scene: Scene) -> None:
    """One branch and one pull request; a run that is repeated changes neither."""
    assert scene.renew("--propose") == {"moves": [], "told": [], "proposed": None}
    scene.index.add("alpha", "2.0", "2026-02-01")
    first = scene.renew("--propose")["proposed"]
    (pull,) = scene.github.state.pulls.values()
    assert (first["outcome"], first["url"]) == ("opened", pull["html_url"])
    assert pull["title"] == "Harness: alpha 2.0"
    assert "- alpha 1.0 → 2.0" in pull["body"]
    assert (pull["head"]["ref"], pull["base"]["ref"]) == ("duetbench/deps", "main")
    assert "alpha==2.0" in scene.proposed()
    assert git(scene.remote, "diff", "--name-only", "main", "duetbench/deps") == "requirements.txt"
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
    assert git(scene.remote, "rev-parse", "duetbench/deps~1") == git(
        scene.remote, "rev-parse", "main"
    )


def test_an_index_that_is_not_there_changes_nothing(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (scene.root / "requirements.txt").read_bytes()
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    monkeypatch.setenv("UV_CACHE_DIR", str(scene.root.parent / "another"))
    done = scene.bench("ci", "deps", "--propose")
    assert done.code == 4
    assert "resolving the lock failed" in done.err
    assert (scene.root / "requirements.txt").read_bytes() == before
    assert not scene.github.state.pulls


NEW = {"oha": "1.999.0", "CPython": "3.14.99", "act": "0.999.0", "typescript": "5.999.0"}
CRATE = b"the new crate"
PROGRAMS = {"oha-linux-amd64": "a" * 64, "oha-linux-arm64": "b" * 64}
ARCHIVE = f"pool/main/p/python3.14/python3.14_{NEW['CPython']}.orig.tar.xz"
SUM = f"h1:{'b' * 43}="
# What installs each thing answers with a newer release, of one thing (actionlint) with the same.
CARGO = f"""
printf 'oha #cli\\nversion: {NEW["oha"]}\\nlicense: MIT\\nrust-version: 1.999\\n'
"""
APT = f"""
case "$*" in
*indextargets*) echo http://127.0.0.1:9/debian/ ;;
*print-uris*) echo "'http://127.0.0.1:9/debian/{ARCHIVE}' x.orig.tar.xz 24 SHA512:cafe" ;;
*download-only*) printf 'the new source' > {Path(ARCHIVE).name} ;;
esac
"""
GO = f"""
case "$4" in
*/act@latest) echo '{{"Version": "v{NEW["act"]}", "Sum": "{SUM}"}}' ;;
*) echo '{{"Version": "v{settings.load(ROOT).go_tools["actionlint"].version}", "Sum": "x"}}' ;;
esac
"""


@pytest.fixture
def pinned(
    scene: Scene, tmp_path: Path, httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> Scene:
    """Our own pins; cargo, apt and Go are stand-ins, npm and uv are real and ask stand-ins."""
    ours = (ROOT / "pyproject.toml").read_text("utf-8")
    tables = ours[ours.index("[tool.duetbench.interpreters") : ours.index("[tool.ruff]")]
    write(scene.root, "pyproject.toml", PROJECT.replace("[tool.duetbench]\n", tables))
    for name in ("package.json", "package-lock.json", ".npmrc"):
        text = (ROOT / "scripts" / "typescript" / name).read_text("utf-8")
        write(scene.root, f"scripts/typescript/{name}", text)
    commit(scene.root, "Pins")
    git(scene.root, "push", "--quiet", "origin", "main")
    crate = tmp_path / "cargo" / "registry" / "cache" / "index" / f"oha-{NEW['oha']}.crate"
    crate.parent.mkdir(parents=True)
    crate.write_bytes(CRATE)
    monkeypatch.setenv("CARGO_HOME", str(tmp_path / "cargo"))
    scene.programs.mkdir()
    monkeypatch.setenv("PATH", f"{scene.programs}:/usr/bin:/bin")
    for name, text in (("cargo", CARGO), ("apt-get", APT), ("go", GO)):
        scene.script(name, text)
    prebuilt = tmp_path / "downloads.json"
    prebuilt.write_text(json.dumps(dict(_row(kind) for kind in (None, "freethreaded"))))
    monkeypatch.setenv("UV_PYTHON_DOWNLOADS_JSON_URL", prebuilt.as_uri())
    monkeypatch.setenv("npm_config_registry", httpserver.url_for("/"))
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "npm"))
    current = json.loads((scene.root / "scripts/typescript/package.json").read_text())
    for name, version in current["devDependencies"].items():
        listed = [version, "5.999.0", "999.0.0"] if name == "typescript" else [version]
        document = {"name": name, "dist-tags": {"latest": listed[-1]}}
        document["versions"] = {
            each: {
                "name": name, "version": each,
                "dist": {"tarball": httpserver.url_for(f"/{name}.tgz"), "shasum": "0" * 40}}
            for each in listed
        }  # fmt: skip
        httpserver.expect_request(f"/{name}").respond_with_json(document)
    return scene


def _row(variant: str | None) -> tuple[str, dict[str, object]]:
    """A prebuilt interpreter for this machine, as uv lists them."""
    machine = os.uname().machine
    key = f"cpython-{NEW['CPython']}{f'+{variant}' if variant else ''}-linux-{machine}-gnu"
    numbers = zip(("major", "minor", "patch"), map(int, NEW["CPython"].split(".")), strict=True)
    return key, {
        **dict(numbers), "name": "cpython", "arch": {"family": machine, "variant": None},
        "os": "linux", "libc": "gnu", "prerelease": "", "url": "http://127.0.0.1:9/x.tar.gz",
        "sha256": "0" * 64, "variant": variant, "build": "20260101",
    }  # fmt: skip


def test_every_pin_is_renewed_with_its_checksum_in_the_same_pull_request(pinned: Scene) -> None:
    """Nothing else of the file changes, and it is for the branch that is the remote's default."""
    before = (pinned.root / "pyproject.toml").read_text()
    old = settings.load(ROOT)
    pinned.release(NEW["oha"], {**PROGRAMS, "oha-windows-amd64.exe": "d" * 64})
    git(pinned.remote, "branch", "trunk", "main")
    git(pinned.remote, "symbolic-ref", "HEAD", "refs/heads/trunk")
    found = pinned.renew("--propose")
    assert {move["package"]: move["after"] for move in found["moves"]} == NEW
    assert found["told"] == [f"oha {NEW['oha']} needs Rust 1.999, not 1.88"]

    declared = pinned.declared()
    assert {spec["version"] for spec in declared["interpreters"].values()} == {NEW["CPython"]}
    ((version, build),) = declared["source-build"].items()
    assert (version, build["archive"], build["sha256"]) == (
        NEW["CPython"], ARCHIVE, hashlib.sha256(b"the new source").hexdigest(),
    )  # fmt: skip
    assert build["cflags"] == old.source_build[next(iter(old.source_build))].cflags
    crate = hashlib.sha256(CRATE).hexdigest()
    assert declared["oha"] == {"version": NEW["oha"], "sha256": crate, "prebuilt": PROGRAMS}
    assert (declared["go-tools"]["act"]["version"], declared["go-tools"]["act"]["sum"]) == (
        NEW["act"], SUM,
    )  # fmt: skip
    after = (pinned.root / "pyproject.toml").read_text()
    changed = [pair for pair in zip(before.splitlines(), after.splitlines(), strict=True)
               if pair[0] != pair[1]]  # fmt: skip
    assert len(changed) == 2 + 3 + 4 + 2  # interpreters, their archive, oha, act
    settings.load.cache_clear()
    settings.load(pinned.root)  # and it is a declaration still

    lock = (pinned.root / "scripts/typescript/package-lock.json").read_text()
    assert json.loads(lock)["packages"]["node_modules/typescript"]["version"] == NEW["typescript"]
    assert "127.0.0.1" not in lock

    (pull,) = pinned.github.state.pulls.values()
    assert pull["base"]["ref"] == "trunk"
    assert f"- CPython {next(iter(old.source_build))} → {NEW['CPython']}" in pull["body"]
    assert "needs Rust 1.999" in pull["body"]
    assert git(pinned.remote, "diff", "--name-only", "main", "duetbench/deps").split() == [
        "pyproject.toml", "scripts/typescript/package-lock.json", "scripts/typescript/package.json",
    ]  # fmt: skip


def test_what_cannot_be_asked_stays_as_it_is_and_is_told(
    pinned: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each by itself: the others are renewed. GitHub is asked in a workflow only."""
    monkeypatch.delenv("GITHUB_TOKEN")
    pinned.script(
        "apt-get", 'case "$*" in *update*) echo E: no such suite; exit 100;; esac\n' + APT
    )
    pinned.script("go", "echo no route >&2; exit 1")
    before = pinned.declared()
    found = pinned.renew()
    assert [move["package"] for move in found["moves"]] == ["typescript"]
    assert pinned.declared() == before
    oha, cpython, act, actionlint = found["told"]
    assert oha.startswith("oha stays as it is: the checksums of its programs are GitHub's to say")
    assert "sid: apt-get failed; it said: E: no such suite; devel: " in cpython
    assert act == "act stays as it is: go failed; it said: no route"
    assert actionlint.startswith("actionlint stays as it is")


def test_an_interpreter_that_is_not_prebuilt_yet_waits(pinned: Scene) -> None:
    """Both ways have to lead to the same release; and a mirror may be behind its own index."""
    downloads = pinned.programs.parent / "downloads.json"
    downloads.write_text(json.dumps(dict([_row(None)])))
    pinned.release(NEW["oha"], PROGRAMS)
    found = pinned.renew()
    assert "CPython" not in {move["package"] for move in found["moves"]}
    assert f"{NEW['CPython']} is out, but uv has no prebuilt 3.14t of it yet" in found["told"][-1]

    downloads.write_text(json.dumps(dict(_row(kind) for kind in (None, "freethreaded"))))
    pinned.script("apt-get", APT.replace("printf", "echo E: Failed to fetch it; exit 100; printf"))
    before = pinned.declared()
    assert pinned.renew()["told"][-1].endswith("apt-get failed; it said: E: Failed to fetch it")
    assert pinned.declared() == before


@pytest.mark.parametrize("programs", [{}, {**PROGRAMS, "oha-linux-arm64": "no digest"}])
def test_a_release_without_checksums_is_not_taken(pinned: Scene, programs: dict[str, str]) -> None:
    """Neither its crate: a version has one way or the other, and all of its pins."""
    before = pinned.declared()["oha"]
    pinned.release(NEW["oha"], programs)
    told = pinned.renew()["told"]
    assert "has no checksum of " in told[0]
    assert pinned.declared()["oha"] == before


def test_programs_that_changed_since_they_were_pinned_are_told(pinned: Scene) -> None:
    """The pinned release is the newest, and GitHub states other checksums than ours."""
    spec = settings.load(ROOT).oha
    pinned.script("cargo", CARGO.replace(NEW["oha"], spec.version))
    crate = next((pinned.programs.parent / "cargo").rglob("*.crate"))
    crate.rename(crate.with_name(f"oha-{spec.version}.crate"))
    pinned.release(spec.version, spec.prebuilt)
    assert pinned.renew()["told"] == []
    pinned.github.faults.clear()
    pinned.release(spec.version, PROGRAMS)
    (told,) = pinned.renew()["told"]
    assert "has other programs than those that are pinned" in told
