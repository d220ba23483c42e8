"""The comparison as a record: what its parts amount to, at any moment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

import numpy as np

from servebench import __version__, tools
from servebench.compare import statistics
from servebench.compare.closer import Seen
from servebench.compare.decide import Confirmation, Screening
from servebench.compare.events import events
from servebench.compare.forecast import seconds_to_decide
from servebench.compare.model import (
    CaseComparison,
    Comparison,
    Duet,
    Instructions,
    Judgement,
    MicroComparison,
    Missing,
    Verdict,
)
from servebench.compare.pairing import Pair
from servebench.compare.sides import Side
from servebench.compare.touched import Touched
from servebench.runner import utc_now

Judgements = Mapping[str, tuple[Judgement, ...]]
"""By case id."""


@dataclass(frozen=True, slots=True)
class Header:
    """What a comparison says of itself beside its sides.

    Attributes:
        cross: Whether two interpreters are compared.
        reproduce: Commands for a terminal.
        notes: What was noticed before it began.
    """

    cross: bool = False
    reproduce: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Draft:
    """What is known of a comparison before its first duet."""

    base: Side
    head: Side
    touched: Touched
    header: Header
    budget_seconds: float | None
    method: Mapping[str, float | int | str]
    started: str

    def comparison(
        self,
        *,
        status: Literal["complete", "partial"],
        screening: Screening,
        confirmation: Confirmation | None,
        judgements: Judgements,
        seen: Mapping[str, Seen],
        counted: Callable[[str], Instructions | None],
        noise: Sequence[float],
        notes: Sequence[str],
        wall_seconds: float,
        micro: Sequence[MicroComparison] = (),
        absent: Sequence[Missing] = (),
    ) -> Comparison:
        """Write the record of what was measured.

        Args:
            status: Whether it came to its end.
            screening: With the duets so far.
            confirmation: The same, once there is one.
            judgements: The verdicts; empty while they are open.
            seen: What sequential launches showed, by case.
            counted: Gives the instruction counts of a case.
            noise: Log ratios of duets of base against itself.
            notes: What happened.
            wall_seconds: Since the beginning.
            micro: In-process benchmarks.
            absent: Those of them that only one side has.
        """
        cases = tuple(
            self._case(
                pair,
                screening,
                confirmation,
                judgements.get(pair.head.id, ()),
                seen.get(pair.head.id, Seen()),
                counted(pair.head.id),
            )
            for pair in self.touched.pairs
        )
        return Comparison(
            id=_name(self.started, self.head.record.commit),
            status=status,
            started=self.started,
            finished=utc_now() if status == "complete" else None,
            wall_seconds=wall_seconds,
            budget_seconds=self.budget_seconds,
            servebench=__version__,
            oha=tools.oha_version(),
            machine=self.head.rig.machine,
            cross=self.header.cross,
            base=self.base.record,
            head=self.head.record,
            packages=self.touched.packages,
            planned=len(self.touched.pairs),
            untouched=self.touched.untouched,
            missing=(*self.touched.missing, *absent),
            cases=cases,
            micro=tuple(micro),
            events=events(cases),
            noise=spread(noise),
            method=dict(self.method),
            reproduce=self.header.reproduce,
            notes=(*self.header.notes, *self.touched.notes, *notes),
        )

    def _case(
        self,
        pair: Pair,
        screening: Screening,
        confirmation: Confirmation | None,
        judgements: tuple[Judgement, ...],
        seen: Seen,
        instructions: Instructions | None,
    ) -> CaseComparison:
        case = pair.head.id
        duets: list[Duet] = []
        for stage in (screening, confirmation):
            if stage is not None and case in stage.duets:
                duets += stage.duets[case].duets
        undecided = any(one.verdict is Verdict.INCONCLUSIVE for one in judgements)
        return CaseComparison(
            case=pair.head,
            because=pair.because,
            commands=self.head.rig.commands(pair.head),
            judgements=judgements,
            duets=tuple(duets),
            instructions=instructions,
            absolute_base=seen.base,
            absolute_head=seen.head,
            seconds_to_decide=seconds_to_decide(case, screening, confirmation)
            if undecided and case in screening.duets
            else None,
        )


def unmeasured(
    base: Side, head: Side, touched: Touched, header: Header, budget_seconds: float | None
) -> Comparison:
    """The record of a comparison in which there is nothing to judge, and why."""
    draft = Draft(base, head, touched, header, budget_seconds, method={}, started=utc_now())
    return draft.comparison(
        status="complete",
        screening=Screening(()),
        confirmation=None,
        judgements={},
        seen={},
        counted=lambda _: None,
        noise=(),
        notes=(touched.nothing,),
        wall_seconds=0.0,
    )


def spread(logs: Sequence[float]) -> float | None:
    """Standard deviation of log ratios; None for fewer than three."""
    return None if len(logs) < 3 else statistics.sample(np.asarray(logs)).sd


def _name(started: str, commit: str | None) -> str:
    """A comparison's name: when, and of which commit. Names sort by time."""
    moment = datetime.fromisoformat(started).astimezone(UTC)
    return f"{moment:%Y%m%dT%H%M%SZ}-compare-{(commit or 'nocommit')[:8]}"
