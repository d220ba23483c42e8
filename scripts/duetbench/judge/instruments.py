"""Instruments of a comparison: duets, counts before them, and launches after them.

Instructions are counted first. Counts repeat where clocks scatter, so a change of the instructions
is known before the first duet. It is a reason to spend duets on a case, never a verdict: what
executes more need not be slower.

What moved is followed up by sequential launches. A duet's own figures are those of two servers that
share their cores, so absolute figures and latencies come from launches with nothing beside them, in
the order ABBA, which cancels a steady drift of the machine. The verdict is the duets' alone.
"""

from __future__ import annotations

import math
import shutil
import statistics
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Final, Protocol

from duetbench.core.metrics import BRIEF, METRICS
from duetbench.core.model import Launch, Status
from duetbench.core.protocol import DUET_SECONDS, WINDOW_SECONDS
from duetbench.host.console import Progress, duration
from duetbench.judge import counted, installations
from duetbench.measure import duet, launch
from duetbench.measure.testbed import SideCase
from duetbench.project.plan import expected
from duetbench.store.comparison import Duet, Instructions, SideName

KEPT_LOGS: Final = 20
"""Comparisons whose server logs are kept."""

LONGEST: Final = 0.05
"""Endpoints that compute for longer, s, are not counted: Valgrind is some fifty times slower."""

START_SECONDS: Final = 15.0
"""For both sides of one environment at the same time, before the first figure: imports."""

EACH_SECONDS: Final = 3.0
"""For each endpoint more."""

PATIENCE: Final = 3.0
"""So many times the expected seconds are waited for."""

ORDER: Final = (0, 1, 1, 0)
"""Of sequential launches: base, head, head, base."""

BothSides = Mapping[str, tuple[SideCase, SideCase]]
"""Base and head, by the case's id, or by the series of a job."""


class Instruments(Protocol):
    """Seam between the session and everything that starts a process."""

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

    def instructions(
        self, pairs: Sequence[tuple[SideCase, SideCase]], limit: float
    ) -> tuple[Instructions | str, ...]:
        """Count both sides' instructions per request within `limit` s, or say why not.

        The cases share stack, interpreter and environment variables.
        """


class Real:
    """Real servers and generators; of each duet's two installations others take turns."""

    def __init__(
        self, logs: Path, seconds: float = DUET_SECONDS, copies: int = installations.COPIES
    ) -> None:
        """Keep server logs in a folder of this comparison, in `compare` below `logs`.

        So many `copies` of each side take turns; 0: both run as they are.
        """
        self._folder = logs / "compare" / f"{datetime.now(UTC):%Y%m%dT%H%M%S%f}"
        self._folder.mkdir(parents=True)
        self._numbers = count()
        self._seconds, self._rotation = seconds, installations.Rotation(copies)
        for old in sorted(self._folder.parent.iterdir())[:-KEPT_LOGS]:
            shutil.rmtree(old, ignore_errors=True)

    def duets(
        self, pairs: Sequence[tuple[SideCase, SideCase]], *, head_first: bool, order: int
    ) -> tuple[Duet, ...]:
        log = self._logs(pairs[0][1].case.id)
        base, head = self._rotation.turn(*pairs[0])  # they share a server, so a testbed
        pairs = [
            (replace(below, testbed=base), replace(above, testbed=head)) for below, above in pairs
        ]
        return duet.perform(pairs, log, head_first=head_first, order=order, seconds=self._seconds)

    def launch(self, side: SideCase) -> Launch:
        options = launch.Options(window=WINDOW_SECONDS["quick"])
        return launch.perform(side.case, side.testbed, options, self._logs(side.case.id)("head"))

    def instructions(
        self, pairs: Sequence[tuple[SideCase, SideCase]], limit: float
    ) -> tuple[Instructions | str, ...]:
        return counted.instructions(pairs, limit)

    def _logs(self, case: str) -> Callable[[SideName], Path]:
        stem = f"{next(self._numbers):04d}-{case.replace('/', '_')}"
        return lambda side: self._folder / f"{stem}-{side}.log"


class Counts:
    """Counts cases, each piece of code once: cases that differ in the server only share theirs."""

    def __init__(self, instruments: Instruments, sides: BothSides) -> None:
        self._instruments, self._sides = instruments, sides
        self._found: dict[Hashable, Instructions | str] = {}

    def of(self, case: str) -> Instructions | None:
        """Counts of a case; None if it was not counted, or cannot be."""
        outcome = self.outcome(case)
        return outcome if isinstance(outcome, Instructions) else None

    def outcome(self, case: str) -> Instructions | str:
        """Counts of a case, or why there are none."""
        return self._found.get(self._code(case), "there was no time to count it")

    def count(self, cases: Iterable[str], left: Callable[[], float], reporter: Reporter) -> None:
        """Count environment by environment in the time there is; an interruption keeps the rest."""
        for group in self._groups(cases):
            seconds = START_SECONDS + EACH_SECONDS * len(group)
            if seconds > left():
                continue
            pairs = [self._sides[case] for case in group]
            counts = self._instruments.instructions(pairs, min(left(), PATIENCE * seconds))
            self._found |= {self._code(case): one for case, one in zip(group, counts, strict=True)}
            for reason in dict.fromkeys(one for one in counts if isinstance(one, str)):
                names = [case for case, one in zip(group, counts, strict=True) if one == reason]
                reporter.note(f"{', '.join(names)}: instructions not counted: {reason}")

    def _groups(self, cases: Iterable[str]) -> list[Sequence[str]]:
        """Group what is counted together: one case per piece of code, by environment."""
        groups: dict[Hashable, dict[Hashable, str]] = {}
        for name in cases:
            code, head = self._code(name), self._sides[name][1]
            if head.testbed.target:
                continue  # `benchmarks/` of ours know experiments only
            if head.case.endpoint.takes <= LONGEST and code not in self._found:
                groups.setdefault(code[:3], {}).setdefault(code, name)
        return [tuple(group.values()) for group in groups.values()]

    def _code(self, name: str) -> tuple[Hashable, ...]:
        case, job = self._sides[name][1].case, self._sides[name][1].job
        variables = tuple(sorted(case.env.items()))
        environment = case.python, case.stack, variables
        return *environment, case.experiment, case.endpoint.name, job


def differ(counted: Instructions | None) -> bool:
    """Whether the sides' instructions differ by more than what matters of CPU."""
    floor = math.log1p(METRICS["server_cpu_per_request"].floor)
    return counted is not None and abs(math.log(counted.head / counted.base)) > floor


class FollowUp:
    """Sequential launches of cases while there is time; `means` of those that were all valid."""

    def __init__(
        self, instruments: Instruments, sides: BothSides, left: Callable[[], float]
    ) -> None:
        """`left` gives the seconds that are left."""
        self._instruments, self._sides, self._left = instruments, sides, left
        self.means: dict[str, tuple[dict[str, float], dict[str, float]]] = {}

    def seconds(self, *cases: str) -> float:
        """Seconds that launches of cases would take."""
        heads = (self._sides[case][1].case for case in cases)
        return sum(len(ORDER) * expected(head, "quick").total for head in heads)

    def launch(self, cases: Sequence[str], reporter: Reporter) -> None:
        """Launch cases one after another in the time there is; an interruption keeps the rest."""
        for done, case in enumerate(cases):
            if self.seconds(case) <= self._left():
                remaining = min(self.seconds(*cases[done:]), self._left())
                reporter.playing(case, done, remaining)
                self._launch(case)

    def _launch(self, case: str) -> None:
        figures: tuple[list[dict[str, float]], ...] = ([], [])
        for side in ORDER:
            outcome = self._instruments.launch(self._sides[case][side])
            if outcome.status is not Status.OK:
                return
            figures[side].append(outcome.metrics)
        self.means[case] = _means(figures[0]), _means(figures[1])


def _means(launches: Sequence[dict[str, float]]) -> dict[str, float]:
    """Mean of each metric that all launches have."""
    names = [name for name in launches[0] if all(name in launch for launch in launches)]
    return {name: statistics.fmean(launch[name] for launch in launches) for name in names}


class Reporter(Progress):
    """One line per duet; on a terminal a bar with the time to the next decisions below them."""

    _stage = ""

    def begin(self, cases: int, seconds: float, budget: float | None) -> None:
        """The comparison starts: deciding about so many cases takes `seconds` at least."""
        limit = "" if budget is None else f", at most {duration(budget)}"
        sentence = f"{_cases(cases)}; a first answer takes about {duration(seconds)}{limit}"
        self.start(sentence, seconds, until="to the next decisions")

    def stage(self, name: str, cases: int) -> None:
        """A stage with so many cases starts."""
        self._stage = name
        self.say(f"{name}: {_cases(cases)}")

    def playing(self, what: str, done: int, remaining: float) -> None:
        """A duet or launch starts; the stage's next decisions take `remaining` s about."""
        self.work(f"{self._stage} {what}".strip(), done, remaining)

    def played(self, duet: Duet) -> None:
        """A duet ended."""
        self.say(f"[{duet.order + 1}] {duet.case}  {outcome(duet)}")


def outcome(duet: Duet) -> str:
    """Describe a duet in a line: changes of head against base, or why it does not count."""
    sided = [("base", flag) for flag in duet.flags_base] + [("head", f) for f in duet.flags_head]
    failing = [(side, flag) for side, flag in sided if flag.severity == "fail"]
    if failing:
        return "void: " + "; ".join(f"{side}: {f.name}: {f.detail}" for side, f in failing)
    changes = [
        f"{METRICS[name].title} {duet.head[name] / duet.base[name] - 1:+.1%}"
        for name in BRIEF
        if duet.base.get(name) and duet.head.get(name)
    ]
    warnings = sorted({flag.name for _, flag in sided})
    text = ", ".join(changes) + (f"  [{', '.join(warnings)}]" if warnings else "")
    return text if duet.usable else f"not used: {text}"


def _cases(number: int) -> str:
    return f"{number} {'case' if number == 1 else 'cases'}"
