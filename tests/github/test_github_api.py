"""GitHub's API: patient where waiting helps, plain where it does not."""

from typing import Any

import pytest

from duetbench.core.errors import ServiceError, UsageError
from duetbench.github import api
from duetbench.github.actions import Context
from steps import HEAD, NEXT, TOKEN, Step

ENVIRONMENT = {"GITHUB_REPOSITORY": "owner/name", "GITHUB_TOKEN": TOKEN}


def test_long_lists_are_read_to_their_end(step: Step) -> None:
    for index in range(230):
        step.github.say(12, "alice", f"comment {index}")
    with step.connected() as github:
        result = github.comments(12)
    assert [entry.body for entry in result] == [f"comment {index}" for index in range(230)]
    assert step.requests("GET") == ["/issues/12/comments"] * 3


@pytest.mark.parametrize("fault", [{"status": 503}, {"cut": True}])
def test_what_goes_wrong_on_their_side_is_asked_again(fault: dict[str, Any], step: Step) -> None:
    step.github.fail(path="pulls/12", times=3, **fault)
    with step.connected() as github:
        assert github.pull(12).head == HEAD
    # Full jitter: up to 1, 2 and 4 s.
    assert all(0 <= wait <= most for wait, most in zip(step.waits, (1, 2, 4), strict=True))


def test_patience_ends(step: Step) -> None:
    step.github.fail(status=503, times=-1)
    with (
        step.connected(patience=1e9) as github,
        pytest.raises(ServiceError, match=r"503 to GET .*given up at try 12") as caught,
    ):
        github.pull(12)
    assert caught.value.status == 503
    assert len(step.requests("GET")) == api.ATTEMPTS


@pytest.mark.parametrize(
    ("status", "headers", "body", "waited"),
    [
        (429, {"Retry-After": "17"}, {}, 17),
        (403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1795176045"}, {}, 46),
        (403, {}, {"message": "You have exceeded a secondary rate limit."}, 60),
    ],
)
def test_it_waits_as_long_as_github_asks(
    status: int,
    headers: dict[str, str],
    body: dict[str, str],
    waited: float,
    step: Step,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A minute where it does not say how long."""
    monkeypatch.setattr("duetbench.github.api.time.time", lambda: 1795176000.0)
    step.github.fail(method="POST", status=status, headers=headers, body=body)
    with step.connected() as github:
        github.add_comment(12, "hello")
    assert step.waits == [waited]
    assert [comment["body"] for comment in step.comments()] == ["hello"]


def test_it_does_not_wait_longer_than_it_may(step: Step) -> None:
    """An hour is not waited for in a job of minutes; the message says how long it would be."""
    step.github.fail(status=429, headers={"Retry-After": "3600"})
    with (
        step.connected(patience=300) as github,
        pytest.raises(ServiceError, match="asks to wait 3600 s; given up at try 1 within"),
    ):
        github.pull(12)
    assert step.waits == []


@pytest.mark.parametrize(("status", "hint"), [(401, "valid token"), (403, "permissions")])
def test_a_refusal_is_told_at_once_with_what_to_do(status: int, hint: str, step: Step) -> None:
    """Lines that begin with `::` are commands to the runner; escape sequences to a terminal."""
    errors = [{"field": "body", "message": "is too long"}, "odd"]
    message = "No\n::set-env name=PATH::evil\r\n\x1b[31m\u202eyes"
    step.github.fail(status=status, body={"message": message, "errors": errors})
    with step.connected() as github, pytest.raises(ServiceError) as caught:
        github.add_comment(12, "hello")
    assert caught.value.status == status
    text = str(caught.value)
    assert f"GitHub answered {status} to POST" in text
    assert "No\\n::set-env name=PATH::evil" in text
    assert hint in text
    assert text.isprintable()
    assert step.waits == []


def test_the_token_follows_no_archive_to_another_host(step: Step) -> None:
    """And of artifacts of one name the newest counts."""
    step.github.leave(7, "one", b"old")
    step.github.leave(7, "one", b"new")
    with step.connected() as github:
        (artifact,) = github.artifacts(7)
        assert github.archive(artifact.id, 3) == b"new"
        with pytest.raises(ServiceError, match="expected at most 2 bytes, found more"):
            github.archive(artifact.id, 2)
    assert step.github.tokens_elsewhere == [None, None]


def test_strange_answers_are_refused(step: Step) -> None:
    """Something that is no JSON, no list, or has not the keys: what was expected, and what not."""
    with step.connected() as github:
        step.github.fail(status=200, body=["x"])
        with pytest.raises(ServiceError, match="expected Pull with its keys"):
            github.pull(12)
        step.github.fail(status=200, body={"number": 12, "state": "open", "head": {"sha": "x"}})
        with pytest.raises(ServiceError, match=r"expected Pull with head\.sha"):
            github.pull(12)
        step.github.fail(status=200, body={})
        with pytest.raises(
            ServiceError, match="with its keys, found: Input should be a valid array"
        ):
            github.comments(12)
        step.github.fail(method="DELETE", status=404)
        github.delete_comment(4)  # gone is gone


def test_strangers_have_no_permission(step: Step) -> None:
    step.github.state.permissions["alice"] = "write"
    with step.connected() as github:
        assert github.permission("alice") == "write"
        assert github.permission("mallory") == "none"
        assert github.permission("../../..") == "none"
        step.github.state.merge_bases["rel/1.x#y?z%2Fw"] = NEXT
        assert github.merge_base("rel/1.x#y?z%2Fw", HEAD) == NEXT
        with pytest.raises(ServiceError, match="404"):
            github.merge_base("rel", HEAD)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"GITHUB_TOKEN": ""}, "GITHUB_TOKEN is not set; a job of GitHub Actions has it"),
        ({"GITHUB_REPOSITORY": "a/b/../c"}, "expected owner/name"),
        ({"GITHUB_API_URL": "http://example.org"}, "or http:// on this machine"),
        ({"GITHUB_API_URL": "http://127.0.0.1.example.org"}, "or http:// on this machine"),
    ],
)
def test_the_environment_is_checked(changes: dict[str, str], sentence: str) -> None:
    """Before anything is sent; the token never travels unencrypted to another machine."""
    with pytest.raises(UsageError) as caught:
        Context.of({**ENVIRONMENT, **changes})
    assert sentence in str(caught.value)


def test_the_context_knows_where_people_look() -> None:
    context = Context.of({**ENVIRONMENT, "GITHUB_RUN_ID": "9"})
    assert context.run_url == "https://github.com/owner/name/actions/runs/9"
    assert context.site_url == "https://owner.github.io/name/"
    home = Context.of({**ENVIRONMENT, "GITHUB_REPOSITORY": "Owner/owner.github.io"})
    assert home.site_url == "https://owner.github.io/"
    assert TOKEN not in repr(context)
