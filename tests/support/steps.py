"""A step of a workflow: its environment, its verb, and the stand-in of GitHub that it uses."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench import Done, Shell
from duetbench.ci import api
from duetbench.ci.api import GitHub
from duetbench.cli.verbs import CI
from fake_github import BOT, FakeGitHub, Table

BASE, HEAD, NEXT = "b" * 40, "a" * 40, "c" * 40
TOKEN = "ghs_notToBeShown"
__all__ = ["BASE", "BOT", "HEAD", "NEXT", "TOKEN", "Step"]


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
