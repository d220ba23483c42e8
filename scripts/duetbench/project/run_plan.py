"""What will be run: the cases of a profile, selected, counted and shared out."""

import difflib
import random
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Final

from duetbench.core.errors import UsageError
from duetbench.core.model import Case, Plan, Profile, Run
from duetbench.project.duration import expected
from duetbench.project.project import Project
from duetbench.project.schema import PROFILES

LAUNCHES: Final[dict[Profile, int]] = {"quick": 1, "nightly": 1, "published": 1}
"""Launches per case. They give absolute figures: what moved is said by duets. (An interval takes
two, and a judgement three.)"""

_SUGGESTIONS: Final = 3


def make_plan(
    project: Project, profile: Profile, select: Sequence[str], launches: int | None, seed: int
) -> Plan:
    """Choose the cases of a profile that any of the globs in `select` matches; no globs: all.

    `launches` per case default to the profile's. UsageError: a glob selects nothing, or `launches`
    is not positive. DeclarationError: a declaration is wrong.
    """
    if launches is not None and launches < 1:
        raise UsageError(f"launches: expected 1 or more, found {launches}")
    cases = project.cases(profile)
    for glob in select:
        if not any(fnmatchcase(case.id, glob) for case in cases):
            raise UsageError(_selects_nothing(glob, profile, project))
    if select:
        cases = tuple(c for c in cases if any(fnmatchcase(c.id, glob) for glob in select))
    return Plan(
        profile=profile,
        launches=LAUNCHES[profile] if launches is None else launches,
        seed=seed,
        cases=cases,
    )


def of_run(run: Run) -> Plan:
    """The plan that a run was started with."""
    return Plan(
        profile=run.profile,
        launches=run.launches,
        seed=run.seed,
        cases=tuple(result.case for result in run.results),
    )


def launch_order(plan: Plan) -> tuple[tuple[Case, int], ...]:
    """All launches of a plan: each round, numbered from 0, holds every case once in its own order.

    Drift of the machine then falls on all cases alike, and no case always follows the same other.
    """
    order = random.Random(plan.seed)  # noqa: S311 - an order that can be repeated, not a secret
    steps: list[tuple[Case, int]] = []
    for number in range(plan.launches):
        cases = list(plan.cases)
        order.shuffle(cases)
        steps += [(case, number) for case in cases]
    return tuple(steps)


def lasting(plan: Plan, seconds: float) -> Plan:
    """The same plan with loads of another duration."""

    def changed(case: Case) -> Case:
        load = case.load.model_copy(update={"duration": seconds})
        return case.model_copy(update={"load": load})

    return plan.model_copy(update={"cases": tuple(changed(case) for case in plan.cases)})


def plan_seconds(plan: Plan) -> float:
    """Seconds that a plan is expected to take."""
    return plan.launches * sum(expected(case, plan.profile).total for case in plan.cases)


def load_seconds(plan: Plan) -> float:
    """Seconds of a plan in which load is measured."""
    return plan.launches * sum(expected(case, plan.profile).load for case in plan.cases)


def _selects_nothing(glob: str, profile: Profile, project: Project) -> str:
    message = f"--select {glob!r} selects nothing in profile {profile}"
    for other in PROFILES:
        matches = [c.id for c in project.cases(other) if fnmatchcase(c.id, glob)]
        if matches:
            return f"{message}; in profile {other} it selects {len(matches)}, such as {matches[0]}"
    ids = [case.id for case in project.cases(profile)]
    near = difflib.get_close_matches(glob, ids, n=_SUGGESTIONS, cutoff=0.3) or ids[:_SUGGESTIONS]
    return f"{message}; near: {', '.join(near)}" if near else f"{message}, which has no cases"
