"""The cache forgets what nothing has used for long."""

import json
import os
import time
from pathlib import Path
from typing import Final

import filelock
import pytest

from bare import QUIET
from duetbench.cli.setup import remove_unused, set_up
from duetbench.host import cache as artefact
from duetbench.host import paths
from duetbench.project import interpreters, stacks, tools
from duetbench.project.project import Project

_DAY: Final = 86400.0


def aged(target: Path, days: float) -> None:
    for path in (*target.rglob("*"), target):
        os.utime(path, (time.time() - days * _DAY,) * 2)


def environment(target: Path, days: float) -> Path:
    (target / "bin").mkdir(parents=True)
    (target / artefact.STAMP).write_text(json.dumps({}))
    (target / "bin" / "python").touch()
    aged(target, days)
    return target


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return paths.cache_dir()


def test_what_nothing_has_used_for_a_month_goes(cache: Path) -> None:
    """Used 29 days ago one stays, 31 days ago it goes; interpreters are as old as their newest."""
    young = environment(cache / "environments" / "current-py3.14-000000000001", 29)
    old = environment(cache / "environments" / "current-py3.14-000000000002", 31)
    used = environment(cache / "interpreters" / "prebuilt-3.14.1" / "3.14", 99)
    environment(used.parent / "uv", 99)
    unused = environment(cache / "interpreters" / "source-3.14.1-ab" / "3.14", 99).parent
    aged(used.parent, 99)
    aged(unused, 99)
    artefact.touch(used)
    assert remove_unused() == [old.name, unused.name]
    assert [path.is_dir() for path in (young, old, used, unused)] == [True, False, True, False]
    assert (used.parent / "uv").is_dir()


def test_what_is_being_made_or_only_linked_is_left_alone(cache: Path, tmp_path: Path) -> None:
    """A held lock, a staging folder, and what lies in somebody else's cache."""
    busy = environment(cache / "environments" / "b-py3.14-000000000001", 99)
    staging = cache / "environments" / ".making-b-1-1"
    staging.mkdir()
    aged(staging, 99)
    elsewhere = environment(tmp_path / "elsewhere" / "c-py3.14-000000000001", 99)
    (cache / "environments" / elsewhere.name).symlink_to(elsewhere)
    (cache / "snapshots").symlink_to(tmp_path / "elsewhere")
    with filelock.FileLock(busy.parent / f".{busy.name}.lock"):
        assert remove_unused() == []
    assert (busy / "bin" / "python").is_file()
    assert staging.is_dir()
    assert (elsewhere / "bin" / "python").is_file()
    assert remove_unused() == [busy.name]


@pytest.mark.real
def test_set_up_uses_what_is_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that it stays, however long ago it was measured with."""
    used: list[Path] = []
    monkeypatch.setattr(artefact, "touch", used.append)
    project = Project.here()
    assert not any(set_up(project, QUIET).values())
    configured = project.configuration
    pythons = {name: project.interpreter(name) for name in configured.usual}
    assert {tools.oha_place(configured.oha)} <= {*used}
    assert {
        interpreters.place(name, python.origin, configured) for name, python in pythons.items()
    } <= {*used}
    assert {
        stacks.place(project.lock(name), pythons[python])
        for name, made_for in project.stacks.items()
        for python in made_for
    } <= {*used}
