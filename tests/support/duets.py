"""Duet builders for tests: ratios in, duets out, without a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from servebench.core.flags import Flag, FlagName
from servebench.core.model import Case, Load, LoadModel
from servebench.record.comparison import Duet, Stage
from synthetic import make_case

CPU: Final = "server_cpu_per_request"
BASE: Final = {
    CPU: 1e-4,
    "throughput": 9000.0,
    "pss_steady": 9e7,
    "response_p50": 0.012,
    "service_p50": 0.012,  # of paced loads; a real closed one has none
    "efficiency": 0.9,
}
DISTURBED: Final = Flag(name=FlagName.HOST_NOISE, detail="0.3 cores; 0.05 allowed")
WRONG: Final = Flag(name=FlagName.WRONG_BODY, detail="expected hi, found ho")


def busy(name: str, **changes: Any) -> Case:
    """A closed loop that waits for nothing: judged on CPU, throughput and memory."""
    case = make_case(name, **{"ceiling": None, **changes})
    return case.model_copy(update={"endpoint": case.endpoint.model_copy(update={"floor": 0.0})})


def paced(name: str) -> Case:
    load = Load(model=LoadModel.PACED, connections=10, rate=10, duration=8, timeout=10)
    return make_case(name, load=load)


def duet(
    case: str,
    ratios: Mapping[str, float] | None = None,
    *,
    stage: Stage = "screening",
    base_flags: Sequence[Flag] = (),
    head_flags: Sequence[Flag] = (),
    seconds: float = 8.0,
) -> Duet:
    """One duet with these ratios; figures that are not named did not change.

    A fail flag voids it, as in real life.
    """
    void = any(flag.severity == "fail" for flag in (*base_flags, *head_flags))
    figures = {"base": {}, "head": {}} if void else _figures(ratios or {})
    return Duet(
        case=case, stage=stage, order=0, head_first=False, started="2026-11-20T12:00:00Z",
        seconds=seconds, load_seconds=4.0, flags_base=tuple(base_flags),
        flags_head=tuple(head_flags), **figures,
    )  # fmt: skip


def duets(
    case: str, metric: str, logs: Sequence[float], *, stage: Stage = "screening"
) -> list[Duet]:
    """Duets in which one metric has these log ratios, and all else is equal."""
    return [duet(case, {metric: float(np.exp(value))}, stage=stage) for value in logs]


def _figures(ratios: Mapping[str, float]) -> dict[str, dict[str, float]]:
    base = {**BASE, **{metric: BASE.get(metric, 1.0) for metric in ratios}}
    head = {metric: value * ratios.get(metric, 1.0) for metric, value in base.items()}
    return {"base": base, "head": head}
