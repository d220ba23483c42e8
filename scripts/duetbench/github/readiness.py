"""GitHub settings that nights and `/bench` lack, each with the click or command that sets it."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final, NamedTuple

from duetbench.github.api import GitHub

GROUP_ADVICE: Final = (
    "a runner of an organization is not listed here: its group must allow this repository "
    "(the organization's Settings, Actions, Runner groups)"
)
_GENERAL: Final = "Settings, Actions, General"
_SCHEDULED: Final = ("nightly.yml", "publish.yml")
_BENCH: Final = "bench"  # the environment of bench.yml


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
    about = github.setting() or {}
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
        right = github.has_reviewers(_BENCH)
        fix = f"Settings, Environments, {_BENCH}: add a required reviewer"
        yield Check(f"environment {_BENCH}", right, fix)
    if "publish.yml" in workflows:
        pages, admin = github.setting("/pages"), about.get("permissions", {}).get("admin", True)
        unseen, built = pages is None and not admin, (pages or {}).get("build_type") == "workflow"
        fix = "Settings, Pages: source GitHub Actions, never a branch"
        yield Check("pages", None if unseen else built, fix)
    if "nightly.yml" in workflows:
        yield from _runners(github, labels)
    if (owners := github.setting("/codeowners/errors")) is not None:
        lines = sorted({str(error.get("line")) for error in owners.get("errors", ())}, key=int)
        fix = f".github/CODEOWNERS, line {', '.join(lines)}: name somebody who can write"
        yield Check("code owners", not lines, fix)


def _of(github: GitHub, what: str, address: str, key: str, right: object, fix: str) -> Check:
    setting = github.setting(address)
    return Check(what, None if setting is None else setting.get(key) == right, fix)


def _schedules(github: GitHub, workflows: Collection[str]) -> Iterator[Check]:
    listed = (github.setting("/actions/workflows") or {}).get("workflows", ())
    states = {file["path"].rpartition("/")[2]: file["state"] for file in listed}
    for file in _SCHEDULED:
        if file in workflows:
            state = states.get(file, "not on the default branch")
            command = f"gh workflow enable {file} --repo {github.context.repository}"
            fix = command if file in states else f"push .github/workflows/{file} there"
            yield Check(f"workflow {file}", state == "active", f"{state.replace('_', ' ')}: {fix}")


def _runners(github: GitHub, labels: Sequence[str]) -> Iterator[Check]:
    answer = github.setting("/actions/runners")
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
