"""The suites of handlers and of Pydantic, run by asv_runner in the stacks' environments."""

import itertools
import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bench import all_cases, experiments
from duetbench.host import paths
from duetbench.measure.inside import endpoints
from duetbench.project import stacks
from duetbench.project.project import Project
from observatory.measure import asv_runs as runs

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
_ON_CPU = """
import resource, time, timeit

def clock():
    return time.process_time() + sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])

timeit.default_timer = time.perf_counter = clock
"""
_LIST = """
import json, sys
from asv_runner.discovery import list_benchmarks
with open("found.json", "w") as file:
    list_benchmarks(sys.argv[1], file)
"""


def attempt(
    folder: Path,
    names: list[str],
    *,
    stack: str = "current",
    python: str = "3.14",
    suites: Path = ROOT,
    commit: Path | None = None,
    extra: Mapping[str, Any] = QUICKLY,
    clock: str = "",
) -> subprocess.CompletedProcess[str]:
    executable = stacks.executable(Project.here().lock(stack), Project.here().interpreter(python))
    return subprocess.run(
        [
            executable,
            "-c",
            clock + _RUN,
            suites / "benchmarks",
            json.dumps(names),
            json.dumps(extra),
        ],
        env=runs.runner_variables(
            os.environ, executable=executable, python=python, stack=stack, checkout=commit or suites
        ),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def run(folder: Path, names: list[str], **arguments: Any) -> tuple[dict[str, Any], str]:
    done = attempt(folder, names, **arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("listed")
    bare = Project.here().interpreter("3.14").executable
    variables = runs.runner_variables(
        {}, executable=bare, python="3.14", stack="current", checkout=ROOT
    )
    subprocess.run(
        [bare, "-c", _LIST, ROOT / "benchmarks"],
        env={"PYTHONPATH": variables["PYTHONPATH"]},
        cwd=folder,
        check=True,
        timeout=60,
    )
    return {row["name"]: row for row in json.loads((folder / "found.json").read_text("utf-8"))}


def indexed(listed: dict[str, dict[str, Any]], name: str, *values: str) -> str:
    place = 0
    for axis, value in zip(listed[name]["params"], values, strict=True):
        place = place * len(axis) + axis.index(value)
    return f"{name}-{place}"


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
        assert declared[name].stacks <= set(Project.here().stacks)
    fixed = {"asgi-wsgi/asgi-io", "asgi-wsgi/wsgi-io"}
    assert {name for name, endpoint in declared.items() if endpoint.waits} == fixed
    cut = {name for name, endpoint in declared.items() if "DUETBENCH_WAIT_S" in endpoint.env}
    assert cut
    assert {declared[name].env["DUETBENCH_WAIT_S"] for name in cut} == {"0"}


def declaration(floor: str, env: str = "") -> str:
    return f"""
[profiles]
quick = {{ wait = 0.3, size = 4 }}
[endpoints.one]
app = "app:app"
interface = "asgi"
path = "/"
expect = {{ content_type = "text/plain", text = "x" }}
floor = {floor}
{env}
[defaults]
stack = ["a", "b"]
[[cases]]
endpoint = ["one"]
workers = [2, 3]
pairs = [{{ c = 7 }}]
"""


@pytest.mark.real
def test_requests_are_timed_many_at_a_time(
    tmp_path: Path, listed: dict[str, dict[str, Any]]
) -> None:
    """asv_runner chooses how many; handlers that wait have CPU time only; others are left out."""
    short = [
        *("driver/asgi", "driver/wsgi", "asgi-wsgi/asgi-json", "asgi-wsgi/wsgi-json"),
        *("await-patterns/async_concurrent", "pydantic-v1-v2/refused"),
    ]
    wall = {name: indexed(listed, "handlers.Wall.time_request", repr(name)) for name in short}
    waiting = indexed(listed, "handlers.Wall.time_request", "'asgi-wsgi/asgi-io'")
    cpu = indexed(listed, "handlers.Cpu.time_request", "'asgi-wsgi/asgi-io'")
    for _ in range(3):  # a machine that stands still while one request is tried makes it one
        figures, log = run(
            tmp_path,
            [*wall.values(), waiting, cpu],
            extra={**QUICKLY, "sample_time": 0.1, "warmup_time": 0.3},
        )
        if all(figures[wall[name]]["number"] > 1 for name in short):
            break
    for name in short:
        figure = figures[wall[name]]
        assert figure["number"] > 1, name
        assert len(figure["samples"]) == 2, name
        assert min(figure["samples"]) > 0, name
    driver, request = (min(figures[wall[name]]["samples"]) for name in (short[0], short[2]))
    assert driver < request
    assert math.isnan(figures[waiting])
    assert "skipped: asgi-wsgi/asgi-io waits" in log
    assert figures[cpu]["number"] > 1
    assert 0 < max(figures[cpu]["samples"]) < 0.010, "the wait is no CPU time"


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
    declared = declaration("0").replace('"app:app"', '"echo:app"').replace('"a", "b"', '"current"')
    right = declared.replace('path = "/"', 'path = "/good"')
    wrong = "[endpoints.two]" + right.partition("[endpoints.one]")[2].partition("[defaults]")[0]
    (folder / "experiment.toml").write_text(right + wrong.replace("/good", "/bad"), "utf-8")
    names = list(endpoints.declared(copied))
    good, bad, gone = (
        f"handlers.Wall.time_request-{2 + names.index(name)}"
        for name in ("echo/one", "echo/two", "await-patterns/async_concurrent")
    )
    # The suites list what their own tree has; the commit under test may not have it yet.
    commit = tmp_path / "commit"
    shutil.copytree(copied / "apps", commit / "apps")
    shutil.rmtree(commit / "apps" / "await-patterns")
    figures, log = run(tmp_path, [good, gone], suites=copied, commit=commit)
    assert figures[good]["number"] > 1
    assert math.isnan(figures[gone])
    assert "this commit declares no endpoint await-patterns/async_concurrent" in log

    done = attempt(copied, [bad], suites=copied)
    assert done.returncode != 0
    assert "GET /bad: expected status 200, found" in done.stderr
    assert not (copied / "result.json").exists()


def pydantic_names(listed: dict[str, dict[str, Any]]) -> dict[str, str]:
    """What asv calls every benchmark of Pydantic → its name with parameters."""
    names: dict[str, str] = {}
    for name, benchmark in listed.items():
        if name.startswith("pydantic_models."):
            combinations = list(itertools.product(*benchmark["params"]))
            names |= {
                f"{name}-{place}" if values else name: " ".join((name, *values))
                for place, values in enumerate(combinations)
            }
    return names


@pytest.mark.real
def test_both_majors_do_the_same_work(tmp_path: Path, listed: dict[str, dict[str, Any]]) -> None:
    """Every benchmark of Pydantic gives its kind of figure on both; the newer one is quicker.

    All clocks show the CPU time of the process and its children: others' turns slow nothing down.
    """
    words = pydantic_names(listed)
    assert len(words) == 6 + 4 + 6 + 1 + 2 + 2
    fastest: dict[str, dict[str, float]] = {}
    for stack in ("pydantic-v1", "pydantic-v2"):
        figures, log = run(tmp_path, list(words), stack=stack, clock=_ON_CPU)
        assert "skipped" not in log
        peaks = [figures.pop(name) for name in sorted(words) if "peakmem" in name]
        for name, figure in figures.items():
            assert min(figure["samples"]) > 0, name
            fastest.setdefault(words[name], {})[stack] = min(figure["samples"])
            # A thousand services take longer than one sample should.
            several = not any(slow in words[name] for slow in ("1000", "Import", "Define"))
            assert figure["number"] > 1 or not several, words[name]
        # 49,000 services more, each of six fields in a dictionary of its own.
        assert peaks[1] - peaks[0] > 49_000 * 300
    for size in ("1", "20", "1000"):
        times = fastest[f"pydantic_models.Validate.time_valid {size} 'python'"]
        assert times["pydantic-v2"] < times["pydantic-v1"], size
