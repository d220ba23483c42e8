"""Builders for attacks: a night, what its machines send, and a checkout's facts."""

import json
from datetime import UTC, datetime
from typing import Any, Final

from bench import PROJECT
from comparing import FIGURES, comparison_of, judged_case
from duetbench import __version__
from duetbench.core.comparison import Comparison, Finding, Missing, SideRecord
from duetbench.core.model import Case, Run
from duetbench.host import result_files
from fake_github import BASE, HEAD
from goldens import record
from observatory.github.incoming import Night
from observatory.measure import asv_plugin
from observatory.store.change import Change
from observatory.store.points import Points
from synthetic import MACHINE, a_file, make_case, make_run, of, ratio, steady_result

NOW: Final = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
COMMIT: Final = "3f2a9c17" * 5
MACHINES: Final = tuple(
    MACHINE.model_copy(update={"id": f"synthetic-2c-00000{number}"}) for number in (1, 2, 3)
)
_SOURCE: Final = make_run(())

DATE: Final = 1_795_000_000_000
"""Of the night's commit, ms since 1970: 2026-11-18."""

LOCKS: Final = {record.name: record for record in _SOURCE.stacks}


def night() -> Night:
    return Night(COMMIT, "2026-11", [*_cases(1), *_cases(2), *_cases(3)], LOCKS)


def _cases(number: int) -> tuple[Case, ...]:
    ids = [f"asgi-wsgi/e{number}{letter}/py3.14/w1/c128" for letter in "ab"]
    return tuple(make_case(name, slots=None) for name in ids)  # 12,800/s at most


def night_run(number: int, **changes: Any) -> Run:
    results = [steady_result(case, FIGURES) for case in _cases(number)]
    fields = {
        "duetbench": __version__,
        "machine": MACHINES[number - 1],
        "id": f"20261120T09000{number - 1}Z-nightly-3f2a9c17",
        "started": f"2026-11-20T09:00:0{number - 1}+00:00",
    }
    return make_run(results, **{**fields, **changes})


def inside(**changes: Any) -> dict[str, Any]:
    """Results of asv in one environment at the commit: three figures, one of them missing."""
    document = record("asv")
    document["params"] |= asv_plugin.profile(MACHINES[0])
    return {**document, "commit_hash": COMMIT, "date": DATE, **changes}


LISTED: Final = {
    "gil.Cpu.time_tasks": {
        "version": "1",
        "unit": "seconds",
        "params": [["'serial'"], ["1", "2", "4"]],
        "param_names": ["mode", "tasks"],
    }
}
"""asv's list of benchmarks."""


def asv_files(results: Any) -> dict[str, bytes]:
    """What asv leaves beside its results of a machine, with them."""
    name = MACHINES[0].id
    contents = {
        "asv/benchmarks.json": LISTED,
        f"asv/{name}/machine.json": {"machine": name, "version": 1},
        f"asv/{name}/{results['commit_hash'][:8]}-duetbench-py3.14-stackcurrent.json": results,
    }
    return {path: json.dumps(value).encode() for path, value in contents.items()}


def points(number: int = 1, **changes: Any) -> Points:
    """The anchored points of a machine: of its first case."""
    run, when = night_run(number), datetime(2026, 11, 20, 10, tzinfo=UTC)
    first, second = (case.id for case in _cases(number))
    fields: dict[str, Any] = {
        "id": "20261120T100000Z-night-0a1b2c",
        "anchor": "2026-11",
        "origin": "night",
        "label": COMMIT[:12],
        "machine": run.machine.id,
        "when": when,
        "started": when,
        "commit": COMMIT,
        "stacks": run.stacks,
        "missing": (Missing(case=second, reason="head: not_ready: 60 s"),),
    }
    return a_file(20, of(first, ratio(1.02)), **{**fields, **changes})


def comparison(*judged: Finding, **changes: Any) -> Comparison:
    """A comparison of BASE and HEAD in one case, as duetbench makes them."""
    empty = {"kind": "revision", "stacks": (), "interpreters": ()}
    fields: dict[str, Any] = {
        name: SideRecord(label=name, commit=commit, **empty)
        for name, commit in (("base", BASE), ("head", HEAD))
    }
    fields["machine"] = MACHINES[0]
    case = judged_case("asgi-wsgi/e/py3.14/w1/c128", *judged)
    return comparison_of(case, **{**fields, **changes})


RESULTS: Final = PROJECT / "results"


def judge_candidate(name: str = "20261115-current-anchored-4c02c9") -> tuple[Change, Comparison]:
    """Return a conclusion as it was recorded, which has its candidate's id, and the evidence."""
    record = result_files.read(Change, RESULTS / "changes" / f"{name}.json")
    return record, result_files.read(
        Comparison, RESULTS / "comparisons" / f"{record.evidence}.json"
    )
