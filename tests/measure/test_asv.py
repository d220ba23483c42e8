"""asv with our environments and suites: the real program, in small repositories of its own."""

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from asv import util
from asv.config import Config
from asv.environment import iter_matrix
from asv.runner import BENCHMARK_RUN_SCRIPT

from bench import invoke
from duetbench.app import stacks
from duetbench.core.errors import UsageError
from duetbench.host import machine, paths
from duetbench.host.machine import LOCK, measuring
from observatory.cli import inprocess as cli
from observatory.matrix.checkout import Checkout
from observatory.measure import asv_plugin as plugin
from observatory.store import asv_results
from repos import commit, git, write
from tiny_index import Index, serving

ROOT = paths.project_root()
HERE = machine.fingerprint().id
GIL, VERSION = "guard.Interpreter.track_gil_state", "guard.Packages.track_version"
# Two of the guard's benchmarks; each of the others is one process more, and shows nothing more.
QUICK = ("--bench", "track_gil_state", "--bench", r"track_version\('pydantic'\)")
WITH_GIL, WITHOUT = "duetbench-py3.14-stackcurrent", "duetbench-py3.14t-stackcurrent"
LOCKED = "apps/stacks/current.txt"


@dataclass(frozen=True)
class Repository:
    """A repository with our plugin in its asv.conf.json, and what asv is started with there."""

    root: Path
    env: Mapping[str, str]

    def asv(self, *args: str, code: int = 0) -> str:
        result = subprocess.run(
            [sys.executable, "-m", "asv", *args],
            cwd=self.root,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert result.returncode == code, result.stdout
        return result.stdout

    def figures(self, commit: str, python: str) -> dict[str, float | None]:
        """What a commit's benchmarks have given with an interpreter, by their names."""
        of_all = asv_results.read(self.root / "results" / "asv")
        (snapshot,) = (each for each in of_all if each.commit == commit)
        return {r.benchmark: r.value for r in snapshot.readings if r.python == python}


@pytest.fixture(scope="module")
def index() -> Iterator[Index]:
    with serving() as served:
        yield served


@pytest.fixture(scope="module")
def repository(index: Index, tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """Two commits with another version each; the guard is their only suite."""
    folder = tmp_path_factory.mktemp("asv")
    root, cache = folder / "repository", folder / "cache" / "duetbench"
    cache.mkdir(parents=True)
    (folder / "home").mkdir()
    (cache / "interpreters").symlink_to(paths.cache_dir() / "interpreters")
    inherited = {name: os.environ[name] for name in ("PATH", "LANG", LOCK) if name in os.environ}
    # The last two must not reach a benchmark.
    env = {
        **inherited, "HOME": str(folder / "home"), "XDG_CACHE_HOME": str(cache.parent),
        "UV_DEFAULT_INDEX": f"{index.address}/simple", "PYTHON_GIL": "1", "PYTHONOPTIMIZE": "1",
    }  # fmt: skip
    conf = util.load_json(str(ROOT / "asv.conf.json"), js_comments=True)
    conf["matrix"]["req"]["stack"] = ["current"]
    write(root, "asv.conf.json", json.dumps(conf))
    write(root, ".gitignore", "results/\n.asv/\n__pycache__/\n")
    write(
        root,
        "apps/pyproject.toml",
        '[project]\nname = "apps"\nversion = "0"\nrequires-python = ">=3.14"\n'
        '[dependency-groups]\ncurrent = ["pydantic"]\n',
    )
    shutil.copy(ROOT / "pyproject.toml", root)
    (root / "scripts").symlink_to(ROOT / "scripts")
    (root / "benchmarks").mkdir()
    for name in ("__init__.py", "_suite.py", "guard.py"):
        shutil.copy(ROOT / "benchmarks" / name, root / "benchmarks")
    git(root, "init", "--quiet", "--initial-branch", "main")
    for version in ("2.14.3", "2.14.4"):
        lock = index.add("pydantic", version, "2026-11-01")
        commit(root, f"pydantic {version}", **{LOCKED: lock})
    return Repository(root, env)


@pytest.fixture(scope="module")
def measured(repository: Repository) -> Repository:
    repository.asv("run", "ALL", *QUICK, "-E", WITH_GIL, "-E", WITHOUT)
    return repository


def test_the_matrix_has_all_that_is_declared_of_its_stacks() -> None:
    conf = Config.load(str(ROOT / "asv.conf.json"))
    combinations = {
        (entry["python", None], entry["req", "stack"])
        for entry in iter_matrix(conf.environment_type, conf.pythons, conf)
    }
    project = Checkout.here()
    stacks = {stack for _, stack in combinations}
    assert combinations == {(py, stack) for stack in stacks for py in project.pythons(stack)}


@pytest.mark.real
def test_each_commit_is_measured_with_the_packages_of_its_own_lock(measured: Repository) -> None:
    """Figures of both commits and interpreters: 2.14.3 is 2.014003; the GIL is as the name says.

    Environments hold the lock and nothing else. Results are filed under the machine of our run
    files; its fields, keys of the graphs, hold nothing that an update of the kernel moves.
    """
    for revision, version in (("HEAD~1", 2.014003), ("HEAD", 2.014004)):
        full = git(measured.root, "rev-parse", revision)
        for python, gil in (("3.14", 1), ("3.14t", 0)):
            assert measured.figures(full, python) == {GIL: gil, VERSION: version}
    held = sorted(
        (place.name.rsplit("-", 1)[0], info.name)
        for place in environments(measured).iterdir()
        for info in place.glob("lib/python*/site-packages/*.dist-info")
    )
    assert held == [
        (f"current-py{python}", f"pydantic-{version}.dist-info")
        for python in ("3.14", "3.14t")
        for version in ("2.14.3", "2.14.4")
    ]
    (filed,) = (measured.root / "results" / "asv").glob("*/machine.json")
    assert filed.parent.name == HERE
    assert json.loads(filed.read_text()) == {**plugin.profile(), "version": 1}
    assert platform.release() not in filed.read_text()


def environments(repository: Repository) -> Path:
    return Path(repository.env["XDG_CACHE_HOME"]) / "duetbench" / "environments"


@pytest.mark.real
def test_a_broken_lock_is_a_failed_build_and_gives_no_figure(
    repository: Repository, index: Index, tmp_path: Path
) -> None:
    """The sentence names commit, file and remedy; other commits of the same call are measured."""
    git(tmp_path, "clone", "--quiet", str(repository.root), "clone")
    there = Repository(tmp_path / "clone", repository.env)
    locks = {
        "not pinned": "pydantic\n",
        "no such version": f"pydantic==9.9.9 --hash=sha256:{'0' * 64}\n",
        "as it was": index.add("pydantic", "2.14.4", "2026-11-01"),
    }
    unpinned, unknown, good = (
        commit(there.root, why, **{LOCKED: lock}) for why, lock in locks.items()
    )
    output = there.asv("run", "HEAD~3..", *QUICK, "-E", WITH_GIL, code=2)
    assert (
        f"{WITH_GIL} cannot be made for commit {unpinned[:8]}: apps/stacks/current.txt: " in output
    )
    assert "line: found 'pydantic'; allowed: name==version" in output
    assert f"for commit {unknown[:8]}: installing stack current for 3.14 failed" in output
    assert "Traceback" not in output
    for revision in (unpinned, unknown):
        assert set(there.figures(revision, "3.14").values()) == {None}
    assert there.figures(good, "3.14") == {GIL: 1, VERSION: 2.014004}


@pytest.mark.real
def test_nobody_measures_beside_another(repository: Repository) -> None:
    """While somebody measures servers on this machine, asv looks at most, and says why."""
    with measuring():
        output = repository.asv("run", "HEAD^!", "--dry-run", *QUICK, "-E", WITH_GIL, code=1)
    assert "another duetbench is measuring on it" in output
    assert "Traceback" not in output


@pytest.mark.real
def test_the_guard_notices_another_interpreter_and_other_packages(tmp_path: Path) -> None:
    """A benchmark is run as asv runs it, and has no result."""
    lock = tmp_path / "apps" / "stacks" / "current.txt"
    lock.parent.mkdir(parents=True)
    current = Checkout.here().lock("current")
    installed = current.packages
    other = {**installed, "flask": "1.0", "absent": "1"}
    del other["click"]
    elsewhere = 'elsewhere==1 ; sys_platform == "win32" --hash=sha256:0\n'
    lines = [f"{name}=={version} --hash=sha256:0\n" for name, version in other.items()]
    lock.write_text("".join((elsewhere, *lines)))
    packages = (
        f"absent is absent instead of 1; click {installed['click']} is not in it; "
        f"flask is {installed['flask']} instead of 1.0. Remove the environment"
    )
    switched_on = "expected Python 3.14t with the GIL off, found it on: PYTHON_GIL, -X gil"
    for benchmark, python, changed, words in (
        (GIL, "3.14t", {"PYTHON_GIL": "1"}, switched_on),
        (GIL, "3.14", {"DUETBENCH_PYTHON": "3.14t"}, "expected Python 3.14t, found 3.14 (3.14.7)"),
        (f"{VERSION}-0", "3.14", {"DUETBENCH_CHECKOUT": str(tmp_path)}, packages),
    ):
        executable = stacks.executable(current, Checkout.here().interpreter(python))
        env = plugin.runner_variables(
            os.environ, executable=executable, python=python, stack="current", checkout=ROOT
        )
        result = tmp_path / "result.json"
        argv = [executable, BENCHMARK_RUN_SCRIPT, "run", ROOT / "benchmarks", benchmark]
        outcome = subprocess.run(
            [*argv, json.dumps({"repeat": 1}), "None", result],
            cwd=tmp_path, env={**env, **changed}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert words in outcome.stderr
        assert outcome.returncode != 0
        assert not result.exists()


def test_other_repositories_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "pyproject.toml", "")
    monkeypatch.setenv("DUETBENCH_ROOT", str(tmp_path))
    with pytest.raises(UsageError, match=r"expected asv.conf.json and a commit"):
        cli.inprocess_command()


@pytest.mark.real
def test_the_command_keeps_what_it_measured_and_what_failed(
    repository: Repository,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of the last commit, on both builds; a benchmark that fails gives no figure."""
    monkeypatch.setenv("DUETBENCH_ROOT", str(repository.root))
    for name in ("HOME", "XDG_CACHE_HOME", "UV_DEFAULT_INDEX"):
        monkeypatch.setenv(name, repository.env[name])
    suite = repository.root / "benchmarks" / "guard.py"
    right = suite.read_text("utf-8")
    suite.write_text(right.replace("return int(on)", "return 1 // int(on)"), "utf-8")
    words = ("observatory", "inprocess", *QUICK, "--to", tmp_path / "kept")
    result = invoke(capsys, monkeypatch, words)
    suite.write_text(right, "utf-8")
    assert result.code == 0, result  # what failed is a result, too
    (snapshot,) = asv_results.read(tmp_path / "kept" / "asv")
    assert snapshot.commit == git(repository.root, "rev-parse", "HEAD")
    figures = {(r.benchmark, r.python): r.value for r in snapshot.readings}
    assert figures == {
        (GIL, "3.14"): 1, (GIL, "3.14t"): None,
        (VERSION, "3.14"): 2.014004, (VERSION, "3.14t"): 2.014004,
    }  # fmt: skip
