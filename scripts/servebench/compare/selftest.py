"""Comparisons whose right answer is known: nothing changed, or a slowdown of known size.

Base is this checkout. Head is the same, or a copy with one thing planted (`plants`). Everything
else is `session.compare`, exactly as a pull request gets it.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from servebench import experiments, header, paths, rig
from servebench.compare import plants, session
from servebench.compare.draft import Header
from servebench.compare.instruments import Instruments, Real
from servebench.compare.model import Comparison, Instructions, SideRecord
from servebench.compare.pairing import Pair
from servebench.compare.player import Part
from servebench.compare.progress import Reporter
from servebench.compare.sides import Side
from servebench.compare.touched import Touched
from servebench.compare.trials import Kind, Trial, of_comparison
from servebench.errors import NothingMeasuredError, SetupError, UsageError
from servebench.model import Case, Profile

CALIBRATION_LAUNCHES: Final = 3
"""Launches whose least CPU per request is what a slowdown's size refers to."""

MEMORY_METRIC: Final = "pss_steady"
CPU_METRIC: Final = "server_cpu_per_request"

_LOOP_STEPS: Final = 2_000_000
_LOOP_SECONDS: Final = 60.0  # limit; the loop takes 0.05 s or so
_TIME_LOOP: Final = (
    "import time\n"
    "def loop():\n"
    f"    for _ in range({_LOOP_STEPS}):\n"
    "        pass\n"
    "def once():\n"
    "    began = time.perf_counter()\n"
    "    loop()\n"
    "    return time.perf_counter() - began\n"
    "print(min(once() for _ in range(9)))\n"
)
_COUNT_SECONDS: Final = 300.0


@dataclass(frozen=True, slots=True)
class Task:
    """One trial to be made.

    Attributes:
        kind: What is planted; `aa`: nothing.
        size: How much of it.
        cases: Ids of the cases that are compared; the first is the one that is changed.
        budget: Seconds of one comparison; None: until all is decided.
        seed: Of the order of the duets.
    """

    kind: Kind
    size: float
    cases: tuple[str, ...]
    budget: float | None
    seed: int


def chosen(globs: Sequence[str], profile: Profile = "quick") -> tuple[Case, ...]:
    """The cases that globs select, in the order of their declaration.

    Raises:
        UsageError: A glob selects none.
    """
    cases = tuple(
        case
        for experiment in experiments.load_experiments()
        for case in experiments.expand(experiment, profile)
    )
    for glob in globs:
        if not any(fnmatchcase(case.id, glob) for case in cases):
            raise UsageError(f"--select {glob!r} selects no case of the profile {profile}")
    return tuple(c for c in cases if not globs or any(fnmatchcase(c.id, g) for g in globs))


class Bench:
    """Makes trials, and remembers what it has calibrated."""

    def __init__(
        self,
        cases: Sequence[Case],
        scratch: Path,
        reporter: Reporter,
        instruments: Instruments | None = None,
    ) -> None:
        """Prepare.

        Args:
            cases: All cases that trials will name.
            scratch: Folder for planted copies; theirs to fill, the caller's to remove.
            reporter: Told of every comparison.
            instruments: What to measure with; by default real servers.
        """
        self.cases = {case.id: case for case in cases}
        self.scratch, self.reporter = scratch, reporter
        logs = paths.state_dir() / "logs"
        self.rig = rig.assemble(cases, logs)
        self.instruments = instruments or Real(logs)
        self.commit, self.dirty = header.revision(paths.project_root())
        self._costs: dict[str, dict[str, float]] = {}
        self._steps: dict[tuple[str, str], float] = {}
        self._counted: dict[tuple[str, str, float], float | None] = {}

    def trial(self, task: Task) -> Trial:
        """Make one.

        Raises:
            InterruptedRun: The comparison was stopped: there is no trial.
            NothingMeasuredError: The calibration found no usable launch.
        """
        cases = tuple(self.cases[name] for name in task.cases)
        base = self._side(cases, "base", self.rig)
        if task.kind == "aa":
            return of_comparison(
                self._compare(base, self._side(cases, "head", self.rig), task), "aa"
            )
        planted = cases[0]
        folder = self.scratch / f"{task.kind}-{task.size:g}-{planted.id.replace('/', '_')}"
        head_rig = self._planted(task, planted, folder)
        head = self._side(cases, f"{task.kind} {task.size:g}", head_rig)
        instructions = self._instructions(task, planted, head_rig)
        return of_comparison(
            self._compare(base, head, task), task.kind,
            size=task.size, planted=planted.id, instructions=instructions,
        )  # fmt: skip

    def _compare(self, base: Side, head: Side, task: Task) -> Comparison:
        touched = Touched(
            pairs=tuple(Pair(case, case, "self-test") for case in base.cases),
            untouched=0,
            missing=(),
            packages=(),
            inprocess=False,
        )
        return session.compare(
            base, head, touched, task.budget, task.seed, self.reporter,
            header=Header(notes=("a self-test: the right answer is known",)),
            instruments=self.instruments, folder=self.scratch / "comparisons",
        )  # fmt: skip

    def _side(self, cases: tuple[Case, ...], label: str, of: rig.Rig) -> Side:
        record = SideRecord(
            label=label, kind="revision", commit=self.commit, dirty=self.dirty,
            stacks=tuple(stack.record() for stack in of.stacks.values()), interpreters=(),
        )  # fmt: skip
        return Side(record, of, cases, of.apps.parent)

    def _planted(self, task: Task, case: Case, folder: Path) -> rig.Rig:
        """A rig whose case is slower; made once and used by all trials of the same plant."""
        pair = (case.stack, case.python)
        apps = folder / "apps"
        known = apps.exists()
        if not known:
            shutil.copytree(self.rig.apps, apps, ignore=shutil.ignore_patterns("__pycache__"))
        if task.kind == "dependency":
            copy = folder / "environment"
            python = copy / "bin" / "python"
            if not copy.exists():
                original = self.rig.pythons[pair].parent.parent
                python = plants.into_dependency(original, case, self._loops(case, task.size), copy)
            return replace(self.rig, pythons={**self.rig.pythons, pair: python})
        if not known:
            match task.kind:
                case "busy":
                    plants.into_handler(apps, case, self._loops(case, task.size))
                case "memory":
                    size = round(task.size * self._cost(case)[MEMORY_METRIC])
                    plants.into_memory(apps, case, size)
                case _:
                    plants.into_queue(apps, case, round(task.size))
        return replace(self.rig, apps=apps)

    def _loops(self, case: Case, size: float) -> int:
        """Steps of an empty loop that take the share `size` of the case's CPU per request."""
        seconds = size * self._cost(case)[CPU_METRIC]
        return max(1, round(seconds / self._step(case)))

    def _cost(self, case: Case) -> dict[str, float]:
        """Figures of the case as it is: of each metric the least of a few launches."""
        if case.id not in self._costs:
            outcomes = [
                self.instruments.launch(Part(case, self.rig)) for _ in range(CALIBRATION_LAUNCHES)
            ]
            usable = [one.metrics for one in outcomes if one.metrics]
            if not usable:
                reasons = "; ".join(str(flag.detail) for one in outcomes for flag in one.flags)
                raise NothingMeasuredError(f"{case.id}: no launch to calibrate by: {reasons}")
            self._costs[case.id] = {
                name: min(one[name] for one in usable) for name in (CPU_METRIC, MEMORY_METRIC)
            }
        return self._costs[case.id]

    def _step(self, case: Case) -> float:
        """Seconds of one step of an empty loop in the case's interpreter."""
        pair = (case.stack, case.python)
        if pair not in self._steps:
            cores = self.rig.server_cores(case)
            pinned = ["taskset", "-c", ",".join(map(str, cores))] if self.rig.machine.pinned else []
            argv = [*pinned, str(self.rig.pythons[pair]), "-I", "-c", _TIME_LOOP]
            try:
                done = subprocess.run(
                    argv, capture_output=True, text=True, check=True, timeout=_LOOP_SECONDS
                )
            except (OSError, subprocess.SubprocessError) as error:
                raise SetupError(
                    f"cannot time an empty loop on Python {case.python}: {error}"
                ) from error
            self._steps[pair] = float(done.stdout) / _LOOP_STEPS
        return self._steps[pair]

    def _instructions(self, task: Task, case: Case, head: rig.Rig) -> float | None:
        """Ratio of instructions per request; None where they cannot be counted."""
        if task.kind not in {"busy", "dependency"}:
            return None
        key = (task.kind, case.id, task.size)
        if key not in self._counted:
            found = self.instruments.instructions(
                Part(case, self.rig), Part(case, head), _COUNT_SECONDS
            )
            self._counted[key] = (
                found.head / found.base if isinstance(found, Instructions) else None
            )
        return self._counted[key]


def each(
    tasks: Sequence[Task],
    make: Callable[[Task], Trial],
    keep: Callable[[Trial], None],
    told: Callable[[int, Task], None],
    enough: Callable[[], bool],
) -> int:
    """Make trials one after the other; each is kept as soon as it is made.

    Args:
        tasks: What to make.
        make: Makes one.
        keep: Stores it.
        told: Told before each: its number and task.
        enough: Whether the time is up; asked before each.

    Returns:
        How many were made.
    """
    made = 0
    for number, task in enumerate(tasks):
        if enough():
            break
        told(number, task)
        keep(make(task))
        made += 1
    return made
