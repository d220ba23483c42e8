"""Set-up of the whole: what it made is right, and the second time it only looks."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from duetbench.core.errors import SetupError, UsageError
from duetbench.host import paths
from duetbench.project import configuration, interpreters
from duetbench.project.project import Project
from repos import borrow_cache

ROOT = paths.project_root()
DUETBENCH = [sys.executable, "-c", "from duetbench.cli import main; main()"]


def without_network(tmp_path: Path) -> tuple[list[str], dict[str, str]]:
    """Command prefix and environment in which nothing outside can be reached."""
    nobody = "http://127.0.0.1:9"
    env = dict(os.environ)
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        env[name] = env[name.upper()] = nobody
    env.pop("no_proxy", None)
    env.pop("NO_PROXY", None)
    env["UV_CACHE_DIR"] = str(tmp_path / "empty")  # nor has uv anything left to take from
    if os.geteuid() == 0 and shutil.which("unshare"):
        alone = ["unshare", "--net"]
        if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode == 0:
            return alone, env
    return [], env


def set_up(*words: str, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.real
def test_a_second_set_up_only_checks_and_needs_no_network(tmp_path: Path) -> None:
    """Everything is ready: nothing is made, and no network is there to reach for."""
    prefix, env = without_network(tmp_path)
    *optional, line = set_up(*prefix, *DUETBENCH, "setup", env=env).splitlines()
    assert all(" is not installed" in sentence for sentence in optional), "valgrind, without root"
    assert re.match(
        r"ready and checked: interpreters 3\.14, 3\.14t \((prebuilt|source)\); stack ", line
    )
    assert re.search(r"; oha 1\.16\.0 \((prebuilt|source)\); ", line)


@pytest.mark.real
def test_the_tools_alone_run_nothing_of_a_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where others' packages may not run as oneself, no environment of them is made."""
    place = borrow_cache(tmp_path, monkeypatch)
    shutil.rmtree(place / "environments")
    heard = set_up(*DUETBENCH, "setup", "--no-stacks")
    assert re.search(r"interpreters 3\.14, 3\.14t \(\w+\); oha ", heard)
    assert "stack" not in heard
    assert not (place / "environments").exists()


@pytest.mark.real
def test_an_interpreter_that_lies_or_is_none_is_found_out(tmp_path: Path) -> None:
    """The 3.14 with the GIL does not pass for the free-threaded one, and the sentence says why."""
    proof = interpreters.prove(Project.here().interpreter("3.14").executable)
    assert interpreters.mismatch(Project.here().configuration.interpreters["3.14t"], proof) == (
        "free_threaded is False instead of True; gil is True instead of False"
    )
    for program in (Path("/bin/true"), tmp_path / "python"):
        with pytest.raises(SetupError, match="does not run"):
            interpreters.prove(program)


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
    sentence = rf"^{inner.parent} declares nothing to measure \(no apps.*CONTRIBUTING\.md$"
    with pytest.raises(UsageError, match=sentence):
        configuration.stacks(paths.project_root())
    monkeypatch.chdir("/")
    assert paths.project_root() == ROOT  # to read, or to look at the machine
    with pytest.raises(UsageError, match=r"^/ is in no repository: change into"):
        paths.project_root(stand_in=False)
    # Declared, and nothing there that could be measured.
    (inner.parent / "pyproject.toml").write_text("[tool.duetbench]\n")
    with pytest.raises(UsageError, match=r"\(no apps/pyproject\.toml\)"):
        configuration.stacks(inner.parent)
