"""Pydantic 1 against 2 from asv's results: alone in the process, and what of it reaches a response.

The rows end to end come from a run with real servers; its ratios have intervals over launches.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from servebench import summary
from servebench.inprocess.readings import Reading, Snapshot
from servebench.inprocess.tables import cell, label, quotient, spread_note
from servebench.model import Case
from servebench.report import formats
from servebench.report.shapes import ShapeResult, judge
from servebench.report.tables import Cell, Row, Table
from servebench.summary import Estimate, RunSummary

MODULE: Final = "pydantic_models"
EXPERIMENT: Final = "pydantic-v1-v2"
PYTHON: Final = "3.14"
V1, V2, CURRENT = "pydantic-v1", "pydantic-v2", "current"
END_TO_END: Final = (("service_p50", "median response"), ("server_cpu_per_request", "CPU/request"))
VALIDATION: Final = (f"{MODULE}.Validate.time_valid", {"size": "20", "source": "python"})
"""What a response of the experiment contains, alone."""
CLEARLY: Final = 1.2
"""So many times the gain of the whole response is clearly more."""


def table(snapshot: Snapshot, run: RunSummary | None) -> Table | None:
    """Both versions side by side; None when asv has no figure of either."""
    readings = _readings(snapshot)
    by_key = {(r.benchmark, r.params, r.stack): r for r in readings}
    rows = []
    for benchmark, params in dict.fromkeys((r.benchmark, r.params) for r in readings):
        sides = [by_key.get((benchmark, params, stack)) for stack in (V1, V2, CURRENT)]
        if not any(side and side.status == "measured" for side in sides):
            continue
        gain = quotient(sides[0], sides[1])
        cells = [cell(side) for side in sides]
        cells.insert(2, Cell(formats.MISSING if gain is None else formats.ratio(gain)))
        rows.append(Row(keys=("in process", label(benchmark, params)), cells=tuple(cells)))
    if not rows:
        return None
    notes = [spread_note(readings)]
    if run is not None and (further := list(_end_to_end(run))):
        rows += further
        notes.append(f"end to end: run {run.run.id}; the ratios with their intervals over launches")
    return Table(
        title="Pydantic 1 and 2: alone, and in a response",
        keys=("where", "what"),
        columns=("Pydantic 1", "Pydantic 2", "1 / 2", "current stack"),
        rows=tuple(rows),
        notes=tuple(note for note in notes if note),
    )


def shape(snapshot: Snapshot, run: RunSummary | None) -> ShapeResult:
    """Does validation alone gain clearly more than the core time of the response around it?"""
    benchmark, params = VALIDATION
    sides = {
        reading.stack: reading
        for reading in _readings(snapshot)
        if reading.benchmark == benchmark and reading.param == params
    }
    alone = quotient(sides.get(V1), sides.get(V2))
    whole = _costs(run) if run is not None else None
    ours = None
    if alone is not None and whole is not None:
        ours = Estimate(
            n=whole.n,
            mean=alone / whole.mean,
            low=None if whole.high is None else alone / whole.high,
            high=None if whole.low is None else alone / whole.low,
        )
    verdict = judge(ours, CLEARLY, None)
    reason = {
        "not measured": "it takes asv's figures of both stacks and a run with closed connections",
        "not decided": "the interval reaches over the limit: more launches would decide",
        "holds": "",
        "does not hold": "",
    }[verdict]
    return ShapeResult(
        statement="validating 20 services gains clearly more from Pydantic 2 than their response",
        expected=formats.limits(CLEARLY, None),
        published=None,
        ours=ours,
        verdict=verdict,
        reason=reason,
    )


def _readings(snapshot: Snapshot) -> list[Reading]:
    stacks = {V1, V2, CURRENT}
    return [r for r in snapshot.of(MODULE) if r.python == PYTHON and r.stack in stacks]


def _costs(run: RunSummary) -> Estimate | None:
    """How many times the core time of Pydantic 2's response that of 1 takes, connections closed."""
    for by_stack in _arms(run).values():
        if V1 in by_stack and V2 in by_stack and by_stack[V1].load.rate is None:
            return _gain(run, by_stack, "server_cpu_per_request")
    return None


def _end_to_end(run: RunSummary) -> Iterator[Row]:
    """What a response gains: one row per load and metric that both arms have."""
    for load, by_stack in _arms(run).items():
        if not {V1, V2} <= set(by_stack):
            continue
        for metric, title in END_TO_END:
            gain = _gain(run, by_stack, metric)
            if gain is None:
                continue
            cells = [_cell(run, by_stack.get(stack), metric) for stack in (V1, V2, CURRENT)]
            interval = formats.ratio_interval(gain)
            text = formats.ratio(gain.mean) + (f" ({interval})" if interval else "")
            cells.insert(2, Cell(text))
            yield Row(keys=("end to end", f"{title}, {load}"), cells=tuple(cells))


def _arms(run: RunSummary) -> dict[str, dict[str, Case]]:
    """The experiment's cases by load, then by stack."""
    arms: dict[str, dict[str, Case]] = {}
    for found in run.cases.values():
        case = found.case
        if case.experiment == EXPERIMENT and case.python == PYTHON:
            kind = "users" if case.load.rate is not None else "connections"
            arms.setdefault(f"{case.load.connections} {kind}", {})[case.stack] = case
    return arms


def _gain(run: RunSummary, by_stack: dict[str, Case], metric: str) -> Estimate | None:
    sides = [summary.values(run.run, by_stack[stack].id, metric) for stack in (V1, V2)]
    return summary.ratio(*sides)


def _cell(run: RunSummary, case: Case | None, metric: str) -> Cell:
    found = run.cases[case.id].metrics.get(metric) if case is not None else None
    return Cell(
        formats.figure(metric, found.mean if found else None),
        case=case.id if found and case else "",
    )
