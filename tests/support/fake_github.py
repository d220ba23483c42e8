"""The part of GitHub's REST API that duetbench uses: stateful, on a real socket, with faults."""

from __future__ import annotations

import io
import json
import logging
import re
import socket
import threading
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from werkzeug import Request, Response
from werkzeug.exceptions import HTTPException
from werkzeug.routing import Map, Rule

from tiny_index import Server

BOT = "github-actions[bot]"
BODY_LIMIT = 65_536
Table = dict[str, Any]
T = TypeVar("T")
GUARDED: Table = {"protection_rules": [{"type": "required_reviewers"}]}

_ROUTES = """
get <path:address> setting
get pulls/<int:number> pull
get pulls pulls
get compare/<path:span> compare
get collaborators/<login>/permission permission
get issues issues
post issues issue
patch issues/<int:number> issue
get issues/<int:number>/comments comments
post issues/<int:number>/comments comment
patch issues/comments/<int:number> comment
delete issues/comments/<int:number> comment
get environments/<place> environment
post actions/workflows/<file>/dispatches dispatch
get actions/runs/<int:number>/artifacts artifacts
get actions/artifacts/<int:number>/zip archive
"""
_URLS = Map(
    Rule(f"/{path}", endpoint=f"_{method}_{name}", methods=[method])
    for method, path, name in map(str.split, _ROUTES.strip().splitlines())
)


@dataclass
class Fault:
    """A fault of the next requests that match."""

    method: str = ".*"  # regular expression for the whole method
    path: str = ""  # regular expression that is searched for in the path
    times: int = 1  # how many requests it hits; -1: all
    status: int = 0  # answer with this status instead, these headers, and this body as JSON
    headers: dict[str, str] = field(default_factory=dict)
    body: Table = field(default_factory=lambda: {"message": "Something went wrong"})
    cut: bool = False  # close the connection instead of answering
    after: bool = False  # perform the request first: only the answer is lost

    def hits(self, request: Request) -> bool:
        return (
            self.times != 0
            and re.fullmatch(self.method, request.method) is not None
            and re.search(self.path, request.path) is not None
        )


@dataclass
class State:
    """The content of a `FakeGitHub`."""

    repository: str = "owner/name"  # the only one
    # Login → admin, write, read or none; nobody else is known.
    permissions: dict[str, str] = field(default_factory=dict)
    # Branch → merge base of every head. The merge base of another branch is the base of its pull
    # request; that of a commit is the commit.
    merge_bases: dict[str, str] = field(default_factory=dict)
    pulls: dict[int, Table] = field(default_factory=dict)
    issues: list[Table] = field(default_factory=list)
    comments: list[Table] = field(default_factory=list)
    dispatches: list[Table] = field(default_factory=list)
    environments: dict[str, Table] = field(default_factory=lambda: {"bench": GUARDED})
    settings: dict[str, Table] = field(default_factory=dict)  # by address; "repository": itself
    uploads: str = ""  # folder of artifacts, `<run>/<name>/`, besides those of `leave`
    requests: list[str] = field(default_factory=list)  # method and path of each


def _json(body: Any, status: int, headers: Mapping[str, str] | None = None) -> Response:
    text = "" if body is None else json.dumps(body)
    return Response(text, status, headers, content_type="application/json; charset=utf-8")


def _refusal(status: int, message: str, *errors: Table, **headers: str) -> HTTPException:
    body = {"message": message, "errors": list(errors)}
    return HTTPException(response=_json(body, status, headers))


def _present(value: T | None) -> T:
    if value is None:
        raise _refusal(404, "Not Found")
    return value


def _invalid(resource: str, name: str, message: str) -> HTTPException:
    error = {"resource": resource, "field": name, "message": message}
    return _refusal(422, "Validation Failed", error)


class FakeGitHub:
    """The server; `state` may be read and changed between requests."""

    def __init__(self, state: State | None = None) -> None:
        self._lock = threading.RLock()
        self._server = Server(host="127.0.0.1", threaded=True)
        self._server.expect_request(re.compile("")).respond_with_handler(self._answer)
        # Quiet, as tests compare the output of verbs; `requests` has the log.
        logging.getLogger("werkzeug").setLevel(logging.WARNING)
        self.reset(state)

    def __enter__(self) -> FakeGitHub:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop()

    def reset(self, state: State | None = None) -> None:
        with self._lock:
            self.state = state or State()
            self.faults: list[Fault] = []
            self.artifacts: list[Table] = []
            self.tokens_elsewhere: list[str | None] = []  # tokens that the host of archives got
            self._next = 1000

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.port}"

    def fail(self, **what: Any) -> None:
        self.faults.append(Fault(**what))

    def add_pull(self, number: int, head: str, base: str, **more: Any) -> Table:
        """Open a pull request; a second call with the same number moves its head."""
        ends = {"head": {"sha": head, "ref": "feature"}, "base": {"sha": base, "ref": "main"}}
        pull = {"number": number, "state": "open", "title": "A title", **ends, **more}
        self.state.pulls[number] = pull
        return pull

    def say(self, number: int, login: str, body: str) -> Table:
        kind = "Bot" if login.endswith("[bot]") else "User"
        comment = {
            "id": self._new(),
            "issue": number,
            "body": body,
            "user": {"login": login, "type": kind},
            "html_url": f"https://github.example/{number}#comment",
        }
        self.state.comments.append(comment)
        return comment

    def comment_event(self, number: int, login: str, body: str, title: str = "A title") -> Table:
        """Add a comment to a pull request; return the event that a workflow gets."""
        comment = self.say(number, login, body)
        return {
            "action": "created",
            "comment": comment,
            "sender": comment["user"],
            "issue": {"number": number, "title": title, "pull_request": {"url": "x"}},
            "repository": {"full_name": self.state.repository, "default_branch": "main"},
        }

    def leave(self, run: int, name: str, data: bytes, **more: Any) -> Table:
        artifact = {
            "id": self._new(),
            "run": run,
            "name": name,
            "size_in_bytes": len(data),
            "expired": False,
            "data": data,
            **more,
        }
        self.artifacts.append(artifact)
        return artifact

    def comments_of(self, number: int) -> list[Table]:
        """The comments on an issue or pull request, oldest first."""
        return [comment for comment in self.state.comments if comment["issue"] == number]

    # Routes: each returns its resource as JSON.

    def _get_pull(self, _: Request, number: int) -> Any:
        return _present(self.state.pulls.get(number))

    def _get_pulls(self, request: Request) -> Any:
        owner, _, branch = request.args.get("head", "").partition(":")
        return [
            pull
            for pull in reversed(self.state.pulls.values())
            if request.args.get("state", "open") in {"all", pull["state"]}
            and owner == pull["head"].get("owner", self.state.repository.partition("/")[0])
            and branch == pull["head"]["ref"]
        ]

    def _get_compare(self, _: Request, span: str) -> Any:
        base = span.partition("...")[0]
        entries = {pull["base"]["ref"]: pull["base"]["sha"] for pull in self.state.pulls.values()}
        entries |= self.state.merge_bases
        left = base if re.fullmatch("[0-9a-f]{40}", base) else entries.get(base)
        return {"merge_base_commit": {"sha": _present(left)}, "files": []}

    def _get_permission(self, _: Request, login: str) -> Any:
        permission = _present(self.state.permissions.get(login))
        return {"permission": permission, "role_name": permission, "user": {"login": login}}

    def _get_issues(self, request: Request) -> Any:
        wanted, creator = request.args.get("state", "open"), request.args.get("creator")
        return [
            issue
            for issue in reversed(self.state.issues)
            if wanted in {"all", issue["state"]} and creator in {None, issue["user"]["login"]}
        ]

    def _post_issue(self, request: Request) -> Any:
        values = self._body(request, "title")
        if len(values["title"]) > 256:
            raise _invalid("Issue", "title", "title is too long (maximum is 256 characters)")
        issue = {
            "number": self._new(),
            "title": values["title"],
            "body": values.get("body"),
            "labels": [{"name": name} for name in values.get("labels", [])],
            "state": "open",
            "state_reason": None,
            "user": {"login": BOT, "type": "Bot"},
        }
        issue["html_url"] = f"https://github.example/issues/{issue['number']}"
        self.state.issues.append(issue)
        return issue

    def _patch_issue(self, request: Request, number: int) -> Any:
        return self._edit(request, self._entry(self.state.issues, number, "number"))

    def _get_comments(self, _: Request, number: int) -> Any:
        return self.comments_of(number)

    def _post_comment(self, request: Request, number: int) -> Any:
        return self.say(number, BOT, self._body(request, "body")["body"])

    def _patch_comment(self, request: Request, number: int) -> Any:
        return self._edit(request, self._entry(self.state.comments, number), "body")

    def _delete_comment(self, _: Request, number: int) -> Any:
        self.state.comments.remove(self._entry(self.state.comments, number))

    def _get_setting(self, _: Request, address: str) -> Any:
        return _present(self.state.settings.get(address))

    def _get_environment(self, _: Request, place: str) -> Any:
        return _present(self.state.environments.get(place))

    def _post_dispatch(self, request: Request, file: str) -> Any:
        self.state.dispatches.append({"workflow": file, **self._body(request, "ref")})

    def _get_artifacts(self, _: Request, number: int) -> Any:
        for place in sorted(Path(self.state.uploads).glob(f"{number}/*")):
            entries = any(
                artifact["run"] == number and artifact["name"] == place.name
                for artifact in self.artifacts
            )
            if self.state.uploads and not entries and place.suffix != ".partial":
                packed = io.BytesIO()
                with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
                    for file in filter(Path.is_file, sorted(place.rglob("*"))):
                        archive.write(file, file.relative_to(place))
                self.leave(number, place.name, packed.getvalue())
        result = [
            {**artifact, "data": None} for artifact in self.artifacts if artifact["run"] == number
        ]
        return {"total_count": len(result), "artifacts": result}

    def _get_archive(self, _: Request, number: int) -> Any:
        self._entry(self.artifacts, number)
        # Another name of this host, which must not get the token.
        elsewhere = self.url.replace("127.0.0.1", "localhost")
        raise _refusal(302, "Found", location=f"{elsewhere}/_archive/{number}")

    # Answers.

    def _answer(self, request: Request) -> Response:
        with self._lock:
            if request.path.startswith("/_archive/"):
                self.tokens_elsewhere.append(request.headers.get("Authorization"))
                number = int(request.path.rpartition("/")[2])
                data = self._entry(self.artifacts, number)["data"]
                return Response(data, 200, content_type="application/zip")
            self.state.requests.append(f"{request.method} {request.path}")
            fault = next((fault for fault in self.faults if fault.hits(request)), None)
            if fault is not None:
                fault.times -= fault.times > 0
            if fault is None or fault.after:
                response = self._regular(request)
        if fault is None:
            return response
        if fault.cut:
            with suppress(OSError):
                request.environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
        if fault.status:
            return _json(fault.body, fault.status, fault.headers)
        return response if fault.after else self._regular(request)

    def _regular(self, request: Request) -> Response:
        if not request.headers.get("Authorization", "").startswith("Bearer "):
            return _json({"message": "Bad credentials"}, 401)
        try:
            path = request.path.removeprefix(f"/repos/{self.state.repository}") or "/repository"
            name, arguments = _URLS.bind("").match(path, request.method)
            with self._lock:
                result = getattr(self, name)(request, **arguments)
        except HTTPException as refusal:
            if isinstance(refusal.response, Response):
                return refusal.response
            return _json({"message": refusal.name}, refusal.code or 500)
        if request.method == "GET":
            return self._paged(request, result)
        return _json(result, 204 if result is None else 201 if request.method == "POST" else 200)

    def _paged(self, request: Request, answer: Any) -> Response:
        size = min(int(request.args.get("per_page", 30)), 100)
        start = (int(request.args.get("page", 1)) - 1) * size
        if isinstance(answer, list):
            answer = answer[start : start + size]
        elif "artifacts" in answer:
            answer = {**answer, "artifacts": answer["artifacts"][start : start + size]}
        return _json(answer, 200)

    def _body(self, request: Request, *required: str) -> Table:
        values: Table = json.loads(request.get_data() or b"{}")
        for key in required:
            if not values.get(key):
                raise _invalid("Something", key, f"{key} can't be blank")
        if len(values.get("body") or "") > BODY_LIMIT:
            raise _invalid("IssueComment", "body", "body is too long (maximum is 65536 characters)")
        return values

    def _edit(self, request: Request, entry: Table, *required: str) -> Table:
        values = self._body(request, *required)
        keys = {"title", "body", "state", "state_reason"} & values.keys()
        entry |= {key: values[key] for key in keys}
        return entry

    def _entry(self, entries: list[Table], number: int, key: str = "id") -> Table:
        return _present(next((entry for entry in entries if entry[key] == number), None))

    def _new(self) -> int:
        with self._lock:
            self._next += 1
            return self._next
