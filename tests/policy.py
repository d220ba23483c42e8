"""What workflows and actions of this repository must keep to. Each rule lists what breaks it."""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import typer.main

from acting import load
from servebench.cli import app

OURS: Final = {("bench.yml", "run"), ("shard.yml", "run"), ("nightly.yml", "confirm")}
"""The only jobs that our own machines take."""

TAKEN: Final = {"schedule", "workflow_dispatch"}
"""What may start a workflow that uses our machines: nothing that a stranger can do."""

CALLED: Final = {"workflow_call"}
"""What starts a workflow that only others of ours call; whoever calls it is held to the same."""

PRIVILEGED: Final = {"contents", "actions", "issues", "pull-requests", "statuses", "pages"}

ACTIONS: Final = {
    "actions/checkout",
    "actions/upload-artifact",
    "actions/download-artifact",
    "actions/upload-pages-artifact",
    "actions/configure-pages",
    "actions/deploy-pages",
}
"""All that is used of others. No cache is among them. Which version of each, the files say."""

LONGEST: Final = 180  # minutes of a job
COMMANDS: Final = {"servebench", "make", "git"}

IN_THE_ROOM: Final = {"run", "inprocess", "detect", "bisect"}
"""Verbs that run others' packages: on machines of ours only as `servebench ci fleet VERB`."""

HANDED: Final = (
    ("run", "--plan"), ("accept", "--plan"), ("history", "--plan"), ("accept", "--candidates"),
    ("detect", "--from"),
)  # fmt: skip
"""Verbs and options that take a file of another job; each has an option for its SHA-256."""

_PIN: Final = re.compile(r"[0-9a-f]{40} # v\d+\.\d+\.\d+")
_USES: Final = re.compile(r"^\s*(?:- )?uses: +([^\s#]+)(?: +# (\S+))?\s*$")
_EXPRESSION: Final = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)
_PULL_REQUEST: Final = re.compile(r"github\.(head_ref|event\.pull_request|event\.issue)")


@dataclass(frozen=True)
class File:
    """A workflow or an action.

    Attributes:
        name: `nightly.yml`, or `setup/action.yml`.
        text: What it says.
    """

    name: str
    text: str

    @property
    def document(self) -> dict[str, Any]:
        """As data."""
        return load(self.text)

    @property
    def is_action(self) -> bool:
        """Whether it is an action, not a workflow."""
        return self.name.endswith("action.yml")

    @property
    def jobs(self) -> dict[str, dict[str, Any]]:
        """The jobs of a workflow."""
        found: dict[str, dict[str, Any]] = self.document.get("jobs", {})
        return found

    @property
    def triggers(self) -> set[str]:
        """What starts a workflow."""
        return set(self.document.get("on", {}))

    def steps(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """All steps, with the name of their job."""
        for name, job in self.jobs.items():
            for step in job.get("steps", []):
                yield name, step
        for step in self.document.get("runs", {}).get("steps", []):
            yield "", step


def pins(file: File) -> Iterator[str]:
    """Others' actions are known, and pinned to a commit, with its version beside it."""
    for line in file.text.splitlines():
        if not re.match(r"^\s*(- )?uses:", line):
            continue
        found = _USES.match(line)
        if found is None:
            yield f"cannot be read: {line.strip()}"
        elif not found[1].startswith("./"):
            name, _, sha = found[1].partition("@")
            if name not in ACTIONS:
                yield f"{name}: not one of the actions that are used here"
            if not _PIN.fullmatch(f"{sha} # {found[2]}"):
                yield f"{found[1]} # {found[2]}: expected a full commit, and its version"


def permissions(file: File) -> Iterator[str]:
    """Nothing by default; every job names what it needs, right by right."""
    if file.is_action:
        return
    if file.document.get("permissions") != {}:
        yield "permissions at the top are not {}"
    for name, job in file.jobs.items():
        given = job.get("permissions")
        if not isinstance(given, dict) or not set(given.values()) <= {"read", "write"}:
            yield f"{name}: permissions are {given!r}"


def limits(file: File) -> Iterator[str]:
    """Every job ends; every workflow says what happens when it is started twice."""
    if file.is_action:
        return
    for name, job in file.jobs.items():
        if "uses" in job:
            continue  # its jobs have limits of their own
        minutes = job.get("timeout-minutes")
        if not isinstance(minutes, int) or not 0 < minutes <= LONGEST:
            yield f"{name}: timeout-minutes is {minutes!r}"
        yield from (f"{name}: {trouble}" for trouble in _late(job, minutes))
    if file.triggers != CALLED and "group" not in file.document.get("concurrency", {}):
        yield "no concurrency"


def machines(file: File) -> Iterator[str]:
    """Ours are used where that is meant, without rights, secrets or tokens."""
    for name, job in file.jobs.items():
        labels = job.get("runs-on")
        if "uses" in job:
            if not file.triggers <= TAKEN:
                yield f"{name}: calls what may use our machines, from {sorted(file.triggers)}"
            continue
        # Where others call it, they say which machine of theirs.
        theirs = file.name == "benchmark.yml" and labels == "${{ inputs.runner }}"
        if labels == "ubuntu-24.04" or theirs:
            continue
        if not isinstance(labels, list) or labels[:2] != ["self-hosted", "servebench"]:
            yield f"{name}: runs-on is {labels!r}"
        if (file.name, name) not in OURS:
            yield f"{name}: is not among the jobs for our own machines"
        if job.get("permissions") != {"contents": "read"}:
            yield f"{name}: has rights on a machine that runs others' code"
        if re.search(r"secrets\.|github\.token|GITHUB_TOKEN", str(job)):
            yield f"{name}: has a token on a machine that runs others' code"
        for step in job.get("steps", []):
            words = shlex.split(step.get("run", ""))
            if set(_called(words)[:1]) & (IN_THE_ROOM | {"compare"}):
                yield f"{name}: {_called(words)[0]} runs others' packages as the runner's user"
            if step.get("with", {}).get("target") == "setup" or words == ["servebench", "setup"]:
                yield f"{name}: makes environments of others' packages as the runner's user"
        if not file.triggers <= TAKEN and file.triggers != CALLED:
            yield f"{name}: is started by {sorted(file.triggers - TAKEN)}"


def injection(file: File) -> Iterator[str]:
    """Values reach a shell by its environment only."""
    for job, step in file.steps():
        if "${{" in step.get("run", ""):
            yield f"{job}: an expression in a script: {step['run']}"
        words = shlex.split(step.get("run", ""))
        before = words[: words.index("--")] if "--" in words else words
        if words[:1] == ["git"] and any("$" in word for word in before):
            yield f"{job}: a value that git could take for an option: {step['run']}"
        if step.get("uses", "").startswith("actions/github-script"):
            yield f"{job}: a script in YAML"


def secrets(file: File) -> Iterator[str]:
    """There are none; the token is given to single steps, and never kept by a checkout."""
    for name, job in file.jobs.items():
        if "secrets" in job or re.search(r"\bsecrets\.", str(job)):
            yield f"{name}: secrets"
        if re.search("github.token", str(job.get("env", ""))):
            yield f"{name}: the token in the environment of the whole job"
    if "github.token" in str(file.document.get("env", "")):
        yield "the token in the environment of the whole workflow"
    for where, step in file.steps():
        if step.get("uses", "").startswith("actions/checkout@"):
            kept = step.get("with", {}).get("persist-credentials", True)
            if kept is not False:
                yield f"{where}: a checkout keeps the token"


def trust(file: File) -> Iterator[str]:
    """Where there are rights, code of a pull request is neither checked out nor the trigger's."""
    for name, job in file.jobs.items():
        rights = {key for key, value in job.get("permissions", {}).items() if value == "write"}
        if not rights:
            continue
        if "pull_request" in file.triggers:
            yield f"{name}: rights in a workflow that pull requests can change"
        known = {"", "${{ needs.stack.outputs.commit || github.sha }}"}
        if "uses" in job and job.get("with", {}).get("commit", "") not in known:
            yield f"{name}: lets {job['uses']} check out {job['with']['commit']}"
        if file.triggers == CALLED:
            known |= {"${{ inputs.commit }}"}
        for step in job.get("steps", []):
            if step.get("uses", "").startswith("actions/checkout@"):
                reference = step.get("with", {}).get("ref", "")
                if reference not in known:
                    yield f"{name}: checks out {reference}"
            for value in step.get("env", {}).values():
                for expression in _EXPRESSION.findall(str(value)):
                    plain = expression.strip() in {
                        "github.event.pull_request.number",
                        "github.event.pull_request.head.sha",
                    }
                    if _PULL_REQUEST.search(expression) and not plain:
                        yield f"{name}: {expression.strip()}, which its author writes"


def verbs(file: File) -> Iterator[str]:
    """A step of a workflow is one command, without a shell's logic."""
    if file.is_action:
        return
    for job, step in file.steps():
        script = step.get("run", "")
        if not script:
            continue
        words = shlex.split(script)
        if words[0] not in COMMANDS:
            yield f"{job}: {words[0]} is no verb"
        if re.search(r"[;|&<>`\n]|\$\(", script.strip()):
            yield f"{job}: a shell's logic: {script.strip()}"


def options(file: File) -> Iterator[str]:
    """Verbs and options that a step names are those of the command line."""
    for job, step in file.steps():
        for call in re.findall(r"servebench\"? +((?:[^\n|]|\n +)+)", step.get("run", "")):
            words = shlex.split(call)
            yield from (f"{job}: {trouble}" for trouble in _unknown(words))


def digests(file: File) -> Iterator[str]:
    """What came as an artifact, and decides something, is held against a job's output.

    Machines of ours can replace an artifact of their own run, but not what another job has said.
    """
    if file.is_action:
        return
    for job, step in file.steps():
        words = shlex.split(step.get("run", ""))
        words = [word for word in words if word != "fleet"]
        if "--confirmed" in words and "--candidates" not in words:
            yield f"{job}: accepts what was confirmed, whatever was to be judged"
        for verb, option in HANDED:
            if _called(words)[:1] == [verb] and option in words:
                digest = f"{option}-sha256"
                place = words.index(digest) + 1 if digest in words else len(words)
                if not "".join(words[place : place + 1]).startswith("$"):
                    yield f"{job}: {verb} {option} without {digest} of a job's output"


def again(file: File) -> Iterator[str]:
    """A job can be run again: what it left the first time neither stops it nor is taken for new.

    A download by a pattern is as good as its worst artifact: one that is damaged ends all of it.
    One that fails makes no record of the night, which would take the place of a better one.
    """
    for job, step in file.steps():
        uses, given = step.get("uses", "").partition("@")[0], step.get("with", {})
        # In the run of another repository may be two of ours: neither may replace the other.
        overwrites = given.get("overwrite") is True or file.name == "benchmark.yml"
        if uses == "actions/upload-artifact" and not overwrites:
            yield f"{job}: uploads {given.get('name')} once only"
        if uses == "actions/upload-pages-artifact" and "run_attempt" not in given.get("name", ""):
            yield f"{job}: a site whose name is the same when it is built again"
        if uses == "actions/deploy-pages" and "needs." not in given.get("artifact_name", ""):
            yield f"{job}: publishes another site than the one that was built"
        if uses == "actions/download-artifact" and "name" not in given:
            yield f"{job}: downloads {given.get('pattern')} at once"
        words = step.get("run", "").split()
        records = _called(words)[:2] == ["history", "push"] and "--plan" in words
        if records and ".outcome == 'success'" not in str(step.get("if")):
            yield f"{job}: would record as missing what was only not fetched"


def _called(words: list[str]) -> list[str]:
    """The words of a verb of ours, with or without the group that workflows' verbs are in."""
    return words[1 + (words[1:2] == ["ci"]) :] if words[:1] == ["servebench"] else []


def _late(job: dict[str, Any], minutes: object) -> Iterator[str]:
    """What is uploaded whatever happened is lost where the job's own limit comes first."""
    steps = job.get("steps", [])
    kept = [
        place
        for place, step in enumerate(steps)
        if "upload-artifact@" in step.get("uses", "") and "!cancelled()" in str(step.get("if"))
    ]
    measuring = [
        step
        for step in steps[: max(kept, default=0)]
        if step.get("run", "").startswith("servebench ")
    ]
    before = [step.get("timeout-minutes") for step in measuring]
    if before and (None in before or not isinstance(minutes, int) or sum(before) >= minutes):
        yield f"the limits of its steps are {before}, of the job {minutes}"
    if any("!cancelled()" not in str(step.get("if")) for step in measuring[1:]):
        yield "after a step that fails, another one that could go on does not"


def _unknown(words: list[str]) -> Iterator[str]:
    found: Any = _command()
    if words[:2] == ["ci", "fleet"] and words[2] in IN_THE_ROOM:
        words = [*(["ci"] if words[2] == "detect" else []), *words[2:]]
    path = []
    while hasattr(found, "commands") and words:
        name, *words = words
        path.append(name)
        found = found.commands.get(name)
        if found is None:
            yield f"servebench {' '.join(path)}: there is no such verb"
            return
        found = found.load() if hasattr(found, "load") else found
    known = {option for parameter in found.params for option in parameter.opts}
    for word in words:
        if word.startswith("-") and word.partition("=")[0] not in known:
            yield f"servebench {' '.join(path)}: there is no option {word}"


@functools.cache
def _command() -> Any:
    return typer.main.get_command(app)


RULES: Final[dict[str, Callable[[File], Iterator[str]]]] = {
    rule.__name__: rule
    for rule in (
        pins, permissions, limits, machines, injection, secrets, trust, verbs, options, digests,
        again,
    )
}  # fmt: skip
