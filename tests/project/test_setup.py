"""Set-up: real builds and downloads; what it made is right, and a second time it only looks."""

import hashlib
import importlib.metadata
import io
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from subprocess import PIPE, STDOUT, Popen
from typing import Final

import filelock
import pytest
from pytest_httpserver import HTTPServer

from bare import QUIET, Programs
from bench import PROJECT, Bench, eventually, execute
from duetbench.app import interpreters, tools
from duetbench.app.declarations import OhaSpec
from duetbench.core.errors import DeclarationError, SetupError, UsageError
from duetbench.host import cache, command, paths
from duetbench.host.console import Narrator
from observatory.cli.setup import setup_command
from observatory.matrix import declared_interpreters
from observatory.matrix.checkout import Checkout
from observatory.matrix.declared_interpreters import InterpreterSpec
from observatory.matrix.experiments import load_stacks
from observatory.matrix.sides import unmeasurable
from observatory.matrix.source_builds import SourceBuild, build_oha, mirrors, source_archive
from repos import write
from synthetic import make_case


@pytest.mark.real
@pytest.mark.usefixtures("offline")
def test_a_second_set_up_only_checks_and_needs_no_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Everything is ready: nothing is made, and `uv` has nothing left to take from.

    What is declared counts as used, so that it stays, however long ago it was measured with. Where
    others' packages may not run as oneself, their environments are not looked at.
    """
    used: list[Path] = []
    monkeypatch.setattr(cache, "touch", used.append)
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "empty"))
    parts = {"tools": "oha 1.16.0", "interpreters": "interpreters 3.14, 3.14t (",
             "environments": "stack "}  # fmt: skip
    for no_stacks in (True, False):
        used.clear()
        setup_command(no_stacks=no_stacks)
        output = capsys.readouterr().out
        assert "installed: " not in output
        kinds = {place.relative_to(paths.cache_dir()).parts[0] for place in used}
        assert kinds == {kind for kind in parts if f"ready and checked: {parts[kind]}" in output}
        assert ("environments" in kinds, len(kinds)) == (not no_stacks, 3 - no_stacks)


@pytest.mark.parametrize("mark", [".git", "pyproject.toml", "requirements.txt"])
def test_another_project_is_never_taken_for_ours(
    mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the working directory lies in a repository that declares nothing, it is that one."""
    inner = tmp_path / "shop" / "src"
    inner.mkdir(parents=True)
    if mark == ".git":
        # Not even where the repository around it declares something.
        (tmp_path / "pyproject.toml").write_text("[tool.duetbench]\n")
    (inner.parent / mark).touch()
    monkeypatch.delenv("DUETBENCH_ROOT", raising=False)
    monkeypatch.chdir(inner)
    assert paths.project_root() == inner.parent
    with pytest.raises(DeclarationError, match=rf"^{inner.parent}/apps/pyproject\.toml: file"):
        load_stacks(paths.project_root())
    monkeypatch.chdir("/")
    assert paths.project_root() == PROJECT  # to read, or to look at the machine
    with pytest.raises(UsageError, match=r"^/ is in no repository: change into"):
        paths.project_root(stand_in=False)


@pytest.mark.real
def test_a_machine_that_is_set_up(bench: Bench) -> None:
    """All is ok, exit code 0; GIL states, versions, checksums and cores are in the JSON."""
    bench.patch.chdir(PROJECT)
    bench.patch.setenv("COLUMNS", "200")
    report = json.loads(bench.done("doctor", "--json"))
    assert report["ready"]
    version = Checkout.here().configuration.oha.version
    assert re.match(rf"oha {re.escape(version)}: /", report["facts"]["load generator"])
    assert report["machine"]["server_cores"]
    text = bench("doctor").out
    assert text.startswith("Ready to measure\n")
    assert "\n  frequency governor: " in text
    assert re.search(r"\n  load: \d+ % of the core time is used now\n", text)


@pytest.mark.long
@pytest.mark.usefixtures("offline")
def test_an_interpreter_that_cannot_be_made_leaves_its_cases_unmeasured(narrator: Narrator) -> None:
    """A JIT where nothing is prebuilt: the reason is what its cases have."""
    project = Checkout.here()
    jit = InterpreterSpec(version="3.14.7", free_threaded=False, jit=True, optional=True)
    interpreters = {**project.declared.usual, "3.14-jit": jit}
    vars(project)["declared"] = project.declared.model_copy(update={"interpreters": interpreters})
    lost = unmeasurable([make_case("x/y/py3.14-jit", python="3.14-jit")], project, narrator)
    assert list(lost) == ["x/y/py3.14-jit"]
    assert "3.14-jit cannot be built from source" in lost["x/y/py3.14-jit"]


def environment(shelf: Path, name: str, days: float) -> Path:
    """An environment that was last used so many days ago."""
    place = shelf / f"{name}-py3.14-000000000001"
    for file in (cache.STAMP, "bin/python"):
        write(place, file, "{}")
    for path in (*place.rglob("*"), place):
        os.utime(path, (time.time() - days * 86_400,) * 2)
    return place


def test_what_nothing_has_used_for_a_month_goes(empty_cache: Path, tmp_path: Path) -> None:
    """When another is made; not what is being made, or lies in somebody else's cache."""
    shelf = empty_cache / "environments"
    ages = {"young": 29, "old": 31, "busy": 99, "used": 99}
    young, old, busy, used = (environment(shelf, name, days) for name, days in ages.items())
    cache.touch(used)
    (staging := shelf / ".making-b-1-1").mkdir()
    os.utime(staging, (0, 0))
    elsewhere = environment(tmp_path / "elsewhere", "c", 99)
    (shelf / elsewhere.name).symlink_to(elsewhere)
    with filelock.FileLock(shelf / f".{busy.name}.lock"):
        assert cache.make(shelf / "new", build=lambda _: {}, say=print)
    there = [young, busy, used, staging, elsewhere]
    assert [path.is_dir() for path in (*there, old)] == [True] * 5 + [False]


# The first step of `make setup` has only Python's standard library to work with.

# Python itself, not that of .venv: an environment made from an environment would depend on it.
PYTHON = Path(sys.base_prefix) / "bin" / "python3"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what the bootstrap needs of a checkout, with nothing made."""
    copy = tmp_path / "checkout"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PROJECT / "scripts", copy / "scripts", ignore=ignored)
    (copy / "docs").mkdir()
    of_package = ("docs/glossary.md", "README.md", "LICENSE")
    for name in ("pyproject.toml", "requirements.txt", *of_package):
        shutil.copy(PROJECT / name, copy / name)
    home = tmp_path / f"cache/duetbench/uv-{importlib.metadata.version('uv')}/bin"
    home.mkdir(parents=True)
    (home / "uv").symlink_to(command.uv())
    return copy


WATCHED = """
import os, runpy
exists = os.path.exists
os.sync = lambda: print("written:", exists(".venv/bin/duetbench"), exists(".venv/duetbench-made"))
runpy.run_path("scripts/bootstrap.py", run_name="__main__")
"""


def start(checkout: Path) -> Popen[str]:
    """Start it without network, with what uv has in its cache, and with a cache of our own."""
    fetched = subprocess.check_output([command.uv(), "cache", "dir"], text=True).strip()
    own = {"XDG_CACHE_HOME": f"{checkout.parent}/cache", "UV_OFFLINE": "1", "UV_CACHE_DIR": fetched}
    argv, env = [str(PYTHON), "-c", WATCHED], os.environ | own
    return Popen(argv, cwd=checkout, env=env, stdout=PIPE, stderr=STDOUT, text=True)


def said(process: Popen[str]) -> str:
    """What it says until it ends well."""
    heard, _ = process.communicate(timeout=300)
    assert process.returncode == 0, heard
    assert "Traceback" not in heard
    return heard


@pytest.mark.thorough
@pytest.mark.real
def test_it_makes_the_environment_once_and_then_only_checks(checkout: Path) -> None:
    """Two at once both end well, and then nothing is said, or changed."""
    heard = "".join(map(said, [start(checkout), start(checkout)]))
    assert heard.count("making .venv") == 1
    assert heard.count("written: True False") == 1  # to the disk, before the stamp says so
    assert heard.count("another set-up is at work: waiting for it") == 1
    venv = checkout / ".venv"
    stamp, works = venv / "duetbench-made", [venv / "bin" / "duetbench", "--help"]
    assert execute(works).returncode == 0
    made = stamp.stat().st_mtime_ns
    assert said(start(checkout)) == ""
    assert stamp.stat().st_mtime_ns == made

    # What somebody removed by hand is put back; killed meanwhile, it leaves nothing whole.
    for pattern in ("cyclopts", "cyclopts-*.dist-info"):
        shutil.rmtree(next(venv.glob(f"lib/python*/site-packages/{pattern}")))
    killed = start(checkout)
    eventually("a new environment", lambda: not stamp.exists())
    killed.kill()
    killed.communicate()
    assert not stamp.exists()
    assert "installing the harness's locked packages" in said(start(checkout))
    assert execute(works).returncode == 0


def test_an_old_python_is_refused_with_the_remedy() -> None:
    """The script parses on older Pythons, and says which it needs and how to name another."""
    pretend = (
        "import sys, runpy; sys.version_info = (3, 9, 2, 'final', 0);"
        "runpy.run_path('scripts/bootstrap.py', run_name='__main__')"
    )
    result = execute([sys.executable, "-c", pretend], cwd=PROJECT)
    assert result.returncode == 1
    assert "needs Python 3.11 or newer, and this is 3.9" in result.stderr
    assert "make setup PYTHON=" in result.stderr
    assert "Traceback" not in result.stderr


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


def test_cpython_is_built_for_its_home_from_the_mirrors_of_apt(
    empty_cache: Path, tmp_path: Path, httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bases that apt names are tried until one has the right file.

    Where none has it the sentence says how the last one ended, and where a copy is taken from, with
    the pinned checksum only. It is built by the recipe's flags alone, whatever those of an outer
    make are, and only the result stays. What is there is not asked for again.
    """
    with tarfile.open(tmp_path / "source", "w") as out:
        entry = tarfile.TarInfo("Python-3.14.7/configure")
        entry.size, entry.mode = len(CONFIGURE), 0o755
        out.addfile(entry, io.BytesIO(CONFIGURE.encode()))
    source = (tmp_path / "source").read_bytes()
    recipe = SourceBuild(
        archive="pool/python.tar", cflags="-O3", configure=("--without-x",),
        sha256=hashlib.sha256(source).hexdigest(),
    )  # fmt: skip
    (programs := Programs(tmp_path / "bin")).folder.mkdir()
    monkeypatch.setenv("PATH", str(programs.folder), prepend=os.pathsep)
    monkeypatch.setenv("MAKEFLAGS", "--dry-run")
    folder, home, address = tmp_path / "folder", tmp_path / "home", httpserver.url_for("")
    archive = empty_cache / "downloads" / "python.tar"
    for name, content, status in (("none", b"", 404), ("false", b"bad", 200), ("", source, 200)):
        answer = httpserver.expect_request(f"/{name}/pool/python.tar".replace("//", "/"))
        answer.respond_with_data(content, status=status)
    for names, words in (([], "no mirror"), (["none/"], "failed"), (["false"], "failed")):
        programs.write("apt-get", "; ".join(f"echo {address}{name}" for name in names))
        with pytest.raises(SetupError, match=f"put a copy .* at {archive}.* {words}"):
            source_archive(recipe, print)
        archive.write_bytes(b"tampered")
    programs.write("apt-get", f"echo {address}false; echo {address}; echo {address}")
    assert mirrors() == (f"{address}false", address)
    for _ in range(2):
        folder.mkdir()
        recipe.build(folder, home, tmp_path / "log", print, free_threaded=True)
        assert [path.name for path in folder.iterdir()] == ["bin"]
        text = (folder / "bin" / "python").read_text()
        assert text == f"-O3 -q --prefix={home} --without-x --disable-gil\n"
        programs.write("apt-get", "exit 1")
        shutil.rmtree(folder)


def test_oha_is_built_by_its_cargo(
    empty_cache: Path, programs: Programs, narrator: Narrator, heard: io.StringIO,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """In the pinned version alone; a failing build's words are in the sentence."""
    monkeypatch.setenv(tools.RELEASES, "")
    monkeypatch.setenv("CARGO_HOME", str(empty_cache / "cargo"))
    oha = Checkout.here().configuration.oha
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
    write(empty_cache, crate := "cargo/registry/cache/index/oha-1.16.0.crate", "something else")
    with pytest.raises(SetupError, match=f"expected SHA-256 {oha.sha256}, found "):
        tools.ensure_oha(oha, QUIET, build_oha)
    (empty_cache / crate).unlink()
    assert tools.ensure_oha(oha, QUIET, build_oha)


@pytest.mark.usefixtures("empty_cache")
@pytest.mark.parametrize("damaged", ["3.14t", ""])
def test_interpreters_are_prebuilt_or_all_are_built_from_source(
    damaged: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two that were made in different ways would compare compilers."""
    declared, made = Checkout.here().declared, list[str]()

    def make(name: str, origin: str, *_: object) -> None:
        made.append(f"{origin} {name}")
        if made[-1] == f"prebuilt {damaged}":
            raise SetupError("hash mismatch")

    def read(name: str, place: Path) -> Path | None:
        known = f"{place.parent.name.partition('-')[0]} {name}"
        return place if known in made and known != f"prebuilt {damaged}" else None

    monkeypatch.setattr(declared_interpreters, "_make", make)
    monkeypatch.setattr(declared_interpreters, "require_compiler", bool)
    monkeypatch.setattr(interpreters, "read", read)
    assert declared_interpreters.ensure(declared, QUIET)
    origins = ["prebuilt", "source"] if damaged else ["prebuilt"]
    assert made == [f"{origin} {name}" for origin in origins for name in declared.usual]
    assert f"/{origins[-1]}-" in str(declared_interpreters.locate("3.14", declared))


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
    target = declared_interpreters.place("3.14t", "prebuilt", declared)
    assert not target.exists()
    download(free.executable)
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
    assert not tools.ensure_oha(wanted, QUIET)  # it is not asked for again
    # A pin that has changed since is heard; that of the crate alone would be another place.
    assert tools.oha_fault(pin(spec, b"another")) == "its program is not one of the pinned ones"
    assert not started.exists()
