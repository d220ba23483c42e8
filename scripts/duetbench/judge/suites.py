"""Compares two revisions by a project's own tests: what each request of theirs does. No server."""

import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from duetbench.app import interpreters, revisions, target
from duetbench.app.declarations import project_name
from duetbench.app.project_tests import Suite
from duetbench.app.setting import Contrast
from duetbench.core import __version__
from duetbench.core.comparison import (
    FAILURE,
    TESTS,
    CaseComparison,
    Comparison,
    Finding,
    Instructions,
    SideRecord,
)
from duetbench.core.errors import UsageError
from duetbench.core.metrics import MATERIAL, Concern
from duetbench.core.model import Case, Endpoint, Expectation, Load, Missing, Verdict
from duetbench.core.text import some
from duetbench.core.units import utc_now
from duetbench.counts import counted
from duetbench.effects import suite
from duetbench.effects.suite import SuiteEffects
from duetbench.host import files, machine, paths
from duetbench.judge import affected
from duetbench.judge.duet_loop import Reporter
from duetbench.judge.findings import of_effects, of_instructions, sort
from duetbench.judge.preparation import Scope, copy_states
from duetbench.judge.repetition import command

_NAMED: Final = 5  # endpoints that a note names
_LOST: Final = "its requests are not the same ones on both sides"


def compare(
    root: Path,
    contrast: Contrast,
    tests: Sequence[str],
    reporter: Reporter,
    *,
    calls: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    words: Sequence[str] = (),
    tests_of: str = "",
    count: bool = False,
    control: bool = False,
    material: Mapping[Concern, float] | None = None,
) -> Comparison:
    """Compare two revisions by tests, files or folders below `root`; save the result.

    Both run those of head, or of the revision `tests_of`. `calls` are functions to call instead,
    such as `shop.tasks:send_invoice`, whose instructions are counted if asked for, and `env`
    variables. Equal files are compared only as a `control`. `words` are the options of a command
    that repeats it, and `material` the sizes that somebody acts on, instead of the repository's.

    Raises:
        UsageError: The sides are no revisions, or there are no such tests, or no pytest.
        SetupError: The tests do not run on a side.
    """
    if contrast.base or contrast.head:
        raise UsageError("--tests and --call compare revisions: expected no --base and no --head")
    project_suite = Suite.find(root, tests, calls, env)
    started, began = utc_now(), time.monotonic()
    python = interpreters.identify(project_suite.python)
    with revisions.copies() as copies:
        states = copy_states(root, contrast, Scope((), reporter, copies, loaded=False))
        places = [place for place, _ in states]
        tests_at = (
            revisions.lay_out(root, revisions.resolve(root, tests_of), copies)
            if tests_of
            else places[1]
        )
        for place in places:
            revisions.add_uncommitted(root, place)
            if place != tests_at:
                project_suite.add_tests(tests_at, place)
        equal = len({state.tree for _, state in states}) == 1 and not control
        seen = SuiteEffects((), 0, 0, (), (), ())
        if not equal:
            what = " ".join(calls or project_suite.tests)
            with reporter.step(what, "running on both sides") as tick:
                seen = suite.compare(project_suite, places[0], places[1], tick)
        counts = _count(project_suite, places, reporter) if count and not equal else {}
    uncounted = [f"{name}: instructions not counted: {reason}"
                 for name, reason in counts.items() if isinstance(reason, str)]  # fmt: skip
    for note in (*seen.notes, *uncounted):
        reporter.note(note)
    base, head = (
        SideRecord(
            label=state.label,
            kind="revision",
            commit=state.commit or None,
            dirty=state.dirty,
            stacks=(),
            interpreters=(python,),
        )
        for _, state in states
    )
    project, declared = project_name(root), target.configuration(root)
    cases = tuple(_case(project, python.name, endpoint) for endpoint in seen.rows)
    limit = {**MATERIAL, **declared.limits, **(material or {})}["cpu"]
    findings = [
        *(finding for case in cases if case.effects is not None
          for finding in of_effects(case.case, case.effects)
          if finding.verdict is not Verdict.SAME or not case.effects.same),
        *(of_instructions(f"{project}/{name}", outcome, limit)
          for name, outcome in counts.items() if not isinstance(outcome, str)),
        *(Finding(case=test, subject=FAILURE, verdict=Verdict.WORSE, exact=True,
                  why="passes on base and fails on head") for test in seen.broken),
    ]  # fmt: skip
    nothing = affected.Diff().nothing() if equal else "; ".join(seen.notes) or suite.NO_CLIENT
    comparison = Comparison(
        id=files.result_id(started, "compare", head.commit),
        status="complete",
        started=started,
        wall_seconds=time.monotonic() - began,
        duetbench=__version__,
        machine=machine.fingerprint(),
        cross=False,
        start=False,
        counts_only=True,
        base=base,
        head=head,
        planned=len(cases),
        untouched=int(equal),
        missing=tuple(Missing(case=f"{project}/{name}", reason=_LOST) for name in seen.lost),
        cases=cases,
        findings=sort(findings),
        reproduce=command(base, head, words) if words else "",
        nothing="" if cases else nothing,
        notes=(*seen.notes, *uncounted, *([] if equal else _made(seen, calls))),
    )
    files.save_comparison(comparison, paths.project_state(root))
    return comparison


def _made(seen: SuiteEffects, calls: Sequence[str]) -> Sequence[str]:
    """Say how many endpoints do the same, which one side alone has, and how much was compared."""
    alike = sum(row.effects.same for row in seen.rows)
    same = [f"{alike:,} of {len(seen.rows):,} endpoints do the same"] if alike else []
    tests = f" of {seen.tests:,} test{'s' * (seen.tests != 1)}" * (not calls)
    made = "call" if calls else "request"
    states = {state: [r.name for r in seen.rows if r.state == state] for state in ("new", "gone")}
    return [
        *same,
        *(f"{state}: {some(names, _NAMED)}" for state, names in states.items() if names),
        f"{seen.requests:,} {made}{'s' * (seen.requests != 1)}{tests}, each on both sides",
    ]


def _count(
    project_suite: Suite, places: Sequence[Path], reporter: Reporter
) -> dict[str, Instructions | str]:
    """Count the functions of both copies, or say why not, by the names of their endpoints."""
    counts = dict[str, Instructions | str]()
    for name in project_suite.calls:
        with reporter.step(name, "its instructions"):
            sides = [partial(suite.program, project_suite, place, name) for place in places]
            counts[f"call {name}"] = counted.both(sides, counted.LONGEST)
    return counts


def _case(project: str, python: str, endpoint: suite.Row) -> CaseComparison:
    """Record an endpoint as a case, which no server serves."""
    method, _, route = endpoint.name.partition(" ")
    case = Case(
        id=f"{project}/{endpoint.name}",
        experiment=project,
        endpoint=Endpoint(
            name=endpoint.name, app=TESTS, interface="asgi", method=method, path=route,
            expect=Expectation(status=endpoint.effects.status), floor=0.0,
        ),
        python=python,
        stack=target.STACK,
        server=TESTS,
        loop="auto",
        workers=1,
        load=Load(connections=1, duration=1.0, timeout=1.0),
        cores="shared",
    )  # fmt: skip
    because = f"{endpoint.requests:,} requests of tests"
    return CaseComparison(case=case, because=because, effects=endpoint.effects)
