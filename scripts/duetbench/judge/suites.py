"""Compares two revisions by a project's own tests: what each request of theirs does. No server."""

import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from duetbench.app import interpreters, revisions, target
from duetbench.app.declarations import project_name
from duetbench.app.setting import Contrast
from duetbench.core import __version__
from duetbench.core.comparison import (
    FAILURE,
    CaseComparison,
    Comparison,
    Finding,
    Instructions,
    SideRecord,
)
from duetbench.core.errors import UsageError
from duetbench.core.metrics import MATERIAL
from duetbench.core.model import Case, Endpoint, Expectation, Load, Missing, Verdict
from duetbench.core.text import some
from duetbench.core.units import utc_now
from duetbench.counts import counted
from duetbench.effects import suite
from duetbench.effects.suite import Suite
from duetbench.host import files, machine, paths, result_files
from duetbench.judge.duet_loop import Reporter
from duetbench.judge.findings import of_instructions, of_request, sort
from duetbench.judge.preparation import Scope, copy_states
from duetbench.judge.repetition import command

SERVER: Final = "tests"
"""What stands in place of a server in a case whose requests tests make."""

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
) -> Comparison:
    """Compare two revisions by tests, files or folders below `root`; save the result.

    Both run those of head, or of the revision `tests_of`. `calls` are functions to call instead,
    such as `shop.tasks:send_invoice`, whose instructions are counted if asked for, and `env`
    variables. `words` are the options of a command
    that repeats it.

    Raises:
        UsageError: The sides are no revisions, or there are no such tests, or no pytest.
        SetupError: The tests do not run on a side.
    """
    if contrast.base or contrast.head:
        raise UsageError("--tests and --call compare revisions: expected no --base and no --head")
    ours, started, began = Suite.find(root, tests, calls, env), utc_now(), time.monotonic()
    python = interpreters.identify(ours.python)
    with revisions.copies() as copies:
        states = copy_states(root, contrast, Scope((), reporter, copies, loaded=False))
        places = [place for place, _ in states]
        tests_at = places[1]
        if tests_of:
            tests_at = revisions.lay_out(root, revisions.resolve(root, tests_of), copies)
        for place in places:
            revisions.add_uncommitted(root, place)
            if place != tests_at:
                ours.add_tests(tests_at, place)
        what = " ".join(calls) or f"the tests of {' '.join(ours.tests)}"
        with reporter.step(what, "on both sides") as tick:
            seen = suite.compare(ours, places[0], places[1], tick)
        counts = dict[str, Instructions | str]()
        for name in calls if count else ():
            with reporter.step(name, "its instructions"):
                sides = [partial(ours.program, place, name) for place in places]
                counts[f"call {name}"] = counted.both(sides, counted.LONGEST)
    for note in seen.notes:
        reporter.note(note)
    ran = interpreters.record(python)
    base, head = (
        SideRecord(
            label=state.label,
            kind="revision",
            commit=state.commit or None,
            dirty=state.dirty,
            stacks=(),
            interpreters=(ran,),
        )
        for _, state in states
    )
    project = project_name(root)
    cases = tuple(_case(project, python.name, endpoint) for endpoint in seen.rows)
    most = target.configuration(root).most
    findings = [
        finding
        for case in cases
        if case.effects is not None
        for finding in of_request(case.case.id, case.effects, most)
        if finding.verdict is not Verdict.SAME or not case.effects.same
    ]
    for name, outcome in counts.items():
        if isinstance(outcome, str):
            reporter.note(f"{name}: instructions not counted: {outcome}")
        else:
            limit = {**MATERIAL, **target.configuration(root).material}["cpu"]
            findings.append(of_instructions(f"{project}/{name}", outcome, limit))
    findings += [
        Finding(case=test, subject=FAILURE, verdict=Verdict.WORSE, exact=True,
                why="passes on base and fails on head")
        for test in seen.broken
    ]  # fmt: skip
    alike = sum(row.effects.same for row in seen.rows)
    told = [f"{alike:,} of {len(cases):,} endpoints do the same"] if alike else []
    for state in ("new", "gone"):
        if names := [row.name for row in seen.rows if row.state == state]:
            told.append(f"{state}: {some(names, _NAMED)}")
    made = "calls" if calls else f"requests of {seen.tests:,} tests,"
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
        untouched=0,
        missing=tuple(Missing(case=f"{project}/{name}", reason=_LOST) for name in seen.lost),
        cases=cases,
        findings=sort(findings),
        reproduce=command(base, head, words) if words else "",
        nothing="" if cases else "; ".join(seen.notes) or suite.NO_CLIENT,
        notes=(*seen.notes, *told, f"{seen.requests:,} {made} on both sides"),
    )
    result_files.save_comparison(comparison, paths.project_state(root))
    return comparison


def _case(project: str, python: str, endpoint: suite.Row) -> CaseComparison:
    """Record an endpoint as a case, which no server serves."""
    method, _, route = endpoint.name.partition(" ")
    case = Case(
        id=f"{project}/{endpoint.name}",
        experiment=project,
        endpoint=Endpoint(
            name=endpoint.name, app=SERVER, interface="asgi", method=method, path=route,
            expect=Expectation(status=endpoint.effects.status), floor=0.0,
        ),
        python=python,
        stack=target.STACK,
        server=SERVER,
        loop="auto",
        workers=1,
        load=Load(connections=1, duration=1.0, timeout=1.0),
        cores="shared",
    )  # fmt: skip
    because = f"{endpoint.requests:,} requests of tests"
    return CaseComparison(case=case, because=because, effects=endpoint.effects)
