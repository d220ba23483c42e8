"""What GitHub answers, as types: the keys that are used, checked; all others are ignored."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from servebench.errors import ServiceError

Sha = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
StatusState = Literal["error", "failure", "pending", "success"]
Reaction = Literal["+1", "-1", "confused", "eyes", "rocket"]


class Answer(BaseModel):
    """Base of all answers."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class User(Answer):
    """Who did something."""

    login: str
    type: str = "User"


class Comment(Answer):
    """A comment on an issue or a pull request."""

    id: int
    body: str | None = None
    user: User | None = None
    html_url: str = ""

    def is_by(self, login: str) -> bool:
        """Whether this account wrote it."""
        return self.user is not None and self.user.login == login


class Tip(Answer):
    """One end of a pull request."""

    sha: Sha


class Base(Answer):
    """The branch that a pull request is for.

    Its `sha` is not read: GitHub keeps an older one there, which is no merge base either.
    """

    ref: str = Field(min_length=1)


class Pull(Answer):
    """A pull request."""

    number: int
    state: str
    head: Tip
    base: Base
    html_url: str = ""


class Issue(Answer):
    """An issue; pull requests are listed among them, and have `pull_request`."""

    number: int
    title: str = ""
    body: str | None = None
    state: str
    user: User | None = None
    pull_request: dict[str, Any] | None = None
    html_url: str = ""


class WorkflowRun(Answer):
    """A run of a workflow.

    `status` is `completed` when it has ended; only then there is a `conclusion`.
    """

    id: int
    status: str | None = None
    conclusion: str | None = None
    event: str = ""
    display_title: str = Field(default="", description="As `run-name` in the workflow says.")
    head_branch: str | None = None
    run_attempt: int = 1
    created_at: AwareDatetime
    html_url: str = ""


class Job(Answer):
    """A job of a run. `queued` jobs wait for a runner, `waiting` ones for an approval."""

    id: int
    name: str = ""
    status: str
    labels: tuple[str, ...] = ()
    created_at: AwareDatetime | None = None


class Artifact(Answer):
    """What a job of a run has left; later ones have larger ids."""

    id: int
    name: str
    size_in_bytes: int
    expired: bool = False
    digest: str | None = None


class Entry(Answer):
    """A file or folder in a folder."""

    name: str


class Content(Answer):
    """A file's contents, in base 64."""

    content: str


Kind = TypeVar("Kind", bound=Answer)


def read(kind: type[Kind], found: Any, asked: str) -> Kind:
    """Check an answer.

    Raises:
        ServiceError: It is not what it should be: says what was asked for, and what is wrong.
    """
    try:
        return kind.model_validate(found)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        raise ServiceError(
            f"{asked}: expected {kind.__name__} with {key or 'its keys'}, found: {first['msg']}"
        ) from error
