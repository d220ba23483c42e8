"""Comparisons for tests of what is written about them: judgements, cases, and whole records."""

from __future__ import annotations

from typing import Any, Final

from servebench.record.comparison import (
    CaseComparison,
    Comparison,
    Judgement,
    MicroComparison,
    SideRecord,
    Verdict,
)
from synthetic import MACHINE, make_case

CPU: Final = "server_cpu_per_request"
SLOWER: Final = Judgement(
    metric=CPU, verdict=Verdict.SLOWER, ratio=1.0213, low=1.0161, high=1.0265,
    detectable=0.0062, p=0.0004, screened=8, confirmed=8,
)  # fmt: skip
FASTER: Final = SLOWER.model_copy(
    update={"verdict": Verdict.FASTER, "ratio": 0.97, "low": 0.96, "high": 0.98}
)
LARGER: Final = SLOWER.model_copy(
    update={"metric": "pss_steady", "ratio": 1.1, "low": 1.09, "high": 1.11}
)
SAME: Final = Judgement(
    metric=CPU, verdict=Verdict.NO_CHANGE, ratio=1.0004, low=0.9961, high=1.0047,
    detectable=0.0081, screened=8,
)  # fmt: skip
OPEN: Final = Judgement(
    metric=CPU, verdict=Verdict.INCONCLUSIVE, ratio=1.006, low=0.991, high=1.021,
    detectable=0.021, screened=16,
)  # fmt: skip
UNCONFIRMED: Final = SLOWER.model_copy(
    update={
        "verdict": Verdict.INCONCLUSIVE,
        "confirmed": 0,
        "reason": "it moved in the screening; no time was left for fresh duets",
    }
)
LATE: Final = Judgement(metric=CPU, verdict=Verdict.INCONCLUSIVE, reason="no time for a duet")
DISTURBED: Final = Judgement(
    metric=CPU, verdict=Verdict.INCONCLUSIVE, excluded=33,
    reason="none of 33 duets was usable: host_noise",
)  # fmt: skip
BROKEN: Final = Judgement(
    metric=CPU, verdict=Verdict.NOT_COMPARABLE, reason="head: wrong_body: found <script>"
)
LOOKS: Final = {
    "screening_looks": "5 duets: 5%, 8 duets: 15%, 12 duets: 30%, 22 duets: 50%",
    "confirmation_looks": "10 duets: 15%, 18 duets: 25%, 28 duets: 60%",
}
"""When looks are taken, as a comparison's file has it."""


def one(name: str, *judgements: Judgement, **more: Any) -> CaseComparison:
    return CaseComparison(
        case=make_case(name), because="granian 2.7.8 → 2.8.7", judgements=judgements, **more
    )


def micro(name: str, judgement: Judgement) -> MicroComparison:
    return MicroComparison(
        benchmark=name, python="3.14", stack="current", unit="s",
        judgement=judgement.model_copy(update={"metric": ""}), base=(1e-4,), head=(1e-4,),
    )  # fmt: skip


AGAIN = f"servebench compare {'a' * 12} {'b' * 12} --profile quick --seed 1 --budget 20m"
"""What asks for a comparison of `made` again."""


def made(*cases: CaseComparison, **more: Any) -> Comparison:
    side = SideRecord(label="main", kind="revision", commit="a" * 40, stacks=(), interpreters=())
    fields: dict[str, Any] = {
        "id": "x", "status": "complete", "started": "2026-11-20T12:00:00Z",
        "wall_seconds": 600.0, "budget_seconds": 1200.0, "servebench": "0.1.0", "oha": "1.16.0",
        "machine": MACHINE, "base": side,
        "head": side.model_copy(update={"label": "feature", "commit": "b" * 40}),
        "planned": len(cases), "untouched": 3, "cases": cases,
    }  # fmt: skip
    return Comparison(**{**fields, **more})
