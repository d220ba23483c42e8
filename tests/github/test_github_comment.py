"""Comments on a pull request: one, ours, true to its commit, harmless; and who may ask for it."""

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from bench import Done
from comparing import comparison_of, judged_case
from duetbench.ci import comments
from duetbench.core.comparison import Comparison, Finding, PackageChange
from duetbench.core.model import Verdict
from duetbench.host import files
from fake_github import Table
from observatory.github import requests
from steps import BASE, BOT, HEAD, NEXT, Step

CPU = "server_cpu_per_request"
RUN = "https://github.com/owner/name/actions/runs/7"
SITE = "https://owner.github.io/name/"
WORDS = f"[what the words mean]({SITE}docs/glossary/)"
FINAL = ("comment", "--pr", "12", "--base", BASE, "--head", HEAD, "--from")


def compared(*found: Finding, head: str = HEAD, **more: Any) -> Comparison:
    side = comparison_of().base
    sides = {
        name: side.model_copy(update={"label": name, "commit": commit})
        for name, commit in (("base", BASE), ("head", head))
    }
    return comparison_of(judged_case("x/a/py3.14", *found), **{**sides, **more})


def judged(verdict: Verdict, metric: str = CPU, **more: Any) -> Finding:
    """A finding of two per cent."""
    fields = {"ratio": 1.021, "low": 1.015, "high": 1.025, "detectable": 0.006, "n": 8}
    return Finding(case="", subject=metric, verdict=verdict, limit=0.02, **{**fields, **more})


WORSE = judged(Verdict.WORSE)


def told(step: Step, *words: str | Path) -> Done:
    """Report what lies in `incoming`."""
    return step(*FINAL, step.folder / "incoming", *words)


def keep(step: Step, comparison: Comparison) -> None:
    files.replace(step.folder / "incoming" / "comparison.json", files.encode(comparison))


def test_a_comment_grows_from_placeholder_to_report(step: Step) -> None:
    """One comment on the pull request, rewritten in place; the last text is the report."""
    with step.connected() as github:
        did, link = comments.publish(github, 12, comments.KIND, requests.queued(HEAD, RUN))
    assert (did, link[:8]) == ("created", "https://")
    keep(step, compared(WORSE))
    done = told(step)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("updated https://")
    (body,) = step.ours()
    lines = body.splitlines()
    assert lines[1] == "### ▼ worse: x/a/py3.14 needs 2.1 % more CPU per request"
    assert lines[-1].startswith(
        f"<sub>`{HEAD[:12]}` · [the run, with all figures]({RUN}) · {WORDS}."
    )
    assert step.summary.startswith("### ▼ worse: x/a/py3.14")
    assert step.requests("POST") == ["/issues/12/comments"]
    patched = step.requests("PATCH")
    assert told(step).out.startswith("unchanged")
    assert step.requests("PATCH") == patched


def test_a_spoofed_marker_is_not_ours(step: Step) -> None:
    """Others may write our hidden line; their comment is left alone, and ours is made beside it."""
    forged = f"{comments.marker(comments.KIND, {})}\nAll is fine, merge it"
    others = [step.github.say(12, login, forged) for login in ("mallory", "evil[bot]")]
    others.append(step.github.say(12, BOT, f"> {forged}"))
    keep(step, compared(WORSE))
    assert told(step).code == 0
    assert [other["body"] for other in others] == [forged, forged, f"> {forged}"]
    assert len(step.comments()) == 4


@pytest.mark.parametrize("after", [True, False])
def test_a_lost_answer_doubles_nothing(after: bool, step: Step) -> None:
    """The request is repeated, whether it had arrived or not, and one comment stays."""
    step.github.fail(method="POST", path="comments", after=after, cut=True)
    keep(step, compared(WORSE))
    assert told(step).code == 0
    assert len(step.requests("POST")) == 2
    assert len(step.comments()) == 1


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "files: expected ['comparison.json']"),
        ("[" * 100_000, "expected a comparison"),
        (compared(WORSE, head=NEXT).model_dump_json(), "commit of head: expected aaaaaaaaaaaa"),
    ],
)
def test_without_a_usable_comparison_the_comment_says_why(
    content: str | None, sentence: str, step: Step
) -> None:
    if content is not None:
        files.replace(step.folder / "incoming" / "comparison.json", content.encode())
    done = told(step)
    assert done.code == 4
    (body,) = step.ours()
    assert body.splitlines()[1] == "### duetbench: no result"
    assert sentence in body.replace("\\", "")
    assert sentence.replace("\u200b", "") in done.err
    assert f"```\n/bench {HEAD}\n```" in body


_ACTIVE = re.compile(r"(?<!\\)<img|(?<!\\)\]\((?!\))")
"""An element, or a link that is not ours, whose address was taken out: neither is escaped."""

HOSTILE = (
    "@everyone #1 GH-2 &#64;team &commat;x https://evil.example www.evil.example "
    "<img src=x onerror=alert(1)> [x](javascript:alert(1)) ![x](//evil.example) `code` "
    "| cell | $(touch /tmp/owned) ${{ github.token }} --> \n::set-env name=X::y\n# title"
)
LINE = HOSTILE.replace("\n", " ")
"""In files, control characters are refused."""


def test_hostile_words_are_shown_and_do_nothing(step: Step) -> None:
    """Reasons, package names and labels come from the machine on which other people's code ran."""
    comparison = compared(
        judged(Verdict.UNKNOWN, ratio=None, low=None, high=None, why=LINE),
        packages=(PackageChange(stack=LINE, package=LINE, base=LINE, head=None),),
        notes=(LINE,),
        reproduce=LINE,
    )
    keep(step, comparison)
    assert told(step).code == 0
    (body,) = step.ours()
    lines = [line for line in body.splitlines()[1:] if not line.startswith("    ")]
    printed = "\n".join(lines).replace(RUN, "").replace(f"{SITE}docs/glossary/", "")
    for message in (printed, requests.failed(HEAD, "", HOSTILE)):
        for active in ("@everyone", "#1", "GH-2", "&#64;", "&commat;", "://", "www.", "\n# title"):
            assert active not in message
        assert "\n::" not in message
        assert "everyone" in message
        assert message.count("$") == message.count("<span>$</span>") > 1
        assert not _ACTIVE.search(message)


def test_a_report_always_fits() -> None:
    """Two thousand long rows that got worse: the headline, the worst of them, and a count."""
    cases = [judged_case(f"x/{'long' * 40}{number}/py3.14", WORSE) for number in range(2000)]
    text = comments.report(comparison_of(*cases))
    message = comments.sign(text, HEAD, RUN, f"{SITE}docs/glossary/")
    assert len(message) <= comments.LIMIT
    assert message.startswith("### ▼ worse in 2000 of 2000 cases")
    assert "the rest did not fit" in message
    assert message.endswith("</sub>\n")


def test_markers_survive_what_is_in_them() -> None:
    """No value ends the hidden line early; what is no marker is none."""
    line = comments.marker("issue", {"key": "a--> <b -- ---", "n": "3"})
    assert line.count("--") == 2
    assert line.count(">") == 1
    assert comments.marker_values("issue", f"{line}\r\nrest") == {"key": "a--> <b -- ---", "n": "3"}
    for body in (None, "", "x", f" {line}", f"text\n{line}", line.replace("{", "[")):
        assert comments.marker_values("issue", body) is None
    assert comments.marker_values("comparison", line) is None


OLDER = "d" * 40


@pytest.fixture(autouse=True)
def people(step: Step) -> None:
    """Alice may write, Rita may read, and nobody else is known."""
    for login, permission in (("alice", "write"), ("ada", "admin"), ("rita", "read")):
        step.github.permit(login, permission)


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


ASKED: Final = f"/bench {HEAD}"
NO_COMMIT: Final = "refused: The request does not name a full commit"
NO_COMMAND: Final = "ignored: the comment does not begin with /bench"
NO_REQUEST: Final = "ignored: it is not a person's new comment on a pull request"
STRANGER: Final = "refused: only people with write permission"
UNGUARDED: Final = "refused: The environment `bench` has no required reviewers"

REQUESTS: Final[list[tuple[str, str, Table, str]]] = [
    # Comment, its author, what else is so, and what the verb says.
    *((f"/bench {words}", "alice", {}, NO_COMMIT)
      for words in ("main", HEAD[:39], f"{HEAD} --all", f"{HEAD};id")),
    (ASKED, "alice", {"pull": {"head": {"sha": NEXT}}},
     "refused: `aaaaaaaaaaaa` is not the head of this pull request"),
    (ASKED, "alice", {"pull": {"state": "closed"}}, "refused: The pull request is not open."),
    (ASKED, "alice", {"pull": {"base": {"sha": HEAD, "ref": "main"}}},
     "refused: The commit is in the base branch already"),
    (ASKED, "alice", {"environment": None}, UNGUARDED),
    (ASKED, "alice", {"environment": {"protection_rules": [{"type": "wait_timer"}]}}, UNGUARDED),
    *((ASKED, login, {}, STRANGER) for login in ("mallory", "rita")),
    *((body, "alice", {}, NO_COMMAND)
      for body in (f"> {ASKED}", f"\n{ASKED}", f"/benchmark {HEAD}")),
    *((ASKED, "alice", {"event": event}, NO_REQUEST)
      for event in ({"action": "edited"}, {"sender": {"login": "ada"}}, {"issue": {"number": 12}})),
    *((ASKED, login, {}, NO_REQUEST) for login in (BOT, "../../../x")),
]  # fmt: skip


@pytest.mark.parametrize(("body", "login", "more", "said"), REQUESTS)
def test_nothing_starts_but_what_somebody_with_rights_has_reviewed(
    body: str, login: str, more: Table, said: str, step: Step
) -> None:
    """Only the whole newest commit: a branch would be whatever is pushed next.

    The answer quotes nothing but what to ask for; strangers get none, and of comments that are none
    of our business nobody is even asked.
    """
    step.github.permit(BOT, "write")
    pull = step.github.add_pull(12, HEAD, BASE)
    pull.update(more.get("pull", {}))
    if "environment" in more:
        step.github.resources["environments/bench"] = more["environment"]
    step.set_event(step.comment(body, login) | more.get("event", {}))
    done = step("slash")
    assert (done.code, done.out[: len(said)]) == (0, said)
    assert step.github.dispatches == []
    if said.startswith("ignored"):
        assert step.github.requests == []
    if said.startswith("ignored") or said == STRANGER:
        assert step.requests("POST") == []
        return
    (answer,) = step.ours()
    assert f"### duetbench: not started\n\n{said.removeprefix('refused: ')}" in answer
    hint = f"requests it on the first line of a comment:\n\n```\n/bench {pull['head']['sha']}\n```"
    possible = not {"state", "base"} & more.get("pull", {}).keys()
    assert answer.count("/bench") == answer.count(hint) == possible


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


def test_a_comparison_that_cannot_be_started_is_not_left_queued(step: Step) -> None:
    step.github.fail(method="POST", path="dispatches", status=404)
    step.comment(f"/bench {HEAD}")
    done = step("slash")
    assert done.code == 4
    assert "404 to POST /repos/owner/name/actions/workflows/bench.yml/dispatches" in done.err
    (body,) = step.ours()
    assert "### duetbench: no result" in body
    assert "The reason: it could not start." in body


@pytest.mark.parametrize(
    ("fault", "event", "code"),
    [({"path": "permission", "status": 500, "times": -1}, "issue_comment", 4),
     ({}, "pull_request_target", 2)],
)  # fmt: skip
def test_nothing_starts_where_it_cannot_be_decided(
    fault: Table, event: str, code: int, step: Step
) -> None:
    step.comment(ASKED)
    step.set(GITHUB_EVENT_NAME=event)
    if fault:
        step.github.fail(**fault)
    assert step("slash").code == code
    assert (step.github.dispatches, step.ours()) == ([], [])
