"""`/bench <commit>`: only who may, only what they looked at, and nothing of the comment itself."""

import json
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from duetbench.github.event import ENVIRONMENT
from fake_github import Table
from steps import BASE, BOT, HEAD, NEXT, Step

WORKFLOWS = Path(__file__).parents[2] / ".github" / "workflows"
OLDER = "d" * 40


@pytest.fixture(autouse=True)
def people(step: Step) -> None:
    """Alice may write, Rita may read, and nobody else is known."""
    for login, permission in (("alice", "write"), ("ada", "admin"), ("rita", "read")):
        step.github.permit(login, permission)


def nothing_started(step: Step) -> bool:
    """Whether no run was started, and no comparison announced."""
    return not (
        step.github.dispatches or any("### duetbench: queued" in body for body in step.ours())
    )


def test_who_may_write_starts_a_comparison(step: Step) -> None:
    """Of exactly the commit, with where it left its base, and a placeholder beforehand."""
    step.github.merge_bases["main"] = OLDER
    step.comment(f"/bench {HEAD}\nthanks!")
    done = step("slash")
    assert (done.code, done.err) == (0, "")
    assert done.out == "dispatched: the comparison was started\n"
    assert step.github.dispatches == [
        {
            "workflow": "bench.yml",
            "ref": "main",
            "inputs": {"pr": "12", "head": HEAD, "base": OLDER},
        }
    ]
    (body,) = step.ours()
    assert "### duetbench: queued" in body
    posts = step.requests("POST")
    assert posts.index("/issues/12/comments") < posts.index(
        "/actions/workflows/bench.yml/dispatches"
    )
    assert "dispatched" in step.summary


@pytest.mark.parametrize("login", ["mallory", "rita"])
def test_a_stranger_starts_nothing(login: str, step: Step) -> None:
    """Neither somebody unknown nor somebody who may only read; and no text is written for them."""
    step.comment(f"/bench {HEAD}", login)
    done = step("slash")
    assert done.code == 0
    assert done.out.startswith("refused: only people with write permission")
    assert nothing_started(step)
    assert step.ours() == []


NO_COMMIT: Final = "The request does not name a full commit"


@pytest.mark.parametrize(
    ("words", "change", "sentence"),
    [
        *((words, {}, NO_COMMIT) for words in ("main", HEAD[:39], f"{HEAD} --all", f"{HEAD};id")),
        (HEAD, {"head": {"sha": NEXT}}, "`aaaaaaaaaaaa` is not the head of this pull request"),
        (HEAD, {"state": "closed"}, "The pull request is not open."),
        (HEAD, {"base": {"sha": HEAD, "ref": "main"}}, "The commit is in the base branch already"),
    ],
)
def test_only_the_whole_newest_commit_is_compared(
    words: str, change: Table, sentence: str, step: Step
) -> None:
    """A branch would be whatever is pushed next. The answer quotes nothing but what to ask for."""
    pull = step.github.add_pull(12, HEAD, BASE)
    pull.update(change)
    step.comment(f"/bench {words}")
    assert step("slash").out.startswith(f"refused: {sentence}")
    assert nothing_started(step)
    (body,) = step.ours()
    assert f"### duetbench: not started\n\n{sentence}" in body
    hint = f"request it on the first line of a comment:\n\n```\n/bench {pull['head']['sha']}\n```"
    possible = not {"state", "base"} & change.keys()
    assert body.count("/bench") == body.count(hint) == possible


ASKED: Final = f"/bench {HEAD}"
NO_COMMAND: Final = "the comment does not begin with /bench"
NO_PERSON: Final = "the author of the comment is not a person"


@pytest.mark.parametrize(
    ("body", "login", "more", "reason"),
    [
        *(
            (body, "alice", {}, NO_COMMAND)
            for body in (f"> /bench {HEAD}", f"\n/bench {HEAD}", f"/benchmark {HEAD}")
        ),
        (ASKED, "alice", {"action": "edited"}, "the comment was edited, not created"),
        *((ASKED, login, {}, NO_PERSON) for login in (BOT, "../../../x")),
        (ASKED, "mallory", {"sender": {"login": "alice"}}, "the sender of the comment"),
        (ASKED, "alice", {"issue": {"number": 12}}, "the comment is not on a pull request"),
    ],
)
def test_other_comments_are_none_of_our_business(
    body: str, login: str, more: Table, reason: str, step: Step
) -> None:
    """Nobody is even asked: no command, edited by somebody, quoted by ourselves, or passed on."""
    step.github.permit(BOT, "write")
    step.set_event(step.comment(body, login) | more)
    assert step("slash").out.startswith(f"ignored: {reason}")
    assert nothing_started(step)
    assert step.github.requests == []


def test_the_base_is_where_the_head_left_the_branch_as_it_is_now(step: Step) -> None:
    """After "Update branch" GitHub's own base is older, and main's commits would be judged.

    The branch's name is one part of an address, whatever it holds.
    """
    pull = step.github.add_pull(12, HEAD, BASE)
    pull["base"]["ref"] = "release/2.x#1?&%2e"
    step.github.merge_bases |= {"release/2.x#1?&%2e": OLDER, "main": NEXT}
    step.comment(f"/bench {HEAD}")
    assert step("slash").out.startswith("dispatched")
    assert step.github.dispatches[0]["inputs"]["base"] == OLDER


@pytest.mark.parametrize("rules", [None, [{"type": "wait_timer"}]])
def test_nothing_starts_where_nobody_approves(rules: list[Table] | None, step: Step) -> None:
    """GitHub would make the missing environment, open to all."""
    environment = None if rules is None else {"protection_rules": rules}
    step.github.resources["environments/bench"] = environment
    step.comment(f"/bench {HEAD}")
    sentence = "The environment `bench` has no required reviewers"
    assert step("slash").out.startswith(f"refused: {sentence}")
    assert nothing_started(step)
    (body,) = step.ours()
    assert "add some in the repository's settings (Environments, `bench`)" in body


def test_hostile_titles_and_branches_are_neither_run_nor_shown(step: Step, tmp_path: Path) -> None:
    """Shell, Markdown and HTML in titles, branches and logins: none of it leaves the event."""
    hostile = f"$(touch {tmp_path}/owned) `id` ${{{{ github.token }}}} <img src=x> @everyone\n::x::"
    pull = step.github.add_pull(12, HEAD, BASE)
    pull.update(title=hostile, head={"sha": HEAD, "ref": hostile, "label": hostile})
    event = step.comment(f"/bench {HEAD}\n{hostile}")
    event["issue"]["title"] = hostile
    event["repository"]["description"] = hostile
    step.set_event(event)
    done = step("slash")
    assert done.out == "dispatched: the comparison was started\n"
    text = json.dumps([step.github.dispatches, step.ours(), step.summary, done.err])
    for part in ("touch", "img", "everyone", "::x", "github.token"):
        assert part not in text
    assert not (tmp_path / "owned").exists()


def test_an_answer_goes_when_it_is_granted(step: Step) -> None:
    """One answer however often one is wrong, and none beside the placeholder."""
    for words in ("main", "HEAD"):
        step.comment(f"/bench {words}")
        assert step("slash").out.startswith("refused")
        assert len(step.ours()) == 1
    step.comment(f"/bench {HEAD}")
    assert step("slash").out.startswith("dispatched")
    (body,) = step.ours()
    assert "### duetbench: queued" in body


def test_a_comparison_that_cannot_be_started_is_not_left_queued(step: Step) -> None:
    step.github.fail(method="POST", path="dispatches", status=404)
    step.comment(f"/bench {HEAD}")
    done = step("slash")
    assert done.code == 4
    assert "404 to POST /repos/owner/name/actions/workflows/bench.yml/dispatches" in done.err
    (body,) = step.ours()
    assert "### duetbench: no result" in body
    assert "The reason: it could not start." in body


def test_nothing_starts_while_github_cannot_be_asked(step: Step) -> None:
    step.github.fail(path="permission", status=500, times=-1)
    step.comment(f"/bench {HEAD}")
    assert step("slash").code == 4
    assert nothing_started(step)


@pytest.mark.parametrize("event", ["", "{}"])
def test_a_broken_event_or_another_one_is_refused(event: str, step: Step) -> None:
    step.comment(f"/bench {HEAD}")
    (step.folder / "event.json").write_text(event, "utf-8")
    done = step("slash")
    assert done.code in {2, 4}
    assert done.err.startswith("observatory: ")
    step.set(GITHUB_EVENT_NAME="pull_request_target")
    done = step("slash")
    assert (done.code, "expected issue_comment" in done.err) == (2, True)
    assert step.github.requests == []


def test_the_workflow_fits_the_verb() -> None:
    """Its inputs are those that are sent, and it waits where reviewers are asked for."""
    read: dict[Any, Any] = yaml.safe_load((WORKFLOWS / "bench.yml").read_text("utf-8"))
    assert read["jobs"]["approve"]["environment"] == ENVIRONMENT
    # YAML 1.1 reads the key `on` as true.
    assert set(read[True]["workflow_dispatch"]["inputs"]) == {"pr", "head", "base"}
