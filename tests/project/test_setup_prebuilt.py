"""Prebuilt interpreters and load generator: downloaded for real, made of what set-up made."""

import hashlib
import json
import platform
import tarfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer
from rich.console import Console

from bare import QUIET
from duetbench.core.errors import SetupError
from duetbench.host.console import Narrator
from duetbench.project import interpreters, source_builds, tools
from duetbench.project.configuration import Interpreter
from duetbench.project.project import Project
from duetbench.project.schema import OhaSpec

_LEFT_OUT = ("__pycache__", "/test/", "config-3", "libpython3", "idlelib", "tkinter", "made.json")


def offer(interpreter: Interpreter, folder: Path) -> tuple[str, dict[str, object]]:
    """Pack an interpreter as the prebuilt ones are packed; its row in uv's list of downloads."""
    packed = folder / f"{interpreter.name}.tar.gz"

    def keep(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        return None if any(part in member.name for part in _LEFT_OUT) else member

    with tarfile.open(packed, "w:gz", compresslevel=0) as out:
        out.add(interpreter.executable.parent.parent, "python", filter=keep)
    major, minor, patch = map(int, interpreter.version.split("."))
    variant = "freethreaded" if interpreter.free_threaded else None
    key = f"cpython-{interpreter.version}{f'+{variant}' if variant else ''}-linux-"
    return f"{key}{platform.machine()}-gnu", {
        "name": "cpython", "arch": {"family": platform.machine(), "variant": None}, "os": "linux",
        "libc": "gnu", "major": major, "minor": minor, "patch": patch, "prerelease": "",
        "url": packed.as_uri(), "sha256": hashlib.sha256(packed.read_bytes()).hexdigest(),
        "variant": variant, "build": "20260101",
    }  # fmt: skip


@pytest.fixture(scope="module")
def offered(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, object]]:
    """Both interpreters, packed."""
    folder = tmp_path_factory.mktemp("offered")
    return dict(
        offer(Project.here().interpreter(name), folder)
        for name in Project.here().configuration.usual
    )


@pytest.fixture
def downloads(offered: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A list of downloads that has both interpreters, and a cache in which nothing was made."""
    listed = tmp_path / "downloads.json"
    listed.write_text(json.dumps(offered))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("UV_PYTHON_DOWNLOADS_JSON_URL", listed.as_uri())
    monkeypatch.delenv(source_builds.ARCHIVE, raising=False)
    return listed


@pytest.mark.real
def test_prebuilt_ones_are_preferred(downloads: Path) -> None:
    """Both are installed, proven, of one origin, and not asked for again."""
    narrator = Narrator(Console(quiet=True))
    assert interpreters.ensure(Project.here().configuration, narrator)
    found = [Project.here().interpreter(name) for name in Project.here().configuration.usual]
    assert {interpreter.origin for interpreter in found} == {"prebuilt"}
    for interpreter in found:
        spec = Project.here().configuration.interpreters[interpreter.name]
        assert interpreters.mismatch(spec, interpreters.prove(interpreter.executable)) is None
    downloads.unlink()
    assert not interpreters.ensure(Project.here().configuration, narrator)


@pytest.mark.real
def test_one_that_cannot_be_had_spoils_both(
    downloads: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A damaged archive of the second sends all to the source build, the first with it."""
    listed = json.loads(downloads.read_text())
    for row in listed.values():
        if row["variant"]:
            row["sha256"] = "0" * 64
    downloads.write_text(json.dumps(listed))
    built: list[str] = []
    monkeypatch.setattr(interpreters, "_from_source", lambda name, *_: built.append(name))
    assert interpreters.ensure(Project.here().configuration, Narrator(Console(quiet=True)))
    assert built == list(Project.here().configuration.usual)


@dataclass
class Release:
    """A release of oha on a server: the real program, its pins, and what was told."""

    server: HTTPServer
    real: bytes
    spec: OhaSpec

    @property
    def program(self) -> Path:
        """Where it is once it is made."""
        return tools.oha_place(self.spec) / "bin" / "oha"

    def fetch(self) -> bool:
        """Take it, and hear what is told."""
        return tools.fetch_oha(self.spec, QUIET)

    def offer(self, content: bytes) -> None:
        """Answer with that for this machine's file of the release."""
        address = f"/v{self.spec.version}/{file()}"
        self.server.expect_request(address).respond_with_data(content)

    def pin(self, content: bytes) -> None:
        """Expect that content of this machine's file."""
        digest = hashlib.sha256(content).hexdigest()
        self.spec = self.spec.model_copy(update={"prebuilt": {file(): digest}})


def file() -> str:
    """This machine's file of a release."""
    return {"x86_64": "oha-linux-amd64", "aarch64": "oha-linux-arm64"}[platform.machine()]


@pytest.fixture
def release(httpserver: HTTPServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Release:
    """A server in place of GitHub, and a cache in which nothing was made."""
    real = tools.find_oha(Project.here().configuration.oha).read_bytes()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv(tools.RELEASES, httpserver.url_for(""))
    return Release(httpserver, real, Project.here().configuration.oha)


@pytest.mark.real
def test_a_prebuilt_oha_is_taken_proven_and_kept(
    tmp_path: Path, release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real program, through a real download; no compiler and no cargo are needed for it."""
    release.offer(release.real)
    release.pin(release.real)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert tools.ensure_oha(release.spec, QUIET)
    assert tools.version(release.program) == release.spec.version
    assert tools.oha_origin(tools.find_oha(release.spec)) == "prebuilt"
    release.server.clear()  # it is not asked for again
    assert not tools.ensure_oha(release.spec, QUIET)

    # A pin that has changed since is heard; that of the crate alone would be another place.
    release.pin(b"another")
    assert tools.oha_fault(release.spec, tools.oha_place(release.spec)) == (
        "its program is not one of the pinned ones"
    )


@pytest.mark.real
def test_another_file_than_the_pinned_one_is_an_error_and_never_used(release: Release) -> None:
    """Neither kept, nor started, nor built instead as if nothing had been; the way out is named."""
    started = release.program.parents[3] / "started"
    release.offer(f"#!/bin/sh\n: > {started}\necho oha {release.spec.version}\n".encode())
    release.pin(b"what was pinned")
    with pytest.raises(SetupError) as caught:
        release.fetch()
    pinned = hashlib.sha256(b"what was pinned").hexdigest()
    assert f"expected SHA-256 {pinned}, found " in str(caught.value)
    assert f"set {tools.RELEASES} to nothing" in str(caught.value)
    assert not tools.oha_place(release.spec).exists()
    assert not started.exists()
