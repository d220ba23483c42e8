"""Contracts of the applications: every declared one is started and asked, so new ones are covered.

Each app runs in each environment, and behind each server, that any case names, as a real server.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from bench import all_cases, experiments
from duetbench.app.testbed import SideCase, assemble
from duetbench.core.model import Case, Endpoint
from duetbench.load import verify
from duetbench.load.server import Serving
from observatory.matrix.checkout import Checkout

pytestmark = pytest.mark.real

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


def unloaded(case: Case) -> list[Endpoint]:
    """The endpoints of the case's application that no case loads."""
    experiment = EXPERIMENTS[case.experiment]
    loaded = {name for block in experiment.declaration.cases for name in block.endpoint}
    return [
        experiment._endpoint(name, table.model_copy(update={"floor": "0"}), {})
        for name, table in experiment.declaration.endpoints.items()
        if name not in loaded and table.app == case.endpoint.app
    ]


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
    side = SideCase(first, assemble(Checkout.here(), cases, state_home / "logs"))
    with Serving(side, tmp_path / "server.log") as server:
        server.start()
        server.meet()
        for endpoint in (*(case.endpoint for case in cases), *unloaded(first)):
            verify.verify(server.workspace.fill_in(endpoint), server.port, repeats=1)
        server.stop()
    assert not server.flags
