"""Whatever is missing, set-up ends in one sentence that says what to do."""

import hashlib
import io
import os
import re
from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer

from bare import NOBODY, QUIET, Programs
from duetbench.cli.setup import set_up
from duetbench.core.errors import SetupError
from duetbench.host import cache, paths
from duetbench.host.console import Narrator
from duetbench.measure import assembly
from duetbench.project import interpreters, tools
from duetbench.project.configuration import SourceBuild
from duetbench.project.project import Project
from duetbench.project.schema import InterpreterSpec
from duetbench.project.tools import ensure_valgrind
from synthetic import make_case


@pytest.mark.usefixtures("offline")
def test_all_that_is_missing_is_told_at_once_before_anything_is_built(
    empty_cache: Path,
    programs: Programs,
    heard: io.StringIO,
    narrator: Narrator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With nothing prebuilt in reach: tools, a cargo that is only a shim, and room, each once."""
    programs.write("cargo", "echo error: no override and no default toolchain set >&2; exit 1")
    monkeypatch.setattr(tools, "ROOM_GB", 1e9)
    with pytest.raises(SetupError) as caught:
        set_up(Project.here(), narrator)
    first, *faults = str(caught.value).splitlines()
    assert first == "5 things are missing, so nothing was built:"
    expected = (
        "git is needed to say what is measured",
        "cc is needed to compile what has to be built",
        "make is needed to build CPython",
        "GB free, and building needs 1e+09 GB",
        "it does not say its version. With rustup",
    )
    assert all(part in fault for part, fault in zip(expected, faults, strict=True)), faults
    assert "prebuilt interpreters are not available" in heard.getvalue()
    assert "a prebuilt oha 1.16.0 is not available" in heard.getvalue()
    assert not [*empty_cache.glob("downloads/*"), *empty_cache.glob("building/*")]


@pytest.mark.usefixtures("offline")
def test_an_interpreter_without_its_compiler_leaves_its_cases_unmeasured(
    narrator: Narrator,
) -> None:
    """A JIT without its LLVM: nothing is built for it, and the reason is what its cases have."""
    project = Project.here()
    configured, recipe = project.configuration, project.configuration.source_build["3.14.7"]
    jit = InterpreterSpec(version="3.14.7", free_threaded=False, jit=True, optional=True)
    update = {
        "interpreters": {**configured.usual, "3.14-jit": jit},
        "source_build": {"3.14.7": recipe.model_copy(update={"llvm": ("999", "998")})},
    }
    configured = configured.model_copy(update=update)
    cases = [make_case(f"x/y/py{name}", python=name) for name in ("3.14", "3.14-jit")]
    lost = assembly.unattainable(cases, lambda _: configured, project.lock, narrator)
    assert list(lost) == ["x/y/py3.14-jit"]
    assert "the JIT of 3.14-jit is built by clang and" in lost["x/y/py3.14-jit"]
    assert "LLVM 999 or 998, which are missing: install clang-999" in lost["x/y/py3.14-jit"]


@pytest.mark.parametrize(
    ("says", "told"),
    [
        ("", r"^cargo is needed to build the load generator oha.*Rust"),
        ("echo cargo 1.63.0", r"needs Rust 1\.88 or newer, found .*/cargo: 1\.63\.0\. With rustup"),
        ("exit 1", r"found .*/cargo: it does not say its version\. With rustup"),
        ("echo cargo '1.101.0-beta.2 (f2d3ce0bd 2026-03-21)'", ""),
    ],
)
def test_a_rust_that_is_missing_or_too_old(programs: Programs, says: str, told: str) -> None:
    """With what is needed, which the documentation names as well, and what to do."""
    programs.write("cc", "exit 0")
    if says:
        programs.write("cargo", says)
    found = tools.oha_faults(Project.here().configuration.oha)
    assert re.search(told, found[0]) if told else found == []
    page = paths.project_root() / "docs" / "install.md"
    assert f"cargo (Rust ≥ {tools.RUST})" in page.read_text("utf-8")


def test_another_crate_or_program_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crate in cargo's cache stops the build; a changed program is noticed unstarted."""
    spec = Project.here().configuration.oha
    crate = tmp_path / "registry" / "cache" / "index" / f"oha-{spec.version}.crate"
    crate.parent.mkdir(parents=True)
    crate.write_bytes(b"something else")
    monkeypatch.setenv("CARGO_HOME", str(tmp_path))
    with pytest.raises(SetupError, match=f"expected SHA-256 {spec.sha256}, found "):
        tools.require_crate(spec)
    (tmp_path / "bin").mkdir()
    Programs(tmp_path / "bin").write("oha", "echo oha 1.16.0")
    (tmp_path / cache.STAMP).write_text('{"sha256": "0"}')
    assert tools.oha_fault(spec, tmp_path) == "its program is not the one that was installed"


def fetched(tmp_path: Path) -> Path:
    """Ask for an archive with the content `source`."""
    digest = hashlib.sha256(b"source").hexdigest()
    recipe = SourceBuild(archive="pool/python.tar", sha256=digest, cflags="-O3", configure=())
    return interpreters.source_archive(recipe, tmp_path / "kept", QUIET)


def test_archive_from_a_path_is_taken_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the pinned checksum only, else both are told; once kept it is not needed again."""
    given = tmp_path / "given.tar"
    given.write_bytes(b"tampered")
    monkeypatch.setenv(interpreters.ARCHIVE, str(given))
    with pytest.raises(SetupError, match=r"expected SHA-256 [0-9a-f]{64}, found [0-9a-f]{64}"):
        fetched(tmp_path)
    assert [p.name for p in (tmp_path / "kept").iterdir()] == [".python.tar.lock"]
    given.write_bytes(b"source")
    kept = fetched(tmp_path)
    assert kept.read_bytes() == b"source"
    given.unlink()
    assert fetched(tmp_path) == kept


@pytest.mark.usefixtures("empty_cache")
def test_archive_comes_from_the_mirrors_of_apt(
    tmp_path: Path, httpserver: HTTPServer, programs: Programs
) -> None:
    """The bases that apt names are tried, security archives last, until one has it.

    Some machines, as GitHub's, name a file that lists them, with their priorities. Where none has
    it the sentence says what was tried, how it ended, and that a copy can be named.
    """
    with pytest.raises(SetupError, match=f"apt names no mirror.*set {interpreters.ARCHIVE}"):
        fetched(tmp_path)
    address = httpserver.url_for("")
    tried = f"echo {address}/none/; echo {NOBODY}/debian/"
    httpserver.expect_request("/none/pool/python.tar").respond_with_data(b"", status=404)
    programs.write("apt-get", tried)
    told = f"answered 404.*no connection.*set {interpreters.ARCHIVE} to a copy"
    with pytest.raises(SetupError, match=told):
        fetched(tmp_path)

    httpserver.expect_request("/debian/pool/python.tar").respond_with_data(b"source")
    names = ("debian-security/", "other", "debian/", "debian/")
    programs.write("apt-get", "; ".join(f"echo {address}/{name}" for name in names))
    assert interpreters._mirrors() == (
        f"{address}/other", f"{address}/debian/", f"{address}/debian-security/",
    )  # fmt: skip
    assert fetched(tmp_path).read_bytes() == b"source"


@pytest.mark.usefixtures("empty_cache")
@pytest.mark.parametrize(("apt", "uid"), [(True, 1000), (False, 0)])
def test_what_may_not_be_installed_is_told(
    programs: Programs,
    heard: io.StringIO,
    narrator: Narrator,
    monkeypatch: pytest.MonkeyPatch,
    apt: bool,
    uid: int,
) -> None:
    """Without root, and without apt, one sentence has the command; apt-get is not called."""
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    if apt:
        programs.write("apt-get", f"echo called > {programs.folder}/called")
    assert ensure_valgrind(narrator) is None
    assert heard.getvalue() == (
        "valgrind is not installed; duetbench counts instructions with it: "
        "`apt-get install --no-install-recommends valgrind`\n"
    )
    assert programs.read("called") is None


@pytest.mark.usefixtures("empty_cache")
def test_a_failing_installation_is_no_error(
    programs: Programs, heard: io.StringIO, narrator: Narrator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without network apt fails: its words are in the sentence, and set-up goes on."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    programs.write("apt-get", "echo 'E: Temporary failure: could not resolve host'; exit 100")
    assert ensure_valgrind(narrator) is None
    sentence = heard.getvalue().splitlines()[-1]
    assert sentence.startswith(
        "valgrind is not installed (apt-get update failed (exit code 100): the network"
    )
    assert sentence.endswith("with it: `apt-get install --no-install-recommends valgrind`")


@pytest.mark.usefixtures("empty_cache")
def test_in_ci_sudo_makes_us_root(
    programs: Programs, narrator: Narrator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hosted machine's user may become root without a password; nobody else is asked to."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    made = programs.folder / "valgrind"
    programs.write("sudo", f'echo "$1 $2 $3" > {made.parent}/asked; shift 3; exec "$@"')
    programs.write("apt-get", f"printf '#!/bin/sh\\n' > {made}; /bin/chmod +x {made}")
    monkeypatch.delenv("CI", raising=False)
    assert ensure_valgrind(narrator) is None
    assert programs.read("asked") is None
    monkeypatch.setenv("CI", "true")
    assert ensure_valgrind(narrator) is True
    asked = "--non-interactive env DEBIAN_FRONTEND=noninteractive\n"
    assert programs.read("asked") == asked
