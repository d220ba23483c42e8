"""A night: its cases shared out over machines by what recent runs say.

A series consists of the figures of one machine, so that a case that moves to another one begins
anew. Therefore a case stays where it has been measured, as long as its machine is there and is not
far above its fair share; everything else goes, longest first, to whoever has least to do (Graham
1969: at most 4/3 of the best possible). One case is measured by every shard: what moves it on one
machine only has to do with that machine.
"""

import hashlib
import json
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from duetbench.core.errors import RecordError, UsageError
from duetbench.core.model import Case, LoadModel, Plan, Profile, Run
from duetbench.project.duration import expected
from duetbench.store import files, store
from duetbench.store.night import NightPlan, Shard

RUNNER: Final = "duetbench"
"""Label that every runner has; besides, each has its machine's id."""

MOST_SHARDS: Final = 256
"""Jobs that a matrix may have (GitHub's limit)."""

RECENT: Final = 10
"""Run files per machine: two weeks without a machine, and its cases still find back to it."""

AWAY: Final = timedelta(days=7)
"""A machine whose newest night is older than that of any other by more has left."""

TOLERANCE: Final = 1.25
"""A machine keeps its cases up to so many times the fair share. Durations differ by a few percent
from night to night; this far above, only a machine that came or went brings the shares."""

_SHARDS: Final = 3  # a machine may have measured several shards of a night, each with a file
_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class Recorded:
    """What recent runs say by machine and case: s per launch, number of runs, id of the latest."""

    seconds: Mapping[tuple[str, str], float] = field(default_factory=dict)
    nights: Mapping[tuple[str, str], int] = field(default_factory=dict)
    latest: Mapping[tuple[str, str], str] = field(default_factory=dict)


def fleet(shards: int | None, machines: Sequence[str]) -> tuple[str | None, ...]:
    """Who measures: the machines that are named, and for further shards whoever takes them.

    `shards` are at least so many (None: one). Each of the `machines` has a shard of its own;
    several in one text are separated by commas. UsageError: more than a matrix may have, or one
    machine twice.
    """
    named = [name for text in machines for name in text.replace(",", " ").split()]
    count = max(shards or 1, len(named))
    if count > MOST_SHARDS:
        raise UsageError(f"--shards: expected at most {MOST_SHARDS}, found {count}")
    if len(set(named)) != len(named):
        raise UsageError(f"--machine: expected each machine once, found {', '.join(named)}")
    return (*named, *[None] * (count - len(named)))


def make(
    plan: Plan,
    machines: Sequence[str | None],
    *,
    results: Path,
    commit: str | None,
    now: datetime | None = None,
    anchor: str | None = None,
    duets: Mapping[str, float] | None = None,
) -> NightPlan:
    """Share a plan out over machines (see `fleet`) by what the recorded runs say.

    Cases are played against an `anchor`, if there is one: `duets` are the seconds that this takes.
    """
    known = recorded(results, plan.profile)
    shards, calibrating = share_out(plan, machines, known, duets)
    created = (now or datetime.now(UTC)).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return NightPlan(
        id=store.run_id(created, plan.profile, commit),
        created=created,
        commit=commit,
        calibration=calibrating,
        anchor=anchor,
        shards=shards,
        notes=(*_unknown(shards, known), *_moves(shards, known, calibrating)),
    )


def outputs(night: NightPlan) -> dict[str, str]:
    """What a workflow needs: `matrix`, `shards`, `night`, and the `sha256` of the plan's file."""
    include = [
        {
            "shard": shard.number,
            "machine": shard.machine or "",
            "runner": shard.machine or RUNNER,
            "cases": len(shard.plan.cases),
            "minutes": math.ceil(shard.expected_seconds / 60),
        }
        for shard in night.shards
    ]
    return {
        "matrix": json.dumps({"include": include}, separators=(",", ":")),
        "shards": str(len(include)),
        "night": night.id,
        "sha256": hashlib.sha256(files.encode(night)).hexdigest(),
    }


def recorded(results: Path, profile: Profile) -> Recorded:
    """Read recent runs of a profile; a damaged file must not stop a night, and is left out."""
    by_machine: dict[str, list[Path]] = defaultdict(list)
    for path in store.runs(results, profile=profile):
        by_machine[path.parent.parent.name].append(path)
    runs: list[Run] = []
    for paths in by_machine.values():
        for path in paths[-RECENT * _SHARDS :]:
            with suppress(RecordError):
                runs.append(store.load(path))
    seconds: dict[tuple[str, str], float] = {}
    nights: Counter[tuple[str, str]] = Counter()
    latest: dict[tuple[str, str], str] = {}
    for run in sorted(runs, key=lambda run: run.id):
        for result in run.results:
            if result.launches:
                key = run.machine.id, result.case.id
                # The newest run decides how long: what a case does may have changed since.
                seconds[key] = statistics.fmean(launch.seconds for launch in result.launches)
                nights[key] += 1
                latest[key] = run.id
    return Recorded(seconds=seconds, nights=nights, latest=latest)


def present(latest: Mapping[str, str]) -> frozenset[str]:
    """The machines that still measure nights, of machine → id of its newest run (with its time).

    What has moved on another one nobody could confirm: the job would wait for it, night by night.
    """
    began: dict[str, datetime] = {}
    for machine, run in latest.items():
        with suppress(ValueError):  # no id of ours
            began[machine] = datetime.strptime(run.partition("-")[0], "%Y%m%dT%H%M%S%z")
    last = max(began.values(), default=None)
    return frozenset(
        machine for machine, when in began.items() if last is not None and last - when <= AWAY
    )


def share_out(
    plan: Plan,
    machines: Sequence[str | None],
    known: Recorded | None = None,
    duets: Mapping[str, float] | None = None,
) -> tuple[tuple[Shard, ...], str | None]:
    """Share a plan out over machines (None: whoever takes the shard); UsageError: none or twice.

    Returns the shards in the order of the machines, without those that have nothing to do, each
    with its cases in the plan's order; and the calibration case, if there is one.
    """
    named = [machine for machine in machines if machine is not None]
    if not machines or len(set(named)) != len(named):
        raise UsageError(
            f"expected one or more machines, each of them once, found {', '.join(named) or 'none'}"
        )
    sharing = _Sharing(plan, machines, known or Recorded(), duets or {})
    sharing.keep_at_home()
    sharing.relieve()
    sharing.place()
    return sharing.shards(), sharing.calibration


def _unknown(shards: Sequence[Shard], known: Recorded) -> tuple[str, ...]:
    """Say which machines have measured nothing: for a wrong id its shard waits in vain."""
    measured = {machine for machine, _ in known.nights}
    return tuple(
        f"no night of {shard.machine} is recorded: if that is no new machine, look whether its id "
        "is right (`duetbench doctor` on the machine)"
        for shard in shards
        if measured and shard.machine is not None and shard.machine not in measured
    )


def _moves(shards: Sequence[Shard], known: Recorded, calibrating: str | None) -> tuple[str, ...]:
    """Say which cases leave the machine that has measured them: their series begin anew."""
    nights: dict[str, dict[str, int]] = defaultdict(dict)
    for (machine, name), count in known.nights.items():
        nights[name][machine] = count
    moved: dict[tuple[str, str], list[str]] = defaultdict(list)
    for shard in shards:
        for case in shard.plan.cases if shard.machine else ():
            before = nights[case.id]
            if case.id != calibrating and before and shard.machine not in before:
                home = max(before, key=lambda machine: (before[machine], machine))
                moved[home, str(shard.machine)].append(case.id)
    return tuple(
        f"{len(cases)} {'case moves' if len(cases) == 1 else 'cases move'} from {home} to "
        f"{machine}, where their series begin anew: {', '.join(cases[:_NAMED])}"
        + (" …" if len(cases) > _NAMED else "")
        for (home, machine), cases in moved.items()
    )


@dataclass(slots=True)
class _Share:
    machine: str | None
    seconds: float = 0.0
    cases: set[str] = field(default_factory=set)


class _Sharing:
    def __init__(
        self,
        plan: Plan,
        machines: Sequence[str | None],
        known: Recorded,
        duets: Mapping[str, float],
    ) -> None:
        self.plan, self.known, self.duets = plan, known, duets
        self.shares = [_Share(machine) for machine in machines]
        self._expected = {case.id: expected(case, plan.profile).total for case in plan.cases}
        # What tells most about a machine in least time: a case that only computes, on one worker.
        idle = [one for one in plan.cases if one.endpoint.floor == 0 and one.workers == 1]
        closed = [one.id for one in idle if one.load.model is LoadModel.CLOSED]
        order = ((self._expected[name], name) for name in closed)
        self.calibration = min(order)[1] if closed else None
        self.cases = [case.id for case in plan.cases if case.id != self.calibration]
        self._speeds: dict[str | None, float] = {}
        if self.calibration is not None:
            for share in self.shares:
                share.seconds = self._seconds(self.calibration, share.machine)

    def keep_at_home(self) -> None:
        """Give each case to the machine that has measured it most often of late."""
        by_machine = {share.machine: share for share in self.shares}
        for case in self.cases:
            homes = [
                (nights, self.known.latest.get((machine, name), ""), machine)
                for (machine, name), nights in self.known.nights.items()
                if name == case and machine in by_machine
            ]
            if homes:
                self._give(case, by_machine[max(homes)[2]])

    def relieve(self) -> None:
        """Take from machines far above the fair share what has least of a history there."""
        whole = sum(share.seconds for share in self.shares)
        whole += sum(self._seconds(case) for case in self._homeless())
        longest = max(map(self._seconds, self.cases), default=0.0)
        most = max(TOLERANCE * whole / len(self.shares), longest)
        for share in self.shares:
            machine = share.machine or ""
            nights = {case: self.known.nights.get((machine, case), 0) for case in share.cases}
            for case in sorted(nights, key=lambda case: (nights[case], case)):
                if share.seconds <= most:
                    break
                share.cases.discard(case)
                share.seconds -= self._seconds(case, share.machine)

    def place(self) -> None:
        """Give what has no place, longest first, to the one that would be done first."""
        for case in sorted(self._homeless(), key=lambda case: (-self._seconds(case), case)):
            ends = [share.seconds + self._seconds(case, share.machine) for share in self.shares]
            self._give(case, self.shares[ends.index(min(ends))])

    def shards(self) -> tuple[Shard, ...]:
        """The shards; a machine that is named at least calibrates."""
        calibrating = self.calibration is not None
        used = [one for one in self.shares if one.cases or (calibrating and one.machine)]
        used = used or self.shares[:1]  # nothing but the calibration case is planned
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
        mine = {*share.cases, self.calibration}
        return tuple(case for case in self.plan.cases if case.id in mine)

    def _give(self, case: str, share: _Share) -> None:
        share.cases.add(case)
        share.seconds += self._seconds(case, share.machine)

    def _homeless(self) -> list[str]:
        placed = {case for share in self.shares for case in share.cases}
        return [case for case in self.cases if case not in placed]

    def _seconds(self, case: str, machine: str | None = None) -> float:
        """Seconds of a case's launches, as measured there, or elsewhere, or expected; and duets."""
        here = self._speed(machine)
        seconds = self.known.seconds.get((machine, case)) if machine else None
        if seconds is None:
            elsewhere = [
                measured * here / self._speed(other)
                for (other, name), measured in self.known.seconds.items()
                if name == case
            ]
            seconds = statistics.fmean(elsewhere) if elsewhere else self._expected[case] * here
        return self.plan.launches * seconds + self.duets.get(case, 0.0) * here

    def _speed(self, machine: str | None) -> float:
        """How many times as long as expected a machine's launches take, or those of all."""
        if machine not in self._speeds:
            ratios = [
                (where, seconds / self._expected[case])
                for (where, case), seconds in self.known.seconds.items()
                if case in self._expected
            ]
            own = [ratio for where, ratio in ratios if where == machine]
            every = own or [ratio for _, ratio in ratios]
            self._speeds[machine] = statistics.median(every) if every else 1.0
        return self._speeds[machine]
