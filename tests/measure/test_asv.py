"""asv with our environments: the real program, in small repositories of its own."""

import itertools
import json
import math
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
from asv.results import Results
from asv.runner import BENCHMARK_RUN_SCRIPT

from duetbench.app import stacks
from duetbench.host import machine, paths
from duetbench.host.machine import LOCK, measuring
from observatory.matrix.checkout import Checkout
from observatory.measure import asv_runs
from observatory.measure import asv_runs as runs
from tiny_index import Index, serving

ROOT = paths.project_root()
HERE = machine.fingerprint().id
GIL, VERSION = "guard.Interpreter.track_gil_state", "guard.Packages.track_version"
# Two of the guard's benchmarks; each of the others is one process more, and shows nothing more.
QUICK = ("--bench", "track_gil_state", "--bench", r"track_version\('pydantic'\)")
WITH_GIL, WITHOUT = "duetbench-py3.14-stackcurrent", "duetbench-py3.14t-stackcurrent"


@dataclass(frozen=True)
class Repository:
    """A repository with our plugin in its asv.conf.json, and what asv is started with there."""

    root: Path
    env: Mapping[str, str]

    def asv(self, *args: str, code: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "asv", *args],
            cwd=self.root,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stdout
        return done.stdout

    def git(self, *args: str) -> str:
        done = subprocess.run(
            ["git", *args], cwd=self.root, env=self.env, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def commit(self, message: str) -> str:
        self.git("add", "--all", ".", ":!results", ":!.asv")
        self.git("commit", "--quiet", "--message", message)
        return self.git("rev-parse", "HEAD")

    def lock(self, *lines: str) -> None:
        file = self.root / "apps" / "stacks" / "current.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(lines))

    def figures(self, commit: str, environment: str) -> dict[str, float | None]:
        file = self.root / "results" / "asv" / HERE / f"{commit[:8]}-{environment}.json"
        results = Results.load(str(file), HERE)
        figures: dict[str, float | None] = {}
        for key in results.get_all_result_keys():
            params = results.get_result_params(key)
            values = results.get_result_value(key, params)
            for combination, value in zip(itertools.product(*params), values, strict=True):
                if value is None or not math.isnan(value):
                    figures[" ".join((key, *combination))] = value
        return figures


def environment(home: Path, **more: str) -> dict[str, str]:
    home.mkdir(parents=True, exist_ok=True)
    inherited = {name: os.environ[name] for name in ("PATH", "LANG", LOCK) if name in os.environ}
    names = {
        f"GIT_{who}_{field}": value
        for who in ("AUTHOR", "COMMITTER")
        for field, value in (("NAME", "somebody"), ("EMAIL", "somebody@localhost"))
    }
    # The variables below must not reach a benchmark.
    return {
        **inherited,
        **names,
        "HOME": str(home),
        "PYTHON_GIL": "1",
        "PYTHONOPTIMIZE": "1",
        **more,
    }


def lay_out(root: Path) -> None:
    conf = util.load_json(str(ROOT / "asv.conf.json"), js_comments=True)
    conf["matrix"]["req"]["stack"] = ["current"]
    (root / "apps").mkdir(parents=True)
    (root / "asv.conf.json").write_text(json.dumps(conf))
    shutil.copy(ROOT / "pyproject.toml", root)
    (root / "apps" / "pyproject.toml").write_text(
        '[project]\nname = "apps"\nversion = "0"\nrequires-python = ">=3.14"\n'
        '[dependency-groups]\ncurrent = ["pydantic"]\n'
    )
    (root / "scripts").symlink_to(ROOT / "scripts")
    (root / "benchmarks").mkdir()
    for name in ("__init__.py", "_suite.py", "guard.py"):
        shutil.copy(ROOT / "benchmarks" / name, root / "benchmarks")


@pytest.fixture(scope="module")
def index() -> Iterator[Index]:
    with serving() as served:
        yield served


@pytest.fixture(scope="module")
def repository(index: Index, tmp_path_factory: pytest.TempPathFactory) -> Repository:
    folder = tmp_path_factory.mktemp("asv")
    cache = folder / "cache" / "duetbench"
    cache.mkdir(parents=True)
    (cache / "interpreters").symlink_to(paths.cache_dir() / "interpreters")
    repository = Repository(
        folder / "repository",
        environment(
            folder / "home",
            XDG_CACHE_HOME=str(folder / "cache"),
            UV_DEFAULT_INDEX=f"{index.address}/simple",
        ),
    )
    lay_out(repository.root)
    repository.git("init", "--quiet", "--initial-branch", "main")
    for version in ("2.14.3", "2.14.4"):
        repository.lock(index.add("pydantic", version, "2026-11-01"))
        repository.commit(f"pydantic {version}")
    return repository


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
    for commit, version in (("HEAD~1", 2.014003), ("HEAD", 2.014004)):
        full = measured.git("rev-parse", commit)
        for name, gil in ((WITH_GIL, 1), (WITHOUT, 0)):
            assert measured.figures(full, name) == {GIL: gil, f"{VERSION} 'pydantic'": version}
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
    assert json.loads(filed.read_text()) == {**asv_runs.profile(), "version": 1}
    assert platform.release() not in filed.read_text()


def environments(repository: Repository) -> Path:
    return Path(repository.env["XDG_CACHE_HOME"]) / "duetbench" / "environments"


def clone(repository: Repository, folder: Path) -> Repository:
    repository.git("clone", "--quiet", str(repository.root), str(folder / "clone"))
    return Repository(folder / "clone", repository.env)


@pytest.mark.real
def test_a_broken_lock_is_a_failed_build_and_gives_no_figure(
    repository: Repository, index: Index, tmp_path: Path
) -> None:
    """The sentence names commit, file and remedy; other commits of the same call are measured."""
    there = clone(repository, tmp_path)
    there.lock("pydantic\n")
    unpinned = there.commit("not pinned")
    there.lock("pydantic==9.9.9 --hash=sha256:" + "0" * 64 + "\n")
    unknown = there.commit("no such version")
    there.lock(index.add("pydantic", "2.14.4", "2026-11-01"))
    good = there.commit("as it was")
    output = there.asv("run", "HEAD~3..", *QUICK, "-E", WITH_GIL, code=2)
    assert (
        f"{WITH_GIL} cannot be made for commit {unpinned[:8]}: apps/stacks/current.txt: " in output
    )
    assert "line: found 'pydantic'; allowed: name==version" in output
    assert f"for commit {unknown[:8]}: installing stack current for 3.14 failed" in output
    assert "Traceback" not in output
    for commit in (unpinned, unknown):
        assert set(there.figures(commit, WITH_GIL).values()) == {None}
    assert there.figures(good, WITH_GIL) == {GIL: 1, f"{VERSION} 'pydantic'": 2.014004}


@pytest.mark.real
def test_nobody_measures_beside_another(repository: Repository) -> None:
    """While somebody measures servers on this machine, asv looks at most, and says why."""
    with measuring():
        output = repository.asv("run", "HEAD^!", "--dry-run", *QUICK, "-E", WITH_GIL, code=1)
    assert "another duetbench is measuring on it" in output
    assert "Traceback" not in output


def run_guard(
    benchmark: str, tmp_path: Path, python: str = "3.14", **changed: str
) -> tuple[str, float | None]:
    """What it says, and its figure if there is one."""
    executable = stacks.executable(
        Checkout.here().lock("current"), Checkout.here().interpreter(python)
    )
    env = runs.runner_variables(
        os.environ, executable=executable, python=python, stack="current", checkout=ROOT
    )
    argv: list[str | Path] = [executable, BENCHMARK_RUN_SCRIPT, "run", ROOT / "benchmarks"]
    file = tmp_path / "result.json"
    done = subprocess.run(
        [*argv, benchmark, "{}", "None", file],
        cwd=tmp_path,
        env={**env, **changed},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode == 0) == file.exists(), done.stderr
    return done.stderr, json.loads(file.read_text()) if file.exists() else None


@pytest.mark.real
def test_the_guard_notices_another_interpreter_and_other_packages(tmp_path: Path) -> None:
    lock = tmp_path / "apps" / "stacks" / "current.txt"
    lock.parent.mkdir(parents=True)
    installed = Checkout.here().lock("current").packages
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
        output, figure = run_guard(benchmark, tmp_path, python, **changed)
        assert words in output
        assert figure is None
