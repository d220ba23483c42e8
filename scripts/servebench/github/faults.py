"""What an answer of GitHub means: fine, try again later, perhaps done, or refused. Pure.

GitHub's rules for clients: https://docs.github.com/en/rest/using-the-rest-api/best-practices-for-using-the-rest-api
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

import httpx

from servebench.errors import ServiceError
from servebench.text import one_line

UNSAID_SECONDS: Final = 60.0
"""How long to wait where GitHub limits and does not say how long."""

SETTLE_SECONDS: Final = 2.0
"""Until what has been made for certain shows up in lists, s."""

_ADVICE: Final = {
    401: "give the step a valid token (env: GITHUB_TOKEN)",
    403: "see whether the job's `permissions:` allow it, and that the conversation is not locked",
    404: "see that it exists, and that the job's `permissions:` let the token see it",
    409: "it has changed in the meantime; run the job again",
    410: "it has been removed or is switched off",
    422: "GitHub does not take these values",
}


class PassingError(ServiceError):
    """It was not done, and may be asked again.

    Attributes:
        after: How long to wait first, s; None: as one likes.
    """

    def __init__(self, message: str, status: int | None = None, after: float | None = None) -> None:
        super().__init__(message, status)
        self.after = after


class UncertainError(ServiceError):
    """There was no proper answer, and what was asked for may have been done all the same."""

    after: Final = SETTLE_SECONDS


def judge(response: httpx.Response, *, repeatable: bool) -> ServiceError | None:
    """Say what is wrong with an answer; None: nothing.

    Args:
        response: The answer, read completely.
        repeatable: Whether asking twice does no more than asking once.
    """
    status = response.status_code
    if response.is_success:
        return None
    asked = f"{response.request.method} {response.request.url.path}"
    said = f"GitHub answered {status} to {asked}: {_message(response)}"
    if _is_limited(response):
        after = _delay(response)
        return PassingError(f"{said}; it wants to be left alone for {after:.0f} s", status, after)
    if status >= 500 or status == 408:
        kind = PassingError if repeatable else UncertainError
        return kind(said, status)
    return ServiceError(f"{said}; {_ADVICE.get(status, 'expected success')}", status)


def unanswered(error: httpx.HTTPError, method: str, path: str, *, repeatable: bool) -> ServiceError:
    """Say what it means that a request failed before there was an answer."""
    said = (
        f"{method} {path}: GitHub gave no answer ({type(error).__name__}: {one_line(str(error))})"
    )
    if not isinstance(error, httpx.TransportError):
        return ServiceError(said)
    never_sent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
    return PassingError(said) if repeatable or never_sent else UncertainError(said)


def server_time(response: httpx.Response) -> datetime | None:
    """When GitHub says that it answered; its clock is the one that its dates are from."""
    return _date(response.headers.get("date", ""))


def _is_limited(response: httpx.Response) -> bool:
    if response.status_code == 429:
        return True
    return response.status_code == 403 and (
        "retry-after" in response.headers
        or response.headers.get("x-ratelimit-remaining") == "0"
        or "rate limit" in _message(response).lower()
    )


def _delay(response: httpx.Response) -> float:
    """Seconds to wait: what was said, else until the limit is reset, else a minute."""
    now = server_time(response) or datetime.now(UTC)
    said = response.headers.get("retry-after", "").strip()
    if said.isdecimal():
        return float(said)
    if (until := _date(said)) is not None:
        return max(0.0, (until - now).total_seconds())
    reset = response.headers.get("x-ratelimit-reset", "").strip()
    if response.headers.get("x-ratelimit-remaining") == "0" and reset.isdecimal():
        return max(0.0, int(reset) - now.timestamp()) + 1
    return UNSAID_SECONDS


def _date(text: str) -> datetime | None:
    try:
        found = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found


def _message(response: httpx.Response) -> str:
    """GitHub's own words, with those about single fields."""
    try:
        body: Any = json.loads(response.content)
    except ValueError:
        return one_line(response.text) or "no words"
    if not isinstance(body, dict):
        return one_line(str(body))
    words = [str(body.get("message", "no words"))]
    errors = body.get("errors")
    for error in errors if isinstance(errors, list) else []:
        if isinstance(error, dict):
            parts = (error.get("field"), error.get("message") or error.get("code"))
            words.append(": ".join(str(part) for part in parts if part))
        else:
            words.append(str(error))
    return one_line("; ".join(words))
