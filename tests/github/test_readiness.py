"""What `observatory doctor` finds: a repository that is ready, and what may lack."""

import json
from typing import Any, Final

import pytest

from bench import PROJECT
from duetbench.github.actions import Context
from duetbench.github.api import GitHub
from fake_github import GUARDED, FakeGitHub
from observatory.github import readiness

FILES: Final = {"nightly.yml", "publish.yml", "bench.yml", "ci.yml"}
MACHINE: Final = "xeon-2c-a70dae"
READY: Final[dict[str, dict[str, Any]]] = {
    "": {"private": False, "has_issues": True, "fork": True},
    "actions/permissions": {"enabled": True},
    "actions/permissions/workflow": {"default_workflow_permissions": "read"},
    "actions/permissions/fork-pr-contributor-approval": {
        "approval_policy": "all_external_contributors"
    },
    "actions/workflows": {
        "workflows": [
            {"path": f".github/workflows/{file}", "state": "active"} for file in sorted(FILES)
        ]
    },
    "pages": {"build_type": "workflow"},
    "actions/runners": {
        "runners": [
            {
                "status": "online",
                "labels": [{"name": n} for n in ("self-hosted", "Linux", "duetbench", MACHINE)],
            }
        ]
    },
    "codeowners/errors": {"errors": []},
    "environments/bench": GUARDED,
}


def look(github: FakeGitHub, *labels: str) -> dict[str, tuple[bool | None, str]]:
    context = Context(github.repository, "secret", api_url=github.url)
    with GitHub(context, patience=1) as client:
        found = readiness.checks(client, FILES, labels or (MACHINE,))
        return {one.what: (one.right, one.detail) for one in found}


def changed(address: str, **fields: Any) -> dict[str, dict[str, Any]]:
    """A ready repository, one setting of which is another."""
    return {**READY, address: {**READY[address], **fields}}


def test_a_repository_that_is_ready_lacks_nothing(github_server: FakeGitHub) -> None:
    github_server.reset()
    github_server.resources = READY
    assert {right for right, _ in look(github_server).values()} == {True}
    assert all(one.startswith("GET ") for one in github_server.requests)  # it changes nothing


@pytest.mark.parametrize(
    ("settings", "what", "mend"),
    [
        (changed("", private=True), "repository", "Change visibility"),
        (changed("", has_issues=False), "issues", "gh repo edit owner/name --enable"),
        (changed("actions/permissions", enabled=False), "actions", "allow them"),
        (
            changed("actions/permissions/workflow", default_workflow_permissions="write"),
            "workflows' token", "read repository contents",
        ),
        (
            changed(
                "actions/workflows",
                workflows=[
                    {"path": ".github/workflows/nightly.yml", "state": "disabled_fork"},
                    {"path": ".github/workflows/publish.yml", "state": "active"},
                ],
            ),
            "workflow nightly.yml",
            "disabled fork: gh workflow enable nightly.yml --repo owner/name",
        ),
        (changed("pages", build_type="legacy"), "pages", "source GitHub Actions"),
        (changed("actions/runners", runners=[]), f"runner {MACHINE}", "group must allow"),
        (
            changed(
                "actions/runners",
                runners=[{**READY["actions/runners"]["runners"][0], "status": "offline"}],
            ),
            f"runner {MACHINE}", "systemctl start duetbench-runner",
        ),
        (changed("codeowners/errors", errors=[{"line": 8}, {"line": 9}]), "code owners", "8, 9:"),
    ],
)  # fmt: skip
def test_what_is_missing_comes_with_what_mends_it(
    settings: dict[str, dict[str, Any]], what: str, mend: str, github_server: FakeGitHub
) -> None:
    github_server.reset()
    github_server.resources = settings
    found = look(github_server)
    assert [name for name, (right, _) in found.items() if right is not True] == [what]
    assert mend in found[what][1]


def test_what_a_token_may_not_see_is_not_called_missing(github_server: FakeGitHub) -> None:
    github_server.reset()
    hidden = ("actions/permissions", "actions/runners", "codeowners/errors", "environments")
    github_server.resources = {k: v for k, v in READY.items() if not k.startswith(hidden)}
    found = look(github_server)
    unknown = {name for name, (right, _) in found.items() if right is None}
    assert unknown == {"actions", "workflows' token", "approvals", f"runner {MACHINE}"}
    assert found["environment bench"][0] is False


def test_the_doctor_shows_it(
    github_server: FakeGitHub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from typer import Exit

    from observatory.cli.readiness import doctor_command

    github_server.reset()
    github_server.resources = changed("", has_issues=False)
    for name, value in (
        ("GITHUB_REPOSITORY", "owner/name"), ("GITHUB_TOKEN", "x"),
        ("GITHUB_API_URL", github_server.url), ("DUETBENCH_ROOT", str(PROJECT)),
    ):  # fmt: skip
        monkeypatch.setenv(name, value)

    def rows() -> dict[str, dict[str, str]]:
        with pytest.raises(Exit):
            doctor_command(as_json=True)
        told = capsys.readouterr()
        assert told.err == "asking GitHub about owner/name\n"
        return {one["what"]: one for one in json.loads(told.out)["findings"]}

    found = rows()
    assert found["GitHub: issues"]["state"] == "missing"
    assert found["GitHub: pages"]["state"] == "ok"
    github_server.fail(status=401, times=-1)
    found = rows()
    assert "GITHUB_TOKEN" in found["GitHub"]["detail"]
    assert found["oha"]["state"] in {"ok", "missing"}  # what is here is shown all the same
