"""Real servers, generators and counters; several copies of each side take turns.

An installation is a sample, like a launch: its files have the same places in memory in all of its
launches, so two installations of the same packages differ permanently (docs/decides.md has the
figures). More duets between the same two installations do not average that out; duets between
different ones do. A copy has its own files of what processes map into memory, and else links.
"""

from __future__ import annotations

import shutil
import weakref
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Final

from duetbench.app.configuration import Interpreter
from duetbench.app.testbed import SideCase, Testbed, server_of
from duetbench.core.comparison import SIDES, Curve, Duet, Instructions, SideName
from duetbench.core.model import Launch
from duetbench.core.protocol import WINDOW_SECONDS
from duetbench.counts import counted
from duetbench.host import cache, command, paths, proc
from duetbench.judge.duet_loop import by_turns
from duetbench.load import duet, launch, soak, start

COPIES: Final = 6
"""Copies of each side: as many as the duets of the first look."""

ROOM_GB: Final = 5.0
"""Free space below which nothing is copied, 10⁹ bytes: a copy has about 0.1."""

_PREFIX: Final = "rotation"
_PROGRAMS: Final = "bin"


class Real:
    """Instruments that really measure; `duet_loop.Instruments` describes the methods."""

    def __init__(self, logs: Path) -> None:
        """Keep server logs in a folder of this comparison, in `compare` below `logs`."""
        self._folder = logs / "compare" / f"{datetime.now(UTC):%Y%m%dT%H%M%S%f}"
        self._folder.mkdir(parents=True)
        self._numbers, self._rotation = count(), Rotation()
        paths.keep_newest_logs(self._folder.parent)

    def duets(
        self, pairs: Sequence[tuple[SideCase, SideCase]], *, head_first: bool, order: int
    ) -> tuple[Duet, ...]:
        log = self._logs(pairs[0][1].case.id)
        base, head = self._rotation.turn(*pairs[0])  # all pairs share a server, so a testbed
        pairs = [
            (replace(below, testbed=base), replace(above, testbed=head)) for below, above in pairs
        ]
        return duet.perform(pairs, log, head_first=head_first, order=order)

    def launch(self, side: SideCase) -> Launch:
        log, window = self._logs(side.case.id)("head"), WINDOW_SECONDS["quick"]
        return launch.perform(side.case, side.testbed, log, window=window)

    def soak(self, side: SideCase, name: SideName, seconds: float) -> Curve:
        log = self._logs(side.case.id)(name)
        return soak.perform(side.case, side.testbed, log, seconds)

    def instructions(
        self, sides: tuple[SideCase, SideCase], limit: float, ends: float
    ) -> Instructions | str:
        return counted.instructions(sides, limit, ends)

    def _logs(self, case: str) -> Callable[[SideName], Path]:
        stem = f"{next(self._numbers):04d}-{case.replace('/', '_')}"
        return lambda side: self._folder / f"{stem}-{side}.log"


class Starts(Real):
    """Instruments whose duet is one start of each side, alone; cases share no start."""

    def duets(
        self, pairs: Sequence[tuple[SideCase, SideCase]], *, head_first: bool, order: int
    ) -> tuple[Duet, ...]:
        duets = []
        step = -1 if head_first else 1
        for number, pair in enumerate(pairs, order):
            log, beds = self._logs(pair[1].case.id), self._rotation.turn(*pair)
            sides = [*zip(SIDES, pair, beds, strict=True)][::step]
            starts = [start.perform(replace(side, testbed=bed), log(name))
                      for name, side, bed in sides]  # fmt: skip
            duets.append(by_turns(*starts[::step], head_first=head_first, order=number))
        return tuple(duets)


class Rotation:
    """Gives each duet another pair of copies, and removes them at the end of the program."""

    def __init__(self, copies: int = COPIES) -> None:
        self.copies = copies
        self._made: dict[Hashable, Path] = {}
        self._turns: Counter[Hashable] = Counter()
        base = paths.cache_dir()
        base.mkdir(parents=True, exist_ok=True)
        proc.sweep_scratch(_PREFIX, base)
        if command.free_gb(base) < ROOM_GB:
            self.copies = 0
        self._folder = proc.make_scratch(_PREFIX, base)
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
    return side.testbed.pythons[side.case.stack, side.case.python], server_of(side.case)


def mirror(source: Path, target: Path) -> None:
    """Copy a folder's files that processes map, programs and libraries, and link to the rest."""
    files = (*source.rglob(f"{_PROGRAMS}/*"), *source.rglob("*.so*"))
    mapped = {file for file in files if file.is_file() and not file.is_symlink()}
    inside = {folder for file in mapped for folder in file.relative_to(source).parents}
    for folder in sorted({Path(), *inside}):
        (target / folder).mkdir()
        for place in (source / folder).iterdir():
            there = target / folder / place.name
            if place in mapped:
                shutil.copy2(place, there)
            elif place.is_symlink() and not place.readlink().is_absolute():
                there.symlink_to(place.readlink())
            elif folder / place.name not in inside:
                there.symlink_to(place)
