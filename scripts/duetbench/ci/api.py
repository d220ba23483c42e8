"""GitHub's REST API: JSON in, JSON out; bounded, patient and paginated.

A request without an answer is repeated, even one that writes; its caller finds a duplicate by its
marker. Delays are those that GitHub asks for, and random otherwise, so that many jobs do not come
back at once (full jitter: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog,
2015).
"""

import json
import re
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import quote

import httpx
from tenacity import RetryCallState, retry, retry_if_exception_type
from tenacity.stop import stop_after_attempt, stop_before_delay
from tenacity.wait import wait_random_exponential

from duetbench.core import __version__
from duetbench.core.errors import DuetbenchError, UsageError
from duetbench.core.text import short

PATIENCE: Final = 300.0  # s; how long to repeat a request
ATTEMPTS: Final = 12  # most attempts
TIMEOUT: Final = 20.0  # s; longest silence within a request
LARGEST: Final = 32_000_000  # bytes of an answer
UNKNOWN_DELAY: Final = 60.0  # s; if GitHub limits requests and states no delay
WAIT: Callable[[float], None] = time.sleep

TOKEN: Final = "GITHUB_TOKEN"  # noqa: S105 - the name of a variable, not a secret
SERVER: Final = "https://github.com"

_ADDRESS: Final = re.compile(r"https://\w|http://(localhost|127\.0\.0\.1|\[::1\])(:\d+)?(/|$)")
_PAGE: Final = 100
_ADVICE: Final = {
    401: "give the step a valid token (env: GITHUB_TOKEN)",
    403: "check that the job's `permissions:` allow it and that the conversation is not locked",
    404: "check that it exists and that the job's `permissions:` let the token see it",
}


class ServiceError(DuetbenchError):
    """GitHub is unreachable, refuses, or gives an unexpected answer."""

    def __init__(self, message: str, status: int | None = None) -> None:
        self.status = status
        super().__init__(message)


class _TemporaryError(ServiceError):
    """A request failed, and may succeed after `delay` seconds; None: after any."""

    def __init__(self, message: str, status: int | None = None, delay: float | None = None) -> None:
        super().__init__(message, status)
        self.delay = delay


def _delay(state: RetryCallState) -> float:
    delay: float | None = getattr(state.outcome and state.outcome.exception(), "delay", None)
    return wait_random_exponential(multiplier=1, max=30)(state) if delay is None else delay


class GitHub:
    """One repository on GitHub, as a step of a workflow sees it. Use it as a context manager.

    Paths begin below the repository. All methods raise ServiceError if GitHub refuses, or fails for
    longer than `PATIENCE`; UsageError if a variable of the step is not set.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self.repository = self._required("GITHUB_REPOSITORY")
        """`owner/name`."""
        self.run_id = int(environ.get("GITHUB_RUN_ID") or 0)
        """Of the workflow's run; later runs have larger ones."""
        api = environ.get("GITHUB_API_URL") or "https://api.github.com"
        if not _ADDRESS.match(api):  # the token goes there
            raise UsageError(
                f"GITHUB_API_URL={api!r}: expected https://…, or http:// on this machine"
            )
        self._http = httpx.Client(
            base_url=f"{api.rstrip('/')}/repos/{self.repository}",
            headers={
                "Accept": "application/vnd.github+json",
                "Authorization": f"Bearer {self._required(TOKEN)}",
                "User-Agent": f"duetbench/{__version__}",
                "X-GitHub-Api-Version": "2022-11-28",
            },
            timeout=TIMEOUT,
            # A repository that was renamed redirects; httpx keeps the token from other hosts.
            follow_redirects=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def _required(self, name: str) -> str:
        if not self._environ.get(name):
            raise UsageError(f"{name} is not set; a job of GitHub Actions has it")
        return self._environ[name]

    def run_url(self, run: int) -> str:
        """Return the page of a workflow's run."""
        server = self._environ.get("GITHUB_SERVER_URL") or SERVER
        return f"{server.rstrip('/')}/{self.repository}/actions/runs/{run}"

    def event(self) -> dict[str, Any]:
        """Read the event that started the workflow."""
        path = Path(self._required("GITHUB_EVENT_PATH"))
        event: dict[str, Any] = json.loads(path.read_bytes())
        return event

    def merge_base(self, branch: str, head: str) -> str:
        """Return the commit at which a commit has left a branch, or another commit."""
        span = f"{quote(branch, safe='')}...{head}"
        return str(self.get(f"/compare/{span}", per_page=1)["merge_base_commit"]["sha"])

    def get(self, path: str, *, absent: Collection[int] = (), **params: Any) -> Any:
        """Return what a path has, or None if GitHub answers with one of these statuses."""
        return self._json("GET", path, absent, params=params)

    def send(self, method: str, path: str, *, absent: Collection[int] = (), **fields: Any) -> Any:
        """Send fields, and return what they have become, or None as above, and for no content."""
        return self._json(method, path, absent, json=fields or None)

    def get_all(self, path: str, key: str = "", **params: Any) -> list[dict[str, Any]]:
        """Return the entries of a list, which may be below a key of each page."""
        entries, page = list[dict[str, Any]](), 0
        while len(entries) == page * _PAGE:
            page += 1
            answer = self.get(path, **params, per_page=_PAGE, page=page)
            entries += answer[key] if key else answer
        return entries

    def _json(self, method: str, path: str, absent: Collection[int], **content: Any) -> Any:
        try:
            body = self.download(path, LARGEST, method, **content)
        except ServiceError as error:
            if error.status not in absent:
                raise
            return None
        return json.loads(body) if body else None

    @retry(
        retry=retry_if_exception_type(_TemporaryError),
        wait=_delay,
        stop=stop_after_attempt(ATTEMPTS) | stop_before_delay(PATIENCE),
        sleep=lambda seconds: WAIT(seconds),  # noqa: PLW0108 - tests replace it later
        reraise=True,
    )
    def download(self, path: str, most: int, method: str = "GET", **content: Any) -> bytes:
        """Return an answer of at most so many bytes; repeat the request while that may help."""
        body = bytearray()
        try:
            with self._http.stream(method, path, **content) as response:
                for chunk in response.iter_bytes():
                    body += chunk
                    if len(body) > most:
                        raise ServiceError(f"{path}: expected at most {most:,} bytes, found more")
        except httpx.HTTPError as error:
            reason = f"{type(error).__name__}: {short(str(error))}"
            raise _TemporaryError(f"{method} {path}: GitHub gave no answer ({reason})") from error
        if not response.is_success:
            raise _problem(response, bytes(body))
        return bytes(body)


def _problem(response: httpx.Response, body: bytes) -> ServiceError:
    """Return the error of a failed response: temporary, or final."""
    status, headers = response.status_code, response.headers
    message = short(body.decode("utf-8", "replace")) or "no message"  # GitHub's own, as JSON
    request = f"{response.request.method} {response.request.url.path}"
    sentence = f"GitHub answered {status} to {request}: {message}"
    spent, after = headers.get("x-ratelimit-remaining") == "0", headers.get("retry-after", "")
    limited = spent or after or "rate limit" in message.lower()
    if status == 429 or (status == 403 and limited):
        delay, reset = UNKNOWN_DELAY, headers.get("x-ratelimit-reset", "")
        if after.isdecimal():
            delay = float(after)
        elif spent and reset.isdecimal():
            delay = max(0.0, int(reset) - time.time()) + 1
        return _TemporaryError(f"{sentence}; it asks to wait {delay:.0f} s", status, delay)
    if status >= 500 or status == 408:
        return _TemporaryError(sentence, status)
    return ServiceError("; ".join(filter(None, (sentence, _ADVICE.get(status)))), status)
