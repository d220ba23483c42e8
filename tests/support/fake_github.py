"""The part of GitHub's REST API that duetbench uses, and a step of a workflow that uses it.

It is stateful, on a real socket, with faults.
"""

from __future__ import annotations

import io
import json
import logging
import os
import re
import socket
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from werkzeug import Request, Response

from bench import Done, Shell
from duetbench.ci import api
from duetbench.ci.api import GitHub
from duetbench.cli.verbs import CI
from tiny_index import Server

BOT = "github-actions[bot]"
Table = dict[str, Any]
GUARDED: Table = {"protection_rules": [{"type": "required_reviewers"}]}


@dataclass
class Fault:
    """A fault of the next requests that match."""

    method: str = ".*"  # regular expression for the whole method
    path: str = ""  # regular expression that is searched for in the path
    times: int = 1  # how many requests it hits; -1: all
    status: int = 0  # answer with this status instead, these headers, and this body
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = "Something went wrong"  # a text, or a value as JSON
    cut: bool = False  # close the connection instead of answering
    after: bool = False  # perform the request first: only the answer is lost

    def hits(self, request: Request) -> bool:
        return (
            self.times != 0
            and re.fullmatch(self.method, request.method) is not None
            and re.search(self.path, request.path) is not None
        )


def zipped(contents: Mapping[str, bytes]) -> bytes:
    """Pack files, by their names, as GitHub packs an artifact."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return packed.getvalue()


def run_of_pull(number: int, head: str, owner: str = "owner") -> Table:
    """A run for a pull request, as the event says that starts when it has ended."""
    return {
        "id": number,
        "workflow_id": 3,
        "event": "pull_request",
        "head_sha": head,
        "head_branch": "feature",
        "head_repository": {"owner": {"login": owner}},
    }


def _response(body: Any, status: int, headers: dict[str, str] | None = None) -> Response:
    text = body if isinstance(body, str) else json.dumps(body)
    return Response(text, status, headers, content_type="application/json; charset=utf-8")


class FakeGitHub:
    """The server; what it has may be read and changed between requests."""

    def __init__(self) -> None:
        self._server = Server(host="127.0.0.1", threaded=True)
        self._server.expect_request(re.compile("")).respond_with_handler(self._answer)
        # Quiet, as tests compare the output of verbs; `requests` has the log.
        logging.getLogger("werkzeug").setLevel(logging.WARNING)
        self.reset()

    def __enter__(self) -> FakeGitHub:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop()

    def reset(self, repository: str = "owner/name", uploads: Path | None = None) -> None:
        """Empty it, for one repository; artifacts may be in a folder, `<run>/<name>/`."""
        self.repository = repository
        self.uploads = uploads
        self.requests: list[str] = []  # method and path of each
        # What GET answers at paths of the repository; "" is the repository itself.
        self.resources: dict[str, Any] = {"environments/bench": GUARDED}
        # Branch → merge base of every head; otherwise the base of the branch's pull request. The
        # merge base of a commit is the commit.
        self.merge_bases: dict[str, str] = {}
        self.comments: list[Table] = []
        self.dispatches: list[Table] = []
        self.artifacts: list[Table] = []
        self.tokens_elsewhere: list[str | None] = []  # tokens that the host of archives got
        self._faults: list[Fault] = []
        self._ids = count(1000)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.port}"

    def fail(self, **what: Any) -> None:
        self._faults.append(Fault(**what))

    def permit(self, login: str, permission: str) -> None:
        """Give an account admin, write or read; nobody else is known."""
        self.resources[f"collaborators/{login}/permission"] = {"permission": permission}

    def add_pull(self, number: int, head: str, base: str) -> Table:
        """Open a pull request; a second call with the same number moves its head."""
        ends = {"head": {"sha": head, "ref": "feature"}, "base": {"sha": base, "ref": "main"}}
        pull = {"number": number, "state": "open", "title": "A title", **ends}
        self.resources[f"pulls/{number}"] = pull
        return pull

    def say(self, number: int, login: str, body: str) -> Table:
        kind = "Bot" if login.endswith("[bot]") else "User"
        comment = {
            "id": next(self._ids),
            "issue": number,
            "body": body,
            "user": {"login": login, "type": kind},
            "html_url": f"https://github.example/{number}#comment",
        }
        self.comments.append(comment)
        return comment

    def comment_event(self, number: int, login: str, body: str) -> Table:
        """Add a comment to a pull request; return the event that a workflow gets."""
        comment = self.say(number, login, body)
        return {
            "action": "created",
            "comment": comment,
            "sender": comment["user"],
            "issue": {"number": number, "title": "A title", "pull_request": {"url": "x"}},
            "repository": {"full_name": self.repository, "default_branch": "main"},
        }

    def leave(self, run: int, name: str, data: bytes) -> Table:
        artifact = {"id": next(self._ids), "run": run, "name": name, "expired": False, "data": data}
        self.artifacts.append(artifact)
        return artifact

    def comments_of(self, number: int) -> list[Table]:
        """The comments on an issue or pull request, oldest first."""
        return [comment for comment in self.comments if comment["issue"] == number]

    def _answer(self, request: Request) -> Response:
        if request.path.startswith("/archive/"):
            self.tokens_elsewhere.append(request.headers.get("Authorization"))
            number = int(request.path.rpartition("/")[2])
            (data,) = (entry["data"] for entry in self.artifacts if entry["id"] == number)
            return Response(data, 200, content_type="application/zip")
        self.requests.append(f"{request.method} {request.path}")
        fault = next((fault for fault in self._faults if fault.hits(request)), None)
        if fault is None:
            return self._regular(request)
        fault.times -= fault.times > 0
        if fault.after:
            self._regular(request)
        if fault.cut:
            with suppress(OSError):
                request.environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
        return _response(fault.body, fault.status or 500, fault.headers)

    def _regular(self, request: Request) -> Response:
        if not request.headers.get("Authorization", "").startswith("Bearer "):
            return _response({"message": "Bad credentials"}, 401)
        parts = request.path.removeprefix(f"/repos/{self.repository}").strip("/").split("/")
        match [request.method, *parts]:
            case ["GET", "actions", "artifacts", number, "zip"]:
                # Another name of this host, which must not get the token.
                elsewhere = self.url.replace("127.0.0.1", "localhost")
                return _response("", 302, {"location": f"{elsewhere}/archive/{number}"})
            case ["GET", *_]:
                actual = self._find(parts, request.args)
            case _:
                actual = self._change(request.method, parts, request.get_json(silent=True) or {})
        return (
            _response({"message": "Not Found"}, 404) if actual is None else _response(actual, 200)
        )

    def _find(self, parts: list[str], args: Any) -> Any:
        """What GET answers, a page of a list; None: nothing is there."""
        key, actual = "", self.resources.get("/".join(parts))
        match parts:
            case ["pulls"]:
                actual = [pull for pull in self._pulls() if self._label(pull) == args["head"]]
            case ["compare", *span]:
                base = "/".join(span).partition("...")[0]
                bases = {pull["base"]["ref"]: pull["base"]["sha"] for pull in self._pulls()}
                bases |= {base: base} if re.fullmatch("[0-9a-f]{40}", base) else self.merge_bases
                actual = {"merge_base_commit": {"sha": bases[base]}} if base in bases else None
            case ["issues", number, "comments"]:
                actual = self.comments_of(int(number))
            case ["actions", "runs", run, "artifacts"]:
                key, actual = "artifacts", self._artifacts(int(run))
        if isinstance(actual, list):
            size = int(args.get("per_page", 30))
            actual = actual[(int(args.get("page", 1)) - 1) * size :][:size]
        return {key: actual} if key else actual

    def _change(self, method: str, parts: list[str], values: Table) -> Any:
        """Perform another request; None: what it is about is not there."""
        match [method, *parts]:
            case ["POST", "issues", number, "comments"]:
                return self.say(int(number), BOT, values["body"])
            case ["POST", "actions", "workflows", file, "dispatches"]:
                self.dispatches.append({"workflow": file, **values})
                return ""
            case ["DELETE", "issues", "comments", number]:
                kept = [entry for entry in self.comments if entry["id"] != int(number)]
                was_there = len(kept) < len(self.comments)
                self.comments = kept
                return "" if was_there else None
            case ["PATCH", *_, number]:
                for entry in self.comments:
                    if entry["id"] == int(number):
                        entry.update(values)
                        return entry
        return None

    def _pulls(self) -> list[Table]:
        """The open pull requests."""
        pulls = (value for path, value in self.resources.items() if path.startswith("pulls/"))
        return [pull for pull in pulls if pull["state"] == "open"]

    def _label(self, pull: Table) -> str:
        owner = pull["head"].get("owner", self.repository.partition("/")[0])
        return f"{owner}:{pull['head']['ref']}"

    def _artifacts(self, run: int) -> list[Table]:
        """The artifacts of a run, with those that lie in the folder."""
        left = {entry["name"] for entry in self.artifacts if entry["run"] == run}
        for place in sorted(self.uploads.glob(f"{run}/*")) if self.uploads else ():
            if place.name not in left and place.suffix != ".partial":
                files = filter(Path.is_file, place.rglob("*"))
                contents = {str(file.relative_to(place)): file.read_bytes() for file in files}
                self.leave(run, place.name, zipped(contents))
        listed = [entry for entry in self.artifacts if entry["run"] == run]
        return [{key: entry[key] for key in ("id", "name", "expired")} for entry in listed]


BASE, HEAD, NEXT = "b" * 40, "a" * 40, "c" * 40
TOKEN = "ghs_notToBeShown"


@dataclass(frozen=True)
class Step(Shell):
    """A step of run 7 in `owner/name`, with pull request 12 open. It records its waits, in s."""

    github: FakeGitHub
    folder: Path
    waits: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in [name for name in os.environ if name.startswith(("GITHUB_", "DUETBENCH_"))]:
            self.patch.delenv(name)
        self.github.reset()
        self.set(
            GITHUB_API_URL=self.github.url,
            GITHUB_REPOSITORY="owner/name",
            GITHUB_TOKEN=TOKEN,
            GITHUB_RUN_ID="7",
            GITHUB_STEP_SUMMARY=str(self.folder / "summary.md"),
            NO_PROXY="127.0.0.1",
        )
        # Not time.sleep itself: the stand-in sleeps in this process too.
        self.patch.setattr(api, "WAIT", self.waits.append)
        self.github.add_pull(12, HEAD, BASE)

    def set(self, **variables: str) -> None:
        for name, value in variables.items():
            self.patch.setenv(name, value)

    def __call__(self, *words: str | Path) -> Done:
        program = "ci" if words[0] in CI else "observatory"
        result = super().__call__(program, *words)
        assert TOKEN not in result.out + result.err + self.summary
        return result

    @contextmanager
    def connected(self) -> Iterator[GitHub]:
        with GitHub(os.environ) as github:
            yield github

    @property
    def summary(self) -> str:
        path = self.folder / "summary.md"
        return path.read_text("utf-8") if path.exists() else ""

    def requests(self, method: str) -> list[str]:
        before = f"{method} /repos/owner/name"
        return [
            request.removeprefix(before)
            for request in self.github.requests
            if request.startswith(f"{method} ")
        ]

    def ours(self) -> list[str]:
        return [entry["body"] for entry in self.comments() if entry["user"]["login"] == BOT]

    def comments(self) -> list[Table]:
        return self.github.comments_of(12)

    def comment(self, body: str, login: str = "alice") -> Table:
        """Add a comment to the pull request, and make it the event of this step."""
        event = self.github.comment_event(12, login, body)
        self.set_event(event)
        return event

    def set_event(self, event: Table) -> None:
        path = self.folder / "event.json"
        path.write_text(json.dumps(event), "utf-8")
        self.set(GITHUB_EVENT_NAME="issue_comment", GITHUB_EVENT_PATH=str(path))
