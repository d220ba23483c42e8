"""The calls that duetbench makes about one repository, and their answers as types.

Of an answer the keys that are used are checked, and all others are ignored.
"""

import base64
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any, Final, Literal, TypeVar
from urllib.parse import quote

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
)  # fmt: skip

from duetbench.core.errors import ServiceError
from duetbench.github.client import Client

Sha = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
StatusState = Literal["error", "failure", "pending", "success"]
Reaction = Literal["+1", "-1", "confused", "eyes", "rocket"]
_GONE: Final = 404


class Payload(BaseModel):
    """Base of all answers."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class User(Payload):
    """Who did something."""

    login: str
    type: str = "User"


class _Written(Payload):
    body: str | None = None
    user: User | None = None
    html_url: str = ""

    def is_by(self, login: str) -> bool:
        return self.user is not None and self.user.login == login


class Comment(_Written):
    """A comment on an issue or a pull request."""

    id: int


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
    html_url: str = ""


class Issue(_Written):
    """An issue; pull requests are listed among them, and have `pull_request`."""

    number: int
    state: str
    pull_request: dict[str, Any] | None = None


class WorkflowRun(Payload):
    """A run of a workflow.

    `status` is `completed` when it has ended; only then there is a `conclusion`.
    """

    id: int
    status: str | None = None
    conclusion: str | None = None
    display_title: str = Field(default="", description="As `run-name` in the workflow says.")
    run_attempt: int = 1
    created_at: AwareDatetime
    html_url: str = ""


class Job(Payload):
    """A job of a run. `queued` jobs wait for a runner, `waiting` ones for an approval."""

    id: int
    name: str = ""
    status: str
    labels: tuple[str, ...] = ()
    created_at: AwareDatetime | None = None


class Artifact(Payload):
    """What a job of a run has left; later ones have larger ids."""

    id: int
    name: str
    size_in_bytes: int
    expired: bool = False
    digest: str | None = None


class _Rule(Payload):
    type: str


class _Entry(Payload):
    name: str


T = TypeVar("T")


def read(kind: type[T], found: Any, asked: str) -> T:
    """Check an answer; raises ServiceError."""
    try:
        return TypeAdapter(kind).validate_python(found)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        raise ServiceError(
            f"{asked}: expected {kind.__name__} with {key or 'its keys'}, found: {first['msg']}"
        ) from error


class Repository:
    """A repository on GitHub. All methods raise `ServiceError` when GitHub refuses."""

    def __init__(self, client: Client, name: str) -> None:
        self.client, self._base = client, f"/repos/{name}"

    def pull(self, number: int) -> Pull:
        return self._one(Pull, "GET", f"/pulls/{number}")

    def open_pulls(self, branch: str, owner: str = "") -> list[Pull]:
        """The open pull requests of a branch, which is this repository's or a fork's `owner`."""
        owner = owner or self._base.split("/")[2]
        return self._all(Pull, "/pulls", params={"state": "open", "head": f"{owner}:{branch}"})

    def open_pull(self, title: str, body: str, branch: str, base: str) -> Pull:
        given = {"title": title, "body": body, "head": branch, "base": base}
        return self._one(Pull, "POST", "/pulls", json=given)

    def edit_pull(self, number: int, changes: Mapping[str, Any]) -> Pull:
        return self._one(Pull, "PATCH", f"/pulls/{number}", json=changes)

    def permission(self, login: str) -> str:
        """What somebody may do: admin, write (maintainers too), read or none."""
        path = f"/collaborators/{quote(login, safe='')}/permission"
        return self._part(str, "permission", path, absent="none")

    def merge_base(self, branch: str, head: Sha) -> Sha:
        path = f"/compare/{quote(branch, safe='')}...{head}"
        return self._part(Tip, "merge_base_commit", path, params={"per_page": 1}).sha

    def comments(self, number: int) -> list[Comment]:
        return self._all(Comment, f"/issues/{number}/comments")

    def add_comment(self, number: int, body: str) -> Comment:
        return self._one(Comment, "POST", f"/issues/{number}/comments", json={"body": body})

    def edit_comment(self, comment: int, body: str) -> Comment:
        return self._one(Comment, "PATCH", f"/issues/comments/{comment}", json={"body": body})

    def delete_comment(self, comment: int) -> None:
        """Remove a comment; one that is gone already is fine."""
        self._unless(_GONE, "DELETE", f"/issues/comments/{comment}")

    def react(self, comment: int, content: Reaction) -> None:
        """React to a comment. It is a courtesy: that it is not possible is no error."""
        path = f"{self._base}/issues/comments/{comment}/reactions"
        with suppress(ServiceError):
            self.client.request("POST", path, json={"content": content})

    def set_status(
        self, sha: Sha, state: StatusState, description: str, url: str, context: str
    ) -> None:
        """Set a commit's status; the last one of a context counts."""
        body = {"state": state, "description": description, "target_url": url, "context": context}
        self.client.request("POST", f"{self._base}/statuses/{sha}", json=body)

    def issues(self, creator: str) -> list[Issue]:
        """All issues that an account has opened, open and closed, newest first."""
        found = self._all(Issue, "/issues", params={"state": "all", "creator": creator})
        return [one for one in found if one.pull_request is None and one.is_by(creator)]

    def open_issue(self, title: str, body: str, labels: tuple[str, ...]) -> Issue:
        given = {"title": title, "body": body, "labels": list(labels)}
        return self._one(Issue, "POST", "/issues", json=given)

    def edit_issue(self, number: int, changes: Mapping[str, Any]) -> Issue:
        return self._one(Issue, "PATCH", f"/issues/{number}", json=changes)

    def workflow_state(self, file: str) -> str:
        """`active`, or why a workflow does not run; `missing`: there is none."""
        path = f"/actions/workflows/{quote(file, safe='')}"
        return self._part(str, "state", path, absent="missing")

    def has_reviewers(self, environment: str) -> bool:
        """Whether somebody has to approve before a job in an environment starts.

        One that is not there has nobody: GitHub makes it, open to all, when a job first names it.
        """
        path = f"/environments/{quote(environment, safe='')}"
        rules = self._part(list[_Rule], "protection_rules", path, absent=[])
        return any(rule.type == "required_reviewers" for rule in rules)

    def listing(self, folder: str, branch: str) -> list[str]:
        """Names of the files in a folder of a branch; none where there is no such folder."""
        try:
            found = self._all(_Entry, f"/contents/{quote(folder)}", params={"ref": branch})
        except ServiceError as error:
            if error.status == _GONE:
                return []
            raise
        return [entry.name for entry in found]

    def content(self, file: str, branch: str) -> bytes:
        """A file of a branch, up to 1 MB."""
        path = f"/contents/{quote(file)}"
        return base64.b64decode(self._part(str, "content", path, params={"ref": branch}))

    def runs(self, file: str, **filters: str | int) -> list[WorkflowRun]:
        """The newest runs of a workflow, at most 100."""
        path = f"/actions/workflows/{quote(file, safe='')}/runs"
        params = {"per_page": 100, **filters}
        return self._part(list[WorkflowRun], "workflow_runs", path, params=params)

    def jobs(self, run: int) -> list[Job]:
        path = f"/actions/runs/{run}/jobs"
        return self._all(Job, path, key="jobs", params={"filter": "latest"})

    def artifacts(self, run: int) -> list[Artifact]:
        """What the jobs of a run have left, of each name the newest."""
        found = self._all(Artifact, f"/actions/runs/{run}/artifacts", key="artifacts")
        newest = {one.name: one for one in sorted(found, key=lambda one: one.id)}
        return [newest[name] for name in sorted(newest)]

    def archive(self, artifact: int, most: int) -> bytes:
        path = f"{self._base}/actions/artifacts/{artifact}/zip"
        return self.client.request("GET", path, most=most)[0]

    def dispatch(self, file: str, ref: str, inputs: Mapping[str, str]) -> None:
        """Start a workflow. Twice does no harm: the newer run takes the older one's place."""
        path = f"{self._base}/actions/workflows/{quote(file, safe='')}/dispatches"
        self.client.request("POST", path, json={"ref": ref, "inputs": dict(inputs)})

    def cancel(self, run: int) -> None:
        """Stop a run; one that has ended in the meantime is fine."""
        self._unless(409, "POST", f"/actions/runs/{run}/cancel")

    def _one(self, kind: type[T], method: str, path: str, **more: Any) -> T:
        path = f"{self._base}{path}"
        return read(kind, self.client.json(method, path, **more), path)

    def _part(
        self, kind: type[T], key: str, path: str, *, absent: T | None = None, **more: Any
    ) -> T:
        """What an answer has under a key; without it, or if nothing is there, what is `absent`."""
        try:
            found = self._one(dict[str, Any], "GET", path, **more)
        except ServiceError as error:
            if error.status != _GONE or absent is None:
                raise
            found = {}
        return read(kind, found.get(key, absent), f"{self._base}{path}: {key}")

    def _all(self, kind: type[T], path: str, **more: Any) -> list[T]:
        path = f"{self._base}{path}"
        return [read(kind, one, path) for one in self.client.pages(path, **more)]

    def _unless(self, status: int, method: str, path: str) -> None:
        """Ask for what may have happened already, which that status says."""
        try:
            self.client.request(method, f"{self._base}{path}")
        except ServiceError as error:
            if error.status != status:
                raise
