"""One launch, real: what a good one gives, and the same by hand."""

import dataclasses
import json
import os
import shlex
import sqlite3
import subprocess
from collections.abc import Callable, Collection
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest

from bench import PROJECT, Bench, all_cases, declared, eventually, failures, shortened
from duetbench.core.errors import FlagName, LaunchError, SetupError
from duetbench.core.metrics import METRICS
from duetbench.core.model import Case, Launch, LoadModel
from duetbench.host import ports
from duetbench.host.command import scrub
from duetbench.host.machine import allocate
from duetbench.host.process_session import Session
from duetbench.measure import identity, launch, validity, verify
from duetbench.measure.assembly import assemble
from duetbench.measure.testbed import ENTRY, Testbed
from duetbench.project.project import Project

pytestmark = pytest.mark.usefixtures("patient_verification")

Perform = Callable[..., Launch]

ALWAYS = {
    *("throughput", "requests", "timeouts", "errors"),
    *(f"response_{point}" for point in ("min", "mean", "p50", "max")),
    *("server_cpu_per_request", "server_cores", "host_steal", "ready_time"),
    *("pss_idle", "pss_steady", "threads_peak"),
    *("switches_voluntary", "unit_service", "warm_up", "import_time"),
}  # fmt: skip

BUSY = {FlagName.HOST_NOISE, FlagName.IMPOSSIBLE, FlagName.NO_ANSWER}
"""What a machine that does other things can do to the small load of a test."""


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[validity.Facts]:
    seen: list[validity.Facts] = []
    real = validity.judge

    def judge(facts: validity.Facts) -> Any:
        seen.append(facts)
        return real(facts)

    monkeypatch.setattr(validity, "judge", judge)
    return seen


@pytest.fixture
def perform(state_home: Path, tmp_path: Path) -> Perform:
    def do(
        case: Case,
        *,
        testbed: Callable[[Testbed], Testbed] = lambda same: same,
    ) -> Launch:
        given = testbed(assemble(Project.here(), [case], tmp_path / "logs"))
        log = tmp_path / "logs" / "server.log"
        outcome = launch.perform(case, given, log, window=0.1)
        assert not list((state_home / "duetbench" / "sessions").glob("*.json"))
        return outcome

    return do


@pytest.mark.real
@pytest.mark.parametrize(
    "case_id",
    [
        "asgi-wsgi/wsgi-json/py3.14t/w1/t64/c128",
        pytest.param("await-patterns/async_concurrent/py3.14/wait0.3", marks=pytest.mark.thorough),
        "pydantic-v1-v2/pydantic-v1/py3.14/u200",
    ],
)
def test_a_good_launch_has_all_figures(case_id: str, perform: Perform) -> None:
    case = declared(case_id)
    for _ in range(3):  # on a machine that does other things, the closed loop may empty for long
        outcome = perform(shortened(case))
        if not failures(outcome) or not BUSY & {flag.name for flag in outcome.flags}:
            break
    assert not failures(outcome), outcome.flags
    figures = outcome.metrics
    assert figures.keys() >= ALWAYS
    assert figures.keys() <= METRICS.keys()
    assert figures["requests"] > 0
    assert figures["throughput"] > 0
    assert figures["server_cpu_per_request"] > 0
    assert 0 < outcome.load_seconds < outcome.seconds
    rates = {"offered", "service_p50"}
    assert (figures.keys() & rates) == (set() if case.load.model is LoadModel.CLOSED else rates)
    assert FlagName.CONNECTIONS_CLOSED not in {flag.name for flag in outcome.flags}


@pytest.mark.real
@pytest.mark.parametrize("server", ["granian", pytest.param("uvicorn", marks=pytest.mark.thorough)])
def test_workers_and_cores(
    server: str,
    bench: Bench,
    perform: Perform,
    judged: list[validity.Facts],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two workers that log nothing: both are met, watched, counted, and pinned as the server is."""
    affinities: dict[int, list[int]] = {}
    real = ports.connections_per_process

    def midway(
        port: int, members: list[psutil.Process], without: Collection[int]
    ) -> dict[int, int]:
        affinities.update({p.pid: p.cpu_affinity() or [] for p in members})
        return real(port, members, without)

    monkeypatch.setattr(ports, "connections_per_process", midway)
    case = declared("badapps/right", root=bench.root)
    quiet = case.endpoint.model_copy(update={"app": "quiet:app"})
    case = case.model_copy(update={"workers": 2, "server": server, "endpoint": quiet})
    outcome = perform(shortened(case, duration=1))
    assert not failures(outcome), outcome.flags
    (facts,) = judged
    assert facts.pids_before == facts.pids_after == affinities.keys()
    assert len(affinities) >= 3, "a master and two workers"
    cores = allocate()
    if cores.pinned:
        assert {tuple(found) for found in affinities.values()} == {cores.server}
    assert len(facts.connections) == 2
    assert sum(facts.connections) == case.load.connections


@pytest.mark.real
@pytest.mark.usefixtures("state_home")
def test_the_recorded_commands_can_be_repeated(tmp_path: Path) -> None:
    """Copied into a shell in the project's root, with the placeholders set, they do the same.

    They serve the bare application: nothing of ours has to be installed there.
    """
    case = shortened(declared("asgi-wsgi/wsgi-json/py3.14/w1/t64/c128"))
    testbed = assemble(Project.here(), [case], tmp_path / "logs")
    commands, port = testbed.commands(case), ports.free_port()
    env = {
        "PATH": os.pathsep.join((str(testbed.oha.parent), os.environ["PATH"])),
        "PYTHON": str(testbed.pythons[case.stack, case.python]),
        "PORT": str(port),
    }
    base = f"http://127.0.0.1:{port}"
    log = tmp_path / "server.log"
    with Session.start(
        ["sh", "-c", commands.server], role="server", cores=None, env=env, cwd=PROJECT, log=log
    ):
        eventually("it listens", lambda: bool(ports.listening(port)))
        verify.verify(case.endpoint, base)
        with pytest.raises(LaunchError, match="expected status 200, found 404"):
            identity.probe(base, workers_expected=1)
        done = subprocess.run(
            ["sh", "-c", commands.load],
            env=env, cwd=tmp_path, capture_output=True, text=True, check=True,
        )  # fmt: skip
    statuses = json.loads(done.stdout)["statusCodeDistribution"]
    with closing(sqlite3.connect(tmp_path / "rows.sqlite")) as database:
        ((count,),) = database.execute("SELECT count(*) FROM oha")
    assert statuses == {str(case.endpoint.expect.status): count}


@pytest.mark.real
def test_recorded_commands_name_no_folder_of_this_machine(tmp_path: Path) -> None:
    usual = Project.here().configuration.usual
    cases = [case for case in all_cases() if case.python in usual]
    testbed = assemble(Project.here(), cases, tmp_path)
    for case in cases:
        commands = testbed.commands(case)
        for word in shlex.split(f"{commands.server} {commands.load}"):
            for part in word.partition("=")[2].split(":") if "=" in word else [word]:
                assert not Path(part).is_absolute(), (case.id, word)
        assert commands.server.count("$PORT") == 1
        single = f"http://127.0.0.1:$PORT{case.endpoint.path}"
        assert (single in shlex.split(commands.load)) != bool(case.endpoint.paths), case.id
        for name, value in case.env.items():
            assert f"{name}={value.replace('{tmp}', '$TMP')} " in commands.server


@pytest.mark.real
@pytest.mark.parametrize(
    "path",
    [
        "/json?q=$(touch owned)",
        '/json?q="; touch owned; "',
        "/json?q='; touch owned; '",
        "/$HOME/$PORT$PORTS/${PORT}\\$(touch owned)!!",
    ],
)
def test_a_declared_path_is_inert_in_a_shell(path: str, tmp_path: Path) -> None:
    """Who proposes a declaration runs nothing on the machine of who copies its command."""
    case = declared("pydantic-v1-v2/current/py3.14/c16")
    case = case.model_copy(
        update={
            "endpoint": case.endpoint.model_copy(update={"path": path}),
            "env": {"NAME": f"$PYTHON{path}"},
        }
    )
    commands = assemble(Project.here(), [case], tmp_path).commands(case)
    given = {"PORT": "8000", "PYTHON": "python", "HOME": "home", "PATH": os.environ["PATH"]}
    for command, start in ((commands.load, "http://127.0.0.1:8000"), (commands.server, "NAME=")):
        done = subprocess.run(
            ["sh", "-c", f"printf '%s\\n' {command}"],
            env=given, cwd=tmp_path, capture_output=True, text=True, check=True,
        )  # fmt: skip
        named = "python" if start == "NAME=" else ""
        wanted = f"{start}{named}{path}".replace("$PORT$PORTS", "8000$PORTS")
        assert wanted in done.stdout.splitlines()
        assert not (tmp_path / "owned").exists()


@pytest.mark.real
def test_a_server_inherits_what_is_named_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What could change the measurement unseen stays outside; the case's own variables count."""
    for name in ("PYTHON_GIL", "UVICORN_WORKERS", "GRANIAN_LOOP", "http_proxy", "PYTHONPATH"):
        monkeypatch.setenv(name, "1")
    case = declared("await-patterns/async_concurrent/py3.14/wait0.3")
    environment = assemble(Project.here(), [case], tmp_path).environment(case)
    assert environment.keys() <= {
        *("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ"),
        *("PYTHONPATH", "PYTHONUNBUFFERED", "DUETBENCH_WAIT_S"),
        *("DUETBENCH_APP", "DUETBENCH_FACTORY", "DUETBENCH_INTERFACE", "DUETBENCH_LOOP"),
    }
    assert environment["DUETBENCH_WAIT_S"] == "0.3"
    apps = PROJECT / "apps"
    assert environment["PYTHONPATH"] == f"{ENTRY}:{apps / 'await-patterns'}:{apps}"


@pytest.mark.real
def test_shared_cores_are_all_cores(tmp_path: Path) -> None:
    """Split: to each its own; shared: both get all."""
    case = declared("asgi-wsgi/asgi-json/py3.14/w1/c128")
    testbed = assemble(Project.here(), [case], tmp_path)
    machine = testbed.machine.model_copy(update={"server_cores": (0, 1, 2), "client_cores": (3,)})
    testbed = dataclasses.replace(testbed, machine=machine)
    assert (testbed.server_cores(case), testbed.client_cores(case)) == ((0, 1, 2), (3,))
    shared = case.model_copy(update={"cores": "shared"})
    assert (testbed.server_cores(shared), testbed.client_cores(shared)) == ((0, 1, 2, 3),) * 2


def test_what_was_never_set_up_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(SetupError, match="duetbench setup"):
        assemble(Project.here(), [declared("asgi-wsgi/asgi-json/py3.14/w1/c128")], tmp_path)


def test_reasons_name_no_folder_of_this_machine_and_do_nothing_to_a_terminal() -> None:
    text = f"in {PROJECT}/apps/x.py of {Path.home()}/y:   no\tspace"
    assert scrub(text) == "in ./apps/x.py of ~/y: no space"
    assert scrub("\x1b[31mred\x1b[0m\x07 \x1b]0;title\x00") == "red ]0;title"
