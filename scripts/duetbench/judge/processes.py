"""In-process benchmarks of base and head, compared by fresh processes of both, at once on one core.

As duets of servers do: what slows the core down falls on both alike, and the CPU clock of a process
does not count the time that the other one has. Measured on a two-core virtual machine with other
work on it, eight pairs of processes each, with the same code on both sides, standard deviation of
the log ratio (benchmarks timed by the wall clock were timed by the CPU clock on the shared core):

                                     one after   at once,     at once,
                                     the other   a core each  on one core
    a request to FastAPI, 3.14         6.2 %        1.3 %        1.5 %
    a request to FastAPI, 3.14t        3.8 %        5.2 %        0.9 %
    20 services from JSON, 3.14         30 %         70 %        1.8 %

Times are therefore CPU times here, also of benchmarks that asv times by the wall clock.

The method is that of the duets (`statistics`), with a process of each side in a duet's place. All
benchmarks of a comparison are judged together, apart from its duets, so that a comparison in which
nothing changed has twice the chances for a false verdict that its duets alone have.
"""

import json
import os
import random
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Protocol

from duetbench.core.errors import LaunchError
from duetbench.host.session import Session
from duetbench.judge.decide import SequentialTest, judge
from duetbench.judge.durations import INPROCESS, spread
from duetbench.judge.inprocess import THRESHOLD, TOLERANCE, Target
from duetbench.judge.instruments import Reporter
from duetbench.judge.samples import SIDES, ProcessPair, ProcessPairs, ProcessReading
from duetbench.judge.sides import Side
from duetbench.judge.statistics import Method
from duetbench.measure.inprocess import suite_runs
from duetbench.store.comparison import MicroComparison, Missing, SideName

ATTRIBUTES: Final[dict[str, Any]] = {"rounds": 1, "repeat": [2, 5, 0.6]}
"""Five samples of a process, or as many, from two on, as 0.6 s hold."""

LONGEST_S: Final = 60.0
"""A process that takes longer is ended, and has failed."""

PAIR_SECONDS: Final = 4.0
"""For a process of each side, before one was seen: imports, warm-up and samples, on a busy core."""

_SINGLE: Final = Path(suite_runs.__file__).with_name("single.py")  # it imports what stacks lack
_RESULT: Final = "result.json"
_LAST_WORDS: Final = 300  # characters of a failed process's output in a reason


class Processes(Protocol):
    """Seam between the comparison of benchmarks and the processes that run them."""

    def run(self, target: Target, *, head_first: bool) -> ProcessPair:
        """Run both sides once; may raise `InterruptedRun` and nothing else."""


class InprocessComparison:
    """Compares benchmarks while there is time.

    In rounds of one process per side and benchmark, in random order, base started first and head
    started first in turn.
    """

    def __init__(
        self,
        targets: Sequence[Target],
        processes: Processes,
        method: Method,
        source: random.Random,
        clock: Callable[[], float],
    ) -> None:
        """Prepare; nothing is measured yet. `source` draws the order."""
        self.targets = tuple(targets)
        self.notes: list[str] = []
        self._processes, self._method, self._random = processes, method, source
        self._clock = clock
        self._taken: list[float] = []
        self._head_first: dict[Target, bool] = defaultdict(lambda: self._random.random() < 0.5)
        self._test = self._tested(())

    def seconds(self, targets: int | None = None) -> float:
        """Seconds until so many benchmarks, by default all, have had their first look."""
        count = len(self.targets) if targets is None else targets
        return count * self._method.looks.counts[0] * self._pair_seconds()

    def record(self) -> dict[str, float | int | str]:
        """What the comparison's file says of the method, if there is anything to compare."""
        method = {"floor": THRESHOLD, "tolerance": TOLERANCE, "share": INPROCESS}
        return {f"inprocess_{name}": value for name, value in method.items() if self.targets}

    def look(self, ends: float, reporter: Reporter) -> None:
        """Run processes until a moment on the clock; what an interruption cuts off is kept."""
        # Those that can all have their first look, spread over kinds; half a look is none.
        left = ends - self._clock()
        fitting = int(left // self.seconds(1)) if left < self.seconds() else len(self.targets)
        taken = spread(self.targets, lambda t: (t.benchmark, t.head.python))[: max(0, fitting)]
        chosen = tuple(target for target in self.targets if target in taken)
        if len(chosen) < len(self.targets):
            note = (
                f"in-process benchmarks: {len(chosen)} of {len(self.targets)} compared, for lack "
                f"of time; a first look at all of them takes about {self.seconds():.0f} s"
            )
            self.notes.append(note)
            reporter.note(note)
        if not chosen:
            return
        reporter.stage("in-process benchmarks", len(chosen))
        self._test = self._tested(chosen)
        while self._test.open() and self._round(ends):
            pass

    def judged(self) -> tuple[tuple[MicroComparison, ...], tuple[Missing, ...]]:
        """The verdicts, and what only one side has; nothing is measured any more."""
        self._test.close()
        left_out = self._tested(t for t in self.targets if t not in self._test.samples)
        compared, absent = [], []
        for test in (self._test, left_out):
            for target, (judgement,) in judge(test).items():
                samples = test.samples[target]
                if reason := samples.missing():
                    name = f"{target.name} [{target.head.stack}, {target.python}]"
                    absent.append(Missing(case=name, reason=reason))
                    continue
                base, head = (
                    tuple(getattr(one, side).value for one in samples.usable) for side in SIDES
                )
                compared.append(
                    MicroComparison(
                        benchmark=target.name,
                        python=target.python,
                        stack=target.head.stack,
                        series=target.series,
                        unit="s",
                        judgement=judgement,
                        base=base,
                        head=head,
                    )
                )
        return tuple(compared), tuple(absent)

    def _tested(self, targets: Iterable[Target]) -> SequentialTest[Target]:
        return SequentialTest({target: ProcessPairs() for target in targets}, self._method)

    def _round(self, ends: float) -> bool:
        """Run each open benchmark once, as far as there is time; tell whether there was for any."""
        found = False
        targets = self._test.open()
        for target in self._random.sample(targets, len(targets)):
            if self._clock() + self._pair_seconds() <= ends:
                pair = self._processes.run(target, head_first=self._head_first[target])
                self._head_first[target] ^= True
                self._taken.append(pair.seconds)
                self._test.add(target, pair)
                found = True
        return found

    def _pair_seconds(self) -> float:
        """What a process of each side takes, as far as is known."""
        return sum(self._taken) / len(self._taken) if self._taken else PAIR_SECONDS


class RealProcesses:
    """Real processes, both at once on the first of the server cores."""

    def __init__(self, base: Side, head: Side) -> None:
        self._sides: dict[SideName, Side] = {"base": base, "head": head}

    def run(self, target: Target, *, head_first: bool) -> ProcessPair:
        began = time.monotonic()
        order: tuple[SideName, SideName] = ("head", "base") if head_first else ("base", "head")
        found: dict[SideName, ProcessReading] = {}
        with (
            tempfile.TemporaryDirectory(prefix="duetbench-inprocess-") as name,
            ExitStack() as stack,
        ):
            running: dict[SideName, Session] = {}
            for side in order:
                folder = Path(name) / side
                folder.mkdir()
                try:
                    running[side] = stack.enter_context(self._start(target, side, folder))
                except LaunchError as error:
                    found[side] = ProcessReading(reason=str(error))
            for side, session in running.items():
                left = max(0.0, LONGEST_S - (time.monotonic() - began))
                code = session.wait(left)
                found[side] = read(Path(name) / side / _RESULT, session.log, code)
        return ProcessPair(found["base"], found["head"], time.monotonic() - began)

    def _start(self, target: Target, name: SideName, folder: Path) -> Session:
        side = self._sides[name]
        place = target.base if name == "base" else target.head
        executable = side.rig.pythons[place.stack, place.python]
        argv = [
            str(executable), "-P", str(_SINGLE),
            str(side.root.resolve() / "benchmarks"), target.benchmark,
            json.dumps([value for _, value in target.parameters]), json.dumps(ATTRIBUTES),
            str(folder / _RESULT),
        ]  # fmt: skip
        env = suite_runs.runner_variables(
            os.environ, executable=executable, python=place.python, stack=place.stack,
            checkout=side.root,
        )  # fmt: skip
        return Session.start(
            argv,
            role="client",
            cores=side.rig.machine.server_cores[:1],
            env=env,
            cwd=folder,
            log=folder / "log",
        )


def read(result: Path, log: Path, code: int | None) -> ProcessReading:
    """Read what a process has left; `code`: its exit code, None if it had to be ended."""
    if code is None:
        reason = f"expected the process to end within {LONGEST_S:g} s, it did not"
        return ProcessReading(reason=reason)
    text = log.read_text("utf-8", "replace") if log.is_file() else ""
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    said = f"it said: {lines[-1][:_LAST_WORDS]}" if lines else "it said nothing"
    if code != 0:
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return ProcessReading(reason=f"its process {how}; {said}")
    try:
        found = json.loads(result.read_text("utf-8"))
        if "absent" in found:
            return ProcessReading(reason=str(found["absent"]), absent=True)
        value = statistics.median(found["samples"])
    except (OSError, ValueError, KeyError, statistics.StatisticsError) as error:
        return ProcessReading(reason=f"its process left no result: {error!r}; {said}")
    if not value > 0:
        return ProcessReading(reason=f"expected seconds above 0, found {value}")
    return ProcessReading(value=value, version=str(found.get("version", "")))
