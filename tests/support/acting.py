"""Workflows run by act on this host: stand-in actions, a bare repository, a fake of GitHub's API.

Host mode is no sandbox and knows neither permissions nor concurrency. Tests check that steps,
files, verbs, conditions and results fit together.

The repository is small: two cases of a second each, one stack, no network. Its stack is a real
server, packed again from an environment that set-up made, and a made-up package `alpha`, of which a
test can publish a release at any time.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import Distribution, distributions
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal

import pytest
import yaml
from packaging.utils import canonicalize_name

from bare import Programs
from bench import PROJECT, Ended, execute
from duetbench.app import stacks
from duetbench.host import paths
from duetbench.judge.preparation import resolve
from fake_github import FakeGitHub
from observatory.matrix.checkout import Checkout
from repos import borrow_cache, git, keep, write
from tiny_index import Index, pack, serving

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
    """The outcome of a run: results by job, `job/label` of a machine; none if skipped."""

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
        machine = re.match(r"Machine (\w+)", entry.get("job", ""))
        job = f"{entry.get('jobID', '')}{f'/{machine[1]}' if machine else ''}"
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


SMALL: Final = PROJECT / "tests" / "projects" / "night"
SERVER: Final = frozenset({"uvicorn", "httptools", "click", "h11"})
BRANCHES: Final = "scripts/branches.sh"
LONG_AGO: Final = "2026-01-01"
_OF_THE_INSTALLER: Final = {"INSTALLER", "REQUESTED", "RECORD", "direct_url.json", "uv_cache.json"}


@contextmanager
def theatre(folder: Path, patch: pytest.MonkeyPatch) -> Iterator[tuple[Stage, Index]]:
    """An empty stage, a fake of GitHub, an index with a server and alpha, a cache to write to."""
    borrow_cache(folder / "cache", patch)
    patch.delenv("DUETBENCH_ROOT", raising=False)
    with serving(patch, folder / "uv") as index, FakeGitHub() as github:
        stock(index)
        index.add("alpha", "1.0", LONG_AGO)
        github.reset(REPOSITORY, folder / "artifacts")
        variables = {"STANDIN_FOLDER": str(folder)}
        yield Stage(folder, folder / "tree", github, variables), index


@contextmanager
def set_stage(folder: Path, patch: pytest.MonkeyPatch) -> Iterator[tuple[Stage, Index]]:
    """A stage with the small repository, of which the lock is made here."""
    with theatre(folder, patch) as (stage, index):
        shutil.copytree(SMALL, stage.tree)
        shutil.copytree(PROJECT / ".github", stage.tree / ".github")
        write(stage.tree, BRANCHES, (PROJECT / BRANCHES).read_text("utf-8"))
        bare = PROJECT / "tests" / "support" / "badapps" / "bare_asgi.py"
        shutil.copy(bare, stage.tree / "apps" / "short")
        write(stage.tree, ".gitignore", ".venv/\n__pycache__/\nhistory/\n")
        text = resolve(Checkout(stage.tree), "current", None)
        stacks.write_lock(stage.tree / "apps" / "stacks" / "current.txt", text)
        keep(stage.tree)
        publish(stage.tree, stage.remote)
        yield stage, index


def stock(index: Index) -> None:
    """Fill the index with the server, as it is installed in the stack `current`."""
    checkout = Checkout.here()
    python = stacks.executable(checkout.lock("current"), checkout.interpreter("3.14"))
    (packages,) = python.parents[1].glob("lib/python3*/site-packages")
    for installed in distributions(path=[str(packages)]):
        if (name := canonicalize_name(installed.metadata["Name"])) in SERVER:
            file, content = repack(installed, packages)
            index.files[file] = (name, LONG_AGO, content)


def repack(installed: Distribution, packages: Path) -> tuple[str, bytes]:
    """Make a wheel of an installed distribution; return its file's name and content."""
    tag = re.findall(r"^Tag: (\S+)$", installed.read_text("WHEEL") or "", re.MULTILINE)[0]
    files = {
        str(file): (packages / file).read_bytes()
        for file in installed.files or ()
        if not {"..", "__pycache__", *_OF_THE_INSTALLER} & {*file.parts}
    }
    (info,) = {top for top in (name.partition("/")[0] for name in files) if top[-9:] == "dist-info"}
    return f"{info.removesuffix('.dist-info')}-{tag}.whl", pack(files, info)


def publish(tree: Path, remote: Path) -> None:
    """Push a repository to the stand-in of GitHub's own."""
    remote.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", "clone", "--quiet", "--bare", tree, remote], check=True)
    for key in ("allowAnySHA1InWant", "allowFilter"):
        git(remote, "config", f"uploadpack.{key}", "true")
    git(tree, "remote", "add", "origin", f"file://{remote}")
