"""The workflows that are neither a night nor a comparison, run by act."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from acting import Stage, need
from duetbench.store import files
from duetbench.store.night import NightRecord
from repos import commit, git
from staging import staged
from tiny_index import Index


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stage, Index]]:
    """One stage for all of them: none needs what another has left."""
    need("act")
    folder = tmp_path_factory.mktemp("stage")
    with pytest.MonkeyPatch.context() as patch, staged(folder, patch) as (stage, index):
        yield stage, index


def test_checks_and_tests_are_run_for_everybody(scene: tuple[Stage, Index]) -> None:
    """Both jobs, each by its target of the Makefile; nobody is asked and nothing is told."""
    stage, _ = scene
    home = {"default_branch": "next"}
    other = stage.act("ci.yml", "push", {"ref": "refs/heads/main", "repository": home})
    assert other.results == {}, other.text
    done = stage.act("ci.yml", "push", {"ref": "refs/heads/next", "repository": home})
    assert done.results == {"check": "success", "test": "success"}, done.text
    assert all(f"stand-in for make {target}" in done.text for target in ("check", "test"))
    assert stage.github.state.requests == []


def test_what_a_tag_names_is_published(scene: tuple[Stage, Index]) -> None:
    """What was built for the tag, and by another job, which alone may say who it is."""
    stage, _ = scene
    done = stage.act("release.yml", "push", {"ref": "refs/tags/v1.2.3"})
    assert done.results == {"build": "success", "publish": "success"}, done.text
    assert "stand-in for make publish of v1.2.3" in done.text


def test_instructions_are_counted_where_the_label_is(scene: tuple[Stage, Index]) -> None:
    """Not a machine is started without it, or by another; this repository has none to count."""
    stage, _ = scene
    commit(stage.tree, "A merge")
    git(stage.tree, "push", "--quiet", "origin", "main")
    pull: dict[str, Any] = {"number": 3, "base": {"ref": "main", "sha": "0" * 40}, "labels": []}
    event = {"action": "labeled", "number": 3, "pull_request": pull}
    assert stage.act("screen.yml", "pull_request", event).results == {}
    pull["labels"] = [{"name": "other"}, {"name": "screen"}]
    event["label"] = {"name": "other"}
    assert stage.act("screen.yml", "pull_request", event).results == {}
    event["label"] = {"name": "screen"}
    done = stage.act("screen.yml", "pull_request", event)
    assert done.results == {"count": "failure"}, done.text
    assert done.failed == {"count": ["Count"]}
    assert "measure no other repository" in done.text


def test_the_lock_is_proposed(scene: tuple[Stage, Index]) -> None:
    stage, _ = scene
    done = stage.act("deps.yml", "schedule", {})
    assert done.results == {"lock": "success"}, done.text
    (pull,) = stage.github.state.pulls.values()
    assert pull["title"] == "Harness: alpha 1.0"
    assert "alpha==1.0" in stage.git("show", "duetbench/deps:requirements.txt")


def test_a_night_that_did_not_take_place_is_reported(scene: tuple[Stage, Index]) -> None:
    """An issue as long as there is none, and no red watchdog; it closes with the next night."""
    stage, _ = scene
    state = stage.github.state
    done = stage.act("watchdog.yml", "schedule", {})
    assert done.results == {"look": "success"}, done.text
    (issue,) = state.issues
    assert issue["state"] == "open"
    now = datetime.now(UTC)
    stage.github.add_run(
        "nightly.yml", event="schedule", status="completed", conclusion="failure",
        created_at=f"{now:%Y-%m-%dT%H:%M:%SZ}",
    )  # fmt: skip
    record = NightRecord(
        id=f"{now:%Y%m%dT%H%M%SZ}-nightly-3f2a9c17", created=now.isoformat(), commit=None,
        profile="nightly", status="complete", shards=(),
    )  # fmt: skip
    state.files[f"gh-pages:results/{record.path}"] = files.encode(record).decode()
    done = stage.act("watchdog.yml", "schedule", {})
    assert done.results == {"look": "success"}, done.text
    assert [one["state"] for one in state.issues] == ["closed"]
