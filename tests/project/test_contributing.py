"""The worked example of CONTRIBUTING.md, executed as it stands."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from bench import Bench
from duetbench.core.model import Status
from duetbench.host import paths
from duetbench.store import store
from repos import write

_ROOT = paths.project_root()
_PAGE = _ROOT / "CONTRIBUTING.md"
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
    place = tmp_path / "checkout"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(_ROOT / "apps", place / "apps", ignore=ignored)
    shutil.copy(_ROOT / "pyproject.toml", place)
    (place / "results").mkdir()
    for name, text in _files().items():
        write(place, name, text)
    return place


@pytest.mark.real
def test_the_example_is_planned_measured_and_shown(
    checkout: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUETBENCH_ROOT", str(checkout))
    said = []
    for words in _commands():
        done = bench(*words[1:])
        assert done.code == 0, f"{shlex.join(words)}: {done}"
        said.append(done.out)
    assert "echo" in said[0]
    assert "echo/py3.14t" in said[1]
    run = store.load(store.runs(checkout / "results")[-1])
    assert [result.case.id for result in run.results] == ["echo/echo/py3.14", "echo/echo/py3.14t"]
    for result in run.results:
        (launch,) = result.launches
        assert launch.status is Status.OK, launch.flags
        assert launch.metrics["good"] == launch.metrics["requests"] > 100
