"""Nights, from the schedule to the published site, run by act."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from acting import Acted, Stage, need
from bench import Bench
from repos import commit, git
from servebench import changes, codec
from servebench.changes import ChangeRecord, Release, SeriesName, StackState
from servebench.compare.model import PackageChange, Verdict
from servebench.model import Run, Status
from staging import ENDPOINTS, staged
from tiny_index import Index

SCHEDULED = {"schedule": "17 1 * * *"}
CASES = {f"short/{name}" for name in ENDPOINTS}
ALWAYS = ("stack", "plan", "store", "detect", "announce", "site", "deploy")

CHANGE = ChangeRecord(
    id="20261101-alpha",
    status="open",
    series=SeriesName(machine="xeon-2c-000000", case="short/one", metric="server_cpu_per_request"),
    when=datetime(2026, 11, 1, 3, tzinfo=UTC),
    base=StackState(stack="current", digest="a" * 64),
    head=StackState(stack="current", digest="b" * 64),
    packages=(PackageChange(stack="current", package="alpha", base="0.9", head="1.0"),),
    ratio=1.1,
    low=1.08,
    high=1.12,
    verdict=Verdict.SLOWER,
    culprit=Release(package="alpha", version="1.0", previous="0.9"),
    method="Planted by a test.",
)


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Stage, Index]]:
    """The stage of tiny nights, one launch per case, and the index of releases."""
    need("act")
    with staged(tmp_path, monkeypatch) as (stage, index):
        stage.variables["SERVEBENCH_LAUNCHES"] = "1"
        yield stage, index


def remember(stage: Stage, record: ChangeRecord) -> None:
    """Let the history begin with a change that an earlier night has confirmed."""
    folder = stage.folder / "history"
    subprocess.run(["git", "clone", "--quiet", stage.remote, folder], check=True)
    git(folder, "switch", "--quiet", "--orphan", "gh-pages")
    changes.save(folder / "results", record)
    commit(folder, "A change")
    git(folder, "push", "--quiet", "origin", "gh-pages")


def night(stage: Stage, shards: int, **more: Any) -> Acted:
    """A night on so many machines."""
    variables = {"SERVEBENCH_SHARDS": str(shards)}
    return stage.act("nightly.yml", "schedule", SCHEDULED, variables=variables, **more)


def recorded(stage: Stage, folder: str) -> dict[str, Any]:
    """The JSON files of the history below `results/<folder>/`, by name."""
    prefix = f"results/{folder}/"
    return {
        path.rpartition("/")[2].removesuffix(".json"): stage.read("gh-pages", path)
        for path in stage.branch("gh-pages")
        if path.startswith(prefix)
    }


def runs_of(stage: Stage) -> list[Run]:
    """The runs of the history."""
    return [
        codec.decode(stage.git("show", f"gh-pages:{path}").encode(), path)
        for path in stage.branch("gh-pages")
        if path.startswith("results/runs/")
    ]


def measured(run: Run) -> set[str]:
    """The cases of a run that have a valid launch."""
    return {
        result.case.id
        for result in run.results
        if any(launch.status is Status.OK for launch in result.launches)
    }


@pytest.mark.real
def test_a_whole_night_on_three_machines(scene: tuple[Stage, Index]) -> None:
    """A release comes out: it is locked, measured, pushed, and shown; an earlier change is told."""
    stage, index = scene
    remember(stage, CHANGE)
    index.add("alpha", "2.0", "2026-11-01")
    before = git(stage.tree, "rev-parse", "HEAD")
    done = night(stage, 3)
    assert done.results == dict.fromkeys((*ALWAYS, "run/1", "run/2", "run/3"), "success"), done.text

    # The stack: a commit of its own, which says what was released.
    assert stage.git("rev-parse", "main~1").strip() == before
    assert stage.git("diff", "--name-only", "main~1", "main").split() == ["apps/stacks/current.txt"]
    message = stage.git("log", "-1", "--format=%B", "main")
    assert all(word in message for word in ("alpha", "1.0", "2.0"))

    # The history: one file per shard, and the night's record. Nothing else came with it.
    runs = runs_of(stage)
    assert sorted(run.shard or 0 for run in runs) == [1, 2, 3]
    assert set.union(*map(measured, runs)) == CASES
    assert all(run.stacks[0].packages["alpha"] == "2.0" for run in runs)
    assert {run.commit for run in runs} == {stage.git("rev-parse", "main").strip()}
    ((_, record),) = recorded(stage, "nights").items()
    assert record["status"] == "complete"
    assert stage.git("ls-tree", "--name-only", "gh-pages").split() == ["results"]

    # The issue, with the address of the page that is published in the same night.
    (issue,) = stage.github.state.issues
    assert issue["state"] == "open"
    assert f"/c/{CHANGE.id}/" in issue["body"]
    site = stage.site(done.number)
    for page in ("index.html", f"c/{CHANGE.id}/index.html", "data/index.html"):
        assert (site / page).is_file(), page
    front = (site / "index.html").read_text("utf-8")
    assert "short" in front


@pytest.mark.real
def test_two_nights_at_once_one_of_which_loses_a_machine(scene: tuple[Stage, Index]) -> None:
    """Both push, nothing is lost or doubled, and what is missing is recorded and red."""
    stage, _ = scene
    later = stage.folder / "later"
    subprocess.run(["git", "clone", "--quiet", stage.remote, later], check=True)
    commit(later, "Words", **{"README.md": "# Other words\n"})
    git(later, "push", "--quiet", "origin", "main")
    dying = stage.start(
        "nightly.yml", "schedule", SCHEDULED, variables={"SERVEBENCH_SHARDS": "2"}, job="site",
        env={"STANDIN_DEAD_SHARD": "2"},
    )  # fmt: skip
    whole = stage.start("nightly.yml", "schedule", SCHEDULED, tree=later, job="store")
    hurt, fine = dying.end(), whole.end()
    assert fine.results == dict.fromkeys(("stack", "plan", "run/1", "store"), "success"), fine.text
    good = dict.fromkeys(("stack", "plan", "run/1", "detect", "site"), "success")
    assert hurt.results == {**good, "run/2": "failure", "store": "failure"}, hurt.text
    assert hurt.failed["run/2"][0] == "Measure"
    assert hurt.failed["store"] == ["Check what came", "Push it"]

    runs, nights = runs_of(stage), recorded(stage, "nights")
    assert [run.shard for run in runs] == [1, 1]
    by_status = {record["status"]: record for record in nights.values()}
    assert set(by_status) == {"complete", "incomplete"}
    lost = [shard for shard in by_status["incomplete"]["shards"] if shard["missing"]]
    assert [(shard["shard"], bool(shard["runs"])) for shard in lost] == [(2, False)]
    here = [run for run in runs if run.night == by_status["incomplete"]["id"]]
    assert {*lost[0]["missing"], *measured(here[0])} == CASES
    assert "no run of this shard arrived" in hurt.text


def test_a_night_that_no_machine_takes_is_red(scene: tuple[Stage, Index]) -> None:
    """The night is recorded as empty, and its last job fails."""
    stage, _ = scene
    done = night(stage, 2, labels=(), job="store")
    assert done.results == {"stack": "success", "plan": "success", "store": "failure"}, done.text
    assert done.failed["store"][-1] == "Push it"
    ((_, record),) = recorded(stage, "nights").items()
    assert record["status"] == "empty"
    assert {case for shard in record["shards"] for case in shard["missing"]} == CASES


def test_a_plan_that_was_replaced_is_not_stored(tmp_path: Path, bench: Bench) -> None:
    """A measuring machine can replace an artifact of its own run, but not a job's output."""
    plan = tmp_path / "night.json"
    plan.write_text("{}")
    done = bench("history", "push", tmp_path, "--plan", plan, "--plan-sha256", "0" * 64)
    assert done.code == 1
    assert "it was replaced" in done.err


def test_without_an_index_the_night_measures_what_is_locked(
    scene: tuple[Stage, Index], monkeypatch: pytest.MonkeyPatch
) -> None:
    """That the stack could not be renewed is red; the plan is of the stack that there is."""
    stage, _ = scene
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    done = night(stage, 1, job="plan")
    assert done.results == {"stack": "failure", "plan": "success"}, done.text
