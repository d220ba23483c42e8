"""GitHub Actions' interface to a step: variables, the event, outputs and messages.

Outputs are a file that the environment names. A random line delimits each value, so
that no value can begin another output.
"""

import json
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from duetbench.core.errors import UsageError
from duetbench.host.console import Console, errors

BOT: Final = "github-actions[bot]"
"""The account that writes with a job's own token. Nobody can register a name with brackets."""

API: Final = "https://api.github.com"
SERVER: Final = "https://github.com"
OUTPUT: Final = "GITHUB_OUTPUT"

URL: Final = re.compile(r"https?://[^\s()<>\[\]\\]{1,500}")
"""An address that is safe in Markdown."""

_ADDRESS: Final = re.compile(r"https://\w|http://(localhost|127\.0\.0\.1|\[::1\])(:\d+)?(/|$)")
_HINT: Final = "; a job of GitHub Actions has it, elsewhere set it by hand"


@dataclass(frozen=True, slots=True)
class Context:
    """The environment of a step."""

    repository: str  # `owner/name`
    token: str = field(repr=False)  # never shown
    api_url: str = API  # base address of the REST API
    server_url: str = SERVER  # base address of the pages for people
    run_id: int = 0  # of the workflow's run; later runs have larger ones. 0 outside of Actions
    event_name: str = ""
    event_path: Path | None = None

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Self:
        """Read the variables `GITHUB_*`; raises UsageError."""
        for name in ("GITHUB_REPOSITORY", "GITHUB_TOKEN"):
            if not environ.get(name):
                raise UsageError(f"{name} is not set{_HINT}")
        api_url = environ.get("GITHUB_API_URL") or API
        if not _ADDRESS.match(api_url):  # the token goes there
            raise UsageError(
                f"GITHUB_API_URL={api_url!r}: expected https://…, or http:// on this machine"
            )
        event = environ.get("GITHUB_EVENT_PATH")
        return cls(
            repository=environ["GITHUB_REPOSITORY"],
            token=environ["GITHUB_TOKEN"],
            api_url=api_url.rstrip("/"),
            server_url=(environ.get("GITHUB_SERVER_URL") or SERVER).rstrip("/"),
            run_id=int(environ.get("GITHUB_RUN_ID") or 0),
            event_name=environ.get("GITHUB_EVENT_NAME", ""),
            event_path=Path(event) if event else None,
        )

    @property
    def run_url(self) -> str:
        """The page of this run; outside of Actions, of all runs."""
        base = f"{self.server_url}/{self.repository}/actions"
        return f"{base}/runs/{self.run_id}" if self.run_id else base

    def event(self) -> dict[str, Any]:
        """Read the event that started the workflow; raises UsageError."""
        if self.event_path is None:
            raise UsageError(f"GITHUB_EVENT_PATH is not set{_HINT}")
        event: dict[str, Any] = json.loads(self.event_path.read_bytes())
        return event


def outputs(values: Mapping[str, str]) -> None:
    """Pass values to the following steps and jobs; outside of a workflow, do nothing."""
    if path := os.environ.get(OUTPUT):
        fence = f"end-{secrets.token_hex(16)}"
        lines = (f"{name}<<{fence}\n{value}\n{fence}\n" for name, value in values.items())
        with Path(path).open("a", encoding="utf-8") as file:
            file.writelines(lines)


def annotate(level: str, text: str, file: str = "", line: int = 0) -> None:
    """Show a notice, warning or error on the job's page; outside of a workflow, on the terminal.

    With a file of the repository and a line, it is beside that line of the pull request.
    """
    if os.environ.get("GITHUB_ACTIONS") == "true":
        place = f",file={_escape(file, is_property=True)},line={line}" if file else ""
        Console().say(f"::{level} title=duetbench{place}::{_escape(text)}")
    else:
        errors().say(f"{level}: {f'{file}:{line}: ' if file else ''}{text}")


def _escape(text: str, *, is_property: bool = False) -> str:
    escaped = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return escaped.replace(":", "%3A").replace(",", "%2C") if is_property else escaped
