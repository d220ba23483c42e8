"""What zizmor and actionlint cannot know of our workflows: where others' code runs, and with what.

Code of pull requests and of releases runs on machines of ours, in the sandbox, without a token;
where there are rights, none of it is checked out.
"""

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import typer.main

import duetbench.cli
import observatory.cli
from acting import HOSTED, PROJECT, load
from linting import actionlint, zizmor

GITHUB: Final = PROJECT / ".github"
PROGRAMS: Final = {"duetbench": duetbench.cli.app, "observatory": observatory.cli.app}
WORKFLOWS: Final = {path.name: path.read_text("utf-8") for path in GITHUB.glob("workflows/*")}
ACTIONS: Final = {
    str(path.relative_to(PROJECT)): path.read_text("utf-8")
    for path in (*GITHUB.glob("actions/*/*"), PROJECT / "action.yml")
}

OURS: Final = {("bench.yml", "run"), ("shard.yml", "run"), ("publish.yml", "confirm")}
"""The only jobs that our own machines take."""

TAKEN: Final = {"schedule", "workflow_dispatch", "workflow_run", "workflow_call"}
"""What may start a workflow that uses our machines: nothing that a stranger can do."""

HARMLESS: Final = {
    "",
    'git fetch --quiet --no-tags -- origin "$BASE" "$HEAD"',
}
"""What our machines run outside of the sandbox: nothing of others' packages or commits."""

CHECKED_OUT: Final = {"", "${{ needs.plan.outputs.commit }}", "${{ needs.detect.outputs.commit }}"}
_HANDED: Final = re.compile(r"\$\{\{ (needs\.\w+\.outputs\.artifact|inputs\.plan) \}\}")


def machines(name: str, document: dict[str, Any]) -> Iterator[str]:
    """On machines of ours others' code runs in the sandbox alone, and no job has a token."""
    for job_name, job in document["jobs"].items():
        if str(job.get("runs-on", "")).startswith(HOSTED):
            continue
        if not set(document["on"]) <= TAKEN:
            yield f"{job_name}: is started by {sorted(document['on'])}"
        if "uses" in job:
            continue
        if (name, job_name) not in OURS or "timeout-minutes" not in job:
            yield f"{job_name}: runs on {job['runs-on']}, perhaps without an end"
        if job["permissions"] != {"contents": "read"}:
            yield f"{job_name}: has rights where others' code runs"
        if re.search(r"secrets\.|github\.token|GITHUB_TOKEN", str(job)):
            yield f"{job_name}: has a token where others' code runs"
        for step in job["steps"]:
            script = step.get("run", "")
            # Without `exec`, only the shell of a step that is cancelled gets its signals.
            if not script.startswith("exec observatory sandbox -- ") and script not in HARMLESS:
                yield f"{job_name}: runs outside of the sandbox: {script}"
            if step.get("with", {}).get("target") == "setup":
                yield f"{job_name}: makes stacks outside of the sandbox"


def rights(_: str, document: dict[str, Any]) -> Iterator[str]:
    """Where there are rights, code of a pull request is neither checked out nor the trigger's."""
    triggers = set(document["on"])
    commits = CHECKED_OUT | ({"${{ inputs.commit }}"} if triggers == {"workflow_call"} else set())
    for name, job in document["jobs"].items():
        if "write" not in job["permissions"].values():
            continue
        if "pull_request" in triggers:
            yield f"{name}: rights in a workflow that pull requests can change"
        checkouts = [s for s in job.get("steps", ()) if "actions/checkout@" in s.get("uses", "")]
        refs = [step.get("with", {}).get("ref", "") for step in checkouts]
        refs += [job["with"]["commit"]] if "uses" in job else []
        yield from (f"{name}: checks out {ref}" for ref in refs if ref not in commits)


def artifacts(_: str, document: dict[str, Any]) -> Iterator[str]:
    """What came as an artifact, and decides something, is the very one that another job has named.

    Machines of ours can replace an artifact of their own run by another of its name, not of its id.
    """
    for name, job in document["jobs"].items():
        for step in job.get("steps", ()):
            which = step.get("with", {}).get("artifact-ids", "")
            if "download-artifact@" in step.get("uses", "") and not _HANDED.fullmatch(which):
                yield f"{name}: downloads an artifact that no job's output names"


RULES: Final = {rule.__name__: rule for rule in (machines, rights, artifacts)}
READ: Final = "    permissions:\n      contents: read"
SANDBOX: Final = "exec observatory sandbox -- observatory measure"
BAD: Final = [
    ("machines", "shard.yml", "  run:\n", "  other:\n"),
    ("machines", "shard.yml", "    timeout-minutes: 200\n", ""),
    ("machines", "shard.yml", SANDBOX, "observatory measure"),
    ("machines", "shard.yml", SANDBOX, SANDBOX.removeprefix("exec ")),
    ("machines", "shard.yml", "target: tools", "target: setup"),
    ("machines", "shard.yml", READ, READ.replace("read", "write")),
    ("machines", "shard.yml", "SHARD: ${{ inputs.shard }}", "TOKEN: ${{ github.token }}"),
    ("machines", "slash.yml", HOSTED, "[self-hosted, duetbench]"),
    ("machines", "nightly.yml", "  schedule:\n", "  issue_comment:\n  schedule:\n"),
    ("rights", "nightly.yml", "  schedule:\n", "  pull_request:\n  schedule:\n"),
    ("rights", "shard.yml", "ref: ${{ inputs.commit }}", "ref: ${{ github.head_ref }}"),
    ("rights", "nightly.yml", "commit: ${{ needs.plan.outputs.commit }}", "commit: ${{ x }}"),
    ("artifacts", "shard.yml", "artifact-ids: ${{ inputs.plan }}", "name: night"),
]


@pytest.mark.parametrize("name", WORKFLOWS)
def test_every_workflow_keeps_every_rule(name: str) -> None:
    for rule in RULES.values():
        assert list(rule(name, load(WORKFLOWS[name]))) == []


@pytest.mark.parametrize(("rule", "name", "part", "instead"), BAD)
def test_a_rule_that_is_broken_is_noticed(rule: str, name: str, part: str, instead: str) -> None:
    assert part in WORKFLOWS[name]
    assert list(RULES[rule](name, load(WORKFLOWS[name].replace(part, instead)))) != []


@pytest.mark.parametrize("text", [*WORKFLOWS.values(), *ACTIONS.values()])
def test_every_command_exists_with_its_options(text: str) -> None:
    """A night would be the first to notice."""
    call = r"(duetbench|observatory)\"? +((?:[^\n|]|\n +)+)"
    document = load(text)
    for job in (*document.get("jobs", {}).values(), document.get("runs", {})):
        for step in job.get("steps", ()):
            script = step.get("run", "").replace("sandbox -- ", "\n")
            for program, words in re.findall(call, script):
                assert unknown(typer.main.get_command(PROGRAMS[program]), shlex.split(words)) == []


def unknown(command: Any, words: list[str]) -> list[str]:
    """The options that a command line's verb does not have."""
    while hasattr(command, "commands"):
        name, *words = words
        command = command.commands[name]
        command = command.load() if hasattr(command, "load") else command
    options = {name for param in command.params for name in (*param.opts, *param.secondary_opts)}
    return [word for word in words if word.startswith("-") and word not in options]


def test_what_is_published_meets_no_package_that_is_not_locked() -> None:
    """It is uploaded, then started on another machine; without that nothing is published."""
    jobs = load(WORKFLOWS["release.yml"])["jobs"]
    starts = [name for name, job in jobs.items() if re.search("make (try|image)'", str(job))]
    assert starts == ["try"]
    assert jobs["try"]["permissions"] == {"contents": "read"}
    assert "upload-artifact" not in str(jobs["try"])
    writes = {n for n, job in jobs.items() if "write" in job["permissions"].values()}
    assert writes == {"publish", "image", "images"}
    assert jobs["publish"]["needs"] == ["build", "try"]
    assert jobs["image"]["needs"] == ["build", "publish"]
    assert jobs["images"]["needs"] == "image"


def test_every_workflow_is_described() -> None:
    """The page's first table has a row for each of them, and for nothing else."""
    page = (PROJECT / "docs" / "automation.md").read_text("utf-8")
    described = re.findall(r"^\| `([\w.]+)` \|", page.partition("### ")[0], re.MULTILINE)
    assert sorted(described) == sorted(WORKFLOWS)


def test_actionlint_and_zizmor_find_nothing(tmp_path: Path) -> None:
    """Expressions, contexts, inputs, labels and cron lines are what GitHub takes them for."""
    shutil.copytree(GITHUB, tmp_path / ".github")
    shutil.copy(PROJECT / "action.yml", tmp_path)
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    done = actionlint(tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    done = zizmor(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
