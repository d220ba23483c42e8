"""Comparisons whose right answer is known: nothing changed, or a slowdown of known size.

Base and head are fresh copies of this checkout, two installations (`installations`); head as it is,
or with one thing injected (`injected`). Everything else is `session.compare` as a pull request gets
it, but that absolute figures are taken of what moved only where they are asked for.
"""

import fnmatch
import math
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Final

from duetbench.core.errors import NothingMeasuredError, SetupError, UsageError
from duetbench.core.model import Case, Profile
from duetbench.host import paths
from duetbench.judge import session
from duetbench.judge.affected import Affected
from duetbench.judge.builder import Question
from duetbench.judge.instruments import Instruments, Real, Reporter
from duetbench.judge.pairs import Pair
from duetbench.judge.selftest import injected, installations
from duetbench.judge.sides import Side
from duetbench.measure import runner, testbed
from duetbench.measure.duet import SideCase
from duetbench.project import experiments
from duetbench.project.project import Project
from duetbench.store.comparison import Comparison, SideRecord
from duetbench.store.trial import CPU_METRIC, Installation, Kind, Offset, Trial, of_comparison

CALIBRATION_LAUNCHES: Final = 3
"""Launches whose least figures are what a first guess of a plant starts from."""

COUNTED_STEPS: Final = (100, 1100)
"""Lengths of the loops whose instructions are counted: they give those of a step, and what the
loop costs besides. Its time would not: 1,895 steps take 10 us, one alone takes 0.6 us."""

CALIBRATED_FROM: Final = 0.05
CALIBRATION_DUETS: Final = 8
"""Slowdowns of at least so much are corrected by so many duets. A long loop runs more instructions
per cycle than an application does, so their count would promise too much; a short one does not
(3 % more instructions of FastAPI's json are 3 % more of its time), and the 0.4 points to which
eight duets know a size would spoil it."""

WALK_STEPS: Final = 100
WALK_DUETS: Final = 16
"""How long a walk through memory is timed, and by how many duets: what a step of it costs no count
can say."""

MEMORY_METRIC: Final = "pss_steady"

LONGER: Final = 8
"""Characters that head's paths are longer in every other trial. Long ones take memory: 160 more
take 0.2 MB a process, which no two sides of a real comparison differ by."""

FRESH: Final = Installation(path=0, padding=0, interpreter=True)
"""Base is a copy too, whose files no other process has open: what processes share of a file counts
for each a part, so that the original would seem smaller while anybody else runs it."""

CALIBRATION: Final = Installation(path=0, padding=0, interpreter=False)
"""What a plant is tried out in: its size does not depend on where the interpreter is."""

_COUNT_SECONDS: Final = 300.0  # limit; it takes about 20 s
_PROGRAM_SECONDS: Final = 60.0  # limit; it takes a second or so
_TIME_REQUEST: Final = """
import sys, time
from benchmarks import _requests
call = _requests.open_request(sys.argv[1])
call()  # imports what the handler needs: the second says how long one takes
began = time.perf_counter()
call()
number = max(1, min(1000, round(0.3 / (time.perf_counter() - began))))
def once():
    began = time.process_time()
    for _ in range(number):
        call()
    return (time.process_time() - began) / number
print(min(once() for _ in range(9)))
"""
"""Prints the CPU seconds of one request: the least of nine means of up to 1,000 requests, of fewer
where a request waits, so that a mean takes about 0.3 s."""

_COUNTED_KINDS: Final = ("busy", "dependency")  # their instructions predict a size


@dataclass(frozen=True, slots=True)
class Task:
    """One trial to be made: what is planted in the first of the cases, and how much."""

    kind: Kind
    size: float
    cases: tuple[str, ...]
    budget: float | None
    seed: int
    follow_up: bool = False
    inside: bool = False  # benchmarks inside the process are compared, too

    def __str__(self) -> str:
        """What is planted, how much, and where."""
        return "A/A" if self.kind == "aa" else f"{self.kind} {self.size:g} in {self.cases[0]}"


def chosen(globs: Sequence[str], profile: Profile = "quick") -> tuple[Case, ...]:
    """The cases that globs select, in the order of their declaration.

    Raises:
        UsageError: A glob selects none.
    """
    cases = experiments.expand_all(Project.here().experiments, profile)
    names = [case.id for case in cases]
    found = {glob: fnmatch.filter(names, glob) for glob in globs or ("*",)}
    for glob in [glob for glob in found if not found[glob]]:
        raise UsageError(f"--select {glob!r} selects no case of the profile {profile}")
    return tuple(case for case in cases if any(case.id in many for many in found.values()))


class Bench:
    """Makes trials, and remembers what it has calibrated."""

    def __init__(
        self,
        cases: Sequence[Case],
        scratch: Path,
        reporter: Reporter,
        instruments: Instruments | None = None,
    ) -> None:
        """Prepare for cases; `scratch` is for changed copies, and the caller's to remove."""
        self.cases = {case.id: case for case in cases}
        self.scratch, self.reporter = scratch, reporter
        logs = paths.state_dir() / "logs"
        self.rig = testbed.assemble(Project.here(), cases, logs)
        self.instruments = instruments or Real(logs)
        # With these, both sides are played as they are.
        self._still = instruments or Real(logs, copies=0)
        self.commit, self.dirty = runner.revision(paths.project_root())
        self._costs: dict[str, dict[str, float]] = {}
        self._shares: dict[str, float] = {}
        self._lines: dict[tuple[Kind, str], tuple[float, float]] = {}
        self._calibrated: dict[tuple[Kind, str, float], int] = {}

    def trial(self, task: Task, again: str | None = None) -> Trial:
        """Make one, with a second installation of its own; `again`: the id of one like it.

        Raises:
            InterruptedRun: The comparison was stopped: there is no trial.
            NothingMeasuredError: The calibration found no usable launch.
            SetupError: There is no second installation.
        """
        cases = tuple(self.cases[name] for name in task.cases)
        planted = cases[0]
        amount = self._amount(planted, task)
        made = Installation(path=LONGER * (task.seed % 2), padding=0, interpreter=True)
        with self._sides(task.kind, cases, amount, made, beside=FRESH) as (base, head):
            compared = self._compare(cases, base, head, task)
        trial = of_comparison(
            compared, task.kind, size=task.size,
            planted="" if task.kind == "aa" else planted.id,
            share=self._share(planted) if task.kind in _COUNTED_KINDS else None,
        )  # fmt: skip
        return trial.model_copy(update={"installation": made, "again": again})

    def offset(self, number: int, duets: int, began: str, *, same: bool = False) -> Offset:
        """Hold the installation of a number against the original, by so many duets of each case.

        `same`: the original itself.

        Raises:
            SetupError: There is no such installation.
        """
        made = None if same else installations.drawn(number)
        cases = tuple(self.cases.values())
        started = runner.utc_now()
        itself = nullcontext((self.rig, self.rig))
        with self._sides("aa", cases, 0, made) if made else itself as sides:
            ratios = {case.id: self._ratios(case, sides, duets) for case in cases}
        return Offset(
            session=began, installation=made, machine=self.rig.machine.id, commit=self.commit,
            started=started, ratios=ratios,
        )  # fmt: skip

    def _compare(
        self, cases: tuple[Case, ...], base: testbed.Rig, head: testbed.Rig, task: Task
    ) -> Comparison:
        def side(name: str, of: testbed.Rig) -> Side:
            record = SideRecord(
                label=name, kind="revision", commit=self.commit, dirty=self.dirty,
                stacks=tuple(stack.record() for stack in of.stacks.values()), interpreters=(),
            )  # fmt: skip
            return Side(record, of, cases, Project(of.apps.parent))

        sides = side("base", base), side(str(task), head)
        pairs = tuple(Pair(case, case, "self-test") for case in cases)
        question = Question(
            *sides, Affected(pairs, 0, (), ()), task.budget, task.seed,
            notes=("a self-test: the right answer is known",), follow_up=task.follow_up,
        )  # fmt: skip
        equipment = session.Equipment(self.instruments, folder=self.scratch / "comparisons")
        return session.compare(question, self.reporter, equipment)

    @contextmanager
    def _sides(
        self,
        kind: Kind,
        cases: Sequence[Case],
        amount: int,
        made: Installation = CALIBRATION,
        beside: Installation | None = None,
    ) -> Iterator[tuple[testbed.Rig, testbed.Rig]]:
        """Base, or a copy of it, and a second installation, which has a plant; removed after."""
        pairs, planted = {(case.stack, case.python) for case in cases}, cases[0]
        with tempfile.TemporaryDirectory(dir=self.scratch, ignore_cleanup_errors=True) as name:
            base, folder = self.rig, Path(name)
            head = installations.install(base, pairs, made, folder / "head")
            if beside is not None:
                base = installations.install(base, pairs, beside, folder / "base")
            if kind == "dependency":
                python = head.pythons[planted.stack, planted.python]
                injected.into_dependency(python.parent.parent, planted, amount)
            elif kind != "aa":
                injected.INTO[kind](head.apps, planted, amount)
            if kind == "cache":
                apps = folder / "near" / "apps"
                shutil.copytree(base.apps, apps, ignore=shutil.ignore_patterns("__pycache__"))
                injected.into_walk(apps, planted, amount, injected.NEAR)
                base = replace(base, apps=apps)
            yield base, head

    def _amount(self, case: Case, task: Task) -> int:
        """How much to plant: bytes, requests at once, ten-thousandths, or steps of a loop."""
        match task.kind:
            case "aa":
                return 0
            case "memory":
                return round(task.size * self._cost(case)[MEMORY_METRIC])
            case "queue":
                return round(task.size)
            case "wait":
                return round(task.size * 10_000)
            case _:
                return self._steps(case, task)

    def _steps(self, case: Case, task: Task) -> int:
        """Steps of an empty loop that let the case's CPU per request grow by the task's size.

        Raises:
            NothingMeasuredError: Instructions cannot be counted, or no duet was usable.
        """
        kind, size = task.kind, task.size
        key = (kind, case.id, size)
        if key not in self._calibrated:
            if kind == "cache":
                steps, duets = WALK_STEPS, WALK_DUETS
            else:
                # As many instructions more of the application's as `size` of all CPU.
                besides, step = self._line(kind, case)
                steps = max(1, round((size / self._share(case) - besides) / step))
                duets = CALIBRATION_DUETS if size >= CALIBRATED_FROM else 0
            grown = self._grown(kind, case, steps, duets) if duets else size
            if grown <= 0:
                raise NothingMeasuredError(
                    f"{case.id}: expected {steps} steps of a loop to cost CPU, and {duets} duets "
                    f"show {grown:+.1%}"
                )
            self._calibrated[key] = max(1, round(steps * size / grown))
        return self._calibrated[key]

    def _line(self, kind: Kind, case: Case) -> tuple[float, float]:
        """Growth of the application's instructions by a loop, relative: besides, and by a step."""
        if (kind, case.id) not in self._lines:
            few, many = (self._more(kind, case, steps) for steps in COUNTED_STEPS)
            slope = (many - few) / (COUNTED_STEPS[1] - COUNTED_STEPS[0])
            self._lines[kind, case.id] = (few - slope * COUNTED_STEPS[0], slope)
        return self._lines[kind, case.id]

    def _more(self, kind: Kind, case: Case, steps: int) -> float:
        """Growth of the application's instructions per request by a loop, relative."""
        with self._sides(kind, (case,), steps) as (base, head):
            pair = (SideCase(case, base), SideCase(case, head))
            (found,) = self.instruments.instructions([pair], _COUNT_SECONDS)
        if isinstance(found, str):
            raise NothingMeasuredError(f"{case.id}: its instructions have to be counted: {found}")
        return found.head / found.base - 1

    def _grown(self, kind: Kind, case: Case, steps: int, duets: int) -> float:
        """Growth of the CPU per request that duets show for so many steps; 0 without any."""
        with self._sides(kind, (case,), steps) as sides:
            ratios = self._ratios(case, sides, duets)
        return math.expm1(fmean(map(math.log, ratios))) if ratios else 0.0

    def _ratios(
        self, case: Case, sides: tuple[testbed.Rig, testbed.Rig], duets: int
    ) -> tuple[float, ...]:
        """CPU per request, head over base, of a case's duets, as far as they are usable."""
        base, head = (SideCase(case, rig) for rig in sides)
        ratios = []
        for number in range(duets):
            (outcome,) = self._still.duets([(base, head)], head_first=number % 2 == 1)
            before, after = outcome.metrics["base"], outcome.metrics["head"]
            if before and after:
                ratios.append(after[CPU_METRIC] / before[CPU_METRIC])
        return tuple(ratios)

    def _cost(self, case: Case) -> dict[str, float]:
        """Figures of the case as it is: of each metric the least of a few launches."""
        if case.id not in self._costs:
            plain = SideCase(case, self.rig)
            outcomes = [self.instruments.launch(plain) for _ in range(CALIBRATION_LAUNCHES)]
            usable = [one.metrics for one in outcomes if one.metrics]
            if not usable:
                reasons = "; ".join(str(flag.detail) for one in outcomes for flag in one.flags)
                raise NothingMeasuredError(f"{case.id}: no launch to calibrate by: {reasons}")
            self._costs[case.id] = {
                name: min(one[name] for one in usable) for name in (CPU_METRIC, MEMORY_METRIC)
            }
        return self._costs[case.id]

    def _share(self, case: Case) -> float:
        """Part of the case's CPU per request that its application takes without a server."""
        if case.id not in self._shares:
            self._shares[case.id] = self._timed(case) / self._cost(case)[CPU_METRIC]
        return self._shares[case.id]

    def _timed(self, case: Case) -> float:
        """CPU seconds of one request without a server, on the case's server cores.

        Raises:
            SetupError: They cannot be measured.
        """
        name = f"{case.experiment}/{case.endpoint.name}"
        python = self.rig.pythons[case.stack, case.python]
        cores = ",".join(map(str, self.rig.server_cores(case)))
        pinned = ["taskset", "-c", cores] if self.rig.machine.pinned else []
        root = str(paths.project_root())
        try:
            done = subprocess.run(
                [*pinned, str(python), "-P", "-c", _TIME_REQUEST, name],
                env={
                    **os.environ,
                    **case.env,
                    "PYTHONPATH": root,
                    "DUETBENCH_CHECKOUT": root,
                    "DUETBENCH_STACK": case.stack,
                },
                capture_output=True, text=True, check=True, timeout=_PROGRAM_SECONDS,
            )  # fmt: skip
            return float(done.stdout)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            said = getattr(error, "stderr", None) or ""
            raise SetupError(f"{case.id}: cannot time its code: {error} {said[-300:]}") from error
