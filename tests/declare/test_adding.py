"""A server, a metric and an interpreter are each added in one place of a copy of the project.

What the copy then plans, judges and shows is asked of it in a process of its own (`_in_copy`).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

import sites
import synthetic
from comparing import CPU
from fake_sessions import FakeInstruments, compared_by
from foreign import commands
from servebench.core.model import Case, Plan, StackRecord
from servebench.host import paths
from servebench.measure.duet import DuetOutcome, SideCase
from servebench.measure.inprocess import suite_runs
from servebench.record import store
from servebench.site.charts.legend import assign

_PROJECT: Final = paths.project_root()
_NAMES: Final = (
    "apps", "benchmarks", "docs", "scripts/servebench", "pyproject.toml", "asv.conf.json",
)  # fmt: skip
_EXAMPLE: Final = re.compile(r"^```\w+ (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SERVER: Final = """\
        Server(
            name="hypercorn",
            interfaces=frozenset({"asgi"}),
            loops=frozenset({"asyncio", "uvloop"}),
            arguments=lambda case, port, _: [
                "--bind", f"127.0.0.1:{port}", "--workers", str(case.workers),
                "--worker-class", case.loop, case.endpoint.app,
            ],
            ready=re.compile(r"Running on http"),
            ready_lines=lambda case: case.workers,
            backpressure=lambda _workers: None,
            worker_kind=lambda _case: "process",
            grace=10.0,
            exit_codes=frozenset({0}),
            style=2,
        ),
"""
_METRIC: Final = """\
    Metric("disk_per_request", "disk/request", "B", "lower", 0.004, units.size,
           "Bytes written to disk per request.", rank=13, judged="always", compared=True,
           column=True),
"""
_INTERPRETER: Final = """\
[tool.servebench.interpreters."3.15"]
version = "3.15.0"
free_threaded = false

"""


@dataclass(frozen=True)
class Copy:
    """A copy of the project, in one file of which something was added."""

    root: Path

    def __call__(self, *words: str | Path, code: int = 0) -> str:
        """What Python says in the copy, of which it imports servebench."""
        search = [self.root / "scripts", Path(__file__).parent, Path(sites.__file__).parent]
        env = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, search)),
            "SERVEBENCH_ROOT": str(self.root),
            "XDG_STATE_HOME": str(self.root / "state"),
            "COLUMNS": "300",
        }
        done = subprocess.run(
            [sys.executable, *words], env=env, cwd=self.root, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def servebench(self, *words: str | Path, code: int = 0) -> str:
        return self("-c", "from servebench.cli import main; main()", *words, code=code)

    def ask(self, function: Callable[..., Any]) -> Any:
        """What a function of this module gives in the copy."""
        call = f"import json, test_adding as it; print(json.dumps(it.{function.__name__}()))"
        return json.loads(self("-c", call).splitlines()[-1])

    def planned(self, profile: str = "nightly") -> list[Case]:
        (shard,) = json.loads(self.servebench("plan", "--profile", profile, "--json"))["shards"]
        return list(Plan.model_validate_json(json.dumps(shard["plan"])).cases)

    def page(self, address: str) -> sites.Document:
        return sites.read(self.root / "site" / address / "index.html")

    def changed(self) -> list[str]:
        """The files that are not as in the project."""
        return [
            path.relative_to(self.root).as_posix()
            for name in _NAMES
            for path in sorted(self.root.glob(f"{name}/**/*" if "." not in name else name))
            if path.is_file() and "__pycache__" not in path.parts
            if path.read_bytes() != (_PROJECT / path.relative_to(self.root)).read_bytes()
        ]


@pytest.fixture
def adding(tmp_path: Path) -> Callable[[str, str, str], Copy]:
    def make(file: str, before: str, text: str) -> Copy:
        root = tmp_path / "copy"
        for name in _NAMES:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            if (_PROJECT / name).is_file():
                shutil.copy(_PROJECT / name, root / name)
            else:
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(_PROJECT / name, root / name, ignore=ignored)
        place = root / file
        whole = place.read_text("utf-8")
        assert whole.count(before) == 1
        place.write_text(whole.replace(before, text + before), "utf-8")
        copy = Copy(root)
        assert copy.changed() == [file]
        return copy

    return make


def results_of(*cases: Case, **figures: float) -> None:
    """Store a run of cases in the copy, three launches each."""
    metrics = {"throughput": 5000.0, CPU: 2e-4, "pss_steady": 9e7, **figures}
    results = [
        synthetic.steady_result(case, metrics, launches=3).model_copy(
            update={"commands": commands(case, synthetic.MACHINE)}
        )
        for case in cases
    ]
    packages = {"fastapi": "0.120.0", "hypercorn": "0.18.0"}
    stack = StackRecord(name="current", digest="0" * 64, packages=packages)
    run = synthetic.make_run(results, stacks=(stack,))
    store.finalise(paths.project_root() / "results", run)


def compared(fake: FakeInstruments, case: Case) -> list[str]:
    """A comparison's report, and what it judged of its case."""
    folder = paths.project_root() / "comparing"
    found = compared_by(fake, [case], folder, 3600)
    (folder / "comparison.json").write_text(found.model_dump_json(), "utf-8")
    return [f"{one.metric} {one.verdict.value}" for one in found.cases[0].judgements]


# A server


def hypercorn() -> Any:
    case = synthetic.make_case("echo/echo/py3.14", server="hypercorn")
    results_of(case)
    return {
        "command": commands(case, synthetic.MACHINE).server,
        "judged": compared(FakeInstruments(slower={case.id: 0.05}), case),
        "style": assign(["hypercorn"])["hypercorn"].colour,
    }


def test_a_server_is_one_entry(adding: Callable[[str, str, str], Copy]) -> None:
    copy = adding("scripts/servebench/declare/servers.py", "    )\n}\n", _SERVER)
    for name, text in _EXAMPLE.findall((_PROJECT / "CONTRIBUTING.md").read_text("utf-8")):
        (copy.root / name).parent.mkdir(exist_ok=True)  # the experiment that asks for it
        (copy.root / name).write_text(text.replace('"uvicorn"', '"hypercorn"'), "utf-8")
    assert [case.id for case in copy.planned() if case.server == "hypercorn"] == [
        "echo/echo/py3.14", "echo/echo/py3.14t",
    ]  # fmt: skip
    # It is in no lock: what to do is said before anything is started.
    refused = copy.servebench("run", "--profile", "quick", "--select", "echo/*", code=2)
    assert "no hypercorn" in refused
    assert "add it to the dependency group current of apps/pyproject.toml" in refused
    found = copy.ask(hypercorn)
    assert "$PYTHON -m hypercorn --bind 127.0.0.1:$PORT --workers 1" in found["command"]
    assert f"{CPU} slower" in found["judged"]
    assert found["style"] == "green"
    assert "hypercorn 0.18.0" in copy.servebench("show", "latest")
    assert "echo/echo/py3.14" in copy.servebench("show", "comparing/comparison.json")
    copy.servebench("site", "--no-asv")
    assert "-m hypercorn --bind" in copy.page("b/echo/echo/py3.14").text
    settings, contract = _PROJECT / "pyproject.toml", _PROJECT / "tests/declare/test_servers.py"
    tested = copy(
        "-m", "pytest", "-q", "-c", settings, contract, "-m", "not real", "-k", "[hypercorn]"
    )
    assert "2 passed" in tested


# A metric


@dataclass
class _Disk(FakeInstruments):
    """Head writes a tenth more to the disk."""

    def duet(self, base: SideCase, head: SideCase, *, head_first: bool) -> DuetOutcome:
        found = super().duet(base, head, head_first=head_first)
        written = {"base": 4000.0, "head": 4000.0 if base.rig is head.rig else 4400.0}
        for side, metrics in found.metrics.items():
            metrics["disk_per_request"] = written[side] * self.source.lognormvariate(0, 0.005)
        return found


def disk() -> Any:
    case = synthetic.make_case("asgi-wsgi/asgi-json/py3.14/w1/c128")
    # The experiment of the other has no tables of its own, so that it shows all columns.
    results_of(case, synthetic.make_case("plain/hello/py3.14"), disk_per_request=4096.0)
    return compared(_Disk(), case)


def test_a_judged_metric_is_one_row(adding: Callable[[str, str, str], Copy]) -> None:
    row = '    Metric("warm_up", "warm-up"'
    copy = adding("scripts/servebench/core/metrics.py", row, _METRIC)
    assert "disk_per_request slower" in copy.ask(disk)
    said = copy.servebench("show", "comparing/comparison.json")
    assert "disk/request" in said
    assert "disk/request" in copy.servebench("show", "latest")
    copy.servebench("site", "--no-asv")
    assert "disk/request" in copy.page("b/asgi-wsgi/asgi-json/py3.14/w1/c128").text


# An interpreter


def next_python() -> Any:
    case = synthetic.make_case("asgi-wsgi/asgi-json/py3.15/w1/c128", python="3.15")
    old = synthetic.make_case("asgi-wsgi/asgi-json/py3.14/w1/c128")
    results_of(old, case)
    file = suite_runs.write_configuration(
        suite_runs.configuration(paths.project_root(), None), Path()
    )
    return {
        "judged": compared(FakeInstruments(slower={case.id: 0.05}), case),
        "colours": [style.colour for style in assign(["3.14", "3.14t", "3.15"]).values()],
        "asv": json.loads(file.read_text("utf-8")),
        "inside": suite_runs.steps(["gil"])[0].environments,
    }


def test_an_interpreter_is_one_entry(adding: Callable[[str, str, str], Copy]) -> None:
    table = '[tool.servebench.source-build."3.14.7"]'
    copy = adding("pyproject.toml", table, _INTERPRETER)
    planned = [case.id for case in copy.planned() if case.python == "3.15"]
    assert "asgi-wsgi/asgi-json/py3.15/w1/c128" in planned
    assert "gil-endpoints/sync_sleep/py3.15" in planned
    assert not [case for case in planned if case.startswith("pydantic-v1-v2")]  # 3.14 only
    assert "CPython 3.15" in copy.servebench("doctor", code=1)
    found = copy.ask(next_python)
    assert f"{CPU} slower" in found["judged"]
    assert len(set(found["colours"])) == 3
    assert found["asv"]["pythons"] == ["3.14", "3.14t", "3.15"]
    assert {"python": "3\\.15", "req": {"stack": "pydantic\\-v1"}} in found["asv"]["exclude"]
    assert "servebench-py3.15-stackgil-in-process" in found["inside"]
    assert "3.15" in copy.servebench("show", "latest")
    copy.servebench("site", "--no-asv")
    shown = copy.page("x/asgi-wsgi")
    assert "3.15" in shown.text
    assert "../../b/asgi-wsgi/asgi-json/py3.15/w1/c128/" in shown.links
