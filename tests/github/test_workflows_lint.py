"""The linters of workflows: no findings in ours, and findings where there is something to find."""

import shutil
import subprocess
from pathlib import Path

import pytest

from acting import PROJECT
from linting import actionlint, zizmor

HARMLESS = """\
name: Harmless
on:
  workflow_dispatch:
permissions: {}
concurrency:
  group: harmless
  cancel-in-progress: false
jobs:
  one:
    name: One
    runs-on: ubuntu-24.04
    timeout-minutes: 5
    steps:
      - name: Say it
        run: echo done
"""
CHECKOUT = "actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1"
PLANTED = {
    "template-injection": ("echo done", "echo '${{ github.event.issue.title }}'"),
    "dangerous-triggers": ("workflow_dispatch:", "pull_request_target:"),
    "excessive-permissions": ("permissions: {}", "permissions: write-all"),
    "artipacked": ("run: echo done", f"uses: {CHECKOUT}"),
    "unpinned-uses": ("run: echo done", "uses: actions/checkout@v7"),
}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    shutil.copytree(PROJECT / ".github", tmp_path / ".github")
    shutil.copy(PROJECT / "action.yml", tmp_path)
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    return tmp_path


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """A repository with one workflow that nothing is wrong with."""
    (tmp_path / ".github" / "workflows").mkdir(parents=True)
    (tmp_path / ".github" / "workflows" / "one.yml").write_text(HARMLESS)
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    return tmp_path


def test_actionlint_finds_nothing_in_ours(repository: Path) -> None:
    """Expressions, contexts, inputs, labels and cron lines are what GitHub takes them for."""
    done = actionlint(repository)
    assert (done.returncode, done.stdout) == (0, "")


def test_zizmor_finds_nothing_in_ours(repository: Path) -> None:
    done = zizmor(repository)
    assert done.returncode == 0, done.stdout + done.stderr


def test_both_find_what_is_planted(empty: Path) -> None:
    """Otherwise the tests above would say nothing."""
    assert actionlint(empty).returncode == 0
    assert zizmor(empty).returncode == 0
    file = empty / ".github" / "workflows" / "one.yml"
    file.write_text(HARMLESS.replace("echo done", "echo done\n        if: needs.two.result"))
    assert 'property "two" is not defined' in actionlint(empty).stdout
    for finding, (part, instead) in PLANTED.items():
        file.write_text(HARMLESS.replace(part, instead))
        assert finding in zizmor(empty).stdout
