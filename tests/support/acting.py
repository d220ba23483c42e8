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
from typing import Any, Final

import pytest
import yaml

from duetbench.host import paths
from fake_github import FakeGitHub
from repos import git

PROJECT: Final = Path(__file__).parents[2]
STANDINS: Final = PROJECT / "tests" / "standins"
REPOSITORY: Final = "owner/name"
TOKEN: Final = "token-of-the-stand-in"
HOSTED: Final = "ubuntu-24.04"
PATIENCE: Final = 600.0

_MAIN: Final = """
from duetbench.core import protocol
protocol.WINDOW_SECONDS = 0.1  # nobody keeps the figures
from $program.cli import main
main()
"""
_USES: Final = re.compile(r"uses: +([\w-]+/[\w-]+)(?:/[\w-]+)?@([0-9a-f]{40})\b")
_runs: Final = count(1)


def need(name: str) -> Path:
    """A program that `make test` builds; without it the test is skipped, but never in CI."""
    makefile = (PROJECT / "Makefile").read_text("utf-8")
    (pinned,) = re.findall(rf"/({name}@\S+)", makefile)
    program = paths.cache_dir() / "tools" / str(pinned) / name
    if not program.is_file():
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"{name} is not here: `make test`")
    return program


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run: results by job, `job/1` of a matrix; none if skipped."""

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

    def site(self, run: int) -> Path:
        return self.folder / "pages" / str(run)

    def branch(self, name: str) -> dict[str, str]:
        """The files of a branch of the bare repository: path → blob."""
        lines = git(self.remote, "ls-tree", "-r", name).splitlines()
        return {line.partition("\t")[2]: line.split()[2] for line in lines}

    def read(self, name: str, path: str) -> Any:
        return json.loads(git(self.remote, "show", f"{name}:{path}"))

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
            if not (command := self.folder / program).exists():
                write_command(command)
        number = next(_runs)
        place = self.folder / "runs" / str(number)
        place.mkdir(parents=True)
        (place / "event.json").write_text(json.dumps(payload))
        configured = place / "config" / "act" / "actrc"  # empty, so that act does not ask for one
        configured.parent.mkdir(parents=True)
        configured.touch()
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
        for label in (HOSTED, "self-hosted"):
            argv += ["--platform", f"{label}=-self-hosted"]
        for name, value in values.items():
            argv += ["--env", f"{name}={value}"]
        for name, value in variables.items():
            argv += ["--var", f"{name}={value}"]
        for pin, folder in {**pinned(), **local}.items():
            argv += ["--local-repository", f"{pin}={folder}"]
        log = place / "act.log"
        with log.open("w") as output:
            inherited = {**_clean(), **values, "XDG_CONFIG_HOME": str(place / "config")}
            process = subprocess.Popen(
                argv, env=inherited, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
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


def read(output: str, number: int) -> Outcome:
    results: dict[str, str] = {}
    failed: set[str] = set()  # jobs with a failed step
    lines = []
    for line in output.splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            lines.append(line)
            continue
        job = _name(entry)
        lines.append(f"[{job}] {entry.get('msg', '').rstrip()}")
        if entry.get("stepResult") == "failure" and len(entry.get("stepID", ())) == 1:
            failed.add(job)
        if "jobResult" in entry:
            results[job] = entry["jobResult"]
            if entry.get("matrix") and job not in failed:
                results[job] = "success"  # act gives all jobs of a matrix the worst result so far
    return Outcome(results, "\n".join(lines), number)


def _name(entry: Mapping[str, Any]) -> str:
    matrix = entry.get("matrix") or {}
    # Jobs of a workflow that a matrix calls have no matrix, but the caller's name.
    calling = re.match(r"Shard (\d+)", entry.get("job", ""))
    number = calling[1] if calling else matrix.get("shard") or matrix.get("machine")
    return f"{entry.get('jobID', '')}/{number}" if number else str(entry.get("jobID", ""))


def pinned() -> dict[str, Path]:
    result = {}
    for file in (*sorted((PROJECT / ".github").rglob("*.yml")), PROJECT / "action.yml"):
        for name, sha in _USES.findall(file.read_text("utf-8")):
            if name.startswith("actions/"):
                result[f"{name}@{sha}"] = STANDINS / name.partition("/")[2]
    return result


def load(text: str) -> dict[str, Any]:
    document = yaml.safe_load(text)
    # YAML 1.1, which the library reads, takes the key `on` for a truth value.
    return {"on" if key is True else key: value for key, value in document.items()}


def write_command(path: Path) -> None:
    """Write a program that runs ours of its name, with a state per job, as on separate machines."""
    path.write_text(
        f"""#!/bin/sh
export XDG_STATE_HOME="${{RUNNER_TEMP:-/tmp}}/state" DUETBENCH_LOCK="duetbench-tests-$$"
program=$(basename "$0")
if [ "$1" = sandbox ]; then program=$3; shift 3; fi
case "$1" in anchor | inprocess) exit 0 ;; esac
exec {sys.executable} -P -c "{_MAIN}" "$@"
"""
    )
    path.chmod(0o755)


MAKEFILE: Final = """\
# Stand-in: the harness is there already.
.PHONY: harness tools setup check test docs dist publish
harness:
\t@mkdir -p .venv/bin
\t@ln -sf "$(STANDIN_FOLDER)/duetbench" "$(STANDIN_FOLDER)/observatory" .venv/bin/
# The tools of the machine; the stacks too, since there is no room that would make them.
setup tools: harness
\t@.venv/bin/observatory setup
check test:
\t@echo "stand-in for make $@"
docs:
\t@mkdir -p "$(DOCS)" && echo "stand-in for make $@" > "$(DOCS)/index.html"
dist:
\t@mkdir -p dist && echo "$$TAG" > dist/duetbench.whl
publish:
\t@echo "stand-in for make $@ of $$(cat dist/*.whl)"
"""


def _clean() -> dict[str, str]:
    """Return our environment without variables of another job or checkout."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("GITHUB_", "RUNNER_", "ACTIONS_", "DUETBENCH_", "GIT_"))
    } | {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
