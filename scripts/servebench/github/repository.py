"""The calls that servebench makes, one method each: all of them about one repository."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote

from servebench.errors import ServiceError
from servebench.github.answers import (
    Artifact,
    Comment,
    Content,
    Entry,
    Issue,
    Job,
    Pull,
    Reaction,
    Sha,
    StatusState,
    Tip,
    WorkflowRun,
    read,
)
from servebench.github.client import Client

_GONE: Final = 404


class Repository:
    """A repository on GitHub. All methods raise `ServiceError` when GitHub refuses.

    Args:
        client: Who asks.
        name: `owner/name`.
    """

    def __init__(self, client: Client, name: str) -> None:
        self.client, self._base = client, f"/repos/{name}"

    @property
    def now(self) -> datetime:
        """GitHub's time as of its last answer."""
        return self.client.now

    def pull(self, number: int) -> Pull:
        """A pull request as it is now."""
        path = f"{self._base}/pulls/{number}"
        return read(Pull, self.client.json("GET", path), path)

    def open_pulls(self, branch: str) -> list[Pull]:
        """The open pull requests of a branch of this repository, newest first."""
        path = f"{self._base}/pulls"
        owner = self._base.split("/")[2]
        params = {"state": "open", "head": f"{owner}:{branch}"}
        return [read(Pull, one, path) for one in self.client.pages(path, params=params)]

    def open_pull(self, title: str, body: str, branch: str, base: str) -> Pull:
        """Open a pull request from a branch of this repository.

        Raises:
            UncertainError: Nobody knows whether it is there now.
        """
        path = f"{self._base}/pulls"
        given = {"title": title, "body": body, "head": branch, "base": base}
        return read(Pull, self.client.json("POST", path, json=given), path)

    def edit_pull(self, number: int, changes: Mapping[str, Any]) -> Pull:
        """Change a pull request's title or body."""
        path = f"{self._base}/pulls/{number}"
        return read(Pull, self.client.json("PATCH", path, json=changes), path)

    def permission(self, login: str) -> str:
        """What somebody may do: admin, write (maintainers too), read or none."""
        path = f"{self._base}/collaborators/{quote(login, safe='')}/permission"
        try:
            found = self.client.json("GET", path)
        except ServiceError as error:
            if error.status == _GONE:
                return "none"
            raise
        permission = found.get("permission") if isinstance(found, dict) else None
        if not isinstance(permission, str):
            raise ServiceError(f"{path}: expected a permission, found {type(found).__name__}")
        return permission

    def merge_base(self, branch: str, head: Sha) -> Sha:
        """Where a head left a branch, as that branch is now."""
        path = f"{self._base}/compare/{quote(branch, safe='')}...{head}"
        found = self.client.json("GET", path, params={"per_page": 1})
        inner = found.get("merge_base_commit") if isinstance(found, dict) else None
        return read(Tip, inner, path).sha

    def comments(self, number: int) -> list[Comment]:
        """All comments on a pull request or issue, oldest first."""
        path = f"{self._base}/issues/{number}/comments"
        return [read(Comment, found, path) for found in self.client.pages(path)]

    def add_comment(self, number: int, body: str) -> Comment:
        """Comment.

        Raises:
            UncertainError: Nobody knows whether it is there now.
        """
        path = f"{self._base}/issues/{number}/comments"
        return read(Comment, self.client.json("POST", path, json={"body": body}), path)

    def edit_comment(self, comment: int, body: str) -> Comment:
        """Replace a comment's text."""
        path = f"{self._base}/issues/comments/{comment}"
        return read(Comment, self.client.json("PATCH", path, json={"body": body}), path)

    def delete_comment(self, comment: int) -> None:
        """Remove a comment; one that is gone already is fine."""
        try:
            self.client.request("DELETE", f"{self._base}/issues/comments/{comment}")
        except ServiceError as error:
            if error.status != _GONE:
                raise

    def react(self, comment: int, content: Reaction) -> None:
        """React to a comment. It is a courtesy: that it is not possible is no error."""
        path = f"{self._base}/issues/comments/{comment}/reactions"
        with suppress(ServiceError):
            self.client.request("POST", path, json={"content": content}, repeatable=True)

    def set_status(
        self, sha: Sha, state: StatusState, description: str, url: str, context: str
    ) -> None:
        """Set a commit's status; the last one of a context counts."""
        path = f"{self._base}/statuses/{sha}"
        body = {
            "state": state,
            "description": description,
            "target_url": url,
            "context": context,
        }
        self.client.request("POST", path, json=body, repeatable=True)

    def issues(self, creator: str) -> list[Issue]:
        """All issues that an account has opened, open and closed, newest first."""
        path = f"{self._base}/issues"
        params = {"state": "all", "creator": creator}
        found = [read(Issue, one, path) for one in self.client.pages(path, params=params)]
        return [
            issue
            for issue in found
            if issue.pull_request is None and issue.user is not None and issue.user.login == creator
        ]

    def open_issue(self, title: str, body: str, labels: tuple[str, ...]) -> Issue:
        """Open an issue; labels that are not there are made.

        Raises:
            UncertainError: Nobody knows whether it is there now.
        """
        path = f"{self._base}/issues"
        given = {"title": title, "body": body, "labels": list(labels)}
        return read(Issue, self.client.json("POST", path, json=given), path)

    def edit_issue(self, number: int, changes: Mapping[str, Any]) -> Issue:
        """Change an issue's title, body, state or state_reason."""
        path = f"{self._base}/issues/{number}"
        return read(Issue, self.client.json("PATCH", path, json=changes), path)

    def workflow_state(self, file: str) -> str:
        """`active`, or why a workflow does not run; `missing`: there is none."""
        path = f"{self._base}/actions/workflows/{quote(file, safe='')}"
        try:
            found = self.client.json("GET", path)
        except ServiceError as error:
            if error.status == _GONE:
                return "missing"
            raise
        return str(found.get("state", "")) if isinstance(found, dict) else ""

    def has_reviewers(self, environment: str) -> bool:
        """Whether somebody has to approve before a job in an environment starts.

        One that is not there has nobody: GitHub makes it, open to all, when a job first names it.
        """
        path = f"{self._base}/environments/{quote(environment, safe='')}"
        try:
            found = self.client.json("GET", path)
        except ServiceError as error:
            if error.status == _GONE:
                return False
            raise
        rules = found.get("protection_rules") if isinstance(found, dict) else None
        return isinstance(rules, list) and any(
            isinstance(rule, dict) and rule.get("type") == "required_reviewers" for rule in rules
        )

    def listing(self, folder: str, branch: str) -> list[str]:
        """Names of the files in a folder of a branch; none where there is no such folder."""
        path = f"{self._base}/contents/{quote(folder)}"
        try:
            found = self.client.json("GET", path, params={"ref": branch})
        except ServiceError as error:
            if error.status == _GONE:
                return []
            raise
        if not isinstance(found, list):
            raise ServiceError(f"{path}: expected a folder, found {type(found).__name__}")
        return [read(Entry, entry, path).name for entry in found]

    def content(self, file: str, branch: str) -> bytes:
        """A file of a branch, up to 1 MB."""
        path = f"{self._base}/contents/{quote(file)}"
        found = read(Content, self.client.json("GET", path, params={"ref": branch}), path)
        return base64.b64decode(found.content)

    def runs(self, file: str, **filters: str | int) -> list[WorkflowRun]:
        """The newest runs of a workflow, at most 100."""
        path = f"{self._base}/actions/workflows/{quote(file, safe='')}/runs"
        found = self.client.json("GET", path, params={"per_page": 100, **filters})
        listed = found.get("workflow_runs") if isinstance(found, dict) else None
        if not isinstance(listed, list):
            raise ServiceError(f"{path}: expected runs, found {type(found).__name__}")
        return [read(WorkflowRun, run, path) for run in listed]

    def jobs(self, run: int) -> list[Job]:
        """The jobs of a run's last attempt."""
        path = f"{self._base}/actions/runs/{run}/jobs"
        params = {"filter": "latest"}
        return [
            read(Job, job, path) for job in self.client.pages(path, key="jobs", params=params)
        ]  # fmt: skip

    def artifacts(self, run: int) -> list[Artifact]:
        """What the jobs of a run have left, of each name the newest."""
        path = f"{self._base}/actions/runs/{run}/artifacts"
        found = [read(Artifact, one, path) for one in self.client.pages(path, key="artifacts")]
        newest = {one.name: one for one in sorted(found, key=lambda one: one.id)}
        return [newest[name] for name in sorted(newest)]

    def archive(self, artifact: int, most: int) -> bytes:
        """An artifact as the zip archive that GitHub keeps; of a larger one `most` bytes and one.

        Args:
            artifact: Its id.
            most: Bytes.
        """
        return self.client.download(f"{self._base}/actions/artifacts/{artifact}/zip", most)

    def dispatch(self, file: str, ref: str, inputs: Mapping[str, str]) -> None:
        """Start a workflow. Twice does no harm: the newer run takes the older one's place."""
        path = f"{self._base}/actions/workflows/{quote(file, safe='')}/dispatches"
        body = {"ref": ref, "inputs": dict(inputs)}
        self.client.request("POST", path, json=body, repeatable=True)

    def cancel(self, run: int) -> None:
        """Stop a run; one that has ended in the meantime is fine."""
        try:
            self.client.request("POST", f"{self._base}/actions/runs/{run}/cancel", repeatable=True)
        except ServiceError as error:
            if error.status != 409:
                raise
