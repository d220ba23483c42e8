"""GitHub's API: patient where waiting helps, plain where it does not."""

from typing import Any

import pytest

from duetbench.ci.api import GitHub, ServiceError
from duetbench.core.errors import UsageError
from steps import TOKEN, Step

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


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"GITHUB_TOKEN": ""}, "GITHUB_TOKEN is not set; a job of GitHub Actions has it"),
        ({"GITHUB_API_URL": "http://example.org"}, "or http:// on this machine"),
        ({"GITHUB_API_URL": "http://127.0.0.1.example.org"}, "or http:// on this machine"),
    ],
)
def test_the_environment_is_checked(changes: dict[str, str], sentence: str) -> None:
    """Before anything is sent; the token never travels unencrypted to another machine."""
    with pytest.raises(UsageError) as caught:
        GitHub({**ENVIRONMENT, **changes})
    assert sentence in str(caught.value)
    assert TOKEN not in repr(GitHub(ENVIRONMENT))
