"""Whatever is missing, set-up ends in one sentence that says what to do."""

from __future__ import annotations

import http.server
import io
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from servebench import interpreters, paths, settings, setup, stacks
from servebench.errors import SetupError
from servebench.progress import Narrator
from servebench.toolchain import archive, artefact, command, cpython, oha, source

NOBODY = "http://127.0.0.1:9"  # the discard port, where nothing listens


@pytest.fixture
def narrator() -> Narrator:
    return Narrator(Console(quiet=True))


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache in which nothing was made."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "servebench"


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proxies that nobody listens on: every request for the network is refused at once."""
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, NOBODY)
        monkeypatch.setenv(name.upper(), NOBODY)
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def tools_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with nothing on it but what a test puts there."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def script(folder: Path, name: str, text: str) -> None:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)


@pytest.fixture
def web(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A real web server and the folder that it serves."""
    folder = tmp_path / "web"
    folder.mkdir()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: object, **kwargs: object) -> None:
            super().__init__(*args, directory=str(folder), **kwargs)  # type: ignore[arg-type]

        def log_message(self, *_args: object) -> None:
            """Keep quiet."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", folder
    server.shutdown()
    thread.join()
    server.server_close()


def recipe(content: bytes, path: str = "pool/python.tar") -> settings.SourceBuild:
    import hashlib

    return settings.SourceBuild(
        archive=path, sha256=hashlib.sha256(content).hexdigest(), cflags="-O3", configure=()
    )


def test_missing_headers_are_named_with_their_packages(tools_only: Path) -> None:
    """Headers are looked for before a build that would fail a minute later; as is make."""
    script(tools_only, "cc", "read line; case $line in *openssl*) exit 1;; esac")
    headers, make = source.faults()
    assert "Python's ssl are missing: install libssl-dev" in headers
    assert "make is needed to build CPython, and is not on PATH" in make
    script(tools_only, "make", "exit 0")
    script(tools_only, "cc", "exit 0")
    assert source.faults() == []


@pytest.mark.usefixtures("offline")
def test_all_that_is_missing_is_told_at_once_before_anything_is_built(
    empty_cache: Path, tools_only: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With nothing prebuilt in reach: tools, a cargo that is only a shim, and room, each once."""
    monkeypatch.delenv(archive.VARIABLE, raising=False)
    monkeypatch.setenv("UV_OFFLINE", "1")
    script(tools_only, "cargo", "echo error: no override and no default toolchain set >&2; exit 1")
    configured = settings.load()
    vast = configured.model_copy(update={"setup": settings.SetupSpec(disk_gb=1e9)})
    monkeypatch.setattr(settings, "load", lambda _root=None: vast)
    heard = io.StringIO()
    with pytest.raises(SetupError) as caught:
        setup.set_up(Narrator(Console(file=heard, width=1000)))
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
    assert "prebuilt interpreters cannot be had" in heard.getvalue()
    assert "a prebuilt oha 1.16.0 cannot be had" in heard.getvalue()
    assert not [*empty_cache.glob("downloads/*"), *empty_cache.glob("building/*")]


@pytest.mark.usefixtures("tools_only")
def test_no_cargo() -> None:
    """Without cargo the load generator cannot be built, and the sentence says so."""
    assert re.match(
        "cargo is needed to build the load generator oha.*Rust", oha.faults(settings.load())[0]
    )


@pytest.mark.parametrize(
    ("says", "told"),
    [
        ("echo cargo 1.63.0", r"needs Rust 1\.88 or newer, found .*/cargo: 1\.63\.0\. With rustup"),
        ("echo cargo 1.87.0-nightly", r"1\.88 or newer, found .*/cargo: 1\.87\.0-nightly"),
        ("exit 1", r"found .*/cargo: it does not say its version\. With rustup"),
    ],
)
def test_a_rust_that_is_too_old(tools_only: Path, says: str, told: str) -> None:
    """With what is needed and what to do."""
    script(tools_only, "cargo", says)
    assert re.search(told, oha.faults(settings.load())[0])


def test_a_rust_that_is_new_enough(tools_only: Path) -> None:
    """The oldest that will do, which the documentation names as well, and later ones."""
    script(tools_only, "cc", "exit 0")
    for release in ("1.88.0", "1.101.0-beta.2 (f2d3ce0bd 2026-03-21)", "2.0.0"):
        script(tools_only, "cargo", f"echo cargo '{release}'")
        assert oha.faults(settings.load()) == []
    assert f"cargo (Rust ≥ {oha.RUST})" in (paths.project_root() / "README.md").read_text("utf-8")


@pytest.mark.usefixtures("offline")
def test_cargo_without_network(
    empty_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, narrator: Narrator
) -> None:
    """The real cargo, cut off, ends in a sentence about the network."""
    monkeypatch.setenv("CARGO_NET_RETRY", "0")
    home = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    monkeypatch.setenv("RUSTUP_HOME", os.environ.get("RUSTUP_HOME", str(home.parent / ".rustup")))
    monkeypatch.setenv("CARGO_HOME", str(tmp_path / "cargo"))  # without what was fetched before
    with pytest.raises(SetupError, match=r"building oha failed.*network.*what is done is kept"):
        oha.build(settings.load().oha, narrator)
    assert not list((empty_cache / "tools").glob("oha-*"))


def test_another_crate_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crate in cargo's cache that has not the pinned checksum stops the build."""
    spec = settings.load().oha
    crate = tmp_path / "registry" / "cache" / "index" / f"oha-{spec.version}.crate"
    crate.parent.mkdir(parents=True)
    crate.write_bytes(b"something else")
    monkeypatch.setenv("CARGO_HOME", str(tmp_path))
    with pytest.raises(SetupError, match=f"expected SHA-256 {spec.sha256}, found "):
        oha.require_crate(spec)


def test_a_changed_oha_is_noticed(tmp_path: Path) -> None:
    """A program that is not the one that was built is a fault, before it is started."""
    program = tmp_path / "bin" / "oha"
    program.parent.mkdir()
    script(program.parent, "oha", "echo oha 1.16.0")
    (tmp_path / artefact.STAMP).write_text('{"sha256": "0"}')
    assert oha.fault(settings.load().oha, tmp_path) == "its program is not the one that was made"


def test_a_cache_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, narrator: Narrator
) -> None:
    """A cache below something that is no folder ends in a sentence with the remedy."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(SetupError, match=r"Not a directory: .*set XDG_CACHE_HOME"):
        setup.set_up(narrator)


def test_what_tools_say_is_shown_as_it_is() -> None:
    """Brackets in a compiler's output are no mark-up, on a terminal either."""
    heard = io.StringIO()
    with Narrator(Console(file=heard, force_terminal=True)).step("building", "why") as tick:
        tick("[/50%] [bold")
    assert "building: done in 0 s" in heard.getvalue()


def test_no_space(tmp_path: Path) -> None:
    """A disk that is too small is refused before the build, with the figures and the remedy."""
    with pytest.raises(
        SetupError, match=r"GB free, and building needs 1e\+09 GB: make room, or set XDG_CACHE_HOME"
    ):
        command.require_space(tmp_path / "not" / "yet" / "there", 1e9)
    command.require_space(tmp_path, 1e-9)


def test_no_network_for_a_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, narrator: Narrator
) -> None:
    """The real uv, offline and with an empty cache, ends in a sentence about the network."""
    interpreter = interpreters.locate("3.14")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    with pytest.raises(SetupError, match=r"installing stack current for 3\.14 failed.*network"):
        stacks.make_environment(stacks.read("current"), interpreter, narrator)


def test_archive_from_a_path_is_taken_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, narrator: Narrator
) -> None:
    """A downloaded archive can be named; once kept it is not needed again."""
    given = tmp_path / "given.tar"
    given.write_bytes(b"source")
    monkeypatch.setenv(archive.VARIABLE, str(given))
    kept = archive.fetch(recipe(b"source"), tmp_path / "kept", narrator)
    assert kept.read_bytes() == b"source"
    given.unlink()
    assert archive.fetch(recipe(b"source"), tmp_path / "kept", narrator) == kept


def test_archive_with_another_checksum_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, narrator: Narrator
) -> None:
    """A wrong archive is not kept, and the sentence has both checksums."""
    given = tmp_path / "given.tar"
    given.write_bytes(b"tampered")
    monkeypatch.setenv(archive.VARIABLE, str(given))
    with pytest.raises(SetupError, match=r"expected SHA-256 [0-9a-f]{64}, found [0-9a-f]{64}"):
        archive.fetch(recipe(b"source"), tmp_path / "kept", narrator)
    assert [p.name for p in (tmp_path / "kept").iterdir()] == [".python.tar.lock"]


def test_archive_comes_from_the_mirrors_of_apt(
    tmp_path: Path,
    web: tuple[str, Path],
    tools_only: Path,
    monkeypatch: pytest.MonkeyPatch,
    narrator: Narrator,
) -> None:
    """The bases that apt names are tried, security archives last, until one has it.

    Some machines, as GitHub's, name a file that lists them, with their priorities.
    """
    address, folder = web
    monkeypatch.delenv(archive.VARIABLE, raising=False)
    (folder / "debian" / "pool").mkdir(parents=True)
    (folder / "debian" / "pool" / "python.tar").write_bytes(b"source")
    script(
        tools_only,
        "apt-get",
        f"echo {address}/debian-security/; echo cdrom:/x; echo {address}/other; "
        f"echo {address}/debian/; echo {address}/debian/",
    )
    assert archive.mirrors() == (
        f"{address}/other",
        f"{address}/debian/",
        f"{address}/debian-security/",
    )
    (tmp_path / "mirrors").write_text(f"{address}/first/\tpriority:1\n{address}/debian/\n")
    script(tools_only, "apt-get", f"echo mirror+file:{tmp_path}/mirrors/; echo mirror+file:/none/")
    assert archive.mirrors() == (f"{address}/first/", f"{address}/debian/")
    kept = archive.fetch(recipe(b"source"), tmp_path / "kept", narrator)
    assert kept.read_bytes() == b"source"


def test_archive_that_no_mirror_has(
    tmp_path: Path,
    web: tuple[str, Path],
    tools_only: Path,
    monkeypatch: pytest.MonkeyPatch,
    narrator: Narrator,
) -> None:
    """The sentence says what was tried, how it ended, and that a copy can be named."""
    monkeypatch.delenv(archive.VARIABLE, raising=False)
    script(tools_only, "apt-get", f"echo {web[0]}/debian/; echo {NOBODY}/debian/")
    with pytest.raises(SetupError) as caught:
        archive.fetch(recipe(b"source"), tmp_path / "kept", narrator)
    sentence = str(caught.value)
    assert "answered 404" in sentence
    assert "no connection" in sentence
    assert f"set {archive.VARIABLE} to a copy" in sentence


@pytest.mark.usefixtures("tools_only")
def test_archive_without_apt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, narrator: Narrator
) -> None:
    """A machine without apt gets the same remedy."""
    monkeypatch.delenv(archive.VARIABLE, raising=False)
    with pytest.raises(SetupError, match=f"apt names no mirror.*set {archive.VARIABLE}"):
        archive.fetch(recipe(b"source"), tmp_path / "kept", narrator)


@pytest.mark.usefixtures("offline")
def test_a_bare_machine_without_network(
    empty_cache: Path, narrator: Narrator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole set-up, offline and with nothing made: prebuilt fails fast, then the archive."""
    monkeypatch.delenv(archive.VARIABLE, raising=False)
    monkeypatch.setattr(oha, "faults", lambda _configured: [])
    monkeypatch.setenv("UV_OFFLINE", "1")
    with pytest.raises(SetupError, match=r"source archive .* cannot be had"):
        setup.set_up(narrator)
    assert paths.cache_dir() == empty_cache
    assert not list(empty_cache.glob("interpreters/*/3.14*"))


@pytest.mark.usefixtures("empty_cache")
def test_interpreters_are_all_of_one_origin(
    narrator: Narrator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the second prebuilt one cannot be had, all are built from source, the first too."""
    configured = settings.load()
    asked: list[str] = []

    def prebuilt(name: str, *_args: object) -> None:
        asked.append(name)
        if name == "3.14t":
            raise SetupError("not to be had")

    built: list[str] = []
    monkeypatch.delenv(archive.VARIABLE, raising=False)
    monkeypatch.setattr(cpython, "_install_prebuilt", prebuilt)
    monkeypatch.setattr(cpython, "_from_source", lambda name, *_: built.append(name))
    assert cpython.ensure(configured, narrator)
    assert asked == ["3.14", "3.14t"]
    assert built == ["3.14", "3.14t"]


def test_only_what_is_built_needs_a_recipe(
    empty_cache: Path, narrator: Narrator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without its source archive a version can be declared; that it cannot be built is told."""
    text = (paths.project_root() / "pyproject.toml").read_text()
    (tmp_path / "pyproject.toml").write_text(text.replace('build."3.14.7"', 'build."3.14.6"'))
    configured = settings.load(tmp_path)
    assert not empty_cache.exists()
    monkeypatch.setenv(archive.VARIABLE, "set")  # prebuilt ones are not asked for
    with pytest.raises(
        SetupError, match=r"interpreter 3\.14: .*source-build\.\"3\.14\.7\"\].*declare"
    ):
        cpython.ensure(configured, narrator)


def test_a_tool_that_fails_is_explained_by_its_own_words(tmp_path: Path) -> None:
    """The first line that calls itself an error is quoted, with the log's place."""
    with pytest.raises(
        command.CommandError,
        match=r"trying failed \(exit code 3\): it said: error: no such thing\. Log: .*log",
    ):
        command.run(
            ["/bin/sh", "-c", "echo working; echo error: no such thing >&2; echo bye; exit 3"],
            what="trying",
            log=tmp_path / "log",
            tick=lambda _line: None,
        )


def test_a_resolvers_reason_is_told(tmp_path: Path) -> None:
    """Beneath its error uv says why: without that, nobody knows which package it is about."""
    said = (
        "error: No solution found when resolving dependencies\n"
        "  cause: Because there is no version of granian==99.99, we can conclude that it fails.\n"
        "\nhint: a hint is left to the log\n"
    )
    (tmp_path / "said").write_text(said)
    with pytest.raises(command.CommandError) as caught:
        command.run(
            ["/bin/sh", "-c", f"cat {tmp_path}/said; exit 1"],
            what="resolving stack current",
            log=tmp_path / "log",
            tick=lambda _line: None,
        )
    assert str(caught.value) == (
        "resolving stack current failed (exit code 1): it said: error: No solution found when "
        "resolving dependencies: Because there is no version of granian==99.99, we can conclude "
        f"that it fails. Log: {tmp_path}/log"
    )
    (tmp_path / "said").write_text("error: Failed\n" + "  cause: many words\n" * 99)
    with pytest.raises(command.CommandError, match=r"many words;[^…]* …\. Log") as caught:
        command.run(
            ["/bin/sh", "-c", f"cat {tmp_path}/said; exit 1"],
            what="trying",
            log=tmp_path / "other",
            tick=lambda _line: None,
        )
    assert len(str(caught.value)) < 800


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        ("curl: (6) Could not resolve host: x", "the network or the index cannot be reached"),
        ("error sending request: dns error", "the network or the index cannot be reached"),
        ("write failed: No space left on device", "the disk is full"),
    ],
)
def test_known_causes_are_recognised(tmp_path: Path, words: str, cause: str) -> None:
    """Network and disk troubles of any tool get their remedy."""
    with pytest.raises(command.CommandError, match=cause):
        command.run(
            ["/bin/sh", "-c", f"echo '{words}'; exit 1"],
            what="trying",
            log=tmp_path / "log",
            tick=lambda _line: None,
        )


def test_a_program_that_cannot_be_started(tmp_path: Path) -> None:
    """A path without a program is an error of ours, not a traceback."""
    with pytest.raises(command.CommandError, match=r"trying"):
        command.run(
            [tmp_path / "nothing"], what="trying", log=tmp_path / "log", tick=lambda _line: None
        )
