"""Workflows run by act on this host: stand-in actions, a bare repository, a fake of GitHub's API.

Host mode is no sandbox and knows neither permissions nor concurrency. Tests check that steps,
files, verbs, conditions and results fit together.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal

import pytest
import yaml

from bare import Programs
from bench import PROJECT, Ended, execute
from duetbench.host import paths
from fake_github import FakeGitHub

STANDINS: Final = PROJECT / "tests" / "standins"
REPOSITORY: Final = "owner/name"
TOKEN: Final = "token-of-the-stand-in"
HOSTED: Final = "ubuntu-24.04"
PATIENCE: Final = 600.0

_PROGRAM: Final = f"""\
# Ours of this name, with a state per job, as on separate machines.
export XDG_STATE_HOME="${{RUNNER_TEMP:-/tmp}}/state" DUETBENCH_LOCK="duetbench-tests-$$"
program=$(basename "$0")
if [ "$1" = sandbox ]; then program=$3; shift 3; fi
case "$1" in anchor | inprocess) exit 0 ;; esac
exec {sys.executable} -P -c "
from duetbench.load import launch
launch.WINDOW_SECONDS = 0.1  # nobody keeps the figures
from $program.cli import main
main()
" "$@"
"""
_USES: Final = re.compile(r"uses: +(actions/([\w-]+))(?:/[\w-]+)?@([0-9a-f]{40})\b")
_OTHERS: Final = ("GITHUB_", "RUNNER_", "ACTIONS_", "DUETBENCH_", "GIT_")
"""Beginnings of variables of another job or checkout."""
_runs: Final = count(1)


def need(name: str) -> Path:
    """A program that `make test` builds; without it the test is skipped, but never in CI."""
    makefile = (PROJECT / "Makefile").read_text("utf-8")
    (pinned,) = re.findall(rf"/({name}@\S+)", makefile)
    program = paths.cache_dir() / "tools" / str(pinned) / name
    if not program.is_file():
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"{name} is not here: `make test`")
    return program


def load(text: str) -> dict[str, Any]:
    document = yaml.safe_load(text)
    # YAML 1.1, which the library reads, takes the key `on` for a truth value.
    return {"on" if key is True else key: value for key, value in document.items()}


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run: results by job, `job/1` of a shard; none if skipped."""

    results: dict[str, str]
    text: str
    number: int


@dataclass
class Stage:
    """A repository on a stand-in of GitHub, which can run its workflows."""

    folder: Path
    tree: Path
    github: FakeGitHub
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def remote(self) -> Path:
        return self.folder / "remotes" / f"{REPOSITORY}.git"

    def act(
        self,
        workflow: str,
        event: str,
        payload: Mapping[str, Any],
        *,
        variables: Mapping[str, str] = MappingProxyType({}),
        local: Mapping[str, Path] = MappingProxyType({}),
    ) -> Outcome:
        """Run a workflow to its end; stop one that takes too long, with all that it started."""
        for program in ("duetbench", "observatory"):
            Programs(self.folder).write(program, _PROGRAM)
        number = next(_runs)
        place = self.folder / "runs" / str(number)
        configured = place / "config" / "act" / "actrc"  # empty, so that act does not ask for one
        configured.parent.mkdir(parents=True)
        configured.touch()
        (place / "event.json").write_text(json.dumps(payload))
        values = {
            **self.variables,
            "GITHUB_API_URL": self.github.url,
            "GITHUB_REPOSITORY": REPOSITORY,
            "GITHUB_RUN_ID": str(number),
            "NO_PROXY": "127.0.0.1",
        }
        argv: list[str | Path] = [need("act"), event, "--directory", self.tree, "--json"]
        argv += ["--workflows", f".github/workflows/{workflow}"]
        argv += ["--eventpath", place / "event.json", "--actor", "somebody"]
        argv += ["--defaultbranch", "main", "--action-cache-path", place / "work"]
        # No Docker, no servers of act's own, and checkouts from the bare repository.
        argv += ["--container-daemon-socket", "-", "--artifact-server-addr", "127.0.0.1"]
        argv += ["--no-cache-server", "--no-skip-checkout", "--rm"]
        argv += ["--secret", f"GITHUB_TOKEN={TOKEN}"]
        lists = {
            "--platform": dict.fromkeys((HOSTED, "self-hosted"), "-self-hosted"),
            "--env": values,
            "--var": variables,
            "--local-repository": {**pinned(), **local},
        }
        argv += [
            word
            for option, entries in lists.items()
            for name, value in entries.items()
            for word in (option, f"{name}={value}")
        ]
        env = {name: value for name, value in os.environ.items() if not name.startswith(_OTHERS)}
        env |= {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
        env |= {**values, "XDG_CONFIG_HOME": str(place / "config")}
        log = place / "act.log"
        with log.open("w") as output:
            process = subprocess.Popen(
                argv, env=env, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )
        try:
            process.wait(PATIENCE)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)  # verbs end what they have started
                with suppress(subprocess.TimeoutExpired):
                    process.wait(30)
            process.kill()
        return read(log.read_text(), number)


def pinned() -> dict[str, Path]:
    """The stand-ins of GitHub's own actions, by their names and commits."""
    files = (*sorted((PROJECT / ".github").rglob("*.yml")), PROJECT / "action.yml")
    uses = (use for file in files for use in _USES.findall(file.read_text("utf-8")))
    return {f"{action}@{sha}": STANDINS / name for action, name, sha in uses}


def read(output: str, number: int) -> Outcome:
    results: dict[str, str] = {}
    lines = []
    for line in output.splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            lines.append(line)
            continue
        # Jobs of a workflow that a matrix calls have no matrix, but the caller's name.
        shard = re.match(r"Shard (\d+)", entry.get("job", ""))
        job = f"{entry.get('jobID', '')}{f'/{shard[1]}' if shard else ''}"
        lines.append(f"[{job}] {entry.get('msg', '').rstrip()}")
        if "jobResult" in entry:
            results[job] = entry["jobResult"]
    return Outcome(results, "\n".join(lines), number)


def actionlint(root: Path) -> Ended:
    """Run actionlint, without shellcheck, which is not installed everywhere."""
    argv = [need("actionlint"), "-no-color", "-shellcheck=", "-pyflakes="]
    return execute(argv, cwd=root)


def zizmor(root: Path, persona: Literal["pedantic", "regular"] = "pedantic") -> Ended:
    """Run zizmor offline, by default with its strictest persona."""
    argv = [Path(sys.executable).parent / "zizmor", "--offline"]
    argv += ["--strict-collection", "--persona", persona]
    argv += ["--no-progress", "--color", "never", "."]
    return execute(argv, cwd=root)
