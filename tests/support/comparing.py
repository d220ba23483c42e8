"""Comparisons for tests, made without a server: duets of given ratios, findings, records."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from duetbench.core.comparison import FAILURE, CaseComparison, Comparison, Duet, Finding
from duetbench.core.effects import EffectKind, Effects, RequestEffect
from duetbench.core.errors import FlagName
from duetbench.core.metrics import MATERIAL
from duetbench.core.model import Case, Flag, Load, Verdict
from duetbench.judge import findings, rule
from duetbench.judge.pairs import CaseDuets
from goldens import record
from synthetic import MACHINE, make_case

CPU: Final = "server_cpu_per_request"


def measured(verdict: Verdict, ratio: float, low: float, high: float, **more: Any) -> Finding:
    """What sixteen duets show of the CPU of requests."""
    actual = {"subject": CPU, "limit": 0.02, "detectable": 0.0062, "n": 16, "agreeing": 16}
    figures = {"ratio": ratio, "low": low, "high": high}
    return Finding(case="", verdict=verdict, **{**actual, **figures, **more})


WORSE: Final = measured(Verdict.WORSE, 1.0213, 1.0161, 1.0265)
BETTER: Final = measured(Verdict.BETTER, 0.97, 0.96, 0.98)
LARGER: Final = measured(Verdict.WORSE, 1.1, 1.09, 1.11, subject="pss_steady", limit=0.05)
SAME: Final = measured(Verdict.SAME, 1.0004, 0.9961, 1.0047, detectable=0.0081, n=8)
OPEN: Final = measured(Verdict.UNKNOWN, 1.006, 0.991, 1.021, detectable=0.021, lack="time")
OPEN_RATE: Final = OPEN.model_copy(update={"subject": "throughput"})
LATE: Final = Finding(
    case="", subject=CPU, verdict=Verdict.UNKNOWN, limit=0.02, why="no time for a pair", lack="time"
)
BROKEN: Final = Finding(case="", subject=FAILURE, verdict=Verdict.WORSE, why="head: found <script>")


class Judged(NamedTuple):
    """A case with what was found."""

    case: CaseComparison
    findings: tuple[Finding, ...]


def judged_case(name: str, *actual: Finding, **more: Any) -> Judged:
    case = CaseComparison(case=make_case(name), because="granian 2.7.8 → 2.8.7", **more)
    return Judged(case, tuple(finding.model_copy(update={"case": name}) for finding in actual))


AGAIN = f"observatory compare {'a' * 12} {'b' * 12} --profile quick --seed 1 --budget 20m"
"""The command that repeats a comparison."""


def comparison_of(*judged: Judged, **more: Any) -> Comparison:
    fields: dict[str, Any] = {
        "machine": MACHINE,
        "planned": len(judged),
        "cases": [of.case for of in judged],
        "findings": findings.sort(f for of in judged for f in of.findings),
    }
    return Comparison(**{**record("comparison"), **fields, **more})


FIGURES: Final = {
    CPU: 1e-4,
    "throughput": 9000.0,
    "pss_steady": 9e7,
    "response_p50": 0.012,
    "service_p50": 0.012,  # of paced loads; a real closed one has none
    "efficiency": 0.9,
}
WRONG: Final = Flag(name=FlagName.WRONG_ANSWER, detail="expected hi, found ho")


def busy(name: str, **changes: Any) -> Case:
    """A closed loop that waits for nothing: judged on CPU, throughput and memory."""
    return make_case(name, endpoint_floor=0.0, **changes)


def paced(name: str) -> Case:
    load = Load(connections=10, rate=10, duration=8, timeout=10)
    return make_case(name, load=load)


def duet(
    case: str,
    ratios: Mapping[str, float] | None = None,
    *,
    base_flags: Sequence[Flag] = (),
    head_flags: Sequence[Flag] = (),
    **more: Any,
) -> Duet:
    """A duet with these ratios; all other figures are equal on both sides.

    A flag of severity `fail` voids it.
    """
    void = any(flag.kind == "void" for flag in (*base_flags, *head_flags))
    base = {**dict.fromkeys(ratios or {}, 1.0), **FIGURES}
    head = {metric: value * (ratios or {}).get(metric, 1.0) for metric, value in base.items()}
    figures = {"base": {}, "head": {}} if void else {"base": base, "head": head}
    flags = {"flags_base": tuple(base_flags), "flags_head": tuple(head_flags)}
    fields = {"case": case, "order": 0, "head_first": False, "seconds": 8.0}
    return Duet(**{**fields, **flags, **figures, **more})


def judged(samples: CaseDuets, limits: rule.Limits = MATERIAL) -> dict[str, Finding]:
    """The findings on a case alone, by subject."""
    return {finding.subject: finding for finding in rule.of_duets({"": samples}, limits)[""]}


def swapped(verdict: Verdict) -> Verdict:
    """What is found where base and head change places."""
    opposite = {Verdict.WORSE: Verdict.BETTER, Verdict.BETTER: Verdict.WORSE}
    return opposite.get(verdict, verdict)


def duets(case: str, metric: str, logs: Iterable[float]) -> list[Duet]:
    """Duets in which one metric has these log ratios, and all others are equal."""
    return [duet(case, {metric: float(np.exp(value))}) for value in logs]


def does(*times: tuple[EffectKind, float, float] | RequestEffect, **more: Any) -> Effects:
    """What requests do on base and head; what differs between them, and how often in all."""
    every = [
        effect if isinstance(effect, RequestEffect)
        else RequestEffect(kind=effect[0], text="", base=effect[1], head=effect[2])
        for effect in times
    ]  # fmt: skip
    totals: dict[EffectKind, tuple[float, float]] = {}
    for effect in every:
        base, head = totals.get(effect.kind, (0, 0))
        totals[effect.kind] = (base + effect.base, head + effect.head)
    differ = tuple(effect for effect in every if effect.base != effect.head)
    return Effects(differ=differ, **{"totals": totals, **more})
