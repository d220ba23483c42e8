"""Requests to GitHub's REST API with bounds, repeated while that may help; lists and downloads.

A request whose answer was lost is repeated too; what was made twice by that, its caller finds by a
marker. Waiting follows what GitHub asks for, and is random otherwise, so that many jobs do not come
back at once (full jitter: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog,
2015). GitHub's rules for clients:
https://docs.github.com/en/rest/using-the-rest-api/best-practices-for-using-the-rest-api
"""

import functools
import json
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

import httpx
from tenacity import RetryCallState, Retrying, retry_if_exception_type
from tenacity.stop import stop_after_attempt, stop_before_delay
from tenacity.wait import wait_random_exponential

from duetbench.core import __version__
from duetbench.core.errors import ServiceError
from duetbench.core.text import one_line
from duetbench.github.actions import Context

PATIENCE: Final = 300.0
"""How long to go on trying, s."""

ATTEMPTS: Final = 12
"""How often to try at most."""

TIMEOUT: Final = 20.0
"""Longest silence within a request, s."""

LARGEST: Final = 32_000_000
"""Bytes of an answer."""

PAGES: Final = 200
"""Most pages of a list; of 100 entries each."""

UNSAID_SECONDS: Final = 60.0
"""How long to wait where GitHub limits and does not say how long."""

WAIT: Callable[[float], None] = time.sleep
"""How a client waits."""

_JITTER: Final = wait_random_exponential(multiplier=1, max=30)
_CERTIFICATES: Final = functools.cache(httpx.create_ssl_context)
"""Whom to trust; reading it takes longer than most requests."""
_SAID: Final = 300  # characters of GitHub's own words in a message
_ADVICE: Final = {
    401: "give the step a valid token (env: GITHUB_TOKEN)",
    403: "see whether the job's `permissions:` allow it, and that the conversation is not locked",
    404: "see that it exists, and that the job's `permissions:` let the token see it",
    409: "it has changed in the meantime; run the job again",
    410: "it has been removed or is switched off",
    422: "GitHub does not take these values",
}


class PassingError(ServiceError):
    """There was no proper answer, and there may be one later.

    Attributes:
        after: How long to wait first, s; None: as one likes.
    """

    def __init__(self, message: str, status: int | None = None, after: float | None = None) -> None:
        super().__init__(message, status)
        self.after = after


class Client:
    """Requests to one API with one token. Close it (`contextlib.closing`)."""

    def __init__(
        self, context: Context, *, patience: float = PATIENCE, timeout: float = TIMEOUT
    ) -> None:
        self._patience, self._token = patience, context.token
        self._time: datetime | None = None
        self._http = httpx.Client(
            base_url=context.api_url,
            headers={
                "Accept": "application/vnd.github+json",
                "Authorization": f"Bearer {context.token}",
                "User-Agent": f"duetbench/{__version__}",
                "X-GitHub-Api-Version": "2022-11-28",
            },
            timeout=timeout,
            verify=_CERTIFICATES(),
            # A repository that was renamed redirects; httpx keeps the token from other hosts.
            follow_redirects=True,
        )

    def close(self) -> None:
        """Close its connections."""
        self._http.close()

    @property
    def now(self) -> datetime:
        """GitHub's time as of its last answer, since its dates are compared with nothing else."""
        return self._time or datetime.now(UTC)

    def request(
        self,
        method: str,
        path: str,
        *,
        json: Mapping[str, Any] | None = None,
        params: Mapping[str, str | int] | None = None,
        most: int = LARGEST,
    ) -> tuple[bytes, httpx.Response]:
        """Ask, and ask again while it may help; the token goes to GitHub alone.

        Gives the answer's body and the rest of it; raises ServiceError.
        """
        retrying = Retrying(
            retry=retry_if_exception_type(PassingError),
            wait=_wait,
            stop=stop_after_attempt(ATTEMPTS) | stop_before_delay(self._patience),
            sleep=WAIT,
            reraise=True,
        )
        try:
            return retrying(self._ask, method, path, {"json": json, "params": params}, most)
        except PassingError as error:
            tries = retrying.statistics["attempt_number"]
            raise ServiceError(
                f"{error}; given up after {tries} {'try' if tries == 1 else 'tries'} and within "
                f"{self._patience:.0f} s: run the job again later",
                error.status,
            ) from error

    def json(self, method: str, path: str, **more: Any) -> Any:
        """Ask for JSON; arguments and errors as of `request`."""
        return _json(*self.request(method, path, **more))

    def pages(
        self, path: str, *, key: str | None = None, params: Mapping[str, str | int] | None = None
    ) -> Iterator[Any]:
        """Give the entries of a list, page after page; raises ServiceError."""
        query: Mapping[str, str | int] | None = {"per_page": 100, **(params or {})}
        address = path
        for _ in range(PAGES):
            data, response = self.request("GET", address, params=query)
            found = _json(data, response)
            entries = found.get(key) if key and isinstance(found, dict) else found
            if not isinstance(entries, list):
                raise ServiceError(f"{path}: expected a list, found {type(entries).__name__}")
            yield from entries
            following = response.links.get("next", {}).get("url")
            if following is None:
                return
            if not self._is_ours(following):
                raise ServiceError(
                    f"{path}: expected the next page on the same host, found another"
                )
            address, query = following, None
        raise ServiceError(f"{path}: expected at most {PAGES} pages, found more")

    def _ask(
        self, method: str, path: str, sent: Mapping[str, Any], most: int
    ) -> tuple[bytes, httpx.Response]:
        body = bytearray()
        try:
            with self._http.stream(method, path, **sent) as response:
                for chunk in response.iter_bytes():
                    body += chunk
                    if len(body) > most:
                        break
        except httpx.HTTPError as error:
            kind = PassingError if isinstance(error, httpx.TransportError) else ServiceError
            said = f"{type(error).__name__}: {one_line(str(error))}"
            raise kind(f"{method} {path}: GitHub gave no answer ({said})") from error
        self._time = _date(response.headers.get("date", "")) or self._time
        if not response.is_success:
            problem = _problem(response, bytes(body), self.now)
            # Nobody should repeat it, but what nobody should do is done at times.
            problem.args = (str(problem).replace(self._token, "***"),)
            raise problem
        return bytes(body[: most + 1]), response

    def _is_ours(self, text: str) -> bool:
        """Whether an address is on the API's own host: nobody else gets the token."""
        try:
            address = httpx.URL(text)
        except httpx.InvalidURL:
            return False
        base = self._http.base_url
        return (address.scheme, address.host, address.port) == (base.scheme, base.host, base.port)


def _wait(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome is not None else None
    after = error.after if isinstance(error, PassingError) else None
    return _JITTER(state) if after is None else after


def _json(data: bytes, response: httpx.Response) -> Any:
    try:
        return json.loads(data)
    except ValueError as error:
        raise ServiceError(
            f"{response.request.method} {response.request.url.path}: expected JSON, found "
            f"{one_line(data[:_SAID].decode('utf-8', 'replace'), 80)!r}"
        ) from error


def _problem(response: httpx.Response, body: bytes, now: datetime) -> ServiceError:
    """What an answer that is no success means: try again later, or refused."""
    status, message, headers = response.status_code, _message(body), response.headers
    asked = f"{response.request.method} {response.request.url.path}"
    said = f"GitHub answered {status} to {asked}: {message}"
    spent = headers.get("x-ratelimit-remaining") == "0" or "rate limit" in message.lower()
    if status == 429 or (status == 403 and ("retry-after" in headers or spent)):
        after = _delay(headers, now)
        return PassingError(f"{said}; it wants to be left alone for {after:.0f} s", status, after)
    if status >= 500 or status == 408:
        return PassingError(said, status)
    return ServiceError(f"{said}; {_ADVICE.get(status, 'expected success')}", status)


def _delay(headers: httpx.Headers, now: datetime) -> float:
    """Seconds to wait: what was said, else until the limit is reset, else a minute."""
    said = headers.get("retry-after", "").strip()
    if said.isdecimal():
        return float(said)
    if (until := _date(said)) is not None:
        return max(0.0, (until - now).total_seconds())
    reset = headers.get("x-ratelimit-reset", "").strip()
    if headers.get("x-ratelimit-remaining") == "0" and reset.isdecimal():
        return max(0.0, int(reset) - now.timestamp()) + 1
    return UNSAID_SECONDS


def _date(text: str) -> datetime | None:
    try:
        found = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found


def _message(data: bytes) -> str:
    """GitHub's own words, with those about single fields."""
    try:
        body: Any = json.loads(data)
    except ValueError:
        return one_line(data.decode("utf-8", "replace")) or "no words"
    if not isinstance(body, dict):
        return one_line(str(body))
    words = [str(body.get("message", "no words"))]
    errors = body.get("errors")
    for error in errors if isinstance(errors, list) else []:
        told = error if isinstance(error, dict) else {"message": error}
        parts = (told.get("field"), told.get("message") or told.get("code"))
        words.append(": ".join(str(part) for part in parts if part))
    return one_line("; ".join(words))
