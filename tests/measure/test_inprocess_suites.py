"""The suites inside the process: what asv is asked for, and what asv_runner measures in stacks."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench import processes_with
from duetbench.core.errors import SetupError, UsageError
from duetbench.host import paths
from observatory.cli import inprocess as cli
from observatory.measure import asv_runs as runs
from repos import commit, git

ROOT = paths.project_root()
sys.path.append(str(ROOT))


def test_asv_is_configured_with_absolute_folders(tmp_path: Path) -> None:
    conf = json.loads(runs.configure(ROOT, tmp_path, tmp_path / "results").read_bytes())
    assert conf["results_dir"] == str(tmp_path / "results")
    assert (conf["repo"], conf["benchmark_dir"]) == (str(ROOT), str(ROOT / "benchmarks"))
    (tmp_path / "asv.conf.json").unlink()
    with pytest.raises(SetupError, match=re.escape("asv.conf.json")):
        runs.configure(tmp_path, tmp_path, tmp_path)
    with pytest.raises(UsageError, match=re.escape("has no asv.conf.json")):
        runs.require_commit(tmp_path)
    (tmp_path / "asv.conf.json").touch()
    with pytest.raises(UsageError, match="not in a git repository"):
        runs.require_commit(tmp_path)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    ignored = shutil.ignore_patterns("__pycache__")
    for folder in ("benchmarks", "apps"):
        shutil.copytree(ROOT / folder, root / folder, ignore=ignored)
    (root / "scripts").symlink_to(ROOT / "scripts")
    for file in ("pyproject.toml", "asv.conf.json"):
        shutil.copy(ROOT / file, root)
    git(root, "init", "--quiet")
    commit(root, "first")
    return root


def run_inprocess(root: Path, home: Path, *arguments: str) -> tuple[int, str, str]:
    home.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", "from observatory.cli import main; main()", "inprocess", *arguments],
        cwd=root,
        env={
            **os.environ,
            "HOME": str(home),
            "XDG_CACHE_HOME": str(paths.cache_dir().parent),
            "XDG_STATE_HOME": str(home / "state"),
            "DUETBENCH_ROOT": str(root),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        output, messages = process.communicate(timeout=250)
        return process.returncode, output, messages
    finally:
        for leftover in processes_with(str(home)):  # none, unless the test has failed
            leftover.kill()
        process.kill()
        process.communicate()


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.real
def test_a_real_look_inside(repository: Path, tmp_path: Path) -> None:
    """Files, and threads in FastAPI, on both builds; a loop that counts wrongly gives no figure."""
    suite = repository / "benchmarks" / "gil.py"
    wrong = suite.read_text("utf-8").replace("counted += 1", "counted += 2")
    suite.write_text(wrong.replace("STEPS = 10**7", "STEPS = 10**5"), "utf-8")
    threads = min(2, len(os.sched_getaffinity(0)))
    benches = (
        r"gil.Files.time_round_trips\('serial', 1\)",
        r"gil.Cpu.time_tasks\('serial', 1\)",
        rf"scaling.Scaling.time_threads\('fastapi', {threads}\)",
    )
    selection = [argument for bench in benches for argument in ("--bench", bench)]
    code, output, messages = run_inprocess(repository, tmp_path / "home", "--json", *selection)
    assert code == 1, messages
    assert (
        "failed: gil.Cpu.time_tasks on 3.14, gil-in-process; gil.Cpu.time_tasks on 3.14t"
        in messages
    )
    log = tmp_path / "home" / "state" / "duetbench" / "logs" / "inprocess.log"
    assert "expected 1 counts of 100000," in log.read_text("utf-8")
    described: dict[str, Any] = json.loads(output)
    (snapshot,) = described["snapshots"]
    measured = [
        (reading["benchmark"], reading["python"], dict(reading["params"]))
        for reading in snapshot["readings"]
        if reading["status"] == "measured" and reading["value"] > 0
    ]
    assert measured == [
        (benchmark, python, params)
        for benchmark, params in (
            ("gil.Files.time_round_trips", {"mode": "serial", "megabytes": "1"}),
            ("scaling.Scaling.time_threads", {"work": "fastapi", "threads": str(threads)}),
        )
        for python in ("3.14", "3.14t")
    ]
    assert [section["name"] for section in described["sections"]] == ["gil-in-process"]
    assert not (repository / "results").exists()


def test_another_repository_and_options_without_each_other_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.duetbench]\nresults = "results"\n')
    monkeypatch.setenv("DUETBENCH_ROOT", str(tmp_path))
    with pytest.raises(UsageError, match="measure no other repository"):
        cli.inprocess_command()
    with pytest.raises(UsageError, match="add --record"):
        cli.inprocess_command(to=tmp_path)
