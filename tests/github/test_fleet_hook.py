"""The runner's hook: which jobs may start on a machine of ours, and that nothing talks it round."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from typer.testing import CliRunner

from duetbench.cli import app
from duetbench.core.errors import UsageError
from duetbench.github.runner import hook
from steps import NIGHT

POLICY: Final[dict[str, Any]] = {
    "repository": "acme/duetbench",
    "repository_id": "4711",
    "ref": "refs/heads/main",
    "events": ["schedule", "workflow_dispatch"],
    "workflows": ["bench.yml", "nightly.yml"],
    "user": "duetbench-pr",
    "room": "/var/lib/duetbench-pr",
}


FILES: Final = "acme/duetbench/.github/workflows"
PULL: Final = "refs/pull/7/merge"
MINE: Final = "refs/heads/mine"


def job(**changed: str) -> dict[str, str]:
    """The night's variables, some of which say something else."""
    return NIGHT | {hook.VARIABLES[what]: value for what, value in changed.items()}


ATTACKS: Final[dict[str, tuple[dict[str, str], str]]] = {
    "a fork's pull request that names our label": (
        job(event="pull_request", ref=PULL, workflow=f"{FILES}/ci.yml@{PULL}"),
        "event: expected schedule or workflow_dispatch, found 'pull_request'"),
    "the same, in a copy of our own workflow's file": (
        job(event="pull_request", ref=PULL, workflow=f"{FILES}/nightly.yml@{PULL}"),
        f"ref: expected refs/heads/main, found '{PULL}'"),
    "pull_request_target, which runs at main": (
        job(event="pull_request_target"), "found 'pull_request_target'"),
    "a workflow that another one started": (job(event="workflow_run"), "found 'workflow_run'"),
    "a dispatch on another branch": (
        job(event="workflow_dispatch", ref=MINE, workflow=f"{FILES}/bench.yml@{MINE}"),
        f"ref: expected refs/heads/main, found '{MINE}'"),
    "a tag called main": (job(ref="refs/tags/main"), "found 'refs/tags/main'"),
    "another repository of the organisation": (
        job(repository="acme/other"), "repository: expected acme/duetbench, found 'acme/other'"),
    "somebody who took the name of a repository that was deleted": (
        job(repository_id="4712"), "repository_id: expected 4711, found '4712'"),
    "another server": (
        job(server="https://github.example"), "server: expected https://github.com"),
    "another workflow at main": (
        job(workflow=f"{FILES}/x.yml@refs/heads/main"),
        f"workflow: expected {FILES}/bench.yml@refs/heads/main or"),
    "a workflow of another repository that is called like ours": (
        job(workflow=f"{FILES.replace('acme', 'evil')}/bench.yml@refs/heads/main"),
        "found 'evil/duetbench/"),
    "names that only begin right": (job(ref="refs/heads/main\n"), "found 'refs/heads/main\\n'"),
}  # fmt: skip


def policy() -> hook.Policy:
    return hook.read_policy(json.dumps(POLICY))


@pytest.mark.parametrize("event", ["schedule", "workflow_dispatch"])
@pytest.mark.parametrize("workflow", ["bench", "nightly"])
def test_our_own_workflows_at_main_may_start(event: str, workflow: str) -> None:
    ours = job(event=event, workflow=f"{FILES}/{workflow}.yml@refs/heads/main")
    assert hook.refusals(policy(), ours) == ()


@pytest.mark.parametrize("attack", ATTACKS)
def test_everything_else_is_refused_with_the_reason(attack: str) -> None:
    """Wrong event, wrong ref, wrong repository, wrong file: each alone is enough."""
    changed, reason = ATTACKS[attack]
    found = hook.refusals(policy(), changed)
    assert any(reason in sentence for sentence in found), found


@pytest.mark.parametrize("variable", hook.VARIABLES.values())
def test_a_job_that_does_not_say_what_it_is_does_not_start(variable: str) -> None:
    """Each of the variables must be there: an older or other runner that lacks one is refused."""
    (reason,) = hook.refusals(policy(), {k: v for k, v in NIGHT.items() if k != variable})
    assert "found nothing" in reason
    assert hook.refusals(policy(), {**NIGHT, variable: ""})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"repository": None}, "repository: expected a text, found None"),
        ({"events": []}, "events: expected a list of texts"),
        ({"events": "schedule"}, "events: expected a list of texts"),
        ({"workflows": ["bench.yml", 3]}, "workflows: expected a list of texts"),
        ({"ref": ""}, "ref: expected a text"),
        ({"repository_id": 4711}, "repository_id: expected a text"),
    ],
)
def test_a_wrong_policy_lets_nothing_start(change: dict[str, Any], reason: str) -> None:
    """A policy with a hole would be worse than none: a machine with a wrong one stands still."""
    with pytest.raises(hook.PolicyError) as caught:
        hook.read_policy(json.dumps({**POLICY, **change}))
    assert reason in str(caught.value)
    for text in ("", "{", "[]", "{}", "null", '{"repository": "a/b"}', "\x00"):
        with pytest.raises(hook.PolicyError):
            hook.read_policy(text)


def test_only_one_job_at_a_time_and_on_a_cleared_machine() -> None:
    """A second job is refused; what foreign code has left is ended before a job that may start."""
    cleared: list[str] = []
    clean = cleared.append
    assert hook.decide(policy(), NIGHT, lambda: 0, clean) == ()
    assert cleared == ["duetbench-pr"]
    (reason,) = hook.decide(policy(), NIGHT, lambda: 1, clean)
    assert "expected one job at a time on this machine, found 2" in reason
    refused = job(event="push")
    assert hook.decide(policy(), refused, lambda: 0, clean)
    assert cleared == ["duetbench-pr"], "nothing is ended for a job that does not start"
    assert hook.decide(policy(), NIGHT, lambda: 0, lambda user: f"{user} stays") == (
        "duetbench-pr stays",
    )


def test_other_jobs_are_counted_by_the_runners_own_processes(tmp_path: Path) -> None:
    """One process per job; others, what is no process, and the job that asks do not count."""
    for line in ("6 1 Runner.Worker", "7 1 Runner.Worker", "8 1 Runner.Listener",
                 "9 8 Runner.Worker", "11 9 bash"):  # fmt: skip
        pid, parent, name = line.split()
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "comm").write_text(f"{name}\n")
        (tmp_path / pid / "status").write_text(f"Name:\t{name}\nPPid:\t{parent}\nUid:\t0\n")
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "status").write_text("Name:\tinit\nPPid:\t0\n")
    (tmp_path / "10").mkdir()  # it has just ended
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "comm").write_text("Runner.Worker\n")
    assert hook.others(tmp_path, 11) == 2
    assert hook.others(tmp_path, 9) == 2
    assert hook.others(tmp_path, 1) == 3


def test_what_cannot_be_cleared_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No sudo, or one that says no, is a reason; a user without processes is none."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "could not be ended" in str(hook.clear("nobody"))
    sudo = tmp_path / "sudo"
    sudo.write_text("#!/bin/sh\necho 'sudo: a password is required' >&2\nexit 1\n")
    sudo.chmod(0o755)
    assert "a password is required" in str(hook.clear("nobody"))
    sudo.write_text("#!/bin/sh\necho '/bin/sh: 1: kill: No such process' >&2\nexit 1\n")
    assert hook.clear("nobody") is None


def test_the_verb_decides_the_same_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For trying a policy out: exit code 0, 1 with reasons, and wrong usage without a policy."""
    file = tmp_path / "fleet.json"
    words = ["ci", "fleet", "hook", "--policy", str(file)]
    assert isinstance(CliRunner().invoke(app, words).exception, UsageError)
    file.write_text(json.dumps(POLICY))
    for name, value in NIGHT.items():
        monkeypatch.setenv(name, value)
    allowed = CliRunner().invoke(app, words)
    assert (allowed.exit_code, allowed.output) == (0, "this job may start here\n")
    monkeypatch.setenv("GITHUB_EVENT_NAME", "pull_request\n::set-env name=X::y")
    refused = CliRunner().invoke(app, words)
    assert refused.exit_code == 1
    (line,) = refused.output.splitlines()
    assert line.startswith("refused: event: expected schedule or workflow_dispatch, found 'pull_")


def test_comparing_foreign_code_wants_whole_commits(tmp_path: Path) -> None:
    """A branch could have moved since somebody has looked at it."""
    for base, head in (("main", "b" * 40), ("a" * 40, "HEAD"), ("a" * 39, "b" * 40)):
        words = ["ci", "fleet", "compare", base, head, "--output", str(tmp_path / "c.json")]
        problem = CliRunner().invoke(app, words).exception
        assert isinstance(problem, UsageError)
        assert "expected a commit as 40 hex digits" in str(problem)


def test_a_job_cannot_choose_how_its_judge_is_run(tmp_path: Path) -> None:
    """Python's own variables, and modules beside the hook's copy, change nothing."""
    copy, file = tmp_path / "hook.py", tmp_path / "fleet.json"
    copy.write_bytes(Path(hook.__file__).read_bytes())
    file.write_text(json.dumps({key: value for key, value in POLICY.items() if key != "user"}))
    mine = tmp_path / "json.py"
    mine.write_text("raise SystemExit(0)\n")
    chosen = {
        "PYTHONPATH": str(tmp_path), "PYTHONSTARTUP": str(mine), "PYTHONINSPECT": "1",
        "GITHUB_ENV": str(tmp_path / "env"), "GITHUB_OUTPUT": str(tmp_path / "env"),
    }  # fmt: skip
    done = subprocess.run(
        [getattr(sys, "_base_executable", sys.executable), "-I", "-S", copy, file],
        env=job(event="push") | chosen, cwd="/", capture_output=True, text=True, check=False,
        timeout=60,
    )  # fmt: skip
    assert done.returncode == 1
    assert "expected schedule or workflow_dispatch, found 'push'" in done.stdout
    assert not (tmp_path / "env").exists()
