"""The one loop that plays duets: rounds over the cases that need another one, while there is time.

A rule says which cases need another duet: a comparison plays until all is decided (`session`),
points of trends until each ratio is known to a standard error (`trend.anchored`), and a search asks
for one duet after another (`trend.bisect`). Cases that share a server are measured on one launch of
each side. The order of a round is drawn. Which side starts first in a server's first duet is drawn,
too, and swapped from then on.

A duet must not judge what it prevents. Where a side could use more than its share of the cores,
each side is launched alone as well, right after the duet and one right after the other: first the
one that started first, so that the order is ABBA. That takes three times as long. Where there is no
time for a few such samples, duets tell what they can, and nothing is said of the rest. Where sides
are unequal by declaration (another number of workers, threads or connections), or a case asks what
several threads or workers compute on all cores, there is no duet, and launches alone are all.

Where the machine has `lanes`, groups of cases are measured side by side in waves, each group on the
cores of a lane. When all groups of a wave have ended, their duets are taken in the order that was
drawn: no judgement depends on which group ends first, and launches alone find the machine quiet.
Cases that may compute on several cores have the whole machine, one after another.
"""

import math
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Final, Protocol

from duetbench.core.metrics import BRIEF, METRICS, judged
from duetbench.core.model import Case, Launch
from duetbench.core.protocol import DUET_WARM_UP, SLOW_SECONDS, UNIT_REQUESTS, duet_load
from duetbench.core.units import utc_now
from duetbench.host import process_session
from duetbench.host.console import Progress, duration
from duetbench.host.machine import Cores
from duetbench.judge.pairs import Pair, by_turns, said_once, with_noise, without_prevented
from duetbench.measure.testbed import SideCase
from duetbench.project.plan import PRIOR_LAUNCHES, Costs, drain, start
from duetbench.store.comparison import Curve, Duet, Instructions, SideName


class Instruments(Protocol):
    """Seam between the loop and everything that starts a process."""

    def duets(
        self, pairs: Sequence[tuple[SideCase, SideCase]], *, head_first: bool, order: int
    ) -> tuple[Duet, ...]:
        """Play a duet of each pair of base and head, in their order; at least of the first.

        All on one launch of each side, so cases of a side are equal by `testbed.server_of`. Fewer
        duets than pairs if a failure ended it; numbered from `order`. May raise `InterruptedRun`
        and nothing else.
        """

    def launch(self, side: SideCase) -> Launch:
        """Do one launch with nothing beside it; may raise `InterruptedRun` and nothing else."""

    def soak(self, side: SideCase, name: SideName, seconds: float) -> Curve:
        """Load a side alone for so long; may raise `InterruptedRun` and nothing else."""

    def instructions(
        self, pairs: Sequence[tuple[SideCase, SideCase]], limit: float
    ) -> tuple[Instructions | str, ...]:
        """Count both sides' instructions; as `counted.instructions`."""


TURNS: Final = 4
"""Samples of launches alone that there must be time for, or none is begun."""

MakeInstruments = Callable[[Path], Instruments]
"""Makes instruments that keep their logs in a folder: `instruments.Real`."""


class Reporter(Progress):
    """One line per duet; on a terminal a bar with the time to the next decisions below them."""

    def begin(self, cases: int, seconds: float, budget: float | None) -> None:
        """The comparison starts: deciding about so many cases takes `seconds` at least."""
        limit = "" if budget is None else f", at most {duration(budget)}"
        sentence = f"cases: {cases}; a first answer takes about {duration(seconds)}{limit}"
        self.start(sentence, seconds, until="to the next decisions")

    def played(self, duet: Duet) -> None:
        """A duet ended: changes of head against base, or why there are none."""
        failures = {side: "; ".join(duet.failures(side)) for side in duet.failed}
        if failures:
            text = f"void: {said_once(failures)}"
        else:
            changes = [
                f"{METRICS[name].title} {duet.head[name] / duet.base[name] - 1:+.1%}"
                for name in (*BRIEF, *judged({"start alone"}))
                if duet.base.get(name) and duet.head.get(name)
            ]
            warnings = sorted({flag.name for flag in (*duet.flags_base, *duet.flags_head)})
            text = ", ".join(changes) + (f"  [{', '.join(warnings)}]" if warnings else "")
            text = text if with_noise(duet).usable else f"disturbed: {text}"
        self.say(f"[{duet.order + 1}] {duet.case}  {text}")


class Rule(Protocol):
    """When enough duets have been played."""

    def open(self) -> Sequence[Pair]:
        """The cases that need another duet."""

    def missing(self, pair: Pair) -> int:
        """Fewest duets that a case needs until its next decision."""

    def add(self, pair: Pair, duet: Duet) -> None:
        """Keep a duet of a case."""


class DuetSeconds:
    """Seconds that duets take, as expected, or as far from it as those so far.

    Duets on one launch share its start and end; what is expected of a case is corrected by how far
    off it was there, or in others. With `turns` a sample of a case that computes in several threads
    on several cores is three launches.
    """

    def __init__(self, *, turns: bool = False) -> None:
        self._turns = turns
        self._expected: dict[Pair, tuple[float, float]] = {}
        self._errors: dict[Pair, list[float]] = defaultdict(list)

    def observe(self, pair: Pair, seconds: float, together: int) -> None:
        """Take the seconds of a duet, with its share of a launch on which were so many."""
        launch, own = self._of(pair)
        self._errors[pair].append(seconds - own - launch / together)

    def of(self, *pairs: Pair) -> float:
        """Seconds of a duet of each of the cases, on as few launches as can be."""
        launches = {pair.server: self._of(pair)[0] for pair in pairs}
        every = [error for errors in self._errors.values() for error in errors]
        others = sum(every) / (len(every) + PRIOR_LAUNCHES)
        own = (
            self._of(pair)[1]
            + (statistics.fmean(self._errors[pair]) if pair in self._errors else others)
            for pair in pairs
        )
        return max(1.0, sum(launches.values()) + sum(own)) if pairs else 0.0

    def _of(self, pair: Pair) -> tuple[float, float]:
        if pair not in self._expected:
            launch, own = duet_seconds(pair.case)
            self._expected[pair] = launch, own
        launch, own = self._expected[pair]
        several = len(pair.head.testbed.server_cores(pair.case)) > 1
        if pair.start:
            return 2 * launch, 0.0
        if pair.case.scales:
            return launch, own
        if pair.alone:
            return launch, launch + 2 * own  # two launches and no duet
        alone = pair.wide and not pair.duets.hurried
        if self._turns and several and alone and not pair.case.endpoint.floor:
            own += 2 * (launch + own)
        return launch, own


def duet_seconds(case: Case) -> tuple[float, float]:
    """Seconds of a launch of both sides, and of a case's duet on it, before one has been seen.

    Of what scales they are those of two launches, one after the other.
    """
    case = case.model_copy(update={"load": duet_load(case)})
    single = max(case.endpoint.takes, case.endpoint.floor)
    slow = single >= SLOW_SECONDS
    verify = (2 if slow else UNIT_REQUESTS + 1) * single
    warm_up = 2 * single if slow else DUET_WARM_UP + Costs.window_gap
    load = case.load.duration + Costs.generator
    # Both sides start at once, and are killed. Then they share the cores, so that each step of one
    # also waits for the other's; waiting does not.
    launch = start(case.workers) + (1 if case.scales else 2) * Costs.probes
    apart = verify + drain(case)
    if case.scales:
        return launch, launch + 2 * (apart + warm_up + load)
    return launch, apart * (1 if case.endpoint.floor else 2) + warm_up + load


class Loop:
    """Plays duets of cases, of which `order` counts all so far."""

    def __init__(
        self,
        instruments: Instruments,
        reporter: Reporter,
        seed: int,
        clock: Callable[[], float] = time.monotonic,
        *,
        turns: bool = False,
        lanes: Sequence[Cores] = (),
    ) -> None:
        """Take `turns` where a duet prevents what is asked for; else there are duets alone.

        Of several `lanes`, each has the cores of one pair; without any, one pair has the machine.
        """
        self.instruments, self.reporter, self.clock = instruments, reporter, clock
        self.turns, self.lanes = turns, tuple(lanes)
        self.source = random.Random(seed)  # noqa: S311 - an order that can be repeated
        self.seconds = DuetSeconds(turns=turns)
        self.order = 0
        self._ends = math.inf
        self._head_first: dict[Hashable, bool] = defaultdict(lambda: self.source.random() < 0.5)

    def play(self, rule: Rule, ends: float) -> bool:
        """Play rounds until the rule needs no more; False if the clock reaches `ends` before."""
        self._ends = ends
        while waiting := rule.open():
            groups: dict[Hashable, list[Pair]] = defaultdict(list)
            for pair in self.source.sample(waiting, len(waiting)):
                groups[pair.server].append(pair)
            before = self.order
            for wave in self._waves([*groups.values()], rule):
                for group in wave:
                    while group and self.clock() + self.seconds.of(*group) > ends:
                        group.pop()
                if played := [group for group in wave if group]:
                    remaining = min(self.remaining(rule), ends - self.clock())
                    self.launch(played, rule.add, remaining)
            if self.order == before:
                return False
        return True

    def _waves(self, groups: Sequence[list[Pair]], rule: Rule) -> Iterator[list[list[Pair]]]:
        """Divide a round into waves: a group alone, or as many groups as there are lanes.

        A lane that is left over gets another duet of cases whose next decision takes several.
        """
        beside = [group for group in groups if all(map(self._beside, group))]
        yield from ([group] for group in groups if group not in beside)
        size = max(1, len(self.lanes))
        rounds = ([p for p in g if rule.missing(p) > n] for n in range(1, size) for g in beside)
        beside = [*beside, *islice(filter(None, rounds), -len(beside) % size)]
        yield from (beside[at : at + size] for at in range(0, len(beside), size))

    def narrow(self, pair: Pair) -> bool:
        """Whether all duets of a case run in a lane."""
        return bool(self.lanes) and not (pair.wide or pair.alone)

    def _beside(self, pair: Pair) -> bool:
        return self.narrow(pair) and not pair.apart

    def launch(
        self,
        wave: Sequence[Sequence[Pair]],
        add: Callable[[Pair, Duet], None],
        remaining: float,
    ) -> None:
        """Play a duet of each of these cases, groups of them at once.

        A group shares a server, and has one launch of each side. What the duets say is taken in the
        order of the groups, whichever ends first, and after all of them: launches alone are alone.
        """
        first = []
        for group in wave:
            first.append(self._head_first[group[0].server])
            self._head_first[group[0].server] = not first[-1]
        names = (f"{group[0].label} {group[0].case.id}".strip() for group in wave)
        self.reporter.work(" | ".join(names), self.order, remaining)
        if wave[0][0].alone:
            for pair in wave[0]:
                duet = Duet(
                    case=pair.case.id, order=self.order, head_first=first[0],
                    started=utc_now(), seconds=0, load_seconds=duet_load(pair.case).duration,
                )  # fmt: skip
                self._keep(pair, self._apart(pair, duet), add, 1)
            return
        for group, duets in zip(wave, self._played(wave, first), strict=True):
            for pair, duet in zip(group, duets, strict=False):  # a failure ended the others
                if pair.apart is None and duet.base and duet.head:
                    pair.apart = self.turns and pair.held_back(duet)
                    left = self._ends - self.clock()
                    # How far off the expected seconds are is not known yet.
                    turn = max(self.seconds.of(pair), 3 * duet.seconds)
                    pair.duets.hurried = pair.apart and TURNS * turn > left
                sample = duet
                if pair.apart and not duet.failed:
                    hurried = pair.duets.hurried
                    sample = without_prevented(duet) if hurried else self._apart(pair, duet)
                self._keep(pair, sample, add, len(duets))

    def _played(
        self, wave: Sequence[Sequence[Pair]], first: Sequence[bool]
    ) -> list[tuple[Duet, ...]]:
        """The duets of each group; what fails in one lane ends the others before it is raised."""
        if not self.narrow(wave[0][0]):
            sides = [pair.sides for pair in wave[0]]
            return [self.instruments.duets(sides, head_first=first[0], order=self.order)]
        futures = []
        with ThreadPoolExecutor(len(wave)) as pool:
            try:
                for group, lane, head_first in zip(wave, self.lanes, first, strict=False):
                    futures.append(pool.submit(self._in_lane, group, lane, head_first))
                for future in as_completed(futures):
                    future.result()
                return [future.result() for future in futures]
            except BaseException:
                # An interrupt reaches this thread alone. Lanes without servers end by themselves.
                process_session.end_all()
                raise

    def _in_lane(self, group: Sequence[Pair], lane: Cores, head_first: bool) -> tuple[Duet, ...]:
        sides = [(pair.base.on(lane), pair.head.on(lane)) for pair in group]
        duets = self.instruments.duets(sides, head_first=head_first, order=self.order)
        head = sides[0][1]
        cores = {
            "server_cores": head.testbed.server_cores(head.case),
            "client_cores": head.testbed.client_cores(head.case),
        }
        return tuple(duet.model_copy(update=cores) for duet in duets)

    def _keep(
        self, pair: Pair, sample: Duet, add: Callable[[Pair, Duet], None], together: int
    ) -> None:
        sample = sample.model_copy(update={"order": self.order})
        self.order += 1
        self.seconds.observe(pair, sample.seconds, together)
        add(pair, sample)
        self.reporter.played(sample)

    def _apart(self, pair: Pair, duet: Duet) -> Duet:
        """Launch each side alone, under the load of a duet."""

        def alone(side: SideCase) -> Launch:
            load = duet_load(side.case)
            if duet.connections is not None:
                load = load.model_copy(update={"connections": duet.connections})
            case = side.case.model_copy(update={"load": load})
            return self.instruments.launch(replace(side, case=case))

        if duet.head_first:
            head = alone(pair.head)
            return by_turns(duet, alone(pair.base), head)
        base = alone(pair.base)
        return by_turns(duet, base, alone(pair.head))

    def remaining(self, rule: Rule) -> float:
        """Seconds until each of the cases that need more has had the duets it misses."""
        missing = {pair: rule.missing(pair) for pair in rule.open()}
        rounds = range(max(missing.values(), default=0))
        return sum(self.round_seconds(*(p for p in missing if missing[p] > n)) for n in rounds)

    def round_seconds(self, *pairs: Pair) -> float:
        """Seconds of a duet of each of the cases, those side by side that can be."""
        beside = [pair for pair in pairs if self._beside(pair)]
        others = [pair for pair in pairs if pair not in beside]
        return self.seconds.of(*others) + self.seconds.of(*beside) / max(1, len(self.lanes))
