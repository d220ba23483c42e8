"""Contracts of the applications: every declared one is started and asked, so new ones are covered.

Each app runs under each interpreter, stack, server and loop that any case names, as a real server.
"""

import json
import math
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from duetbench.core.errors import SetupError
from duetbench.core.model import Case, Endpoint
from duetbench.host import ports
from duetbench.host.process_session import Session
from duetbench.measure import identity, verify
from duetbench.measure.runner import assemble
from duetbench.measure.testbed import Testbed
from duetbench.project import requests, stacks
from duetbench.project.experiments import Experiment
from duetbench.project.project import Project
from duetbench.project.schema import PROFILES
from duetbench.project.servers import SERVERS

pytestmark = pytest.mark.real

READY_SECONDS = 30.0

EXPERIMENTS = {experiment.name: experiment for experiment in Project.here().experiments}


def arrangements() -> dict[str, list[Case]]:
    """All cases by what is started for them; among equal endpoints the one that waits least."""
    found: dict[str, dict[str, Case]] = {}
    for experiment in EXPERIMENTS.values():
        for profile in PROFILES:
            for case in filter(_can_be_served, experiment.cases[profile]):
                key = " ".join(
                    (case.experiment, case.endpoint.app, case.stack, case.python, case.server,
                     case.loop)
                )  # fmt: skip
                endpoints = found.setdefault(key, {})
                other = endpoints.get(case.endpoint.name)
                if other is None or _effort(case) < _effort(other):
                    endpoints[case.endpoint.name] = case
    return {key: list(endpoints.values()) for key, endpoints in found.items()}


def _can_be_served(case: Case) -> bool:
    """Whatever set-up makes is asked; what is optional, if it was made here."""
    project = Project.here()
    if case.python in project.settings.usual:
        return True
    with suppress(SetupError):
        return bool(stacks.executable(project.lock(case.stack), project.interpreter(case.python)))
    return False


def _effort(case: Case) -> tuple[float, int, int]:
    return case.endpoint.floor, case.workers, -(case.threads or 0)


def verify_only(experiment: Experiment, app: str) -> list[Endpoint]:
    """The endpoints of an app that no case loads."""
    return [
        Endpoint(
            name=name, app=table.app, interface=table.interface, path=table.path,
            method=table.method, headers=table.headers, body=table.body, expect=table.expect,
            floor=0,
        )
        for name, table in experiment.declared.endpoints.items()
        if table.verify_only and table.app == app
    ]  # fmt: skip


@contextmanager
def serving(case: Case, prepared: Testbed, log: Path) -> Iterator[str]:
    """Start the case's server as a launch does, without pinning."""
    server, port = SERVERS[case.server], ports.free_port()
    session = Session.start(
        prepared.server_argv(case, port),
        role="server", cores=None, cwd=prepared.folder(case),
        env=prepared.environment(case, values={"tmp": str(log.parent), "port": str(port)}),
        log=log,
    )  # fmt: skip
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        report = session.stop(server.grace)
    assert not report.killed, log.read_text()


@pytest.mark.usefixtures("patient_verification")
@pytest.mark.parametrize("arrangement", arrangements())
def test_every_app_answers_as_declared_wherever_a_case_runs_it(
    arrangement: str, tmp_path: Path, state_home: Path
) -> None:
    """Status, content type, body, floor and overlap; and the process is what the case names."""
    cases = arrangements()[arrangement]
    # One server for all endpoints: their variables are put together, and must not contradict.
    merged = {name: value for case in cases for name, value in case.env.items()}
    assert all(case.env.items() <= merged.items() for case in cases)
    first = cases[0].model_copy(update={"env": merged})
    logs = state_home / "logs"
    prepared = assemble(Project.here(), cases, logs)
    python = prepared.interpreters[first.python]
    with serving(first, prepared, tmp_path / "server.log") as url:
        asgi = first.endpoint.interface == "asgi"
        visible = asgi or SERVERS[first.server].worker_kind(python.free_threaded) == "process"
        identities = identity.probe(
            url, workers_expected=first.workers if visible else 1, timeout=READY_SECONDS
        )
        identity.check_identity(
            identities,
            free_threaded=python.free_threaded,
            python_version=python.version,
            packages=prepared.stacks[first.stack].packages,
            required=(first.server,),
            loop=first.loop if asgi else None,
            jit=python.jit,
        )
        for case in cases:
            verify.verify(case.endpoint, url, repeats=1)
        for endpoint in verify_only(EXPERIMENTS[first.experiment], first.endpoint.app):
            verify.verify(endpoint, url, repeats=1)


HOOKS = {"orders:app": ["RequestLog", "CORSMiddleware", "GZipMiddleware"]}

_STATIC = "/static/<path:filename>"
_LOOK = """
import importlib, json, sys
name, attribute = sys.argv[1].split(":")
app = getattr(importlib.import_module(name), attribute)
if hasattr(app, "url_map"):
    rules = [rule.rule for rule in app.url_map.iter_rules()]
    hooks = [*app.before_request_funcs, *app.after_request_funcs, *app.teardown_request_funcs]
    wrapped = "wsgi_app" in vars(app)
else:
    rules = [route.path for route in app.routes]
    hooks, wrapped = [one.cls.__name__ for one in app.user_middleware], False
print(json.dumps({"rules": rules, "hooks": hooks, "wrapped": wrapped}))
"""


@pytest.mark.parametrize(
    ("experiment", "app"),
    sorted({(n, t.app) for n, e in EXPERIMENTS.items() for t in e.declared.endpoints.values()}),
)
def test_nothing_of_ours_is_in_the_request_path(
    experiment: str, app: str, state_home: Path
) -> None:
    """No middleware or hook but a real application's own, and no route that nobody declares."""
    case = next(
        case
        for profile in PROFILES
        for case in EXPERIMENTS[experiment].cases[profile]
        if case.endpoint.app == app
    )
    prepared = assemble(Project.here(), [case], state_home / "logs")
    done = subprocess.run(
        [prepared.pythons[case.stack, case.python], "-c", _LOOK, app],
        env=prepared.environment(case), cwd=prepared.folder(case),
        capture_output=True, check=True, text=True,
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert (found["hooks"], found["wrapped"]) == (HOOKS.get(app, []), False)
    declared = EXPERIMENTS[experiment].declared.endpoints.values()
    paths = {
        path.partition("?")[0]
        for table in declared
        if table.app == app
        for path in requests.paths((table.path, *table.paths), prepared.folder(case))
    }
    framework = {"/openapi.json", "/docs", "/docs/oauth2-redirect", "/redoc", _STATIC}
    rules = [re.compile(re.sub(r"{\w+}", r"\\w+", rule)) for rule in found["rules"]]
    assert [path for path in paths if not any(rule.fullmatch(path) for rule in rules)] == []
    unused = {rule.pattern for rule in rules if not any(map(rule.fullmatch, paths))}
    assert unused <= framework


def test_waits_reach_the_handlers() -> None:
    for experiment in EXPERIMENTS.values():
        for profile in PROFILES:
            for case in experiment.cases[profile]:
                if "DUETBENCH_WAIT_S" in case.env:
                    waits = case.endpoint.floor / float(case.env["DUETBENCH_WAIT_S"])
                    assert math.isclose(waits, round(waits)), case.id
                    assert round(waits) in {1, 3}, case.id
