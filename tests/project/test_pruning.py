"""The cache forgets what nothing uses, and keeps what the checkout declares."""

import json
import os
import time
from pathlib import Path
from typing import Final

import filelock
import pytest
from rich.console import Console

from duetbench.cli import setup as setup_cli
from duetbench.core.errors import BusyError
from duetbench.host import cache as artefact
from duetbench.host import paths
from duetbench.host.console import Narrator
from duetbench.host.machine import measuring
from duetbench.project import anchor, interpreters, prune, stacks
from duetbench.project.project import Project

_DAY: Final = 86400.0


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with the declared interpreters and the environment of one stack, a year old."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    configured = Project.here().settings
    for name, spec in configured.interpreters.items():
        target = interpreters.place(name, "source", configured)
        facts = {**spec.model_dump(), "executable": str(target / "python"), "build": "cc"}
        made(target, **facts, origin="source")
        (target / "python").touch()
        aged(target.parent, 365)
    environment(declared(), Project.here().interpreter("3.14").executable, 365)
    return paths.cache_dir()


def made(target: Path, **facts: object) -> None:
    target.mkdir(parents=True)
    (target / artefact.STAMP).write_text(json.dumps(facts))


def aged(target: Path, days: float) -> None:
    for path in (*target.rglob("*"), target):
        os.utime(path, (time.time() - days * _DAY,) * 2)


def environment(target: Path, python: Path, days: float) -> Path:
    made(target, python=str(python))
    (target / "bin").mkdir()
    (target / "bin" / "python").write_bytes(b"x" * 10_000)
    aged(target, days)
    return target


def declared() -> Path:
    return stacks.place(Project.here().lock("current"), Project.here().interpreter("3.14"))


def gone() -> list[str]:
    return [name.partition(" ")[2] for name in prune.prune(Project.here()).names]


def test_environments_of_older_locks_go_when_they_are_no_longer_used(cache: Path) -> None:
    """Used 29 days ago one stays, 31 days ago it goes; what the checkout declares stays anyway."""
    assert prune.unused(Project.here()) == ()
    assert prune.prune(Project.here()) == prune.Removal()
    python = Project.here().interpreter("3.14").executable
    young, old, shared = (
        environment(cache / "environments" / f"current-py3.14-00000000000{n}", python, days)
        for n, days in ((1, 29), (2, 31), (3, 29))
    )
    (found,) = prune.unused(Project.here())
    assert (found.path, found.kind, round(found.days)) == (old, "environment", 31)
    done = prune.prune(Project.here())
    assert done.names == (f"environment {old.name}",)
    assert 10_000 <= done.freed < 100_000
    assert sorted(path for path in old.parent.iterdir() if path.is_dir()) == sorted(
        [young, shared, declared()]
    )
    # A second name elsewhere keeps the bytes on the disk; it is not promised that they go.
    aged(shared, 99)
    os.link(shared / "bin" / "python", cache / "shared")
    assert prune.prune(Project.here()).freed < 10_000


def test_the_anchor_s_interpreters_stay(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are newer ones' elders: nobody may have them to give any more."""
    builds = [cache / "interpreters" / name for name in ("source-3.14.1-ab", "prebuilt-3.14.2")]
    for build in builds:
        made(build / "3.14")
        aged(build, 365)
    assert [one.path for one in prune.unused(Project.here())] == builds[::-1]
    text = (
        anchor.place(paths.project_root())
        .read_text()
        .replace(anchor.load(paths.project_root()).interpreters["3.14"], "3.14.1")
    )
    file = tmp_path / "anchor.toml"
    file.write_text(text)
    monkeypatch.setattr(anchor, "place", lambda _: file)
    assert [one.path for one in prune.unused(Project.here())] == builds[1:]


def test_what_is_being_made_or_only_linked_is_left_alone(cache: Path, tmp_path: Path) -> None:
    """A held lock, a staging folder, and what lies in somebody else's cache."""
    busy = environment(cache / "environments" / "b-py3.14-000000000001", Path("x"), 99)
    staging = cache / "environments" / ".making-b-1-1"
    staging.mkdir()
    aged(staging, 99)
    elsewhere = environment(tmp_path / "elsewhere" / "c-py3.14-000000000001", Path("x"), 99)
    (cache / "environments" / elsewhere.name).symlink_to(elsewhere)
    (cache / "snapshots").symlink_to(tmp_path / "elsewhere")
    with filelock.FileLock(busy.parent / f".{busy.name}.lock"):
        done = prune.prune(Project.here())
    assert (done.names, done.busy) == ((), (busy.name,))
    assert (busy / "bin" / "python").is_file()
    assert staging.is_dir()
    assert (elsewhere / "bin" / "python").is_file()
    assert gone() == [busy.name]


def test_nothing_is_removed_while_something_is_measured(cache: Path) -> None:
    """The servers of a run have their packages there."""
    old = environment(cache / "environments" / "e-py3.14-000000000001", Path("x"), 99)
    with measuring(), pytest.raises(BusyError):
        setup_cli._prune(Project.here(), Narrator(Console(quiet=True)), prune.DAYS)
    assert old.is_dir()
    setup_cli._prune(Project.here(), Narrator(Console(quiet=True)), prune.DAYS)
    assert not old.exists()
