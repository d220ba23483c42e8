"""The suites inside the process: what asv is asked for, and what asv_runner measures in stacks."""

import json
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from bench import all_cases, experiments, processes_with
from duetbench.app import stacks
from duetbench.core.errors import SetupError, UsageError
from duetbench.host import paths
from observatory.cli import inprocess as cli
from observatory.matrix.checkout import Checkout
from observatory.matrix.published import read_suites
from observatory.measure import asv_runs as runs
from observatory.measure.inside import endpoints
from repos import commit, git

ROOT = paths.project_root()
sys.path.append(str(ROOT))

QUICKLY = {"repeat": 2, "sample_time": 0.002, "warmup_time": 0.03}

_RUN = """
import json, os, sys, traceback
from asv_runner._aux import update_sys_path
from asv_runner.discovery import disc_benchmarks
from asv_runner.run import _run
folder, names, extra = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
# As asv's fork server does: import all suites, then run each benchmark in a child.
update_sys_path(folder)
list(disc_benchmarks(folder, ignore_import_errors=True))
found = {}
for name in names:
    child = os.fork()
    if not child:
        try:
            _run((folder, name, extra, "None", "result.json"))
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        sys.stderr.flush()
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        sys.exit(1)
    with open("result.json") as file:
        found[name] = json.load(file)
print(json.dumps(found))
"""


def attempt(
    folder: Path,
    names: list[str],
    suites: Path,
    commit: Path,
) -> subprocess.CompletedProcess[str]:
    executable = stacks.executable(
        Checkout.here().lock("current"), Checkout.here().interpreter("3.14")
    )
    return subprocess.run(
        [
            executable,
            "-c",
            _RUN,
            suites / "benchmarks",
            json.dumps(names),
            json.dumps(QUICKLY),
        ],
        env=runs.runner_variables(
            os.environ,
            executable=executable,
            python="3.14",
            stack="current",
            checkout=commit,
        ),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    root = tmp_path / "checkout"
    ignored = shutil.ignore_patterns("__pycache__")
    for folder in ("apps", "benchmarks"):
        shutil.copytree(ROOT / folder, root / folder, ignore=ignored)
    (root / "scripts").symlink_to(ROOT / "scripts")
    return root


def test_the_suites_know_every_declared_endpoint() -> None:
    """The same ids and stacks as the harness finds; waits are cut, except where they are fixed."""
    declared = endpoints.declared(ROOT)
    loaded: dict[str, set[str]] = {}
    for experiment in experiments():
        for name in experiment.declaration.endpoints:
            loaded.setdefault(f"{experiment.name}/{name}", set())
    for case in all_cases():
        loaded[f"{case.experiment}/{case.endpoint.name}"].add(case.stack)
    assert declared.keys() == loaded.keys()
    for name, on in loaded.items():
        assert declared[name].stacks == on or not on, name
        assert declared[name].stacks <= set(Checkout.here().stacks)
    fixed = {"asgi-wsgi/asgi-io", "asgi-wsgi/wsgi-io"}
    assert {name for name, endpoint in declared.items() if endpoint.waits} == fixed
    cut = {name for name, endpoint in declared.items() if "DUETBENCH_WAIT_S" in endpoint.env}
    assert cut
    assert {declared[name].env["DUETBENCH_WAIT_S"] for name in cut} == {"0"}


ECHO: Final = """
[profiles]
quick = {}
[endpoints.one]
app = "echo:app"
interface = "asgi"
path = "/good"
expect = { content_type = "text/plain", text = "x" }
[endpoints.two]
app = "echo:app"
interface = "asgi"
path = "/bad"
expect = { content_type = "text/plain", text = "x" }
[[cases]]
endpoint = ["one"]
stack = "current"
"""


@pytest.mark.real
def test_a_commit_is_asked_for_what_it_declares(tmp_path: Path, copied: Path) -> None:
    """A newcomer is measured without a line in the suites, a wrong answer and an old commit not."""
    folder = copied / "apps" / "echo"
    folder.mkdir()
    (folder / "echo.py").write_text(
        "async def app(scope, receive, send):\n"
        "    kind = [(b'content-type', b'text/plain')]\n"
        "    status = 200 if scope['path'] == '/good' else 404\n"
        "    await send({'type': 'http.response.start', 'status': status, 'headers': kind})\n"
        "    await send({'type': 'http.response.body', 'body': b'x'})\n"
    )
    (folder / "experiment.toml").write_text(ECHO, "utf-8")
    names = list(endpoints.declared(copied))
    good, bad, gone = (
        f"handlers.Wall.time_request-{2 + names.index(name)}"
        for name in ("echo/one", "echo/two", "await-patterns/async_concurrent")
    )
    # The suites list what their own tree has; the commit under test may not have it yet.
    commit = tmp_path / "commit"
    shutil.copytree(copied / "apps", commit / "apps")
    shutil.rmtree(commit / "apps" / "await-patterns")
    done = attempt(tmp_path, [good, gone], copied, commit)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures[good]["number"] > 0
    assert math.isnan(figures[gone])
    assert "this commit declares no endpoint await-patterns/async_concurrent" in done.stderr

    done = attempt(copied, [bad], copied, copied)
    assert done.returncode != 0
    assert "GET /bad: expected status 200, found" in done.stderr
    assert not (copied / "result.json").exists()


def chosen(*globs: str) -> dict[str, tuple[str, ...]]:
    return {step.suite: step.benches for step in runs.steps(globs)}


def test_every_suite_runs_where_it_says_something() -> None:
    steps = {step.suite: step for step in runs.steps()}
    assert tuple(steps) == tuple(suite.suite for suite in read_suites(ROOT))
    assert steps["gil"].environments == (
        "duetbench-py3.14-stackgil-in-process",
        "duetbench-py3.14t-stackgil-in-process",
    )
    assert steps["pydantic_models"].environments[0] == "duetbench-py3.14-stackpydantic-v1"
    assert "duetbench-py3.14t-stackpydantic-v1" not in steps["pydantic_models"].environments


@pytest.mark.parametrize(
    ("glob", "name", "matches"),
    [
        ("gil", "gil.Cpu.time_tasks('serial', 4)", True),
        ("gil", "gilded.time_tasks", False),
        ("gil.Cpu*", "gil.Files.time_round_trips('serial', 1)", False),
        ("gil.Cpu.time_task", "gil.Cpu.time_tasks('serial', 4)", False),
        ("gil.Cpu.time_tasks('serial', *)", "gil.Cpu.time_tasks('serial', 4)", True),
        ("gil.Cpu.time_tasks('threads', *)", "gil.Cpu.time_tasks('serial', 4)", False),
    ],
)
def test_globs_mean_what_they_mean_elsewhere(glob: str, name: str, matches: bool) -> None:
    (bench,) = chosen(glob)["gil"]
    assert bool(re.search(bench, name)) is matches


def test_a_glob_selects_its_suites_and_a_wrong_one_is_refused() -> None:
    assert list(chosen("scaling.*", "gil.Cpu*")) == ["gil", "scaling"]
    assert len(chosen("*")) == len(read_suites(ROOT))
    for wrong in ("guard.*", "gil-endpoints/*", "gi"):
        with pytest.raises(UsageError, match=r"expected globs .* gil\., handlers\."):
            runs.steps([wrong, "gil.*"])


def test_asv_is_configured_with_absolute_folders(tmp_path: Path) -> None:
    def configured(results: Path | None) -> Any:
        return json.loads(runs.configure(Checkout(ROOT), tmp_path, results).read_bytes())

    conf = configured(tmp_path / "results")
    assert conf["results_dir"] == str(tmp_path / "results")
    assert (conf["repo"], conf["benchmark_dir"]) == (str(ROOT), str(ROOT / "benchmarks"))
    assert configured(None)["results_dir"] == str(ROOT / "results" / "asv")
    (tmp_path / "asv.conf.json").unlink()
    with pytest.raises(SetupError, match=re.escape("asv.conf.json")):
        runs.configure(Checkout(tmp_path), tmp_path, None)
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
    globs = (
        "gil.Files.time_round_trips('serial', 1)",
        "gil.Cpu.time_tasks('serial', 1)",
        f"scaling.Scaling.time_threads('fastapi', {threads})",
    )
    selection = [argument for glob in globs for argument in ("--select", glob)]
    code, output, messages = run_inprocess(repository, tmp_path / "home", "--json", *selection)
    assert code == 1, messages
    assert (
        "failed: gil.Cpu.time_tasks on 3.14, gil-in-process; gil.Cpu.time_tasks on 3.14t"
        in messages
    )
    log = tmp_path / "home" / "state" / "duetbench" / "logs" / "inprocess-gil.log"
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
