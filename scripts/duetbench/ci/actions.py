"""GitHub Actions' interface to a step: variables, the event, outputs and messages.

Outputs are a file that the environment names. A random line delimits each value, so
that no value can begin another output.
"""

import base64
import json
import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from duetbench.core.errors import UsageError
from duetbench.host.console import Console, errors

TOKEN: Final = "GITHUB_TOKEN"  # noqa: S105 - the name of a variable, not a secret
_SERVER: Final = "https://github.com"

BOT: Final = "github-actions[bot]"
"""The account that writes with a job's own token. Nobody can register a name with brackets."""

OUTPUT: Final = "GITHUB_OUTPUT"

URL: Final = re.compile(r"https?://[^\s()<>\[\]\\]{1,500}")
"""An address that is safe in Markdown."""

_ADDRESS: Final = re.compile(r"https://\w|http://(localhost|127\.0\.0\.1|\[::1\])(:\d+)?(/|$)")


class Context:
    """The environment of a step, from the variables `GITHUB_*`; raises UsageError."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self.repository = self._required("GITHUB_REPOSITORY")
        """`owner/name`."""
        self.token = self._required(TOKEN)
        self.event_name = environ.get("GITHUB_EVENT_NAME", "")
        self.api_url = (environ.get("GITHUB_API_URL") or "https://api.github.com").rstrip("/")
        if not _ADDRESS.match(self.api_url):  # the token goes there
            raise UsageError(
                f"GITHUB_API_URL={self.api_url!r}: expected https://…, or http:// on this machine"
            )
        self.run_id = int(environ.get("GITHUB_RUN_ID") or 0)
        """Of the workflow's run; later runs have larger ones. 0 outside of Actions."""

    def _required(self, name: str) -> str:
        if not self._environ.get(name):
            raise UsageError(f"{name} is not set; a job of GitHub Actions has it")
        return self._environ[name]

    @property
    def run_url(self) -> str:
        """The page of this run; outside of Actions, of all runs."""
        server = self._environ.get("GITHUB_SERVER_URL") or "https://github.com"
        base = f"{server.rstrip('/')}/{self.repository}/actions"
        return f"{base}/runs/{self.run_id}" if self.run_id else base

    def event(self) -> dict[str, Any]:
        """Read the event that started the workflow; raises UsageError."""
        path = Path(self._required("GITHUB_EVENT_PATH"))
        event: dict[str, Any] = json.loads(path.read_bytes())
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


def credentials(address: str, environment: Mapping[str, str]) -> dict[str, str]:
    """The environment variables that authenticate git; empty if there is no token.

    The workflow's token is for GitHub alone, and no other server gets it.
    """
    server = environment.get("GITHUB_SERVER_URL", _SERVER).rstrip("/")
    token = environment.get(TOKEN, "").strip()
    if not token or not address.startswith(f"{server}/"):
        return {}
    basic = base64.b64encode(f"x-access-token:{token}".encode()).decode()
    count = int(environment.get("GIT_CONFIG_COUNT", "0") or 0)
    return {
        "GIT_CONFIG_COUNT": str(count + 1),
        f"GIT_CONFIG_KEY_{count}": f"http.{address}.extraheader",
        f"GIT_CONFIG_VALUE_{count}": f"AUTHORIZATION: basic {basic}",
    }
