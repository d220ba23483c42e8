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

from acting import HOSTED, actionlint, load, zizmor
from bench import PROGRAMS, PROJECT

GITHUB: Final = PROJECT / ".github"
WORKFLOWS: Final = {path.name: path.read_text("utf-8") for path in GITHUB.glob("workflows/*")}
ACTIONS: Final = {
    str(path.relative_to(PROJECT)): path.read_text("utf-8")
    for path in (*GITHUB.glob("actions/*/*"), PROJECT / "action.yml")
}

OURS: Final = {("bench.yml", "run"), ("machine.yml", "run"), ("publish.yml", "confirm")}
"""The only jobs that our own machines take."""

TAKEN: Final = {"schedule", "workflow_dispatch", "workflow_run", "workflow_call"}
"""What may start a workflow that uses our machines: nothing that a stranger can do."""

HARMLESS: Final = {"", 'git fetch --quiet --no-tags -- origin "$BASE" "$HEAD"'}
"""What our machines run outside of the sandbox: nothing of others' packages or commits."""

CHECKED_OUT: Final = {"", "${{ needs.stack.outputs.commit }}", "${{ needs.detect.outputs.commit }}"}
CALLED: Final = "${{ inputs.commit }}"
HANDED: Final = re.compile(r"\$\{\{ needs\.\w+\.outputs\.artifact \}\}")


def jobs() -> Iterator[Any]:
    for name, text in WORKFLOWS.items():
        document = load(text)
        for job_name, job in document["jobs"].items():
            yield pytest.param(name, job_name, {*document["on"]}, job, id=f"{name}-{job_name}")


@pytest.mark.parametrize(("name", "job_name", "triggers", "job"), [*jobs()])
def test_no_token_is_where_others_code_runs(
    name: str, job_name: str, triggers: set[str], job: dict[str, Any]
) -> None:
    """On machines of ours it runs in the sandbox alone; where there are rights none is checked out.

    What came as an artifact, and decides something, is the very one that another job has named:
    machines of ours can replace one of their own run by another of its name, not of its id.
    """
    steps = job.get("steps", [])
    if not str(job.get("runs-on", "")).startswith(HOSTED):
        assert triggers <= TAKEN
        assert "uses" in job or (name, job_name) in OURS
    if (name, job_name) in OURS:
        assert job["timeout-minutes"]
        assert job["permissions"] == {"contents": "read"}
        assert not re.search(r"secrets\.|github\.token|GITHUB_TOKEN", str(job))
        # Without `exec`, only the shell of a step that is cancelled gets its signals.
        scripts = {step.get("run", "") for step in steps} - HARMLESS
        assert [s for s in scripts if not s.startswith("exec observatory sandbox -- ")] == []
        targets = {step.get("with", {}).get("target") for step in steps}
        assert targets == {None, "tools"}, "stacks are made in the sandbox"
    if "write" in job["permissions"].values():
        assert "pull_request" not in triggers
        checkouts = [step for step in steps if "actions/checkout@" in step.get("uses", "")]
        refs = {step.get("with", {}).get("ref", "") for step in checkouts}
        refs |= {job["with"]["commit"]} if "uses" in job else set()
        assert refs <= CHECKED_OUT | ({CALLED} if triggers == {"workflow_call"} else set())
    for step in steps:
        if "download-artifact@" in step.get("uses", ""):
            assert HANDED.fullmatch(step["with"]["artifact-ids"])


@pytest.mark.parametrize("text", [*WORKFLOWS.values(), *ACTIONS.values()])
def test_every_command_exists_with_its_options(text: str) -> None:
    """A night would be the first to notice."""
    call = r"(duetbench|observatory)\"? +((?:[^\n|]|\n +)+)"
    document = load(text)
    for job in (*document.get("jobs", {}).values(), document.get("runs", {})):
        for step in job.get("steps", ()):
            script = step.get("run", "").replace("sandbox -- ", "\n")
            for program, words in re.findall(call, script):
                PROGRAMS[program].parse_args(shlex.split(words))


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


def test_the_night_of_a_fork_publishes_and_ends_nothing() -> None:
    """A fork can bring a workflow of the same name, for its own events."""
    night = (
        'contains(fromJSON(\'["schedule", "workflow_dispatch"]\'), github.event.workflow_run.event)'
    )
    publish = load(WORKFLOWS["publish.yml"])
    at_main = "format('refs/heads/{0}', github.event.repository.default_branch)"
    assert " ".join(publish["jobs"]["detect"]["if"].split()) == (
        f"github.event_name == 'schedule' || github.ref == {at_main} "
        f"&& (github.event_name == 'workflow_dispatch' || {night})"
    )
    own = f"github.event_name == 'workflow_run' && !{night} && github.run_id || ''"
    assert publish["concurrency"]["group"] == f"publish${{{{ {own} }}}}"


def test_actionlint_and_zizmor_find_nothing(tmp_path: Path) -> None:
    """Expressions, contexts, inputs, labels and cron lines are what GitHub takes them for."""
    shutil.copytree(GITHUB, tmp_path / ".github")
    shutil.copy(PROJECT / "action.yml", tmp_path)
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    result = actionlint(tmp_path)
    assert (result.returncode, result.stdout) == (0, "")
    result = zizmor(tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
