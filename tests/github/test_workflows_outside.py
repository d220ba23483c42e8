"""Another repository benchmarks its own applications: the example of docs/automation.md, run."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acting import MAKEFILE, PROJECT, Acted, Stage, load, need
from duetbench.project import settings
from repos import commit, git, write
from staging import keep, lock, publish, stock, theatre

PAGE = PROJECT / "docs" / "automation.md"
OURS = "duetbench/duetbench"
FENCE = re.compile(r"^```\w+ (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def example() -> dict[str, str]:
    return dict(FENCE.findall(PAGE.read_text("utf-8")))


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Stage, str]]:
    """A repository with the example's files and nothing else; and the commit of ours it names."""
    need("act")
    with theatre(tmp_path, monkeypatch) as (stage, index):
        stock(index)
        ours = tmp_path / "ours"
        shutil.copytree(PROJECT / ".github", ours / ".github")
        write(ours, "Makefile", MAKEFILE)
        revision = keep(ours)
        publish(ours, tmp_path / "remotes" / f"{OURS}.git")
        for name, text in example().items():
            named = text.replace("OWNER/duetbench", OURS).replace("REVISION", revision)
            write(stage.tree, name, named)
        lock(stage.tree)
        keep(stage.tree)
        publish(stage.tree, stage.remote)
        yield stage, revision


def run(stage: Stage, revision: str, event: str, payload: dict[str, Any]) -> Acted:
    ours = {f"{OURS}@{revision}": stage.folder / "ours"}
    return stage.act("benchmark.yml", event, payload, local=ours)


def artifact(stage: Stage, done: Acted) -> dict[str, Path]:
    folder = stage.folder / "artifacts" / str(done.number) / "duetbench"
    return {path.name: path for path in folder.rglob("*.json")}


def test_the_example_is_as_short_as_it_says() -> None:
    text = example()[".github/workflows/benchmark.yml"]
    assert len(text.splitlines()) == 10
    workflow = load(text)
    assert workflow["permissions"] == {}
    assert workflow["jobs"]["benchmark"]["permissions"] == {"contents": "read"}


@pytest.mark.long
@pytest.mark.real
def test_a_push_is_measured_and_a_pull_request_compared(outside: tuple[Stage, str]) -> None:
    """Tables in the summary, and the run as an artifact; words alone are nothing to judge."""
    stage, revision = outside
    pushed = run(stage, revision, "push", {})
    assert set(pushed.results.values()) == {"success"}, pushed.text
    (name,) = artifact(stage, pushed)
    assert "-quick-" in name
    assert "hello/hello/py3.14" in pushed.text
    assert "1 of 1 launches valid" in pushed.text

    commit(stage.tree, "Words", **{"README.md": "# Hello\n"})
    git(stage.tree, "push", "--quiet", "origin", "main")
    # The base that an event names may be an old one; the merge that is checked out knows its own.
    base = {"sha": "0" * 40, "ref": "main"}
    event = {"number": 3, "pull_request": {"number": 3, "base": base}}
    proposed = run(stage, revision, "pull_request", event)
    assert set(proposed.results.values()) == {"success"}, proposed.text
    assert list(artifact(stage, proposed)) == ["comparison.json"]
    assert "Nothing to judge" in proposed.text


def test_what_a_repository_leaves_out_is_ours(tmp_path: Path) -> None:
    """Interpreters and load generator; a table of its own takes the place of ours."""
    file = tmp_path / "pyproject.toml"
    file.write_text("[tool.duetbench]\n")
    assert settings.load(tmp_path) == settings.load(PROJECT)
    other = tmp_path / "other"
    other.mkdir()
    (other / "pyproject.toml").write_text(
        '[tool.duetbench.interpreters."3.14"]\nversion = "3.14.7"\nfree_threaded = false\n'
    )
    assert list(settings.load(other).interpreters) == ["3.14"]
    assert settings.load(other).oha == settings.load(PROJECT).oha
