"""What nights and `/bench` lack: settings on GitHub, and files of the machine that runs their jobs.

Each comes with the click or command that mends it.
"""

import re
import subprocess
import tempfile
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from duetbench.github.api import GitHub
from duetbench.github.event import ENVIRONMENT, has_reviewers

GROUP_ADVICE: Final = (
    "a runner of an organization is not listed here: its group must allow this repository "
    "(the organization's Settings, Actions, Runner groups)"
)
_GENERAL: Final = "Settings, Actions, General"
_SCHEDULED: Final = ("nightly.yml", "publish.yml")

_SCRIPT: Final = Path(__file__).resolve().parents[2] / "prepare-runner.sh"
_WORDS: Final = "etc/duetbench/words"
_UNITS: Final = "etc/systemd/system"
_WALL: Final = re.compile(r"duetbench-(sandbox|network|packages)|/hosts$")
"""Files that make the sandbox what it is; each of the others is a warning."""


class Check(NamedTuple):
    """One setting of a repository; `right` is None if the token may not see it."""

    what: str
    right: bool | None
    detail: str


def checks(github: GitHub, workflows: Collection[str], labels: Sequence[str]) -> Iterator[Check]:
    """Check the settings that a checkout's workflows need.

    `labels`: those that runners need, each a machine's id; without any, one runner of any label is
    enough. Raises ServiceError if GitHub does not answer.
    """
    name = github.context.repository
    about = _setting(github, "") or {}
    yield Check(
        "repository",
        None if not about else not about.get("private"),
        f"{name} must be public, as machines fetch commits without credentials: "
        "Settings, General, Change visibility",
    )
    issues = f"off, as in every fork: gh repo edit {name} --enable-issues"
    yield Check("issues", about.get("has_issues"), issues)
    yield _of(github, "actions", "/actions/permissions", "enabled", True, f"{_GENERAL}: allow them")
    yield _of(
        github, "workflows' token", "/actions/permissions/workflow",
        "default_workflow_permissions", "read", f"{_GENERAL}: read repository contents only",
    )  # fmt: skip
    yield _of(
        github, "approvals", "/actions/permissions/fork-pr-contributor-approval",
        "approval_policy", "all_external_contributors",
        f"{_GENERAL}: require approval for all external contributors",
    )  # fmt: skip
    yield from _schedules(github, workflows)
    if "bench.yml" in workflows:
        fix = f"Settings, Environments, {ENVIRONMENT}: add a required reviewer"
        yield Check(f"environment {ENVIRONMENT}", has_reviewers(github, ENVIRONMENT), fix)
    if "publish.yml" in workflows:
        pages, admin = _setting(github, "/pages"), about.get("permissions", {}).get("admin", True)
        unseen, built = pages is None and not admin, (pages or {}).get("build_type") == "workflow"
        fix = "Settings, Pages: source GitHub Actions, never a branch"
        yield Check("pages", None if unseen else built, fix)
    if "nightly.yml" in workflows:
        yield from _runners(github, labels)
    if (owners := _setting(github, "/codeowners/errors")) is not None:
        lines = sorted({str(error.get("line")) for error in owners.get("errors", ())}, key=int)
        fix = f".github/CODEOWNERS, line {', '.join(lines)}: name somebody who can write"
        yield Check("code owners", not lines, fix)


def _setting(github: GitHub, address: str) -> dict[str, Any] | None:
    """Return the repository, or one of its settings; None if the token sees none."""
    setting: dict[str, Any] | None = github.get(address, absent={403, 404}, per_page=100)
    return setting


def _of(github: GitHub, what: str, address: str, key: str, right: object, fix: str) -> Check:
    setting = _setting(github, address)
    return Check(what, None if setting is None else setting.get(key) == right, fix)


def _schedules(github: GitHub, workflows: Collection[str]) -> Iterator[Check]:
    listed = (_setting(github, "/actions/workflows") or {}).get("workflows", ())
    states = {file["path"].rpartition("/")[2]: file["state"] for file in listed}
    for file in _SCHEDULED:
        if file in workflows:
            state = states.get(file, "not on the default branch")
            command = f"gh workflow enable {file} --repo {github.context.repository}"
            fix = command if file in states else f"push .github/workflows/{file} there"
            yield Check(f"workflow {file}", state == "active", f"{state.replace('_', ' ')}: {fix}")


def _runners(github: GitHub, labels: Sequence[str]) -> Iterator[Check]:
    answer = _setting(github, "/actions/runners")
    runners: list[dict[str, Any]] = (answer or {}).get("runners", [])
    for label in labels or ("",):
        required = {"self-hosted", "duetbench", *filter(None, [label])}
        fit = [r for r in runners if required <= {own["name"] for own in r.get("labels", ())}]
        online = any(runner.get("status") == "online" for runner in fit)
        problem = (
            "offline: sudo systemctl start duetbench-runner on the machine"
            if fit
            else f"none has the labels {', '.join(sorted(required))}: docs/nights.md, step 12; "
            f"{GROUP_ADVICE}"
        )
        right = None if answer is None else online
        yield Check(f"runner {label}".strip(), right, problem)


class Difference(NamedTuple):
    """How a machine differs from a runner that is prepared by this checkout's script.

    With an `error`, untrusted code would not run in this checkout's sandbox, so it does not run. A
    `notice` is about an addition of the machine's owner.
    """

    level: str
    text: str


def machine(root: Path = Path("/"), owner: int = 0) -> Iterator[Difference]:
    """Compare this machine, file by file, with what `prepare-runner.sh` writes for its words.

    `root` has the machine's files, of which no account except root and `owner` may change any.
    """
    try:
        words = (root / _WORDS).read_text().split()
    except OSError as error:
        reason = f"{root / _WORDS}: {error.strerror}"
        yield Difference("error", f"this machine is not prepared as a runner: {reason}")
        return
    with tempfile.TemporaryDirectory() as folder:
        script = ["sh", str(_SCRIPT), *words, f"root={folder}"]
        done = subprocess.run(script, capture_output=True, text=True, check=False)
        files = [path for path in sorted(Path(folder).rglob("*")) if path.is_file()]
        made = {str(path.relative_to(folder)): _effective(path) for path in files}
    if done.returncode:
        yield Difference("error", f"{root / _WORDS}: {done.stderr.strip()}")
    for name, lines in made.items():
        file, level = root / name, "error" if _WALL.search(name) else "warning"
        try:
            if _effective(file) != lines:
                yield Difference(level, f"{file} differs from this checkout's")
            for entry in (file, *file.parents):
                status = entry.stat()
                shared = status.st_mode & 0o022 and not status.st_mode & 0o1000
                if shared or status.st_uid not in {0, owner}:
                    expected = "expected root as its owner, and no other account that can write"
                    yield Difference("error", f"{entry}: {expected} to it")
        except OSError as error:
            yield Difference(level, f"{file}: {error.strerror}")
    for file in sorted((root / _UNITS).glob("duetbench-*.d/*")):
        if str(file.relative_to(root)) not in made:
            yield Difference("notice", f"{file}: an addition of this machine's")


def _effective(file: Path) -> list[str]:
    """Read a file's lines without comments."""
    return [line for line in file.read_text().splitlines() if not line.startswith("#")]
