"""Contracts of the applications: every declared one is started and asked, so new ones are covered.

Each app runs in each environment, and behind each server, that any case names, as a real server.
"""

import json
import math
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from bench import all_cases, eventually, experiments
from duetbench.app import request_lines
from duetbench.app.servers import SERVERS
from duetbench.app.testbed import SideCase, Testbed, assemble
from duetbench.core.model import Case, Endpoint
from duetbench.host import ports
from duetbench.host.process_session import Session
from duetbench.load import identity, verify
from duetbench.load.server import GRACE_SECONDS
from observatory.matrix.checkout import Checkout
from observatory.matrix.experiments import Experiment

pytestmark = pytest.mark.real

READY_SECONDS = 30.0

EXPERIMENTS = {experiment.name: experiment for experiment in experiments()}


@cache
def arrangements() -> dict[str, list[Case]]:
    """Cases by what is started for them; among equal endpoints the one that waits least.

    In pairs: every application in each environment that set-up makes, and behind each server with
    its loop, and each of these in each environment. A launch asks before it measures, whatever
    meets, and where an optional interpreter was made.
    """
    found: dict[tuple[str, ...], dict[str, Case]] = {}
    usual = Checkout.here().declared.usual
    for case in (case for case in all_cases() if case.python in usual):
        app, environment = (case.experiment, case.endpoint.app), (case.stack, case.python)
        endpoints = found.setdefault((*app, *environment, case.server, case.loop), {})
        other = endpoints.get(case.endpoint.name)
        if other is None or _effort(case) < _effort(other):
            endpoints[case.endpoint.name] = case
    chosen, tried = {}, set[tuple[object, ...]]()
    for key, endpoints in found.items():
        program, place, server = key[:2], key[2:4], key[4:]
        pairs: set[tuple[object, ...]] = {(program, server), (server, place), (program, place)}
        pairs |= {(program, name) for name in endpoints}
        if not pairs <= tried:
            tried |= pairs
            chosen[" ".join(key)] = list(endpoints.values())
    return chosen


def _params() -> Iterator[object]:
    """Yield the arrangements: all but the first of each application are for a thorough look."""
    seen = set[tuple[str, str]]()
    for name, (first, *_) in arrangements().items():
        program = first.experiment, first.endpoint.app
        yield pytest.param(name, marks=pytest.mark.thorough) if program in seen else name
        seen.add(program)


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
        for name, table in experiment.declaration.endpoints.items()
        if table.verify_only and table.app == app
    ]  # fmt: skip


@contextmanager
def serving(case: Case, prepared: Testbed, log: Path) -> Iterator[int]:
    """Start the case's server as a launch does, without pinning, and wait until it is ready."""
    port, side = ports.free_port(), SideCase(case, prepared)
    session = Session.start(
        side.server_argv(port),
        role="server", cores=None, cwd=side.folder,
        env=side.environment(values={"tmp": str(log.parent), "port": str(port)}),
        log=log,
    )  # fmt: skip
    try:
        eventually("it listens", lambda: bool(ports.listening(port)))
        yield port
    finally:
        report = session.stop(GRACE_SECONDS)
    assert not report.killed, log.read_text()


@pytest.mark.parametrize("arrangement", list(_params()))
def test_every_app_answers_as_declared_wherever_a_case_runs_it(
    arrangement: str, tmp_path: Path, state_home: Path
) -> None:
    """Status, content type, body and floor; and the process is what the case names."""
    cases = arrangements()[arrangement]
    # One server for all endpoints: their variables are put together, and must not contradict.
    merged = {name: value for case in cases for name, value in case.env.items()}
    assert all(case.env.items() <= merged.items() for case in cases)
    first = cases[0].model_copy(update={"env": merged})
    logs = state_home / "logs"
    prepared = assemble(Checkout.here(), cases, logs)
    python = prepared.interpreters[first.python]
    with serving(first, prepared, tmp_path / "server.log") as port:
        asgi = first.endpoint.interface == "asgi"
        visible = asgi or SERVERS[first.server].worker_kind(python.free_threaded) == "process"
        identities = identity.probe(
            port, workers_expected=first.workers if visible else 1, timeout=READY_SECONDS
        )
        identity.check_identity(identities, first, python, prepared.stacks[first.stack].packages)
        for case in cases:
            verify.verify(case.endpoint, port, repeats=1)
        for endpoint in verify_only(EXPERIMENTS[first.experiment], first.endpoint.app):
            verify.verify(endpoint, port, repeats=1)


HOOKS = {"orders:app": ["RequestLog", "CORSMiddleware", "GZipMiddleware"]}

_STATIC = "/static/<path:filename>"
_LOOK = """
import importlib, json, os, sys
found = {}
for called, folder, variables in json.load(sys.stdin):
    os.chdir(folder)
    os.environ.update(variables)
    sys.path[:0] = variables["PYTHONPATH"].split(os.pathsep)
    name, attribute = called.split(":")
    app = getattr(importlib.import_module(name), attribute)
    if hasattr(app, "url_map"):
        rules = [rule.rule for rule in app.url_map.iter_rules()]
        hooks = [*app.before_request_funcs, *app.after_request_funcs, *app.teardown_request_funcs]
        wrapped = "wsgi_app" in vars(app)
    else:
        rules = [route.path for route in app.routes]
        hooks, wrapped = [one.cls.__name__ for one in app.user_middleware], False
    found[called] = {"rules": rules, "hooks": hooks, "wrapped": wrapped}
print(json.dumps(found))
"""


def test_nothing_of_ours_is_in_the_request_path(state_home: Path) -> None:
    """No middleware or hook but a real application's own, and no route that nobody declares."""
    declared = [t for e in EXPERIMENTS.values() for t in e.declaration.endpoints.values()]
    cases: dict[str, Case] = {}
    for case in all_cases():
        cases.setdefault(case.endpoint.app, case)
    assert cases.keys() == {table.app for table in declared}
    prepared = assemble(Checkout.here(), list(cases.values()), state_home / "logs")
    looks: dict[Path, list[tuple[str, str, dict[str, str]]]] = defaultdict(list)
    for app, case in cases.items():
        side = SideCase(case, prepared)
        looks[side.python].append((app, str(side.folder), side.environment()))
    found: dict[str, Any] = {}
    for python, wanted in looks.items():
        done = subprocess.run(
            [python, "-c", _LOOK], input=json.dumps(wanted), env=prepared.inherited,
            capture_output=True, check=True, text=True,
        )  # fmt: skip
        found |= json.loads(done.stdout)
    framework = {"/openapi.json", "/docs", "/docs/oauth2-redirect", "/redoc", _STATIC}
    for app, case in cases.items():
        seen = found[app]
        assert (seen["hooks"], seen["wrapped"]) == (HOOKS.get(app, []), False), app
        paths = {
            path.partition("?")[0]
            for table in declared
            if table.app == app
            for path in request_lines.paths(
                (table.path, *table.paths), prepared.subject.folder(case)
            )
        }
        rules = [re.compile(re.sub(r"{\w+}", r"\\w+", rule)) for rule in seen["rules"]]
        unknown = [path for path in paths if not any(rule.fullmatch(path) for rule in rules)]
        assert unknown == [], app
        unused = {rule.pattern for rule in rules if not any(map(rule.fullmatch, paths))}
        assert unused <= framework, app


def test_waits_reach_the_handlers() -> None:
    for case in all_cases():
        if "DUETBENCH_WAIT_S" in case.env:
            waits = case.endpoint.floor / float(case.env["DUETBENCH_WAIT_S"])
            assert math.isclose(waits, round(waits)), case.id
            assert round(waits) in {1, 3}, case.id
