"""The first step of `make setup`, which has only Python's standard library to work with."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from servebench import paths, tools

ROOT = paths.project_root()
# Python itself, not that of .venv: an environment made from an environment would depend on it.
PYTHON = Path(sys.base_prefix) / "bin" / "python3"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what the bootstrap needs of a checkout, with nothing made."""
    copy = tmp_path / "checkout"
    copy.mkdir()
    for name in ("pyproject.toml", "requirements.txt", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy / name)
    shutil.copytree(
        ROOT / "scripts", copy / "scripts", ignore=shutil.ignore_patterns("__pycache__")
    )
    return copy


def environment(tmp_path: Path) -> dict[str, str]:
    """The locked uv on PATH, what it fetched in its cache, no network, a cache of our own."""
    return {
        **os.environ,
        "PATH": f"{tools.uv().parent}:/usr/bin:/bin",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "UV_CACHE_DIR": os.environ.get("UV_CACHE_DIR") or uv_cache(),
        "UV_OFFLINE": "1",
    }


def uv_cache() -> str:
    done = subprocess.run([tools.uv(), "cache", "dir"], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def start(
    checkout: Path, tmp_path: Path, python: str | Path = PYTHON, **env: str
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [python, "scripts/bootstrap.py"],
        cwd=checkout,
        env=environment(tmp_path) | env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def works(checkout: Path) -> bool:
    done = subprocess.run(
        [checkout / ".venv" / "bin" / "servebench", "--help"],
        cwd=checkout,
        capture_output=True,
        check=False,
    )
    return done.returncode == 0


def test_it_makes_the_environment_and_then_only_checks(checkout: Path, tmp_path: Path) -> None:
    """First all is installed and `servebench` works; then nothing is said, or changed."""
    first = start(checkout, tmp_path)
    heard, _ = first.communicate(timeout=300)
    assert first.returncode == 0, heard
    assert works(checkout)
    stamp = checkout / ".venv" / "servebench-made.json"
    made = stamp.stat().st_mtime_ns
    second = start(checkout, tmp_path)
    assert second.communicate(timeout=60)[0] == ""
    assert second.returncode == 0
    assert stamp.stat().st_mtime_ns == made

    # What somebody removed by hand is put back.
    shutil.rmtree(next((checkout / ".venv").glob("lib/python*/site-packages/typer")))
    shutil.rmtree(next((checkout / ".venv").glob("lib/python*/site-packages/typer-*.dist-info")))
    third = start(checkout, tmp_path)
    heard, _ = third.communicate(timeout=60)
    assert "installing the harness's locked packages" in heard
    assert works(checkout)


def test_with_the_environment_itself_on_path_nothing_is_made_anew(
    checkout: Path, tmp_path: Path
) -> None:
    """As after activating it: `python3` is its own, and so would be the uv that fills it."""
    first = start(checkout, tmp_path)
    heard, _ = first.communicate(timeout=300)
    assert first.returncode == 0, heard
    own = checkout / ".venv" / "bin"
    stamp = checkout / ".venv" / "servebench-made.json"
    made = stamp.stat().st_mtime_ns
    activated = {"PATH": f"{own}:{environment(tmp_path)['PATH']}", "VIRTUAL_ENV": str(own.parent)}
    # By another name of the same Python, of its own environment, and back.
    pythons = [PYTHON.with_name(f"python3.{sys.version_info.minor}"), own / "python3", PYTHON]
    for python in pythons:
        again = start(checkout, tmp_path, python, **activated)
        assert again.communicate(timeout=60)[0] == "", python
        assert again.returncode == 0
    assert stamp.stat().st_mtime_ns == made

    # Even where it has to be made anew, the uv that goes with it is not the one that makes it.
    stamp.unlink()
    anew = start(checkout, tmp_path, own / "python3", **activated)
    heard, _ = anew.communicate(timeout=300)
    assert (anew.returncode, heard.count("making .venv")) == (0, 1), heard
    assert works(checkout)


def test_two_at_once_and_one_killed(checkout: Path, tmp_path: Path) -> None:
    """Killed in the middle it leaves nothing that looks whole; two at once both end well."""
    killed = start(checkout, tmp_path)
    deadline = time.monotonic() + 60
    while not list((checkout / ".venv").glob("lib/python*/site-packages/*")):
        assert time.monotonic() < deadline
        time.sleep(0.005)
    killed.kill()
    killed.communicate()
    assert not (checkout / ".venv" / "servebench-made.json").exists()

    both = [start(checkout, tmp_path), start(checkout, tmp_path)]
    heard = "".join(process.communicate(timeout=300)[0] for process in both)
    assert [process.returncode for process in both] == [0, 0], heard
    assert heard.count("making .venv") == 1
    # The second waits for the first; both may have to wait for what the killed one had started.
    assert heard.count("another set-up is at work on the same: waiting for it") in {1, 2}
    assert works(checkout)


def test_an_old_python_is_refused_with_the_remedy() -> None:
    """The script parses on older Pythons, and says which it needs and how to name another."""
    pretend = (
        "import sys, runpy; sys.version_info = (3, 9, 2, 'final', 0);"
        "runpy.run_path('scripts/bootstrap.py', run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", pretend], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "needs Python 3.11 or newer, and this is 3.9" in done.stderr
    assert "make setup PYTHON=" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_network_and_with_nothing_cached(checkout: Path, tmp_path: Path) -> None:
    """One sentence that names the network and the remedy, no traceback, nothing stamped."""
    env = {**environment(tmp_path), "UV_CACHE_DIR": str(tmp_path / "empty")}
    done = subprocess.run(
        [PYTHON, "scripts/bootstrap.py"],
        cwd=checkout,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "check the network and the proxy settings" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (checkout / ".venv" / "servebench-made.json").exists()


def test_without_uv_and_without_an_index(checkout: Path, tmp_path: Path) -> None:
    """When pip cannot get uv, the sentence is of the same kind."""
    env = {**environment(tmp_path), "PATH": "/usr/bin:/bin", "PIP_NO_INDEX": "1"}
    env.pop("PIP_FIND_LINKS", None)
    done = subprocess.run(
        [PYTHON, "scripts/bootstrap.py"],
        cwd=checkout,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == "fetching uv, which installs everything else\n"
    assert "check the network" in done.stderr
    assert "Traceback" not in done.stderr
