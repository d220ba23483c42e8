"""What GitHub lacks for nights and `/bench`, each with the click or the command that mends it."""

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
    """One setting of a repository; `right` is None where the token may not see it."""

    what: str
    right: bool | None
    detail: str


def checks(github: GitHub, workflows: Collection[str], labels: Sequence[str]) -> Iterator[Check]:
    """Look at the settings that a checkout's workflows need.

    `labels`: what a runner has to have, each the id of a machine; without any, one runner of any
    label is enough. Raises ServiceError where GitHub does not answer.
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
        mend = f"Settings, Environments, {_BENCH}: add a required reviewer"
        yield Check(f"environment {_BENCH}", right, mend)
    if "publish.yml" in workflows:
        pages, admin = github.setting("/pages"), about.get("permissions", {}).get("admin", True)
        unseen, built = pages is None and not admin, (pages or {}).get("build_type") == "workflow"
        mend = "Settings, Pages: source GitHub Actions, never a branch"
        yield Check("pages", None if unseen else built, mend)
    if "nightly.yml" in workflows:
        yield from _runners(github, labels)
    if (owners := github.setting("/codeowners/errors")) is not None:
        lines = sorted({str(error.get("line")) for error in owners.get("errors", ())}, key=int)
        mend = f".github/CODEOWNERS, line {', '.join(lines)}: name somebody who can write"
        yield Check("code owners", not lines, mend)


def _of(github: GitHub, what: str, address: str, key: str, right: object, mend: str) -> Check:
    found = github.setting(address)
    return Check(what, None if found is None else found.get(key) == right, mend)


def _schedules(github: GitHub, workflows: Collection[str]) -> Iterator[Check]:
    listed = (github.setting("/actions/workflows") or {}).get("workflows", ())
    states = {one["path"].rpartition("/")[2]: one["state"] for one in listed}
    for file in _SCHEDULED:
        if file in workflows:
            state = states.get(file, "not on the default branch")
            command = f"gh workflow enable {file} --repo {github.context.repository}"
            mend = command if file in states else f"push .github/workflows/{file} there"
            yield Check(f"workflow {file}", state == "active", f"{state.replace('_', ' ')}: {mend}")


def _runners(github: GitHub, labels: Sequence[str]) -> Iterator[Check]:
    found = github.setting("/actions/runners")
    runners: list[dict[str, Any]] = (found or {}).get("runners", [])
    for label in labels or ("",):
        wanted = {"self-hosted", "duetbench", *filter(None, [label])}
        fit = [r for r in runners if wanted <= {one["name"] for one in r.get("labels", ())}]
        online = any(runner.get("status") == "online" for runner in fit)
        problem = (
            "offline: sudo systemctl start duetbench-runner on the machine"
            if fit
            else f"none has the labels {', '.join(sorted(wanted))}: docs/nights.md, step 12; "
            f"{GROUP_ADVICE}"
        )
        right = None if found is None else online
        yield Check(f"runner {label}".strip(), right, problem)
