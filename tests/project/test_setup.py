"""Set-up: what it made is right, a second time only looks; what is missing; what is old."""

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from subprocess import PIPE, STDOUT, Popen

import filelock
import pytest

from bench import PROJECT, Bench, eventually, execute
from duetbench.core.errors import UsageError
from duetbench.host import cache, command, paths
from duetbench.host.console import Narrator
from observatory.cli.setup import setup_command
from observatory.matrix.checkout import Checkout
from observatory.matrix.declared_interpreters import InterpreterSpec
from observatory.matrix.experiments import load_stacks
from observatory.matrix.sides import unmeasurable
from repos import borrow_cache, write
from synthetic import make_case


@pytest.mark.real
@pytest.mark.usefixtures("offline")
def test_a_second_set_up_only_checks_and_needs_no_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Everything is ready: nothing is made, and `uv` has nothing left to take from.

    What is declared counts as used, so that it stays, however long ago it was measured with.
    """
    used: list[Path] = []
    monkeypatch.setattr(cache, "touch", used.append)
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "empty"))
    setup_command()
    output = capsys.readouterr().out
    assert "installed: " not in output
    for part in ("oha 1.16.0 (", "interpreters 3.14, 3.14t (", "stack "):
        assert f"ready and checked: {part}" in output
    kinds = {place.relative_to(paths.cache_dir()).parts[0] for place in used}
    assert kinds == {"tools", "interpreters", "environments"}


@pytest.mark.real
def test_the_tools_alone_run_nothing_of_a_stack(bench: Bench) -> None:
    """Where others' packages may not run as oneself, no environment of them is made."""
    place = borrow_cache(bench.folder / "cache", bench.patch)
    shutil.rmtree(place / "environments")
    result = bench("observatory", "setup", "--no-stacks")
    assert re.search(r"oha .*\n.*: interpreters 3\.14, 3\.14t \(\w+\)$", result.out, re.MULTILINE)
    assert "stack" not in result.out + result.err
    assert not (place / "environments").exists()


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
    sentence = rf"^{inner.parent} declares no experiments \(no apps.*CONTRIBUTING\.md;"
    with pytest.raises(UsageError, match=sentence):
        load_stacks(paths.project_root())
    monkeypatch.chdir("/")
    assert paths.project_root() == PROJECT  # to read, or to look at the machine
    with pytest.raises(UsageError, match=r"^/ is in no repository: change into"):
        paths.project_root(stand_in=False)
    # Declared, and nothing there that could be measured.
    (inner.parent / "pyproject.toml").write_text("[tool.duetbench]\n")
    with pytest.raises(UsageError, match=r"\(no apps/pyproject\.toml\)"):
        load_stacks(inner.parent)


@pytest.mark.real
def test_a_machine_that_is_set_up(bench: Bench) -> None:
    """All is ok, exit code 0; GIL states, versions, checksums and cores are in the JSON."""
    bench.patch.chdir(PROJECT)
    bench.patch.setenv("COLUMNS", "200")
    report = json.loads(bench.done("doctor", "--json"))
    assert report["ready"]
    assert report["facts"]["oha"].startswith(Checkout.here().configuration.oha.version)
    assert re.search(r", (prebuilt|source); /", report["facts"]["oha"])
    assert report["machine"]["server_cores"]
    text = bench("doctor").out
    assert text.startswith("Ready to measure\n")
    assert "\n  frequency governor: " in text
    assert re.search(r"\n  load: \d+ % of the core time is used now\n", text)


@pytest.mark.long
@pytest.mark.usefixtures("offline")
def test_an_interpreter_that_cannot_be_made_leaves_its_cases_unmeasured(
    narrator: Narrator,
) -> None:
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


def works(checkout: Path) -> bool:
    program = checkout / ".venv" / "bin" / "duetbench"
    return execute([program, "--help"]).returncode == 0


@pytest.mark.thorough
@pytest.mark.real
def test_it_makes_the_environment_once_and_then_only_checks(checkout: Path) -> None:
    """Two at once both end well, and then nothing is said, or changed."""
    heard = "".join(map(said, [start(checkout), start(checkout)]))
    assert heard.count("making .venv") == 1
    assert heard.count("written: True False") == 1  # to the disk, before the stamp says so
    assert heard.count("another set-up is at work: waiting for it") == 1
    assert works(checkout)
    venv = checkout / ".venv"
    stamp = venv / "duetbench-made"
    made = stamp.stat().st_mtime_ns
    assert said(start(checkout)) == ""
    assert stamp.stat().st_mtime_ns == made

    # What somebody removed by hand is put back; killed meanwhile, it leaves nothing whole.
    for pattern in ("typer", "typer-*.dist-info"):
        shutil.rmtree(next(venv.glob(f"lib/python*/site-packages/{pattern}")))
    killed = start(checkout)
    eventually("a new environment", lambda: not stamp.exists())
    killed.kill()
    killed.communicate()
    assert not stamp.exists()
    assert "installing the harness's locked packages" in said(start(checkout))
    assert works(checkout)


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
