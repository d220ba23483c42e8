"""Attributions whose right answer is known: does the function that was changed stand in front?

Both sides have a copy of the applications; head of what changes a dependency has a copy of the
environment too, whose paths are of another length: more than two locks' environments differ by.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final

from duetbench.core.errors import SetupError
from duetbench.core.model import Case
from duetbench.judge.selftest import installations, planted
from duetbench.judge.selftest.bench import chosen
from duetbench.judge.selftest.planted import EXPERIMENT, PLANTS, Edit, Plant
from duetbench.measure.duet import SideCase
from duetbench.measure.testbed import Rig
from duetbench.store.attribution import Attribution
from duetbench.store.attribution_trial import AttributionTrial, of_attribution

Engine = Callable[[SideCase, SideCase], Attribution]
"""Attributes the difference of two sides; raises CountError."""

_DEPENDENCIES: Final = {
    "asgi-json": ("starlette/routing.py", "Route.matches"),
    "wsgi-json": ("flask/app.py", "Flask.full_dispatch_request"),
}


def _pairs(number: int) -> Iterator[Plant]:
    """Pairs without a change: copied applications and copied environments by turns."""
    for one in range(number):
        endpoint = list(_DEPENDENCIES)[one // 2 % 2]
        file, function = _DEPENDENCIES[endpoint]
        head = Edit(function=function, file=file) if one % 2 else Edit()
        told = f"{'an environment' if one % 2 else 'the application'} is copied, {endpoint}"
        yield Plant(f"same-{one + 1:02}", told, (), head, endpoint=endpoint)


PAIRS: Final = tuple(_pairs(10))

IN_TURNS: Final = tuple(
    one for number, pair in enumerate(PAIRS) for one in (*PLANTS[2 * number : 2 * number + 2], pair)
)
"""Two plants, then a pair: a self-test that was cut short has some of both."""


def case_of(plant: Plant, python: str) -> Case:
    """The case that a plant is counted in; UsageError: there is none on this interpreter."""
    return _first(f"{EXPERIMENT}/{plant.endpoint}/py{python}/w1/*")


@cache
def _first(select: str) -> Case:
    return chosen([select])[0]


def attempt(
    plant: Plant, case: Case, rig: Rig, scratch: Path, engine: Engine, commit: str | None
) -> AttributionTrial:
    """Make one, with copies below `scratch`.

    Raises:
        CountError: Instructions cannot be counted.
        SetupError: A copy cannot be made, or the plant is outdated.
    """
    with _sides(plant, case, rig, scratch) as (base, head):
        found = engine(base, head)
    return of_attribution(
        found, plant.name, plant.told, plant.functions, unchanged=plant in PAIRS,
        python=case.python, machine=rig.machine.id, commit=commit,
    )  # fmt: skip


@contextmanager
def _sides(
    plant: Plant, case: Case, rig: Rig, scratch: Path
) -> Iterator[tuple[SideCase, SideCase]]:
    with tempfile.TemporaryDirectory(dir=scratch, ignore_cleanup_errors=True) as name:
        base, head = (
            SideCase(case, _changed(rig, case, edit, Path(name) / side))
            for side, edit in (("base", plant.base), ("head", plant.head))
        )
        yield base, head


def _changed(rig: Rig, case: Case, edit: Edit, folder: Path) -> Rig:
    apps = folder / "apps"
    shutil.copytree(rig.apps, apps, ignore=shutil.ignore_patterns("__pycache__"))
    changed = replace(rig, apps=apps)
    if not edit.file:
        module = case.endpoint.app.partition(":")[0]
        planted.insert(apps / case.experiment / f"{module}.py", edit)
        return changed
    pair = case.stack, case.python
    python = installations.environment(
        rig.pythons[pair].parent.parent, folder / "environment",
        rig.interpreters[case.python].executable.resolve(),
    )  # fmt: skip
    found = sorted(python.parent.parent.glob(f"lib/python*/site-packages/{edit.file}"))
    if not found:
        raise SetupError(f"expected {edit.file} in {python}: the plant is outdated")
    planted.insert(found[0], edit)
    return replace(changed, pythons={**rig.pythons, pair: python})
