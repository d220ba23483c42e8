"""Contracts of the applications: every declared one is started and asked, so new ones are covered.

Each app runs in each environment, and behind each server, that any case names, as a real server.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from bench import all_cases, eventually, experiments
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
def arrangements() -> dict[tuple[str, ...], list[Case]]:
    """Cases by what is started for them; among equal endpoints the one that waits least.

    Every application in each environment that set-up makes, behind each server with its loop.
    """
    by_start: dict[tuple[str, ...], dict[str, Case]] = {}
    usual = Checkout.here().declared.usual
    for case in (case for case in all_cases() if case.python in usual):
        program, environment = (case.experiment, case.endpoint.app), (case.stack, case.python)
        endpoints = by_start.setdefault((*program, *environment, case.server, case.loop), {})
        other = endpoints.get(case.endpoint.name)
        if other is None or _effort(case) < _effort(other):
            endpoints[case.endpoint.name] = case
    return {key: list(endpoints.values()) for key, endpoints in by_start.items()}


def _params() -> Iterator[object]:
    """Yield the arrangements: all but the first of each application are for a thorough look."""
    seen = set[tuple[str, ...]]()
    for key in arrangements():
        marks = [pytest.mark.thorough] * (key[:2] in seen)
        yield pytest.param(key, marks=marks, id=" ".join(key))
        seen.add(key[:2])


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
        role="server",
        cores=None,
        cwd=side.folder,
        env=side.environment(values={"tmp": str(log.parent), "port": str(port)}),
        log=log,
    )
    try:
        eventually("it listens", lambda: bool(ports.listening(port)))
        yield port
    finally:
        report = session.stop(GRACE_SECONDS)
    assert not report.killed, log.read_text()


@pytest.mark.parametrize("arrangement", list(_params()))
def test_every_app_answers_as_declared_wherever_a_case_runs_it(
    arrangement: tuple[str, ...], tmp_path: Path, state_home: Path
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
