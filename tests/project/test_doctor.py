"""The doctor: everything on one page, also when much is missing."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from bench import Done, invoke
from duetbench.cli import doctor
from duetbench.cli.doctor import Diagnosis
from duetbench.host import paths
from duetbench.project import interpreters
from duetbench.project.project import Project

Call = Callable[..., Done]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.chdir(paths.project_root())

    def doctor(*arguments: str, **env: str) -> Done:
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        return invoke(capsys, monkeypatch, ("doctor", *arguments))

    return doctor


@pytest.mark.real
def test_a_machine_that_is_set_up(call: Call) -> None:
    """All is ok, exit code 0; GIL states, versions, checksums and cores are in the JSON."""
    done = call("--json")
    assert done.code == 0, done
    diagnosis = Diagnosis.model_validate(json.loads(done.out))
    assert not diagnosis.lacking
    by_name = {finding.what: finding.detail for finding in diagnosis.findings}
    for name, spec in Project.here().configuration.usual.items():
        state = "off" if spec.free_threaded else "on"
        assert by_name[f"CPython {name}"].startswith(f"{spec.version}, GIL {state}, ")
    assert by_name["oha"].startswith(Project.here().configuration.oha.version)
    assert re.search(r", (prebuilt|source); /", by_name["oha"])
    expected = {
        f"{name} for {python}"
        for name in Project.here().stacks
        for python in Project.here().pythons(name)
    }
    assert expected <= by_name.keys()
    assert diagnosis.machine.server_cores
    brief = call(COLUMNS="100").out.splitlines()
    assert brief[0] == "Ready to measure"
    assert re.match(
        "  (quiet now$|busy now: (other processes use|the hypervisor takes) )", brief[2]
    )
    assert len(brief) < 6, "facts are behind --details"
    assert "frequency governor" in call("--details").out


def test_a_machine_where_nothing_was_made(call: Call, tmp_path: Path) -> None:
    """It still shows all, says what is missing with its remedy, and ends with 1."""
    done = call(XDG_CACHE_HOME=str(tmp_path), COLUMNS="200")
    assert done.code == 1
    first, second, *_ = done.out.splitlines()
    assert first.startswith("Not ready to measure: oha, CPython 3.14, CPython 3.14t")
    assert second.startswith("  oha: missing: ")
    assert "is not installed: run `duetbench setup`" in done.out
    assert done.err == ""


@pytest.mark.real
def test_an_interpreter_that_is_another_by_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was remembered is proven again."""
    proof = {"version": "3.14.7", "free_threaded": False, "gil": True}
    monkeypatch.setattr(interpreters, "prove", lambda _executable: proof)
    diagnosis = doctor.diagnose(Project.here())
    assert "CPython 3.14t" in diagnosis.lacking
    assert {one.state for one in diagnosis.findings if one.what == "CPython 3.14t"} == {"wrong"}
