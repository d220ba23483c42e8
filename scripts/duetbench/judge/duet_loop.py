"""The one loop that runs duets: rounds over the cases that need another one, while there is time.

A rule says which cases need another duet. A comparison continues until all cases are decided
(`session`), points of trends until each ratio is known to a standard error. Cases that share a
server are measured on one launch of each side. The order of a round is random. So is the side that
starts first in a server's first duet; the sides then swap from duet to duet.

A duet must not judge what it prevents. Where two servers at once would take cores from each other
that one could use (`pairs.Pair.alone`), each side is launched alone, one right after the other.
"""

import random
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Protocol

from duetbench.app.plan import GENERATOR, PRIOR_LAUNCHES, PROBES, drain, start
from duetbench.app.testbed import SideCase
from duetbench.core.comparison import Curve, Duet, Instructions, SideName
from duetbench.core.errors import FlagName
from duetbench.core.metrics import BRIEF, METRICS, judged_in
from duetbench.core.model import Case, Launch
from duetbench.core.protocol import DUET_WARM_UP, SLOW_SECONDS, UNIT_REQUESTS, duet_load
from duetbench.host.command import reason
from duetbench.host.console import Progress, duration
from duetbench.judge.pairs import Pair
from duetbench.judge.samples import Mode, join_reasons, with_noise


class Instruments(Protocol):
    """Seam between the loop and everything that starts a process."""

    def duets(
        self, pairs: Sequence[tuple[SideCase, SideCase]], *, head_first: bool, order: int
    ) -> tuple[Duet, ...]:
        """Run a duet of each pair of base and head, in their order; at least of the first.

        All pairs share one launch of each side, so cases of a side are equal by
        `testbed.server_of`. A failure ends the launch, so there may be fewer duets than pairs. They
        are numbered from `order`. Raises nothing but `InterruptedRun`.
        """

    def launch(self, side: SideCase) -> Launch:
        """Launch one side with nothing beside it. Raises nothing but `InterruptedRun`."""

    def soak(self, side: SideCase, name: SideName, seconds: float) -> Curve:
        """Load a side alone for some seconds. Raises nothing but `InterruptedRun`."""

    def instructions(
        self, sides: tuple[SideCase, SideCase], limit: float, ends: float
    ) -> Instructions | str:
        """Count both sides' instructions; see `counted.instructions`."""


MakeInstruments = Callable[[Path], Instruments]
"""Creates instruments that write their logs to a folder: `instruments.Real`."""


class Reporter(Progress):
    """Prints a line per duet, of starts one in ten; on a terminal one line that is replaced.

    That line says what is known so far, and how long it takes until more is.
    """

    _void = ""
    _known = ""
    _cases = 2  # of one case the lines need no name
    _left = 0.0

    def begin(self, cases: int, seconds: float, budget: float | None) -> None:
        """Announce a comparison of some cases: s to a first answer."""
        limit = "" if budget is None else f", at most {duration(budget)} in all"
        self._cases = cases
        many = f"{cases} case{'s' * (cases != 1)}"
        sentence = f"{many}; a first answer takes about {duration(seconds)}{limit}"
        self.start(sentence, seconds, until="to the next decisions")

    def work(self, name: str, done: int, remaining: float) -> None:
        self._left = remaining
        text = f"pair {done + 1}" + (f" · {self._known}" if self._known else "")
        super().work(f"{name} · {text}" if self._cases > 1 else text, done, remaining)

    def know(self, sentence: str) -> None:
        """Take what is known so far: `CPU per request +26 % so far`."""
        self._known = sentence

    def report(self, duet: Duet) -> None:
        """Print the result of a duet: changes of head against base, or why there are none."""
        failures = {side: "; ".join(duet.failures(side)) for side in duet.failed}
        start = not {*BRIEF} & {*duet.base, *duet.head}
        if start and not failures and duet.order % 10:
            return
        if failures:
            words = join_reasons(failures)
            again, self._void = reason(words) == self._void, reason(words)
            text = "void again" if again else f"void: {words}"
        else:
            changes = [
                f"{METRICS[name].noun} {duet.head[name] / duet.base[name] - 1:+.1%}"
                for name in (*BRIEF, *judged_in({"start alone"}))
                if duet.base.get(name) and duet.head.get(name)
            ]
            warnings = sorted({flag.name for flag in (*duet.flags_base, *duet.flags_head)})
            text = ", ".join(changes) + (f"  [{', '.join(warnings)}]" if warnings else "")
            text = text if with_noise(duet).usable else f"disturbed: {text}"
        self._left -= duet.seconds
        left = f"; next decision in about {duration(self._left)}" if self._left >= 1 else ""
        name = f" of {duet.case}" if self._cases > 1 else ""
        if failures or not self._console.is_terminal:
            noun = "start" if start and not failures else "duet"
            self.say(f"{noun} {duet.order + 1}{name}: {text}{left}")


class Rule(Protocol):
    """Decides when enough duets have been run."""

    def open(self) -> Sequence[Pair]:
        """List the cases that need another duet."""

    def missing(self, pair: Pair) -> int:
        """Return the least number of duets that a case needs until its next decision."""

    def add(self, pair: Pair, duet: Duet) -> None:
        """Add a duet to its case."""


class DuetSeconds:
    """Predicts the seconds of duets: a calculated time, corrected by the duets so far.

    Duets on one launch share its start and end. A case is corrected by its own errors, or by those
    of other cases if it has none.
    """

    def __init__(self) -> None:
        self._errors: dict[Pair, list[float]] = defaultdict(list)

    def observe(self, pair: Pair, seconds: float, together: int) -> None:
        """Learn from a duet's seconds, including its share of a launch with `together` duets."""
        launch, own = _seconds(pair)
        self._errors[pair].append(seconds - own - launch / together)

    def of(self, *pairs: Pair) -> float:
        """Predict the seconds of one duet per case, on as few launches as possible."""
        launches = {pair.server: _seconds(pair)[0] for pair in pairs}
        all_errors = [error for errors in self._errors.values() for error in errors]
        others = sum(all_errors) / (len(all_errors) + PRIOR_LAUNCHES)
        own = (
            _seconds(pair)[1]
            + (statistics.fmean(self._errors[pair]) if pair in self._errors else others)
            for pair in pairs
        )
        return max(1.0, sum(launches.values()) + sum(own)) if pairs else 0.0


@cache
def _seconds(pair: Pair) -> tuple[float, float]:
    """Calculate the seconds of a pair's launch, and of its duet on it."""
    launch, own = duet_seconds(pair.case, alone=pair.mode is Mode.ALONE)
    return (2 * launch, 0.0) if pair.mode is Mode.START else (launch, own)


def duet_seconds(case: Case, *, alone: bool = False) -> tuple[float, float]:
    """Calculate the seconds of a launch of both sides, and of a case's duet on it.

    If the sides are launched `alone`, as of any case that scales, these are the seconds of one
    launch, and of the rest of a turn: two loads, and the other launch.
    """
    case, alone = case.model_copy(update={"load": duet_load(case)}), alone or case.scales
    single = max(case.endpoint.takes, case.endpoint.floor)
    slow = single >= SLOW_SECONDS
    verify = (2 if slow else UNIT_REQUESTS + 1) * single
    warm_up = 2 * single if slow else DUET_WARM_UP
    load = case.load.duration + GENERATOR
    # Both sides start and stop at the same time. In between, each verification of one side waits
    # for the other's, and what is left of the loads shares the cores, unless the handlers wait.
    launch = start(case.workers) + (1 if alone else 2) * PROBES
    rest = drain(case)
    if alone:
        return launch, launch + 2 * (verify + rest + warm_up + load)
    return launch, 2 * verify + rest * (1 if case.endpoint.floor else 2) + warm_up + load


def by_turns(
    base: Launch, head: Launch, *, head_first: bool, order: int = 0, load_seconds: float = 0.0
) -> Duet:
    """Make a turn of both launches.

    As in a duet, an unsteady launch is accepted, because the other side's launch just before or
    after it drifts alike.
    """
    before, after = (
        tuple(flag for flag in launch.flags if flag.name != FlagName.NOT_STEADY)
        for launch in (base, head)
    )
    void = any(flag.kind == "void" for flag in (*before, *after))
    figures = ({}, {}) if void else (base.metrics, head.metrics)
    return Duet(
        case=head.case,
        order=order,
        head_first=head_first,
        started=(head if head_first else base).started,
        seconds=base.seconds + head.seconds,
        load_seconds=load_seconds,
        flags_base=before,
        flags_head=after,
        alone=True,
        base=figures[0],
        head=figures[1],
    )


class Loop:
    """Runs duets of cases; `order` counts all duets so far."""

    def __init__(
        self,
        instruments: Instruments,
        reporter: Reporter,
        seed: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.instruments, self.reporter, self.clock = instruments, reporter, clock
        self.source = random.Random(seed)  # noqa: S311 - an order that can be repeated
        self.seconds = DuetSeconds()
        self.order = 0
        self._head_first: dict[Hashable, bool] = defaultdict(lambda: self.source.random() < 0.5)

    def run(self, rule: Rule, ends: float) -> bool:
        """Run rounds until the rule needs no more; False if the clock reaches `ends` first."""
        while waiting := rule.open():
            groups: dict[Hashable, list[Pair]] = defaultdict(list)
            for pair in self.source.sample(waiting, len(waiting)):
                groups[pair.server].append(pair)
            before = self.order
            for group in groups.values():
                while group and self.clock() + self.seconds.of(*group) > ends:
                    group.pop()
                if group:
                    missing = {pair: rule.missing(pair) for pair in rule.open()}
                    remaining = min(self.remaining(missing), ends - self.clock())
                    self.launch(group, rule.add, remaining)
            if self.order == before:
                return False
        return True

    def launch(
        self, group: Sequence[Pair], add: Callable[[Pair, Duet], None], remaining: float
    ) -> None:
        """Run a duet of each case of a group, which shares a server: one launch of each side."""
        head_first = self._head_first[group[0].server]
        self._head_first[group[0].server] = not head_first
        name = f"{group[0].label} {group[0].case.id}".strip()
        self.reporter.work(name, self.order, remaining)
        if group[0].mode is Mode.ALONE:
            for pair in group:
                self._record(pair, self._apart(pair, head_first=head_first), add, 1)
            return
        sides = [pair.sides for pair in group]
        duets = self.instruments.duets(sides, head_first=head_first, order=self.order)
        for pair, duet in zip(group, duets, strict=False):  # a failure leaves fewer duets
            self._record(pair, duet, add, len(duets))

    def _record(
        self, pair: Pair, sample: Duet, add: Callable[[Pair, Duet], None], together: int
    ) -> None:
        sample = sample.model_copy(update={"order": self.order})
        self.order += 1
        self.seconds.observe(pair, sample.seconds, together)
        add(pair, sample)
        self.reporter.report(sample)

    def _apart(self, pair: Pair, *, head_first: bool) -> Duet:
        """Launch each side alone, with the load of a duet."""
        step = -1 if head_first else 1
        launches = []
        for side in pair.sides[::step]:
            case = side.case.model_copy(update={"load": duet_load(side.case)})
            launches.append(self.instruments.launch(replace(side, case=case)))
        seconds = duet_load(pair.case).duration
        return by_turns(*launches[::step], head_first=head_first, load_seconds=seconds)

    def remaining(self, missing: Mapping[Pair, int]) -> float:
        """Predict the seconds until each case has had so many more duets, in rounds."""
        rounds = range(max(missing.values(), default=0))
        return sum(self.seconds.of(*(p for p in missing if missing[p] > n)) for n in rounds)
