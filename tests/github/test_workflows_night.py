"""A night and a pull request, run by act."""

import json
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from acting import Stage, need
from duetbench.core.change import Release
from duetbench.core.comparison import PackageChange
from duetbench.host import files
from fake_github import BOT
from observatory.store.change import SeriesName
from repos import commit, git, protect
from staging import set_stage
from synthetic import change_record

pytestmark = [pytest.mark.thorough, pytest.mark.real]

SCHEDULED: Final = {"schedule": "41 9 * * *"}
TRIED: Final = "short/one"
BRANCH: Final = "duetbench/stack"
STARTED: Final = {
    "ref": "refs/heads/main",
    "repository": {"default_branch": "main"},
    "inputs": {"select": TRIED},
}
CHANGE: Final = change_record(
    id="20261101-alpha",
    series=SeriesName(machine="xeon-2c-000000", case=TRIED, metric="server_cpu_per_request"),
    packages=(PackageChange(stack="current", package="alpha", base="0.9", head="1.0"),),
    culprit=Release(package="alpha", version="1.0", previous="0.9"),
)


def remember(stage: Stage) -> None:
    """Let the history begin with a change that an earlier night has confirmed."""
    folder = stage.folder / "history"
    subprocess.run(["git", "clone", "--quiet", stage.remote, folder], check=True)
    git(folder, "switch", "--quiet", "--orphan", "gh-pages")
    files.save(folder / "results", CHANGE)
    commit(folder, "A change")
    git(folder, "push", "--quiet", "origin", "gh-pages")


def recorded(stage: Stage, folder: str) -> list[Any]:
    """The JSON files of the history below `results/<folder>/`."""
    listed = git(stage.remote, "ls-tree", "-r", "--name-only", "gh-pages", f"results/{folder}/")
    return [json.loads(git(stage.remote, "show", f"gh-pages:{path}")) for path in listed.split()]


@pytest.mark.long
def test_a_night_and_what_is_published_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A release comes out: it is locked, measured, stored and shown; an earlier change is told.

    One case is tried, and nothing inside the process.
    """
    need("act")
    with set_stage(tmp_path, monkeypatch) as (stage, index):
        remember(stage)
        before = git(stage.tree, "rev-parse", "HEAD")
        protect(stage.remote)
        index.add("alpha", "2.0", "2026-11-01")
        night = stage.act("nightly.yml", "workflow_dispatch", STARTED)
        jobs = ("plan", "run/1", "store/1", "store")
        assert night.results == dict.fromkeys(jobs, "success"), night.text

        # The stack: a commit of its own, which says what was released.
        assert git(stage.remote, "rev-parse", "main") == before
        bump, start = (git(stage.remote, "rev-parse", f"{BRANCH}~{n}") for n in range(2))
        assert start == before
        changed = git(stage.remote, "diff", "--name-only", before, bump)
        assert changed == "apps/stacks/current.txt"
        message = git(stage.remote, "log", "-1", "--format=%B", bump)
        assert all(word in message for word in ("alpha", "1.0", "2.0"))

        # The history: the shard's run.
        (run,) = recorded(stage, "runs")
        assert (run["shard"], run["commit"]) == (1, bump)
        assert run["stacks"][0]["packages"]["alpha"] == "2.0"
        (result,) = run["results"]
        assert (result["case"]["id"], result["launches"][0]["status"]) == (TRIED, "ok")
        assert "Run Main Measure against the anchor" in night.text
        assert "Run Main Measure inside the process" not in night.text

        # Without Pages its job says so, and the rest goes on: an issue. With it, the site is first.
        stage.variables["STANDIN_NO_PAGES"] = "1"
        outcome = stage.act("publish.yml", "schedule", SCHEDULED)
        assert outcome.results == {"detect": "success", "site": "failure"}, outcome.text
        assert "Get Pages site failed" in outcome.text
        (issue,) = stage.github.issues
        assert (issue["state"], f"/c/{CHANGE.id}/" in issue["body"]) == ("open", True)
        del stage.variables["STANDIN_NO_PAGES"]
        outcome = stage.act("publish.yml", "schedule", SCHEDULED)
        assert outcome.results == dict.fromkeys(("detect", "site"), "success"), outcome.text
        assert stage.github.issues == [issue]
        site = stage.folder / "pages" / str(outcome.number)
        for page in ("", f"c/{CHANGE.id}/", "sides/", "docs/"):
            assert (site / page / "index.html").is_file(), page
        assert 'href="./docs/"' in (site / "index.html").read_text("utf-8")
        assert git(stage.remote, "ls-tree", "--name-only", "gh-pages") == "results"


PULL = 7
NASTY = '$(touch pwned) `touch pwned` ${{ github.token }} <img src=x> **x** "; exit 1 #'
APP = "apps/short/short.py"


@pytest.mark.long
def test_from_the_question_to_the_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One comment: a placeholder, then the report; where nothing comes of it, the reason."""
    need("act")
    with set_stage(tmp_path, monkeypatch) as (stage, _):
        stage.github.permit("maintainer", "write")
        fork = tmp_path / "fork"
        subprocess.run(["git", "clone", "--quiet", stage.remote, fork], check=True)
        base, app = git(stage.tree, "rev-parse", "main"), (fork / APP).read_text()

        def propose(**files: str) -> str:
            """Push a commit; its message, title and branch are nasty."""
            head = commit(fork, NASTY, **files)
            git(fork, "push", "--quiet", "--force", "origin", f"HEAD:refs/pull/{PULL}/head")
            pull = stage.github.add_pull(PULL, head, base)
            pull["title"] = pull["head"]["ref"] = NASTY
            return head

        def said() -> str:
            comments = stage.github.comments_of(PULL)
            (body,) = (comment["body"] for comment in comments if comment["user"]["login"] == BOT)
            return str(body)

        head = propose(**{APP: f"{app}\nCHANGED = True\n"})
        event = stage.github.comment_event(PULL, "maintainer", f"/bench {head}")
        event["issue"]["title"] = NASTY
        requests = stage.act("slash.yml", "issue_comment", event)
        assert requests.results == {"answer": "success"}, requests.text
        assert "duetbench: queued" in said()
        inputs = {"pr": str(PULL), "head": head, "base": base}
        assert stage.github.dispatches[-1]["inputs"] == inputs
        budget, result = (
            {"DUETBENCH_BUDGET": "5s"},
            dict.fromkeys(("approve", "run", "report"), "success"),
        )
        payload = {"inputs": inputs}
        measured = stage.act("bench.yml", "workflow_dispatch", payload, variables=budget)
        assert measured.results == result, measured.text
        assert head[:12] in said()
        assert "no result" not in said()
        assert "short/" in said()

        head = propose(**{"apps/short/experiment.toml": "question = 1\n"})
        payload = {"inputs": {**inputs, "head": head}}
        broken = stage.act("bench.yml", "workflow_dispatch", payload, variables=budget)
        assert broken.results == {**result, "run": "failure", "report": "failure"}, broken.text
        assert "no result" in said()
        assert not list(stage.folder.rglob("pwned"))
