"""Comments on a pull request: one, ours, true to its commit, harmless; and who may ask for it."""

import json
import re
from typing import Any, Final

import pytest

from bench import Done
from comparing import WORSE, comparison_of, judged_case
from duetbench.ci import comments
from duetbench.core.comparison import PackageChange
from duetbench.core.model import Verdict
from duetbench.host import files
from fake_github import Table, zipped
from foreign import comparison
from observatory.github import requests
from steps import BASE, BOT, HEAD, NEXT, Step

RUN: Final = "https://github.com/owner/name/actions/runs/7"
WORDS: Final = "https://owner.github.io/name/docs/glossary/"
QUEUED: Final = requests.queued(HEAD, RUN)


def told(step: Step, content: bytes | None) -> Done:
    """Report what a machine has sent."""
    if content is not None:
        step.github.leave(7, "comparison", zipped({"comparison.json": content}))
    step.set_event({"inputs": {"pr": "12", "base": BASE, "head": HEAD}})
    return step("comment")


def test_a_comment_grows_from_placeholder_to_report(step: Step) -> None:
    """One comment on the pull request, rewritten in place; others' with our hidden line stay."""
    forged = f"{comments.marker(comments.KIND, {})}\nAll is fine, merge it"
    others = [step.github.say(12, login, forged) for login in ("mallory", "evil[bot]")]
    others.append(step.github.say(12, BOT, f"> {forged}"))
    with step.connected() as github:
        sentence = comments.publish(github, 12, comments.KIND, QUEUED)
    assert sentence.startswith("created https://")
    result = told(step, files.encode(comparison(WORSE)))
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("updated https://")
    _, body = step.ours()
    lines, head = body.splitlines(), "### ▼ worse: asgi-wsgi/e/py3.14/w1/c128 needs 2.1 % more CPU"
    assert lines[1].startswith(head)
    assert lines[-1].startswith(
        f"<sub>`{HEAD[:12]}` · [the run, with all figures]({RUN}) · [what the words mean]({WORDS})."
    )
    assert step.summary.startswith(head)
    assert step.requests("POST") == ["/issues/12/comments"]
    patched = step.requests("PATCH")
    assert told(step, None).out.startswith("unchanged")
    assert step.requests("PATCH") == patched
    assert [other["body"] for other in others] == [forged, forged, f"> {forged}"]
    assert len(step.comments()) == 4


def test_a_lost_answer_doubles_nothing(step: Step) -> None:
    """The request is repeated, though it had arrived, and one comment stays."""
    step.github.fail(method="POST", path="comments", after=True, cut=True)
    assert told(step, files.encode(comparison(WORSE))).code == 0
    assert (len(step.requests("POST")), len(step.comments())) == (2, 1)


def test_without_a_usable_comparison_the_comment_says_why(step: Step) -> None:
    sentence = "files: expected ['comparison.json']"
    result = told(step, None)
    assert (result.code, sentence in result.err) == (4, True)
    (body,) = step.ours()
    assert body.splitlines()[1] == "### duetbench: no result"
    assert sentence in body.replace("\\", "")
    assert f"```\n/bench {HEAD}\n```" in body


_ACTIVE: Final = re.compile(r"(?<!\\)<img|(?<!\\)\]\((?!\))")
"""An element, or a link that is not ours, whose address was taken out: neither is escaped."""

HOSTILE: Final = (
    "@everyone #1 GH-2 &#64;team &commat;x https://evil.example www.evil.example "
    "<img src=x onerror=alert(1)> [x](javascript:alert(1)) ![x](//evil.example) `code` "
    "| cell | $(touch /tmp/owned) ${{ github.token }} --> \n::set-env name=X::y\n# title"
)
LINE: Final = HOSTILE.replace("\n", " ")
"""In files, control characters are refused."""


def test_hostile_words_are_shown_and_do_nothing(step: Step) -> None:
    """Reasons, package names and labels come from the machine on which other people's code ran."""
    unknown = {"verdict": Verdict.UNKNOWN, "ratio": None, "low": None, "high": None, "why": LINE}
    sent = comparison(
        WORSE.model_copy(update=unknown),
        packages=(PackageChange(stack=LINE, package=LINE, base=LINE, head=None),),
        notes=(LINE,),
        reproduce=LINE,
    )
    assert told(step, files.encode(sent)).code == 0
    (body,) = step.ours()
    lines = [line for line in body.splitlines()[1:] if not line.startswith("    ")]
    printed = "\n".join(lines).replace(RUN, "").replace(WORDS, "")
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
    message = comments.sign(comments.report(comparison_of(*cases)), HEAD, RUN, WORDS)
    assert len(message) <= comments.LIMIT
    assert message.startswith("### ▼ worse in 2000 of 2000 cases")
    assert "the rest did not fit" in message
    assert message.endswith("</sub>\n")


def test_markers_survive_what_is_in_them() -> None:
    """No value ends the hidden line early; what is no marker is none."""
    line = comments.marker("issue", {"key": "a--> <b -- ---", "n": "3"})
    assert (line.count("--"), line.count(">")) == (2, 1)
    assert comments.marker_values("issue", f"{line}\r\nrest") == {"key": "a--> <b -- ---", "n": "3"}
    for body in (None, "", "x", f" {line}", f"text\n{line}", line.replace("{", "[")):
        assert comments.marker_values("issue", body) is None
    assert comments.marker_values("comparison", line) is None


# Who may ask.

OLDER: Final = "d" * 40
STRANGE: Final = "release/2.x#1?&%2e"


@pytest.fixture(autouse=True)
def people(step: Step) -> None:
    """Alice may write, Rita may read, and nobody else is known."""
    for login, permission in (("alice", "write"), ("ada", "admin"), ("rita", "read")):
        step.github.permit(login, permission)


def test_who_may_write_starts_a_comparison(step: Step) -> None:
    """Of exactly the commit, with where it left its base as that is now; a placeholder before.

    A branch's name is one part of an address, whatever it holds; and of hostile titles, branches
    and comments nothing leaves the event.
    """
    hostile = "$(touch owned) `id` ${{ github.token }} <img src=x> @everyone\n::x::"
    pull = step.github.add_pull(12, HEAD, BASE)
    pull.update(title=hostile, head={"sha": HEAD, "ref": hostile, "label": hostile})
    pull["base"]["ref"] = STRANGE
    step.github.merge_bases |= {STRANGE: OLDER, "main": NEXT}
    event = step.comment(f"/bench {HEAD}\n{hostile}")
    event["issue"]["title"] = event["repository"]["description"] = hostile
    step.set_event(event)
    result = step("slash")
    assert (result.code, result.err) == (0, "")
    assert result.out == "dispatched: the comparison was started\n"
    inputs = {"pr": "12", "head": HEAD, "base": OLDER}
    expected = {"workflow": "bench.yml", "ref": "main", "inputs": inputs}
    assert step.github.dispatches == [expected]
    (body,) = step.ours()
    assert body.endswith(QUEUED.rstrip())
    dispatch = "/actions/workflows/bench.yml/dispatches"
    assert step.requests("POST") == ["/issues/12/comments", dispatch]
    assert "dispatched" in step.summary
    text = json.dumps([step.github.dispatches, step.ours(), step.summary])
    for part in ("touch", "img", "everyone", "::x", "github.token"):
        assert part not in text


ASKED: Final = f"/bench {HEAD}"
NO_COMMIT: Final = "refused: The request does not name a full commit"
NO_COMMAND: Final = "ignored: the comment does not begin with /bench"
NO_REQUEST: Final = "ignored: it is not a person's new comment on a pull request"
STRANGER: Final = "refused: only people with write permission"
UNGUARDED: Final = "refused: The environment `bench` has no required reviewers"

REQUESTS: Final[list[tuple[str, str, Table, str]]] = [
    # Comment, its author, what else is so, and what the verb says.
    *((f"/bench {words}", "alice", {}, NO_COMMIT)
      for words in ("main", HEAD[:39], f"{HEAD} --control", f"{HEAD};id")),
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
    result = step("slash")
    assert (result.code, result.out[: len(said)]) == (0, said)
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


@pytest.mark.parametrize(
    ("fault", "answers"),
    [
        ({"method": "POST", "path": "dispatches", "status": 404}, 1),
        ({"path": "permission", "status": 500, "times": -1}, 0),
    ],
)
def test_what_could_not_be_started_is_not_left_queued(
    fault: dict[str, Any], answers: int, step: Step
) -> None:
    step.comment(ASKED)
    step.github.fail(**fault)
    assert step("slash").code == 4
    assert (step.github.dispatches, len(step.ours())) == ([], answers)
    for body in step.ours():
        assert "### duetbench: no result" in body
        assert "The reason: it could not start." in body
