"""What our workflows keep to beside what zizmor and actionlint ask."""

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
Document = dict[str, Any]
PROGRAMS: Final = {"duetbench": duetbench.cli.app, "observatory": observatory.cli.app}

OURS: Final = {("bench.yml", "run"), ("shard.yml", "run"), ("publish.yml", "confirm")}
"""The only jobs that our own machines take."""

TAKEN: Final = {"schedule", "workflow_dispatch", "workflow_run"}
"""What may start a workflow that uses our machines: nothing that a stranger can do."""

CALLED: Final = {"workflow_call"}
"""What starts a workflow that only others of ours call; whoever calls it is held to the same."""

LONGEST: Final = 200  # minutes of a job
IN_THE_SANDBOX: Final = {"run", "measure", "anchor", "inprocess", "detect", "bisect", "compare"}
"""Verbs that run others' packages: on machines of ours only as `observatory sandbox -- VERB`."""

CHECKED_OUT: Final = {"", "${{ needs.plan.outputs.commit }}", "${{ needs.detect.outputs.commit }}"}
_HANDED: Final = re.compile(r"\$\{\{ (needs\.\w+\.outputs\.artifact|inputs\.plan) \}\}")
_PIN: Final = re.compile(r"uses: +(\./\S+|actions/[a-z/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+)$")


def steps(document: Document) -> Iterator[tuple[str, Document]]:
    """All steps, with the name of their job."""
    for name, job in {**document.get("jobs", {}), "": document.get("runs", {})}.items():
        yield from ((name, step) for step in job.get("steps", []))


def called(step: Document) -> list[str]:
    """The words of a verb of ours, without its program and the group of pull requests' verbs."""
    words = shlex.split(step.get("run", "").removeprefix("exec "))
    return words[1 + (words[1:2] == ["ci"]) :] if words and words[0] in PROGRAMS else []


def pins(_: str, text: str) -> Iterator[str]:
    """Others' actions are GitHub's own, pinned to a commit, with its version beside it."""
    uses = re.findall(r"^ *(?:- )?(uses:.*)", text, re.MULTILINE)
    yield from (line for line in uses if not _PIN.fullmatch(line))


def limits(_: str, text: str) -> Iterator[str]:
    """Nothing is allowed by default, and every job ends; whatever was measured is uploaded."""
    document = load(text)
    if "jobs" in document and document.get("permissions") != {}:
        yield "permissions at the top are not {}"
    for name, job in document.get("jobs", {}).items():
        if not isinstance(job.get("permissions"), dict):
            yield f"{name}: names no permissions"
        minutes = job.get("timeout-minutes")
        if "uses" not in job and not (isinstance(minutes, int) and 0 < minutes <= LONGEST):
            yield f"{name}: timeout-minutes is {minutes!r}"
        before: list[Any] = []
        for step in job.get("steps", []):
            if job["runs-on"] == HOSTED and step.get("with", {}).get("fetch-depth") == 0:
                yield f"{name}: fetches the results of all nights; a large depth has one branch"
            always = "!cancelled()" in str(step.get("if"))
            if name in {"run", "confirm"} and called(step):
                if before and not always:
                    yield f"{name}: after a step that fails, another that could go on does not"
                before.append(step.get("timeout-minutes"))
            rest = before and always and "upload-artifact@" in step.get("uses", "")
            if rest and (None in before or sum(before) >= (minutes or 0)):
                yield f"{name}: the limits of its steps are {before}, of the job {minutes}"


def machines(name: str, text: str) -> Iterator[str]:
    """Ours are used where that is meant, without rights or tokens, for code in the sandbox."""
    document = load(text)
    triggers = set(document.get("on", {}))
    for job_name, job in document.get("jobs", {}).items():
        labels = job.get("runs-on")
        if "uses" in job:
            if not triggers <= TAKEN:
                yield f"{job_name}: calls what may use our machines, from {sorted(triggers)}"
            continue
        if labels in (HOSTED, HOSTED + "${{ matrix.kind }}"):  # of both kinds
            continue
        if (name, job_name) not in OURS or labels[:2] != ["self-hosted", "duetbench"]:
            yield f"{job_name}: runs-on is {labels!r}"
        if job.get("permissions") != {"contents": "read"}:
            yield f"{job_name}: has rights on a machine that runs others' code"
        if re.search(r"secrets\.|github\.token|GITHUB_TOKEN", str(job)):
            yield f"{job_name}: has a token on a machine that runs others' code"
        anchored = "observatory sandbox -- observatory anchor run " in str(job)
        depths = [step.get("with", {}).get("fetch-depth") for step in job.get("steps", [])]
        if anchored and 0 not in depths:
            yield f"{job_name}: measures against an anchor that the checkout may not have"
        for step in job.get("steps", []):
            setup = step.get("with", {}).get("target") == "setup" or called(step) == ["setup"]
            if set(called(step)[:1]) & IN_THE_SANDBOX or setup:
                yield f"{job_name}: {step} runs others' packages as the runner's user"
            if called(step)[:1] == ["sandbox"] and not step["run"].startswith("exec "):
                yield f"{job_name}: its shell keeps signals from {step}"
        if not triggers <= TAKEN and triggers != CALLED:
            yield f"{job_name}: is started by {sorted(triggers - TAKEN)}"


def trust(_: str, text: str) -> Iterator[str]:
    """Where there are rights, code of a pull request is neither checked out nor the trigger's."""
    document = load(text)
    triggers = set(document.get("on", {}))
    entries = CHECKED_OUT | ({"${{ inputs.commit }}"} if triggers == CALLED else set())
    for name, job in document.get("jobs", {}).items():
        if "write" not in job.get("permissions", {}).values():
            continue
        if "pull_request" in triggers:
            yield f"{name}: rights in a workflow that pull requests can change"
        values = [job] if "uses" in job else []
        values += [s for s in job.get("steps", []) if s.get("uses", "").startswith("actions/check")]
        for where in values:
            reference = where.get("with", {}).get("commit" if where is job else "ref", "")
            if reference not in entries:
                yield f"{name}: checks out {reference}"


def artifacts(_: str, text: str) -> Iterator[str]:
    """What came as an artifact, and decides something, is the very one that another job has named.

    Machines of ours can replace an artifact of their own run by another of its name, not of its id.
    """
    for job, step in steps(load(text)):
        if "download-artifact@" in step.get("uses", ""):
            which = str(step.get("with", {}).get("artifact-ids"))
            if not _HANDED.fullmatch(which):
                yield f"{job}: downloads an artifact that no job's output names"


def verbs(_: str, text: str) -> Iterator[str]:
    """A step of a workflow is one command without a shell's logic, with words that there are."""
    document = load(text)
    for job, step in steps(document):
        script = step.get("run", "").strip()
        command = script.removeprefix("exec ").split()[:1]
        if "jobs" in document and script:
            if command not in [["duetbench"], ["observatory"], ["make"], ["git"], ["true"]]:
                yield f"{job}: {command} is no verb"
            if re.search(r"[;|&<>`\n]|\$\(", script):
                yield f"{job}: a shell's logic: {script}"
        call = r"(duetbench|observatory)\"? +((?:[^\n|]|\n +)+)"
        for program, words in re.findall(call, script.replace("sandbox -- ", "\n")):
            for trouble in _unknown(program, shlex.split(words)):
                yield f"{job}: {trouble}"


def _unknown(program: str, words: list[str]) -> Iterator[str]:
    result: Any = typer.main.get_command(PROGRAMS[program])
    while hasattr(result, "commands") and words:
        name, *words = words
        result = result.commands.get(name)
        result = result.load() if hasattr(result, "load") else result
        if result is None:
            yield f"{program} {name}: there is no such verb"
            return
    entries = {option for param in result.params for option in (*param.opts, *param.secondary_opts)}
    for word in words:
        if word.startswith("-") and word.partition("=")[0] not in entries:
            yield f"there is no option {word}"


RULES: Final = {rule.__name__: rule for rule in (pins, limits, machines, trust, artifacts, verbs)}
FILES: Final = {
    path.name if path.parent.name == "workflows" else f"{path.parent.name}/{path.name}": (
        path.read_text("utf-8")
    )
    for path in (*GITHUB.glob("workflows/*"), *GITHUB.glob("actions/*/*"))
} | {"others/action.yml": (PROJECT / "action.yml").read_text("utf-8")}

GOOD = """\
name: Good
on:
  schedule: [{ cron: "0 0 * * *" }]
  workflow_dispatch:
permissions: {}
jobs:
  run:
    runs-on: [self-hosted, duetbench]
    timeout-minutes: 10
    permissions:
      contents: read
    steps:
      - uses: actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1
      - uses: ./.github/actions/setup
      - timeout-minutes: 5
        env:
          SHARD: ${{ matrix.shard }}
        run: exec observatory sandbox -- duetbench run --profile "$SHARD"
      - uses: actions/upload-artifact@043fb46d1a93c77aae656e7c1c64a875d1fc6a0a # v7.0.1
        if: ${{ !cancelled() }}
  tell:
    runs-on: ubuntu-24.04
    timeout-minutes: 10
    permissions:
      issues: write
    steps:
      - run: observatory doctor --json
"""
CALLER = """\
name: Caller
on: { schedule: [{ cron: "0 0 * * *" }] }
permissions: {}
jobs:
  run:
    permissions:
      contents: write
    uses: ./.github/workflows/shard.yml
    with:
      commit: ${{ needs.plan.outputs.commit }}
"""
ROOM = (
    "      - timeout-minutes: 1\n        run: exec observatory sandbox -- observatory inprocess\n"
)
DOCTOR = "run: observatory doctor --json"
CHECKOUT = (
    "      - uses: actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1\n"
    "        with:\n          ref: ${{ %s }}\n      - run: observatory doctor"
)
DEPTH = (CHECKOUT % "github.sha").replace("ref: ${{ github.sha }}", "fetch-depth: 0")
DOWNLOAD = (
    "      - uses: actions/download-artifact@3e5f45b2cfb9172054b4087a40e8e0b5a5461e7c # v8.0.1\n"
    "        with:\n          %s\n      - run: observatory doctor"
)
CRON = '{ schedule: [{ cron: "0 0 * * *" }] }'
BAD = [
    ("pins", "uses: actions/checkout@", "uses: somebody/checkout@"),
    ("pins", "@3d3c42e5aac5ba805825da76410c181273ba90b1 #", "@v7 #"),
    ("limits", "permissions: {}\n", ""),
    ("limits", "    permissions:\n      issues: write\n", ""),
    ("limits", "    timeout-minutes: 10\n", ""),
    ("limits", "timeout-minutes: 5", "name: Measure"),
    ("limits", "      - run: observatory doctor", DEPTH),
    ("limits", "      - uses: actions/upload-artifact", f"{ROOM}      - uses: actions/upload-art"),
    ("machines", "  run:\n", "  other:\n"),
    ("machines", "observatory sandbox -- duetbench run", "duetbench run"),
    ("machines", "exec observatory", "observatory"),
    ("machines", "-- duetbench run --profile", "-- observatory anchor run --profile"),
    ("machines", "/actions/setup\n", "/actions/setup\n        with:\n          target: setup\n"),
    ("machines", "ubuntu-24.04", "[self-hosted, duetbench]"),
    ("machines", "      contents: read\n", "      contents: write\n"),
    ("machines", "SHARD: ${{ matrix.shard }}", "GITHUB_TOKEN: ${{ github.token }}"),
    ("machines", "  workflow_dispatch:\n", "  issue_comment:\n"),
    ("trust", "  workflow_dispatch:\n", "  pull_request:\n"),
    ("trust", "      - run: observatory doctor", CHECKOUT % "github.head_ref"),
    ("verbs", DOCTOR, "run: curl --fail https://example.org"),
    ("verbs", DOCTOR, f"{DOCTOR} || true"),
    ("verbs", DOCTOR, "run: observatory doctor --jsno"),
    ("artifacts", "      - run: observatory doctor", DOWNLOAD % "name: night"),
    ("machines", CRON, "[schedule, issue_comment]"),
    ("trust", "needs.plan.outputs.commit", "github.event.comment.body"),
]


@pytest.mark.parametrize("name", FILES)
def test_every_workflow_keeps_every_rule(name: str) -> None:
    for rule in RULES.values():
        assert list(rule(name, FILES[name])) == []


@pytest.mark.parametrize(("rule", "part", "instead"), BAD)
def test_a_rule_that_is_broken_is_noticed(rule: str, part: str, instead: str) -> None:
    """Of a workflow that keeps them all, one line is changed; callers are held to the same."""
    name, good = ("bench.yml", GOOD) if part in GOOD else ("x.yml", CALLER)
    assert [trouble for check in RULES.values() for trouble in check(name, good)] == []
    assert part in good
    assert list(RULES[rule](name, good.replace(part, instead, 1))) != []


def test_what_is_published_meets_no_package_that_is_not_locked() -> None:
    """It is uploaded, then started on another machine; without that nothing is published."""
    jobs = load(FILES["release.yml"])["jobs"]
    starts = [name for name, job in jobs.items() if re.search("make (try|image)'", str(job))]
    assert starts == ["try"]
    assert jobs["try"]["permissions"] == {"contents": "read"}
    assert "upload-artifact" not in str(jobs["try"])
    writes = {n for n, job in jobs.items() if "write" in job["permissions"].values()}
    assert writes == {"publish", "image", "images"}
    assert jobs["publish"]["needs"] == ["build", "try"]
    assert jobs["image"]["needs"] == ["build", "publish"]
    assert jobs["images"]["needs"] == "image"


def test_nothing_is_left_out() -> None:
    """All that GitHub would read is among the files: the rules would not see another one."""
    settings = {"actionlint.yaml", "dependabot.yml", "zizmor.yml"}
    everything = {path.name for path in GITHUB.rglob("*.y*ml")}
    assert everything - settings == {name.rpartition("/")[2] for name in FILES}
    assert set(FILES) >= {"ci.yml", "slash.yml", "bench.yml", "nightly.yml", "publish.yml"}


def test_every_workflow_is_described() -> None:
    """The page's first table has a row for each of them, and for nothing else."""
    page = (PROJECT / "docs" / "automation.md").read_text("utf-8")
    described = re.findall(r"^\| `([\w.]+)` \|", page.partition("### ")[0], re.MULTILINE)
    assert sorted(described) == sorted(name for name in FILES if "/" not in name)


def test_actionlint_and_zizmor_find_nothing(tmp_path: Path) -> None:
    """Expressions, contexts, inputs, labels and cron lines are what GitHub takes them for."""
    shutil.copytree(GITHUB, tmp_path / ".github")
    shutil.copy(PROJECT / "action.yml", tmp_path)
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    done = actionlint(tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    done = zizmor(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
