"""What CONTRIBUTING.md says of adding things: its worked example, and one place for each kind."""

import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

import synthetic
from bench import Bench
from comparing import CPU
from duetbench import cli as tool
from duetbench.core.model import Run, StackRecord, Status
from duetbench.host import paths
from duetbench.measure.testbed import SideCase
from duetbench.store import files, run_files
from duetbench.store.comparison import Duet
from fake_sessions import FakeInstruments, compared_by
from foreign import commands
from observatory import cli
from repos import write

_PROJECT: Final = paths.project_root()
_NAMES: Final = (
    "CONTRIBUTING.md", "apps", "benchmarks", "docs", "scripts/duetbench", "scripts/observatory",
    "pyproject.toml", "asv.conf.json",
)  # fmt: skip
_FENCE: Final = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_BLOCKS: Final = _FENCE.findall((_PROJECT / "CONTRIBUTING.md").read_text("utf-8"))
_FILES: Final = {name: text for _, name, text in _BLOCKS if name}
_SERVER: Final = """\
        Server(
            name="daphne",
            interfaces=frozenset({"asgi"}),
            loops=frozenset({"asyncio", "uvloop"}),
            arguments=lambda case, port: [
                "--bind", f"127.0.0.1:{port}", "--workers", str(case.workers),
                "--worker-class", case.loop, *_factory(case), case.endpoint.app,
            ],
            backpressure=lambda _workers: None,
            worker_kind=lambda _case: "process",
            grace=10.0,
            exit_codes=frozenset({0}),
        ),
"""
_METRIC: Final = """\
    Metric("disk_per_request", size, "Bytes written to disk per request.", "disk/request",
           lower=0.004, rank=13, situation="always", compared=True, column=True),
"""
_INTERPRETER: Final = """\
[interpreters."3.16"]
version = "3.16.0"
free_threaded = false

"""
_ADDED: Final = {
    "scripts/duetbench/core/metrics.py": ('    Metric("warm_up"', _METRIC),
    "scripts/duetbench/project/pins/duetbench.toml": (
        '[source-build."3.14.7"]', _INTERPRETER,
    ),
    "scripts/duetbench/project/servers.py": ("    )\n}\n", _SERVER),
}  # fmt: skip
"""What is added to a file, and before what."""
_JSON: Final = "asgi-wsgi/asgi-json/py{}/w1/c128"


@dataclass
class _Disk(FakeInstruments):
    """Head writes a tenth more to the disk."""

    def duets(
        self, pairs: Sequence[tuple[SideCase, SideCase]], *, head_first: bool, order: int
    ) -> tuple[Duet, ...]:
        found = super().duets(pairs, head_first=head_first, order=order)
        for one, (base, head) in zip(found, pairs, strict=True):
            written = {"base": 4000.0, "head": 4000.0 if base.testbed is head.testbed else 4400.0}
            for side, metrics in (("base", one.base), ("head", one.head)):
                metrics["disk_per_request"] = written[side] * self.source.lognormvariate(0, 0.005)
        return found


def verb(*words: str, code: int = 0) -> str:
    """What a verb of the copy's says, and how it ends, in this process."""
    heard, ended = io.StringIO(), 0
    sys.argv = ["observatory", *words]
    with redirect_stdout(heard), redirect_stderr(heard):
        try:
            (tool if words[0] == "show" else cli).main()
        except SystemExit as end:
            ended = int(end.code or 0)
    assert ended == code, heard.getvalue()
    return heard.getvalue()


def asked() -> dict[str, Any]:
    """What the copy's code makes of them: a plan, a stored run, a comparison."""
    root = paths.project_root()
    verb("measure", "--dry-run", "--profile", "nightly", "-o", "planned.json")
    said = {
        "planned": (root / "planned.json").read_text("utf-8"),
        # It is in no lock: what to do is said before anything is started.
        "refused": verb("measure", "--profile", "quick", "--select", "echo/*", code=2),
    }
    server = synthetic.make_case("echo/echo/py3.14", server="daphne")
    newer = synthetic.make_case(_JSON.format("3.16"), python="3.16")
    # The experiment of the last has no tables of its own, so that it shows all columns.
    cases = [server, newer, *map(synthetic.make_case, (_JSON.format("3.14"), "plain/hello/py3.14"))]
    metrics = {"throughput": 5000.0, CPU: 2e-4, "pss_steady": 9e7, "disk_per_request": 4096.0}
    results = [
        synthetic.steady_result(case, metrics).model_copy(
            update={"commands": commands(case, synthetic.MACHINE)}
        )
        for case in cases
    ]
    packages = {"fastapi": "0.120.0", "daphne": "4.2.1"}
    stack = StackRecord(name="current", digest="0" * 64, packages=packages)
    run_files.finalise(root / "results", synthetic.make_run(results, stacks=(stack,)))
    slower = dict.fromkeys((server.id, newer.id), 0.05)
    found = compared_by(_Disk(slower=slower), [server, newer], root / "comparing", 3600)
    (root / "comparing" / "comparison.json").write_text(found.model_dump_json(), "utf-8")
    said |= {"run": verb("show", "latest"), "comparison": verb("show", "comparing/comparison.json")}
    return {
        **said,
        "command": commands(server, synthetic.MACHINE).server,
        "judged": [[f"{finding.subject} {finding.verdict}" for finding in found.findings
                    if finding.case == case.case.id and not finding.exact] for case in found.cases],
    }  # fmt: skip


@pytest.mark.long
def test_each_is_added_in_one_place(tmp_path: Path) -> None:
    root = tmp_path / "copy"
    for name in _NAMES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        if (_PROJECT / name).is_file():
            shutil.copy(_PROJECT / name, root / name)
        else:
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(_PROJECT / name, root / name, ignore=ignored)
    for name, (before, text) in _ADDED.items():
        whole = (root / name).read_text("utf-8")
        assert whole.count(before) == 1
        (root / name).write_text(whole.replace(before, text + before), "utf-8")
    for name, text in _FILES.items():  # the experiment asks for the server
        write(root, name, text.replace('"uvicorn"', '"daphne"'))
    search = [root / "scripts", Path(__file__).parent, Path(synthetic.__file__).parent]
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, search)),
        "DUETBENCH_ROOT": str(root),
        "XDG_STATE_HOME": str(root / "state"),
        "COLUMNS": "300",
    }

    asking = "import json, test_adding as it; print(json.dumps(it.asked()))"
    done = subprocess.run(
        [sys.executable, "-c", asking], env=env, cwd=root, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    plan = json.loads(found["planned"])["plan"]
    planned = {case["id"]: case for case in plan["cases"]}
    assert [name for name, case in planned.items() if case["server"] == "daphne"] == [
        "echo/echo/py3.14", "echo/echo/py3.14t",
    ]  # fmt: skip
    newer = [name for name, case in planned.items() if case["python"] == "3.16"]
    assert {_JSON.format("3.16"), "gil-endpoints/sync_sleep/py3.16"} <= set(newer)
    assert not [name for name in newer if name.startswith("pydantic-v1-v2")]  # 3.14 only
    assert "no daphne" in found["refused"]
    assert "add it to the dependency group current of apps/pyproject.toml" in found["refused"]

    assert "$PYTHON -m daphne --bind 127.0.0.1:$PORT --workers 1" in found["command"]
    assert len(found["judged"]) == 2
    for judged in found["judged"]:
        assert {f"{CPU} worse", "disk_per_request worse"} <= set(judged)

    assert all(text in found["run"] for text in ("daphne 4.2.1", "disk/request", "3.16"))
    assert all(text in found["comparison"] for text in ("disk/request", "FastAPI's echo"))


@pytest.mark.real
def test_the_example_is_planned_measured_and_shown(
    tmp_path: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "checkout"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(_PROJECT / "apps", root / "apps", ignore=ignored)
    shutil.copy(_PROJECT / "pyproject.toml", root)
    (root / "results").mkdir()
    for name, text in _FILES.items():
        write(root, name, text)
    monkeypatch.setenv("DUETBENCH_ROOT", str(root))
    (console,) = [text for kind, _, text in _BLOCKS if kind == "console"]
    heard = []
    for line in console.splitlines():
        program, *words = shlex.split(line.removeprefix("$ "))
        done = bench(*([program] if program == "observatory" else []), *words)
        assert done.code == 0, f"{line}: {done}"
        heard.append(done.out)
    assert "echo" in heard[0]
    assert "echo/py3.14t" in heard[1]
    run = files.read(Run, run_files.runs(root / "results")[-1])
    assert [result.case.id for result in run.results] == ["echo/echo/py3.14", "echo/echo/py3.14t"]
    for result in run.results:
        (launch,) = result.launches
        assert launch.status is Status.OK, launch.flags
        assert launch.metrics["requests"] > 100
