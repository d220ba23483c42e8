"""Sharing a night's cases out over machines. Pure.

A series consists of the figures of one machine, so that a case that moves to another one begins
anew. Therefore a case stays where it has been measured, as long as its machine is there and is not
far above its fair share; everything else goes, longest first, to whoever has least to do (Graham
1969: at most 4/3 of the best possible). One case is measured by every shard: what moves it on one
machine only has to do with that machine.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from servebench.errors import UsageError
from servebench.expected import expected
from servebench.model import Case, LoadModel, Plan
from servebench.night.model import Shard

TOLERANCE: Final = 1.25
"""A machine keeps its cases up to so many times the fair share. Durations differ by a few percent
from night to night; this far above, only a machine that came or went brings the shares."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """What recent runs say of machines and cases.

    Attributes:
        seconds: (machine, case) → mean wall time of a launch, s.
        nights: (machine, case) → number of recent runs in which it was measured.
        latest: (machine, case) → id of the latest of them.
    """

    seconds: Mapping[tuple[str, str], float] = field(default_factory=dict)
    nights: Mapping[tuple[str, str], int] = field(default_factory=dict)
    latest: Mapping[tuple[str, str], str] = field(default_factory=dict)


@dataclass(slots=True)
class _Share:
    """What one machine has so far."""

    machine: str | None
    seconds: float = 0.0
    cases: set[str] = field(default_factory=set)


def share_out(
    plan: Plan, machines: Sequence[str | None], recorded: Recorded | None = None
) -> tuple[tuple[Shard, ...], str | None]:
    """Share a plan out.

    Args:
        plan: What is to be measured in the night.
        machines: One per shard: the machine's id, or None for whichever takes the shard.
        recorded: What is known of earlier nights.

    Returns:
        The shards in the order of the machines, without those that have nothing to do, each with
        its cases in the plan's order; and the calibration case, if there is one.

    Raises:
        UsageError: No machine, or one of them twice.
    """
    named = [machine for machine in machines if machine is not None]
    if not machines or len(set(named)) != len(named):
        raise UsageError(
            f"expected one or more machines, each of them once, found {', '.join(named) or 'none'}"
        )
    sharing = _Sharing(plan, machines, recorded or Recorded())
    sharing.keep_at_home()
    sharing.relieve()
    sharing.place()
    return sharing.shards(), sharing.calibration.id if sharing.calibration else None


def calibration(plan: Plan) -> Case | None:
    """The case that tells most about a machine in least time: it only computes, on one worker."""
    computing = [
        case
        for case in plan.cases
        if case.load.model is LoadModel.CLOSED and case.endpoint.floor == 0 and case.workers == 1
    ]
    return min(
        computing, key=lambda case: (expected(case, plan.profile).total, case.id), default=None
    )


class _Sharing:
    """A plan while it is shared out."""

    def __init__(self, plan: Plan, machines: Sequence[str | None], recorded: Recorded) -> None:
        self.plan, self.recorded = plan, recorded
        self.shares = [_Share(machine) for machine in machines]
        self.calibration = calibration(plan)
        everywhere = self.calibration.id if self.calibration else ""
        self.cases = {case.id: case for case in plan.cases if case.id != everywhere}
        self._expected = {case.id: expected(case, plan.profile).total for case in plan.cases}
        self._speeds: dict[str | None, float] = {}
        if self.calibration is not None:
            for share in self.shares:
                share.seconds = self._seconds(self.calibration.id, share)

    def keep_at_home(self) -> None:
        """Give each case to the machine that has measured it most often of late."""
        for case in self.cases:
            known = [
                (nights, self.recorded.latest.get((machine, name), ""), machine)
                for (machine, name), nights in self.recorded.nights.items()
                if name == case and any(share.machine == machine for share in self.shares)
            ]
            if known:
                home = max(known)[2]
                share = next(share for share in self.shares if share.machine == home)
                self._give(case, share)

    def relieve(self) -> None:
        """Take from machines far above the fair share what has least of a history there."""
        homeless = self._homeless()
        nobody = _Share(None)
        whole = sum(share.seconds for share in self.shares)
        whole += sum(self._seconds(case, nobody) for case in homeless)
        longest = max((self._seconds(case, nobody) for case in self.cases), default=0.0)
        most = max(TOLERANCE * whole / len(self.shares), longest)
        for share in self.shares:
            machine = share.machine or ""
            shortest_history = sorted(
                share.cases,
                key=lambda case: (self.recorded.nights.get((machine, case), 0), case),
            )
            for case in shortest_history:
                if share.seconds <= most:
                    break
                share.cases.discard(case)
                share.seconds -= self._seconds(case, share)

    def place(self) -> None:
        """Give what has no place, longest first, to the one that would be done first."""
        nobody = _Share(None)
        longest_first = sorted(
            self._homeless(), key=lambda case: (-self._seconds(case, nobody), case)
        )
        for case in longest_first:
            first = min(self.shares, key=lambda share: share.seconds + self._seconds(case, share))
            self._give(case, first)

    def shards(self) -> tuple[Shard, ...]:
        """The shards; a machine that is named at least calibrates."""
        calibrating = self.calibration is not None
        used = [one for one in self.shares if one.cases or (calibrating and one.machine)]
        if not used:  # nothing but the calibration case is planned
            used = self.shares[:1]
        return tuple(
            Shard(
                number=number,
                machine=share.machine,
                expected_seconds=round(share.seconds, 1),
                plan=self.plan.model_copy(update={"cases": self._cases(share)}),
            )
            for number, share in enumerate(used, start=1)
        )

    def _cases(self, share: _Share) -> tuple[Case, ...]:
        return tuple(
            case for case in self.plan.cases if case.id in share.cases or case.id not in self.cases
        )

    def _give(self, case: str, share: _Share) -> None:
        share.cases.add(case)
        share.seconds += self._seconds(case, share)

    def _homeless(self) -> list[str]:
        placed = {case for share in self.shares for case in share.cases}
        return [case for case in self.cases if case not in placed]

    def _seconds(self, case: str, share: _Share) -> float:
        """Seconds of all launches of a case: as measured there, or elsewhere, or as expected."""
        machine = share.machine
        here = self._speed(machine)
        seconds = self.recorded.seconds.get((machine, case)) if machine else None
        if seconds is None:
            elsewhere = [
                measured * here / self._speed(other)
                for (other, name), measured in self.recorded.seconds.items()
                if name == case
            ]
            seconds = statistics.fmean(elsewhere) if elsewhere else self._expected[case] * here
        return self.plan.launches * seconds

    def _speed(self, machine: str | None) -> float:
        """How many times as long as expected a machine's launches take, or those of all."""
        if machine not in self._speeds:
            ratios = [
                (where, seconds / self._expected[case])
                for (where, case), seconds in self.recorded.seconds.items()
                if case in self._expected
            ]
            own = [ratio for where, ratio in ratios if where == machine]
            known = own or [ratio for _, ratio in ratios]
            self._speeds[machine] = statistics.median(known) if known else 1.0
        return self._speeds[machine]
