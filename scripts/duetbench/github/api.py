"""GitHub's REST API, as far as duetbench uses it: bounded, patient and paginated.

A request without an answer is repeated, even one that writes; its caller finds a duplicate by its
marker. Delays are those that GitHub asks for, and random otherwise, so that many jobs do not come
back at once (full jitter: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog,
2015). Answers are checked for the keys in use; all other keys are ignored.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, Self, TypeVar
from urllib.parse import quote

import httpx
from pydantic import (
    AliasPath,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
)
from tenacity import RetryCallState, Retrying, retry_if_exception_type
from tenacity.stop import stop_after_attempt, stop_before_delay
from tenacity.wait import wait_random_exponential

from duetbench.core import __version__
from duetbench.core.errors import ServiceError
from duetbench.core.text import short
from duetbench.github.actions import BOT, Context

PATIENCE: Final = 300.0  # s; how long to repeat a request
ATTEMPTS: Final = 12  # most attempts
TIMEOUT: Final = 20.0  # s; longest silence within a request
LARGEST: Final = 32_000_000  # bytes of an answer
PAGES: Final = 200  # of a list, of 100 entries each
UNKNOWN_DELAY: Final = 60.0  # s; if GitHub limits requests and states no delay
WAIT: Callable[[float], None] = time.sleep

_PAGE: Final = 100
_NOT_FOUND: Final = 404
_ADVICE: Final = {
    401: "give the step a valid token (env: GITHUB_TOKEN)",
    403: "check that the job's `permissions:` allow it and that the conversation is not locked",
    404: "check that it exists and that the job's `permissions:` let the token see it",
    409: "it has changed in the meantime; try again",
    410: "it has been removed or is switched off",
    422: "GitHub rejects these values",
}

Sha = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
_Table = dict[str, Any]
T = TypeVar("T")


def nested_field(*keys: str, **more: Any) -> Any:
    """A field nested in an answer or an event."""
    return Field(validation_alias=AliasPath(keys[0], *keys[1:]), **more)


class Payload(BaseModel):
    """Base of all answers and events."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)


class Comment(Payload):
    """A comment on an issue or a pull request."""

    id: int
    body: str | None = None
    author: str = nested_field("user", "login", default="")
    html_url: str = ""


class Issue(Payload):
    """An issue; pull requests are listed among them, and have `pull_request`."""

    number: int
    state: str
    body: str | None = None
    author: str = nested_field("user", "login", default="")
    html_url: str = ""
    pull_request: dict[str, Any] | None = None


class Pull(Payload):
    """A pull request.

    Its base is a branch's name: the commit that GitHub keeps is old, and no merge base either.
    """

    number: int
    state: str
    head: Sha = nested_field("head", "sha")
    base: str = nested_field("base", "ref", min_length=1)


class Artifact(Payload):
    """A file that a job of a run has uploaded; later ones have larger ids."""

    id: int
    name: str
    size_in_bytes: int
    expired: bool = False


class _MergeBase(Payload):
    sha: Sha = nested_field("merge_base_commit", "sha")


def read(kind: type[T], content: Any, source: str) -> T:
    """Validate an answer, as JSON, or content of an event; raises ServiceError."""
    adapter = TypeAdapter(kind)
    try:
        if isinstance(content, bytes):
            return adapter.validate_json(content)
        return adapter.validate_python(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        raise ServiceError(
            f"{source}: expected {kind.__name__} with {key or 'its keys'}, found: {first['msg']}"
        ) from error


class _TemporaryError(ServiceError):
    """A request failed, and may succeed after `delay` seconds."""

    def __init__(self, message: str, status: int | None = None, delay: float | None = None) -> None:
        super().__init__(message, status)
        self.delay = delay


class GitHub:
    """One repository on GitHub, with one token. Use it as a context manager.

    All methods raise ServiceError if GitHub refuses, or fails for longer than `patience`.
    """

    def __init__(self, context: Context, *, patience: float = PATIENCE) -> None:
        self.context = context
        self._patience = patience
        self._http = httpx.Client(
            base_url=f"{context.api_url}/repos/{context.repository}",
            headers={
                "Accept": "application/vnd.github+json",
                "Authorization": f"Bearer {context.token}",
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

    def pull(self, number: int) -> Pull:
        return self._get(Pull, f"/pulls/{number}")

    def open_pulls(self, branch: str, owner: str) -> list[Pull]:
        """Return the open pull requests of a branch, of this repository's or a fork's owner."""
        return self._list(Pull, "/pulls", state="open", head=f"{owner}:{branch}")

    def permission(self, login: str) -> str:
        """Return an account's permission: admin, write (maintainers too), read or none."""
        answer = self._get(_Table, f"/collaborators/{_quote(login)}/permission", absent={})
        return str(answer.get("permission", "none"))

    def merge_base(self, branch: str, head: Sha) -> Sha:
        """Return the commit at which a commit has left a branch, or another commit."""
        return self._get(_MergeBase, f"/compare/{_quote(branch)}...{head}", per_page=1).sha

    def has_reviewers(self, environment: str) -> bool:
        """Whether somebody has to approve before a job in an environment starts.

        A missing environment has no reviewers: GitHub creates it, open to all, for the first job.
        """
        answer = self._get(_Table, f"/environments/{_quote(environment)}", absent={})
        rules = answer.get("protection_rules", ())
        return any(rule.get("type") == "required_reviewers" for rule in rules)

    def setting(self, address: str = "") -> _Table | None:
        """Return the repository, or one of its settings; None if the token sees none."""
        try:
            # A base address alone would end in a slash, which GitHub does not know.
            whole = f"{self.context.api_url}/repos/{self.context.repository}{address}"
            return self._get(_Table, whole, per_page=_PAGE)
        except ServiceError as error:
            if error.status not in {403, _NOT_FOUND}:
                raise
            return None

    def comments(self, number: int) -> list[Comment]:
        return self._list(Comment, f"/issues/{number}/comments")

    def add_comment(self, number: int, body: str) -> Comment:
        return self._send(Comment, "POST", f"/issues/{number}/comments", body=body)

    def edit_comment(self, comment: int, body: str) -> Comment:
        return self._send(Comment, "PATCH", f"/issues/comments/{comment}", body=body)

    def delete_comment(self, comment: int) -> None:
        """Remove a comment; one that is gone already is fine."""
        try:
            self.request("DELETE", f"/issues/comments/{comment}")
        except ServiceError as error:
            if error.status != _NOT_FOUND:
                raise

    def issues(self) -> list[Issue]:
        """Return all issues that `BOT` has opened, open and closed, oldest first."""
        listed = self._list(Issue, "/issues", state="all", creator=BOT)
        own = (issue for issue in listed if issue.pull_request is None and issue.author == BOT)
        return sorted(own, key=lambda issue: issue.number)

    def open_issue(self, title: str, body: str, labels: Sequence[str]) -> Issue:
        return self._send(Issue, "POST", "/issues", title=title, body=body, labels=list(labels))

    def edit_issue(self, number: int, **changes: str) -> None:
        self.request("PATCH", f"/issues/{number}", json=changes)

    def artifacts(self, run: int) -> list[Artifact]:
        """Return the artifacts of a run, the newest of each name."""
        listed = self._list(Artifact, f"/actions/runs/{run}/artifacts", key="artifacts")
        newest = {artifact.name: artifact for artifact in sorted(listed, key=lambda a: a.id)}
        return [newest[name] for name in sorted(newest)]

    def archive(self, artifact: int, most: int) -> bytes:
        """Return an artifact as a zip archive of at most `most` bytes."""
        return self.request("GET", f"/actions/artifacts/{artifact}/zip", most=most)

    def dispatch(self, file: str, ref: str, inputs: Mapping[str, str]) -> None:
        address = f"/actions/workflows/{_quote(file)}/dispatches"
        self.request("POST", address, json={"ref": ref, "inputs": dict(inputs)})

    def request(
        self,
        method: str,
        path: str,
        *,
        json: Mapping[str, Any] | None = None,
        params: Mapping[str, str | int] | None = None,
        most: int = LARGEST,
    ) -> bytes:
        """Send a request, repeat it while that may help, and return the answer's body."""
        retrying = Retrying(
            retry=retry_if_exception_type(_TemporaryError),
            wait=_delay,
            stop=stop_after_attempt(ATTEMPTS) | stop_before_delay(self._patience),
            sleep=WAIT,
            reraise=True,
        )
        try:
            return retrying(self._send_once, method, path, {"json": json, "params": params}, most)
        except _TemporaryError as error:
            tries = retrying.statistics["attempt_number"]
            end = f"given up at try {tries} within {self._patience:.0f} s: try again later"
            raise ServiceError(f"{error}; {end}", error.status) from error

    def _send_once(self, method: str, path: str, content: Mapping[str, Any], most: int) -> bytes:
        body = bytearray()
        try:
            with self._http.stream(method, path, **content) as response:
                for chunk in response.iter_bytes():
                    body += chunk
                    if len(body) > most:
                        raise ServiceError(f"{path}: expected at most {most:,} bytes, found more")
        except httpx.HTTPError as error:
            kind = _TemporaryError if isinstance(error, httpx.TransportError) else ServiceError
            reason = f"{type(error).__name__}: {short(str(error))}"
            raise kind(f"{method} {path}: GitHub gave no answer ({reason})") from error
        if not response.is_success:
            raise _problem(response, bytes(body))
        return bytes(body)

    def _get(self, kind: type[T], address: str, *, absent: T | None = None, **params: Any) -> T:
        """Return a validated answer, or `absent` for 404, if it is given."""
        try:
            return read(kind, self.request("GET", address, params=params), address)
        except ServiceError as error:
            if error.status != _NOT_FOUND or absent is None:
                raise
            return absent

    def _send(self, kind: type[T], method: str, address: str, **fields: Any) -> T:
        return read(kind, self.request(method, address, json=fields), address)

    def _list(self, kind: type[T], address: str, *, key: str = "", **params: Any) -> list[T]:
        entries: list[T] = []
        for page in range(1, PAGES + 1):
            query = {**params, "per_page": _PAGE, "page": page}
            answer = self._get(_Table if key else list[Any], address, **query)
            entries += read(list[kind], answer[key] if key else answer, address)  # type: ignore[valid-type]
            if len(entries) < page * _PAGE:
                return entries
        raise ServiceError(f"{address}: expected at most {PAGES} pages, found more")


def _quote(text: str) -> str:
    return quote(text, safe="")


def _delay(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome is not None else None
    delay = error.delay if isinstance(error, _TemporaryError) else None
    return wait_random_exponential(multiplier=1, max=30)(state) if delay is None else delay


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
        sentence += f"; it asks to wait {delay:.0f} s"
        return _TemporaryError(sentence, status, delay)
    if status >= 500 or status == 408:
        return _TemporaryError(sentence, status)
    return ServiceError(f"{sentence}; {_ADVICE.get(status, 'expected success')}", status)
