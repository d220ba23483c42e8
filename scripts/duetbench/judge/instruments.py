"""Real servers, generators and counters; several copies of each side take turns.

An installation is a sample, like a launch: its files have the same places in memory in all of its
launches, so two installations of the same packages differ permanently (docs/decides.md has the
figures). More duets between the same two installations do not average that out; duets between
different ones do. A copy has its own files of what processes map into memory, and else links.
"""

from __future__ import annotations

import os
import shutil
import time
import weakref
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Final

from duetbench.app.interpreters import Interpreter
from duetbench.app.testbed import SideCase, Testbed
from duetbench.core.comparison import Duet, SideName
from duetbench.core.errors import FlagName
from duetbench.core.model import Launch
from duetbench.counts.counted import instructions
from duetbench.host import cache, command, paths, tree_usage
from duetbench.judge.pairs import Mode, Pair, server_of
from duetbench.load import duet, launch, verify
from duetbench.load.loads import duet_load
from duetbench.load.server import Serving

COPIES: Final = 6
"""Copies of each side: as many as the duets of the first look."""

ROOM_GB: Final = 5.0
"""Free space below which nothing is copied, 10⁹ bytes: a copy has about 0.1."""

_PROGRAMS: Final = "bin"
_PORT_SECONDS: Final = 0.002  # between looks at a port: 0.4 % of half a second


class Real:
    """All that starts a process for a comparison; tests have others in its place."""

    def __init__(self) -> None:
        self._numbers = count()

    @cached_property
    def _folder(self) -> Path:
        """The folder for the logs of this comparison."""
        logs = paths.state_dir() / "logs" / "compare"
        folder = logs / f"{datetime.now(UTC):%Y%m%dT%H%M%S%f}"
        folder.mkdir(parents=True)
        paths.keep_newest_logs(logs)
        return folder

    @cached_property
    def _rotation(self) -> Rotation:
        return Rotation()

    def duets(self, pairs: Sequence[Pair], *, head_first: bool, order: int) -> tuple[Duet, ...]:
        """Take a sample of each pair in their order, at least of the first, numbered from `order`.

        All pairs are equal by `Pair.server`, and duets share one launch of each side. A failure
        ends the launch, so there may be fewer duets than pairs. Raises nothing but
        `InterruptedRun`, like the others.
        """
        first = pairs[0]  # all pairs share a server, so a testbed
        below, above = self._rotation.turn(*first.sides)
        sides = [
            (replace(pair.base, testbed=below), replace(pair.head, testbed=above)) for pair in pairs
        ]
        log = self._logs(first.case.id)
        if first.mode is Mode.TOGETHER:
            return duet.perform(sides, log, head_first=head_first, order=order)
        perform = start if first.mode is Mode.START else launch.perform

        def alone(side: SideCase) -> Launch:
            return perform(side, self._logs(side.case.id)("head"))

        return (by_turns(*sides[0], alone, head_first=head_first, order=order),)

    instructions = staticmethod(instructions)

    def _logs(self, case: str) -> Callable[[SideName], Path]:
        stem = f"{next(self._numbers):04d}-{case.replace('/', '_')}"
        return lambda side: self._folder / f"{stem}-{side}.log"


def start(side: SideCase, log: Path) -> Launch:
    """Start a side's server, until its first right answer, and end it. Raises `InterruptedRun`.

    Nothing is loaded and nothing runs beside it, so that a minute has twenty pairs and more. Core
    time includes what commands that the application has waited for took.
    """
    figures: dict[str, float] = {}
    with Serving(side, log) as serving, serving.blamed():
        serving.start()
        serving.await_port(_PORT_SECONDS)
        serving.log_in()
        with verify.connect(serving.port, serving.case.ready_timeout) as connection:
            verify.ask(connection, serving.request, serving.request.path, ", the first request")
        seconds = time.monotonic() - serving.session.started
        if serving.case.workers > 1:  # the others may still start
            serving.meet()
        tree, memory = serving.edge(), tree_usage.memory_of(serving.session.members)
        serving.meet()
        figures = {
            "start_cpu": tree.cpu,
            "start_time": seconds,
            "import_time": serving.import_time,
            "pss_start": memory.pss,
        }
    return serving.result(figures)


def by_turns(
    base: SideCase,
    head: SideCase,
    launch: Callable[[SideCase], Launch],
    *,
    head_first: bool,
    order: int,
) -> Duet:
    """Launch each side alone, one right after the other, with the load of a duet.

    As in a duet, an unsteady launch is accepted, because the other side's launch just before or
    after it drifts alike.
    """
    step = -1 if head_first else 1
    sides = [
        replace(side, case=side.case.model_copy(update={"load": duet_load(side.case)}))
        for side in (base, head)
    ]
    launches = [launch(side) for side in sides[::step]]
    before, after = launches[::step]
    flags = [
        tuple(flag for flag in side.flags if flag.name != FlagName.NOT_STEADY)
        for side in (before, after)
    ]
    void = any(flag.kind == "void" for some in flags for flag in some)
    return Duet(
        case=head.case.id,
        order=order,
        head_first=head_first,
        seconds=before.seconds + after.seconds,
        flags_base=flags[0],
        flags_head=flags[1],
        alone=True,
        base={} if void else before.metrics,
        head={} if void else after.metrics,
    )


class Rotation:
    """Gives each duet another pair of copies, and removes them at the end of the program."""

    def __init__(self, copies: int = COPIES) -> None:
        self.copies = copies
        self._made: dict[Hashable, Path] = {}
        self._turns: Counter[Hashable] = Counter()
        base = paths.cache_dir()
        base.mkdir(parents=True, exist_ok=True)
        paths.sweep_scratch(base)
        if command.free_gb(base) < ROOM_GB:
            self.copies = 0
        self._folder = paths.make_scratch(base)
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)

    def turn(self, base: SideCase, head: SideCase) -> tuple[Testbed, Testbed]:
        """Return the testbeds of both sides for the next duet of these cases."""
        if not self.copies:
            return base.testbed, head.testbed
        pair = _installation(base), _installation(head)
        turn = self._turns[pair]
        self._turns[pair] += 1
        # Each round of copies gets other partners.
        other = (turn + turn // self.copies) % self.copies
        return self._copy("base", base, turn % self.copies), self._copy("head", head, other)

    def _copy(self, side: SideName, part: SideCase, number: int) -> Testbed:
        testbed, stack, name = part.testbed, part.case.stack, part.case.python
        copy = side, number
        executable = self._interpreter(copy, testbed.interpreters[name])
        original = testbed.pythons[stack, name].parent.parent
        environment = self._once((copy, original), original)
        python, settings = environment / "bin" / "python", environment / "pyvenv.cfg"
        if python.readlink() != executable:
            python.unlink()
            python.symlink_to(executable)
            lines = settings.read_text("utf-8").splitlines()
            settings.unlink()  # it was a link
            home = f"home = {executable.parent}"
            lines = [home if line.startswith("home = ") else line for line in lines]
            settings.write_text("\n".join(lines) + "\n", "utf-8")
        return replace(testbed, pythons={**testbed.pythons, (stack, name): python})

    def _interpreter(self, copy: Hashable, interpreter: Interpreter) -> Path:
        """Return the executable of a copy; the original if set-up did not install it."""
        original = interpreter.executable.resolve()
        if not any((above / cache.STAMP).is_file() for above in original.parents):
            return original
        prefix = original.parent.parent
        return self._once((copy, prefix), prefix) / "bin" / original.name

    def _once(self, key: Hashable, original: Path) -> Path:
        if key not in self._made:
            # Names are equally long, so that paths are as well.
            place = self._folder / f"{len(self._made):04d}"
            mirror(original, place)
            self._made[key] = place
        return self._made[key]


def _installation(side: SideCase) -> Hashable:
    return side.python, server_of(side.case)


def mirror(source: Path, target: Path) -> None:
    """Copy a folder's files that processes map, programs and libraries, and link to the rest."""

    def place(file: str, there: str) -> None:
        mapped = Path(file).parent.name == _PROGRAMS or ".so" in Path(file).name
        (shutil.copy2 if mapped else os.symlink)(file, there)

    shutil.copytree(source, target, symlinks=True, copy_function=place)
