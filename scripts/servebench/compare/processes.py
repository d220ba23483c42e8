"""Fresh processes that run one in-process benchmark of base and head, both at once on one core.

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
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from servebench.compare.inprocess import Target
from servebench.compare.model import SideName
from servebench.compare.sides import Side
from servebench.errors import LaunchError
from servebench.inprocess import bench_runner, single
from servebench.process import Session

ATTRIBUTES: Final[dict[str, Any]] = {"rounds": 1, "repeat": [2, 5, 0.6]}
"""Five samples of a process, or as many, from two on, as 0.6 s hold."""

LONGEST_S: Final = 60.0
"""A process that takes longer is ended, and has failed."""

_RESULT: Final = "result.json"
_LAST_WORDS: Final = 300  # characters of a failed process's output in a reason


@dataclass(frozen=True, slots=True)
class Reading:
    """What one process gave.

    Attributes:
        value: Seconds of CPU per call, the median of its samples; None where there is none.
        version: The benchmark's version.
        reason: Why there is no value.
        absent: There is nothing to measure on this side, which is no failure.
    """

    value: float | None = None
    version: str = ""
    reason: str = ""
    absent: bool = False

    @property
    def failed(self) -> bool:
        """Whether it should have given a value, and has not."""
        return self.value is None and not self.absent


@dataclass(frozen=True, slots=True)
class Played:
    """One process of each side: the sample."""

    base: Reading
    head: Reading
    seconds: float


class Processes(Protocol):
    """Seam between the comparison of benchmarks and the processes that run them."""

    def play(self, target: Target, *, head_first: bool) -> Played:
        """Run both sides once; may raise `InterruptedRun` and nothing else."""


class RealProcesses:
    """Real processes, both at once on the first of the server cores."""

    def __init__(self, base: Side, head: Side) -> None:
        """Measure these sides."""
        self._sides: dict[SideName, Side] = {"base": base, "head": head}

    def play(self, target: Target, *, head_first: bool) -> Played:
        """Run both sides at once."""
        began = time.monotonic()
        order: tuple[SideName, SideName] = ("head", "base") if head_first else ("base", "head")
        found: dict[SideName, Reading] = {}
        with tempfile.TemporaryDirectory(prefix="servebench-inside-") as name, ExitStack() as stack:
            running: dict[SideName, Session] = {}
            for side in order:
                folder = Path(name) / side
                folder.mkdir()
                try:
                    running[side] = stack.enter_context(self._start(target, side, folder))
                except LaunchError as error:
                    found[side] = Reading(reason=str(error))
            for side, session in running.items():
                left = max(0.0, LONGEST_S - (time.monotonic() - began))
                code = session.wait(left)
                found[side] = read(Path(name) / side / _RESULT, session.log, code)
        return Played(found["base"], found["head"], time.monotonic() - began)

    def _start(self, target: Target, name: SideName, folder: Path) -> Session:
        side = self._sides[name]
        place = target.base if name == "base" else target.head
        executable = side.rig.pythons[place.stack, place.python]
        argv = [
            str(executable), "-P", single.__file__,
            str(side.root.resolve() / "benchmarks"), target.benchmark,
            json.dumps(target.parameters), json.dumps(ATTRIBUTES), str(folder / _RESULT),
        ]  # fmt: skip
        env = bench_runner.variables(
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


def read(result: Path, log: Path, code: int | None) -> Reading:
    """Read what a process has left.

    Args:
        result: The file that it was to write.
        log: Its output.
        code: Its exit code; None if it had to be ended.
    """
    if code is None:
        return Reading(reason=f"expected the process to end within {LONGEST_S:g} s, it did not")
    if code != 0:
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return Reading(reason=f"its process {how}; {_last_words(log)}")
    try:
        found = json.loads(result.read_text("utf-8"))
        if "absent" in found:
            return Reading(reason=str(found["absent"]), absent=True)
        value = statistics.median(found["samples"])
    except (OSError, ValueError, KeyError, statistics.StatisticsError) as error:
        return Reading(reason=f"its process left no result: {error!r}; {_last_words(log)}")
    if not value > 0:
        return Reading(reason=f"expected seconds above 0, found {value}")
    return Reading(value=value, version=str(found.get("version", "")))


def _last_words(log: Path) -> str:
    try:
        lines = log.read_text("utf-8", "replace").split("\n")
    except OSError:
        lines = []
    said = [line.strip() for line in lines if line.strip()]
    return f"it said: {said[-1][:_LAST_WORDS]}" if said else "it said nothing"
