"""GitHub: its API, one comment on a pull request, and who may ask for it."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from bench import Done
from comparing import WORSE, comparison_of, judged_case
from duetbench.ci import actions, comments
from duetbench.ci.api import GitHub, ServiceError
from duetbench.core.comparison import PackageChange
from duetbench.core.errors import UsageError
from duetbench.core.model import Verdict
from duetbench.host import files
from fake_github import BASE, BOT, HEAD, NEXT, TOKEN, Step, zipped
from foreign import comparison
from goldens import assert_said
from observatory.github import requests

ENVIRONMENT = {"GITHUB_REPOSITORY": "owner/name", "GITHUB_TOKEN": TOKEN}


def test_long_lists_are_read_to_their_end(step: Step) -> None:
    for index in range(230):
        step.github.say(12, "alice", f"comment {index}")
    with step.connected() as github:
        result = github.get_all("/issues/12/comments")
    assert [entry["body"] for entry in result] == [f"comment {index}" for index in range(230)]
    assert step.requests("GET") == ["/issues/12/comments"] * 3


@pytest.mark.parametrize(
    ("fault", "waits"),
    [
        # Full jitter: up to so many seconds.
        ({"status": 503, "times": 3}, [(0, 1), (0, 2), (0, 4)]),
        ({"cut": True, "times": 2}, [(0, 1), (0, 2)]),
        # What GitHub asks for; a minute where it does not say how long.
        ({"status": 429, "headers": {"Retry-After": "17"}}, [(17, 17)]),
        (
            {"status": 403, "headers": {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "46"}},
            [(46, 46)],
        ),
        ({"status": 403, "body": {"message": "You hit a secondary rate limit."}}, [(60, 60)]),
    ],
)
def test_what_may_pass_is_asked_again(
    fault: dict[str, Any], waits: list[tuple[float, float]], step: Step
) -> None:
    step.patch.setattr("duetbench.ci.api.time.time", lambda: 1.0)
    step.github.fail(method="POST", **fault)
    with step.connected() as github:
        github.send("POST", "/issues/12/comments", body="hello")
    for wait, (least, most) in zip(step.waits, waits, strict=True):
        assert least <= wait <= most
    assert [comment["body"] for comment in step.comments()] == ["hello"]


@pytest.mark.parametrize(
    ("status", "hint"), [(401, "valid token"), (403, "permissions"), (404, "check that it exists")]
)
def test_a_refusal_is_told_at_once_with_what_to_do(status: int, hint: str, step: Step) -> None:
    """Lines that begin with `::` are commands to the runner; escape sequences to a terminal."""
    message = "No\n::set-env name=PATH::evil\r\n\x1b[31m\u202eyes"
    step.github.fail(status=status, body={"message": message, "errors": [{"field": "x"}, "odd"]})
    with step.connected() as github, pytest.raises(ServiceError) as caught:
        github.send("POST", "/issues/12/comments", body="hello")
    text = str(caught.value)
    assert (caught.value.status, text.isprintable(), step.waits) == (status, True, [])
    for part in (f"GitHub answered {status} to POST", "No\\n::set-env name=PATH::evil", hint):
        assert part in text


def test_the_token_follows_no_archive_to_another_host(step: Step) -> None:
    left = step.github.leave(7, "one", b"new")
    with step.connected() as github:
        assert github.download(f"/actions/artifacts/{left['id']}/zip", 3) == b"new"
        with pytest.raises(ServiceError, match="expected at most 2 bytes, found more"):
            github.download(f"/actions/artifacts/{left['id']}/zip", 2)
    assert step.github.tokens_elsewhere == [None, None]


def test_the_environment_is_checked() -> None:
    """Before anything is sent; the token never travels unencrypted to another machine."""
    for changes, sentence in (
        ({"GITHUB_TOKEN": ""}, "GITHUB_TOKEN is not set; a job of GitHub Actions has it"),
        ({"GITHUB_API_URL": "http://example.org"}, "or http:// on this machine"),
        ({"GITHUB_API_URL": "http://127.0.0.1.example.org"}, "or http:// on this machine"),
    ):
        with pytest.raises(UsageError, match=sentence):
            GitHub({**ENVIRONMENT, **changes})
    assert TOKEN not in repr(GitHub(ENVIRONMENT))


def test_outputs_cannot_be_injected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value with lines that look like outputs stays one value: its fence cannot be guessed."""
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "out"))
    value = "one\nEND\nsecret=two\nevil<<END\nthree"
    actions.outputs({"night": value})
    head, *middle, tail = (tmp_path / "out").read_text().splitlines()
    fence = head.removeprefix("night<<")
    assert (tail, "\n".join(middle)) == (fence, value)
    assert fence not in value


RUN: Final = "https://github.com/owner/name/actions/runs/7"
WORDS: Final = "https://github.com/owner/name/blob/HEAD/docs/glossary.md"
QUEUED: Final = requests.queued(HEAD, RUN)


def told(step: Step, content: bytes | None) -> Done:
    """Report what a machine has sent."""
    if content is not None:
        step.github.leave(7, "comparison", zipped({"comparison.json": content}))
    step.set_event({"inputs": {"pr": "12", "base": BASE, "head": HEAD}})
    return step("comment")


def test_a_comment_grows_from_placeholder_to_report(step: Step) -> None:
    """One comment on the pull request, rewritten in place; others' with our hidden line stay."""
    forged = f"{comments.marker(comments.KIND)}\nAll is fine, merge it"
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


# Who may ask.

OLDER: Final = "d" * 40
STRANGE: Final = "release/2.x#1?&%2e"


@pytest.fixture(autouse=True)
def _people(step: Step) -> None:
    permit(step)


def permit(step: Step) -> None:
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


def test_nothing_starts_but_what_somebody_with_rights_has_reviewed(
    step: Step, tmp_path: Path
) -> None:
    """A comment, its author, and what else is so. Only the whole newest commit may be asked for.

    The answer quotes nothing but that; strangers get none, and of comments that are none of our
    business nobody is even asked.
    """

    def answered(text: str) -> str:
        body, login, more = json.loads(text)
        here = replace(step, folder=tmp_path / str(len([*tmp_path.iterdir()])))  # an empty GitHub
        here.folder.mkdir()
        permit(here)
        here.github.permit(BOT, "write")
        pull = here.github.add_pull(12, HEAD, BASE)
        pull.update(more.get("pull", {}))
        if "environment" in more:
            here.github.resources["environments/bench"] = more["environment"]
        here.set_event(here.comment(body, login) | more.get("event", {}))
        result = here("slash")
        assert (result.code, here.github.dispatches) == (0, [])
        kind, _, said = result.out.strip().partition(": ")
        assert bool(here.github.requests) is (kind != "ignored")
        if not here.requests("POST"):
            return f"{result.out.strip()} (no answer)"
        (answer,) = here.ours()
        assert f"### duetbench: not started\n\n{said}" in answer
        first = "requests it on the first line of a comment"
        hint = f"{first}:\n\n```\n/bench {pull['head']['sha']}\n```"
        possible = not {"state", "base"} & more.get("pull", {}).keys()
        assert answer.count("/bench") == answer.count(hint) == possible
        return result.out.strip()

    assert_said("requests-to-compare", answered)


@pytest.mark.parametrize(
    ("fault", "answers"),
    [
        ({"method": "POST", "path": "dispatches", "status": 404}, 1),
        ({"path": "permission", "status": 500, "times": 99}, 0),
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
