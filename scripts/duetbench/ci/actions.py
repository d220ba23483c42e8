"""GitHub Actions' interface to a step: what its event asks to compare, outputs and messages.

A pull request's head is compared with the commit where it left its base. GitHub finds that commit:
a shallow clone may not have it, and the event's base may be older.

Outputs are a file that the environment names. A random line delimits each value, so
that no value can begin another output.
"""

import base64
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from duetbench.ci.api import SERVER, TOKEN, GitHub
from duetbench.core.errors import UsageError
from duetbench.host import git
from duetbench.host.console import Console

BOT: Final = "github-actions[bot]"
"""The account that writes with a job's own token. Nobody can register a name with brackets."""

OUTPUT: Final = "GITHUB_OUTPUT"

NONE: Final = "0" * 40
"""The commit before a push that created the branch."""

_OPEN: Final = frozenset({"issue_comment", "pull_request_target", "workflow_run"})


def measured_pulls(github: GitHub, run: Mapping[str, Any]) -> list[tuple[int, str, str]]:
    """Return number, base and head of the open pull requests whose head a run measured.

    An event from a fork names no pull request, and the run's own statements prove nothing.
    Raises ServiceError.
    """
    if run["event"] != "pull_request" or not (run["head_repository"] and run["head_branch"]):
        return []  # of a fork or a branch that has been removed
    head, owner = run["head_sha"], run["head_repository"]["owner"]["login"]
    return [
        (pull["number"], github.merge_base(pull["base"]["ref"], head), head)
        for pull in github.get_all("/pulls", state="open", head=f"{owner}:{run['head_branch']}")
        if pull["head"]["sha"] == head
    ]


def sides(name: str, event: Mapping[str, Any], sha: str, github: GitHub) -> tuple[str | None, str]:
    """Return base and head of an event `name`; no base: the head has nothing to compare with.

    Raises UsageError for events that others can start and that have this repository's rights, and
    ServiceError if GitHub knows no common commit.
    """
    if name in _OPEN:
        raise UsageError(
            f"GITHUB_EVENT_NAME={name!r}: expected pull_request or push; {name} has the rights of "
            "this repository, and untrusted code would run with them"
        )
    head, default = sha, ""
    if name == "pull_request":
        pull = event["pull_request"]
        head, default = pull["head"]["sha"], pull["base"]["ref"]
    elif name == "push":
        head, before = event["after"], event["before"]
        default = "" if before == NONE else before
    left = github.merge_base(default or event["repository"]["default_branch"], head)
    return None if left == head else left, head


def fetch(root: Path, commits: tuple[str, ...]) -> None:
    """Fetch the commits that a checkout lacks; raises HistoryError."""
    missing = [
        commit
        for commit in commits
        if git.ask_or_none(root, "cat-file", "-e", f"{commit}^{{commit}}") is None
    ]
    if not missing:
        return
    address = git.ask(root, "remote", "get-url", "origin")
    # If the checkout has stored its token, git sends it anyway, and GitHub refuses two.
    persisted = git.ask_or_none(root, "config", "--get-urlmatch", "http.extraheader", address)
    environment = {} if persisted else credentials(address, os.environ)
    shallow = git.ask(root, "rev-parse", "--is-shallow-repository") == "true"
    depth = ["--depth=1"] if shallow else []
    git.ask(root, "fetch", "--quiet", "--no-tags", *depth, "origin", *missing, env=environment)


def outputs(values: Mapping[str, str]) -> None:
    """Pass values to the following steps and jobs; outside of a workflow, do nothing."""
    if path := os.environ.get(OUTPUT):
        fence = f"end-{secrets.token_hex(16)}"
        lines = (f"{name}<<{fence}\n{value}\n{fence}\n" for name, value in values.items())
        with Path(path).open("a", encoding="utf-8") as file:
            file.writelines(lines)


def annotate(level: str, text: str, file: str, line: int) -> None:
    """Show a notice, warning or error beside a line of the pull request, whose file is named."""
    place = _escape(file).replace(":", "%3A").replace(",", "%2C")
    Console().say(f"::{level} title=duetbench,file={place},line={line}::{_escape(text)}")


def _escape(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def credentials(address: str, environment: Mapping[str, str]) -> dict[str, str]:
    """The environment variables that authenticate git; empty if there is no token.

    The workflow's token is for GitHub alone, and no other server gets it.
    """
    server = environment.get("GITHUB_SERVER_URL", SERVER).rstrip("/")
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
