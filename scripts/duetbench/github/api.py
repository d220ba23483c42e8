"""GitHub's REST API, as far as duetbench uses it: bounded, patient and paginated.

A request whose answer was lost is repeated too; what was made twice by that, its caller finds by a
marker. Waiting follows what GitHub asks for, and is random otherwise, so that many jobs do not come
back at once (full jitter: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog,
2015). Of an answer the keys that are used are checked, and all others are ignored.
"""

import functools
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Annotated, Any, Final, Literal, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError
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
"""Most pages of a list, of 100 entries each."""

UNKNOWN_DELAY: Final = 60.0
"""How long to wait where GitHub limits and does not say how long, s."""

WAIT: Callable[[float], None] = time.sleep
"""How a client waits."""

_PAGE: Final = 100
_NOT_FOUND: Final = 404
_JITTER: Final = wait_random_exponential(multiplier=1, max=30)
# Reading them takes longer than most requests.
_CERTIFICATES: Final = functools.cache(httpx.create_ssl_context)
_ADVICE: Final = {
    401: "give the step a valid token (env: GITHUB_TOKEN)",
    403: "see whether the job's `permissions:` allow it, and that the conversation is not locked",
    404: "see that it exists, and that the job's `permissions:` let the token see it",
    409: "it has changed in the meantime; run the job again",
    410: "it has been removed or is switched off",
    422: "GitHub does not take these values",
}

Sha = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
Reaction = Literal["-1", "confused", "rocket"]
T = TypeVar("T")


class Payload(BaseModel):
    """Base of all answers and events."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class User(Payload):
    """Who did something."""

    login: str
    type: str = "User"


class _Written(Payload):
    body: str | None = None
    user: User | None = None
    html_url: str = ""


class Comment(_Written):
    """A comment on an issue or a pull request."""

    id: int


class Issue(_Written):
    """An issue; pull requests are listed among them, and have `pull_request`."""

    number: int
    state: str
    pull_request: dict[str, Any] | None = None


class Tip(Payload):
    """One end of a pull request."""

    sha: Sha


class Base(Payload):
    """The branch that a pull request is for.

    Its `sha` is not read: GitHub keeps an older one there, which is no merge base either.
    """

    ref: str = Field(min_length=1)


class Pull(Payload):
    """A pull request."""

    number: int
    state: str
    head: Tip
    base: Base


class Artifact(Payload):
    """What a job of a run has left; later ones have larger ids."""

    id: int
    name: str
    size_in_bytes: int
    expired: bool = False
    digest: str | None = None


class _Rule(Payload):
    type: str


def read(kind: type[T], found: Any, source: str) -> T:
    """Check an answer or an event; raises ServiceError."""
    try:
        return TypeAdapter(kind).validate_python(found)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        raise ServiceError(
            f"{source}: expected {kind.__name__} with {key or 'its keys'}, found: {first['msg']}"
        ) from error


class _TemporaryError(ServiceError):
    """There was no proper answer, and there may be one after `delay` seconds."""

    def __init__(self, message: str, status: int | None = None, delay: float | None = None) -> None:
        super().__init__(message, status)
        self.delay = delay


class GitHub:
    """One repository on GitHub, with one token. Close it (`contextlib.closing`).

    All methods raise ServiceError where GitHub refuses, or does not answer for long.
    """

    def __init__(
        self, context: Context, *, patience: float = PATIENCE, timeout: float = TIMEOUT
    ) -> None:
        self.account = context.account
        self._owner = context.repository.partition("/")[0]
        self._patience = patience
        self._http = httpx.Client(
            base_url=f"{context.api_url}/repos/{context.repository}",
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

    def pull(self, number: int) -> Pull:
        return read(Pull, self._json("GET", f"/pulls/{number}"), f"pull request {number}")

    def open_pulls(self, branch: str, owner: str = "") -> list[Pull]:
        """The open pull requests of a branch, which is this repository's or a fork's `owner`."""
        head = f"{owner or self._owner}:{branch}"
        return self._list(Pull, "/pulls", params={"state": "open", "head": head})

    def permission(self, login: str) -> str:
        """What somebody may do: admin, write (maintainers too), read or none."""
        found = self._json("GET", f"/collaborators/{_quoted(login)}/permission", default={})
        return str(found.get("permission", "none"))

    def merge_base(self, branch: str, head: Sha) -> Sha:
        """Where a commit has left a branch, or another commit."""
        path = f"/compare/{_quoted(branch)}...{head}"
        found = self._json("GET", path, params={"per_page": 1})
        return read(Tip, found.get("merge_base_commit"), path).sha

    def has_reviewers(self, environment: str) -> bool:
        """Whether somebody has to approve before a job in an environment starts.

        One that is not there has nobody: GitHub makes it, open to all, when a job first names it.
        """
        path = f"/environments/{_quoted(environment)}"
        found = self._json("GET", path, default={})
        rules = read(list[_Rule], found.get("protection_rules", []), path)
        return any(rule.type == "required_reviewers" for rule in rules)

    def comments(self, number: int) -> list[Comment]:
        return self._list(Comment, f"/issues/{number}/comments")

    def add_comment(self, number: int, body: str) -> Comment:
        path = f"/issues/{number}/comments"
        return read(Comment, self._json("POST", path, json={"body": body}), path)

    def edit_comment(self, comment: int, body: str) -> Comment:
        path = f"/issues/comments/{comment}"
        return read(Comment, self._json("PATCH", path, json={"body": body}), path)

    def delete_comment(self, comment: int) -> None:
        """Remove a comment; one that is gone already is fine."""
        try:
            self.request("DELETE", f"/issues/comments/{comment}")
        except ServiceError as error:
            if error.status != _NOT_FOUND:
                raise

    def react(self, comment: int, content: Reaction) -> None:
        """React to a comment. It is a courtesy: that it is not possible is no error."""
        with suppress(ServiceError):
            path = f"/issues/comments/{comment}/reactions"
            self.request("POST", path, json={"content": content})

    def issues(self) -> list[Issue]:
        """All issues that this account has opened, open and closed, oldest first."""
        params = {"state": "all", "creator": self.account}
        found = self._list(Issue, "/issues", params=params)
        ours = [one for one in found if one.pull_request is None and self.wrote(one)]
        return sorted(ours, key=lambda issue: issue.number)

    def open_issue(self, title: str, body: str, labels: tuple[str, ...]) -> Issue:
        fields = {"title": title, "body": body, "labels": list(labels)}
        return read(Issue, self._json("POST", "/issues", json=fields), "/issues")

    def edit_issue(self, number: int, changes: Mapping[str, Any]) -> None:
        self.request("PATCH", f"/issues/{number}", json=changes)

    def artifacts(self, run: int) -> list[Artifact]:
        """What the jobs of a run have left, of each name the newest."""
        found = self._list(Artifact, f"/actions/runs/{run}/artifacts", key="artifacts")
        newest = {one.name: one for one in sorted(found, key=lambda one: one.id)}
        return [newest[name] for name in sorted(newest)]

    def archive(self, artifact: int, most: int) -> bytes:
        """An artifact as a zip archive of at most so many bytes."""
        return self.request("GET", f"/actions/artifacts/{artifact}/zip", most=most)

    def dispatch(self, file: str, ref: str, inputs: Mapping[str, str]) -> None:
        """Start a workflow."""
        path = f"/actions/workflows/{_quoted(file)}/dispatches"
        self.request("POST", path, json={"ref": ref, "inputs": dict(inputs)})

    def wrote(self, text: Comment | Issue) -> bool:
        """Whether a text is by the account that the token stands for."""
        return text.user is not None and text.user.login == self.account

    def request(
        self,
        method: str,
        path: str,
        *,
        json: Mapping[str, Any] | None = None,
        params: Mapping[str, str | int] | None = None,
        most: int = LARGEST,
    ) -> bytes:
        """Ask, and ask again while it may help: the answer's body."""
        retrying = Retrying(
            retry=retry_if_exception_type(_TemporaryError),
            wait=_delay,
            stop=stop_after_attempt(ATTEMPTS) | stop_before_delay(self._patience),
            sleep=WAIT,
            reraise=True,
        )
        try:
            return retrying(self._ask, method, path, {"json": json, "params": params}, most)
        except _TemporaryError as error:
            tries = retrying.statistics["attempt_number"]
            raise ServiceError(
                f"{error}; given up after {tries} {'try' if tries == 1 else 'tries'} and within "
                f"{self._patience:.0f} s: run the job again later",
                error.status,
            ) from error

    def _ask(self, method: str, path: str, sent: Mapping[str, Any], most: int) -> bytes:
        body = bytearray()
        try:
            with self._http.stream(method, path, **sent) as response:
                for chunk in response.iter_bytes():
                    body += chunk
                    if len(body) > most:
                        raise ServiceError(f"{path}: expected at most {most:,} bytes, found more")
        except httpx.HTTPError as error:
            kind = _TemporaryError if isinstance(error, httpx.TransportError) else ServiceError
            reason = f"{type(error).__name__}: {one_line(str(error))}"
            raise kind(f"{method} {path}: GitHub gave no answer ({reason})") from error
        if not response.is_success:
            raise _problem(response, bytes(body))
        return bytes(body)

    def _json(self, method: str, path: str, *, default: Any = None, **sent: Any) -> Any:
        """An answer as JSON; where nothing is there, the default, if there is one."""
        try:
            return _decoded(self.request(method, path, **sent), path)
        except ServiceError as error:
            if error.status != _NOT_FOUND or default is None:
                raise
            return default

    def _list(
        self, kind: type[T], path: str, key: str = "", params: Mapping[str, str] | None = None
    ) -> list[T]:
        return [read(kind, one, path) for one in self._pages(path, key, params or {})]

    def _pages(self, path: str, key: str, params: Mapping[str, str]) -> Iterator[Any]:
        for page in range(1, PAGES + 1):
            query = {**params, "per_page": _PAGE, "page": page}
            found = self._json("GET", path, params=query)
            entries = found.get(key) if key and isinstance(found, dict) else found
            if not isinstance(entries, list):
                raise ServiceError(f"{path}: expected a list, found {type(entries).__name__}")
            yield from entries
            if len(entries) < _PAGE:
                return
        raise ServiceError(f"{path}: expected at most {PAGES} pages, found more")


def _quoted(text: str) -> str:
    return quote(text, safe="")


def _delay(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome is not None else None
    asked = error.delay if isinstance(error, _TemporaryError) else None
    return _JITTER(state) if asked is None else asked


def _decoded(data: bytes, path: str) -> Any:
    try:
        return json.loads(data)
    except ValueError as error:
        start = one_line(data[:300].decode("utf-8", "replace"), 80)
        raise ServiceError(f"{path}: expected JSON, found {start!r}") from error


def _problem(response: httpx.Response, body: bytes) -> ServiceError:
    """What an answer that is no success means: try again later, or refused."""
    status, message, headers = response.status_code, _message(body), response.headers
    asked = f"{response.request.method} {response.request.url.path}"
    sentence = f"GitHub answered {status} to {asked}: {message}"
    spent = headers.get("x-ratelimit-remaining") == "0"
    limited = spent or "retry-after" in headers or "rate limit" in message.lower()
    if status == 429 or (status == 403 and limited):
        delay = UNKNOWN_DELAY
        reset = headers.get("x-ratelimit-reset", "")
        if (after := headers.get("retry-after", "")).isdecimal():
            delay = float(after)
        elif spent and reset.isdecimal():
            delay = max(0.0, int(reset) - time.time()) + 1
        return _TemporaryError(
            f"{sentence}; it wants to be left alone for {delay:.0f} s", status, delay
        )
    if status >= 500 or status == 408:
        return _TemporaryError(sentence, status)
    return ServiceError(f"{sentence}; {_ADVICE.get(status, 'expected success')}", status)


def _message(body: bytes) -> str:
    """GitHub's own words, with those about single fields, on one line."""
    try:
        found = json.loads(body)
    except ValueError:
        return one_line(body.decode("utf-8", "replace")) or "no words"
    if not isinstance(found, dict):
        return one_line(str(found))
    words = [str(found.get("message", "no words"))]
    for error in found.get("errors") or []:
        field = error if isinstance(error, dict) else {"message": error}
        parts = (field.get("field"), field.get("message") or field.get("code"))
        words.append(": ".join(str(part) for part in parts if part))
    return one_line("; ".join(words))
