"""The first step of `make setup`, which has only Python's standard library to work with."""

import importlib.metadata
import os
import shutil
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE, STDOUT, Popen

import pytest

from bench import eventually
from duetbench.host import command, paths

ROOT = paths.project_root()
# Python itself, not that of .venv: an environment made from an environment would depend on it.
PYTHON = Path(sys.base_prefix) / "bin" / "python3"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what the bootstrap needs of a checkout, with nothing made."""
    copy = tmp_path / "checkout"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "scripts", copy / "scripts", ignore=ignored)
    (copy / "docs").mkdir()
    of_package = ("docs/glossary.md", "README.md", "LICENSE")
    for name in ("pyproject.toml", "requirements.txt", *of_package):
        shutil.copy(ROOT / name, copy / name)
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
    return subprocess.run([program, "--help"], capture_output=True, check=False).returncode == 0


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
    result = subprocess.run(
        [sys.executable, "-c", pretend], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert "needs Python 3.11 or newer, and this is 3.9" in result.stderr
    assert "make setup PYTHON=" in result.stderr
    assert "Traceback" not in result.stderr
