"""Whether a job may start on this machine: the runner's job-started hook.

Anybody can open a pull request whose workflow names our runners' label, so the label protects
nothing. The runner starts this before anything of a job; it lets a job start only for our
repository, for the events and at the ref of the policy, and for the named workflows of that ref.
GitHub sets what it reads; a workflow's own `env` does not reach a hook (actions/runner,
src/Runner.Worker/JobHookProvider.cs).

It only says yes or no. To the runner, no is a first step that has failed, after which it goes on
with all that asks for `always()`; the launcher (job-started.sh) ends the process that runs the job
instead. GitHub calls hooks no security boundary: they are the last gate, on the machine itself, and
not the only one (docs/runners.md). A job also begins with a clean machine: no other job is running,
and nothing is left of the user that foreign code runs as.

Standard library only, and nothing of duetbench: this very file is copied to a folder of root's and
run there by the system's Python as `python3 -I -S hook.py POLICY`. Whatever goes wrong, the answer
is no.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

VARIABLES: Final = {
    "server": "GITHUB_SERVER_URL",
    "repository": "GITHUB_REPOSITORY",
    "repository_id": "GITHUB_REPOSITORY_ID",
    "event": "GITHUB_EVENT_NAME",
    "ref": "GITHUB_REF",
    "workflow": "GITHUB_WORKFLOW_REF",
}
"""What a job says of itself, and the variable in which GitHub says it."""

WORKER: Final = "Runner.Worker"
"""Name of the process that runs a job; there is one per job."""

_SHOWN: Final = 200
_TIMEOUT_S: Final = 30
_KILL_ALL: Final = "kill -KILL -1"  # everything that the user may signal, but for this shell


class PolicyError(Exception):
    """The policy cannot be read, or is none."""


@dataclass(frozen=True)
class Policy:
    """What may start here."""

    repository: str  # owner/name
    ref: str  # the full ref, as refs/heads/main
    events: tuple[str, ...]
    workflows: tuple[str, ...]  # file names below .github/workflows/
    server: str = "https://github.com"
    # GitHub's number of it, which survives that somebody else takes the name; None: not checked.
    repository_id: str | None = None
    user: str | None = None  # the user that foreign code runs as; None: there is none


def read_policy(text: str) -> Policy:
    """Read a policy; keys that others need are left alone; raises PolicyError."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise PolicyError(f"expected JSON, found {error}") from error
    if not isinstance(document, dict):
        raise PolicyError("expected a JSON object")

    def word(key: str) -> str:
        value = document.get(key)
        if not isinstance(value, str) or not value:
            raise PolicyError(f"{key}: expected a text, found {value!r}")
        return value

    def words(key: str) -> tuple[str, ...]:
        values = document.get(key)
        right = isinstance(values, list) and all(isinstance(one, str) and one for one in values)
        if not right or not values:
            raise PolicyError(f"{key}: expected a list of texts, found {values!r}")
        return tuple(values)

    return Policy(
        repository=word("repository"),
        ref=word("ref"),
        events=words("events"),
        workflows=words("workflows"),
        server=word("server") if "server" in document else Policy.server,
        repository_id=word("repository_id") if "repository_id" in document else None,
        user=word("user") if "user" in document else None,
    )


def refusals(policy: Policy, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Say why a job may not start; nothing: it may."""
    expected: dict[str, tuple[str, ...]] = {
        "server": (policy.server,),
        "repository": (policy.repository,),
        "event": policy.events,
        "ref": (policy.ref,),
        # The file that the job comes from and the ref that it was read at, not its free name.
        "workflow": tuple(
            f"{policy.repository}/.github/workflows/{name}@{policy.ref}"
            for name in policy.workflows
        ),
    }
    if policy.repository_id is not None:
        expected["repository_id"] = (policy.repository_id,)
    return tuple(
        f"{what}: expected {' or '.join(allowed)}, found {shown(environ.get(VARIABLES[what]))}"
        for what, allowed in expected.items()
        if environ.get(VARIABLES[what]) not in allowed
    )


def shown(text: str | None) -> str:
    """Foreign text as one line of ASCII, whatever it holds: a ref may hold nearly anything."""
    if text is None:
        return "nothing"
    quoted = ascii(text)
    return quoted if len(quoted) <= _SHOWN else f"{quoted[:_SHOWN]}…"


def others(proc: Path = Path("/proc"), here: int | None = None) -> int:
    """Count the jobs that run on this machine, but for the one that asks."""
    above: set[int] = set()
    pid = os.getpid() if here is None else here
    while pid not in above | {0}:
        above.add(pid)
        found = re.search(r"^PPid:\t(\d+)$", (proc / str(pid) / "status").read_text(), re.MULTILINE)
        pid = int(found[1]) if found else 0
    count = 0
    for entry in proc.iterdir():
        if entry.name.isdigit() and int(entry.name) not in above:
            with suppress(OSError):  # it has ended
                name = (entry / "comm").read_text("utf-8", "replace").rstrip("\n")
                count += name == WORKER
    return count


def clear(user: str) -> str | None:
    """End everything that runs as a user; says why it cannot."""
    sudo = ["sudo", "-n", "-u", user, "--", "/bin/sh", "-c", _KILL_ALL]
    try:
        done = subprocess.run(sudo, capture_output=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        return f"what runs as {user} could not be ended: {shown(str(error))}"
    said = done.stderr.decode("utf-8", "replace").strip()
    # The shell's own complaint that there was nobody to end is no failure; sudo's is one.
    if said.startswith("sudo:"):
        return f"what runs as {user} could not be ended: {shown(said)}"
    return None


def decide(
    policy: Policy,
    environ: Mapping[str, str],
    count: Callable[[], int] = others,
    clean: Callable[[str], str | None] = clear,
) -> tuple[str, ...]:
    """Say why a job may not start here and now; the machine is cleared for one that may."""
    found = refusals(policy, environ)
    if found:
        return found
    running = count()
    if running:
        several = f"expected one job at a time on this machine, found {running + 1}"
        return (f"{several}: keep one runner process",)
    trouble = clean(policy.user) if policy.user is not None else None
    return (trouble,) if trouble else ()


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Answer the launcher: 0 lets the job start, anything else ends it."""
    try:
        _, file = arguments
        found = decide(read_policy(Path(file).read_text("utf-8")), environ)
    except Exception as error:  # whatever it is: without an answer the job does not start
        found = (f"the policy of this machine cannot be applied: {shown(str(error))}",)
    job = ", ".join(shown(environ.get(VARIABLES[what])) for what in ("workflow", "event"))
    if found:
        sentence = f"this machine does not run {job}: {'; '.join(found)}"
        command = sentence.replace("%", "%25").replace("\n", "%0A").replace("\r", "%0D")
        _say(f"::error title=Refused by the machine::{command}")
        return 1
    _say(f"duetbench: this machine runs {job}")
    return 0


def _say(sentence: str) -> None:
    sys.stdout.write(f"{sentence}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv, os.environ))
