"""asv with our environments and suites: the real program, in small repositories of its own."""

import json
import os
import platform
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from asv import util
from asv.runner import BENCHMARK_RUN_SCRIPT

from bench import Shell, execute
from duetbench.app import stacks
from duetbench.host import machine, paths
from duetbench.host.machine import LOCK, measuring
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
WITH_GIL = "duetbench-py3.14-stackcurrent"
LOCKED = "apps/stacks/current.txt"


@dataclass(frozen=True)
class Repository:
    """A repository with our plugin in its asv.conf.json, and what asv is started with there."""

    root: Path
    env: Mapping[str, str]

    def asv(self, *args: str, code: int = 0) -> str:
        result = execute([sys.executable, "-m", "asv", *args], cwd=self.root, env=self.env)
        assert result.returncode == code, result
        return result.stdout + result.stderr

    def figures(self, commit: str, python: str) -> dict[str, float | None]:
        """What a commit's benchmarks have given with an interpreter, by their names."""
        of_all = asv_results.read(self.root / "results")
        (snapshot,) = (each for each in of_all if each.commit == commit)
        return {r.benchmark: r.value for r in snapshot.readings if r.python == python}


@pytest.fixture(scope="module")
def index() -> Iterator[Index]:
    with serving() as served:
        yield served


@pytest.fixture(scope="module")
def repository(index: Index, tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """A commit whose only suite is the guard."""
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
    commit(root, "pydantic", **{LOCKED: index.add("pydantic", "2.14.4", "2026-11-01")})
    return Repository(root, env)


@pytest.mark.real
def test_a_broken_lock_is_a_failed_build_and_gives_no_figure(
    repository: Repository, index: Index, tmp_path: Path
) -> None:
    """The sentence names commit, file and remedy; others are measured, each with its own lock.

    2.14.3 is 2.014003 to the guard.
    """
    git(tmp_path, "clone", "--quiet", str(repository.root), "clone")
    there = Repository(tmp_path / "clone", repository.env)
    locks = {
        "not pinned": "pydantic\n",
        "no such version": f"pydantic==9.9.9 --hash=sha256:{'0' * 64}\n",
        "as it was once": index.add("pydantic", "2.14.3", "2026-11-01"),
    }
    unpinned, unknown, good = (
        commit(there.root, why, **{LOCKED: lock}) for why, lock in locks.items()
    )
    output = there.asv("run", "HEAD~3..", *QUICK, "-E", WITH_GIL, code=2)
    assert f"{WITH_GIL} cannot be made for commit {unpinned[:8]}: {LOCKED}: " in output
    assert "line: found 'pydantic'; allowed: name==version" in output
    assert f"for commit {unknown[:8]}: installing stack current for 3.14 failed" in output
    assert "Traceback" not in output
    for revision in (unpinned, unknown):
        assert set(there.figures(revision, "3.14").values()) == {None}
    assert there.figures(good, "3.14") == {GIL: 1, VERSION: 2.014003}


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
        argv += [json.dumps({"repeat": 1}), "None", result]
        outcome = execute(argv, cwd=tmp_path, env={**env, **changed})
        assert words in outcome.stderr
        assert outcome.returncode != 0
        assert not result.exists()


@pytest.mark.real
def test_the_command_keeps_what_it_measured_and_what_failed(
    repository: Repository,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of the last commit, on both builds; a benchmark that fails gives no figure.

    Results are filed under the machine of our run files; its fields, keys of the graphs, hold
    nothing that an update of the kernel moves.
    """
    monkeypatch.setenv("DUETBENCH_ROOT", str(repository.root))
    for name in ("HOME", "XDG_CACHE_HOME", "UV_DEFAULT_INDEX", "PYTHON_GIL", "PYTHONOPTIMIZE"):
        monkeypatch.setenv(name, repository.env[name])
    suite = repository.root / "benchmarks" / "guard.py"
    right = suite.read_text("utf-8")
    suite.write_text(right.replace("return int(on)", "return 1 // int(on)"), "utf-8")
    words = ("observatory", "inprocess", *QUICK, "--to", tmp_path / "kept")
    result = Shell(capsys, monkeypatch)(*words)
    suite.write_text(right, "utf-8")
    assert result.code == 0, result  # what failed is a result, too
    (snapshot,) = asv_results.read(tmp_path / "kept")
    assert snapshot.commit == git(repository.root, "rev-parse", "HEAD")
    figures = {(r.benchmark, r.python): r.value for r in snapshot.readings}
    assert figures == {
        (GIL, "3.14"): 1, (GIL, "3.14t"): None,
        (VERSION, "3.14"): 2.014004, (VERSION, "3.14t"): 2.014004,
    }  # fmt: skip
    (filed,) = (tmp_path / "kept" / "asv").glob("*/machine.json")
    assert filed.parent.name == HERE
    assert json.loads(filed.read_text()) == {**plugin.profile(), "version": 1}
    assert platform.release() not in filed.read_text()
