"""Interpreters and load generator, built from source or prebuilt: real builds and downloads."""

import hashlib
import io
import platform
import tarfile
from pathlib import Path
from typing import Final

import pytest
from pytest_httpserver import HTTPServer

from bare import QUIET, Programs
from duetbench.app import interpreters, tools
from duetbench.app.declarations import OhaSpec
from duetbench.core.errors import SetupError
from duetbench.host.console import Narrator
from observatory.matrix import declared_interpreters
from observatory.matrix.checkout import Checkout
from observatory.matrix.source_builds import SourceBuild, build_oha, mirrors, source_archive
from repos import write

RECIPE: Final = SourceBuild(
    archive="pool/python.tar",
    cflags="-O3",
    configure=("--without-x",),
    sha256=hashlib.sha256(b"source").hexdigest(),
)

CONFIGURE: Final = """#!/bin/sh
for word; do case $word in --prefix=*) home=${word#*=};; esac; done
printf 'all:\\n\\techo "$(CFLAGS) %s" >program\\ninstall:\\n\\tmkdir -p $(DESTDIR)%s/bin\\n' \\
    "$*" "$home" >Makefile
printf '\\tcp program $(DESTDIR)%s/bin/python\\n' "$home" >>Makefile
"""
"""A source whose program is a text: the options that built it."""

VERSION: Final = '[ "$1" = --version ] && { echo cargo 1.99.0; exit; }\n'
CARGO: Final = f"""{VERSION}
for word; do last=$word; [ "$word" = 1.16.0 ] && version=$word; done
/bin/mkdir "$last/bin" && printf '#!/bin/sh\\necho oha %s' "$version" >"$last/bin/oha"
/bin/chmod +x "$last/bin/oha"
"""


@pytest.fixture
def oha(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> OhaSpec:
    """The load generator, of which nothing can be downloaded, and the cache is empty."""
    monkeypatch.setenv(tools.RELEASES, "")
    monkeypatch.setenv("CARGO_HOME", str(empty_cache / "cargo"))
    return Checkout.here().configuration.oha


def test_cpython_is_built_for_its_home(
    empty_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the recipe's flags alone, whatever those of an outer make are; only the result stays."""
    source = empty_cache / "downloads" / "python.tar"
    source.parent.mkdir(parents=True)
    with tarfile.open(source, "w") as out:
        entry = tarfile.TarInfo("Python-3.14.7/configure")
        entry.size, entry.mode = len(CONFIGURE), 0o755
        out.addfile(entry, io.BytesIO(CONFIGURE.encode()))
    monkeypatch.setenv("MAKEFLAGS", "--dry-run")
    folder, home = tmp_path / "folder", tmp_path / "home"
    folder.mkdir()
    sha256 = hashlib.sha256(source.read_bytes()).hexdigest()
    recipe = RECIPE.model_copy(update={"sha256": sha256})
    recipe.build(folder, home, tmp_path / "log", print, free_threaded=True)
    assert [path.name for path in folder.iterdir()] == ["bin"]
    text = (folder / "bin" / "python").read_text()
    assert text == f"-O3 -q --prefix={home} --without-x --disable-gil\n"


def test_oha_is_built_by_its_cargo(
    oha: OhaSpec, programs: Programs, narrator: Narrator, heard: io.StringIO, tmp_path: Path
) -> None:
    """In the pinned version alone; a failing build's words are in the sentence."""
    # As where duetbench is installed from its wheel.
    with pytest.raises(SetupError, match=r"prebuilt oha 1\.16\.0 is not available .* a mirror"):
        tools.ensure_oha(oha, QUIET)
    with pytest.raises(SetupError, match="cargo are needed"):
        tools.ensure_oha(oha, narrator, build_oha)
    assert "it is built from source" in heard.getvalue()
    programs.write("cc", "exit 0")
    programs.write("cargo", f"{VERSION}echo error: no crate; exit 101")
    with pytest.raises(SetupError, match=r"building oha 1\.16\.0 failed .*: error: no crate"):
        tools.ensure_oha(oha, QUIET, build_oha)
    programs.write("cargo", CARGO)
    crate = "registry/cache/index/oha-1.16.0.crate"
    write(tmp_path / "cache/duetbench/cargo", crate, "something else")
    with pytest.raises(SetupError, match=f"expected SHA-256 {oha.sha256}, found "):
        tools.ensure_oha(oha, QUIET, build_oha)
    (tmp_path / "cache/duetbench/cargo" / crate).unlink()
    assert tools.ensure_oha(oha, QUIET, build_oha)
    assert tools.oha_origin(tools.find_oha(oha)) == "source"


def test_archive_comes_from_the_mirrors_of_apt(
    empty_cache: Path, httpserver: HTTPServer, programs: Programs
) -> None:
    """The bases that apt names are tried until one has the right file.

    Where none has it the sentence says how the last one ended, and where a copy is taken from, with
    the pinned checksum only. What is there is not asked for again.
    """
    archive = empty_cache / "downloads" / "python.tar"
    remedy = f"put a copy .* at {archive}"
    with pytest.raises(SetupError, match=f"{remedy}.* no mirror"):
        source_archive(RECIPE, print)
    address = httpserver.url_for("")
    for path, content, status in (("none", b"", 404), ("false", b"bad", 200)):
        answer = httpserver.expect_request(f"/{path}/pool/python.tar")
        answer.respond_with_data(content, status=status)
        programs.write("apt-get", f"echo {address}/{path}/")
        archive.write_bytes(b"tampered")
        with pytest.raises(SetupError, match=f"{remedy}.*downloading CPython's source failed"):
            source_archive(RECIPE, print)

    httpserver.expect_request("/debian/pool/python.tar").respond_with_data(b"source")
    names = ("false", "debian/", "debian/")
    programs.write("apt-get", "; ".join(f"echo {address}/{name}" for name in names))
    assert mirrors() == (f"{address}/false", f"{address}/debian/")
    assert source_archive(RECIPE, print).read_bytes() == b"source"
    programs.write("apt-get", "exit 1")
    assert source_archive(RECIPE, print) == archive


@pytest.mark.usefixtures("empty_cache")
@pytest.mark.parametrize("damaged", ["3.14t", ""])
def test_interpreters_are_prebuilt_or_all_are_built_from_source(
    damaged: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two that were made in different ways would compare compilers."""
    declared, made = Checkout.here().declared, list[str]()

    def make(name: str, origin: str, *_: object) -> None:
        made.append(origin)
        if origin == "prebuilt" and name == damaged:
            raise SetupError("hash mismatch")

    monkeypatch.setattr(declared_interpreters, "_make", make)
    monkeypatch.setattr(declared_interpreters, "require_compiler", bool)
    assert declared_interpreters.ensure(declared, QUIET)
    usual = len(declared.usual)
    assert made == ["prebuilt"] * usual + ["source"] * (usual if damaged else 0)


@pytest.mark.real
def test_what_was_installed_is_proven_and_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = Checkout.here().declared
    usual, free = (Checkout.here().interpreter(name) for name in ("3.14", "3.14t"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def download(program: Path) -> None:
        monkeypatch.setattr(declared_interpreters, "_download", lambda *_: program)
        declared_interpreters._make("3.14t", "prebuilt", declared, QUIET)

    with pytest.raises(SetupError, match="not right: free_threaded is False instead of True"):
        download(usual.executable)
    download(free.executable)
    target = declared_interpreters.place("3.14t", "prebuilt", declared)
    made = free.model_copy(update={"origin": "prebuilt"})
    assert interpreters.read("3.14t", target) == made
    (target / "made.json").unlink()
    assert interpreters.read("3.14t", target) is None


FILE: Final = {"x86_64": "oha-linux-amd64", "aarch64": "oha-linux-arm64"}[platform.machine()]
"""This machine's file of a release."""


def pin(spec: OhaSpec, content: bytes) -> OhaSpec:
    digest = hashlib.sha256(content).hexdigest()
    return spec.model_copy(update={"prebuilt": {FILE: digest}})


@pytest.mark.real
def test_a_prebuilt_oha_is_taken_if_it_is_the_pinned_one(
    httpserver: HTTPServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a real download, without compiler and cargo; another file is neither kept nor started."""
    spec, started = Checkout.here().configuration.oha, tmp_path / "started"
    real = tools.find_oha(spec).read_bytes()
    other = f"#!/bin/sh\n: > {started}\necho oha 1.16.0\n".encode()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv(tools.RELEASES, httpserver.url_for(""))
    for content in (other, real):
        httpserver.expect_ordered_request(f"/v{spec.version}/{FILE}").respond_with_data(content)
    wanted = pin(spec, real)
    with pytest.raises(SetupError) as caught:
        tools.ensure_oha(wanted, QUIET)
    assert f"expected SHA-256 {wanted.prebuilt[FILE]}, found " in str(caught.value)
    assert f"set {tools.RELEASES} to nothing" in str(caught.value)
    assert not tools.oha_place(spec).exists()
    assert tools.ensure_oha(wanted, QUIET)
    assert tools.oha_origin(tools.find_oha(spec)) == "prebuilt"
    assert not tools.ensure_oha(wanted, QUIET)  # it is not asked for again
    # A pin that has changed since is heard; that of the crate alone would be another place.
    assert tools.oha_fault(pin(spec, b"another")) == "its program is not one of the pinned ones"
    assert not started.exists()
