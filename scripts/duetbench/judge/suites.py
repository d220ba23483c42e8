"""Compares two revisions by a project's own tests: what each request of theirs does. No server."""

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from duetbench.app import interpreters, revisions, target
from duetbench.app.declarations import project_name
from duetbench.app.in_process import Program
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
    Missing,
)
from duetbench.core.effects import AnswerDifference, EffectKind, Effects, RequestEffect
from duetbench.core.errors import UsageError
from duetbench.core.metrics import MATERIAL
from duetbench.core.model import Case, Endpoint, Expectation, Load, Verdict
from duetbench.core.text import hider, some
from duetbench.core.units import utc_now
from duetbench.counts import counted
from duetbench.effects import suite
from duetbench.effects.activity import COUNT, Operation
from duetbench.effects.difference import KINDS
from duetbench.effects.suite import Key, Pair, SuiteEffects
from duetbench.host import files, machine, paths
from duetbench.judge import affected
from duetbench.judge.duet_loop import Reporter
from duetbench.judge.findings import of_effects, of_instructions, sort
from duetbench.judge.preparation import Extent, Scope, copy_states, record_of
from duetbench.judge.repetition import command

_MOST_ANSWERS: Final = 3  # of one endpoint
_NAMED: Final = 5  # endpoints that a note names
_LOST: Final = "its requests are not the same ones on both sides"


@dataclass(frozen=True, slots=True)
class Row:
    """What requests of tests to one route of an application do.

    Attributes:
        name: `GET /items/{id}`.
        effects: What differs in any of its requests; each figure from where it differs most.
        requests: How many there are on both sides.
        state: Whether only one side has it: `new` or `gone`.
    """

    name: str
    effects: Effects
    requests: int
    state: str


def compare(
    root: Path,
    contrast: Contrast,
    tests: Sequence[str],
    extent: Extent,
    reporter: Reporter,
    *,
    calls: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    words: Sequence[str] = (),
    tests_of: str = "",
) -> Comparison:
    """Compare two revisions by tests, files or folders below `root`; save the result.

    Both run those of head, or of the revision `tests_of`. `calls` are functions to call instead,
    such as `shop.tasks:send_invoice`, and `env` variables. Instructions are counted, and equal
    files compared, if the extent says so. `words` are the options of a command that repeats it.

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
        base_at, head_at = places = [place for place, _ in states]
        equal = len({state.tree for _, state in states}) == 1 and not extent.everything
        seen, counts = SuiteEffects(), dict[str, Instructions | str]()
        if not equal:
            tests_at = head_at
            if tests_of:
                tests_at = revisions.lay_out(root, revisions.resolve(root, tests_of), copies)
            for place in places:
                revisions.add_uncommitted(root, place)
                if place != tests_at:
                    project_suite.add_tests(tests_at, place)
            what = " ".join(calls or project_suite.tests)
            with reporter.step(what, "running on both sides") as tick:
                seen = suite.compare(project_suite, base_at, head_at, tick)
            counts = _count(project_suite, places, reporter) if extent.only == "counts" else counts
    uncounted = [f"{name}: instructions not counted: {reason}"
                 for name, reason in counts.items() if isinstance(reason, str)]  # fmt: skip
    for note in (*seen.notes, *uncounted):
        reporter.note(note)
    base, head = (
        record_of(state, kind="revision", stacks=(), interpreters=(python,)) for _, state in states
    )
    rows = by_endpoint(seen.pairs, seen.effects)
    lost = sorted(seen.endpoints - {row.name for row in rows})
    project, declared = project_name(root), target.configuration(root)
    cases = tuple(_case(project, python.name, row) for row in rows)
    limit = {**MATERIAL, **declared.limits, **extent.material}["cpu"]
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
        missing=tuple(Missing(case=f"{project}/{name}", reason=_LOST) for name in lost),
        cases=cases,
        findings=sort(findings),
        reproduce=command(base, head, words) if words else "",
        nothing="" if cases else nothing,
        notes=(*seen.notes, *uncounted, *([] if equal else _made(seen, rows, calls))),
    )
    files.save_comparison(comparison, paths.project_state(root))
    return comparison


def by_endpoint(pairs: Mapping[Key, Pair], effects: Mapping[Key, Effects]) -> Sequence[Row]:
    """Return one row for each method and route, those that differ first."""
    groups: dict[str, list[Key]] = defaultdict(list)
    for key, (old, new) in pairs.items():
        groups[(old if old.routed and not new.routed else new).endpoint].append(key)
    rows = []
    for name, keys in groups.items():
        moved = sorted(
            (key for key in keys if not effects[key].same),
            key=lambda key: _size(effects[key]),
            reverse=True,
        )
        joined = _joined([(pairs[key][1], effects[key]) for key in moved or keys[:1]])
        routed = [{pairs[key][side].routed for key in keys} for side in (0, 1)]
        state = "new" if routed == [{False}, {True}] else "gone" * (routed == [{True}, {False}])
        rows.append(Row(name, joined, len(keys), state))
    return sorted(rows, key=lambda row: _size(row.effects), reverse=True)


def _size(effects: Effects) -> tuple[bool, bool, int, float]:
    """How much differs, in an order for readers: kinds that tell more are larger."""
    broken = any(answer.broken for answer in effects.answers)
    ranks = ((-KINDS.index(e.kind), _rise(e)) for e in effects.differ)
    return broken, bool(effects.answers), *max(ranks, default=(-len(KINDS), 0.0))


def _joined(moved: Sequence[tuple[Operation, Effects]]) -> Effects:
    """Join what requests to one endpoint do differently; each figure from where it is largest."""
    differ: dict[tuple[EffectKind, str], RequestEffect] = {}
    totals: dict[EffectKind, tuple[float, float]] = {}
    replies: dict[str, AnswerDifference] = {}
    for operation, effects in moved:
        for effect in effects.differ:
            key = effect.kind, "" if effect.kind == "function" else effect.text
            differ[key] = max(differ.get(key, effect), effect, key=_rise)
        kinds = {effect.kind for effect in effects.differ}
        for kind, (old, new) in effects.totals.items():
            both = (old if kind in kinds else new), new  # what is not reliably otherwise is not
            totals[kind] = max(
                totals.get(kind, both), both, key=lambda ends: abs(ends[1] - ends[0])
            )
        for answer in effects.answers:
            replies.setdefault(answer.what, answer.model_copy(update={"path": operation.path}))
    return moved[0][1].model_copy(
        update={
            "differ": tuple(sorted(differ.values(), key=lambda e: KINDS.index(e.kind))),
            "totals": totals,
            "answers": tuple(replies.values())[:_MOST_ANSWERS],
            "tests": tuple(dict.fromkeys(op.test for op, effects in moved if not effects.same)),
            "unmeasured": "",  # each request is made once
        }
    )


def _rise(effect: RequestEffect) -> float:
    return abs(effect.head - effect.base)


def _made(seen: SuiteEffects, rows: Sequence[Row], calls: Sequence[str]) -> Sequence[str]:
    """Say how many endpoints do the same, which one side alone has, and how much was compared."""
    alike = sum(row.effects.same for row in rows)
    same = [f"{alike:,} of {len(rows):,} endpoints do the same"] if alike else []
    tests = f" of {seen.tests:,} test{'s' * (seen.tests != 1)}" * (not calls)
    made = "call" if calls else "request"
    states = {state: [r.name for r in rows if r.state == state] for state in ("new", "gone")}
    return [
        *same,
        *(f"{state}: {some(names, _NAMED)}" for state, names in states.items() if names),
        f"{len(seen.pairs):,} {made}{'s' * (len(seen.pairs) != 1)}{tests}, each on both sides",
    ]


@contextmanager
def _caller(project_suite: Suite, place: Path, name: str) -> Iterator[Program]:
    """Provide what calls a function of a copy again and again, to be counted."""
    yield Program(
        project_suite.python,
        ("-m", suite.PROGRAM, COUNT, name),
        project_suite.environment(place),
        place,
        hider(project_suite.private()),
    )


def _count(
    project_suite: Suite, places: Sequence[Path], reporter: Reporter
) -> dict[str, Instructions | str]:
    """Count the functions of both copies, or say why not, by the names of their endpoints."""
    counts = dict[str, Instructions | str]()
    for name in project_suite.calls:
        with reporter.step(name, "its instructions"):
            sides = [partial(_caller, project_suite, place, name) for place in places]
            counts[f"call {name}"] = counted.both(sides, counted.LONGEST)
    return counts


def _case(project: str, python: str, endpoint: Row) -> CaseComparison:
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
