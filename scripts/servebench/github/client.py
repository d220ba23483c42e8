"""One request to GitHub's REST API, asked again as long as that is worth while; and lists of them.

Waiting follows what GitHub asks for, and is random otherwise, so that many jobs do not come back at
the same moment (full jitter: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog,
2015).
"""

from __future__ import annotations

import functools
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import httpx
from tenacity import RetryCallState, Retrying, retry_if_exception_type
from tenacity.stop import stop_after_attempt, stop_before_delay
from tenacity.wait import wait_random_exponential

from servebench import __version__
from servebench.errors import ServiceError
from servebench.github import faults
from servebench.github.context import Context
from servebench.github.faults import PassingError, UncertainError
from servebench.text import one_line

PATIENCE: Final = 300.0
"""How long to go on trying, s."""

ATTEMPTS: Final = 12
"""How often to try at most."""

TIMEOUT: Final = 20.0
"""Longest silence within a request, s."""

PAGES: Final = 200
"""Most pages of a list; of 100 entries each."""

WAIT: Callable[[float], None] = time.sleep
"""How a client waits, unless it is told otherwise."""

_JITTER: Final = wait_random_exponential(multiplier=1, max=30)
_REPEATABLE: Final = frozenset({"GET", "PATCH", "DELETE"})
T = TypeVar("T")


class Client:
    """Requests to one API with one token. Close it (`contextlib.closing`).

    Args:
        context: Addresses and token.
        patience: How long to go on trying, s.
        timeout: Longest silence within a request, s.
        sleep: How to wait; default: `WAIT`.
    """

    def __init__(
        self,
        context: Context,
        *,
        patience: float = PATIENCE,
        timeout: float = TIMEOUT,
        sleep: Callable[[float], None] | None = None,
    ) -> None:
        self._patience, self._sleep = patience, sleep or WAIT
        self._time: datetime | None = None
        self._token = context.token
        self._http = httpx.Client(
            base_url=context.api_url,
            headers={
                "Accept": "application/vnd.github+json",
                "Authorization": f"Bearer {context.token}",
                "User-Agent": f"servebench/{__version__}",
                "X-GitHub-Api-Version": "2022-11-28",
            },
            timeout=timeout,
            verify=_certificates(),
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

    def pause(self, seconds: float) -> None:
        """Wait."""
        self._sleep(seconds)

    def request(
        self,
        method: str,
        path: str,
        *,
        json: Mapping[str, Any] | None = None,
        params: Mapping[str, str | int] | None = None,
        repeatable: bool | None = None,
    ) -> httpx.Response:
        """Ask, and ask again while it may help.

        Args:
            method: GET, POST, PATCH or DELETE.
            path: Below the API's base address, starting with a slash.
            json: The body.
            params: The query.
            repeatable: Whether asking twice does no more than asking once; POST: no, unless said.

        Raises:
            UncertainError: No proper answer to what must not be asked twice.
            ServiceError: GitHub refuses, or patience is at its end.
        """
        if repeatable is None:
            repeatable = method in _REPEATABLE
        return self._patiently(self._send, method, path, json, params, repeatable)

    def download(self, path: str, most: int) -> bytes:
        """Fetch a file, wherever GitHub keeps it; the token goes to GitHub alone.

        Args:
            path: Below the API's base address.
            most: Bytes; of a larger file so many and one more are read.

        Raises:
            ServiceError: As `request`.
        """
        return self._patiently(self._load, path, most)

    def _patiently(self, ask: Callable[..., T], *arguments: Any) -> T:
        retrying = self._retrying(PassingError)
        try:
            return retrying(ask, *arguments)
        except PassingError as error:
            tries = retrying.statistics["attempt_number"]
            raise ServiceError(
                f"{error}; given up after {tries} {'try' if tries == 1 else 'tries'} and within "
                f"{self._patience:.0f} s: run the job again later",
                error.status,
            ) from error

    def json(self, method: str, path: str, **more: Any) -> Any:
        """Ask for JSON; the arguments are those of `request`.

        Raises:
            ServiceError: As `request`, or the answer is no JSON.
        """
        return _json(self.request(method, path, **more))

    def pages(
        self, path: str, *, key: str | None = None, params: Mapping[str, str | int] | None = None
    ) -> Iterator[Any]:
        """Give the entries of a list, page after page.

        Args:
            path: Of the list.
            key: Where the list is in an object that is wrapped around it.
            params: The query.

        Raises:
            ServiceError: As `request`, or an answer that is no list.
        """
        query: Mapping[str, str | int] | None = {"per_page": 100, **(params or {})}
        address = path
        for _ in range(PAGES):
            response = self.request("GET", address, params=query)
            found = _json(response)
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

    def once(self, look: Callable[[], T | None], create: Callable[[], T]) -> T:
        """Give what is there, or create it; when nobody knows whether it was created, look again.

        Raises:
            ServiceError: As `request`.
        """

        def attempt() -> T:
            found = look()
            return create() if found is None else found

        return self._retrying(UncertainError)(attempt)

    def _send(
        self,
        method: str,
        path: str,
        json: Mapping[str, Any] | None,
        params: Mapping[str, str | int] | None,
        repeatable: bool,
    ) -> httpx.Response:
        try:
            response = self._http.request(method, path, json=json, params=params)
        except httpx.HTTPError as error:
            raise faults.unanswered(error, method, path, repeatable=repeatable) from error
        self._require_success(response, repeatable=repeatable)
        return response

    def _load(self, path: str, most: int) -> bytes:
        try:
            with self._http.stream("GET", path) as response:
                if not response.is_success:
                    response.read()
                self._require_success(response, repeatable=True)
                data = bytearray()
                for chunk in response.iter_bytes():
                    data += chunk
                    if len(data) > most:
                        break
                return bytes(data[: most + 1])
        except httpx.HTTPError as error:
            raise faults.unanswered(error, "GET", path, repeatable=True) from error

    def _require_success(self, response: httpx.Response, *, repeatable: bool) -> None:
        self._time = faults.server_time(response) or self._time
        problem = faults.judge(response, repeatable=repeatable)
        if problem is not None:
            # Nobody should repeat it, but what nobody should do is done at times.
            problem.args = (str(problem).replace(self._token, "***"),)
            raise problem

    def _retrying(self, kind: type[PassingError] | type[UncertainError]) -> Retrying:
        return Retrying(
            retry=retry_if_exception_type(kind),
            wait=_wait,
            stop=stop_after_attempt(ATTEMPTS) | stop_before_delay(self._patience),
            sleep=self._sleep,
            reraise=True,
        )

    def _is_ours(self, text: str) -> bool:
        """Whether an address is on the API's own host: nobody else gets the token."""
        try:
            address = httpx.URL(text)
        except httpx.InvalidURL:
            return False
        base = self._http.base_url
        return (address.scheme, address.host, address.port) == (base.scheme, base.host, base.port)


@functools.cache
def _certificates() -> ssl.SSLContext:
    """Whom to trust; reading it takes longer than most requests."""
    return httpx.create_ssl_context()


def _wait(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome is not None else None
    after = error.after if isinstance(error, PassingError | UncertainError) else None
    return _JITTER(state) if after is None else after


def _json(response: httpx.Response) -> Any:
    try:
        return response.json()
    except ValueError as error:
        raise ServiceError(
            f"{response.request.method} {response.request.url.path}: expected JSON, found "
            f"{one_line(response.text, 80)!r}"
        ) from error
