"""Histories for tests: bare remotes that can misbehave, and runs to store in them."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import synthetic
from bare import Programs
from duetbench.core.model import Case, CaseResult, Launch, Run
from duetbench.host import files
from observatory.store.history_branch import BRANCH, Remote
from repos import git

FIRST = datetime(2026, 11, 1, 3, tzinfo=UTC)


def make_remote(folder: Path) -> Remote:
    """Make a bare repository without branches, which serves partial clones as GitHub does."""
    place = folder / "remote.git"
    git(folder, "init", "--quiet", "--bare", str(place))
    git(place, "config", "uploadpack.allowFilter", "true")
    return Remote(place.as_uri())


def place_of(remote: Remote) -> Path:
    return Path(remote.address.removeprefix("file://"))


def listing(remote: Remote) -> list[str]:
    return git(place_of(remote), "ls-tree", "-r", "--name-only", BRANCH).splitlines()


def hook(remote: Remote, name: str, script: str) -> None:
    """Give a remote a hook; `$COUNT` is the number of earlier calls."""
    hooks = place_of(remote) / "hooks"
    hooks.mkdir(exist_ok=True)
    count = "COUNT=$(cat counted 2>/dev/null || echo 0); echo $((COUNT + 1)) > counted"
    Programs(hooks).write(name, f"{count}\n{script}")


def night_run(
    number: int = 0,
    machine: str = "alpha-2c-000001",
    results: Sequence[CaseResult] | None = None,
    **changes: object,
) -> Run:
    started = (FIRST + timedelta(days=number)).isoformat()
    run = synthetic.nightly_run(cases=2) if results is None else synthetic.make_run(results)
    return run.model_copy(
        update={
            "id": files.result_id(started, "nightly", run.commit),
            "started": started,
            "machine": run.machine.model_copy(update={"id": machine}),
            **changes,
        }
    )


def result_of(case: Case, *launches: Launch) -> CaseResult:
    return CaseResult(case=case, launches=launches)


def good(case: Case, seconds: float = 20.0, figures: Mapping[str, float] | None = None) -> Launch:
    metrics = {"throughput": 100.0, **(figures or {})}
    return synthetic.ok(case.id, 0, metrics).model_copy(update={"seconds": seconds})


def save(folder: Path, *runs: Run) -> Path:
    for run in runs:
        files.save(folder, run)
    return folder
