"""A pull request, from the comment that asks to the comment that answers, run by act."""

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from acting import Acted, Stage, need
from fake_github import BOT
from repos import commit, git
from staging import staged

PULL = 7
NASTY = '$(touch pwned) `touch pwned` ${{ github.token }} <img src=x> **x** "; exit 1 #'
APP = "apps/short/short.py"
DONE = dict.fromkeys(("queue", "approve", "run", "report"), "success")


@dataclass
class Request:
    """A pull request with a fork, and what people and GitHub do with it."""

    stage: Stage
    fork: Path
    base: str

    def propose(self, files: dict[str, str]) -> str:
        """Push a commit; its message, title and branch are nasty."""
        head = commit(self.fork, NASTY, **files)
        git(self.fork, "push", "--quiet", "--force", "origin", f"HEAD:refs/pull/{PULL}/head")
        pull = self.stage.github.add_pull(PULL, head, self.base, title=NASTY)
        pull["head"]["ref"] = NASTY
        return head

    def ask(self, login: str, body: str, action: str = "created") -> Acted:
        event = self.stage.github.comment_event(PULL, login, body, action, NASTY)
        return self.stage.act("slash.yml", "issue_comment", event)

    @property
    def started(self) -> dict[str, str]:
        inputs: dict[str, str] = self.stage.github.state.dispatches[-1]["inputs"]
        return inputs

    def bench(self) -> Acted:
        """Run the last comparison that was started, as GitHub would."""
        budget = {"DUETBENCH_BUDGET": "5s"}
        payload = {"inputs": self.started}
        return self.stage.act("bench.yml", "workflow_dispatch", payload, variables=budget)

    @property
    def said(self) -> list[str]:
        comments = self.stage.github.comments_of(PULL)
        return [one["body"] for one in comments if one["user"]["login"] == BOT]


@pytest.fixture
def request_(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Request]:
    """A repository with a fork; GitHub names the runs of `bench.yml` as that says."""
    need("act")
    with staged(tmp_path, monkeypatch) as (stage, _):
        stage.github.state.permissions |= {"maintainer": "write", "stranger": "read"}
        stage.github.state.run_names["bench.yml"] = "Bench #{pr} at {head}"
        fork = tmp_path / "fork"
        subprocess.run(["git", "clone", "--quiet", stage.remote, fork], check=True)
        yield Request(stage, fork, git(stage.tree, "rev-parse", "main"))


@pytest.mark.long
@pytest.mark.real
def test_from_the_question_to_the_answer_and_again_after_the_head_moved(request_: Request) -> None:
    """One comment: a placeholder, the report, marked outdated by a push, the next report."""
    stage, app = request_.stage, (request_.fork / APP).read_text()
    first = request_.propose({APP: f"{app}\nCHANGED = True\n"})
    asked = request_.ask("maintainer", f"/bench {first}")
    assert asked.results == {"answer": "success"}, asked.text
    assert request_.started == {"pr": str(PULL), "head": first, "base": request_.base}
    (placeholder,) = request_.said
    assert "duetbench: queued" in placeholder

    measured = request_.bench()
    assert measured.results == DONE, measured.text
    (report,) = request_.said
    assert first[:12] in report
    assert "no result" not in report
    assert "short/" in report
    statuses = [(one["sha"], one["state"]) for one in stage.github.state.statuses]
    assert statuses[0] == (first, "pending")
    # Where a busy machine lets nothing be judged, that is no success.
    judged = "**coverage**: 0 of" not in report
    final = {"success", "failure"} if judged else {"error"}
    assert statuses[-1] in {(first, state) for state in final}

    second = request_.propose({APP: app, "README.md": "# Better words\n"})
    tip = {
        "number": PULL, "title": NASTY, "head": {"sha": second, "ref": NASTY},
        "base": {"sha": request_.base, "ref": "main"},
    }  # fmt: skip
    pushed = stage.act(
        "outdated.yml", "pull_request_target", {"action": "synchronize", "pull_request": tip}
    )
    assert pushed.results == {"mark": "success"}, pushed.text
    (marked,) = request_.said
    assert "Outdated" in marked
    assert marked.endswith(report.partition("\n")[2])

    asked = request_.ask("maintainer", f"/bench {second}")
    assert asked.results == {"answer": "success"}, asked.text
    ended = [run["display_title"] for run in stage.github.state.runs if run["conclusion"]]
    assert ended == [f"Bench #{PULL} at {first}"]
    measured = request_.bench()
    assert measured.results == DONE, measured.text
    (report,) = request_.said
    assert second[:12] in report
    assert "Outdated" not in report
    assert "only documents" in report
    assert not list(stage.folder.rglob("pwned"))


def test_nothing_is_started_for_others_or_for_another_commit(request_: Request) -> None:
    """Neither for a stranger, nor for a commit that is not the head any more, nor by an edit."""
    old = request_.propose({"README.md": "# First\n"})
    head = request_.propose({"README.md": "# Second\n"})
    for login, body, action in (
        ("stranger", f"/bench {head}", "created"),
        ("maintainer", f"/bench {old}", "created"),
        ("maintainer", f"/bench {head}", "edited"),
    ):
        done = request_.ask(login, body, action)
        assert done.results == {"answer": "success"}, done.text
    # For what is no command, not even a machine is started.
    assert request_.ask("maintainer", f"Please do not /bench {head}").results == {}
    assert request_.stage.github.state.dispatches == []
    (answer,) = request_.said
    assert "not started" in answer
    assert old[:12] in answer


def test_a_comparison_without_a_result_is_told(request_: Request) -> None:
    """Here the proposed declaration cannot be read: the comment and the status say "no result"."""
    head = request_.propose({"apps/short/experiment.toml": "question = 1\n"})
    request_.ask("maintainer", f"/bench {head}")
    done = request_.bench()
    assert done.results == {**DONE, "run": "failure"}, done.text
    assert done.failed["run"][-1].startswith("actions/upload-artifact@")
    (told,) = request_.said
    assert "no result" in told
    status = request_.stage.github.state.statuses[-1]
    assert (status["sha"], status["state"]) == (head, "error")


def test_a_comparison_that_does_not_even_begin_is_told(request_: Request) -> None:
    """GitHub refuses the first job's status: nothing is approved or measured, and both say so."""
    github = request_.stage.github
    head = request_.propose({"README.md": "# Words\n"})
    github.fail(method="POST", path="/statuses/", status=403)
    inputs = {"pr": str(PULL), "head": head, "base": request_.base}
    done = request_.stage.act("bench.yml", "workflow_dispatch", {"inputs": inputs})
    assert done.results == {"queue": "failure", "report": "success"}, done.text
    (told,) = request_.said
    assert "no result" in told
    assert [(one["sha"], one["state"]) for one in github.state.statuses] == [(head, "error")]
