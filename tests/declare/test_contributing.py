"""The worked example of CONTRIBUTING.md, executed as it stands."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from servebench.core.model import Status
from servebench.host import paths
from servebench.record import store

_PAGE = paths.project_root() / "CONTRIBUTING.md"
_FENCE = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _blocks() -> list[tuple[str, str, str]]:
    return _FENCE.findall(_PAGE.read_text("utf-8"))


def _files() -> dict[str, str]:
    return {name: text for _, name, text in _blocks() if name}


def _commands() -> list[list[str]]:
    (text,) = [text for kind, _, text in _blocks() if kind == "console"]
    return [shlex.split(line.removeprefix("$ ")) for line in text.splitlines()]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with the example's files and nothing else of ours changed."""
    root = paths.project_root()
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(root / "apps", tmp_path / "apps", ignore=ignored)
    shutil.copy(root / "pyproject.toml", tmp_path)
    (tmp_path / "results").mkdir()
    for name, text in _files().items():
        target = tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")
    return tmp_path


def test_the_example_has_an_application_and_a_declaration() -> None:
    assert sorted(_files()) == ["apps/echo/echo.py", "apps/echo/experiment.toml"]
    assert [words[:2] for words in _commands()] == [
        ["servebench", "plan"],
        ["servebench", "run"],
        ["servebench", "show"],
    ]


@pytest.mark.long
@pytest.mark.real
def test_the_example_is_planned_measured_and_shown(checkout: Path) -> None:
    env = {**os.environ, "SERVEBENCH_ROOT": str(checkout), "XDG_STATE_HOME": str(checkout / "st")}
    program = Path(sys.executable).with_name("servebench")
    said = []
    for words in _commands():
        done = subprocess.run(
            [program, *words[1:]],
            env=env, cwd=checkout, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, f"{shlex.join(words)}: {done.stdout}{done.stderr}"
        said.append(done.stdout)
    assert "echo" in said[0]
    assert "echo/py3.14t" in said[1]
    run = store.load(store.runs(checkout / "results")[-1])
    assert [result.case.id for result in run.results] == ["echo/echo/py3.14", "echo/echo/py3.14t"]
    for result in run.results:
        (launch,) = result.launches
        assert launch.status is Status.OK, launch.flags
        assert launch.metrics["good"] == launch.metrics["requests"] > 100
