"""A pull request, from the comment that asks to the comment that answers, run by act."""

import subprocess
from pathlib import Path

import pytest

from acting import need
from fake_github import BOT
from repos import commit, git
from staging import set_stage

PULL = 7
NASTY = '$(touch pwned) `touch pwned` ${{ github.token }} <img src=x> **x** "; exit 1 #'
APP = "apps/short/short.py"


@pytest.mark.long
@pytest.mark.real
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
        budget, done = (
            {"DUETBENCH_BUDGET": "5s"},
            dict.fromkeys(("approve", "run", "report"), "success"),
        )
        payload = {"inputs": inputs}
        measured = stage.act("bench.yml", "workflow_dispatch", payload, variables=budget)
        assert measured.results == done, measured.text
        assert head[:12] in said()
        assert "no result" not in said()
        assert "short/" in said()

        head = propose(**{"apps/short/experiment.toml": "question = 1\n"})
        payload = {"inputs": {**inputs, "head": head}}
        broken = stage.act("bench.yml", "workflow_dispatch", payload, variables=budget)
        assert broken.results == {**done, "run": "failure", "report": "failure"}, broken.text
        assert "no result" in said()
        assert not list(stage.folder.rglob("pwned"))
